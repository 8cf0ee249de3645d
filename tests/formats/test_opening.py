"""Which format something has is decided in one place: every way into the library says the same of it."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import CfaggError, OptionError, SourceError, SourceNotFoundError
from cfagg.formats.opening import CDL, CLASSIC, HDF5, ZIP, format_of, is_store, leaves_traces
from cfagg.storage.files import open_regular

WAYS: dict[str, Callable[[str], Any]] = {
    "read": lambda name: cfagg.read(name).close(),
    "show": cfagg.show,
    "check": cfagg.check,
    "convert": lambda name: cfagg.convert(name, "out.zarr", overwrite=True),
}

PP = (256).to_bytes(4, "big") + bytes(256) + (256).to_bytes(4, "big")

#: What no way into the library reads: content of a file, and what every one of them says of it.
OTHERS = {
    "a.grib": (b"GRIB\0\0\0\2" + bytes(100), "it is GRIB"),
    "a.hdf": (b"\x0e\x03\x13\x01" + bytes(100), "it is HDF4"),
    "grib.cdl": (b"GRIB\0\0\0\2" + bytes(100), "it is GRIB"),
    "packed.nc": (gzip.compress(b"CDF\x01"), "it is compressed with gzip"),
    "lfs.nc": (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS: fetch the file itself"),
    "page.nc": (b"<!DOCTYPE html>", "it is a web page"),
    "small.nc": (b"\n <!doctype html>", "it is a web page"),
    "empty.nc": (b"", "it is empty"),
    "C.nc": (b"C", "it starts with b'C'"),
    "CDF.nc": (b"CDF", "it starts with b'CDF'"),
    "CDF9.nc": (b"CDF\x09" + bytes(60), "it begins as classic netCDF of the unknown version 9, not 1, 2 or 5"),
    "HDF.nc": (b"\x89HDF", r"it starts with b'\x89HDF'"),
    "text.nc": (b"hello\n", r"it starts with b'hello\n'"),
    "zeros.nc": (bytes(600), f"it starts with {bytes(8)}"),
    "cut.pp": (
        PP[:200],
        "it begins as PP, big-endian with words of 4 bytes, but the header of its first field is cut or damaged",
    ),
    "cut.nc": (bytes(512) + b"\x89HDF\r\n\x1a", f"it starts with {bytes(8)}"),
}

#: Formats as netCDF4-python calls them, and what ours are.
KINDS = {
    "NETCDF3_CLASSIC": CLASSIC,
    "NETCDF3_64BIT_OFFSET": CLASSIC,
    "NETCDF3_64BIT_DATA": CLASSIC,
    "NETCDF4": HDF5,
    "NETCDF4_CLASSIC": HDF5,
}


def netcdf(path: str, form: str = "NETCDF4") -> None:
    with netCDF4.Dataset(path, "w", format=form) as made:
        made.createDimension("x", 3)
        made.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(way: str, name: str) -> tuple[type[CfaggError], str] | None:
    """Return the error of a way, without where we are and what it could have read; `None` where it reads it."""
    try:
        WAYS[way](name)
    except CfaggError as error:
        return type(error), re.sub("; expected .*", "", str(error).replace(f"{Path.cwd()}/", ""))
    return None


def told(name: str) -> tuple[type[CfaggError], str] | None:
    """Return what all ways say."""
    found = {way: said(way, name) for way in WAYS}
    assert len(set(found.values())) == 1, found
    return found["read"]


def kind_of(name: str) -> str | None:
    with open_regular(name) as handle:
        return format_of(handle)


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_format_is_called_the_same_everywhere(name: str) -> None:
    Path(name).write_bytes(OTHERS[name][0])
    assert told(name) == (SourceError, f"{name} is not a netCDF file: {OTHERS[name][1]}")
    assert kind_of(name) is None


def test_a_pp_file_that_ends_within_its_first_field_is_called_the_same_everywhere() -> None:
    Path("a.pp").write_bytes(PP)
    error, message = told("a.pp") or (None, "")
    assert (error, "a.pp is damaged or truncated PP: field 0" in message) == (SourceError, True)
    assert kind_of("a.pp") == "PP"


@pytest.mark.few(8)
@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("name", ["a.nc", "ünï 文.zarr", "a.cdl", "a.grib"])
def test_netcdf_is_known_by_its_content_under_any_name(name: str, form: str) -> None:
    netcdf(name, form)
    assert kind_of(name) == KINDS[form]
    assert told(name) is None


@pytest.mark.parametrize("start", [b"", b"PK\x03\x04", b"GRIB\0\0\0\2", b"netcdf a {}", b"CDF\x09", b"<html>"])
@pytest.mark.parametrize("size", [512, 2048])
def test_hdf5_behind_a_user_block_is_hdf5_whatever_the_block_holds(start: bytes, size: int) -> None:
    with h5py.File("a.nc", "w", userblock_size=size) as made:
        made["v"] = np.arange(3.0)
    with Path("a.nc").open("r+b") as file:
        file.write(start)
    assert kind_of("a.nc") == HDF5
    assert told("a.nc") is None


@pytest.mark.parametrize("name", ["a.cdl", "a.nc"])
@pytest.mark.parametrize("start", [b"", b"// a comment\n\n", b"\xef\xbb\xbf"])
def test_cdl_is_checked_and_called_cdl_by_what_does_not_read_it(name: str, start: bytes) -> None:
    Path(name).write_bytes(start + b"netcdf a {\n}\n")
    assert kind_of(name) == CDL
    assert said("check", name) is None
    for way in ("read", "show", "convert"):
        message = f"{name} is not a netCDF file: it is CDL, the text from which ncgen makes netCDF"
        assert said(way, name) == (SourceError, message)


def test_text_that_is_only_called_cdl_is_parsed_as_that() -> None:
    Path("a.cdl").write_text("netdcf a {\n}\n")
    assert said("check", "a.cdl") == (SourceError, "a.cdl, line 1: 'netdcf' where 'netcdf' is expected")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_directory_with_a_zarr_group_is_a_store(zarr_format: Any) -> None:
    group = zarr.create_group("a.nc", zarr_format=zarr_format)
    group.create_array("v", data=np.arange(3.0), **({"dimension_names": ["x"]} if zarr_format == 3 else {}))
    if zarr_format == 2:
        group["v"].attrs["_ARRAY_DIMENSIONS"] = ["x"]
    Path("link").symlink_to("a.nc")
    assert is_store("a.nc")
    assert told("a.nc") is told("a.nc/") is told("link") is None


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_one_array_is_a_store_and_no_group(zarr_format: Any) -> None:
    zarr.save_array("a.zarr", np.arange(3), zarr_format=zarr_format)
    assert is_store("a.zarr")
    assert said("show", "a.zarr") is said("check", "a.zarr") is said("convert", "a.zarr") is None
    message = (
        "a.zarr is a single Zarr array, and cfagg.read opens groups: name the group that contains it, or open "
        "the array with cfagg.open_array"
    )
    assert said("read", "a.zarr") == (SourceError, message)


def test_nczarr_is_a_store(folder: Path) -> None:
    netCDF4.Dataset(f"file://{folder}/a.zarr#mode=nczarr,file", "w").close()
    assert is_store("a.zarr")
    assert told("a.zarr") is None


@pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zip_with_a_store_is_read_and_called_a_zip_elsewhere(zarr_format: Any) -> None:
    with zarr.storage.ZipStore("a.nc", mode="w") as store:
        zarr.create_group(store, zarr_format=zarr_format)
    assert kind_of("a.nc") == ZIP
    assert said("read", "a.nc") is None
    for way in ("show", "check", "convert"):
        assert said(way, "a.nc") == (SourceError, "a.nc is not a netCDF file: it is a ZIP archive")


def test_a_zip_without_a_store_is_refused_by_every_way() -> None:
    with zipfile.ZipFile("a.zip", "w") as made:
        made.writestr("a.nc", "b")
    assert all(said(way, "a.zip") is not None for way in WAYS)


@pytest.mark.parametrize("document", [None, ".zattrs", ".zmetadata", ".nczarr", "a.nc"])
def test_a_directory_that_is_no_store_is_called_that(document: str | None) -> None:
    Path("folder").mkdir()
    if document:
        Path("folder", document).write_text("{}")
    # `check` goes into directories that are no stores, nor what is left of one.
    ways = WAYS if leaves_traces("folder") else {"read", "show", "convert"}
    assert leaves_traces("folder") == (document in (".zattrs", ".zmetadata", ".nczarr"))
    assert not is_store("folder")
    message = (
        "folder is not a Zarr store: it has neither zarr.json nor .zgroup; name the directory that has one, or join "
        "the files in it with cfagg.aggregate (cfagg aggregate)"
    )
    assert {said(way, "folder") for way in ways} == {(SourceError, message)}


@pytest.mark.parametrize("document", ["zarr.json", ".zgroup", ".zarray"])
def test_a_store_whose_document_is_a_link_to_nothing_is_called_damaged(document: str) -> None:
    Path("store").mkdir()
    Path("store", document).symlink_to("nowhere")
    assert is_store("store")
    assert told("store") == (SourceError, f"store/{document} is a broken link to 'nowhere'")


def test_what_is_no_regular_file_is_called_by_what_it_is() -> None:
    os.mkfifo("fifo.nc")
    Path("loop.nc").symlink_to("loop.nc")
    assert told("fifo.nc") == (SourceError, "fifo.nc is a FIFO; only regular files are read")
    assert told("loop.nc") == (SourceError, "loop.nc cannot be opened: Too many levels of symbolic links")
    assert told("/dev/null") == (SourceError, "/dev/null is a device; only regular files are read")


@pytest.mark.parametrize("name", ["absent.nc", "absent/a.nc", "broken.nc"])
def test_what_is_not_there_is_called_missing(name: str) -> None:
    Path("broken.nc").symlink_to("nowhere")
    assert told(name) == (SourceNotFoundError, f"there is no file {name}; check the path")


def test_an_empty_name_is_called_no_name() -> None:
    assert told("") == (SourceError, "'' is not a file name")
    for function in (lambda: cfagg.open_aggregation("", "v"), lambda: xr.open_dataset("", engine="cfagg")):
        with pytest.raises(SourceError, match="is not a file name"):
            function()


@pytest.mark.parametrize("way", WAYS)
def test_a_name_with_a_null_character_is_refused(way: str) -> None:
    error, message = said(way, "a\0b") or (None, "")
    assert error in (SourceError, OptionError)
    assert re.search(r"'a\\x00b' (is not a file name|contains a null character)", message)


def test_a_link_is_what_it_leads_to() -> None:
    netcdf("a.nc")
    Path("link.grib").symlink_to("a.nc")
    assert told("link.grib") is None


def test_what_was_judged_is_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes the place of another between the judgement and the reading is judged by itself."""
    netcdf("a.nc")
    Path("b").write_bytes(OTHERS["a.grib"][0])
    import cfagg.api.reading as module

    def swapping(handle: Any) -> str | None:
        found = format_of(handle)
        shutil.move("b", "a.nc")
        return found

    monkeypatch.setattr(module, "format_of", swapping)
    assert said("read", "a.nc") == (SourceError, "a.nc is not a netCDF file: it is GRIB")
