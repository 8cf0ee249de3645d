"""Attributes and dimensions of geometries: CF section 7.6."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.checking.context import Context
from cfagg.checking.geometries import Geometry, geometries, several
from cfagg.checking.spans import coordinate_span
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("GEO001", each=geometries)
def data_have_the_dimension_of_the_geometries(c: Context, g: Geometry) -> Iterator[Hit]:
    """A variable with geometry has the dimension that counts the geometries."""
    if g.node_count is None or len(g.node_count.dimensions) != 1:
        return
    wanted = g.node_count.dimensions[0]
    for v in g.users:
        span = coordinate_span(c, v)
        if wanted not in span and v not in c.roles.coordinates:
            same = [d.name for d in span if d.size == wanted.size]
            hint = f"; {same[0]!r} has its size, but is another dimension" if same else ""
            yield Hit(
                v,
                "geometry",
                f"it has no dimension {wanted.name!r}, which counts the geometries of {g.container.name!r}{hint}",
                # A single geometry, like a single feature, may omit the dimension.
                "warning" if same or wanted.size == 1 else None,
            )


@rule("GEO002", each="geometry")
def geometry_names_one_variable(c: Context, v: Variable) -> Iterator[str]:
    """A geometry attribute is the name of one existing variable."""
    names = c.references_of(v, "geometry")
    if faulty_text(v.attributes["geometry"], c.version):
        return
    if v.text("geometry") is None or len(names) != 1:
        yield ("geometry is not one name; expected that of a geometry container")
    elif names[0].target is None:
        yield (f"there is no variable {names[0].name!r}; expected a geometry container")


@rule("GEO003", each=geometries)
def container_has_its_attributes(_: Context, g: Geometry) -> Iterator[Hit]:
    """A geometry container has geometry_type and node_coordinates."""
    for attribute in ("geometry_type", "node_coordinates"):
        if not g.has(attribute):
            yield Hit(g.container, attribute, f"{attribute} is missing; every geometry container has one")


@rule("GEO004", each=geometries)
def geometry_type_is_known(_: Context, g: Geometry) -> Iterator[Hit]:
    """A geometry_type is point, line or polygon in any case."""
    if g.has("geometry_type") and g.kind is None:
        value = g.container.attributes["geometry_type"]
        shown = repr(value) if isinstance(value, str) else "it"
        yield Hit(g.container, "geometry_type", f"{shown} is not one of point, line, polygon")


@rule("GEO007", each=geometries)
def node_coordinates_exist(c: Context, g: Geometry) -> Iterator[Hit]:
    """A node_coordinates attribute is text that names existing variables."""
    names = c.references_of(g.container, "node_coordinates")
    if g.has("node_coordinates") and not names:
        yield Hit(g.container, "node_coordinates", "node_coordinates names no variable; expected names in a text")
    for r in names:
        if r.target is None:
            yield Hit(g.container, "node_coordinates", f"there is no variable {r.name!r}; expected coordinates")


@rule("GEO008")
def node_coordinates_have_an_axis(c: Context) -> Iterator[Hit]:
    """Node coordinates have an axis attribute, which is X, Y or Z."""
    for v in dict.fromkeys(n for g in geometries(c) for n in g.nodes):
        if "axis" not in v.attributes:
            yield Hit(v, "axis", "a node coordinate needs an axis; add X, Y or Z")
        elif (v.text("axis") or "").strip().upper() == "T":
            yield Hit(v, "axis", "the axis of a node coordinate is X, Y or Z, not T")


@rule("GEO009", each=geometries)
def axes_of_node_coordinates_differ(_: Context, g: Geometry) -> Iterator[Hit]:
    """No two node coordinates of a container have the same axis."""
    seen: dict[str, Variable] = {}
    for n in dict.fromkeys(g.nodes):
        axis = (n.text("axis") or "").strip().upper()
        if axis and axis in seen:
            yield Hit(n, "axis", f"axis {axis} is that of {seen[axis].name!r} too; each has its own")
        elif axis:
            seen[axis] = n
    for n in dict.fromkeys(n for n in g.nodes if g.nodes.count(n) > 1):
        # The conformance document counts variables, which are different ones only if they are other variables.
        message = f"{n.name!r} is named more than once; expected one variable for each spatial dimension"
        yield Hit(g.container, "node_coordinates", message, "warning")


@rule("GEO010", each=geometries)
def data_carry_what_the_container_carries(c: Context, g: Geometry) -> Iterator[Hit]:
    """A grid_mapping or coordinates attribute of a container is on its data variables too."""
    named = set(g.container.words("coordinates"))
    for attribute in ("grid_mapping", "coordinates"):
        for v in g.users if g.has(attribute) else ():
            if v in c.roles.coordinates:
                continue  # it may have a geometry too, but the rule is about data
            if attribute not in v.attributes:
                yield Hit(v, attribute, f"{g.container.name!r} has {attribute}, the variable does not; add it here")
            elif attribute == "coordinates":
                missing = named - set(v.words(attribute))
                missing -= {d.name for d in v.dimensions}
                if missing:
                    names = " ".join(sorted(missing))
                    message = f"{g.container.name!r} also names the coordinates {names}; add them here"
                    yield Hit(v, attribute, message, "warning")


@rule("GEO011")
def nodes_names_a_node_coordinate(c: Context) -> Iterator[Hit]:
    """A nodes attribute of a coordinate is the name of one node coordinate."""
    whole = all(
        g.has("node_coordinates") and len(g.nodes) == len(g.container.words("node_coordinates")) > 0
        for g in geometries(c)
    )
    lost = {r.name for g in geometries(c) for r in c.references_of(g.container, "node_coordinates") if r.target is None}
    for v in c.with_attribute("nodes"):
        if v not in c.roles.coordinates:
            continue
        names = c.references_of(v, "nodes")
        if v.text("nodes") is None or len(names) != 1:
            yield Hit(v, "nodes", "nodes is not one name; expected that of a node coordinate")
        elif names[0].target is None:
            if names[0].name not in lost:  # GEO007
                yield Hit(v, "nodes", f"there is no variable {names[0].name!r}; expected a node coordinate")
        elif whole and names[0].target not in c.roles.named_by("node_coordinates"):
            yield Hit(v, "nodes", f"{names[0].name!r} is not a node coordinate: no geometry container names it")


def _mapping(c: Context, v: Variable, coordinate: Variable) -> Variable | None:
    """Return the grid mapping that `v` assigns to a coordinate."""
    named = c.references_of(v, "grid_mapping")
    if len(named) == 1:
        return named[0].target
    mapping = None
    for r in named:
        if r.key is None:
            mapping = r.target
        elif r.target is coordinate:
            return mapping
    return None


@rule("GEO012", each=geometries)
def nodes_have_the_grid_mapping_of_the_coordinate(c: Context, g: Geometry) -> Iterator[Hit]:
    """A coordinate with nodes has the same grid mapping as these nodes."""
    if not g.has("grid_mapping"):
        return
    for user in g.users:
        for r in c.references_of(user, "coordinates"):
            if r.target is None or "nodes" not in r.target.attributes:
                continue
            for node in c.references_of(r.target, "nodes"):
                if node.target not in g.nodes or node.target is None:
                    continue
                one, other = _mapping(c, user, r.target), _mapping(c, g.container, node.target)
                if one is not None and other is not None and one is not other:
                    message = (
                        f"the coordinate has grid mapping {one.name!r}, its nodes {node.name!r} have "
                        f"{other.name!r}; delete nodes or use one grid mapping"
                    )
                    yield Hit(r.target, "nodes", message)


@rule("GEO013", each=geometries)
def node_coordinates_share_one_dimension(c: Context, g: Geometry) -> Iterator[Hit]:
    """The node coordinates of a container have one dimension, the same for all."""
    bad = [n for n in g.nodes if len(n.dimensions) != 1]
    for n in bad:
        # A single point may be a scalar.
        if n.dimensions or g.kind != "point" or len(bad) < len(g.nodes):
            yield Hit(n, None, f"a node coordinate has dimensions ({', '.join(n.dims)}); expected one dimension")
    if not bad and len(g.node_dimensions) > 1:
        names = ", ".join(f"{n.name}({', '.join(n.dims)})" for n in g.nodes)
        yield Hit(g.container, "node_coordinates", f"node coordinates have different dimensions: {names}")
    if not bad and len(g.node_dimensions) == 1 and c.options.data:
        from cfagg.checking.rules.geometry_values import node_total

        yield from node_total(g)


@rule("GEO016", each=geometries)
def several_geometries_have_a_node_count(c: Context, g: Geometry) -> Iterator[Hit]:
    """Without a node count there is one geometry, or one point for each element of a dimension of the data."""
    if g.has("node_count"):
        names = c.references_of(g.container, "node_count")
        if len(names) != 1:
            yield Hit(g.container, "node_count", "node_count is not one name; expected that of a variable")
        elif names[0].target is None:
            yield Hit(g.container, "node_count", f"there is no variable {names[0].name!r} with counts of nodes")
    elif g.kind in ("line", "polygon"):
        if several(c, g):
            yield Hit(g.container, "node_count", f"there are several {g.kind}s; add a node_count")
    elif g.kind == "point":
        yield from _points(c, g)


def _points(c: Context, g: Geometry) -> Iterator[Hit]:
    dimension = g.nodes[0].dimensions[0] if g.nodes and g.nodes[0].dimensions else None
    if dimension is None or dimension.size <= 1 or not several(c, g):
        return
    for v in g.users:
        if dimension not in coordinate_span(c, v):
            message = (
                f"without a node_count the dimension {dimension.name!r} of the nodes must be one of the variable's"
            )
            yield Hit(v, "geometry", message)


@rule("GEO018", each=geometries)
def interior_ring_needs_part_node_count(_: Context, g: Geometry) -> Iterator[Hit]:
    """A container with interior_ring has part_node_count."""
    if g.has("interior_ring") and not g.has("part_node_count"):
        yield Hit(g.container, "interior_ring", "interior_ring needs a part_node_count, which is missing; add it")


@rule("GEO020", each=geometries)
def interior_ring_has_the_dimension_of_the_parts(c: Context, g: Geometry) -> Iterator[Hit]:
    """The interior ring variable has the dimension of the part node count."""
    if not g.has("interior_ring"):
        return
    names = c.references_of(g.container, "interior_ring")
    if len(names) != 1 or names[0].target is None:
        found = f"there is no variable {names[0].name!r}" if len(names) == 1 else "it is not one name"
        yield Hit(g.container, "interior_ring", f"{found}; expected one that marks interior rings")
    elif g.part_node_count is not None and names[0].target.dimensions != g.part_node_count.dimensions:
        found = ", ".join(names[0].target.dims)
        wanted = ", ".join(g.part_node_count.dims)
        yield Hit(names[0].target, None, f"it has dimensions ({found}); expected those of the parts, ({wanted})")
