"""The grammar of cell methods and the names in them: CF sections 7.3 and 7.4, Appendix E."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.cell_methods import METHODS, CellMethods, Entry, parse
from cfagg.cf.kinds_of_units import known
from cfagg.checking.context import Context, once
from cfagg.checking.lookup import area_types, named_version, near, standard_names, standard_names_version
from cfagg.checking.spans import span_is_known
from cfagg.checking.times import time_like
from cfagg.findings.finding import Hit, Severity
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable

#: Names that need no lookup in the table of standard names.
_COMMON = frozenset({"area", "time", "latitude", "longitude"})

#: The allowed sequences of entries for one climatological time (section 7.4).
_CLIMATOLOGIES = (
    (("within", "years"), ("over", "years")),
    (("within", "days"), ("over", "days")),
    (("within", "days"), ("over", "days"), ("over", "years")),
)


@once
def methods(c: Context) -> list[tuple[Variable, CellMethods]]:
    """Return the variables that have cell methods, with their parsed cell methods."""
    found = []
    for v in c.with_attribute("cell_methods"):
        text = v.text("cell_methods")
        if text is not None:
            found.append((v, _with_names(c, v, parse(text))))
    return found


def _with_names(c: Context, v: Variable, parsed: CellMethods) -> CellMethods:
    """Return cell methods with the names of dimensions and scalar coordinates in place of their paths (section 2.7)."""
    if not any("/" in name for entry in parsed.entries for name in entry.names):
        return parsed
    entries = (e._replace(names=tuple(_without_path(c, v, name) for name in e.names)) for e in parsed.entries)
    return parsed._replace(entries=tuple(entries))


def _without_path(c: Context, v: Variable, name: str) -> str:
    """Return the name of what a path leads to if that belongs to `v`, or else the path."""
    target, _ = c.resolver.variable(name, v.group)
    if c.resolver.dimension(name, v.group) in v.dimensions or (
        target is not None and (coordinate_of(c, v, target.name) is target)
    ):
        return name.rpartition("/")[2]
    return name


@once
def norms(c: Context) -> set[Variable]:
    """Return the variables that others are anomalies with respect to (section 7.5)."""
    found = set()
    for v, parsed in methods(c):
        for entry in parsed.entries:
            target = c.resolver.variable(entry.norm, v.group)[0] if entry.norm else None
            if target is not None:
                found.add(target)
    return found


def coordinate_of(c: Context, v: Variable, name: str) -> Variable | None:
    """Return the coordinate variable of a dimension of `v`, or the scalar coordinate of `v`, that has this name."""
    if name in v.dims:
        found, _ = c.resolver.variable(name, v.group)
        return found if found is not None and found.is_coordinate else None
    return scalars(c, v).get(name)


@once
def scalars(c: Context, v: Variable) -> dict[str, Variable]:
    """Return the scalar coordinates of a variable by the names that it gives them."""
    found = [(r.name, r.target) for r in c.references_of(v, "coordinates")]
    named = {name: target for name, target in found if target is not None and is_scalar(target)}
    # Cell methods may name those of other groups with or without their path.
    for target in list(named.values()):
        named.setdefault(target.name, target)
    return named


def is_scalar(v: Variable) -> bool:
    """Whether a variable is a single value or a single string."""
    return not v.dimensions or (v.kind == "char" and len(v.dimensions) == 1)


@rule("CEL003")
def cell_methods_follow_the_grammar(c: Context) -> Iterator[Hit]:
    """cell_methods follows its grammar, and names, methods and area types are defined by CF."""
    for v in c.with_attribute("cell_methods"):
        value = v.attributes["cell_methods"]
        if not isinstance(value, str) and not faulty_text(value, c.version):
            yield Hit(v, "cell_methods", "cell_methods is not text; expected e.g. 'time: mean'")
    for v, parsed in methods(c):
        for problem in parsed.problems:
            yield Hit(v, "cell_methods", problem)
        for entry in parsed.entries:
            yield from _method(c, v, entry)
            yield from _areas(c, v, entry)
            for name in dict.fromkeys(entry.names):
                wrong = _name(c, v, name)
                if wrong is not None:
                    yield Hit(v, "cell_methods", *wrong)
        yield from _climatologies(c, v, parsed)


def _method(c: Context, v: Variable, entry: Entry) -> Iterator[Hit]:
    since = METHODS.get(entry.method.lower())
    if since is None:
        like = near(c, entry.method.lower(), frozenset(METHODS))
        hint = f"; did you mean {like!r}?" if like else "; the methods are listed in Appendix E"
        yield Hit(v, "cell_methods", f"{entry.method!r} is not a cell method{hint}")
    elif since > c.version.minor:
        yield Hit(
            v, "cell_methods", f"the method {entry.method!r} came with CF-1.{since}; {c.version} does not have it"
        )


def _name(c: Context, v: Variable, name: str) -> tuple[str, Severity | None] | None:
    """Return the error in the name that a method applies to, or `None`."""
    if name in _COMMON or name in v.dims or coordinate_of(c, v, name) is not None or name in _selected(c, v):
        return None
    table = standard_names(c)
    if name in table:
        return None
    if name in _gathered(c).get(v, ()):
        return None
    if not span_is_known(c) and c.resolver.dimension(name, v.group) is not None:
        return None  # GAT001, GAT002: it may be one of the gathered dimensions
    if v in norms(c) and _is_time(c, v, name):
        return None  # ANO013 reports a name that the norm does not select from
    if name in _listed(c, v):
        expected = "dimensions, scalar coordinates, standard names or 'area': name its dimensions"
        return f"{name!r} is an auxiliary coordinate; expected {expected}", "warning"
    like = near(c, name, frozenset({*v.dims, "area"})) or near(c, name, table)
    hint = f"; did you mean {like!r}?" if like else ""
    named = named_version(v.group)
    version = standard_names_version(c)
    newer = named is not None and version.isdigit() and named > int(version)
    return (
        f"{name[:80]!r} is neither a dimension nor a scalar coordinate of {v.path!r}, nor a standard name{hint}",
        "warning" if newer else None,
    )


@once
def _gathered(c: Context) -> dict[Variable, set[str]]:
    """Return, for variables that are compressed by gathering, the names of the dimensions that were gathered."""
    lists = {v.dimensions[0]: v.words("compress") for v in c.with_attribute("compress") if len(v.dimensions) == 1}
    if not lists:
        return {}
    return {v: {n for d in v.dimensions for n in lists.get(d, ())} for v in c.with_attribute("cell_methods")}


def _is_time(c: Context, v: Variable, name: str) -> bool:
    found, _ = c.resolver.variable(name, v.group)
    return found is not None and found.is_coordinate and found in time_like(c)


@once
def _listed(c: Context, v: Variable) -> set[str]:
    """Return the names in ``coordinates``."""
    return {r.name for r in c.references_of(v, "coordinates")}


@once
def _selected(c: Context, v: Variable) -> set[str]:
    """Return the names that a norm's coordinates select times from, to which its cell methods may apply."""
    found = set()
    for reference in c.references_of(v, "coordinates"):
        if reference.target is not None:
            found.update(reference.target.words("select"))
    return found


