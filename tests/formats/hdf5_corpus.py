"""HDF5 files of other writers: every version of the format, layout, filter, type and history of writing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np

__all__ = ["VERSIONS", "write"]

#: The versions of the format that h5py can write, oldest first.
VERSIONS = ("earliest", "v108", "v110", "latest")

_VALUES = np.random.default_rng(7).normal(280, 10, (9, 14))

_FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "deflate": {"compression": "gzip"},
    "shuffle": {"compression": "gzip", "shuffle": True},
    "fletcher": {"fletcher32": True},
    "all": {"compression": 9, "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
}

_TYPES = ["i1", "<u2", ">i4", "<i8", ">u8", "<f4", ">f8", "?"]


def write(folder: Path) -> dict[str, Path]:
    """Write the corpus, and return its files by name."""
    makers: dict[str, Callable[[h5py.File], object]] = {
        "layouts": _layouts, "filters": _filters, "types": _types, "histories": _histories, "groups": _groups,
        "shapes": _shapes, "attributes": _attributes,
    }  # fmt: skip
    made = {}
    for version, (name, maker) in product(VERSIONS, makers.items()):
        path = made[f"{name}, {version}"] = folder / f"{name}_{version}.h5"
        with h5py.File(path, "w", libver=version, track_order=name == "groups") as file:
            maker(file)
    for kind in ("NETCDF4", "NETCDF4_CLASSIC"):
        path = made[kind] = folder / f"{kind}.nc"
        with netCDF4.Dataset(path, "w", format=kind) as file:
            _netcdf(file)
    path = made["user block"] = folder / "user_block.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        _layouts(file)
    with path.open("r+b") as raw:
        raw.write(b"#!/bin/sh\n")
    return made


def _layouts(file: h5py.File) -> None:
    for name, chunks, most in (
        ("contiguous", None, None),
        ("single", (9, 14), None),
        ("fixed", (4, 5), None),
        ("one_unlimited", (4, 5), (None, 14)),
        ("inner_unlimited", (4, 5), (9, None)),
        ("unlimited", (4, 5), (None, None)),
        ("elements", (1, 1), (None, 14)),
        ("larger", (16, 16), (None, None)),
    ):
        file.create_dataset(name, data=_VALUES, chunks=chunks, maxshape=most)
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(_VALUES.shape)
    dataset = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F64BE, space, compact)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, _VALUES)


def _filters(file: h5py.File) -> None:
    for (name, options), kind, most in product(_FILTERS.items(), ("<f4", ">i2"), ((9, 14), (None, 14), (None, None))):
        label = f"{name}_{kind[1:]}_{'_'.join(map(str, most))}"
        file.create_dataset(label, data=_VALUES.astype(kind), chunks=(2, 6), maxshape=most, **options)
    for offset in (0, 3):
        rounded = (_VALUES * 10).astype("i4")
        file.create_dataset(f"scale_offset_{offset}", data=rounded, chunks=(3, 7), scaleoffset=offset or True)
    file.create_dataset("scale_offset_f4", data=_VALUES.astype("f4"), chunks=(3, 7), scaleoffset=4)


def _types(file: h5py.File) -> None:
    for kind, chunks in product(_TYPES, (None, (4, 5))):
        values = (_VALUES.round() if kind[-2:] != "i1" else _VALUES.round() - 280) > 280 if kind == "?" else _VALUES
        with np.errstate(invalid="ignore"):
            values = (values - 280 if kind == "i1" else values).astype(kind)
        label = {"<": "little", ">": "big"}.get(kind[0], "any")
        file.create_dataset(
            f"{label}_{kind.strip('<>?') or 'bool'}_{'chunked' if chunks else 'whole'}", data=values, chunks=chunks
        )


def _histories(file: h5py.File) -> None:
    """What was written in parts, grown, shrunk, written anew, or never."""
    never = file.create_dataset("never", (9, 14), "f4", chunks=(2, 5), fillvalue=-5)
    assert never.id.get_num_chunks() == 0
    file.create_dataset("never_whole", (9, 14), "i2", fillvalue=7)
    some = file.create_dataset("some", (40, 14), "f8", chunks=(2, 5), fillvalue=np.nan, compression="gzip")
    some[3:9:4, 6:8] = 1.5
    grown = file.create_dataset("grown", (3, 14), "i4", chunks=(2, 5), maxshape=(None, None), fillvalue=-1)
    grown[:] = 4
    grown.resize((25, 30))
    grown[20:, 11] = np.arange(5)
    shrunk = file.create_dataset("shrunk", (25, 30), "i4", chunks=(4, 4), maxshape=(None, 60), fillvalue=-1)
    shrunk[:] = np.arange(750).reshape(25, 30)
    shrunk.resize((7, 9))
    shrunk.resize((12, 13))
    again = file.create_dataset("again", (30, 30), "f4", chunks=(3, 3), maxshape=(None, 30), compression="gzip")
    for n in range(3):
        again[:] = np.random.default_rng(n).integers(0, 10**n, (30, 30))
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((3, 4))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
    early.set_fill_value(np.array(-2, "<i4"))
    dataset = h5py.h5d.create(file.id, b"early", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((9, 14)), early)
    h5py.Dataset(dataset)[4] = 1


def _groups(file: h5py.File) -> None:
    """Many links, deep groups, soft links and objects of two names."""
    many = file.create_group("many")
    for n in range(60):
        many.create_dataset(f"variable_{n:03}", data=np.arange(n + 1))
    deep = file
    for n in range(12):
        deep = deep.create_group(f"level{n}")
        deep["here"] = np.full((2, 3), n)
    file["soft"] = h5py.SoftLink("/many/variable_005")
    file["same"] = many["variable_007"]
    file["größe"] = np.arange(4.0)
    del many["variable_030"]


def _shapes(file: h5py.File) -> None:
    file["scalar"] = 4.5
    file["one"] = np.array([3], "i2")
    file["size_one"] = np.zeros((1, 1, 1, 1), "f4")
    file.create_dataset("empty", (0, 5), "f4", chunks=(2, 5), maxshape=(None, 5))
    file["cube"] = np.arange(2 * 3 * 4 * 5, dtype=">i4").reshape(2, 3, 4, 5)
    file.create_dataset("long", data=np.arange(5000), chunks=(7,), maxshape=(None,))
    file.create_dataset("flat", data=np.arange(600.0).reshape(1, 600), chunks=(1, 11), compression="gzip")


def _attributes(file: h5py.File) -> None:
    """So many attributes, and such long ones, that they do not fit into an object header."""
    values = file.create_dataset("v", data=_VALUES, chunks=(4, 5))
    for n in range(40):
        values.attrs[f"number_{n}"] = np.arange(n)
        values.attrs[f"text_{n}"] = "é" * n
    values.attrs["long"] = "x" * 60_000
    values.attrs["fixed"] = np.bytes_(b"abc")
    values.attrs["many texts"] = ["a", "bc", ""]


def _netcdf(file: netCDF4.Dataset) -> None:
    file.createDimension("time", None)
    file.createDimension("y", 9)
    file.createDimension("x", 14)
    file.Conventions = "CF-1.13"
    time = file.createVariable("time", "f8", ("time",))
    time.units = "days since 2000-01-01"
    time[:] = np.arange(5)
    for number, (kind, options) in enumerate(
        (
            ("f4", {}),
            ("i2", {"zlib": True, "shuffle": False, "chunksizes": (1, 3, 14)}),
            ("f8", {"zlib": True, "fletcher32": True, "endian": "big"}),
            ("i4", {"contiguous": False, "fill_value": -9, "least_significant_digit": None}),
        )
    ):
        variable = file.createVariable(f"v{number}", kind, ("time", "y", "x"), **options)
        variable[:4] = np.random.default_rng(number).integers(-9, 1000, (4, 9, 14))
    for number, dims in enumerate((("y", "time"), ("y", "x", "time"))):
        inner = file.createVariable(f"inner{number}", "i4", dims, chunksizes=[3] * len(dims), zlib=True)
        inner[:] = np.arange(inner.size).reshape(inner.shape)
    file.createVariable("plain", "f4", ("y", "x"))[:] = _VALUES
    file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
