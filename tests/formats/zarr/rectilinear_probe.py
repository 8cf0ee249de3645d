"""Reads a store with a rectilinear grid by every library that this Python has: ``python rectilinear_probe.py STORE``.

It prints JSON: per library its version, and the values of ``v`` or the error.  It imports nothing of ours, for it runs
in Pythons that have only a peer.
"""

import contextlib
import json
import sys
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, version

FLAG = "array.rectilinear_chunks"


@contextlib.contextmanager
def setting(on=True):
    import zarr

    with zarr.config.set({FLAG: True}) if on else contextlib.nullcontext():
        yield


def by_zarr(store, on):
    import zarr

    with setting(on):
        return zarr.open_group(store, mode="r")["v"][...]


def by_zarr_members(store, on):
    import zarr

    with setting(on):
        return [sorted(zarr.open_group(store, mode="r").array_keys())]


def by_zarrs(store, on):
    import zarr
    import zarrs  # noqa: F401 - which names its pipeline

    with setting(on), zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return by_zarr(store, on)


def by_xarray(store, on):
    import xarray

    with setting(on):
        return xarray.open_zarr(store, consolidated=False, chunks=None)["v"].values


def by_dask(store, on):
    import dask.array

    with setting(on):
        return dask.array.from_zarr(store, component="v").compute()


def by_zarrista(store, on):
    import numpy as np
    import zarrista

    array = zarrista.Array.open(zarrista.store.FilesystemStore(store), "/v")
    return np.asarray(array[...])


def by_tensorstore(store, on):
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store}/v/"}}
    return tensorstore.open(spec).result().read().result()


def by_icechunk(store, on):
    """Copy the stored objects into a repository, and read them there."""
    import asyncio
    from pathlib import Path

    import icechunk
    import zarr
    from zarr.core.buffer import default_buffer_prototype

    with tempfile.TemporaryDirectory() as folder, setting(on):
        session = icechunk.Repository.create(icechunk.local_filesystem_storage(folder)).writable_session("main")
        make = default_buffer_prototype().buffer.from_bytes
        for path in sorted(Path(store).rglob("*"), key=lambda p: (p.name != "zarr.json", p)):
            if path.is_file():
                key = path.relative_to(store).as_posix()
                asyncio.run(session.store.set(key, make(path.read_bytes())))
        session.commit("copied")
        return zarr.open_group(session.store, mode="r")["v"][...]


def by_virtualizarr(store, on):
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import ZarrParser

    with setting(on):
        registry = ObjectStoreRegistry({"file://": LocalStore()})
        return open_virtual_dataset(f"file://{store}", registry=registry, parser=ZarrParser())["v"].data


def by_netcdf(store, on):
    import netCDF4

    with netCDF4.Dataset(f"file://{store}#mode=zarr,file") as file:
        return file["v"][...]


#: What the table calls a library -> the package whose version counts, and how it reads.
LIBRARIES = {
    "zarr-python": ("zarr", by_zarr),
    "zarr-python, names": ("zarr", by_zarr_members),
    "zarrs": ("zarrs", by_zarrs),
    "zarrista": ("zarrista", by_zarrista),
    "xarray": ("xarray", by_xarray),
    "icechunk": ("icechunk", by_icechunk),
    "tensorstore": ("tensorstore", by_tensorstore),
    "VirtualiZarr": ("virtualizarr", by_virtualizarr),
    "dask.array.from_zarr": ("dask", by_dask),
    "netCDF-C": ("netCDF4", by_netcdf),
}


def tried(store):
    """Return per library its version, and what it gives without and with the setting of zarr-python."""
    found = {}
    for name, (package, function) in LIBRARIES.items():
        try:
            held = {"version": version(package)}
        except PackageNotFoundError:
            continue
        if package == "netCDF4":
            import netCDF4

            held["version"] = netCDF4.__netcdf4libversion__
        for on in (False, True):
            try:
                values = function(store, on)
                held[str(on)] = values.tolist() if hasattr(values, "tolist") else values
            except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
                held[str(on)] = f"{type(error).__name__}: {error}"
        found[name] = held
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n" + json.dumps(tried(sys.argv[1])))
