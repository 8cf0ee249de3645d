"""Random datasets, written in every format by the libraries of these formats, and read back by them."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import zarr
from hypothesis import strategies as st
from zarr.core.dtype import VariableLengthUTF8

import cfagg
from tests.conversion.aggregation_files import aggregation, attributes, is_aggregation, private_of, values
from tests.conversion.pp_files import Fields

#: Conventions of aggregation files, and formats whose attributes are JSON.
DIALECTS = ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13")
JSON = ("zarr 2", "zarr 3", "sharded", "icechunk")
SOURCES = ("netCDF-4", "netCDF-3", "PP", *JSON, *DIALECTS)
TARGETS = ("netcdf", *JSON, *DIALECTS)


@dataclass
class Array:
    """One variable as it is stored; attributes have types, and `_FillValue` is one of them."""

    dims: tuple[str, ...]
    data: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def packed(self) -> bool:
        """Whether its integers stand for reals."""
        return "scale_factor" in self.attributes


@dataclass
class Node:
    """A group with its dimensions, and those below it."""

    sizes: dict[str, int] = field(default_factory=dict)
    unlimited: set[str] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    groups: dict[str, Node] = field(default_factory=dict)

    @property
    def used(self) -> set[str]:
        """The names of dimensions that arrays have, here and in groups below."""
        return {d for _, array in self.walk() for d in array.dims}

    def growing(self, path: str = "", above: frozenset[str] = frozenset()) -> dict[str, set[str]]:
        """Return of each array, by its path, the dimensions that can grow."""
        known = frozenset(self.unlimited) | (above - self.sizes.keys())
        found = {f"{path}{name}": known.intersection(array.dims) for name, array in self.arrays.items()}
        for name, group in self.groups.items():
            found |= group.growing(f"{path}{name}/", known)
        return found

    def walk(self, path: str = ""):
        """Yield path and array of all arrays."""
        for name, array in self.arrays.items():
            yield f"{path}{name}", array
        for name, group in self.groups.items():
            yield from group.walk(f"{path}{name}/")


_CLASSIC = ("i1", "i2", "i4", "f4", "f8", "S1")
_OTHERS = ("u1", "u2", "u4", "i8", "u8", "O")


@st.composite
def arrays(draw, sizes: dict[str, int], *, classic: bool) -> Array:
    """One variable on some of the dimensions; of any type, packed, with fill values in it."""
    dims = tuple(draw(st.permutations(list(sizes)))[: draw(st.integers(0, len(sizes)))])
    if classic:  # an unlimited dimension of netCDF-3 comes first
        dims = tuple(sorted(dims, key=lambda d: d != "t"))
    shape = tuple(sizes[d] for d in dims)
    kind = draw(st.sampled_from(_CLASSIC if classic else _CLASSIC + _OTHERS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    attributes: dict[str, Any] = {"long_name": draw(st.sampled_from(["a b", "Ålesund", "x" * 70, ""]))}
    if kind == "O":
        return Array(dims, rng.choice(np.array(["", "a", "Kiel", "naïve"], object), shape), attributes)
    if kind == "S1":
        return Array(dims, rng.choice(np.frombuffer(b"abc", "S1"), shape), attributes)
    dtype = np.dtype(kind)
    data = rng.normal(0, 100, shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 100, shape).astype(dtype)
    if draw(st.booleans()):
        fill = dtype.type(draw(st.sampled_from([np.nan, 1e20]) if dtype.kind == "f" else st.sampled_from([0, 99, 127])))
        attributes["_FillValue"] = fill
        data = np.where(rng.random(shape) < 0.3, fill, data).astype(dtype)
    if dtype.kind == "i" and dtype.itemsize < 4 and draw(st.booleans()):
        real = draw(st.sampled_from([np.float32, np.float64]))
        attributes |= {"scale_factor": real(0.1), "add_offset": real(20.5)}
    if draw(st.booleans()):
        attributes["n"] = draw(st.sampled_from([np.int32(3), np.float64(0.5), np.float32(0.1), np.array([1, 2], "i4")]))
    if dtype.kind in "iu" and draw(st.booleans()):
        attributes |= {"flag_values": np.array([1, 2], dtype), "flag_meanings": "one two"}
    return Array(dims, np.asarray(data, dtype), attributes)


@st.composite
def nodes(
    draw,
    *,
    classic: bool,
    groups: bool,
    empty: bool = True,
    json: bool = False,
    above: dict[str, int] | None = None,
) -> Node:
    """A group with up to three dimensions, one of them unlimited, up to three variables, and perhaps a group.

    Variables may have dimensions of the group `above`.
    """
    sizes = {
        d: draw(st.integers(0 if d == "t" and empty else 1, 5))
        for d in draw(st.sampled_from(["", "t", "x", "tx", "txy"]))
    }
    made = Node(sizes, {"t"} & sizes.keys() if draw(st.booleans()) or sizes.get("t") == 0 else set())
    made.attributes = {"title": draw(st.sampled_from(["a store", "été"])), "version": np.int32(2)}
    if json and draw(st.booleans()):
        made.attributes |= {"nested": {"a": [1, None]}, "flag": True}
    for k in range(draw(st.integers(1, 3))):
        made.arrays[f"v{k}"] = draw(arrays({**(above or {}), **sizes}, classic=classic))
    if groups and draw(st.booleans()):
        made.groups["g"] = draw(nodes(classic=classic, groups=False, above=sizes))
    return made


def write(node: Node | Fields, folder: Path, form: str) -> Path:
    """Write a dataset in a format; aggregation files refer to a netCDF-4 file with the values."""
    if isinstance(node, Fields):
        (folder / "source.pp").write_bytes(node.content)
        return folder / "source.pp"
    if form in DIALECTS:
        source = write(node, folder, "netCDF-4")
        cfagg.convert(source, folder / "source.nca" if form == "NCA-0.1" else folder / "aggregation.nc", to=form)
        return folder / "source.nca" if form == "NCA-0.1" else folder / "aggregation.nc"
    if form.startswith("netCDF"):
        path = folder / "source.nc"
        with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC" if form == "netCDF-3" else "NETCDF4") as file:
            _write_netcdf(node, file)
        return path
    if form == "icechunk":
        import icechunk

        icechunk.set_logs_filter("error")
        made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "source.icechunk")))
        session = made.writable_session("main")
        _write_zarr(node, zarr.create_group(session.store), sharded=False)
        session.commit("written")
        return folder / "source.icechunk"
    path = folder / "source.zarr"
    root = zarr.open_group(str(path), mode="w", zarr_format=2 if form == "zarr 2" else 3)
    _write_zarr(node, root, sharded=form == "sharded")
    return path


def _write_netcdf(node: Node, file: Any) -> None:
    for name, size in node.sizes.items():
        file.createDimension(name, None if name in node.unlimited else size)
    file.setncatts(node.attributes)
    for name, array in node.arrays.items():
        kind: Any = str if array.data.dtype.kind == "O" else array.data.dtype
        attributes = dict(array.attributes)
        made = file.createVariable(name, kind, array.dims, fill_value=attributes.pop("_FillValue", None))
        made.set_auto_maskandscale(False)
        made.set_auto_chartostring(False)
        made.setncatts(attributes)
        made[...] = array.data
    for name, inner in node.groups.items():
        _write_netcdf(inner, file.createGroup(name))


def _write_zarr(node: Node, group: Any, *, sharded: bool) -> None:
    group.attrs.update({k: _json(v) for k, v in node.attributes.items()})
    two = group.metadata.zarr_format == 2
    for name, array in node.arrays.items():
        attributes = {k: _json(v) for k, v in array.attributes.items() if k != "_FillValue"}
        fill = array.attributes.get("_FillValue")
        options: dict[str, Any] = {"fill_value": fill}
        if two:
            attributes["_ARRAY_DIMENSIONS"] = list(array.dims)
        else:
            options = {"dimension_names": array.dims or None}
            if fill is not None:
                options["fill_value"] = fill
                packed = base64.b64encode(struct.pack("<d", float(fill))).decode()
                attributes["_FillValue"] = packed if array.data.dtype.kind == "f" else int(fill)
        if sharded and array.dims:
            options |= {"chunks": (2,) * len(array.dims), "shards": (4,) * len(array.dims)}
        dtype: Any = VariableLengthUTF8() if array.data.dtype.kind == "O" else array.data.dtype
        made = group.create_array(name, shape=array.data.shape, dtype=dtype, attributes=attributes, **options)
        made[...] = array.data
    for name, inner in node.groups.items():
        _write_zarr(inner, group.create_group(name), sharded=sharded)


def _json(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def read(path: Path, form: str, fields: Fields | None = None) -> Node:
    """Return what is in a target, which may refer to fields of a PP file, or what `cfagg.read` finds in a PP file."""
    if form == "PP":
        with cfagg.read(path, decode_cf=False) as ds:
            arrays = {str(k): Array(v.dims, v.values, dict(v.attrs)) for k, v in ds.variables.items()}
            return Node(dict(ds.sizes), set(), dict(ds.attrs), arrays)
    if form == "netcdf":
        with netCDF4.Dataset(path) as file:
            return _of_netcdf(file)
    if form == "icechunk":
        import icechunk

        icechunk.set_logs_filter("error")
        storage = icechunk.local_filesystem_storage(str(path))
        return _of_zarr(zarr.open_group(icechunk.Repository.open(storage).readonly_session("main").store, mode="r"))
    if form in JSON:
        return _of_zarr(zarr.open_group(str(path), mode="r"))
    with netCDF4.Dataset(path) as file:
        return _of_netcdf(file, path, fields)


def _of_netcdf(group: Any, path: Path | None = None, fields: Fields | None = None) -> Node:
    """Return a group of a netCDF file; with the path of the file, aggregations with what they refer to."""
    private = private_of(group) if path is not None else set()
    hidden = {d for name in private for d in group[name].dimensions}
    made = Node({n: len(d) for n, d in group.dimensions.items() if n not in hidden})
    made.unlimited = {n for n, d in group.dimensions.items() if d.isunlimited()}
    made.attributes = attributes(group)
    for name, variable in group.variables.items():
        if path is not None and is_aggregation(variable):
            made.arrays[name] = Array(*aggregation(variable, path, fields))
        elif name not in private:
            made.arrays[name] = Array(variable.dimensions, values(variable), attributes(variable))
    made.groups = {n: _of_netcdf(g, path, fields) for n, g in group.groups.items()}
    return made


def _of_zarr(group: Any) -> Node:
    made = Node(attributes=dict(group.attrs))
    for name, array in group.arrays():
        attributes = dict(array.attrs)
        dims = attributes.pop("_ARRAY_DIMENSIONS", None)
        if array.metadata.zarr_format == 2:
            if array.fill_value is not None:
                attributes["_FillValue"] = array.fill_value
        else:
            dims = array.metadata.dimension_names
            if isinstance(attributes.get("_FillValue"), str):
                attributes["_FillValue"] = struct.unpack("<d", base64.b64decode(attributes["_FillValue"]))[0]
        data = np.asarray(array[...])
        made.arrays[name] = Array(
            tuple(dims or ()), data.astype(object) if data.dtype.kind in "TU" else data, attributes
        )
    made.groups = {n: _of_zarr(g) for n, g in group.groups()}
    made.sizes = {d: n for a in made.arrays.values() for d, n in zip(a.dims, a.data.shape, strict=True)}
    made.unlimited = {d for d, n in made.sizes.items() if not n}  # as netCDF has them
    return made
