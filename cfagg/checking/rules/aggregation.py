"""Aggregation variables: CF section 2.8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cfagg.cf.uris import problem_of
from cfagg.checking.context import Context, once
from cfagg.checking.instructions import (
    Instructions,
    has_free_dimensions,
    instructions,
    naming,
    text_dimensions,
    values_of,
)
from cfagg.checking.rules.groups import left_to_search
from cfagg.display.sizes import count_text
from cfagg.findings.finding import Edit, Hit, Severity
from cfagg.findings.rule import rule, shared
from cfagg.model.dataset import Variable

#: Sets of features that belong together.
_FULL, _UNIQUE = {"map", "uris", "identifiers"}, {"map", "unique_values"}

#: Other names for features, in drafts and in CFA.
_OLD = {"location", "file", "address", "format", "variable", "unique_value", "shape"}

#: Names of some features in a draft of CF-1.13.
_DRAFT = {"location": "uris", "variable": "identifiers", "unique_value": "unique_values"}

#: Number of values that a message names.
_NAMED = 3


@once
def _described(c: Context) -> list[Instructions]:
    """Return the instructions of the variables that CF describes."""
    return [i for i in instructions(c).values() if i.dialect == "CF"]


@rule("AGG001", each=_described)
def dimensions_are_text(_: Context, i: Instructions) -> Iterator[Hit]:
    """``aggregated_dimensions`` is one string, possibly empty."""
    v = i.variable
    if "aggregated_dimensions" not in v.attributes:
        message = (
            "it has aggregated_data but no aggregated_dimensions; add the names of its dimensions, or an empty text"
        )
        yield Hit(v, "aggregated_dimensions", message)
    elif v.text("aggregated_dimensions") is None:
        message = "aggregated_dimensions is not text; expected names of dimensions, separated by blanks, in one text"
        yield Hit(v, "aggregated_dimensions", message)


@rule("AGG002", each=_described)
def dimensions_exist(c: Context, i: Instructions) -> Iterator[Hit]:
    """Every aggregated dimension is a dimension of the dataset."""
    v = i.variable
    for name in v.words("aggregated_dimensions"):
        if c.resolver.dimension(name, v.group) is None and not left_to_search(c, v, name):
            remedy = "names are separated by blanks" if "," in name else "define it, or correct the name"
            message = f"there is no dimension {name!r}; {remedy}"
            # Only netCDF has dimensions that no variable uses.
            yield Hit(v, "aggregated_dimensions", message, None if has_free_dimensions(c) else "warning")


@rule("AGG003", each=_described)
def variable_is_scalar(_: Context, i: Instructions) -> Iterator[Hit]:
    """An aggregation variable is stored without dimensions."""
    v = i.variable
    if v.stored:
        names = ", ".join(d.name for d in v.stored)
        message = (
            f"it is stored with dimensions ({names}); an aggregation variable is a scalar, and the attribute "
            "aggregated_dimensions names the dimensions of its data: store it without any"
        )
        yield Hit(v, None, message)


@rule("AGG004", each=_described)
def features_are_complete(c: Context, i: Instructions) -> Iterator[Hit]:
    """``aggregated_data`` names the variables of map, uris and identifiers, or of map and unique_values."""
    if i.problem is not None:
        yield Hit(i.variable, "aggregated_data", i.problem)
        return
    given = set(i.terms)
    if given not in (_FULL, _UNIQUE):
        message = f"the features are {', '.join(i.terms)}; expected map, uris and identifiers, or map and unique_values"
        fix: tuple[Edit, ...] = ()
        lower = [k.lower() for k in i.terms]
        if set(lower) in (_FULL, _UNIQUE) and len(lower) == len(set(lower)):
            message += "; features are in lower case"
            value = " ".join(f"{k}: {name}" for k, name in zip(lower, i.terms.values(), strict=True))
            fix = (Edit(i.variable.path, "aggregated_data", value),)
        elif given & _OLD:
            message += f"; {', '.join(sorted(given & _OLD))} were used only in drafts and in CFA"
            new = [_DRAFT.get(k, k) for k in i.terms]
            if set(new) in (_FULL, _UNIQUE) and len(new) == len(set(new)):
                value = " ".join(f"{k}: {name}" for k, name in zip(new, i.terms.values(), strict=True))
                fix = (Edit(i.variable.path, "aggregated_data", value, safe=False),)
        yield Hit(i.variable, "aggregated_data", message, fix=fix)
    for feature, name in i.terms.items():
        if feature not in i.targets and not left_to_search(c, i.variable, name):
            message = f"{feature} names the variable {name!r}, which is not in the dataset; add it, or name another"
            yield Hit(i.variable, "aggregated_data", message)


@rule("AGG005", each=naming(_described, "uris"))
def uris_are_strings(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The uris variable holds strings."""
    if v.kind == "char" and _holds_strings(i, v):
        message = (
            "it holds characters; section 2.8 asks for the type string, although section 2.2 allows arrays "
            "of characters for strings: every reader understands string"
        )
        yield Hit(v, None, message, "warning")
    elif v.kind != "string":
        yield Hit(v, None, f"it is of type {_type(v)}; the names of fragment datasets are of type string: change it")


