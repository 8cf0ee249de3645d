"""Labels of a source array: its coordinates as xarray decodes them, and positions of selections by label or index."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import SelectionError
from cfagg.errors.arguments import a_mapping, dimensions

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.group import Group

__all__ = ["Labels", "Positions", "compose", "labels_of"]

Int64 = npt.NDArray[np.int64]

#: Parts of the encoding of coordinates that results keep.
_KEPT = ("units", "calendar", "dtype")

#: Positions along one dimension: one (the dimension goes), a slice, or a list of positions from 0 on.
type Positions = int | slice | Int64

#: Names of dimensions, as methods take them; `None` and `...` mean all.
type Dims = str | Iterable[Hashable] | EllipsisType | None


@dataclass(frozen=True, eq=False)
class Labels:
    """Dimensions, coordinates and attributes of an array that is, or is a selection of, an accumulated source."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    #: The coordinates, and nothing else.
    coords: xr.Dataset
    #: Attributes of the variable as xarray shows them.
    attrs: Mapping[str, Any]
    #: The source's axis of each of `dims`.
    axes: tuple[int, ...]
    #: The part of each axis of the source that the array has: `None` for all, one position, a slice or positions.
    base: tuple[Positions | None, ...]
    #: Groups by calendar that were asked for before, by key.
    grouped: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_array(cls, array: xr.DataArray, base: Iterable[Positions | None] | None = None, axes: Any = None) -> Labels:
        """Return the labels of an array that is the source at `base`; its values are not read."""
        picked = tuple(base) if base is not None else (None,) * array.ndim
        at = tuple(axes) if axes is not None else tuple(a for a, p in enumerate(picked) if not isinstance(p, int))
        dims = tuple(map(str, array.dims))
        coords = array.coords.to_dataset()
        return cls(str(array.name), dims, array.shape, coords, dict(array.attrs), at, picked)

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def without(self, dims: Iterable[str]) -> xr.Dataset:
        """Return the coordinates that do not have any of these dimensions, loaded once."""
        key = frozenset(dims)
        found = self._cache.get(key)
        if found is None:
            found = self.coords.drop_dims([d for d in key if d in self.coords.dims])
            # xarray cannot load some empty selections that run backwards.
            empty = {k: (v.dims, np.empty(v.shape, v.dtype), v.attrs) for k, v in found.variables.items() if not v.size}
            # Coordinates of a result must not be read from the store later, when it may have changed.
            found = self._cache[key] = found.assign_coords(empty).copy().load()
            for name, variable in found.variables.items():
                # Results keep how dates are encoded, but not the chunks and codecs of the store.
                variable.encoding = {k: v for k, v in variable.encoding.items() if k in _KEPT}
                if variable.dims == (name,) and "_FillValue" not in variable.attrs:
                    # xarray would write one, which coordinate variables may not have (CF section 2.5.1).
                    variable.encoding["_FillValue"] = None
        return found

    def chosen_dims(self, dim: Dims, picked: Mapping[str, Positions]) -> tuple[str, ...]:
        """Return the dimensions that are to be reduced, in order."""
        left = [d for d in self.dims if not isinstance(picked.get(d), int)]
        if dim is None or dim is ...:
            return tuple(left)
        asked = dimensions(dim)
        for d in asked:
            if d not in self.dims:
                raise SelectionError(f"{self.name!r} has no dimension {d!r}; it has {_listed(self.dims)}")
            if d not in left:
                raise SelectionError(
                    f"dimension {d!r} of {self.name!r} was dropped, because one position of it was selected; "
                    "select a slice of length 1 to reduce over it"
                )
        return tuple(d for d in left if d in asked)

    def pick(
        self,
        isel: Mapping[Any, Any] | None = None,
        sel: Mapping[Any, Any] | None = None,
        method: str | None = None,
        tolerance: Any = None,
    ) -> dict[str, Positions]:
        """Return the positions of selections, as for `xarray.DataArray.isel` and `sel`, by dimension."""
        isel = a_mapping(isel, "isel", "a mapping such as {'time': slice(0, 12)}", SelectionError)
        sel = a_mapping(sel, "sel", "a mapping such as {'time': '2008'}", SelectionError)
        for d in (*isel, *sel):
            if d not in self.dims:
                raise SelectionError(
                    f"{self.name!r} has no dimension {d!r} to select from; it has {_listed(self.dims)}"
                )
        if both := [d for d in isel if d in sel]:
            raise SelectionError(f"{_listed(both)} is selected by index and by label; use one of isel and sel")
        sizes = self.sizes
        out = {d: _by_index(chosen, sizes[d], f"{self.name!r}, {d}") for d, chosen in isel.items()}
        for d, chosen in sel.items():
            out[d] = self._by_label(d, chosen, sizes[d], method, tolerance)
        return out

    def _by_label(self, dim: str, label: Any, length: int, method: str | None, tolerance: Any) -> Positions:
        """Return the positions of labels of one dimension."""
        where = f"{self.name!r}, {dim}"
        index = self.coords.xindexes.get(dim)
        if index is None:
            if method is not None or tolerance is not None:
                raise SelectionError(f"{where}: a dimension without a coordinate has no labels to match; use isel")
            return _by_index(label, length, where)
        options = {} if method is None and tolerance is None else {"method": method, "tolerance": tolerance}
        from pandas.errors import InvalidIndexError

        try:
            found = index.sel({dim: label}, **options).dim_indexers
        except (KeyError, ValueError, TypeError, InvalidIndexError) as error:
            raise SelectionError(f"{where}: no such label {label!r} ({_text(error)}){self._range(dim)}") from error
        if set(found) != {dim}:
            raise SelectionError(f"{where}: {label!r} selects along other dimensions; use isel")
        chosen = found[dim]
        if getattr(chosen, "dims", None) not in (None, (), (dim,)):
            raise SelectionError(f"{where}: labels with dimensions {chosen.dims} are not supported; pass a plain list")
        return _by_index(getattr(chosen, "values", chosen), length, where)

    def _range(self, dim: str) -> str:
        """Return the first and last label in words."""
        values = self.coords[dim].values
        return f"; labels run from {values[0]!s} to {values[-1]!s}" if len(values) else "; there are no labels"


