"""Adding arrays to a dataset: the aggregation of each, and the coordinates that it shares with others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.companions import Companions
from cfagg.aggregation.dimensions import dimension_names, frozen_attributes
from cfagg.aggregation.linking import mesh_of, ragged_key
from cfagg.aggregation.masters import distinct
from cfagg.aggregation.names import (
    BOUNDS,
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
from cfagg.aggregation.values import Assembled
from cfagg.cf.header import plain
from cfagg.cf.joining import Coordinate, Described, Stated

__all__ = ["Builder"]

Int64 = npt.NDArray[np.int64]


class Builder(Companions):
    """Adds boxes to the contents of a dataset."""

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
                dim,
                sizes[dim],
                self._partner(rows, [dim]) or self._sized(dim, sizes[dim]),
                set(sizes) - {dim},
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
                key = self._counted(rows, described, identity, dim, size)
                dims[identity] = self.contents.dimension(dim, size, key, beside)
                note_name(names, described, identity, dims[identity])
            return None
        made, bounds, base, content = self._assembled(rows, own, identity, dim)
        stated = own[0].stated
        said = stated.name.rpartition("/")[2]
        # Features of arrays without samples are those of the first ragged array, and of others with equal counts;
        # places of arrays without a mesh are those of the first mesh.
        links = self.ragged or (self.mesh.key if dim in self.mesh.dims else ())
        if dim is not None and links and self.contents.linked.setdefault(content, links) != links:
            content = content, links
        heads, part = dim == base, None  # it has the name of its dimension
        shared = self._partner(rows, dimension_names(described, identity)) if heads and not links else None
        if shared is not None and (content, shared) not in self.own:
            content = self._beside(content, shared, made, base, beside)
        if dim is not None and not heads and dim not in self.mesh.dims:
            # Equal coordinates are two if the coordinate variables of their dimensions differ.
            content = self._apart(rows, described, identity, dim, content)
        content = self.contents.apart(self._key(content), beside)
        known = self.contents.known(content)
        if dim is not None:
            size = made.values.shape[0]
            if heads:
                new = known or self.contents.free(base, content, beside)
                self.contents.dimensions.setdefault(new, size)
                # Arrays with other coordinates along the dimension have it, too, and use its bounds.
                part = self._as_companion(new, made)
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
                    described_as = frozen_attributes(made.master.all_attributes())
                    part = "companion", base, (new,), content_key(made.values), described_as
                    known = known or self.contents.known(part)
            dims[identity] = new
            note_name(names, described, identity, new)
            names.setdefault(dim, new)
        spans = () if dim is None else (dims[identity],)
        name = known or (dims[identity] if heads else self.contents.free(base, content))
        if name not in self.contents.variables:
            self._coordinate(name, spans, made, bounds, own[0], content)
        if part is not None and self.contents.known(part) is None:
            self.contents.head(name, part)
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
            if of_mesh or spans == (name,):
                base = of.name.rpartition("/")[2]
                contents.head(own, ("companion", base, (*spans, last), content_key(array), frozen_attributes(said)))
        contents.add(name, spans, values if spans else values.reshape(()), attributes)

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
        key = self._key(("mapping", base, frozen_attributes(attributes)))
        name = self.contents.known(key)
        if name is None:
            name = self.contents.free(base, key)
            dtype = stated.dtype if stated.dtype.kind in "iuf" else np.dtype("i4")
            self.contents.add(name, (), np.zeros((), dtype), attributes)
        self._uses(key, name, stated.attributes)
        return name

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
        self.contents.called[name] = base
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
        texts = (str(around.get("external_variables") or "") for around in distinct(d.around for d in described))
        self.contents.outside[name] = tuple(dict.fromkeys(word for text in texts for word in text.split()))
        attributes = renamed(attributes, names)
        if coordinates:
            attributes["coordinates"] = " ".join(dict.fromkeys(coordinates))
        parts = {n: first.parts[n].role for n in self.joined.options.field_ancillaries if n in first.parts}
        made = [names[n] for n, role in parts.items() if role == "ancillary_variables" and n in names]
        if made:
            named = str(attributes.get("ancillary_variables", "")).split()
            attributes["ancillary_variables"] = " ".join(dict.fromkeys((*named, *made)))
        self.contents.variables[name] = replace(array, attributes=attributes)
