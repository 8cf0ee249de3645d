"""An index in memory and in its file."""

from __future__ import annotations

import copy
import dataclasses
import tracemalloc
from pathlib import Path

import netCDF4
import numpy as np
import pyarrow.parquet
import pytest

from cfagg.arrays.index import FileState, Index, build_index, open_index, write_index
from cfagg.arrays.index.parquet import _sealed, _unsealed
from cfagg.arrays.index.rows import FileRow, VariableRow
from cfagg.arrays.index.schema import COLUMNS, VERSION
from cfagg.arrays.index.table import Collected
from cfagg.errors import SourceError
from cfagg.formats.values import read
from cfagg.storage.files import CONTEXT_SOURCE
from cfagg.storage.handles import handles

from .cases import numbers, write

PACKINGS = [
    {"zlib": True, "chunksizes": (1, 2, 5)},
    {"contiguous": True},
    {"zlib": True, "shuffle": False, "fletcher32": True, "chunksizes": (2, 4, 3)},
    {"chunksizes": (1, 4, 6), "endian": "big", "dtype": ">f4"},
    {"format": "NETCDF3_CLASSIC"},
    {"format": "NETCDF3_64BIT_DATA", "unlimited": True},
    {"unlimited": True, "zlib": True},
]


@pytest.mark.parametrize("how", PACKINGS, ids=str)
def test_what_an_index_says_is_what_the_file_has(tmp_path: Path, how: dict[str, object]) -> None:
    values = numbers(3, 4, 6)
    path = write(tmp_path / "a.nc", values, **how)  # type: ignore[arg-type]
    write_index(build_index([(str(path), "tas")]), tmp_path / "x")
    index = open_index(tmp_path / "x")
    found = index.stored(index.row(0, "tas"), handles.get(str(path)).key, "tas")
    assert found is not None
    assert np.array_equal(read(found, [slice(0, 3, 1), slice(0, 4, 1), slice(0, 6, 1)], CONTEXT_SOURCE), values)
    assert found.header.attributes == {"units": "K"}
    assert index.digest[0] is not None


def test_files_descriptions_and_digests_come_back(tmp_path: Path) -> None:
    rows = [
        FileRow(str(tmp_path / "a.nc"), FileState(3, 1, 2, 3), b"d" * 16, (0, 3), (), b"about a"),
        FileRow("https://x.org/b.nc", FileState(4, etag='"7"'), None, (), ()),
    ]
    write_index(Index.of(rows, "", shared=b"all", aggregation="00ff"), tmp_path / "x")
    found = open_index(tmp_path / "x")
    assert [found.rows(i)._replace(path=found.where(i)) for i in range(2)] == rows
    assert found.path == ("a.nc", "https://x.org/b.nc")
    assert (found.shared, found.aggregation) == (b"all", "00ff")


def test_chunks_that_were_never_written_have_their_fill_value(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 10)
        made = ds.createVariable("v", "i2", ("x",), chunksizes=(2,), fill_value=-7)
        made[4:6] = [1, 2]
    index = build_index([(str(tmp_path / "a.nc"), "v")])
    found = index.stored(0, handles.get(str(tmp_path / "a.nc")).key, "v")
    assert found is not None
    assert index.cell[0].tolist() == [2]
    assert read(found, [slice(3, 6, 1)], CONTEXT_SOURCE).tolist() == [-7, 1, 2]


def test_files_that_did_not_change_are_not_parsed_again(tmp_path: Path) -> None:
    places = [(str(write(tmp_path / f"{k}.nc", numbers(1, 2, 2, seed=k))), "tas") for k in range(3)]
    first = build_index(places)
    write(tmp_path / "1.nc", numbers(1, 3, 3))
    marked = dataclasses.replace(first, headers=[h.replace("lat", "LAT") for h in first.headers])
    again = build_index(places, previous=marked)
    assert ["LAT" in again.headers[k] for k in again.header] == [True, False, True]
    assert again.shape[1].tolist() == [1, 3, 3]


def test_the_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    write_index(build_index([(str(write(tmp_path / "a.nc", numbers(1, 2, 2))), "tas")]), tmp_path / "x")
    schema = pyarrow.parquet.read_schema(tmp_path / "x")
    assert [(f.name, str(f.type).replace("element: ", "").replace("item: ", "")) for f in schema] == [
        (c.name, c.type) for c in COLUMNS
    ]


@pytest.mark.parametrize("change", [b"", b"PAR1", b"no index at all, but long enough to have a footer"], ids=len)
def test_what_is_no_index_is_refused(tmp_path: Path, change: bytes) -> None:
    (tmp_path / "x").write_bytes(change)
    with pytest.raises(SourceError, match="not an index written by cfagg"):
        open_index(tmp_path / "x")


