"""The axes of a data variable of a file, and the variables along them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from cfagg.cf.joining.described import NAMING, UNNAMED, WITHIN, root_of
from cfagg.cf.joining.identities import code_of_model, identity, length, unusable
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.plans import ROLES, AxisPlan, PartPlan, Variables
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.cf.references import Resolver
from cfagg.model.dataset import AttributeValue, Dimension, Variable

__all__ = ["Gathering"]

#: Attributes with which the stored numbers of an instance variable are not its actual values.
_STORED = frozenset(STORAGE_ATTRIBUTES) - {"_FillValue", "missing_value"}

_TIMES = frozenset({"time", "forecast_reference_time"})
#: Of these, each follows from the other two.
_OF_FORECASTS = _TIMES | {"forecast_period"}


@dataclass(eq=False)
class Gathering:
    """One data variable, and the variables that belong to it."""

    variable: Variable
    resolver: Resolver
    options: Options
    known: Variables
    axes: dict[str, AxisPlan] = field(default_factory=dict)
    around: dict[str, AttributeValue] = field(default_factory=dict)
    feature: str | None = None
    of: dict[str, Variable] = field(default_factory=dict)
    along: dict[str, str] = field(default_factory=dict)
    parts: dict[str, PartPlan] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    said: dict[str, Hashable] = field(default_factory=dict)
    taken: set[Variable] = field(default_factory=set)
    counting: dict[Variable, str] = field(default_factory=dict)

    def _find(self, name: str, source: Variable | None = None) -> Variable | None:
        found, _ = self.resolver.variable(name, (source or self.variable).group)
        return found if found in self.known.number else None

    def _coordinates(self) -> list[Variable]:
        """Return coordinate variables, then those named by ``coordinates``, then identifiers of features."""
        known: dict[Variable, None] = {}
        variable = self.variable
        for dimension in variable.dimensions:
            own = self._find(dimension.name)
            if own is not None and length(own) == (own.name,) and own.dimensions[0] is dimension:
                known[own] = None
        named = variable.words("coordinates")
        container = self._find(variable.text("geometry") or "")
        if container is not None:
            named += container.words("coordinates")
        for name in named:
            own = self._find(name)
            if own is not None:
                known[own] = None
        self.said["coordinates that do not exist"] = tuple(sorted({n for n in named if self._find(n) is None}))
        self.feature = next((t for g in variable.group.ancestors() if (t := g.text("featureType"))), None)
        if self.feature:
            known |= dict.fromkeys(v for v in self.known.identifiers if set(length(v)) <= set(variable.dims))
        # Those with an identity come first, so that they become the coordinates of their dimensions.
        found = [v for v in known if self._is_usable(v, "its coordinate")]
        found.sort(key=lambda v: (not v.is_coordinate, self._identity(v) is None, v.text("cf_role") not in ROLES))
        return found

    def _is_usable(self, other: Variable, what: str) -> bool:
        """Return whether the values of another variable can be read and compared; if not, record a problem."""
        why = unusable(other)
        self.problems += [f"{what} {other.name!r} {why}"] * (why is not None)
        return why is None

    def _bounds(self, coordinate: Variable) -> Variable | None:
        """Return the bounds of a coordinate."""
        text = coordinate.text("bounds") or coordinate.text("climatology")
        bounds = None if text is None else self._find(text, coordinate)
        if bounds is None or not self._is_usable(bounds, "the variable"):
            return None
        own = coordinate.dimensions[: len(length(coordinate))]
        if bounds.dimensions[: len(own)] != own or bounds.is_text or len(bounds.dims) != len(own) + 1:
            dims = ", ".join(bounds.dims)
            self.problems.append(f"{bounds.name!r} with dimensions ({dims}) are not bounds of {coordinate.name!r}")
            bounds = None
        return bounds

    def _identity(self, variable: Variable) -> str | None:
        return identity(variable, self.options) or variable.text("cf_role")

    def _along(self, coordinates: list[Variable]) -> None:
        """Find the coordinate of each dimension."""
        variable = self.variable
        links, features = self._features(coordinates)
        for position, dimension in enumerate(variable.dims):
            if dimension in variable.dims[:position] or (links and dimension == links[0].inner):
                continue
            own = [v for v in coordinates if length(v) == (dimension,)]
            known = [v for v in own if (i := self._identity(v)) is not None and i not in self.axes]
            if not any(v.is_coordinate for v in known):
                # Of other coordinates along the dimension, names of features and times are the most informative, and
                # the order in which they are named means nothing.
                known.sort(key=lambda v: (v.text("cf_role") not in ROLES, not _is_time(v), self._identity(v) or ""))
            if points := next((v for v in own if "compress" in v.attributes), None):
                self._gathered(points, position, coordinates)
            elif known:
                self._axis(known[0])
            elif (name := self._unnamed(dimension, coordinates)) is not None:
                self._index(name, position)
            elif own and self._identity(own[0]) in self.axes:
                if own[0].name not in self.axes:
                    self._axis(own[0], own[0].name)
                self.problems.append(f"{self._identity(own[0])!r} is the coordinate of two of its dimensions")
            elif own:
                self._axis(own[0])
                # Without a name it cannot be joined, and keeps its coordinate; those of the Unified Model have theirs.
                if not own[0].is_coordinate or code_of_model(variable) is None:
                    self.problems.append(f"its dimension {dimension!r} has no coordinate with a standard name")
        if features is not None:
            self._samples(links, features)
            return
        self._nodes()
        shared = [d for d in variable.dims if d in self.known.shared]
        self.problems += [f"its dimension {d!r} is that of a ragged array whose features have no names" for d in shared]
        for other in (*self.known.ragged, *self.known.identifiers) if shared else ():
            self._part("ragged", other)

    def _gathered(self, points: Variable, position: int, coordinates: list[Variable]) -> None:
        """Add a list of points as an axis, and the dimensions that they are in with the coordinates of these."""
        self._index(f"points of {points.name}", position)
        for other in self._lists(points, "the points", coordinates):
            self._part("gathered", other)

    def _lists(self, points: Variable, what: str, coordinates: list[Variable], *outer: Variable) -> list[Variable]:
        """Add the dimensions that points are in, and return these with their list; the dimensions may be lists, too."""
        whole = [points]
        for k, word in enumerate(points.words("compress")):
            dimension, own = word.rpartition("/")[2], self._find(word, points)
            own = own if own is not None and length(own) == (own.name,) else None
            of = own or next((v for v in coordinates if dimension in v.dims), None)
            if of is not None:
                name = self.along[dimension] = f"dimension {k} of {what}"
                self.axes[name] = AxisPlan(name, self.known.number[of], dimension=of.dims.index(dimension))
                if own is not None and own not in (points, *outer):
                    whole += self._lists(own, name, coordinates, points, *outer)
            elif self.resolver.dimension(word, points.group) is not None:
                self.problems.append(f"its points {points.name!r} are in the dimension {word!r}, which no variable has")
        return whole

    def _features(self, coordinates: list[Variable]) -> tuple[list[_Link], Variable | None]:
        """Return the links from samples of a ragged array to its features, and the variable that identifies these."""
        links = _links_of(self.variable, self.known, self.resolver)
        if not links:
            return [], None
        features = links[-1].outer
        if any(all(link.inner not in v.dims for v in (self.variable, *(k.variable for k in links))) for link in links):
            return [], None
        several = [v for v in dict.fromkeys((*self.known.identifiers, *coordinates)) if length(v) == (features,)]
        found = [v for v in several if self._identity(v) is not None and self._is_usable(v, "its coordinate")]
        found.sort(key=lambda v: (v.text("cf_role") not in ROLES, not _is_time(v)))
        return (links, found[0]) if found else ([], None)

    def _samples(self, links: list[_Link], features: Variable) -> None:
        """Add the features of a ragged array as an axis, and the variables that link samples to them."""
        self._axis(features)
        root = next(reversed(self.axes))
        for link, kind in zip(links, ("samples", "profiles"), strict=False):
            self._within(kind, link.inner, root, self.variable, *(other.variable for other in links))
        for link in links:
            kind = "count" if link.counts else "index"
            self._part("ragged", link.variable, name=f"{kind} of {self.along[link.inner]}")
        for other in self.known.identifiers:
            if length(other) in [(link.inner,) for link in links]:
                self._part("ragged", other)
        self.said["ragged array"] = tuple("counts" if link.counts else "indices" for link in links)

    def _within(self, kind: str, dimension: str, root: str, *spanning: Variable) -> None:
        """Add a dimension as an axis within `root`, whose places each have a range of it, by its first variable."""
        name = f"{kind}{WITHIN}{root}"
        of = next(v for v in spanning if dimension in v.dims)
        number = None if of is self.variable else self.known.number[of]
        self.axes[name] = AxisPlan(name, number, dimension=of.dims.index(dimension))
        self.along[dimension] = name

    def _nodes(self) -> None:
        """Add the nodes of geometries as an axis, and their parts."""
        container = self._find(self.variable.text("geometry") or "")
        if container is None:
            return
        counts, sizes, nodes = (
            [v for word in container.words(name) if (v := self._find(word, container)) is not None]
            for name in ("node_count", "part_node_count", "node_coordinates")
        )
        if len(counts) != 1 or not _is_plain(counts[0]) or len(counts[0].dims) != 1 or not nodes:
            return
        root, dims = self.along.get(counts[0].dims[0], ""), nodes[0].dims
        if root not in self.of or len(dims) != 1 or dims[0] in self.along or any(v.dims != dims for v in nodes):
            return
        self._within("nodes", dims[0], root, *nodes)
        self.counting[counts[0]] = f"count of {self.along[dims[0]]}"
        dims = sizes[0].dims if len(sizes) == 1 and _is_plain(sizes[0]) else ()
        if len(dims) == 1 and dims[0] not in self.along:
            self._within("parts", dims[0], root, *sizes)
            self.counting[sizes[0]] = f"size of {self.along[dims[0]]}"

    def _unnamed(self, dimension: str, coordinates: list[Variable]) -> str | None:
        """Return the identity of a dimension without a coordinate of its own."""
        # Independent of the order in which they are named.
        spanning = {
            name: length(v)
            for v in reversed(coordinates)
            if len(length(v)) > 1 and dimension in length(v) and (name := self._identity(v)) is not None
        }
        if spanning:
            name = min(spanning)
            return f"index {spanning[name].index(dimension)} of {name}"
        mesh = self._find(self.variable.text("mesh") or "")
        if mesh is not None:
            place = self.variable.text("location") or ""
            named = [
                self._find(w, mesh)
                for w in mesh.words(f"{place}_node_connectivity") + mesh.words(f"{place}_coordinates")
            ]
            if any(v is not None and dimension in v.dims for v in named):
                return f"{place}s of the mesh"
        if self.options.relaxed_identities or self.options.allow_no_identity or self.options.variable_identities:
            return f"{UNNAMED}{dimension}"
        return None

    def _axis(self, coordinate: Variable, name: str | None = None) -> None:
        name = name or self._identity(coordinate) or coordinate.name
        bounds = self._bounds(coordinate)
        number = self.known.number
        self.axes[name] = AxisPlan(name, number[coordinate], None if bounds is None else number[bounds])
        self.of[name] = coordinate
        # Bounds may themselves be terms, such as those of hybrid heights.
        self.taken.update({coordinate, bounds or coordinate})
        self.along.update(dict.fromkeys(length(coordinate), name))
        if "coordinate_interpolation" in coordinate.attributes or "quantization" in coordinate.attributes:
            self.problems.append(f"its coordinate {coordinate.name!r} is subsampled")

    def _index(self, name: str, position: int) -> None:
        self.axes[name] = AxisPlan(name, dimension=position)
        self.along[self.variable.dims[position]] = name

    def _scalars(self, coordinates: list[Variable]) -> None:
        """Add axes of scalar coordinates; those of a station belong to the axis of its name."""
        scalars = [v for v in coordinates if not length(v) and self._identity(v) is not None]
        roles = [v for v in scalars if v.text("cf_role") in ROLES] if self.feature else []
        if [v.text("cf_role") for v in roles] == ["timeseries_id"]:
            self._axis(roles[0])
            name = self._identity(roles[0]) or ""
            for other in scalars:
                if other is not roles[0] and not _is_time(other):
                    self._part("coordinates", other, (name,))
            scalars = [v for v in scalars if _is_time(v)]
        elif roles:
            # Trajectories and profiles of other names stay separate.
            for own in roles:
                self._part("coordinates", own)
            scalars = [v for v in scalars if v not in roles]
        names = {*self.axes, *(self._identity(v) for v in scalars)}
        for other in scalars:
            known = self._identity(other)
            # The time since the reference time follows from these two.
            if known not in self.axes and not (known == "forecast_period" and names >= _TIMES):
                self._axis(other)
        # The Unified Model counts by numbers that CF does not name, such as pseudo levels.
        for other in coordinates if code_of_model(self.variable) is not None else ():
            counts = other.kind == "integer" and other.text("units") in (None, "1") and not self._identity(other)
            if counts and not length(other) and other.name not in self.axes:
                self._axis(other)

    def _promoted(self) -> None:
        own = self.variable.attributes
        for name in self.options.dimension:
            if (name in own or name in self.around) and name not in self.axes:
                self.axes[name] = AxisPlan(name, attribute=name)
        for name in self.options.field_ancillaries:
            if name in own or name in self.around:
                axes = tuple(n for n in self.axes if not root_of(n))
                self.parts[name] = PartPlan(name, "ancillary_variables", axes, attribute=name)

    def _part(self, role: str, other: Variable, behind: tuple[str, ...] = (), name: str | None = None) -> None:
        """Add another variable that belongs to this one."""
        known = name or self._identity(other) or f"ncvar%{other.name}"
        if other in self.taken:
            return
        self.taken.add(other)
        if not self._is_usable(other, "what belongs to it,"):
            return
        if known in self.axes or known in self.parts:
            known = f"{known} ({other.name})"
        others = _OF_FORECASTS - {known}
        if known in _OF_FORECASTS and self.axes.keys() >= others:
            behind += tuple(n for n in sorted(others) if n not in self.along.values())
        named = self._named(other) if role in NAMING and not behind else ()
        axes = tuple(self.along.get(d, "") for d in length(other)) + behind + named
        varies = any(a in self.of and _is_time(self.of[a]) for a in axes)
        self.parts[known] = PartPlan(known, role, axes, self.known.number[other], varies=varies, named=len(named))
        bounds = self._bounds(other)
        if bounds is not None:
            self._part("bounds", bounds, behind, f"bounds of {known}")
        if other.text("nodes"):
            for word in other.words("nodes"):
                nodes = self._find(word, other)
                if nodes is not None:
                    self._part("geometry", nodes, name=self._name_of_nodes(nodes))

    def _named(self, other: Variable) -> tuple[str, ...]:
        """Return the axes of scalar coordinates that another variable names itself, such as the time of flags."""
        named = [self._find(word, other) for word in other.words("coordinates")]
        return tuple(sorted(n for n, v in self.of.items() if not length(v) and v in named))

    def _name_of_nodes(self, nodes: Variable) -> str:
        """Return the name of a coordinate of nodes, which differs from that of the coordinate whose nodes they are."""
        return f"nodes of {self._identity(nodes) or nodes.name}"


def _is_time(variable: Variable) -> bool:
    return is_reference_time(variable.text("units") or "")


@dataclass(frozen=True, slots=True)
class _Link:
    """A variable that maps elements of the dimension `inner` to those of `outer`, by counts or indices."""

    variable: Variable
    inner: str
    outer: str
    counts: bool


def _links_of(variable: Variable, known: Variables, resolver: Resolver) -> list[_Link]:
    """Return the links from the samples of a ragged array to its features, or none if they are ambiguous."""
    shared = [d for d in variable.dimensions if d.name in known.shared]
    links: list[_Link] = []
    while len(shared) == 1 and len(links) < 3:
        found = [(v, *of) for v in known.ragged if (of := _outer(v, shared[0], resolver)) is not None]
        if not found:
            return links
        ((own, outer, counts), *others) = found
        if others or not _is_plain(own):
            return []
        links.append(_Link(own, shared[0].name, outer.name, counts))
        shared = [outer]
    return []


def _outer(variable: Variable, inner: Dimension, resolver: Resolver) -> tuple[Dimension, bool] | None:
    """Return the dimension to which a variable links another one, and whether it counts, or `None`."""
    sample, instance = (variable.text(f"{kind}_dimension") for kind in ("sample", "instance"))
    if len(variable.dims) == 1 and sample is not None and resolver.dimension(sample, variable.group) is inner:
        return variable.dimensions[0], True
    if instance is None or len(variable.dims) != 1 or variable.dimensions[0] is not inner:
        return None
    outer = resolver.dimension(instance, variable.group)
    return None if outer is None else (outer, False)


def _is_plain(variable: Variable) -> bool:
    """Return whether stored integers are the actual values."""
    return variable.kind == "integer" and length(variable) == variable.dims and _STORED.isdisjoint(variable.attributes)
