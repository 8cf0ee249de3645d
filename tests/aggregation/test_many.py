"""Many files: few open at a time, and none of them keeps another from being scanned."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import netCDF4
import pytest

import cfagg
from cfagg.demo import sample
from tests.aggregation.months import month

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
import cfagg
dataset = cfagg.aggregate(sys.argv[1])
(group,) = dataset.cfagg.report.groups
print(group.files.count, group.axes[0].size, float(dataset["tas"][::100, 0, 0].sum()))
"""


def few_open_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def aggregated(folder: Path, script: str = SCRIPT) -> str:
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, preexec_fn=few_open_files, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(folder: Path, count: int) -> float:
    """Write files of two times each, and return the sum of each hundredth value of a corner."""
    for number in range(count):
        month(folder / f"m{number}.nc", number, kind="NETCDF3_CLASSIC")
    return sum(100.0 * (time // 2) + 6 * (time % 2) for time in range(0, 2 * count, 100))


@pytest.mark.full
def test_more_files_than_may_be_open_are_put_together_and_read(tmp_path: Path) -> None:
    total = written(tmp_path, 80)
    assert aggregated(tmp_path) == f"80 160 {total}\n"


@pytest.mark.soak
def test_ten_thousand_files_are_put_together_and_read_with_64_open_files(tmp_path: Path) -> None:
    total = written(tmp_path, 10_000)
    assert aggregated(tmp_path) == f"10000 20000 {total}\n"


def differing(folder: Path, count: int) -> list[Path]:
    """Write files with a time and a history of their own each."""
    with netCDF4.Dataset(folder / "first", "w", format="NETCDF3_CLASSIC") as file:
        file.history = "H" * 40
        file.createDimension("time", 1)
        for name, units in (("time", "days since 2000-01-01"), ("air_temperature", "K")):
            one = file.createVariable(name, "f8", ("time",))
            one.setncatts({"standard_name": name, "units": units})
            one[:] = 7777.125
    raw = (folder / "first").read_bytes()
    value = struct.pack(">d", 7777.125)
    files = [folder / f"{k}.nc" for k in range(count)]
    for k, path in enumerate(files):
        path.write_bytes(raw.replace(b"H" * 40, b"%040d" % k).replace(value, struct.pack(">d", k)))
    return files


@pytest.mark.full
@pytest.mark.parametrize("job", ["aggregate", "index"])
def test_memory_grows_by_a_few_kilobytes_a_file_where_all_differ(tmp_path: Path, job: str) -> None:
    files = differing(tmp_path, 2000)
    peaks = []
    for count in (200, 200, 2000):  # the first time, modules are loaded
        tracemalloc.start()
        getattr(cfagg, job)(files[:count], output=tmp_path / f"{count}{len(peaks)}.{job}.nc", workers=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[2] - peaks[1]) / 1800 < 8000


CHILDREN = """
import sys
from cfagg.aggregation.files import places
from cfagg.aggregation import scanning
from cfagg.aggregation.scanning import scan
scanning._FIRST, scanning._WORTH = 1, 0
print(len(scan(places(sys.argv[1]), workers=2)))
"""


@pytest.mark.full
def test_several_processes_do_with_few_open_files(tmp_path: Path) -> None:
    written(tmp_path, 80)
    assert aggregated(tmp_path, CHILDREN) == "80\n"


def test_files_of_pp_netcdf_and_aggregations_are_scanned_side_by_side(tmp_path: Path) -> None:
    from cfagg.aggregation.files import places
    from cfagg.aggregation.scanning import scan

    pp = sorted(str(p) for p in sample("pp").glob("*.pp"))[:2]
    several = [str(month(tmp_path / "m.nc", 0)), *pp, str(sample("sst.nca"))]
    found = scan(places(several))
    assert [one.format for one in found] == ["netcdf", "PP", "PP", "netcdf"]
    assert all(one.described for one in found)
    assert found[-1].described[0].shape == (54, 18, 108)
