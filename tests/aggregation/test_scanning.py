"""What is found in files, and what is said of those that cannot be read."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.aggregation.scanning import scan
from cfagg.errors import SourceError, SourceNotFoundError
from tests.aggregation.months import month, months


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


def test_a_zarr_store_is_scanned(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "a.zarr"))
    time = group.create_array("time", data=np.arange(2.0), dimension_names=("time",))
    time.attrs.update(standard_name="time", units="days since 2000-01-01")
    tas = group.create_array("tas", data=np.arange(2.0), dimension_names=("time",))
    tas.attrs.update(standard_name="air_temperature", units="K")
    (found,) = scan([str(tmp_path / "a.zarr")])
    assert found.format == "zarr"
    assert found.described[0].axes["time"].values.tolist() == [0, 1]
    assert found.state is not None
    assert found.state.etag


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
    with pytest.raises(SourceError, match="cut off"):
        scan([str(path)])


def test_what_was_scanned_can_be_pickled(tmp_path: Path) -> None:
    found = scan(months(tmp_path, 1))
    again = pickle.loads(pickle.dumps(found))
    assert again[0].described[0].axes["time"].values.tolist() == [0, 1]


def test_nothing_stays_open(tmp_path: Path) -> None:
    names = months(tmp_path, 4)
    scan(names)
    before = len(list(Path("/proc/self/fd").iterdir()))
    scan(names)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
