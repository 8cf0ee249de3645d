"""Programs that are measured beside ours, in Pythons of their own: ``python -m tests.benchmarks.peers anemoi``.

Each is installed once in a folder under ``.bench``; a variable of the environment names another Python that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["PEERS", "UDUNITS", "peer_python"]

#: Of each peer the packages, in the versions that are measured, and the variable that names another Python.
PEERS: dict[str, tuple[tuple[str, ...], str]] = {
    # It reads aggregation variables of CF-1.13.
    "cf": (("cf-python==3.21.0", "cf-units"), "CFAGG_CF_PYTHON"),
    # The two other checkers of CF compliance; nothing of them is imported here.
    "checkers": (("compliance-checker==6.1.0", "cfchecker==4.1.0", "cf-units"), "CFAGG_CHECKERS_PYTHON"),
    # The published software of observation windows, which needs version 2 of zarr-python.
    "anemoi": (("anemoi-datasets==0.5.47",), "CFAGG_PEER_PYTHON"),
    # It makes one cube of many PP and netCDF files.
    "iris": (("scitools-iris==3.16.2",), "CFAGG_IRIS_PYTHON"),
    # They make one virtual dataset of many netCDF files.
    "virtual": (
        ("virtualizarr==2.8.0", "icechunk==2.3.0", "kerchunk==0.2.10", "h5py", "obstore"),
        "CFAGG_VIRTUAL_PYTHON",
    ),
    # They list the chunks of HDF5 files, in Rust.
    "hidefix": (("hidefix==0.12.0", "async-hdf5==0.1.0", "obstore", "netCDF4", "xarray"), "CFAGG_HIDEFIX_PYTHON"),
    # Readers of Zarr in Rust and in C++.
    "zarrs": (("zarrista==0.1.0", "tensorstore==0.1.86", "zarr==3.4.2"), "CFAGG_ZARRS_PYTHON"),
    # It reads aggregation variables of CFA-0.6.2.
    "cfapyx": (("CFAPyX==2026.10.2", "dask", "netCDF4"), "CFAGG_CFAPYX_PYTHON"),
    # They read chunks of unequal lengths, or do not; and zarr-python when it did not yet, and when it first did.
    "rectilinear": (
        (
            *("zarr==3.4.2", "zarrista==0.1.0", "zarrs==0.2.3", "tensorstore==0.1.86", "icechunk==2.3.0"),
            *("virtualizarr==2.8.0", "obstore", "xarray==2026.9.0"),
        ),
        "CFAGG_RECTILINEAR_PYTHON",
    ),
    # It reads and writes sparse matrices in Zarr stores.
    "anndata": (("anndata==0.13.4", "zarr==3.4.2"), "CFAGG_ANNDATA_PYTHON"),
    "zarr_3_1": (("zarr==3.1.6",), "CFAGG_ZARR_3_1_PYTHON"),
    "zarr_3_2": (("zarr==3.2.0",), "CFAGG_ZARR_3_2_PYTHON"),
}

#: Lets a program find the UDUNITS that cf-units brings along where the system has none.
UDUNITS = """
import ctypes.util, os, sys
from glob import glob
from importlib.util import find_spec
if ctypes.util.find_library("udunits2") is None:
    home = os.path.dirname(find_spec("cf_units").origin)
    library, = glob(os.path.join(os.path.dirname(home), "cf_units.libs", "libudunits2*"))
    os.environ["UDUNITS2_XML_PATH"] = os.path.join(home, "etc", "share", "udunits2.xml")
    found = ctypes.util.find_library
    ctypes.util.find_library = lambda name: library if name == "udunits2" else found(name)
"""


def peer_python(name: str, *, install: bool) -> Path | None:
    """Return a Python that has a peer, `None` where there is none; `install` makes it, which takes a minute."""
    packages, variable = PEERS[name]
    home = Path(__file__).resolve().parents[2] / ".bench" / name
    named = os.environ.get(variable)
    python = Path(named) if named else home / "bin" / "python"
    done = home / "installed"
    if named or done.exists() or not install:
        return python if python.exists() else None
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *packages], check=True)
    done.touch()
    return python


if __name__ == "__main__":
    for peer in sys.argv[1:]:
        print(peer_python(peer, install=True))
