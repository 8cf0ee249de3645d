"""Values read by an index are those that are read without, whatever the files, the layout and the selection."""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.index import Index, build_index, open_index, write_index
from cfagg.arrays.index.lookup import IndexLookup
from cfagg.errors import CfaggError, FragmentNotFoundError, StaleIndexWarning, UnitsError
from cfagg.model import Aggregation, Grid, Layout, Partitions
from cfagg.storage.access import Access
from cfagg.storage.counters import snapshot
from tests.effort import examples
from tests.systems import needs_proc

from .cases import DIMS, numbers, slow_calls, write

#: Time steps of each file.
STEPS = (1, 1, 2, 1, 1, 1, 3, 1)

#: How files are stored, in turn.
MIXED: list[dict[str, Any]] = [
    {"zlib": True, "chunksizes": (1, 2, 5)},
    {"contiguous": True},
    {"zlib": True, "shuffle": False, "fletcher32": True, "chunksizes": (1, 4, 3)},
    {"format": "NETCDF3_64BIT_OFFSET", "unlimited": True},
    {"chunksizes": (1, 4, 6), "endian": "big", "dtype": ">f4"},
    {"zlib": True, "unlimited": True, "chunksizes": (1, 4, 6)},
]


def make(
    folder: Path, hows: list[dict[str, Any]], *, dtype: str = "f4", attributes: dict[str, Any] | None = None
) -> tuple[Aggregation, npt.NDArray[Any], list[tuple[str, str]]]:
    """Write files of consecutive times; return what aggregates them, all values as stored, and the places."""
    stored = []
    for k, n in enumerate(STEPS):
        values = numbers(n, 4, 6, dtype=dtype, seed=k)
        values[0, 1, 2] = 7
        how = dict(hows[k % len(hows)])
        write(folder / f"{k}.nc", values, attributes={"units": "K", **(attributes or {})}, **how)
        stored.append(values)
    grid = Grid([np.concatenate([[0], np.cumsum(STEPS)]), [0, 4], [0, 6]])
    partitions = Partitions.build(
        len(STEPS),
        file=np.arange(len(STEPS)),
        address=0,
        files=[f"{k}.nc" for k in range(len(STEPS))],
        addresses=["tas"],
        layouts=[Layout(DIMS)],
    )
    made = Aggregation("tas", DIMS, (sum(STEPS), 4, 6), np.dtype("f8"), grid, partitions, units="K")
    return made, np.concatenate(stored), [(str(folder / f"{k}.nc"), "tas") for k in range(len(STEPS))]


def reader_of(folder: Path, made: Aggregation, index: Index | None) -> AggregationReader:
    lookup = None if index is None else IndexLookup(str(folder / "x"), index)
    return AggregationReader(made, Access(folder / "a.nca"), lookup=lookup)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Aggregation, npt.NDArray[Any], Index]:
    folder = tmp_path_factory.mktemp("mixed")
    made, values, places = make(folder, MIXED)
    write_index(build_index(places), folder / "x")
    return folder, made, values.astype("f8"), open_index(folder / "x")


def entry(n: int) -> st.SearchStrategy[Any]:
    index = st.integers(-n, n - 1)
    return st.one_of(
        index,
        st.lists(index, min_size=1, max_size=2 * n).map(np.array),
        st.builds(slice, *[st.one_of(st.none(), index)] * 2, st.sampled_from([None, 1, 2, 3, -1, -2])),
    )


@given(selection=st.tuples(*map(entry, (sum(STEPS), 4, 6))))
@settings(max_examples=examples(200), deadline=None)
def test_any_selection_is_that_of_the_values(
    mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index], selection: tuple[Any, ...]
) -> None:
    folder, made, values, index = mixed
    found = reader_of(folder, made, index).read(selection)
    picked = [np.arange(n)[s] for n, s in zip(values.shape, selection, strict=True)]
    expected = values[np.ix_(*map(np.atleast_1d, picked))].reshape([len(p) for p in picked if np.ndim(p)])
    assert np.array_equal(found, expected)


