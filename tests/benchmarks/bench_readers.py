"""Reading many files as one array, by the index and by other libraries: a series at one point, and the whole array."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import cfagg
from tests.benchmarks.aggregate_files import climate
from tests.benchmarks.peers import UDUNITS, peer_python
from tests.benchmarks.table import Row

#: Runs each function twice, the second time by the clock, and prints the processor's seconds with what they return.
TIMED = """
import json, sys, time
folder, files = sys.argv[1], open(sys.argv[2]).read().split("\\n")
prepare(folder, files)
seen = []
for run in (point, whole):
    run(folder, files)
    start = time.process_time()
    found = run(folder, files)
    seen.append([time.process_time() - start, found])
print(json.dumps(seen))
"""

#: Sums of the values, in the way of xarray.
LABELLED = """
import warnings
warnings.simplefilter("ignore")
def prepare(folder, files): pass
def point(folder, files):
    with opened(folder, files) as found:
        return float(found["tas"][:, 10, 20].values.sum(dtype="f8"))
def whole(folder, files):
    with opened(folder, files) as found:
        return float(found["tas"].values.sum(dtype="f8"))
"""

#: Sums of the values, file by file.
LOOP = """
import numpy as np
def prepare(folder, files): pass
def each(files, where):
    total = 0.0
    for path in files:
        with opened(path) as found:
            total += float(np.asarray(found["tas"][where]).sum(dtype="f8"))
    return total
def point(folder, files): return each(files, (slice(None), 10, 20))
def whole(folder, files): return each(files, slice(None))
"""

OURS = """
import os
import cfagg
def opened(folder, files):
    return cfagg.read(folder + "/many.nc", allow=[os.path.dirname(files[0])], **options)
"""

#: What it is called, the Python that has it, and what opens the files or the aggregation made of them.
READERS: tuple[tuple[str, str | None, str], ...] = (
    ("cfagg", None, LABELLED + OURS + "options = {}\n"),
    ("cfagg without index", None, LABELLED + OURS + "options = {'index': False}\n"),
    ("h5py loop", None, LOOP + "import h5py\nopened = h5py.File\n"),
    (
        "netCDF4 loop",
        None,
        LOOP + "import netCDF4\ndef opened(path):\n"
        "    found = netCDF4.Dataset(path)\n    found.set_auto_mask(False)\n    return found\n",
    ),
    (
        "open_mfdataset",
        None,
        LABELLED
        + """
import xarray as xr
def opened(folder, files):
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    return xr.open_mfdataset(files, combine="nested", concat_dim="time", **same)
""",
    ),
    (
        "cf-python",
        "cf",
        UDUNITS
        + """
import cf
def prepare(folder, files): pass
def tas(): return cf.read("many.nc").select_field("air_temperature")
def point(folder, files): return float(tas()[:, 10, 20].array.sum(dtype="f8"))
def whole(folder, files): return float(tas().array.sum(dtype="f8"))
""",
    ),
    (
        "CFAPyX",
        "cfapyx",
        LABELLED
        + """
import xarray as xr
def opened(folder, files): return xr.open_dataset(folder + "/many.nc", engine="CFA")
""",
    ),
    (
        "VirtualiZarr + Icechunk",
        "virtual",
        LABELLED
        + """
import os
import icechunk, xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_mfdataset
from virtualizarr.parsers import HDFParser
def prepare(folder, files):
    global repository
    home = "file://" + os.path.dirname(files[0]) + "/"
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "decode_times": False}
    opened = open_virtual_mfdataset(["file://" + path for path in files], parser=HDFParser(), combine="nested",
        registry=ObjectStoreRegistry({"file://": LocalStore()}), concat_dim="time",
        loadable_variables=["time", "time_bnds", "lat", "lon"], **same)
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(home, icechunk.local_filesystem_store(home[7:])))
    store = icechunk.local_filesystem_storage(folder + "/icechunk")
    repository = icechunk.Repository.create(store, config, icechunk.containers_credentials({home: None}))
    session = repository.writable_session("main")
    opened.vz.to_icechunk(session.store)
    session.commit("all")
def opened(folder, files):
    return xr.open_zarr(repository.readonly_session("main").store, consolidated=False, chunks=None)
""",
    ),
    (
        "kerchunk",
        "virtual",
        LABELLED
        + """
import json
import fsspec, xarray as xr
from kerchunk.combine import MultiZarrToZarr
from kerchunk.hdf import SingleHdf5ToZarr
def prepare(folder, files):
    found = [SingleHdf5ToZarr(path, path, inline_threshold=300).translate() for path in files]
    same = {"identical_dims": ["lat", "lon"], "remote_protocol": "file"}
    json.dump(MultiZarrToZarr(found, concat_dims=["time"], **same).translate(), open(folder + "/kerchunk.json", "w"))
def opened(folder, files):
    options = {"fo": folder + "/kerchunk.json", "remote_protocol": "file"}
    return xr.open_dataset("reference://", engine="zarr", chunks=None,
        backend_kwargs={"storage_options": options, "consolidated": False})
""",
    ),
)


def rows(small: bool) -> list[Row]:
    """Return what opening and reading takes; of others that are not installed, or small, there are none."""
    n = 20 if small else 365
    files = climate(n)
    with tempfile.TemporaryDirectory() as folder:
        cfagg.aggregate(files, output=f"{folder}/many.nc").close()
        Path(folder, "names").write_text("\n".join(files), encoding="utf-8")
        taken = {}
        for name, peer, code in READERS:
            python = Path(sys.executable) if peer is None else peer_python(peer, install=not small)
            if python is not None:
                taken[name] = _timed(python, code, folder)
    ours = taken.pop("cfagg")
    made = []
    for k, what in enumerate(("open, and a series at one point", "open, and the whole array")):
        for name, other in taken.items():
            if not math.isclose(other[k][1], ours[k][1], rel_tol=1e-6):
                raise AssertionError(f"{name}: the sum is {other[k][1]}, not {ours[k][1]}")
            own, theirs = ours[k][0], other[k][0]
            made.append(Row(f"{n} files by the index: {what}", own, theirs, name, theirs / own, None))
    return made


def _timed(python: Path, code: str, folder: str) -> list[tuple[float, float]]:
    """Return seconds and the sum for a point and for the whole array; some look for relative references from there."""
    command = [str(python), "-c", code + TIMED, folder, f"{folder}/names"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    seen: list[tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return seen
