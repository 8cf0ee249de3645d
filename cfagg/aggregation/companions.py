"""Adding to a dataset what belongs to an array: other coordinates, cell measures, ancillary variables and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.dimensions import Dimensions, frozen_attributes
from cfagg.aggregation.linking import large_key
from cfagg.aggregation.matrix import irregular
from cfagg.aggregation.names import content_key, is_listed, of_dimension
from cfagg.aggregation.values import assembled
from cfagg.cf.joining import Companion, Described, Stated, is_missing, mean_the_same, places_of, with_units
from cfagg.cf.references import own_name

__all__ = ["Companions"]

Int64 = npt.NDArray[np.int64]


class Companions(Dimensions):
    """Adds what belongs to the array that is being added."""

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
            name, key, spans = self._companion(rows, own, dims, said=first.stated)
            self._uses(key, name, first.stated.attributes)
            names[first.stated.name] = names[first.stated.name.rpartition("/")[2]] = name
            if self.ragged or first.role == "mesh":
                for dim, new in zip(first.stated.dims, spans, strict=False):
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
    ) -> tuple[str, Any, Sequence[str]]:
        """Add a companion with the attributes `said` in the first member; return its name, key and dimensions.

        The dimensions are in the order of this member, which that of an equal variable in the dataset may not have.
        """
        boxes, first = self.joined.boxes, own[int(rows[0])]
        base = first.stated.name.rpartition("/")[2]
        axes = [self.number.get(a) for a in first.axes[: len(first.shape)]]
        spans = [
            dims[a] if a in dims else self._elsewhere(rows, own.values(), d, n)
            for a, d, n in zip(first.axes, first.stated.dims, first.shape, strict=False)
        ]
        # Along these, it varies from file to file but has no dimension in any.
        new = [a for a in first.axes[len(first.shape) :] if a in dims]
        if first.role == "ancillary_variables" and not first.named:
            new = [a for a in new if np.unique(boxes.start[rows, self.number[a]]).size > 1]
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
            return *self._large(rows, own, spans, axes, order), spans
        made = assembled(boxes, rows, axes, values_of, lambda r: own[r].stated, self._place)
        given = {"units", "calendar"}.difference(said.attributes) if first.role == "bounds" else ()
        attributes = {k: v for k, v in made.master.all_attributes().items() if k not in given}
        described = frozen_attributes(attributes)
        key = self._key(("companion", called, tuple(spans), content_key(made.values), described))
        name = self.contents.known(key)
        if name is None and first.role == "mesh" and len(spans) > 1:
            # For arrays at faces, their dimension is the first one of the nodes of each face.
            as_stored = self._key(("companion", called, tuple(spans[::-1]), content_key(made.values.T), described))
            name = self.contents.known(as_stored)
            key = key if name is None else as_stored
        if name is None:
            # The name of a dimension that it spans, alone or with others.
            heads = called in spans and called not in self.contents.variables
            name = self.contents.head(called, key) if heads else self.contents.free(base, key)
            self.contents.add(name, spans, made.values, attributes)
        self.left[name] = made.master.differing
        return name, key, spans

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
        contents = tuple(large_key(self.joined, own[r], r) for r in chosen.tolist())
        key = self._key(("large", base, tuple(spans), contents))
        name = self.contents.known(key)
        if name is None and first.role == "mesh":
            as_stored = self._key(("large", base, tuple(spans[::-1]), contents))
            name = self.contents.known(as_stored)
            key = key if name is None else as_stored
        if name is not None:
            return name, key
        name = self.contents.free(base, key)
        stated = [own[r].stated for r in chosen.tolist()]
        orders = [places_of(own[r], order) for r in chosen.tolist()]
        shapes = [dict(zip(at, own[r].shape, strict=True)) for at, r in zip(orders, chosen.tolist(), strict=True)]
        sizes = [[one.get(k, 1) for k in range(len(order))] for one in shapes]
        self.arrays.add(self.contents, name, chosen, stated, sizes, list(axes), spans, orders)
        return name, key
