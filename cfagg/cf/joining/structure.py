"""Describing data variables by the attributes and dimensions of a file, once for all similar files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from cfagg.cf.cell_methods import parse
from cfagg.cf.grid_mapping_parameters import MAPPINGS
from cfagg.cf.joining.gathering import Gathering
from cfagg.cf.joining.identities import (
    code_of_model,
    field_identity,
    frozen,
    identity,
    length,
    methods,
    properties,
    units_key,
)
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.plans import AxisPlan, FieldPlan, PartPlan, Variables, around
from cfagg.cf.lists import grid_mappings, pairs
from cfagg.cf.references import Resolver, references
from cfagg.cf.variable_roles import Roles
from cfagg.model.dataset import Dataset, Variable

__all__ = ["plan_of", "plans_of"]

_VALID = ("valid_min", "valid_max", "valid_range")
_FLAGS = ("flag_values", "flag_masks", "flag_meanings")
_PLACE, _BY_NAME = ("latitude", "longitude"), Options()
_UNSAID = frozenset({"long_name", "comment", "history"})


def plans_of(dataset: Dataset, options: Options) -> tuple[FieldPlan, ...]:
    """Return the plans of all data variables: those to which no other variable refers."""
    resolver = Resolver(dataset)
    roles = Roles(dataset, references(dataset, resolver))
    aggregated = {v for v in dataset.variables if v.dialect is not None and v.text("cf_role") in ("nca", "cfa")}
    left = (roles.data | aggregated) - roles.named_by("ancillary_variables") - roles.named_by("cell_measures")
    # Text along a dimension of the same name, which xarray writes, is treated as its coordinate.
    labels = {v for v in left if v.is_text and length(v) == (v.name,)}
    left -= {v for v in labels if any(v.dimensions[0] in o.dimensions for o in left - labels)}
    known = Variables(dataset.variables)
    same: dict[Hashable, Any] = {}
    plans = [_Field(v, resolver, options, known).plan() for v in dataset.variables if v in left]
    # What describes only variables that are not there is data: a surface pressure in a file without levels.
    used = set().union(*map(_numbers, plans))
    rest = (roles.data - labels) | _terms(dataset, roles)
    for number, v in enumerate(dataset.variables):
        if number not in used and v in rest:
            plans.append(_Field(v, resolver, options, known).plan())
            used |= _numbers(plans[-1])
    plans.sort(key=lambda plan: plan.variable)
    # Equal axes and parts are the same objects, which are later used as keys.
    return tuple(
        replace(
            p,
            axes=same.setdefault((p.axes, *_of_itself(p.axes, dataset.variables[p.variable])), p.axes),
            parts=same.setdefault((p.parts, *_of_itself(p.parts, dataset.variables[p.variable])), p.parts),
        )
        for p in plans
    )


def _numbers(plan: FieldPlan) -> set[int | None]:
    """Return the numbers of all variables of a plan."""
    return {
        plan.variable,
        *plan.mappings,
        *(number for axis in plan.axes for number in (axis.variable, axis.bounds)),
        *(part.variable for part in plan.parts),
    }


def _terms(dataset: Dataset, roles: Roles) -> set[Variable]:
    """Return the formula terms that are more than a part of their vertical coordinate, as fields at the surface are."""
    levels = {v.name for v in dataset.variables if v.is_coordinate and "formula_terms" in v.attributes}
    terms = roles.named_by("formula_terms") - roles.coordinates - roles.bounds
    return {v for v in terms if v.dims and levels.isdisjoint(v.dims)}


def _of_itself(plans: Sequence[AxisPlan | PartPlan], variable: Variable) -> tuple[Hashable, ...]:
    """Return the part of axes or companions that belongs to the variable itself: dimensions and attributes."""
    if any(p.attribute is not None for p in plans):
        return (id(variable),)
    own = [p.dimension for p in plans if isinstance(p, AxisPlan) and p.dimension is not None and p.variable is None]
    return tuple(id(variable.dimensions[position]) for position in own)


def plan_of(variable: Variable, resolver: Resolver, options: Options, known: Variables) -> FieldPlan:
    """Return the plan of one variable."""
    return _Field(variable, resolver, options, known).plan()


class _Field(Gathering):
    """One data variable, with a plan made from the gathered variables."""

    def plan(self) -> FieldPlan:
        """Return the plan."""
        variable, options = self.variable, self.options
        name = field_identity(variable, options)
        if name is None and not options.allow_no_identity:
            wanted = f"attribute {options.field_identity!r}" if options.field_identity else "standard name"
            self.problems.append(f"it has no {wanted}")
        self.around = around(variable)
        coordinates = self._coordinates()
        self._along(coordinates)
        self._scalars(coordinates)
        self._promoted()
        for other in coordinates:
            self._part("coordinates", other)
        containers = [self._companions(), self._mesh()]
        self._vertical()
        mappings = dict.fromkeys(
            (*self._mappings(coordinates), *(self.known.number[c] for c in containers if c is not None))
        )
        self._check_units(name)
        if variable.kind == "other" and variable.enumeration is None:  # the meaning of its values is not compared
            self.problems.append("its type is defined by its file")
        self.problems += ["its coordinates are subsampled"] * ("coordinate_interpolation" in variable.attributes)
        twice = [d for k, d in enumerate(variable.dims) if d in variable.dims[:k]]
        self.problems += [f"its dimension {dimension!r} occurs twice" for dimension in twice]
        for dimension in variable.dims:
            if dimension not in self.along:
                self.problems.append(f"its dimension {dimension!r} has no coordinate with a standard name")
        return FieldPlan(
            self.known.number[variable],
            self._signature(name),
            tuple(self.axes.values()),
            self.along,
            tuple(self.parts.values()),
            tuple(mappings),
            "; ".join(dict.fromkeys(self.problems)) or None,
        )

    def _companions(self) -> Variable | None:
        """Add ancillary variables, cell measures and geometries; return the container of geometries."""
        variable = self.variable
        for word in variable.words("ancillary_variables"):
            own = self._find(word)
            if own is not None:
                self._part("ancillary_variables", own)
        external = {w for g in variable.group.ancestors() for w in (g.text("external_variables") or "").split()}
        measures = []
        for measure, names in pairs(variable.text("cell_measures") or "") or ():
            for word in names:
                own = self._find(word)
                if own is not None:
                    self._part("cell_measures", own)
                measures.append((measure, word if own is None and word in external else None))
        self.said["cell measures"] = tuple(sorted(measures, key=str))
        container = self._find(variable.text("geometry") or "")
        if container is not None:
            self.said["geometry"] = container.text("geometry_type")
            for attribute in ("node_coordinates", "node_count", "part_node_count", "interior_ring"):
                for word in container.words(attribute):
                    own = self._find(word, container)
                    if own is not None:
                        known = self._name_of_nodes(own) if attribute == "node_coordinates" else attribute
                        self._part("geometry", own, name=self.counting.get(own, known))
        return container

    def _mesh(self) -> Variable | None:
        """Add the topology of the mesh, which must be equal regardless of the names of its variables, and return it."""
        mesh = self._find(self.variable.text("mesh") or "")
        if mesh is None:
            self.said["mesh"] = self.variable.text("mesh")
            return None
        kinds = {}
        for attribute, value in sorted(mesh.attributes.items(), key=str):
            named = [self._find(w, mesh) for w in mesh.words(attribute)] if isinstance(value, str) else []
            if named and all(v is not None for v in named):
                for k, own in enumerate(named):
                    if own is not None:
                        name = f"{attribute} {k} of the mesh"
                        self._part("mesh", own, name=name)
                        part, elements = self.parts.get(name), mesh.text(f"{attribute.partition('_')[0]}_dimension")
                        if part and attribute.endswith("_connectivity") and own.dims[1:] == (elements,):
                            self.parts[name] = replace(part, axes=part.axes[::-1], turned=True)
            elif attribute == "topology_dimension":
                kinds[attribute] = frozen(value)
        self.said["mesh"] = (self.variable.text("location"), tuple(sorted(kinds.items())))
        return mesh

    def _vertical(self) -> None:
        """Add the terms of parametric vertical coordinates, and those of their bounds."""
        said = []
        for name, coordinate in list(self.of.items()):
            text = coordinate.text("bounds")
            both = [coordinate, None if text is None else self._find(text, coordinate)]
            for kind, own in zip(("term", "term of bounds"), both, strict=True):
                for term, names in pairs((own.text("formula_terms") if own is not None else None) or "") or ():
                    found = self._find(names[0], own)
                    said.append((name, kind, term, found is not None))
                    if found is not None:
                        self._part("formula_terms", found, name=f"{kind} {term} of {name}")
        self.said["formula terms"] = tuple(sorted(set(said)))

    def _mappings(self, coordinates: list[Variable]) -> tuple[int, ...]:
        found, said = [], []
        for name, words in grid_mappings(self.variable.text("grid_mapping") or "") or ():
            own = self._find(name)
            if own is None:
                continue
            found.append(self.known.number[own])
            named = [self._find(word) for word in words] if words else _meant(own, coordinates)
            of = tuple(self._identity(c) or c.name for c in named if c is not None)
            # The order of coordinates matters for well-known text only, where only the long form gives it.
            if "crs_wkt" not in own.attributes:
                of = tuple(sorted(of))
            elif not words:
                of = ()
            attributes = sorted((k, frozen(v)) for k, v in own.attributes.items() if k not in _UNSAID)
            said.append((tuple(attributes), of))
        self.said["grid mapping"] = tuple(sorted(said, key=str))
        return tuple(dict.fromkeys(found))

    def _methods(self) -> Hashable:
        """Return the meaning of cell methods, independent of the names of variables."""
        text = self.variable.text("cell_methods")
        if text is None:
            return None
        words = {}
        for entry in parse(text).entries:
            for word in {entry.where, entry.over, entry.norm} - {None}:
                own = self._find(str(word))
                known = None if own is None else self._identity(own)
                # A variable may have the name of an area type without being meant.
                if known is not None and (word == entry.norm or known == "area_type"):
                    words[str(word)] = known
        return methods(text, self.along | {v.name: name for name, v in self.of.items()}, words)

    def _check_units(self, name: str | None) -> None:
        if self.options.relaxed_units:
            return
        # What the numbers of flags mean is said by `flag_meanings`, which have to be equal.
        flags = "flag_meanings" in self.variable.attributes
        # What those of a code of the Unified Model mean is said by the model, whose table lacks the units of many.
        known = flags or (name is not None and name == code_of_model(self.variable))
        of_units = self.variable.is_numeric and self.variable.text("units") is None and not known
        bare = [name or self.variable.name] * of_units
        bare += [n for n, v in self.of.items() if v.text("units") is None and not v.is_text and not _is_counted(v)]
        self.problems += [f"{one!r} has no units" for one in bare]

    def _signature(self, name: str | None) -> dict[str, Hashable]:
        variable, own = self.variable, self.variable.attributes
        axes = []
        for key, plan in self.axes.items():
            of = self.of.get(key)
            sense: Hashable = "index" if plan.dimension is not None else "attribute"
            if of is not None:
                sense = "text" if of.is_text else _enumerated(of) or units_key(of.text("units"), of.text("calendar"))
            climatology = of is not None and "climatology" in of.attributes
            positive = (of.text("positive") or "").lower() if of is not None else ""
            axes.append((key, sense, plan.bounds is not None, climatology, positive))
        parts, variables = [], self.known.all
        for p in self.parts.values():
            other = None if p.variable is None else variables[p.variable]
            kind: Hashable = None
            if other is not None:
                kind = (
                    "text"
                    if other.is_text
                    else _enumerated(other) or units_key(other.text("units"), other.text("calendar"))
                )
            # The order of its dimensions does not matter, nor whether axes of size 1 are dimensions.
            parts.append((p.identity, p.role, tuple(sorted(p.axes[: len(p.axes) - p.named])), kind))
        return {
            "identity": name,
            "type": "text" if variable.is_text else _enumerated(variable) or "numbers",
            "units": units_key(variable.text("units"), variable.text("calendar")),
            "cell methods": self._methods(),
            "axes": tuple(sorted(axes, key=str)),
            "other coordinates and ancillary variables": tuple(sorted(parts, key=str)),
            **self.said,
            "featureType": None if self.feature is None else self.feature.lower(),
            **{key: frozen(own.get(key)) for key in _FLAGS},
            **{key: frozen(own.get(key)) for key in (_VALID if self.options.respect_valid else ())},
            **properties(own, self.around, self.options),
        }


def _meant(mapping: Variable, coordinates: list[Variable]) -> list[Variable]:
    """Return the coordinates of a grid mapping that names none: those of its projection."""
    name = mapping.text("grid_mapping_name") or ""
    wanted = _PLACE if name == "latitude_longitude" else MAPPINGS[name].coordinates if name in MAPPINGS else ()
    by_name = {v: identity(v, _BY_NAME) for v in coordinates}
    found = [v for v, known in by_name.items() if known in wanted]
    return found if sorted(map(str, map(by_name.get, found))) == sorted(wanted) else []


def _enumerated(variable: Variable) -> str | None:
    """Return the meaning of an enumeration, or `None` for another variable."""
    names = variable.enumeration
    if names is None:
        return None
    # A name may itself contain commas and equals signs.
    members = (f"{repr(name) if set(name) & set(',=\'"') else name} = {value}" for name, value in names)
    return f"enumeration of {variable.dtype.name} ({', '.join(members)})"


def _is_counted(variable: Variable) -> bool:
    """Return whether a coordinate may lack units: an identifier, a level number, or a parametric coordinate."""
    return any(variable.text(name) is not None for name in ("cf_role", "formula_terms")) or (
        variable.kind in ("integer", "other")
    )
