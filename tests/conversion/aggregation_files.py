"""Aggregation files read by netCDF4 and NumPy alone, as their conventions say: what a scientist would do by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import netCDF4
import numpy as np

from tests.conversion.pp_files import Fields

#: What marks an aggregation, by the name of the attribute with its dimensions.
_MARKS = {
    "nca_dimensions": ("nca_dimensions", "nca_array"),
    "cfa_dimensions": ("cf_role", "cfa_dimensions", "cfa_array"),
    "aggregated_dimensions": ("aggregated_dimensions", "aggregated_data"),
}


def values(variable: Any) -> np.ndarray:
    """Return values as they are stored."""
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    return np.asarray(variable[...], object if variable.dtype is str else variable.dtype)


def attributes(of: Any) -> dict[str, Any]:
    """Return attributes as they are stored."""
    return {name: of.getncattr(name) for name in of.ncattrs()}


def is_aggregation(variable: Any) -> bool:
    """Whether a variable says that its values are elsewhere."""
    return not _MARKS.keys().isdisjoint(variable.ncattrs())


def private_of(group: Any) -> set[str]:
    """Return the names of the variables of a group that only describe fragments."""
    found = (v.getncattr("aggregated_data") for v in group.variables.values() if "aggregated_data" in v.ncattrs())
    return {name for text in found for name in text.split()[1::2]}


def aggregation(
    variable: Any, path: Path, fields: Fields | None = None
) -> tuple[tuple[str, ...], np.ndarray, dict[str, Any]]:
    """Return dimensions, values and attributes of an aggregation in a file at a path.

    Values are as the variable itself says that they are stored: of packed fragments of a variable that is not packed,
    what they stand for.
    """
    given = attributes(variable)
    mark = next(name for name in _MARKS if name in given)
    dims = tuple(given[mark].split())
    own = {k: v for k, v in given.items() if k not in _MARKS[mark]}
    group = variable.group()
    shape = tuple(_size(group, d) for d in dims)
    data = np.full(shape, None) if variable.dtype is str else np.zeros(shape, variable.dtype)
    seen = np.zeros(shape, int)
    for box, file, address in (_listed if mark != "aggregated_dimensions" else _terms)(group, given, mark, dims):
        place = tuple(slice(a, b) for a, b in box)
        place_of = path.parent / file
        if isinstance(address, int):
            assert fields is not None, f"{variable.name} refers to a field of {file}"
            known = fields.values[address].astype(data.dtype).filled(own.get("_FillValue"))
            data[place] = known.reshape(data[place].shape)
            seen[place] += 1
            continue
        # By its name, netCDF-C ended the process where files with groups were opened one within another.
        found = place_of.read_bytes()
        opened = {"memory": found} if found.startswith(b"\x89HDF") else {}
        with netCDF4.Dataset(place_of, **opened) as fragment:
            data[place] = _conformed(fragment[address], own, data.dtype)
        seen[place] += 1
    assert (seen == 1).all(), f"{variable.name}: fragments are {seen}"
    return dims, data, own


def _size(group: Any, dim: str) -> int:
    while dim not in group.dimensions:
        group = group.parent
    return len(group.dimensions[dim])


def _listed(group: Any, given: dict[str, Any], mark: str, dims: tuple[str, ...]):
    """Yield box, file, and variable or place of the partitions that a text of JSON lists (NCA, CFA 0.4)."""
    old = mark == "cfa_dimensions"
    found = json.loads(given["cfa_array" if old else "nca_array"])
    for one in found["Partitions"]:
        said = one["subarray" if old else "data"]
        # The last index of CFA 0.4 is included.
        box = [(a, b + old) for a, b in one.get("location", [])]
        assert len(box) == len(dims)
        address = said["file_offset"] if "file_offset" in said else said["ncvar"]
        yield box, Path(found.get("base") or "") / said["file"], address


def _terms(group: Any, given: dict[str, Any], mark: str, dims: tuple[str, ...]):
    """Yield box, file and variable of the fragments that variables tell (CFA 0.6.2, CF 1.13)."""
    words = given["aggregated_data"].split()
    terms = {k.rstrip(":"): values(group[v]) for k, v in zip(words[::2], words[1::2], strict=True)}
    if "map" in terms:
        sizes, files, names = terms["map"], terms["uris"], terms["identifiers"]
    else:
        sizes, files, names = terms["location"], terms["file"], terms["address"]
    rows = np.ma.masked_equal(sizes, netCDF4.default_fillvals["i4"]).reshape(len(dims), -1)
    edges = [np.concatenate([[0], np.cumsum(row.compressed())]) for row in rows]
    for index in np.ndindex(files.shape):
        name = names[index] if names.ndim else names[()]
        box = [(int(e[i]), int(e[i + 1])) for e, i in zip(edges, index, strict=True)]
        yield box, unquote(files[index]) if "map" in terms else files[index], name


def _conformed(fragment: Any, master: dict[str, Any], dtype: np.dtype) -> np.ndarray:
    """Return what a fragment holds as its aggregation stores it."""
    given = attributes(fragment)
    data = values(fragment)
    packing = {k for k in ("scale_factor", "add_offset") if k in given}
    if not packing or all(master.get(k) == given[k] for k in packing):
        return data
    assert packing.isdisjoint(master), "packed in two ways"
    out = data * np.float64(given.get("scale_factor", 1)) + np.float64(given.get("add_offset", 0))
    missing = data == given.get("_FillValue", netCDF4.default_fillvals[data.dtype.str[1:]])
    return np.where(missing, master.get("_FillValue", np.nan), out).astype(dtype)
