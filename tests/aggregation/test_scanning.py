"""What is found in files, and what is said of those that cannot be read."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr

from cfagg.aggregation import headers, scanning
from cfagg.aggregation.scanning import Scanned, scan
from cfagg.cf.joining import Options, describe_all
from cfagg.errors import SourceError, SourceNotFoundError
from tests.aggregation.months import month, months
from tests.runtime.test_processes import children


def test_each_file_tells_its_data_variables_and_its_state(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    found = scan(names)
    assert [one.place for one in found] == names
    assert [[d.stated.name for d in one.described] for one in found] == [["tas"], ["tas"]]
    status = Path(names[1]).stat()
    state = found[1].state
    assert state is not None
    assert (state.size, state.mtime_ns, state.ctime_ns, state.inode) == (
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
    )  # fmt: skip
    assert found[1].described[0].axes["time"].values.tolist() == [2, 3]


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_every_kind_of_netcdf_is_scanned(tmp_path: Path, kind: str) -> None:
    (found,) = scan([str(month(tmp_path / "m.nc", 3, kind=kind))])
    assert found.format == "netcdf"
    assert found.described[0].axes["latitude"].values.tolist() == [-45, 45]


def test_a_file_that_was_scanned_leaves_nothing_to_collect(tmp_path: Path) -> None:
    names = months(tmp_path, 6)
    scan(names[:2])
    left = []
    for number, name in enumerate(names[2:], 2):
        gc.collect()
        gc.disable()
        try:
            found = scan([name])
            left.append(gc.collect())
        finally:
            gc.enable()
        assert found[0].described[0].axes["time"].values.tolist() == [2 * number, 2 * number + 1]
    # Threads of other tests may leave something at any time.
    assert min(left) == 0


def test_options_that_name_an_attribute_count_in_files_that_were_described_without(tmp_path: Path) -> None:
    names = [str(month(tmp_path / f"{k}.nc", 1)) for k in range(2)]
    for name, comment in zip(names, "ab", strict=True):
        with netCDF4.Dataset(name, "a") as file:
            file["tas"].comment = comment
    for options, expected in ((Options(), 1), (Options(equal=["comment"]), 2), (Options(), 1)):
        described = [one for found in scan(names, options) for one in found.described]
        assert len({tuple(one.signature.items()) for one in described}) == expected


def store_of(folder: Path) -> str:
    """Write a store of two times."""
    group = zarr.create_group(str(folder / "a.zarr"))
    time = group.create_array("time", data=np.arange(2.0), dimension_names=("time",))
    time.attrs.update(standard_name="time", units="days since 2000-01-01")
    tas = group.create_array("tas", data=np.arange(2.0), dimension_names=("time",))
    tas.attrs.update(standard_name="air_temperature", units="K")
    return str(folder / "a.zarr")


def test_a_zarr_store_is_scanned(tmp_path: Path) -> None:
    (found,) = scan([store_of(tmp_path)])
    assert found.format == "zarr"
    assert found.described[0].axes["time"].values.tolist() == [0, 1]
    assert found.state is not None
    assert found.state.etag


def test_a_store_has_another_state_once_its_coordinates_are_written_and_only_then(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    before, again = scan([store])[0].state, scan([store])[0].state
    assert before == again
    zarr.open_array(f"{store}/time")[:] = [5.0, 6.0]
    assert scan([store])[0].state != before


def test_scanning_loads_no_library_for_formats_that_are_read_here(tmp_path: Path) -> None:
    names = [str(month(tmp_path / "a.nc", 0)), str(month(tmp_path / "b.nc", 1, kind="NETCDF3_CLASSIC"))]
    code = (
        "import sys; from cfagg.aggregation.scanning import scan; scan(sys.argv[1:]); "
        "print([n for n in ('netCDF4', 'h5py', 'zarr', 'xarray', 'numba', 'dask', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names, store_of(tmp_path)], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_all_unreadable_files_are_listed_in_one_error(tmp_path: Path) -> None:
    names = months(tmp_path, 3)
    Path(names[1]).write_bytes(b"nothing")
    with pytest.raises(SourceError, match="2 of 4 files cannot be read") as raised:
        scan([*names, str(tmp_path / "absent.nc")])
    told = "\n".join(map(str, raised.value.problems))
    assert "m1.nc is not a netCDF file" in told
    assert "there is no file" in told


def test_unreadable_files_are_skipped_where_asked_for(tmp_path: Path) -> None:
    names = months(tmp_path, 3)
    Path(names[1]).write_bytes(b"nothing")
    found = scan(names, skip_errors=True)
    assert [one.problem is None for one in found] == [True, False, True]


def test_nothing_readable_is_an_error_even_where_errors_are_skipped(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="there is no file"):
        scan([str(tmp_path / "absent.nc")], skip_errors=True)


def test_a_truncated_file_is_unreadable(tmp_path: Path) -> None:
    path = month(tmp_path / "m.nc", 0, kind="NETCDF3_CLASSIC")
    os.truncate(path, path.stat().st_size - 8)
    with pytest.raises(SourceError, match="truncated"):
        scan([str(path)])


def test_what_was_scanned_can_be_pickled(tmp_path: Path) -> None:
    found = scan(months(tmp_path, 1))
    again = pickle.loads(pickle.dumps(found))
    assert again[0].described[0].axes["time"].values.tolist() == [0, 1]


def test_nothing_stays_open(tmp_path: Path) -> None:
    names = months(tmp_path, 4)
    scan(names)
    before = len(list(Path("/dev/fd").iterdir()))
    scan(names)
    assert len(list(Path("/dev/fd").iterdir())) <= before


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes for the second file, as for thousands."""
    monkeypatch.setattr(scanning, "_FIRST", 1)
    monkeypatch.setattr(scanning, "_WORTH", 0.0)


