"""Adding to a dataset what belongs to an array: other coordinates, cell measures, ancillary variables and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.arrays import Arrays
from cfagg.aggregation.joining import Joined
from cfagg.aggregation.linking import Mesh, large_key
from cfagg.aggregation.matrix import irregular
from cfagg.aggregation.names import BOUNDS, Contents, content_key, is_listed, of_dimension
from cfagg.aggregation.sharing import Partners
from cfagg.aggregation.values import Assembled, assembled
from cfagg.cf.header import frozen
from cfagg.cf.joining import Companion, Described, Stated, is_missing, mean_the_same, places_of, with_units
from cfagg.cf.references import own_name

__all__ = ["Companions", "frozen_attributes"]

Int64 = npt.NDArray[np.int64]


class Companions:
    """The contents of a dataset, with the state of the array that is being added."""

    def __init__(self, joined: Joined, contents: Contents, where: str, *, fields: bool = False) -> None:
        self.joined = joined
        self.contents = contents
        self.axes = [axis.name for axis in joined.members.axes]
        self.number = {name: k for k, name in enumerate(self.axes)}
        self.arrays = Arrays(joined, where, fields=fields)
        self.partners = Partners(joined)
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

    def _uses(self, key: Any, name: str, attributes: Mapping[str, Any]) -> None:
        self.used.append((key, name, attributes))

    def _companions(
        self, rows: Int64, described: Sequence[Described], dims: Mapping[str, str], names: dict[str, str]
    ) -> list[str]:
        """Add other variables that belong to the members; return the names of those that are coordinates."""
        found = []
        # Many members share the same parts.
        conformable = {id(d.parts): with_units(d.parts) for d in described}
        for identity, first in described[0].parts.items():
            own = dict(zip(rows.tolist(), (conformable[id(d.parts)][identity] for d in described), strict=True))
            of = own_name(first.stated.text("instance_dimension")) if first.role == "ragged" else ""
            if of in described[0].along and len(own) > 1:
                own = self._shifted(own, described[0].along[of])
            name, key = self._companion(rows, own, dims, said=first.stated)
            self._uses(key, name, first.stated.attributes)
            names[first.stated.name] = names[first.stated.name.rpartition("/")[2]] = name
            if self.ragged or first.role == "mesh":
                for dim, new in zip(first.stated.dims, self.contents.variables[name].dims, strict=False):
                    names[of_dimension(dim)] = new
            found += [name] if first.role == "coordinates" or is_listed(described[0], first.stated) else []
        return found

    def _shifted(self, own: Mapping[int, Companion], axis: str) -> dict[int, Companion]:
        """Return indices of features of single members as indices of the features of all."""
        boxes, k = self.joined.boxes, self.number[axis]
        most = int(max(boxes.start[row, k] + boxes.count[row, k] for row in own))
        out = {}
        for row, part in own.items():
            stated, values = part.stated, part.values
            dtype = np.promote_types(stated.dtype.newbyteorder("="), np.min_scalar_type(-most))
            # A value that a file declares missing may be the valid index of a feature of all.
            none = {n: dtype.type(-1) for n in ("_FillValue", "missing_value") if n in stated.attributes}
            if values is not None:
                shifted = values.astype(dtype) + dtype.type(boxes.start[row, k])
                values = np.where(is_missing(values, stated), dtype.type(-1), shifted)
            stated = replace(stated, dtype=dtype, attributes={**stated.attributes, **none})
            out[row] = replace(part, stated=stated, values=values)
        return out

    def _companion(
        self, rows: Int64, own: Mapping[int, Companion], dims: Mapping[str, str], said: Stated
    ) -> tuple[str, Any]:
        """Add a companion, of which the first member declares the attributes `said`; return its name and its key."""
        boxes, first = self.joined.boxes, own[int(rows[0])]
        base = first.stated.name.rpartition("/")[2]
        axes = [self.number.get(a) for a in first.axes[: len(first.shape)]]
        spans = [
            dims[a] if a in dims else self.contents.dimension(d, n, self._sized(d, n))
            for a, d, n in zip(first.axes, first.stated.dims, first.shape, strict=False)
        ]
        # Along these, it varies from file to file but has no dimension in any.
        new = [a for a in first.axes[len(first.shape) :] if a in dims]
        if first.named and new:
            known = [a for a in axes if a is not None]
            # Values are compared as they are stored.
            turned = irregular(boxes, rows, known) | boxes.flipped[np.ix_(rows, known)].any(axis=1)
            same = not turned.any() and all(mean_the_same(first, c) for c in {id(c): c for c in own.values()}.values())
            new = [] if same else new
        axes = [*(self.number[a] for a in new), *axes]
        spans = [*(dims[a] for a in new), *spans]
        # A coordinate variable has the name of its dimension, unless another one has.
        called = spans[0] if first.stated.dims == (base,) and len(spans) == 1 else base
        order = (*new, *first.axes[: len(first.shape)])

        def values_of(row: int) -> npt.NDArray[Any]:
            values: Any = own[row].values
            places, its = places_of(own[row], order), self.joined.described[row].axes
            lacking = {k: len(its[a].values) for k, a in enumerate(order) if k not in places}
            values = np.expand_dims(values.transpose(np.argsort(places)), tuple(lacking))
            return np.broadcast_to(values, [lacking.get(k, n) for k, n in enumerate(values.shape)])

        if any(c.values is None for c in own.values()):
            return self._large(rows, own, spans, axes, order)
        made = assembled(boxes, rows, axes, values_of, lambda r: own[r].stated, self._place)
        given = {"units", "calendar"}.difference(said.attributes) if first.role == "bounds" else ()
        attributes = {k: v for k, v in made.master.all_attributes().items() if k not in given}
        key = self._key(("companion", called, tuple(spans), content_key(made.values), frozen_attributes(attributes)))
        name = self.contents.known(key)
        if name is None:
            # The name of a dimension that it spans, alone or with others.
            heads = called in spans and called not in self.contents.variables
            name = self.contents.head(called, key) if heads else self.contents.free(base, key)
            self.contents.add(name, spans, made.values, attributes)
        self.left[name] = made.master.differing
        return name, key

    def _large(
        self,
        rows: Int64,
        own: Mapping[int, Companion],
        spans: Sequence[str],
        axes: Sequence[int | None],
        order: Sequence[str],
    ) -> tuple[str, Any]:
        """Add an array with too many values to keep in memory: an aggregation, like the variables themselves."""
        boxes, first = self.joined.boxes, own[int(rows[0])]
        base = first.stated.name.rpartition("/")[2]
        known = [a for a in axes if a is not None]
        place = boxes.start[np.ix_(rows, known)]
        _, heads = np.unique(place, axis=0, return_index=True)
        chosen = rows[np.sort(heads)] if known else rows[:1]
        key = self._key(
            ("large", base, tuple(spans), tuple(large_key(self.joined, own[r], r) for r in chosen.tolist()))
        )
        name = self.contents.known(key)
        if name is not None:
            return name, key
        name = self.contents.free(base, key)
        stated = [own[r].stated for r in chosen.tolist()]
        orders = [places_of(own[r], order) for r in chosen.tolist()]
        shapes = [dict(zip(at, own[r].shape, strict=True)) for at, r in zip(orders, chosen.tolist(), strict=True)]
        sizes = [[one.get(k, 1) for k in range(len(order))] for one in shapes]
        self.arrays.add(self.contents, name, chosen, stated, sizes, list(axes), spans, orders)
        return name, key


def frozen_attributes(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a hashable key, without the names of bounds, and the range that equal values share."""
    left = {*BOUNDS, "actual_range"}
    return frozen({name: value for name, value in sorted(attributes.items()) if name not in left})
