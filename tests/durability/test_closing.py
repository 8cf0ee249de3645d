"""netCDF files that cannot be written to their end: an error, where the netCDF library would end the process."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import resource
import subprocess
import sys
from random import Random

import netCDF4
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import parquet

from cfagg.cli import output
from cfagg.errors import TargetError
from cfagg.formats.values.netcdf import opened
from cfagg.formats.values.pool import close_files
from cfagg.runtime.netcdf_files import closing_written, created
from tests.durability import tracing, writers
from tests.effort import examples

needs_strace = pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed")


def write(path, mode):
    """Write to a file, and return 1 where an error says that this is impossible."""
    try:
        with closing_written(netCDF4.Dataset(path, mode), path) as file:
            if mode == "w":
                file.createDimension("time", 5)
                file.createVariable("time", "f8", ("time",))[:] = np.arange(5)
            file["time"].units = "days since 2001-01-01"
    except (OSError, RuntimeError) as error:
        print(error)
        return 1
    return 0


def faulty(path, log, mode):
    """Return how often calls are made that write to or close a file, and what runs it with a fault in one of them."""

    def run(inject=None):
        path.unlink(missing_ok=True)
        if mode == "a":
            assert tracing.plain(lambda: write(path, "w")).status == 0
        # Of this file alone: how many others are closed meanwhile depends on what the process has loaded before.
        return tracing.run(lambda: write(path, mode), log, inject=inject, path=path)

    # The first may keep compiled modules, which takes calls that later ones do not make.
    assert [run().status, run().status] == [0, 0]
    return tracing.counts(log), run


@needs_strace
@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_disk_that_takes_nothing_from_any_moment_on_is_an_error_and_no_crash(tmp_path, mode):
    calls, run = faulty(tmp_path / "a.nc", tmp_path / "log", mode)
    assert calls["pwrite64"] > 3
    found = [run(f"pwrite64:error=ENOSPC:when={n}+").status for n in range(1, calls["pwrite64"])]
    assert found == [1] * len(found)


@needs_strace
@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_single_write_that_fails_is_an_error_and_no_crash_even_if_it_is_the_last(tmp_path, mode):
    calls, run = faulty(tmp_path / "a.nc", tmp_path / "log", mode)
    found = [run(f"pwrite64:error=EIO:when={n}").status for n in range(2, calls["pwrite64"] + 1)]
    assert found == [1] * len(found)


@needs_strace
@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_file_that_cannot_be_closed_is_an_error_that_names_it(tmp_path, capfd, mode):
    calls, run = faulty(tmp_path / "a.nc", tmp_path / "log", mode)
    assert run(f"close:error=EIO:when={calls['close']}").status == 1
    said = capfd.readouterr().out
    assert "its last bytes could not be written, or it could not be closed" in said
    assert str(tmp_path / "a.nc") in said


#: Two files, the first of which cannot be closed.
TWO = """
import sys, netCDF4
from cfagg.runtime.netcdf_files import close, closing_written
for name in sys.argv[1:]:
    try:
        with closing_written(netCDF4.Dataset(name, "w"), name) as file:
            file.createDimension("time", 5)
    except OSError as error:
        print(error)
file = netCDF4.Dataset(name)
print(file.dimensions["time"].size)
close(file)
"""


@needs_strace
def test_after_a_file_that_cannot_be_closed_others_are_written_and_read_and_the_process_ends_well(tmp_path):
    names, log = [str(tmp_path / "a.nc"), str(tmp_path / "b.nc")], tmp_path / "log"
    first = [tracing.STRACE, "-f", "-o", log, "-e", "trace=pwrite64"]
    subprocess.run([*first, sys.executable, "-c", TWO, *names], check=True, capture_output=True)
    half = tracing.counts(log)["pwrite64"] // 2
    fault = [*first, "-e", f"inject=pwrite64:error=EIO:when={half}"]
    done = subprocess.run([*fault, sys.executable, "-c", TWO, *names], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].endswith(f"'{tmp_path / 'a.nc'}'")
    assert done.stdout.splitlines()[1:] == ["5"]
    assert done.stderr == ""


@pytest.mark.full
@needs_strace
def test_a_file_that_was_only_read_and_cannot_be_closed_does_no_harm(tmp_path, capfd):
    path = tmp_path / "a.nc"
    write(path, "w")

    def work():
        with opened(str(path)) as file:
            print(file["time"].units)
        close_files()
        return 0

    work()  # so that no import is hit
    assert tracing.run(work, tmp_path / "log").status == 0
    calls = tracing.counts(tmp_path / "log")["close"]
    capfd.readouterr()
    tried = sorted(Random(0).sample(range(1, calls + 1), examples(calls)))
    found = [tracing.run(work, tmp_path / "log", inject=f"close:error=EIO:when={n}") for n in tried]
    assert [outcome.status for outcome in found] == [0] * len(tried)
    assert capfd.readouterr().out == "days since 2001-01-01\n" * len(tried)


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
            with output.aside(str(tmp_path / "a.nc"), overwrite=False) as name:
                output.write_netcdf(data, name)
        except TargetError as error:
            print(error)
            return 2
        return 0

    outcome = tracing.plain(work)
    assert outcome.status == 2
    assert capfd.readouterr().out.startswith(f"{tmp_path / 'a.nc'} cannot be written: ")
    assert list(tmp_path.iterdir()) == []


@needs_strace
def test_a_result_of_the_command_whose_last_write_fails_is_an_error_of_the_target(tmp_path, capfd):
    data = xr.DataArray(np.arange(5.0), dims="x", name="tas")

    def work():
        try:
            with output.aside(str(tmp_path / "a.nc"), overwrite=False) as name:
                output.write_netcdf(data, name)
        except TargetError as error:
            print(error)
            return 2
        return 0

    assert tracing.run(work, tmp_path / "log").status == 0
    last = tracing.counts(tmp_path / "log")["pwrite64"]
    (tmp_path / "a.nc").unlink()
    assert tracing.run(work, tmp_path / "log", inject=f"pwrite64:error=EIO:when={last}").status == 2
    assert capfd.readouterr().out.startswith(f"{tmp_path / 'a.nc'} cannot be written: ")
    assert [p.name for p in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["tas", "x", None])
def test_an_array_is_written_as_xarray_writes_it(tmp_path, name):
    data = xr.DataArray([1.5, 2.5], dims="x", coords={"x": [1, 2]}, name=name, attrs={"units": "K"})
    output.write_netcdf(data, tmp_path / "a.nc")
    data.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_what_arrow_says_of_a_file_that_it_cannot_open_names_the_target(tmp_path):
    target = tmp_path / "a.parquet"

    def write_to_a_directory():
        with output.aside(str(target), overwrite=False) as name:
            pathlib.Path(name).mkdir()
            parquet.write_table(pa.table({"a": [1]}), name)

    with pytest.raises(TargetError, match="cannot be written") as caught:
        write_to_a_directory()
    assert ".cfagg-" not in str(caught.value)


def test_a_file_system_without_locks_is_not_taken_for_a_lack_of_permission(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def refuse():
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "a.nc"))

    with pytest.raises(PermissionError):
        created(refuse, tmp_path / "a.nc")
    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(OSError, match=r"does not support locks.*HDF5_USE_FILE_LOCKING=FALSE"):
        created(refuse, tmp_path / "a.nc")