def names_and_times(found: list[Scanned]) -> list[tuple[str, list[float]]]:
    return [(one.place, one.described[0].axes["time"].values.tolist()) for one in found]


@pytest.mark.usefixtures("at_once")
def test_processes_find_the_same_in_the_same_order(tmp_path: Path) -> None:
    names = months(tmp_path, 9)
    assert names_and_times(scan(names, workers=2)) == names_and_times(scan(names, workers=1))


@pytest.mark.full
@pytest.mark.usefixtures("at_once")
def test_what_is_equal_in_files_is_one_object_whatever_process_scanned_them(tmp_path: Path) -> None:
    first, *others = scan(months(tmp_path, 4), workers=2)
    for one in others:
        assert one.described[0].axes["latitude"] is first.described[0].axes["latitude"]
        assert one.described[0].stated is first.described[0].stated


@pytest.mark.full
@pytest.mark.usefixtures("at_once")
def test_a_bad_file_hides_no_other_that_processes_scan(tmp_path: Path) -> None:
    names = months(tmp_path, 5)
    Path(names[2]).write_bytes(b"nothing")
    found = scan(names, workers=2, skip_errors=True)
    assert [one.problem is None for one in found] == [True, True, False, True, True]


@pytest.mark.full
@pytest.mark.usefixtures("at_once")
def test_a_worker_that_is_killed_costs_no_file(tmp_path: Path) -> None:
    names = months(tmp_path, 6)
    killed: list[int] = []

    def kill_first() -> None:
        while not killed:
            for number in children():
                os.kill(number, signal.SIGKILL)
                killed.append(number)
                break

    killer = threading.Thread(target=kill_first)
    killer.start()
    found = scan(names, workers=2)
    killer.join()
    assert killed
    assert names_and_times(found) == names_and_times(scan(names))