def test_damage_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    write_index(build_index([(str(write(tmp_path / "a.nc", numbers(1, 2, 2))), "tas")]), tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    for at in np.random.default_rng(1).integers(0, len(data), 200).tolist():
        (tmp_path / "x").write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(SourceError):
            open_index(tmp_path / "x")


def test_the_page_has_the_columns_of_the_schema() -> None:
    page = (Path(__file__).parents[3] / "docs" / "byte_offset_index.md").read_text(encoding="utf-8")
    rows = [
        f"| `{c.name}` | {c.type} | {'yes' if c.nullable else 'no'} | {c.meaning} |" for c in COLUMNS
    ]  # fmt: skip
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
    assert f"the version of\nthis schema, {VERSION}," in page


def test_a_footer_that_somebody_wrote_to_do_harm_is_refused(tmp_path: Path) -> None:
    write_index(build_index([(str(write(tmp_path / "a.nc", numbers(1, 2, 2))), "tas")]), tmp_path / "x")
    plain = _unsealed((tmp_path / "x").read_bytes())
    rng, refused = np.random.default_rng(3), 0
    for at in rng.integers(len(plain) - 3000, len(plain) - 8, 60).tolist():
        (tmp_path / "x").write_bytes(_sealed(plain[:at] + bytes([int(rng.integers(256))]) + plain[at + 1 :]))
        try:
            open_index(tmp_path / "x")
        except SourceError:
            refused += 1
    assert refused > 30


def test_pages_that_are_not_where_the_footer_says_are_refused(tmp_path: Path) -> None:
    write_index(build_index([(str(write(tmp_path / "a.nc", numbers(1, 2, 2))), "tas")]), tmp_path / "x")
    plain = _unsealed((tmp_path / "x").read_bytes())
    (tmp_path / "x").write_bytes(_sealed(b"PAR1" + b"\0" * 9 + plain[4:]))
    with pytest.raises(SourceError, match="footer is damaged"):
        open_index(tmp_path / "x")


def some_rows(folder: Path, count: int, variables: int = 2) -> list[FileRow]:
    """Return rows of files of different variables, of which every fifth has none."""
    rng = np.random.default_rng(5)
    rows = []
    for k in range(count):
        made = []
        for v in range(variables if k % 5 else 0):
            n = int(rng.integers(1, 4))
            cell = np.arange(n) * 2 if v % 2 else None
            offset, mask = rng.integers(0, 50, n), None if k % 2 else np.arange(n)
            header = f'{{"path":"v{v % 3 + k % 2}"}}'
            made.append(VariableRow(f"v{v}", header, (6, 2), (1, 2), 0, cell, offset, np.full(n, 5), mask))
        about = b"about" if k % 3 else None
        rows.append(FileRow(str(folder / f"{k}.nc"), FileState(99, k, 2, 3), None, (), tuple(made), about))
    return rows


def as_text(found: Index) -> list[str]:
    """Return what an index says of its files."""
    return [repr(found.rows(i)._replace(path=found.where(i))) for i in range(len(found))]


def test_rows_that_come_in_any_order_are_an_index_in_that_of_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfagg.arrays.index.table._TOGETHER", 4)
    rows, collected = some_rows(tmp_path, 23), Collected()
    for n in np.random.default_rng(2).permutation(23).tolist():
        collected.add(rows[n], 3 * n)
    found = collected.index(shared=b"all")
    assert as_text(found) == as_text(Index.of(rows))
    assert (found.shared, found.files) == (b"all", {row.path: n for n, row in enumerate(rows)})


class Counted(list):
    """Texts that count how often one is looked at."""

    looks = 0

    def __getitem__(self, k):
        self.looks += 1
        return super().__getitem__(k)


def test_variables_of_a_file_with_many_are_found_without_a_search_for_each() -> None:
    none, one = np.empty(0, np.int64), np.zeros(1, np.int64)
    rows = [VariableRow(f"@{64 * k}", "{}", (), (), 0, none, one, one, none) for k in range(500)]
    index = Index.of([FileRow("/a.pp", FileState(9), None, (), tuple(rows))])
    index = dataclasses.replace(index, address=Counted(index.address))
    assert [index.row(0, row.address) for row in rows] == list(range(500))
    assert index.row(0, "@1") == -1
    assert index.address.looks <= 2 * len(rows)


def test_an_index_of_no_files_is_collected_and_written(tmp_path: Path) -> None:
    write_index(Collected().index(), tmp_path / "x")
    assert len(open_index(tmp_path / "x")) == 0


def test_some_files_of_an_index_in_another_order(tmp_path: Path) -> None:
    rows = some_rows(tmp_path, 12)
    taken = Index.of(rows).take(np.array([7, 0, 5, 11]))
    assert as_text(taken) == as_text(Index.of([rows[k] for k in (7, 0, 5, 11)]))


def test_an_index_of_several_groups_of_rows_is_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Index.of(some_rows(tmp_path, 23), shared=b"all")
    monkeypatch.setattr("cfagg.arrays.index.parquet._GROUP", 40)
    write_index(made, tmp_path / "x")
    assert pyarrow.parquet.ParquetFile(tmp_path / "x").num_row_groups > 4
    found = open_index(tmp_path / "x")
    assert as_text(found) == as_text(made)
    assert found.shared == b"all"


def test_rows_that_are_collected_take_little_memory(tmp_path: Path) -> None:
    rows = [*some_rows(tmp_path, 512, 8)]
    collected = Collected()
    tracemalloc.start()
    try:
        for n in range(5120):
            row = rows[n % 512]
            collected.add(row._replace(path=f"{row.path}{n}", variables=tuple(map(copy.copy, row.variables))), n)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / 5120 < 2500
