"""Exports that other libraries open: kerchunk's references by fsspec and zarr-python, Icechunk by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.arrays.opening import open_any
from cfagg.storage.access import Access
from cfagg.writing.exports.exporting import export
from tests.writing.exports.files import series


def exported(path: Path, name: str, **options: Any) -> Any:
    to = "icechunk" if name.endswith("icechunk") else "kerchunk"
    return export(open_any(path), Access(path), path.parent / name, to, **options)


def opened(path: Path) -> xr.Dataset:
    """Open what was exported without cfagg."""
    if path.suffix == ".icechunk":
        icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
        place = f"file://{str(path.parent).replace('%', '%25')}/"
        allowed = {place: icechunk.credentials.LocalFileSystemAccess}
        found = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)), None, allowed)
        with zarr.config.set({"array.rectilinear_chunks": True}):
            return xr.open_zarr(found.readonly_session("main").store, consolidated=False).load()
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    given = {"fo": str(path), "remote_protocol": "file"}
    if path.is_dir():
        from fsspec.implementations.reference import LazyReferenceMapper

        given["fo"] = LazyReferenceMapper(str(path), fsspec.filesystem("file"), engine="pyarrow")
    files = fsspec.filesystem("reference", **given, asynchronous=True)
    return xr.open_dataset(zarr.storage.FsspecStore(files), engine="zarr", consolidated=False).load()


FORMS = {
    "deflate": {"zlib": True, "shuffle": True, "chunksizes": (4, 10, 30)},
    "checked": {"zlib": True, "fletcher32": True, "chunksizes": (12, 20, 30)},
    "zstd": {"compression": "zstd", "chunksizes": (6, 20, 15)},
    "big-endian": {"endian": "big", "chunksizes": (4, 10, 30)},
    "contiguous": {"contiguous": True},
    "classic": {"form": "NETCDF3_CLASSIC"},
    "records": {"form": "NETCDF3_64BIT_OFFSET", "unlimited": True},
    "partial at the end": {"zlib": True, "chunksizes": (12, 7, 13)},
}
TARGETS = ("tas.json", "tas.parquet", "tas.icechunk")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", TARGETS)
def test_exports_are_opened_with_the_values_of_the_files(tmp_path, form, target):
    path, values = series(tmp_path, **FORMS[form])
    report = exported(path, target)
    assert (report.variables, report.losses) == (("tas",), ())
    found, own = opened(tmp_path / target), cfagg.read(path)
    np.testing.assert_array_equal(found.tas.values, values)
    xr.testing.assert_equal(found.time, own.time)
    xr.testing.assert_equal(found.lat, own.lat)
    assert (found.tas.attrs, found.tas.dtype) == (own.tas.attrs, own.tas.dtype)
    assert str(found.experiment.values) == "historical"
