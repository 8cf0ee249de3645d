"""Compression by gathering: CF section 8.2."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cfagg.cf.attribute_types import faulty_text
from cfagg.checking.context import Context
from cfagg.checking.missing import unwritten
from cfagg.checking.rules.groups import left_to_search
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable


def _gathered(c: Context, v: Variable) -> list[Dimension | None]:
    """Return the dimensions that a list variable names, `None` for each that is not there."""
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
    """A compress attribute is text that names dimensions which are there."""
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
        if not block.size:
            continue
        least, greatest = int(block.min()), int(block.max())
        if least < 0 or greatest >= points:
            yield Hit(
                v,
                None,
                f"it holds {least if least < 0 else greatest}; expected 0 to {points - 1}, "
                f"for {v.text('compress')!r} has {points} points",
            )
            break


@rule("GAT004", each="compress")
def list_has_no_bounds(_: Context, v: Variable) -> Iterator[Hit]:
    """A list variable has no bounds variable."""
    if "bounds" in v.attributes:
        yield Hit(v, "bounds", "a list variable has indices, which have no extent; delete bounds")
