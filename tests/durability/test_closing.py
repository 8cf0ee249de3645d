"""netCDF files that cannot be written to their end: an error, where the netCDF library would end the process."""

from __future__ import annotations

import pathlib
import resource

import netCDF4
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import parquet

from cfagg.cli import output
from cfagg.errors import TargetError
from cfagg.runtime.netcdf_files import closing_written
from tests.durability import tracing, writers

needs_strace = pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed")


def write(path, mode):
    """Write to a file, and return 1 where an error says that this is impossible."""
    try:
        with closing_written(netCDF4.Dataset(path, mode), path) as file:
            if mode == "w":
                file.createDimension("time", 5)
                file.createVariable("time", "f8", ("time",))[:] = np.arange(5)
            file["time"].units = "days since 2001-01-01"
    except (OSError, RuntimeError):
        return 1
    return 0


@needs_strace
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_disk_that_takes_nothing_from_any_moment_on_is_an_error_and_no_crash(tmp_path, mode):
    path, log = tmp_path / "a.nc", tmp_path / "log"

    def run(inject=None):
        path.unlink(missing_ok=True)
        if mode == "a":
            assert tracing.plain(lambda: write(path, "w")).status == 0
        return tracing.run(lambda: write(path, mode), log, inject=inject).status

    assert run() == 0
    calls = tracing.counts(log)["pwrite64"]
    assert calls > 3
    assert [run(f"pwrite64:error=ENOSPC:when={n}+") for n in range(1, calls)] == [1] * (calls - 1)


@needs_strace
def test_a_file_that_cannot_be_forced_to_disk_is_an_error(tmp_path):
    path = tmp_path / "a.nc"
    outcome = tracing.run(lambda: write(path, "w"), tmp_path / "log", inject="fsync:error=EIO:when=1")
    assert outcome.status == 1


def test_a_file_that_is_written_is_closed_and_whole(tmp_path):
    path = tmp_path / "a.nc"
    file = netCDF4.Dataset(path, "w")
    with closing_written(file, path):
        file.createDimension("time", 5)
    assert not file.isopen()
    with netCDF4.Dataset(path) as found:
        assert found.dimensions["time"].size == 5


def test_a_file_is_closed_where_what_is_to_be_written_is_wrong(tmp_path):
    path = tmp_path / "a.nc"
    file = netCDF4.Dataset(path, "w")
    with pytest.raises(KeyError), closing_written(file, path):
        raise KeyError
    assert not file.isopen()


def test_a_fix_that_finds_no_room_is_one_sentence_and_changes_nothing(tmp_path, capfd):
    writers.WRITERS["fix netcdf"].prepare(tmp_path)
    path = tmp_path / "out" / "a.nc"
    before = path.read_bytes()
    limit = len(before) - 1
    outcome = tracing.plain(
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)) or writers.fix(tmp_path, "netcdf")
    )
    said = capfd.readouterr().err
    assert outcome.status == 2, said
    assert said.startswith(f"error: {path} cannot be copied")
    assert said.count("\n") == 1
    assert ".cfagg-" not in said
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["a.nc"]


def test_a_result_of_the_command_that_finds_no_room_is_an_error_of_the_target(tmp_path, capfd):
    data = xr.DataArray(np.random.default_rng(0).normal(size=5000), dims="x", name="tas")

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (7000, 7000))
        try:
            with output.aside(str(tmp_path / "a.nc")) as name:
                output.write_netcdf(data, name)
        except TargetError as error:
            print(error)
            return 2
        return 0

    outcome = tracing.plain(work)
    assert outcome.status == 2
    assert capfd.readouterr().out.startswith(f"{tmp_path / 'a.nc'} cannot be written: ")
    assert list(tmp_path.iterdir()) == []


def test_what_arrow_says_of_a_file_that_it_cannot_open_names_the_target(tmp_path):
    target = tmp_path / "a.parquet"

    def write_to_a_directory():
        with output.aside(str(target)) as name:
            pathlib.Path(name).mkdir()
            parquet.write_table(pa.table({"a": [1]}), name)

    with pytest.raises(TargetError, match="cannot be written") as caught:
        write_to_a_directory()
    assert ".cfagg-" not in str(caught.value)