def labels_of(group: Group) -> Labels:
    """Return the labels of an accumulated array, decoded by xarray."""
    from cfagg.accumulation.coordinates import labelled_array

    return Labels.of_array(labelled_array(group.source, group.dims))


def compose(base: Positions | None, picked: Positions, length: int) -> Positions:
    """Return positions along the source, of length `length`, of positions within the part `base` of it."""
    if base is None:
        return picked
    if isinstance(base, slice):
        inner = range(length)[base]
        if isinstance(picked, int):
            return inner[picked]
        if isinstance(picked, slice):
            chosen = inner[picked]
            return _forward(chosen)
        return inner.start + inner.step * picked
    at = np.arange(length, dtype=np.int64)[base]
    return int(at[picked]) if isinstance(picked, int) else at[picked]


def _by_index(chosen: Any, length: int, where: str) -> Positions:
    """Return positions from 0 on."""
    if isinstance(chosen, slice):
        try:
            return _forward(range(length)[chosen])
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{where}: {chosen!r} is not a slice of whole numbers ({_text(error)})") from error
    values = np.asarray(chosen)
    if values.ndim == 0 and values.dtype.kind in "iu":
        return int(_checked(values.reshape(1), length, where)[0])
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iub"):
        raise SelectionError(
            f"{where}: expected a whole number, a slice, or a list of whole numbers or booleans; found {chosen!r}"
        )
    if values.dtype.kind == "b":
        if len(values) != length:
            raise SelectionError(f"{where}: a mask of length {len(values)} for a dimension of length {length}")
        return np.flatnonzero(values).astype(np.int64)
    return _checked(values, length, where)


def _checked(values: npt.NDArray[Any], length: int, where: str) -> Int64:
    at = values.astype(np.int64)
    if at.size and not -length <= at.min() <= at.max() < length:
        bad = at[(at < -length) | (at >= length)][0]
        raise SelectionError(f"{where}: position {bad} is outside of a dimension of length {length}")
    return np.where(at < 0, at + length, at)


def _forward(positions: range) -> slice:
    """Return the slice of these positions, which may run backwards."""
    if not positions:
        # The start of a range that ends before its beginning may be -1, which in a slice counts from the end.
        return slice(0, 0, 1)
    start, stop, step = positions.start, positions.stop, positions.step
    return slice(start, None if stop < 0 else stop, operator.index(step))


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(repr(n) for n in names) or "none"


def _text(error: Exception) -> str:
    """Return what an error says, without the quotes that KeyError adds."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
