"""HDF5 objects as netCDF, for all readers.

Dimensions are datasets, and the dimensions of variables are references to them.

Source: "NetCDF-4 file format" in the netCDF user guide; HDF5 dimension scales specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.metadata.foreign import name_of, too_long, value_of
from cfagg.formats.values.netcdf4_names import NO_VARIABLE, NON_COORDINATE
from cfagg.model.dataset import AttributeValue, Dimension, Group, Kind, Variable

__all__ = ["DEEPEST", "LACKING", "NO_VALUES", "NULL", "Assembly", "Description", "lacking", "texts_of", "unread_type"]


#: Most levels of groups.
DEEPEST = 4096

#: Values of a variable that are read for any size of the file, and most values per byte of it: unwritten ones need no
#: bytes, and one deflated byte may inflate to 1032.
_FEW, _DENSEST = 1 << 26, 2048


#: Why there are no values in a null dataspace, and the type and kind of datasets that have one.
NULL = "the netCDF library fails on its null dataspace; write it with values or remove it"
NO_VALUES: tuple[np.dtype[Any], Kind] = (np.dtype(object, metadata={"lacking": NULL}), "other")

#: Classes of HDF5 types that netCDF lacks, however a type is named, in words.
LACKING = {2: "times", 4: "bit fields", 7: "references", 10: "arrays"}


def lacking(class_: int) -> np.dtype[Any]:
    """Return the type of values that netCDF has no type for, with the reason as metadata if no library reads them."""
    types = LACKING.get(class_)
    return np.dtype(object) if types is None else np.dtype(object, metadata={"lacking": unread_type(types)})


def unread_type(types: str) -> str:
    """Return why the netCDF library leaves out values of an HDF5 type."""
    return f"the netCDF library does not read its HDF5 type ({types}); write it as numbers or text"


@dataclass(slots=True)
class Description:
    """An HDF5 dataset, as interpreted by netCDF."""

    #: Its location, which identifies it.
    address: int
    shape: tuple[int, ...]
    #: Which dimensions are unlimited.
    grows: tuple[bool, ...]
    dtype: np.dtype[Any]
    kind: Kind
    attributes: dict[str, AttributeValue]
    #: Internal attributes of the netCDF library; the others are shown.
    internal: Mapping[str, AttributeValue]
    #: For each dimension, the address of the dataset that is the dimension.
    scales: Sequence[int | None] | None = None


class Assembly:
    """Assembles the datasets of a file of `size` bytes: `add` them all, then `finish`."""

    def __init__(self, size: int) -> None:
        self._most = max(_FEW, size * _DENSEST)
        self._known: dict[int, Dimension] = {}
        self._numbered: dict[int, Dimension] = {}
        #: Numbers of the dimensions, which determine their order, and their groups.
        self._numbers: dict[int, int] = {}
        self._groups: dict[str, Group] = {}
        self._variables: list[tuple[Variable, Description]] = []
        self._phony = 0

    def add(
        self, group: Group, name: str, found: Description, read: Callable[[Variable], Callable[..., npt.NDArray[Any]]]
    ) -> None:
        """Add a dataset to its group: as a dimension, a variable, or both; `read` returns its reader."""
        name = name.removeprefix(NON_COORDINATE)
        if found.internal and found.internal.get("CLASS") == "DIMENSION_SCALE":
            size, grows = (found.shape[0], found.grows[0]) if found.shape else (1, False)
            dimension = group.add_dimension(name, size, unlimited=grows)
            self._known[found.address] = dimension
            number = found.internal.get("_Netcdf4Dimid")
            if isinstance(number, np.ndarray) and number.size == 1:
                self._numbered.setdefault(int(number[0]), dimension)
                self._numbers[id(dimension)] = int(number[0])
                self._groups[group.path] = group
            title = found.internal.get("NAME")
            if isinstance(title, str) and title.startswith(NO_VARIABLE):
                return
        variable = Variable(name, group, (), found.dtype, found.kind, found.attributes)
        variable.read, variable.most = read(variable), self._most
        group.variables[name] = variable
        self._variables.append((variable, found))

    def finish(self) -> None:
        """Give all variables their dimensions, and unlimited dimensions the length of the longest variable."""
        for group in self._groups.values():
            known = group.dimensions.items()
            group.dimensions = dict(sorted(known, key=lambda item: self._numbers.get(id(item[1]), 1 << 62)))
        for variable, found in self._variables:
            variable.dimensions = self._dimensions(variable, found)
        for variable, found in self._variables:
            for dimension, size in zip(variable.dimensions, found.shape, strict=False):
                if dimension.unlimited and size > dimension.size:
                    dimension.size = size

    def _dimensions(self, variable: Variable, found: Description) -> tuple[Dimension, ...]:
        shape = found.shape
        if not shape:
            return ()
        numbers = found.internal.get("_Netcdf4Coordinates")
        if isinstance(numbers, np.ndarray) and numbers.size == len(shape):
            numbered = tuple(map(self._numbered.get, map(int, numbers.tolist())))
            if None not in numbered:
                return numbered  # type: ignore[return-value]
        own = self._known.get(found.address)
        if own is not None and len(shape) == 1:
            return (own,)
        named: list[Dimension | None] = [None] * len(shape)
        if found.scales is not None and len(found.scales) == len(shape):
            named = [self._known.get(a) if a is not None else None for a in found.scales]
        if own is not None and named[0] is None:
            named[0] = own
        taken: tuple[Dimension, ...] = ()
        for dimension, size, grows in zip(named, shape, found.grows, strict=True):
            taken = (*taken, dimension or self._unnamed(variable.group, size, grows, taken))
        return taken

    def _unnamed(self, group: Group, size: int, grows: bool, taken: tuple[Dimension, ...]) -> Dimension:
        """Return a dimension for one that has no name: one for each length in a group, as in the netCDF library."""
        for dimension in group.dimensions.values():
            if (
                dimension.name.startswith("phony_dim_")
                and dimension.size == size
                and dimension.unlimited == grows
                and dimension not in taken
            ):
                return dimension
        self._phony += 1
        return group.add_dimension(f"phony_dim_{self._phony - 1}", size, unlimited=grows)


def texts_of(name: str, raw: Sequence[bytes], *, scalar: bool) -> AttributeValue:
    """Return the texts of an attribute: one as text, several as a tuple.

    >>> texts_of("units", [b"K"], scalar=False), texts_of("a", [b"x", b"y"], scalar=False)
    ('K', ('x', 'y'))
    """
    long = too_long(name, sum(map(len, raw)))
    if long is not None:
        return long
    if scalar or len(raw) == 1:
        return value_of(raw[0])
    return tuple(t if isinstance(t, str) else name_of(t) for t in map(value_of, raw) if isinstance(t, str | bytes))
