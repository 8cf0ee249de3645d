"""Aggregating files: scans against h5py, a point against other virtual datasets, PP files against iris, and growth."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.aggregate_files import H5PY_KINDS, by_h5py, climate, small_netcdf, small_pp
from tests.benchmarks.peers import PEERS, UDUNITS, peer_python
from tests.benchmarks.table import Row
from tests.checking.real import packages

#: Runs on three of the files, so that all is imported, then on all of them, and prints the seconds of the processor
#: that it and its children took, the bytes that it grew by, and what it returned.
TIMED = """
import json, os, resource, sys

def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)

def most():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

files, = (open(sys.argv[1]).read().split("\\n") for _ in range(1))
run(files[:3])
before, held = spent(), most()
found = run(files)
print(json.dumps([spent() - before, most() - held, found]))
"""

OURS = """
import cfagg
def run(files):
    return len(cfagg.aggregate(files).data_vars)
"""

#: In this process alone, as the program that it is compared with.
ALONE = OURS.replace("aggregate(files)", "aggregate(files, workers=1)")

H5PY = """
import h5py
def run(files):
    count = 0
    for path in files:
        with h5py.File(path) as root:
            dict(root.attrs)
            for name, variable in root.items():
                count += len(dict(variable.attrs))
                if name in ("time", "time_bnds", "lat", "lon"):
                    count += variable[()].size
                elif "DIMENSION_LIST" in variable.attrs:
                    chunks = variable.id.get_num_chunks()
                    count += sum(variable.id.get_chunk_info(i).size for i in range(chunks))
    return count
"""

#: Where all chunks stand, written into a file, and the same only found.
INDEX = """
import tempfile
import cfagg
def run(files):
    with tempfile.TemporaryDirectory() as folder:
        return cfagg.index(files, output=folder + "/index", workers=1).files
"""

HIDEFIX = """
import hidefix
def run(files):
    return len([hidefix.Index(path) for path in files])
"""

ASYNC_HDF5 = """
import asyncio
from async_hdf5 import HDF5File
from obstore.store import LocalStore
async def chunks(path, store):
    root = await (await HDF5File.open(path, store=store)).root_group()
    sets = [await root.dataset(name) for name in await root.dataset_names()]
    return [await one.chunk_index() for one in sets]
async def listed(files):
    store = LocalStore()
    return [await chunks(path.lstrip("/"), store) for path in files]
def run(files):
    return len(asyncio.run(listed(files)))
"""

#: The value of `tas` on the last day at one place, which all of these return.
POINT = {
    "cfagg": """
import cfagg
def run(files):
    return float(cfagg.aggregate(files)["tas"][-1, 10, 20])
""",
    "open_mfdataset": """
import xarray as xr
def run(files):
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    with xr.open_mfdataset(files, combine="nested", concat_dim="time", **same) as opened:
        return float(opened["tas"][-1, 10, 20])
""",
    "VirtualiZarr + Icechunk": """
import os, tempfile, warnings
import icechunk, xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_mfdataset
from virtualizarr.parsers import HDFParser
warnings.simplefilter("ignore")
def run(files):
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    urls = ["file://" + path for path in files]
    opened = open_virtual_mfdataset(urls, registry=registry, parser=HDFParser(), combine="nested", concat_dim="time",
        loadable_variables=["time", "time_bnds", "lat", "lon"], decode_times=False, **same)
    home = "file://" + os.path.dirname(files[0]) + "/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(home, icechunk.local_filesystem_store(home[7:])))
    with tempfile.TemporaryDirectory() as folder:
        store = icechunk.local_filesystem_storage(folder)
        repository = icechunk.Repository.create(store, config, icechunk.containers_credentials({home: None}))
        session = repository.writable_session("main")
        opened.vz.to_icechunk(session.store)
        session.commit("all")
        return float(xr.open_zarr(repository.readonly_session("main").store, consolidated=False)["tas"][-1, 10, 20])
""",
    "kerchunk": """
import warnings
import fsspec, xarray as xr
from kerchunk.combine import MultiZarrToZarr
from kerchunk.hdf import SingleHdf5ToZarr
warnings.simplefilter("ignore")
def run(files):
    references = [SingleHdf5ToZarr(path, path, inline_threshold=300).translate() for path in files]
    joined = MultiZarrToZarr(references, concat_dims=["time"], identical_dims=["lat", "lon"], remote_protocol="file")
    options = {"fo": joined.translate(), "remote_protocol": "file"}
    with xr.open_dataset("reference://", engine="zarr", chunks=None,
            backend_kwargs={"storage_options": options, "consolidated": False}) as opened:
        return float(opened["tas"][-1, 10, 20])
