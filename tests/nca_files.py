"""NCA files and fragments written by hand with netCDF4, NumPy and json alone: an oracle without any code of cfagg."""

from __future__ import annotations

import itertools
import json
import pathlib

import netCDF4
import numpy as np


def fragment(
    path,
    name,
    values,
    dims,
    attributes=None,
    *,
    format="NETCDF4",  # noqa: A002
    group=None,
    fill_value=None,
    unlimited=(),
    coordinates=None,
    **storage,
):
    """Write `values`, exactly as given, as one variable of a new file or of one more group of an existing one."""
    path = pathlib.Path(path)
    values = np.asarray(values)
    with netCDF4.Dataset(path, "a" if path.exists() else "w", format=format) as root:
        root.set_auto_maskandscale(False)
        where = root.createGroup(group) if group else root
        _variable(where, name, values, dims, attributes or {}, fill_value, unlimited, storage)
        for key, (cdims, cvalues, cattributes) in (coordinates or {}).items():
            _variable(where, key, np.asarray(cvalues), cdims, cattributes, None, (), {})
    return path


def _variable(where, name, values, dims, attributes, fill_value, unlimited, storage):
    for dim, n in zip(dims, values.shape, strict=True):
        if dim not in where.dimensions:
            where.createDimension(dim, None if dim in unlimited else n)
    variable = where.createVariable(name, values.dtype, tuple(dims), fill_value=fill_value, **storage)
    variable.set_auto_maskandscale(False)
    variable.setncatts(attributes)
    variable[...] = values
    return variable


def aggregation(
    path,
    name,
    dtype,
    sizes,
    array,
    attributes=None,
    *,
    dims=None,
    coordinates=None,
    private=None,
    format="NETCDF4",  # noqa: A002
    group=None,
    fill_value=None,
    global_attributes=None,
):
    """Write an NCA file with one aggregation variable.

    `sizes` are the dimensions to define, `dims` those of the master array (all by default), `array` the content of
    ``nca_array``, `private` maps names to (dims, values, attributes, fill value).
    """
    path = pathlib.Path(path)
    dims = list(sizes) if dims is None else dims
    with netCDF4.Dataset(path, "a" if path.exists() else "w", format=format) as root:
        root.Conventions = "CF-1.5 NCA"
        root.setncatts(global_attributes or {})
        where = root.createGroup(group) if group else root
        for dim, n in sizes.items():
            if dim not in where.dimensions:
                where.createDimension(dim, n)
        for key, (cdims, values, cattributes) in (coordinates or {}).items():
            _variable(where, key, np.asarray(values), cdims, cattributes, None, (), {})
        variable = where.createVariable(name, dtype, (), fill_value=fill_value)
        variable.setncatts(attributes or {})
        variable.nca_dimensions = " ".join(dims)
        variable.nca_array = array if isinstance(array, str) else json.dumps(array)
        for key, (pdims, values, pattributes, pfill) in (private or {}).items():
            _variable(where, key, np.asarray(values), pdims, {**pattributes, "nca_private": np.int32(1)}, pfill, (), {})
    return path


def array(dims, edges, describe, directions=None):
    """Return the content of ``nca_array``; `describe(index, location)` gives what each partition says beyond those."""
    pdims = [d for d, e in zip(dims, edges, strict=True) if len(e) > 2]
    partitions = []
    for index in itertools.product(*(range(len(e) - 1) for e in edges)):
        location = [[int(e[i]), int(e[i + 1])] for e, i in zip(edges, index, strict=True)]
        where = [i for i, d in zip(index, dims, strict=True) if d in pdims]
        partitions.append({"index": where, **describe(index, location), "location": location})
    return {
        "directions": directions if directions is not None else dict.fromkeys(dims, True),
        "pdimensions": pdims,
        "pshape": [len(e) - 1 for d, e in zip(dims, edges, strict=True) if d in pdims],
        "Partitions": partitions,
    }


def simple(folder, values, dims, edges, name="tas", attributes=None, *, coordinates=None, fragments="parts", **storage):
    """Cut `values` along `edges` into files in a sub-directory, write ``agg.nca`` over them, and return its path."""
    folder = pathlib.Path(folder)
    (folder / fragments).mkdir(parents=True, exist_ok=True)

    def describe(index, location):
        file = f"{fragments}/{'_'.join(map(str, index)) or 'scalar'}.nc"
        piece = values[tuple(slice(a, b) for a, b in location)]
        fragment(folder / file, name, piece, dims, attributes, **storage)
        return {"data": {"file": file, "ncvar": name, "shape": list(piece.shape)}, "format": "netCDF"}

    content = (
        array(dims, edges, describe)
        if dims
        else {
            "directions": True,
            "pdimensions": [],
            "pshape": [],
            "Partitions": [{"index": [], **describe((), []), "location": []}],
        }
    )
    sizes = dict(zip(dims, values.shape, strict=True))
    return aggregation(folder / "agg.nca", name, values.dtype, sizes, content, attributes, coordinates=coordinates)