def _areas(c: Context, v: Variable, entry: Entry) -> Iterator[Hit]:
    for keyword, name in (("where", entry.where), ("over", entry.over)):
        wrong = _area(c, v, keyword, name) if name is not None else None
        if wrong is not None:
            yield Hit(v, "cell_methods", *wrong)


def _area(c: Context, v: Variable, keyword: str, name: str) -> tuple[str, Severity | None] | None:
    """Return the error in an area type, or `None`."""
    table = area_types(c)
    found, _ = c.resolver.variable(name, v.group)
    if found is None:
        if name in table:
            return None
        like = near(c, name, table)
        hint = f"; did you mean {like!r}?" if like else ""
        return f"{name!r} after {keyword!r} is neither an area type nor a variable of area types{hint}", None
    if (found.text("standard_name") or "").strip() != "area_type":
        if name in table:
            taken = "and also a variable, which readers will take for a coordinate of area types; rename the variable"
            return f"{name!r} after {keyword!r} is an area type {taken}", "warning"
        return f"the variable {name!r} after {keyword!r} does not have the standard_name area_type", None
    if not found.is_text:
        flags = "flag_meanings" in found.attributes
        return f"the variable {name!r} after {keyword!r} holds numbers; expected area types as text", (
            "warning" if flags else None
        )
    if not any(r.target is found for r in c.references_of(v, "coordinates")):
        return f"the variable {name!r} after {keyword!r} is not named by coordinates of {v.path!r}; add it there", None
    if keyword == "over" and not _single(found):
        return f"the variable {name!r} after 'over' holds several texts; expected a single one", None
    return None