def _holds_strings(i: Instructions, v: Variable) -> bool:
    """Return whether a uris variable holds strings, or characters with one more dimension for their number."""
    return v.kind == "string" or (v.kind == "char" and len(v.stored) == len(i.variable.dimensions) + 1)


def _type(v: Variable) -> str:
    return "char" if v.kind == "char" else str(v.dtype) if v.is_numeric else v.kind


def _dims(v: Variable) -> str:
    return f"({', '.join(d.name for d in text_dimensions(v))})"


def _rank(c: Context, feature: str) -> Iterator[Hit]:
    for i, v in naming(_described, feature)(c):
        wanted, found = len(i.variable.dimensions), len(text_dimensions(v))
        if not i.has_dimensions or (feature == "uris" and v.kind == "char" and not _holds_strings(i, v)):
            continue  # the rules on dimensions or types report it
        if found == wanted:
            continue
        message = (
            f"it has {count_text(found, 'dimension')} {_dims(v)}, but {i.variable.path!r} has "
            f"{count_text(wanted, 'aggregated dimension')}: the array of fragments has one dimension for each"
        )
        yield Hit(v, None, message, "warning" if _is_shared(c, i, v) else None)


def _is_shared(c: Context, i: Instructions, v: Variable) -> bool:
    """Return whether a variable fits another aggregation in rank and this one in sizes other than 1.

    Example L.2 of the document shares uris of four dimensions, three of them of size 1, with an aggregation of one.
    """
    sizes = [d.size for d in text_dimensions(v) if d.size != 1]
    if [n for n in i.counts or () if n != 1] != sizes:
        return False
    rank = len(text_dimensions(v))
    return any(len(r.source.dimensions) == rank for r in c.references_to(v, "aggregated_data"))


def _matrix(c: Context, feature: str) -> Iterator[Hit]:
    for i, v in naming(_described, feature)(c):
        found = tuple(d.size for d in text_dimensions(v))
        if i.counts is None or len(found) != len(i.counts) or found == i.counts:
            continue
        for d, (n, wanted) in enumerate(zip(found, i.counts, strict=True)):
            if n != wanted:
                message = (
                    f"dimension {text_dimensions(v)[d].name!r} has size {n}, but row {d} of map {i.terms['map']!r} has "
                    f"{count_text(wanted, 'fragment')} along {i.variable.dims[d]!r}: they must be equal"
                )
                yield Hit(v, None, message)


shared(_rank, AGG006="uris")


@rule("AGG012")
def unique_values_are_those_of_fragments(c: Context) -> Iterator[Hit]:
    """The unique_values variable has a dimension for each aggregated dimension, and text if the aggregation has."""
    yield from _rank(c, "unique_values")
    for i, v in naming(_described, "unique_values")(c):
        if v.is_text != i.variable.is_text and "other" not in (v.kind, i.variable.kind):
            message = (
                f"it is of type {_type(v)}, but {i.variable.path!r} of type {_type(i.variable)}: change one of them"
            )
            yield Hit(v, None, message)


shared(_matrix, AGG007="uris", AGG013="unique_values")


def _missing(c: Context, feature: str) -> Iterator[Hit]:
    for i, v in naming(_described, feature)(c):
        if feature == "uris" and not _holds_strings(i, v):
            continue  # the rule on types reports it
        found = values_of(c, v)
        if found is not None and not found.valid.all():
            at = np.argwhere(~found.valid)
            where = f", the first at {list(map(int, at[0]))}" if found.values.ndim else ""
            count = count_text(len(at), "missing value")
            yield Hit(v, None, f"it has {count}{where}: every fragment needs one")


shared(_missing, AGG008="uris", AGG011="identifiers")