@needs_proc
@pytest.mark.parametrize("how", MIXED, ids=str)
def test_points_of_files_of_every_kind_are_read_without_searching_in_them(
    tmp_path: Path, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, values, places = make(tmp_path, [how])
    reader = reader_of(tmp_path, made, build_index(places))
    opened = slow_calls(monkeypatch)
    assert np.array_equal(reader.read([slice(None), 2, 4]), values[:, 2, 4])
    assert np.array_equal(reader.read([slice(None)] * 3), values)
    assert np.array_equal(
        reader.read([slice(None, None, -1), slice(3, 0, -2), slice(1, 6, 2)]), values[::-1, 3:0:-2, 1::2]
    )
    assert opened == []


@pytest.mark.parametrize("how", MIXED, ids=str)
def test_parts_that_count_down_or_list_indices_are_read_by_an_index(tmp_path: Path, how: dict[str, Any]) -> None:
    made, values, places = make(tmp_path, [how])
    parts = [
        f"[(0, {n}, 1), {rows}, (5, -1, -1)]" for n in sorted(set(STEPS)) for rows in ("(3, -1, -1)", "[2, 0, 3, 1]")
    ]
    codes = [2 * sorted(set(STEPS)).index(n) + k % 2 for k, n in enumerate(STEPS)]
    partitions = Partitions.build(
        len(STEPS), file=made.partitions.file, address=0, part=codes, files=made.partitions.files, addresses=["tas"],
        layouts=made.partitions.layouts, parts=parts,
    )  # fmt: skip
    expected, start = [], 0
    for k, n in enumerate(STEPS):
        expected.append(values[start : start + n, [2, 0, 3, 1] if k % 2 else slice(None, None, -1), ::-1])
        start += n
    reader = reader_of(tmp_path, dataclasses.replace(made, partitions=partitions), build_index(places))
    assert np.array_equal(reader.read([slice(None)] * 3), np.concatenate(expected))


PACKED = {"scale_factor": np.float32(0.5), "add_offset": np.float32(10), "_FillValue": np.int16(7)}


@needs_proc
def test_packing_missing_values_and_units_are_those_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = [{"zlib": True, "fill_value": 7}, {"contiguous": True, "fill_value": 7}]
    attributes = {k: v for k, v in PACKED.items() if k != "_FillValue"}
    made, values, places = make(tmp_path, how, dtype="i2", attributes={**attributes, "units": "degC"})
    reader = reader_of(tmp_path, made, build_index(places))
    opened = slow_calls(monkeypatch)
    found = reader.read([slice(None), slice(None), 2])
    expected = np.where(values == 7, np.nan, values * 0.5 + 10 + 273.15)[:, :, 2]
    assert np.allclose(found, expected, rtol=1e-12, equal_nan=True)
    assert opened == []


def test_layouts_with_other_orders_and_directions_are_conformed(tmp_path: Path) -> None:
    values = numbers(5, 4, 6)
    for k in range(5):
        write(tmp_path / f"{k}.nc", values[k : k + 1].transpose(0, 2, 1)[:, ::-1])
    layout = Layout(("time", "y", "x"), (False, True, False))
    partitions = Partitions.build(
        5, file=np.arange(5), address=0, files=[f"{k}.nc" for k in range(5)], addresses=["tas"], layouts=[layout]
    )
    grid = Grid([np.arange(6), [0, 4], [0, 6]])
    made = Aggregation("tas", ("time", "x", "y"), (5, 4, 6), np.dtype("f4"), grid, partitions, units="K")
    reader = reader_of(tmp_path, made, build_index([(str(tmp_path / f"{k}.nc"), "tas") for k in range(5)]))
    for selection in ([slice(None)] * 3, [slice(None), 1, slice(4, 1, -1)], [slice(None), slice(3, 1, -1), 5]):
        assert np.array_equal(reader.read(selection), values[tuple(selection)])


def change_nothing(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def change_values(path: Path) -> None:
    write(path, numbers(1, 4, 6, seed=99), zlib=True)


def replace(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("change", [change_nothing, change_values, replace])
@pytest.mark.parametrize("how", [{"zlib": True}, {"contiguous": True}], ids=str)
def test_a_file_that_changed_is_read_as_it_is_now(
    tmp_path: Path, how: dict[str, Any], change: Callable[[Path], None]
) -> None:
    made, values, places = make(tmp_path, [how])
    index = build_index(places)
    change(tmp_path / "1.nc")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = reader_of(tmp_path, made, index).read([slice(None), 2, slice(None)])
    if change is change_values:
        values[1] = numbers(1, 4, 6, seed=99)
    assert np.array_equal(found, values[:, 2])
    assert [w.category for w in caught] == [StaleIndexWarning] * (change is change_values)


def test_a_header_that_changed_in_a_file_of_the_same_size_is_read_again(tmp_path: Path) -> None:
    made, _, places = make(tmp_path, [{"format": "NETCDF3_CLASSIC"}])
    index = build_index(places)
    data = (tmp_path / "3.nc").read_bytes()
    assert data.count(b"\0\0\0\1K\0\0\0") == 1
    (tmp_path / "3.nc").write_bytes(data.replace(b"\0\0\0\1K\0\0\0", b"\0\0\0\1m\0\0\0"))
    with pytest.warns(StaleIndexWarning), pytest.raises(UnitsError):
        reader_of(tmp_path, made, index).read([slice(None), 0, 0])


@needs_proc
def test_a_copied_archive_is_read_by_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    made, values, places = make(tmp_path / "one", MIXED)
    write_index(build_index(places), tmp_path / "one" / "x")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "one")
    opened = slow_calls(monkeypatch)
    reader = reader_of(tmp_path / "two", made, open_index(tmp_path / "two" / "x"))
    for _ in range(2):
        assert np.array_equal(reader.read([slice(None), 2, 4]), values[:, 2, 4])
    assert opened == []


def test_a_file_that_is_gone_is_missed_as_without_an_index(tmp_path: Path) -> None:
    made, _, places = make(tmp_path, [{}])
    index = build_index(places)
    (tmp_path / "3.nc").unlink()
    with pytest.raises(FragmentNotFoundError, match=r"3\.nc"):
        reader_of(tmp_path, made, index).read([slice(None), 0, 0])


def test_a_truncated_file_is_an_error_as_without_an_index(tmp_path: Path) -> None:
    made, _, places = make(tmp_path, [{"contiguous": True}])
    index = build_index(places)
    os.truncate(tmp_path / "3.nc", 500)
    with pytest.warns(StaleIndexWarning), pytest.raises(CfaggError, match=r"3\.nc"):
        reader_of(tmp_path, made, index).read([slice(None), 0, 0])


def test_a_symbolic_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    made, _, places = make(tmp_path / "in", [{}])
    index = build_index(places)
    (tmp_path / "in" / "3.nc").rename(tmp_path / "3.nc")
    (tmp_path / "in" / "3.nc").symlink_to(tmp_path / "3.nc")
    with pytest.raises(PermissionError, match="lies outside"):
        reader_of(tmp_path / "in", made, index).read([slice(None), 0, 0])


def test_an_index_allows_no_file_that_the_policy_does_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    made, _, places = make(tmp_path, [{}])
    files = [f"../{k}.nc" for k in range(len(STEPS))]
    one = made.partitions
    partitions = Partitions.build(
        len(one), file=one.file, address=0, files=files, addresses=["tas"], layouts=one.layouts
    )
    outside = Aggregation("tas", made.dims, made.shape, made.dtype, made.grid, partitions, units="K")
    reader = AggregationReader(outside, Access(tmp_path / "in" / "a.nca"), lookup=IndexLookup("x", build_index(places)))
    with pytest.raises(PermissionError, match="lies outside"):
        reader.read([slice(None), 0, 0])


@needs_proc
def test_a_file_written_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, places = make(tmp_path, [{"contiguous": True}])
    index, preadv, inode = build_index(places), os.preadv, (tmp_path / "2.nc").stat().st_ino

    def disturbed(fd: int, buffers: Any, offset: int) -> int:
        count = preadv(fd, buffers, offset)
        if os.fstat(fd).st_ino == inode and offset:
            change_values(tmp_path / "2.nc")
        return count

    monkeypatch.setattr(os, "preadv", disturbed)
    made_reader = reader_of(tmp_path, made, index)
    with pytest.warns(StaleIndexWarning), pytest.raises(CfaggError, match=r"2\.nc"):
        made_reader.read([slice(None), slice(None), slice(None)])  # one time step where there were two


def test_readers_pickle_with_their_index(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    folder, made, values, _ = mixed
    reader = AggregationReader(made, Access(folder / "a.nca"), lookup=IndexLookup(str(folder / "x")))
    assert np.array_equal(reader.read([slice(None), 0, 0]), values[:, 0, 0])
    data = pickle.dumps(reader)
    assert len(data) < 20_000
    assert np.array_equal(pickle.loads(data).read([slice(None), 0, 0]), values[:, 0, 0])


def test_threads_share_a_reader(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    folder, made, values, index = mixed
    reader, wrong = reader_of(folder, made, index), []

    def read(y: int) -> None:
        wrong.extend(x for x in range(6) if not np.array_equal(reader.read([slice(None), y, x]), values[:, y, x]))

    threads = [threading.Thread(target=read, args=(y,)) for y in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


@needs_proc
def test_few_descriptors_are_open_at_once(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    folder, made, _, index = mixed
    before, reader = len(list(Path("/dev/fd").iterdir())), reader_of(folder, made, index)
    files = snapshot().files
    reader.read([slice(None), 1, 1])
    assert snapshot().files - files == len(STEPS)
    assert len(list(Path("/dev/fd").iterdir())) <= before


def test_a_damaged_index_is_ignored_with_a_warning(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    folder, made, values, _ = mixed
    data = (folder / "x").read_bytes()
    (folder / "damaged").write_bytes(data[:-30] + b"\0" * 30)
    reader = AggregationReader(made, Access(folder / "a.nca"), lookup=IndexLookup(str(folder / "damaged")))
    with pytest.warns(StaleIndexWarning, match="damaged"):
        found = reader.read([slice(None), 0, 0])
    assert np.array_equal(found, values[:, 0, 0])


def test_a_forked_process_reads_on(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    folder, made, values, index = mixed
    reader = reader_of(folder, made, index)
    reader.read([slice(None), 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left threads
        child = os.fork()
    if not child:
        good = np.array_equal(reader.read([slice(None), 3, 5]), values[:, 3, 5])
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_little_room_for_open_files_is_enough(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    resource = pytest.importorskip("resource")
    folder, made, values, index = mixed
    reader = reader_of(folder, made, index)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 3, before[1]))
        assert np.array_equal(reader.read([slice(None), 1, 1]), values[:, 1, 1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(held[0])


@pytest.mark.soak
def test_readers_travel_to_dask_workers(mixed: tuple[Path, Aggregation, npt.NDArray[Any], Index]) -> None:
    dask = pytest.importorskip("dask")
    folder, made, values, _ = mixed
    reader = AggregationReader(made, Access(folder / "a.nca"), lookup=IndexLookup(str(folder / "x")))
    tasks = [dask.delayed(reader.read)([slice(None), y, 0]) for y in range(4)]
    found = dask.compute(*tasks, scheduler="processes", num_workers=1)
    assert np.array_equal(np.stack(found, axis=1), values[:, :, 0])