def _single(v: Variable) -> bool:
    """Whether a variable has the size of a single string."""
    dimensions = v.dimensions[:-1] if v.kind == "char" else v.dimensions
    return len(dimensions) <= 1 and all(d.size == 1 for d in dimensions)


def _climatologies(c: Context, v: Variable, parsed: CellMethods) -> Iterator[Hit]:
    """Yield the errors in entries of climatological times."""
    said: dict[str, list[tuple[str, str]]] = {}
    for entry in parsed.entries:
        if entry.within is not None and entry.period is not None:
            for name in entry.names:
                said.setdefault(name, []).append((entry.within, entry.period))
    for name, forms in said.items():
        if tuple(forms) not in _CLIMATOLOGIES:
            text = ", ".join(" ".join(form) for form in forms)
            message = (
                f"the entries for {name!r} are {text}; expected within years and over years, within days and over "
                "days, or within days, over days and over years"
            )
            yield Hit(v, "cell_methods", message)
            continue
        time = coordinate_of(c, v, name)
        if time is not None and "climatology" not in time.attributes and v not in norms(c):
            message = (
                f"within and over are used for {name!r}, which has no attribute climatology; they are for "
                "climatological times"
            )
            yield Hit(v, "cell_methods", message, "warning")


@rule("CEL004", each=methods)
def a_dimension_occurs_once(c: Context, v: Variable, parsed: CellMethods) -> Iterator[Hit]:
    """No dimension has two methods, except climatological times."""
    seen: set[str] = set()
    reported: set[str] = set()
    first: dict[Variable, str] = {}
    for entry in parsed.entries:
        if entry.within is not None or entry.is_anomaly:
            continue
        for name in entry.names:
            own = _known_as(c, v, name)
            if own is not None and first.setdefault(own, name) != name and name not in seen:
                message = f"{first[own]!r} and {name!r} are the same coordinate, which occurs once; delete one of them"
                yield Hit(v, "cell_methods", message, "warning")
            if name in seen and name not in reported and not _climatological(c, v, name):
                reported.add(name)
                sure = name in v.dims or coordinate_of(c, v, name) is not None
                if name != "area":
                    message = f"{name!r} occurs more than once; only climatological times may, with within and over"
                    yield Hit(v, "cell_methods", message, None if sure else "warning")
            seen.add(name)


def _known_as(c: Context, v: Variable, name: str) -> Variable | None:
    """Return the coordinate variable or scalar coordinate that has a name, or is the only one of a standard name."""
    own = coordinate_of(c, v, name)
    if own is not None or name in v.dims:
        return own
    found = {one for d in v.dims if (one := coordinate_of(c, v, d)) is not None} | set(scalars(c, v).values())
    named = [one for one in found if (one.text("standard_name") or "").strip() == name]
    return named[0] if len(named) == 1 else None


def _climatological(c: Context, v: Variable, name: str) -> bool:
    time = coordinate_of(c, v, name)
    return time is not None and "climatology" in time.attributes


@rule("CEL005", each=methods)
def comments_follow_the_grammar(_: Context, v: Variable, parsed: CellMethods) -> Iterator[Hit]:
    """Comments are in parentheses; intervals are a number and a unit, given once or for each name."""
    for problem in parsed.comment_problems:
        yield Hit(v, "cell_methods", problem)
    for doubt in parsed.comment_doubts:
        yield Hit(v, "cell_methods", doubt, "warning")
    for entry in parsed.entries:
        for interval in entry.intervals:
            if not known(interval.unit):
                free = len(interval.unit.split()) > 1 and known(interval.unit.split()[0])
                hint = "; free text follows 'comment:'" if free else ""
                message = (
                    f"the interval {interval.value} has the unit {interval.unit!r}, which UDUNITS does not know" + hint
                )
                yield Hit(v, "cell_methods", message)
