"""Adding arrays to a dataset: the aggregation of each, and the coordinates that it shares with others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.arrays import Arrays
from cfagg.aggregation.joining import Joined
from cfagg.aggregation.linking import Mesh, large_key, mesh_of, ragged_key
from cfagg.aggregation.matrix import irregular
from cfagg.aggregation.names import (
    BOUNDS,
    Contents,
    absent,
    content_key,
    dimension_name,
    dimension_order,
    is_listed,
    names_beside,
    note_name,
    of_dimension,
    referring,
    renamed,
)
from cfagg.aggregation.values import Assembled, along_axis, assembled, with_bounds
from cfagg.cf.header import frozen, plain
from cfagg.cf.joining import Companion, Coordinate, Described, Stated, is_missing, mean_the_same, places_of, with_units
from cfagg.cf.references import own_name

__all__ = ["Builder"]

Int64 = npt.NDArray[np.int64]


class Builder:
    """Adds boxes to the contents of a dataset."""

    def __init__(self, joined: Joined, contents: Contents, where: str, *, fields: bool = False) -> None:
        self.joined = joined
        self.contents = contents
        self.axes = [axis.name for axis in joined.members.axes]
        self.number = {name: k for k, name in enumerate(self.axes)}
        self.arrays = Arrays(joined, where, fields=fields)
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

    def add(self, rows: Int64) -> None:
        """Add the array of one box; variables are shared with other arrays if they also have the same references."""
        self.own = {}
        mark = self.contents.mark()
        while not self._add(rows):
            self.contents.back(mark)

    def _add(self, rows: Int64) -> bool:
        """Add the array of one box; return `False` if a shared variable in the dataset has other references."""
        joined, boxes = self.joined, self.joined.boxes
        self.used = []
        box = int(boxes.box[rows[0]])
        described = [joined.described[row] for row in rows.tolist()]
        first = described[0]
        self.ragged, self.mesh = ragged_key(joined, rows, described), mesh_of(joined, rows, described)
        order = dimension_order(described, [n for n, k in self.number.items() if joined.boxes.extent[box, k] > 1])
        # The first of each kind, in the order of the members.
        twice = [*described, *reversed(described)]
        alike = list({(d.stated.dims, *d.along.items()): d for d in twice}.values())
        names: dict[str, str] = {}
        dims: dict[str, str] = {}
        own: list[str | None] = []
        for identity in order:
            others = names_beside(alike, identity)
            called = dimension_name(alike, identity, others)
            own.append(self._axis(rows, described, identity, called, dims, names, others))
        loose = [d for d in first.stated.dims if d not in first.along]
        sizes = dict(zip(first.stated.dims, first.shape, strict=True))
        for dim in loose:
            dims[f"dimension {dim}"] = names[dim] = self.contents.dimension(
                dim, sizes[dim], self._sized(dim, sizes[dim]), set(sizes) - {dim}
            )
        # The array itself may lack the dimension of features, and those of variables with a range for each feature.
        beside = {i: dimension_name(alike, i, ()) for i in first.axes if i not in order and i in first.along.values()}
        for identity, called in beside.items():
            found = self._axis(rows, described, identity, called, dims, names)
            own += [found] if is_listed(first, first.axes[identity].stated) else []
            names.update({of_dimension(d): dims[identity] for d, i in first.along.items() if i == identity})
        scalars = [
            self._axis(rows, described, i, None, dims, names) for i in first.axes if i not in order and i not in beside
        ]
        coordinates = [name for name in (*scalars, *own) if name is not None and name not in dims.values()]
        for name, mapping in first.mappings.items():
            names[name.rpartition("/")[2]] = names[name] = self._mapping(mapping)
        coordinates += self._companions(rows, described, dims, names)
        if not self._referring(names, self._place(int(rows[0]))):
            return False
        self._aggregation(rows, described, order, loose, dims, names, coordinates)
        return True

    def _axis(
        self,
        rows: Int64,
        described: Sequence[Described],
        identity: str,
        dim: str | None,
        dims: dict[str, str],
        names: dict[str, str],
        beside: Collection[str] = (),
    ) -> str | None:
        """Add the coordinates of an axis with their bounds, and its dimension if it has one; return their name.

        The name of the dimension must not be among `beside`.
        """
        boxes, axis = self.joined.boxes, self.number[identity]
        own: list[Coordinate] = [d.axes[identity] for d in described]
        if getattr(own[0], "index", False):  # the axis is only counted
            if dim is not None:
                size = int(boxes.extent[boxes.box[rows[0]], axis])
                dims[identity] = self.contents.dimension(dim, size, self._sized(dim, size), beside)
                note_name(names, described, identity, dims[identity])
            return None
        key = (identity, tuple(map(id, own)), boxes.start[rows, axis].tobytes())
        if key not in self.made:
            # `own` is kept alive so that no other object gets its identity.
            values = along_axis(boxes, rows, axis, own, self._place)
            self.made[key] = values, with_bounds(boxes, rows, axis, own, self._place, values.master), own
        made, bounds, _ = self.made[key]
        stated = own[0].stated
        base = said = stated.name.rpartition("/")[2]
        if dim is not None and stated.dims == (said,):
            base = dim  # it remains the coordinate variable of its dimension, whatever its name
        content: Any = (
            "coordinate", base, dim, content_key(made.values), _frozen(made.master.all_attributes()),
            None if bounds is None else (content_key(bounds.values), _frozen(bounds.master.all_attributes())),
        )  # fmt: skip
        # Features of arrays without samples are those of the first ragged array, and of others with equal counts;
        # places of arrays without a mesh are those of the first mesh.
        links = self.ragged or (self.mesh.key if dim in self.mesh.dims else ())
        if dim is not None and links and self.contents.linked.setdefault(content, links) != links:
            content = content, links
        content = self.contents.apart(self._key(content), beside)
        known = self.contents.known(content)
        heads, part = dim == base, None  # it has the name of its dimension
        if dim is not None:
            size = made.values.shape[0]
            if heads:
                new = known or self.contents.free(base, content, beside)
                self.contents.dimensions.setdefault(new, size)
            else:
                of_mesh = dim in self.mesh.dims
                sized = self._sized(dim, size) if of_mesh else ("dimension", dim, content)
                if known is not None and self.contents.known(sized) is None:
                    # Another array has the coordinate, but only one of the two names the mesh.
                    self.contents.head(self.contents.variables[known].dims[0], sized)
                new = self.contents.dimension(dim, size, sized, beside)
                if known is not None and self.contents.variables[known].dims != (new,):
                    content = content, new
                    known = self.contents.known(content)
                if of_mesh and not self.own:
                    # For arrays elsewhere on the mesh it is no coordinate, but a part of the mesh.
                    part = "companion", base, (new,), content_key(made.values), _frozen(made.master.all_attributes())
                    known = known or self.contents.known(part)
            dims[identity] = new
            note_name(names, described, identity, new)
            names.setdefault(dim, new)
        spans = () if dim is None else (dims[identity],)
        name = known or (dims[identity] if heads else self.contents.free(base, content))
        if known is None:
            self._coordinate(name, spans, made, bounds, own[0], content)
        if part is not None and self.contents.known(part) is None:
            self.contents.head(name, part)
        # Of a mesh, also arrays elsewhere use bounds.
        used = {k: v for k, v in stated.attributes.items() if k not in BOUNDS or part is not None}
        self._uses(content, name, used)
        names[stated.name] = names[said] = name
        self.left[name] = made.master.differing
        variable = self.contents.variables[name]
        if own[0].bounds_stated is not None:
            of = next((str(variable.attributes[k]) for k in BOUNDS if k in variable.attributes), None)
            if of is not None:
                self.left[of] = () if bounds is None else bounds.master.differing
                self._uses(content, of, own[0].bounds_stated.attributes)
                names[own[0].bounds_stated.name] = names[own[0].bounds_stated.name.rpartition("/")[2]] = of
        return name

    def _coordinate(
        self,
        name: str,
        spans: tuple[str, ...],
        made: Assembled,
        bounds: Assembled | None,
        first: Coordinate,
        key: Any,
    ) -> None:
        """Add a coordinate with its bounds."""
        attributes = {k: v for k, v in made.master.all_attributes().items() if k not in BOUNDS}
        contents, values = self.contents, made.values
        if bounds is not None and first.bounds_stated is not None:
            of = first.bounds_stated
            own = contents.free(of.name.rpartition("/")[2], ("bounds", key))
            vertex, n = of.dims[-1].rpartition("/")[2] if len(of.dims) > len(first.stated.dims) else "bnds", 0
            n = bounds.values.shape[1]
            of_mesh = vertex in self.mesh.dims
            last = contents.dimension(vertex, n, self._sized(vertex, n) if of_mesh else ("size", vertex, n))
            attributes["climatology" if "climatology" in first.stated.attributes else "bounds"] = own
            array = bounds.values if spans else bounds.values.reshape(n)
            said = {k: v for k, v in bounds.master.all_attributes().items() if k in of.attributes}
            contents.add(own, (*spans, last), array, said)
            if of_mesh:
                base = of.name.rpartition("/")[2]
                contents.head(own, ("companion", base, (*spans, last), content_key(array), _frozen(said)))
        contents.add(name, spans, values if spans else values.reshape(()), attributes)

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

    def _referring(self, names: Mapping[str, str], place: str) -> bool:
        """Make used variables refer by the names in the dataset; return `False` if other arrays need other ones."""
        done = True
        for key, name, attributes in self.used:
            if not self.contents.refer(name, attributes, names, place):
                done = False
                words = [word for text in referring(attributes, names).values() for word in text.split()]
                self.own[key] = self.contents.keys(words)
        for _, name, attributes in self.used if done else ():
            self.contents.settle(name, attributes, names)
        return done

    def _mapping(self, stated: Stated) -> str:
        """Add a variable whose values do not matter; return its name."""
        base = stated.name.rpartition("/")[2]
        attributes = {k: plain(v) for k, v in stated.attributes.items()}
        key = self._key(("mapping", base, _frozen(attributes)))
        name = self.contents.known(key)
        if name is None:
            name = self.contents.free(base, key)
            dtype = stated.dtype if stated.dtype.kind in "iuf" else np.dtype("i4")
            self.contents.add(name, (), np.zeros((), dtype), attributes)
        self._uses(key, name, stated.attributes)
        return name

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
        key = self._key(("companion", called, tuple(spans), content_key(made.values), _frozen(attributes)))
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

    def _aggregation(
        self,
        rows: Int64,
        described: Sequence[Described],
        order: Sequence[str],
        loose: Sequence[str],
        dims: Mapping[str, str],
        names: dict[str, str],
        coordinates: Sequence[str],
    ) -> None:
        """Add the array itself."""
        first = described[0]
        base = first.stated.name.rpartition("/")[2]
        name = self.contents.free(base)
        self.names.append(name)
        axes: list[int | None] = [*(self.number[i] for i in order), *(None for _ in loose)]
        spans = [*(dims[i] for i in order), *(dims[f"dimension {d}"] for d in loose)]
        if loose:  # it is not joined, and keeps the order of its dimensions
            place = [first.along.get(d, f"dimension {d}") for d in first.stated.dims]
            known = [*order, *(f"dimension {d}" for d in loose)]
            turn = [known.index(p) for p in place] + [k for k, i in enumerate(known) if i not in place]
            axes, spans = [axes[k] for k in turn], [spans[k] for k in turn]
            known = [known[k] for k in turn]
        else:
            known = list(order)
        index = {identity: k for k, identity in enumerate(known)}
        orders: dict[tuple[Any, ...], list[int]] = {}
        own, sizes = [], []
        for one in described:
            key = (one.stated.dims, *one.along.values())
            if key not in orders:
                orders[key] = [index[one.along.get(d, f"dimension {d}")] for d in one.stated.dims]
            own.append(orders[key])
            size = [1] * len(known)
            for k, n in zip(own[-1], one.shape, strict=True):
                size[k] = n
            sizes.append(size)
        stated = [d.stated for d in described]
        differing = self.arrays.add(self.contents, name, rows, stated, sizes, axes, spans, own)
        shared = (f"{one}:{left}" for _, one, _ in self.used for left in self.left.get(one, ()))
        self.differing.append((*differing, *dict.fromkeys(shared)))
        array = self.contents.variables[name]
        # Tie points are left out.
        attributes = {k: v for k, v in array.attributes.items() if k not in ("coordinates", "coordinate_interpolation")}
        self.contents.refers[name] = {}, absent(attributes, names)
        self.contents.outside[name] = frozenset(str(first.around.get("external_variables") or "").split())
        attributes = renamed(attributes, names)
        if coordinates:
            attributes["coordinates"] = " ".join(dict.fromkeys(coordinates))
        self.contents.variables[name] = replace(array, attributes=attributes)


def _frozen(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a hashable key, without the names of bounds, and the range that equal values share."""
    left = {*BOUNDS, "actual_range"}
    return frozen({name: value for name, value in sorted(attributes.items()) if name not in left})
