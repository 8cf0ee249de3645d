"""Several threads write aggregation files at once; the netCDF library bears one call at a time, or ends the process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests import nca_files

_BEGINNING = """
import sys, shutil, threading, cfagg

def run(job, faults=[]):
    def work(k):
        for i in range(6):
            try:
                job(f"{k}-{i}.nca")
            except BaseException as error:
                faults.append(repr(error))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for one in threads: one.start()
    for one in threads: one.join()
    sys.exit("; ".join(faults[:3]) or None)

if __name__ == "__main__":
    cfagg.aggregate("?.nc", output="a.nca")
"""

JOBS = {
    "aggregated": """cfagg.aggregate("?.nc", output=out)""",
    "rebased": """shutil.copy("a.nca", out), cfagg.rebase(out, ".", "/archive")""",
    "converted with fragments": """cfagg.convert("a.zarr", out)""",
}


@pytest.mark.parametrize(
    "job",
    [pytest.param(job, id=name, marks=[pytest.mark.full] if i else []) for i, (name, job) in enumerate(JOBS.items())],
)
def test_files_are_written_by_several_threads(tmp_path, job):
    for i in range(3):
        attributes = {"units": "days since 2000-01-01", "standard_name": "time"}
        values = np.full((2, 3), i, "f4")
        axis = {"time": (["time"], [2.0 * i, 2.0 * i + 1], attributes)}
        nca_files.fragment(
            tmp_path / f"{i}.nc", "tas", values, ["time", "x"], {"standard_name": "air_temperature"}, coordinates=axis
        )
    code = f"{_BEGINNING}    cfagg.convert('a.nca', 'a.zarr')\n    run(lambda out: ({job}))\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
