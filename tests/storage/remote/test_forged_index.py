"""An index that was forged to have other places read: files, devices and servers that the references do not name.

What is opened is watched, and the servers are real ones that count their requests.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import cfagg
from cfagg.arrays.index import Index, open_index, write_index
from cfagg.arrays.index.parquet import DamagedIndexError, _sealed, _unsealed
from cfagg.arrays.index.rows import Ragged
from cfagg.errors import AccessError, CfaggError, StaleIndexWarning
from tests.aggregation.months import months
from tests.nca_files import fragment
from tests.observations.servers import Server, served

from .test_fragments import parted

COUNT = 8
VALUES = np.arange(2.0 * COUNT, dtype="f4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An aggregation with its index, beside a directory that it may not read, of files that look the same."""
    for place, shift in (("own/data", 0), ("secret", 100)):
        (tmp_path / place).mkdir(parents=True)
        for i in range(COUNT):
            how = {"chunksizes": (2,), "zlib": True} if i % 2 else {}
            fragment(tmp_path / place / f"{i}.nc", "v", VALUES[2 * i : 2 * i + 2] + shift, ["x"], **how)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with served(folder) as made:
        made.dated = True
        yield made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all that is opened from now on."""
    found: list[str] = []
    before = os.open

    def watched(path: Any, *args: Any, **how: Any) -> int:
        fd = before(path, *args, **how)
        found.append(os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else str(path))  # noqa: PTH112, PTH115
        return fd

    monkeypatch.setattr(os, "open", watched)
    return found


def forge(path: Path, /, **columns: Any) -> Index:
    """Write other columns into the index of an aggregation file, with a checksum that is right."""
    name = f"{path}.cfagg-index"
    made = dataclasses.replace(open_index(name), **columns, _parsed={})
    write_index(made, name)
    return made


def read(path: Path | str, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        return cfagg.read(path, **how).v.values


@pytest.mark.parametrize("kind", ["file", "device", "proc", "fifo", "server", "metadata service"])
def test_rows_of_other_places_are_never_opened(folder: Path, server: Server, opened: list[str], kind: str) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    os.mkfifo(folder / "fifo")
    places = {
        "file": [str(folder / "secret" / f"{i}.nc") for i in range(COUNT)],
        "device": [f"/dev/{n}" for n in ("zero", "random", "stdin", "full", "tty", "mem", "kmsg", "null")],
        "proc": [f"/proc/self/{n}" for n in ("environ", "mem", "maps", "cmdline", "fd/0", "fd/1", "root/etc", "cwd")],
        "fifo": [str(folder / "fifo"), *(str(folder / "own" / ".." / "secret" / f"{i}.nc") for i in range(1, COUNT))],
        "server": [f"{server.url}/secret/{i}.nc" for i in range(COUNT)],
        "metadata service": [f"http://169.254.169.254/latest/{i}" for i in range(COUNT)],
    }[kind]  # fmt: skip
    forge(path, path=tuple(places))
    opened.clear()
    assert np.array_equal(read(path), VALUES)
    assert np.array_equal([read(path)[k] for k in (0, 3)], VALUES[[0, 3]])
    assert cfagg.index(path).files == COUNT  # what was forged is not looked into to refresh it
    assert np.array_equal(read(path), VALUES)
    assert not server.seen
    assert [name for name in opened if "secret" in name or name.startswith(("/dev", "/proc")) or "fifo" in name] == []


@pytest.mark.parametrize(
    ("old", "new"), [('"attributes":{}', '"attributes":{"units":"m"}'), ('"<f4"', '"<i8"'), ('"<f4"', '"|S1"')]
)
def test_an_error_by_a_description_in_an_index_names_the_index_and_how_to_build_it_anew(
    folder: Path, old: str, new: str
) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    name = Path(f"{path}.cfagg-index")
    forge(path, headers=tuple(header.replace(old, new) for header in open_index(name).headers))
    for ask in (slice(None), [3]):
        with pytest.raises(CfaggError, match=rf"by the index {name}: .* remove that and run cfagg index again"):
            cfagg.read(path).v[ask].load()
    name.unlink()
    cfagg.index(path)
    assert np.array_equal(cfagg.read(path).v, VALUES)


@pytest.mark.parametrize("how", ["above", "absolute", "link", "link to a folder", "server", "proc"])
def test_an_index_that_is_right_lets_no_reference_be_read_that_may_not_be(
    folder: Path, server: Server, opened: list[str], how: str
) -> None:
    own = folder / "own"
    (own / "folder").symlink_to(folder / "secret")
    for i in range(COUNT):
        (own / f"link{i}.nc").symlink_to(folder / "secret" / f"{i}.nc")
    names = {
        "above": "../secret/{}.nc",
        "absolute": f"{folder}/secret/{{}}.nc",
        "link": "link{}.nc",
        "link to a folder": "folder/{}.nc",
        "server": f"{server.url}/secret/{{}}.nc",
        "proc": f"/proc/self/root{folder}/secret/{{}}.nc",
    }[how]
    path = parted(own / "x.nca", [names.format(i) for i in range(COUNT)])
    cfagg.index(path, allow=[folder / "secret", server.url])
    assert np.array_equal(read(path, allow=[folder / "secret", server.url]), VALUES + 100)
    server.seen.clear()
    opened.clear()
    with pytest.raises(AccessError, match="outside"):
        read(path)
    assert not server.seen
    assert [name for name in opened if name.endswith(".nc")] == []


def test_rows_of_another_server_are_not_asked_for(folder: Path, server: Server) -> None:
    with served(folder) as other:
        path = parted(folder / "own" / "x.nca", [f"{server.url}/own/data/{i}.nc" for i in range(COUNT)])
        cfagg.index(path, allow=[server.url])
        forge(path, path=tuple(f"{other.url}/secret/{i}.nc" for i in range(COUNT)))
        assert np.array_equal(read(path, allow=[server.url]), VALUES)
        assert not other.seen


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("kind", ["server", "file", "device"])
def test_files_are_not_added_to_an_aggregation_whose_index_names_other_places(
    tmp_path: Path, folder: Path, server: Server, opened: list[str], kind: str, update: bool
) -> None:
    names = months(tmp_path / "own" / "in", 4)
    out = tmp_path / "own" / "out.nc"
    cfagg.aggregate(names[:3], output=out, to="NCA-0.1")
    place = {"server": f"{server.url}/secret/0.nc", "file": f"{folder}/secret/0.nc", "device": "/dev/zero"}[kind]
    before = out.read_bytes()
    forge(out, path=(place, *open_index(f"{out}.cfagg-index").path[1:]))
    opened.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        with pytest.raises(CfaggError):
            cfagg.aggregate(names[3:], output=out, to="NCA-0.1", append=True, update=update)
    assert out.read_bytes() == before
    assert not server.seen
    assert [n for n in opened if "secret" in n or n.startswith("/dev")] == []


@pytest.mark.parametrize(
    "numbers",
    [
        {"offset": 2**40}, {"offset": 2**61}, {"offset": -8}, {"length": -1}, {"length": 2**40}, {"shape": 2**40},
        {"chunks": 2**40}, {"shape": 0}, {"cell": 2**40}, {"size": 2**62, "offset": 2**61}, {"offset": 0, "length": 8},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_that_no_file_has_give_the_values_of_the_files_or_an_error(
    folder: Path, numbers: dict[str, int]
) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    index = open_index(f"{path}.cfagg-index")
    columns: dict[str, Any] = {}
    for name, value in numbers.items():
        own = getattr(index, name)
        columns[name] = (
            Ragged(np.full_like(own.values, value), own.bounds) if isinstance(own, Ragged) else np.full_like(own, value)
        )
    forge(path, **columns)
    try:
        found = read(path)
    except CfaggError:
        return
    # Bytes of the file itself may be shown as its values: who writes the index may do so.
    assert np.array_equal(found, VALUES) or numbers == {"offset": 0, "length": 8}


def test_chunks_that_unpack_to_more_than_they_may_are_not_unpacked(folder: Path) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    bomb = zlib.compress(bytes(2**26), 9)
    index = open_index(f"{path}.cfagg-index")
    offset, length = index.offset.values.copy(), index.length.values.copy()
    for i in range(1, COUNT, 2):
        own = folder / "own" / "data" / f"{i}.nc"
        offset[i], length[i] = own.stat().st_size, len(bomb)
        with own.open("ab") as file:
            file.write(bomb)
    states = [(folder / "own" / "data" / f"{i}.nc").stat() for i in range(COUNT)]
    forge(
        path,
        offset=Ragged(offset, index.offset.bounds),
        length=Ragged(length, index.length.bounds),
        size=np.array([s.st_size for s in states]),
        mtime_ns=np.array([s.st_mtime_ns for s in states]),
        ctime_ns=np.array([s.st_ctime_ns for s in states]),
    )
    assert np.array_equal(read(path), VALUES)


@pytest.mark.parametrize("version", [b"0", b"2", b"1.0", b"\xff", b"9" * 10_000, None])
def test_an_index_of_another_version_is_not_used(folder: Path, version: bytes | None) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    name = Path(f"{path}.cfagg-index")
    table = parquet.read_table(pa.BufferReader(_unsealed(name.read_bytes())))
    about = {k: v for k, v in table.schema.metadata.items() if k != b"cfagg-index"}
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table.replace_schema_metadata(about if version is None else {**about, b"cfagg-index": version}), sink
    )
    name.write_bytes(_sealed(bytes(sink.getvalue())))
    with pytest.raises(DamagedIndexError, match="of version"):
        open_index(name)
    with pytest.warns(StaleIndexWarning, match="not used"):
        assert np.array_equal(cfagg.read(path).v.values, VALUES)


def test_a_dictionary_of_very_many_entries_is_no_matter_for_values(folder: Path) -> None:
    path = parted(folder / "own" / "x.nca", [f"data/{i}.nc" for i in range(COUNT)])
    cfagg.index(path)
    index = open_index(f"{path}.cfagg-index")
    many = [f'{{"path":"{k}"}}' for k in range(200_000)]
    name = Path(f"{path}.cfagg-index")
    table = parquet.read_table(pa.BufferReader(_unsealed(name.read_bytes())))
    at = table.schema.get_field_index("header")
    old = table.column(at).combine_chunks()
    texts = pa.array([*index.headers, *many])
    codes = pa.array([list(index.headers).index(h) for h in old.cast(pa.string()).to_pylist()], pa.int32())
    made = table.set_column(at, "header", pa.DictionaryArray.from_arrays(codes, texts))
    sink = pa.BufferOutputStream()
    parquet.write_table(made.replace_schema_metadata(table.schema.metadata), sink)
    name.write_bytes(_sealed(bytes(sink.getvalue())))
    assert np.array_equal(read(path), VALUES)
