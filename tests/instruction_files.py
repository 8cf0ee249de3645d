"""Aggregation files of CF-1.13 and CFA-0.6.2 written by hand with netCDF4 and NumPy alone: an oracle without cfagg."""

from __future__ import annotations

import pathlib

import netCDF4
import numpy as np


def text(root, name, dims, values, *, characters=False, **attributes):
    """Write a variable of strings, or of characters along one more dimension; `None` stays unwritten."""
    array = np.empty(np.shape(values), object)
    array[...] = values
    *groups, last = name.split("/")
    where = root
    for group in filter(None, groups):
        where = where.groups[group] if group in where.groups else where.createGroup(group)
    if characters:
        encoded = [("" if v is None else v).encode() for v in array.ravel()]
        length = max(map(len, encoded), default=1) or 1
        if f"strlen{length}" not in root.dimensions:
            root.createDimension(f"strlen{length}", length)
        variable = where.createVariable(last, "S1", (*dims, f"strlen{length}"))
        variable.setncatts(attributes)
        block = np.array(encoded, f"S{length}").view("S1").reshape(*array.shape, length)
        variable.set_auto_chartostring(False)
        variable[...] = block
        return variable
    variable = where.createVariable(last, str, dims)
    variable.setncatts(attributes)
    for index in np.ndindex(array.shape):
        if array[index] is not None:
            variable[index or ...] = array[index]
    return variable


def sizes(root, name, rows, dtype="i4", fill=None):
    """Write sizes of fragments, one row a dimension, padded with missing values; a scalar 1 without dimensions."""
    *groups, last = name.split("/")
    where = root
    for group in filter(None, groups):
        where = where.groups[group] if group in where.groups else where.createGroup(group)
    if not rows:
        variable = where.createVariable(last, dtype, ())
        variable[...] = 1
        return variable
    many = max(map(len, rows))
    for dim, n in ((f"j{len(rows)}", len(rows)), (f"i{many}", many)):
        if dim not in root.dimensions:
            root.createDimension(dim, n)
    variable = where.createVariable(last, dtype, (f"j{len(rows)}", f"i{many}"), fill_value=fill)
    for d, row in enumerate(rows):
        padded = np.ma.masked_all(many, dtype)
        padded[: len(row)] = row
        variable[d] = padded
    return variable


def aggregated(root, name, dtype, dims, terms, attributes=None, *, fill_value=None):
    """Write an aggregation variable, a scalar, with its two attributes."""
    *groups, last = name.split("/")
    where = root
    for group in filter(None, groups):
        where = where.groups[group] if group in where.groups else where.createGroup(group)
    variable = where.createVariable(last, dtype, (), fill_value=fill_value)
    variable.set_auto_maskandscale(False)
    variable.setncatts(attributes or {})
    variable.aggregated_dimensions = " ".join(dims)
    variable.aggregated_data = terms if isinstance(terms, str) else " ".join(f"{k}: {v}" for k, v in terms.items())
    return variable


def dimensions(root, **lengths):
    """Define dimensions that are not there yet."""
    for dim, n in lengths.items():
        if dim not in root.dimensions:
            root.createDimension(dim, n)


def cf(path, name, dtype, lengths, rows, uris, identifiers="tas", attributes=None, *, characters=False, **more):
    """Write a CF-1.13 file with one aggregation of fragments; `uris` span the array of fragments."""
    path = pathlib.Path(path)
    with netCDF4.Dataset(path, "a" if path.exists() else "w") as root:
        root.Conventions = "CF-1.13"
        dimensions(root, **lengths)
        fragment_dims = [f"f_{d}" for d in lengths]
        dimensions(root, **{f: len(row) for f, row in zip(fragment_dims, rows, strict=True)})
        sizes(root, "fragment_map", rows, more.pop("map_type", "i4"), more.pop("map_fill", None))
        text(root, "fragment_uris", fragment_dims, uris, characters=characters)
        scalar = isinstance(identifiers, str)
        text(root, "fragment_identifiers", () if scalar else fragment_dims, identifiers, characters=characters)
        terms = {"map": "fragment_map", "uris": "fragment_uris", "identifiers": "fragment_identifiers"}
        aggregated(root, name, dtype, lengths, terms, attributes, **more)
    return path


def cfa(path, name, dtype, lengths, rows, files, addresses="tas", formats="nc", attributes=None, **more):
    """Write a CFA-0.6.2 file with one aggregation; `files` may have one more dimension, of versions."""
    path = pathlib.Path(path)
    substitutions = more.pop("substitutions", None)
    custom = more.pop("terms", {})
    with netCDF4.Dataset(path, "a" if path.exists() else "w") as root:
        root.Conventions = "CF-1.10 CFA-0.6.2"
        dimensions(root, **lengths)
        fragment_dims = [f"f_{d}" for d in lengths]
        dimensions(root, **{f: len(row) for f, row in zip(fragment_dims, rows, strict=True)})
        spanned = fragment_dims
        if np.ndim(np.array(files, object)) > len(fragment_dims):
            dimensions(root, versions=np.shape(np.array(files, object))[-1])
            spanned = [*fragment_dims, "versions"]
        sizes(root, "location", rows)
        text(root, "file", spanned, files, **({"substitutions": substitutions} if substitutions else {}))
        for term, values in (("format", formats), ("address", addresses)):
            text(root, term, () if isinstance(values, str) else spanned, values)
        terms = {"location": "location", "file": "file", "format": "format", "address": "address"}
        for term, values in custom.items():
            text(root, f"fragment_{term}", fragment_dims, values)
            terms[term] = f"fragment_{term}"
        aggregated(root, name, dtype, lengths, terms, attributes, **more)
    return path