@rule("AGG009", each=naming(_described, "uris"))
def uris_are_uris(c: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """Every name of a fragment dataset is an absolute URI or a relative path."""
    found = values_of(c, v) if _holds_strings(i, v) else None
    if found is None:
        return
    texts = found.values[found.valid]
    reported: dict[str, list[str]] = {}
    for text in texts.tolist():
        problem = problem_of(text)
        if problem is not None:
            reported.setdefault(problem, []).append(text)
    yield from wrong_values(v, reported)


def wrong_values(v: Variable, reported: Mapping[str, Sequence[str]]) -> Iterator[Hit]:
    """Yield hits for values with the same problem; characters that URIs do not allow are only warnings."""
    for problem, wrong in reported.items():
        named = ", ".join(repr(t[:80]) for t in wrong[:_NAMED]) + (", …" if len(wrong) > _NAMED else "")
        severity: Severity | None = "warning" if problem.startswith("holds") else None
        yield Hit(v, None, f"{count_text(len(wrong), 'value')} ({named}) {problem}", severity)


@rule("AGG010", each=naming(_described, "identifiers"))
def identifiers_are_like_uris(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The identifiers variable is a scalar or has the dimensions of uris in their order."""
    uris = i.targets.get("uris")
    if uris is None or not text_dimensions(v) or text_dimensions(v) == text_dimensions(uris):
        return
    own = _dims(uris)
    message = f"it has dimensions {_dims(v)}; expected none, or those of {i.terms['uris']!r}, {own}, in this order"
    yield Hit(v, None, message)


@rule("AGG014", each=naming(_described, "map"))
def map_is_of_integers(_: Context, __: Instructions, v: Variable) -> Iterator[Hit]:
    """The map variable holds integers."""
    if v.kind != "integer":
        yield Hit(v, None, f"it is of type {_type(v)}; sizes of fragments are of an integer type: change it")


@rule("AGG015", each=naming(_described, "map"))
def scalar_map_is_one(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """Without aggregated dimensions the map is a scalar and has the value 1."""
    if i.variable.dimensions or v.kind != "integer" or i.variable.text("aggregated_dimensions") is None:
        return
    if v.stored:
        message = f"it has dimensions {_dims(v)}; without aggregated dimensions the map is a scalar that holds 1"
        yield Hit(v, None, message)
    elif i.sizes is not None and not (i.sizes.valid.all() and (i.sizes.values == 1).all()):
        found = i.sizes.values.item() if i.sizes.valid.all() else "a missing value"
        yield Hit(v, None, f"it holds {found}; without aggregated dimensions the map is a scalar that holds 1")


@rule("AGG016", each=naming(_described, "map"))
def map_has_two_dimensions(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """With aggregated dimensions the map has two dimensions."""
    if i.variable.dimensions and len(v.stored) != 2:
        message = (
            f"it has {count_text(len(v.stored), 'dimension')}; expected two: a row for each aggregated dimension, "
            "a column for each fragment along it"
        )
        yield Hit(v, None, message)


@rule("AGG017", each=naming(_described, "map"))
def map_has_a_row_for_each(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The map has a row for each aggregated dimension."""
    wanted = len(i.variable.dimensions)
    if wanted and len(v.stored) == 2 and v.stored[0].size != wanted:
        found, dims = count_text(v.stored[0].size, "row"), count_text(wanted, "aggregated dimension")
        yield Hit(v, None, f"it has {found}, but {i.variable.path!r} has {dims}: there is one row for each")


@rule("AGG018", each=naming(_described, "map"))
def map_fills_the_dimensions(c: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The sizes in a row of the map sum to the size of its aggregated dimension."""
    if i.counts is None or i.sizes is None or not i.counts:
        return
    names = i.variable.words("aggregated_dimensions")
    rows = zip(i.sizes.values, i.sizes.valid, i.variable.dimensions, names, strict=False)
    for d, (row, valid, dimension, name) in enumerate(rows):
        if c.resolver.dimension(name, i.variable.group) is None:
            continue  # the rule on dimensions reports it
        sizes = row[valid].tolist()
        total = sum(sizes)
        if total != dimension.size:
            message = (
                f"row {d} sums to {total:,}, but dimension {dimension.name!r} has size {dimension.size:,}: the "
                "fragments must fill it"
            )
            yield Hit(v, None, message)
        elif sizes and min(sizes) < 1:
            message = (
                f"row {d} holds {min(sizes)}; every fragment has at least one element, and unused places of the "
                "map hold missing values"
            )
            # A fragment without elements could be read into the text, one with fewer could not.
            yield Hit(v, None, message, "warning" if min(sizes) == 0 else None)
        elif not valid[: len(sizes)].all():
            message = f"row {d} has missing values before its last size; they belong at the end of the row"
            yield Hit(v, None, message, "warning")


@rule("AGG019")
def containers_are_no_aggregations(c: Context) -> Iterator[Hit]:
    """Variables whose data have no meaning are not aggregations."""
    found = _described(c)
    if not found:
        return
    kinds = (
        ("a grid mapping variable", c.roles.grid_mappings),
        ("a geometry container", c.roles.geometries),
        ("an interpolation variable", c.roles.interpolations),
        ("a quantization variable", c.roles.named_by("quantization")),
        ("a mesh topology", {i.variable for i in found if i.variable.text("cf_role") == "mesh_topology"}),
        ("a domain variable", c.roles.domains),
    )
    for i in found:
        kind = next((name for name, members in kinds if i.variable in members), None)
        if kind is not None:
            message = f"it is {kind}, whose data have no meaning; store it as an ordinary variable"
            yield Hit(i.variable, "aggregated_data", message)
