"""Datasets in memory, described as files are."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfagg.cf.joining import Described, Members, Options, Reason, describe_all, join, members_of, tied, turned, why
from cfagg.model.dataset import Dataset, Group, Variable

TIME = {"standard_name": "time", "units": "days since 2000-01-01", "calendar": "standard"}
LATITUDE = {"standard_name": "latitude", "units": "degrees_north"}
LONGITUDE = {"standard_name": "longitude", "units": "degrees_east"}
TAS = {"standard_name": "air_temperature", "units": "K"}


def add(root: Group, name: str, dims: tuple[str, ...], values: Any, **attributes: Any) -> Variable:
    """Add a variable to a group; text is of strings."""
    array = np.asarray(values)
    kind: Any = {"f": "float", "i": "integer"}.get(array.dtype.kind, "string")
    if kind == "string":
        array = array.astype(object)
    for dim, size in zip(dims, array.shape, strict=True):
        if dim not in root.dimensions:
            root.add_dimension(dim, size)
    dimensions = tuple(root.dimensions[d] for d in dims)
    root.variables[name] = Variable(name, root, dimensions, array.dtype, kind, attributes, read=array.__getitem__)
    return root.variables[name]


def described(root: Group, options: Options | None = None) -> Described:
    """Return the description of the last data variable of a dataset."""
    return describe_all(Dataset("a.nc", "netcdf", root), options)[-1]


def boxes_of(*members: Described, options: Options | None = None) -> tuple[Members, Any]:
    """Return members and the boxes that they are joined into."""
    made = members_of(turned(tied(members, options)), options)
    return made, join(made, options)


def reason(a: Described, b: Described, *others: Described, options: Options | None = None) -> Reason:
    """Return why the first two are apart."""
    members, boxes = boxes_of(a, b, *others, options=options)
    found = why(members, boxes, 0, 1, options)
    assert found is not None
    assert str(found)
    return found
