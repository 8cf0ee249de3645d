"""Which dimensions of a dataset those of files are: by their coordinates, or by those of arrays in these files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.arrays import Arrays
from cfagg.aggregation.joining import Joined
from cfagg.aggregation.linking import Mesh, mesh_of, ragged_key
from cfagg.aggregation.names import BOUNDS, Contents, content_key
from cfagg.aggregation.sharing import Along, Partners
from cfagg.aggregation.values import Assembled, along_axis, assembled, with_bounds
from cfagg.cf.header import frozen
from cfagg.cf.joining import Companion, Coordinate, Described, with_units

__all__ = ["Dimensions", "dimension_names", "frozen_attributes"]

Int64 = npt.NDArray[np.int64]


class Dimensions:
    """The contents of a dataset, with the state of the array that is being added."""

    def __init__(self, joined: Joined, contents: Contents, where: str, *, fields: bool = False) -> None:
        self.joined = joined
        self.contents = contents
        self.axes = [axis.name for axis in joined.members.axes]
        self.number = {name: k for k, name in enumerate(self.axes)}
        self.arrays = Arrays(joined, where, fields=fields)
        self.partners = Partners(joined)
        self.keys: dict[Along, tuple[bool, Any] | tuple[()] | None] = {}
        self.made: dict[Any, tuple[Assembled, Assembled | None, Any]] = {}
        #: The variables used by the array being added: key, name, and attributes in its files.
        self.used: list[tuple[Any, str, Mapping[str, Any]]] = []
        #: Its variables that equal ones in the dataset but refer to other variables, with the keys of those.
        self.own: dict[Any, Any] = {}
        #: How its features are stored if it is ragged: otherwise, only dimensions would link it to its counts.
        self.ragged: tuple[Any, ...] = ()
        #: Its mesh, if it has one.
        self.mesh = Mesh()
        #: Names of the arrays, box by box.
        self.names: list[str] = []
        #: Attributes that differ between their members, likewise; and those of shared variables, by name.
        self.differing: list[tuple[str, ...]] = []
        self.left: dict[str, tuple[str, ...]] = {}

    def _place(self, row: int) -> str:
        """Return the file of a member."""
        return str(self.joined.scanned[int(self.joined.file[row])].place)

    def _sized(self, dim: str, size: int) -> tuple[Any, ...]:
        """Return the key of a dimension without coordinates."""
        return "size", dim, size, *self.ragged, *(self.mesh.key if dim in self.mesh.dims else ())

    def _key(self, key: Any) -> Any:
        """Return a key, extended by its references if they differ from those of an equal variable in the dataset."""
        while key in self.own:
            key = (key, self.own[key])
        return key

    def _assembled(
        self, rows: Int64, own: Sequence[Coordinate], identity: str, dim: str | None
    ) -> tuple[Assembled, Assembled | None, str, Any]:
        """Return the coordinates of an axis, their bounds, their name, and a key that equal ones have."""
        boxes, axis = self.joined.boxes, self.number[identity]
        key = (identity, tuple(map(id, own)), boxes.start[rows, axis].tobytes())
        if key not in self.made:
            # `own` is kept alive so that no other object gets its identity.
            values = along_axis(boxes, rows, axis, own, self._place)
            self.made[key] = values, with_bounds(boxes, rows, axis, own, self._place, values.master), own
        made, bounds, _ = self.made[key]
        base = own[0].stated.name.rpartition("/")[2]
        if dim is not None and own[0].stated.dims == (base,):
            base = dim  # it remains the coordinate variable of its dimension, whatever its name
        return made, bounds, base, self._content(base, dim, made, bounds)

    def _content(self, base: str, dim: str | None, made: Assembled, bounds: Assembled | None) -> Any:
        """Return the key of a coordinate."""
        return (
            "coordinate", base, dim, content_key(made.values), frozen_attributes(made.master.all_attributes()),
            None if bounds is None else (content_key(bounds.values), frozen_attributes(bounds.master.all_attributes())),
        )  # fmt: skip

    def _partner(self, rows: Int64, called: Collection[str], *, heads: bool = False) -> Any:
        """Return the key of a dimension of files, by which other arrays there have coordinates, or `None`.

        With `heads`, these may also be those of the coordinate variable of the dimension.
        """
        if self.ragged or self.mesh.key or len(called) != 1:
            return None
        keys = [self._along(one) for one in self.partners.of(rows, next(iter(called)))]
        if None in keys:
            return None
        chosen = dict.fromkeys(key for own, key in filter(None, keys) if not own)
        chosen = chosen or dict.fromkeys(key for _, key in filter(None, keys) if heads)
        return next(iter(chosen)) if len(chosen) == 1 else None

    def _along(self, one: Along) -> tuple[bool, Any] | tuple[()] | None:
        """Return whether an axis has the coordinate variable of its dimension, and the key of this dimension.

        It is empty if its places are only counted, and `None` if they belong to features or name the places of a mesh.
        """
        if one not in self.keys:
            described = [self.joined.described[row] for row in one.rows.tolist()]
            mesh = mesh_of(self.joined, one.rows, described)
            key: Any = ()
            if ragged_key(self.joined, one.rows, described):
                key = None
            elif one.counted:
                key = (False, ("size", one.name, one.size, *mesh.key)) if one.name in mesh.dims else ()
            else:
                own = [d.axes[one.identity] for d in described]
                _, _, base, content = self._assembled(one.rows, own, one.identity, one.name)
                if one.name not in mesh.dims:
                    apart = self._apart(one.rows, described, one.identity, one.name, content)
                    key = (True, content) if base == one.name else (False, ("dimension", one.name, apart))
                elif base != one.name:
                    key = False, ("size", one.name, one.size, *mesh.key)
                else:
                    key = None  # it may be that of another mesh
            self.keys[one] = key
        return self.keys[one]

    def _counted(self, rows: Int64, described: Sequence[Described], identity: str, dim: str, size: int) -> Any:
        """Return the key of a dimension whose places are only counted: by what has coordinates there, or its size."""
        called, sized = dimension_names(described, identity), self._sized(dim, size)
        shared = self._partner(rows, called)
        if shared is not None or self.ragged or self.mesh.key or called != {dim}:
            return sized if shared is None else shared
        head = self._head(rows, described, identity, dim)
        if head is None:
            return sized
        if self.contents.known(head) is None:
            taken = self.contents.known(sized)
            if taken is None:
                self.contents.head(self.contents.dimension(dim, size, head), sized)
            elif taken not in self.contents.variables:
                self.contents.head(taken, head)
        return head

    def _apart(self, rows: Int64, described: Sequence[Described], identity: str, dim: str, content: Any) -> Any:
        """Return the key of coordinates, extended by the coordinate variable of their dimension if that is another."""
        head = self._head(rows, described, identity, dim) if dimension_names(described, identity) == {dim} else None
        return content if head is None else (content, head)

    def _head(self, rows: Int64, described: Sequence[Described], identity: str, dim: str) -> Any:
        """Return the key of the coordinate variable along counted places, or `None` if not all files have one."""
        parts = described[0].parts.items()
        name = next((k for k, p in parts if p.stated.dims == (dim,) == (p.stated.name.rpartition("/")[2],)), None)
        if name is None or any(name not in d.parts for d in described):
            return None
        conformable = {id(d.parts): with_units(d.parts) for d in described}
        found = [conformable[id(d.parts)] for d in described]
        own = {r: p[name] for r, p in zip(rows.tolist(), found, strict=True)}
        if any(p.values is None or p.axes != (identity,) for p in own.values()):
            return None
        made = self._values(rows, own, identity)
        bound = f"bounds of {name}"
        cells = {r: p[bound] for r, p in zip(rows.tolist(), found, strict=True) if bound in p}
        bounds = None
        if cells:
            if len(cells) < len(rows) or any(p.values is None or p.axes[0] != identity for p in cells.values()):
                return None
            bounds = self._values(rows, cells, identity, made)
        return self._content(dim, dim, made, bounds)

    def _values(
        self, rows: Int64, own: Mapping[int, Companion], identity: str, like: Assembled | None = None
    ) -> Assembled:
        """Return joined values along one axis."""
        axes = [self.number[identity], *(None for _ in own[int(rows[0])].shape[1:])]
        master = None if like is None else like.master
        return assembled(
            self.joined.boxes,
            rows,
            axes,
            lambda r: np.asarray(own[r].values),
            lambda r: own[r].stated,
            self._place,
            master,
        )

    def _elsewhere(self, rows: Int64, own: Iterable[Companion], dim: str, size: int) -> str:
        """Return the name of a dimension of what belongs to an array, which the array itself lacks."""
        called = {dim} if all(dim in c.stated.dims for c in own) else set()
        key = self._partner(rows, called, heads=True) or self._sized(dim, size)
        return self.contents.dimension(dim, size, key)

    def _beside(self, content: Any, shared: Any, made: Assembled, base: str, beside: Collection[str]) -> Any:
        """Return a key for the coordinate variable of a dimension along which other arrays have other coordinates.

        It is the plain one if these have another variable of this name.
        """
        if self.contents.known((content, shared)) is None:
            new = self.contents.dimension(base, made.values.shape[0], shared, beside)
            if new in self.contents.variables and self.contents.known(self._as_companion(new, made)) != new:
                return content
            self.contents.head(new, (content, shared))
        return content, shared

    def _as_companion(self, name: str, made: Assembled) -> Any:
        """Return the key that a coordinate variable has for arrays with other coordinates along its dimension."""
        return "companion", name, (name,), content_key(made.values), frozen_attributes(made.master.all_attributes())


def dimension_names(described: Sequence[Described], identity: str) -> set[str]:
    """Return the names of the dimension of an axis."""
    return {name for d in described for name, axis in d.along.items() if axis == identity}


def frozen_attributes(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a hashable key, without the names of bounds, and the range that equal values share."""
    left = {*BOUNDS, "actual_range"}
    return frozen({name: value for name, value in sorted(attributes.items()) if name not in left})
