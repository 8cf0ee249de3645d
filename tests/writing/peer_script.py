"""Runs in an environment with cf-python, cfdm and CFAPyX: reads aggregation files with each, and writes such files.

``python peer_script.py FOLDER NAME…`` prints a JSON object: what each peer reads of each file in the folder, and which
file it wrote from ``a.nc`` and ``p.nc``.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

PEERS = ("cf-python", "cfdm", "CFAPyX")


def read(peer, name):
    """Return the values of ``tas`` as nested lists."""
    if peer == "CFAPyX":
        import xarray

        with xarray.open_dataset(name, engine="CFA") as found:
            return found["tas"].values.tolist()
    import importlib

    package = importlib.import_module("cf" if peer == "cf-python" else "cfdm")
    found = [field for field in package.read(name) if field.nc_get_variable() == "tas"]
    return found[0].array.tolist()


def write(peer):
    """Write an aggregation of two files, and return its name."""
    name = f"by-{peer}.nc"
    if peer == "CFAPyX":
        from cfapyx import CFANetCDF

        made = CFANetCDF([str(Path("a.nc").resolve()), "p.nc"])
        made.create()
        made.write(name)
    elif peer == "cf-python":
        import cf

        cf.write(cf.read("s-CF-1.13.nc"), name, cfa="auto")
    else:
        import cfdm

        cfdm.write(cfdm.read("s-CF-1.13.nc"), name, cfa="auto")
    return name


def main(folder, names):
    os.chdir(folder)
    warnings.simplefilter("ignore")
    found = {"read": {}, "written": {}}
    for peer in PEERS:
        for name in names:
            try:
                found["read"][f"{peer} {name}"] = read(peer, name)
            except Exception as error:  # noqa: BLE001 - whatever a peer raises
                found["read"][f"{peer} {name}"] = f"{type(error).__name__}: {error}"
        try:
            found["written"][peer] = write(peer)
        except Exception as error:  # noqa: BLE001
            found["written"][peer] = f"{type(error).__name__}: {error}"
    print("\npeers", json.dumps(found, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