class Deadly(str):
    """The name of a file at which every process that is to scan it ends."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


@pytest.mark.full
@pytest.mark.usefixtures("at_once")
def test_a_file_at_which_processes_crash_is_blamed_alone(tmp_path: Path) -> None:
    names = [str(month(tmp_path / f"m{n}.nc", n, kind="NETCDF3_CLASSIC")) for n in range(18)]
    found = scan([*names[:9], Deadly(names[9]), *names[10:]], workers=2, skip_errors=True)
    assert [one.place for one in found if one.problem is not None] == [names[9]]
    assert "the process that scanned it crashed" in (found[9].problem or "")


@pytest.mark.full
def test_a_dask_cluster_scans_too(tmp_path: Path) -> None:
    from distributed import LocalCluster

    names = months(tmp_path, 5)
    seen: list[tuple[int, int]] = []
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        found = scan(names, client=cluster.scheduler_address, progress=lambda done, total: seen.append((done, total)))
    assert names_and_times(found) == names_and_times(scan(names))
    assert seen[-1] == (5, 5)


@pytest.mark.full
def test_a_file_at_which_workers_of_a_cluster_crash_is_blamed_alone(tmp_path: Path) -> None:
    import dask
    from distributed import Client, LocalCluster, WorkerPlugin

    class Crashing(WorkerPlugin):
        """Lets a worker end at the tenth file; the scheduler, which is here, never sees what does it."""

        def setup(self, worker: Any) -> None:
            real = headers.scan_one
            scanning.scan_one = lambda p, how: os._exit(9) if p.endswith("m9.nc") else real(p, how)  # type: ignore[attr-defined]

    names = [str(month(tmp_path / f"m{n}.nc", n, kind="NETCDF3_CLASSIC")) for n in range(18)]
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(**options) as one,
        Client(one) as client,
    ):
        client.register_plugin(Crashing())
        found = scan(names, client=client, skip_errors=True)
    assert [one.place for one in found if one.problem is not None] == [names[9]]
    assert "the process that scanned it crashed" in (found[9].problem or "")


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    scan(months(tmp_path, 3), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.fixture
def while_described(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """Do what is in the list, one by one, while a file is described."""
    waiting: list[Callable[[], object]] = []

    def described(dataset: Any, options: Any) -> Any:
        found = describe_all(dataset, options)
        if waiting:
            waiting.pop(0)()
        return found

    monkeypatch.setattr(headers, "describe_all", described)
    return waiting


def test_a_file_that_changes_once_is_scanned_once_more(
    tmp_path: Path, while_described: list[Callable[[], object]]
) -> None:
    path = month(tmp_path / "m.nc", 0)
    while_described.append(lambda: month(path, 7))
    (found,) = scan([str(path)])
    assert found.described[0].axes["time"].values.tolist() == [14, 15]
    assert found.state is not None
    assert found.state.mtime_ns == path.stat().st_mtime_ns


def test_a_file_that_goes_on_changing_is_an_error(tmp_path: Path, while_described: list[Callable[[], object]]) -> None:
    path = month(tmp_path / "m.nc", 0)
    while_described += [lambda: month(path, 1), lambda: month(path, 2)]
    with pytest.raises(SourceError, match="changes while it is scanned"):
        scan([str(path)])


def test_a_file_that_is_truncated_while_it_is_scanned_is_an_error(
    tmp_path: Path, while_described: list[Callable[[], object]]
) -> None:
    names = months(tmp_path, 2)
    while_described.append(lambda: os.truncate(names[0], 1000))
    found = scan(names, skip_errors=True)
    assert found[0].problem is not None
    assert names_and_times(found[1:]) == [(names[1], [2, 3])]


def test_a_file_that_vanishes_while_it_is_scanned_is_an_error(
    tmp_path: Path, while_described: list[Callable[[], object]]
) -> None:
    names = months(tmp_path, 2)
    while_described.append(Path(names[0]).unlink)
    found = scan(names, skip_errors=True)
    assert found[0].problem is not None
    assert "there is no file" in found[0].problem


def test_a_file_that_is_replaced_while_it_is_scanned_is_that_which_took_its_place(
    tmp_path: Path, while_described: list[Callable[[], object]]
) -> None:
    path, other = month(tmp_path / "m.nc", 0), month(tmp_path / "new", 9)
    while_described.append(lambda: other.replace(path))
    assert names_and_times(scan([str(path)])) == [(str(path), [18, 19])]
