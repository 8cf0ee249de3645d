"""A disk that is full: a clear error, and neither a half-written file nor a half-built store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Runs one step where no file may become larger than 20 kB.
CODE = """
import resource, sys
from cfagg.errors import TargetError
from cfagg.observations.exchange import export_netcdf, export_parquet, import_netcdf, import_parquet
from tests.observations.exchange.tables import table
step, folder = sys.argv[1:]
wanted = table(20_000)
if step.startswith("import"):
    export_netcdf(wanted, f"{folder}/a.nc")
    export_parquet(wanted, f"{folder}/a.parquet")
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    {
        "point": lambda: export_netcdf(wanted, f"{folder}/b.nc"),
        "contiguous": lambda: export_netcdf(wanted, f"{folder}/b.nc", "contiguous", by="id"),
        "parquet": lambda: export_parquet(wanted, f"{folder}/b.parquet"),
        "import netcdf": lambda: import_netcdf(f"{folder}/a.nc", f"{folder}/b.zarr"),
        "import parquet": lambda: import_parquet(f"{folder}/a.parquet", f"{folder}/b.zarr"),
    }[step]()
except TargetError as error:
    print("said:", error)
"""


@pytest.mark.full
@pytest.mark.parametrize("step", ["point", "contiguous", "parquet", "import netcdf", "import parquet"])
def test_a_full_disk_is_told_of_and_leaves_nothing(tmp_path: Path, step: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, step, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "cannot be written" in done.stdout
    assert {p.name for p in tmp_path.iterdir()} <= {"a.nc", "a.parquet"}
