"""Compression by gathering and the attributes of coordinate subsampling: CF sections 8.2 and 8.3."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.lists import interpolations, pairs
from cfagg.checking.context import Context
from cfagg.checking.missing import unsigned, unwritten
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.subsampling import METHODS, interpolation_variables, mapping, unsound
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable

#: The term with flags for a method, and the flag that affects how it works.
_FLAGS, _MEANING = ("interpolation_subarea_flags",), "location_use_3d_cartesian"


@rule("SUB001", each="coordinate_interpolation")
def coordinate_interpolation_names_variables(c: Context, v: Variable) -> Iterator[Hit | str]:
    """A coordinate_interpolation lists existing tie point variables and interpolation variables."""
    text = v.text("coordinate_interpolation")
    if faulty_text(v.attributes["coordinate_interpolation"], c.version):
        return
    if text is None or interpolations(text) is None:
        yield (f"{'it' if text is None else repr(text)} is not of the form 'tie_points: ... interpolation_variable'")
        return
    for r in c.references_of(v, "coordinate_interpolation"):
        what = "an interpolation variable" if r.key == "interpolation" else "tie points"
        if r.target is None:
            yield (f"there is no variable {r.name!r}; expected {what}")
        elif r.key == "tie_point" and not r.target.is_numeric:
            yield Hit(r.target, None, f"tie points are of type {r.target.dtype}; expected numbers")
        elif r.key == "tie_point" and not {"_FillValue", "missing_value"}.isdisjoint(r.target.attributes):
            name = next(a for a in ("_FillValue", "missing_value") if a in r.target.attributes)
            message = f"tie points cannot have missing values, but {name} is given; delete it"
            yield Hit(r.target, name, message, "warning", (Edit(r.target.path, name, safe=False),))


@rule("SUB002", each=interpolation_variables)
def interpolation_method_is_named_or_described(_: Context, v: Variable) -> Iterator[Hit]:
    """An interpolation variable has a name of appendix J or a description, and not both."""
    name, description = (v.attributes.get(a) for a in ("interpolation_name", "interpolation_description"))
    if name is None and description is None:
        yield Hit(v, "interpolation_name", "neither interpolation_name nor interpolation_description is given")
    elif name is not None and description is not None:
        message = "interpolation_name and interpolation_description are both given; delete one"
        yield Hit(v, "interpolation_description", message)
    elif description is not None and not isinstance(description, str):
        yield Hit(v, "interpolation_description", "interpolation_description is not text")
    elif name is not None and (not isinstance(name, str) or name not in METHODS):
        shown = repr(name) if isinstance(name, str) else "it"
        message = (
            f"{shown} is not a method of appendix J ({', '.join(METHODS)}); "
            "describe another one in interpolation_description"
        )
        yield Hit(v, "interpolation_name", message)


@rule("SUB003", each=interpolation_variables)
def computational_precision_is_32_or_64(_: Context, v: Variable) -> Iterator[Hit]:
    """An interpolation variable has the computational_precision "32" or "64"."""
    value = v.attributes.get("computational_precision")
    if value is None:
        message = 'computational_precision is missing; expected "32" or "64"'
    elif not isinstance(value, str):
        message = 'computational_precision is not text; expected "32" or "64" in quotes'
    elif value not in ("32", "64"):
        message = f'computational_precision is {value!r}; expected "32" or "64"'
    else:
        return
    yield Hit(v, "computational_precision", message)


@rule("SUB004", each=interpolation_variables)
def tie_point_mapping_is_sound(c: Context, v: Variable) -> Iterator[Hit]:
    """A tie_point_mapping maps dimensions of the data variable to dimensions that it lacks, each once."""
    parts = mapping(c, v)
    if parts is None:
        text = v.text("tie_point_mapping")
        found = "is missing" if "tie_point_mapping" not in v.attributes else f"is {text!r}" if text else "is not text"
        message = (
            f"tie_point_mapping {found}; expected 'interpolated_dimension: tie_point_index_variable "
            "subsampled_dimension [interpolation_subarea_dimension]'"
        )
        yield Hit(v, "tie_point_mapping", message)
        return
    for message in unsound(c, v, parts):
        yield Hit(v, "tie_point_mapping", message)
    method = METHODS.get(v.text("interpolation_name") or "")
    if method is not None and method.dimensions != len(parts):
        message = f"{v.text('interpolation_name')} interpolates {method.dimensions} dimensions, {len(parts)} are mapped"
        yield Hit(v, "tie_point_mapping", message, "warning")


@rule("SUB011", each=interpolation_variables)
def parameters_are_of_the_method(c: Context, v: Variable) -> Iterator[Hit]:
    """An interpolation_parameters has terms of the method, each with an existing variable."""
    method = METHODS.get(v.text("interpolation_name") or "")
    given: set[str] = set()
    if "interpolation_parameters" in v.attributes:
        parsed = pairs(v.text("interpolation_parameters") or "")
        if not parsed or any(len(names) != 1 for _, names in parsed):
            yield Hit(v, "interpolation_parameters", "it is not of the form 'term: variable term: variable'")
            return
        for term, (name,) in parsed:
            key = term.lower()
            if method is not None and key not in method.terms:
                known = ", ".join(sorted(method.terms)) or "none"
                message = f"{v.text('interpolation_name')} has no term {term!r}; its terms are {known}"
                yield Hit(v, "interpolation_parameters", message)
            elif key in given:
                yield Hit(v, "interpolation_parameters", f"the term {term!r} occurs twice")
            given.add(key)
            target, _ = c.resolver.variable(name, v.group)
            if target is None:
                yield Hit(v, "interpolation_parameters", f"there is no variable {name!r} for the term {term!r}")
            elif method is not None and key in _FLAGS and _MEANING not in target.words("flag_meanings"):
                message = f"the flags have no meaning {_MEANING}, which the method looks for"
                yield Hit(target, "flag_meanings", message)
    if method is not None and method.needs - given:
        missing = ", ".join(sorted(method.needs - given))
        message = f"{v.text('interpolation_name')} needs the term {missing}, which is missing"
        yield Hit(v, "interpolation_parameters", message)


@rule("SUB017", each=interpolation_variables)
def interpolation_variables_are_scalar(_: Context, v: Variable) -> Iterator[Hit]:
    """Interpolation variables have no dimensions."""
    if v.stored:
        yield Hit(v, None, f"the interpolation variable has dimensions ({', '.join(v.dims)}); expected none")


def _gathered(c: Context, v: Variable) -> list[Dimension | None]:
    """Return the dimensions that a list variable names, with `None` for each that does not exist."""
    return [c.resolver.dimension(name, v.group) for name in v.words("compress")]


@rule("GAT001", each="compress")
def compress_stands_on_a_list(_: Context, v: Variable) -> Iterator[str]:
    """Only a coordinate variable of integers has a compress attribute."""
    if not v.is_coordinate:
        yield (
            f"{v.name!r} is not a coordinate variable; expected one dimension of the same name, "
            f"found ({', '.join(v.dims)})"
        )
    elif v.kind != "integer":
        yield (f"the list variable is of type {v.dtype}; expected an integer type")


@rule("GAT002", each="compress")
def compress_names_dimensions(c: Context, v: Variable) -> Iterator[str]:
    """A compress attribute is text that names existing dimensions."""
    text = v.text("compress")
    if faulty_text(v.attributes["compress"], c.version):
        return
    if text is None or not text.split():
        found = "is not text" if text is None else "is empty"
        yield (f"compress {found}; expected names of dimensions separated by blanks")
        return
    for name, dimension in zip(v.words("compress"), _gathered(c, v), strict=True):
        if dimension is None and not left_to_search(c, v, name):
            yield (f"there is no dimension {name!r}; declare it or correct the name")


@rule("GAT003", each="compress", needs="data")
def list_is_within_the_gathered_dimensions(c: Context, v: Variable) -> Iterator[Hit]:
    """The values of a list variable are indices into the gathered dimensions, counted from 0."""
    dimensions = _gathered(c, v)
    if v.kind != "integer" or not dimensions or v.dialect is not None:
        return
    sizes = [d.size for d in dimensions if d is not None]
    if len(sizes) < len(dimensions):
        return
    points = prod(sizes)
    for block in v.blocks() if not unwritten(v) else ():
        values = unsigned(v, block)
        least, greatest = int(values.min()), int(values.max())
        if least < 0 or greatest >= points:
            message = (
                f"it holds {least if least < 0 else greatest}; expected 0 to {points - 1}, "
                f"for {v.text('compress')!r} has {points} points"
            )
            yield Hit(v, None, message)
            break


@rule("GAT004", each="compress")
def list_has_no_bounds(_: Context, v: Variable) -> Iterator[Hit]:
    """A list variable has no bounds variable."""
    if "bounds" in v.attributes:
        yield Hit(v, "bounds", "a list variable has indices, which have no extent; delete bounds")