""",
}

IRIS = """
import warnings
import iris
warnings.simplefilter("ignore")
def run(files):
    return len(iris.load(files))
"""

CF = f"""
{UDUNITS}
import cf
def run(files):
    return len(cf.read(files))
"""


def rows(small: bool) -> list[Row]:
    """Return what aggregating takes; the peers are left out where it is small."""
    return [*_scan(small), *_point(small), *_pp(small), *_growth(small)]


def _scan(small: bool) -> list[Row]:
    n = 20 if small else 2000
    files = climate(n)
    (ours, _, found), (other, *_) = (_timed(sys.executable, code, files) for code in (ALONE, H5PY))
    assert found == 4 + 1
    wanted, job = 1.5 * n / 2000, f"aggregate {n} files of four variables"
    return [
        *_index(files, small),
        Row(job, ours, wanted, "1.5 s for 2,000", wanted / ours, None if small else 1.0),
        Row(job, ours, other, "h5py: attributes, coordinates, chunks", other / ours, None if small else 1 / 0.35),
    ]


def _index(files: list[str], small: bool) -> list[Row]:
    """Return what it takes to index files of netCDF-4 and of h5py, where there are others that do."""
    python = peer_python("hidefix", install=not small)
    if python is None:
        return []
    few = 20 if small else 300
    (another, _, count), made = _timed(python, ASYNC_HDF5, files), list[Row]()
    assert count == len(files)
    kinds = {"of four variables": (files, 1 / 2)}
    kinds |= {f"by h5py, {kind}": (by_h5py(few, kind), None) for kind in H5PY_KINDS}
    for kind, (some, bar) in kinds.items():
        (ours, _, found), (other, _, count) = (
            _timed(*one, some) for one in ((sys.executable, INDEX), (python, HIDEFIX))
        )
        assert found == count == len(some)
        job = f"index {len(some)} files {kind}"
        made.append(Row(job, ours, other, PEERS["hidefix"][0][0], other / ours, None if small else bar))
        if some is files:
            made.append(Row(job, ours, another, PEERS["hidefix"][0][1], another / ours, None))
    return made


def _point(small: bool) -> list[Row]:
    n = 20 if small else 500
    files = climate(n)
    bars = {"open_mfdataset": 5.0, "VirtualiZarr + Icechunk": 15.0, "kerchunk": None}
    ours, _, value = _timed(sys.executable, POINT["cfagg"], files)
    made = []
    for peer, bar in bars.items():
        python = Path(sys.executable) if peer == "open_mfdataset" else peer_python("virtual", install=not small)
        if python is None:
            continue
        other, _, found = _timed(python, POINT[peer], files)
        assert found == value, (peer, found, value)
        against = peer if peer == "open_mfdataset" else ", ".join(PEERS["virtual"][0][:3])
        note = peer if against != peer else ""
        made.append(
            Row(f"{n} files and one point", ours, other, against, other / ours, None if small else bar, note=note)
        )
    return made


def _pp(small: bool) -> list[Row]:
    """Return what 120 monthly files of a model take; they are a package, which is not installed for small."""
    if small:
        files = small_pp(12)
    else:
        packages.install()
        files = sorted(map(str, packages.HERE.glob("iris_sample_data/sample_data/UM/*.pp")))
    ours, *_ = _timed(sys.executable, OURS, files)
    job = f"aggregate {len(files)} PP files"
    made = [Row(job, ours, 0.3, "0.3 s for 120", 0.3 / ours, None if small else 1.0)]
    for peer, code in (("iris", IRIS), ("cf", CF)):
        python = peer_python(peer, install=not small)
        if python is not None and not small:
            other, *_ = _timed(python, code, files)
            made.append(Row(job, ours, other, PEERS[peer][0][0], other / ours, None if peer == "iris" else 12.0))
    return made


def _growth(small: bool) -> list[Row]:
    """Return time and memory per file of many, against those of few."""
    few, many = (20, 100) if small else (1000, 42_000)
    made = []
    for kind, write in (("netCDF", small_netcdf), ("PP", small_pp)):
        (short, less, _), (long, more, _) = (_timed(sys.executable, OURS, write(n)) for n in (few, many))
        job, bar = f"{many:,} small {kind} files", None if small else 0.8
        made.append(
            Row(f"{job}: time a file", long / many, short / few, f"{few:,} files", short / few / (long / many), bar)
        )
        held, before = max(more, 1) / many, max(less, 1) / few
        made.append(Row(f"{job}: memory a file", held, before, f"{few:,} files", before / held, bar, "bytes"))
    return made


def _timed(python: str | Path, code: str, files: list[str]) -> list[float]:
    """Return seconds, bytes and the result of a program over files."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(files))
        names.flush()
        command = [str(python), "-c", code + TIMED, names.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found
