"""What every aggregation variable of a dataset describes: its grid and its fragments, or why there are none."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.instructions import (
    Instructions,
    MaskedValues,
    aggregations,
    instructions,
    substituted,
    substitutions,
    values_of,
)
from cfagg.conventions import detection
from cfagg.conventions.partition_stream import BrokenJSONError
from cfagg.conventions.scope import Scope
from cfagg.conventions.tolerant_json import MisprintWarning
from cfagg.errors import CfaggError, ConventionError, LimitError, ModelError, Problem
from cfagg.model import Aggregation, Grid, Layout, Partitions, Strings
from cfagg.model.dataset import Variable

__all__ = ["Description", "described", "is_private"]


@dataclass(eq=False)
class Description:
    """What one aggregation variable describes: `aggregation` is `None` where its grid and fragments are not understood.

    `problems` are those of JSON; other rules tell those of other dialects. `misprints` tell how the JSON had to be
    repaired, `repairs` what else had to be repaired or left out, `limit` why it was not read if it is too large.
    `broken` JSON is not one strict object, not even after a repair.
    """

    variable: Variable
    aggregation: Aggregation | None
    problems: tuple[Problem, ...] = ()
    misprints: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    limit: str = ""
    broken: bool = False


def described(c: Context) -> dict[Variable, Description]:
    """Return what each aggregation variable describes, in the order of the variables."""
    known = c.once(instructions)
    found = {}
    for v in c.once(aggregations):
        found[v] = _of_instructions(known[v], c) if v in known else _of_json(v)
    return found


def is_private(variable: Variable) -> bool:
    """Return whether a variable only holds sub-arrays of aggregations in the same file."""
    if variable.text("cf_role") in ("nca_private", "cfa_private"):
        return True
    value = variable.numbers("nca_private")
    return value is not None and value.size == 1 and value.dtype.kind in "iu" and bool(value[0])


def _of_json(variable: Variable) -> Description:
    attribute = "cfa_array" if "cfa_array" in variable.attributes else "nca_array"
    text = variable.text(attribute)
    if text is None:
        return Description(variable, None)  # the rules of the attributes tell it
    sizes: dict[str, int] = {}
    private: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    for group in reversed(list(variable.group.ancestors())):
        sizes |= {d.name: d.size for d in group.dimensions.values()}
        private |= {v.name: (v.dims, v.shape) for v in group.variables.values() if is_private(v)}
    root = list(variable.group.ancestors())[-1]
    scope = Scope(sizes, private, conventions=root.text("Conventions") or "")
    attributes: dict[str, Any] = {
        k: v for k, v in variable.attributes.items() if not k.startswith(("nca_", "cfa_")) and _is_plain(v)
    }
    attributes[attribute] = text
    prefix = attribute.partition("_")[0]
    attributes[f"{prefix}_dimensions"] = variable.text(f"{prefix}_dimensions") or ""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            made = detection.parse(variable.name, attributes, variable.dtype, scope)
        except LimitError as error:
            return Description(variable, None, limit=error.message)
        except ConventionError as error:
            problems = error.problems or (Problem("", error.message),)
            bare = tuple(Problem(p.where, _bare(p.message)) for p in problems)
            return Description(variable, None, bare, broken=isinstance(error, BrokenJSONError))
    misprints, others = (
        tuple(_bare(str(w.message)) for w in said if issubclass(w.category, MisprintWarning) is wanted)
        for wanted in (True, False)
    )
    return Description(variable, made, (), misprints, others)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | np.ndarray | tuple)


def _bare(message: str) -> str:
    """Return a message without the variable that it begins with."""
    return re.sub(r"\Avariable '[^']{0,200}': ", "", message)


def _of_instructions(i: Instructions, c: Context) -> Description:
    v = i.variable
    try:
        partitions = _partitions(i, c)
        if partitions is None or i.edges is None:
            return Description(v, None)
        grid = Grid(i.edges)
        calendar = v.text("calendar")
        made = Aggregation(v.name, v.dims, grid.shape, v.dtype, grid, partitions, v.text("units"), calendar)
    except LimitError as error:
        return Description(v, None, limit=error.message)
    except (ModelError, CfaggError):
        return Description(v, None)
    return Description(v, made)


def _partitions(i: Instructions, c: Context) -> Partitions | None:
    """Return the fragments of a variable that is described by instruction variables."""
    if i.counts is None:
        return None
    count = prod(i.counts)
    dims = i.variable.dims
    unique = i.targets.get("unique_values")
    if unique is not None and "uris" not in i.targets:
        return Partitions.build(count, address=0, addresses=[unique.name], layouts=[Layout(dims)])
    names = ("uris", "identifiers") if i.dialect == "CF" else ("file", "address")
    file, address = (i.targets.get(n) for n in names)
    if file is None or address is None or not file.is_text:
        return None
    files, addresses = values_of(c, file), values_of(c, address)
    if files is None or addresses is None:
        return None
    if i.dialect == "CFA":
        files, addresses = _versions(files, len(dims)), _versions(addresses, len(dims))
    if files.values.size != count or addresses.values.size not in (1, count):
        return None
    changes = substitutions(file) if i.dialect == "CFA" else {}
    texts = [substituted(t, changes) for t in files.values.ravel().tolist()]
    file_codes, table = Strings.encode(texts)
    has_file = files.valid.ravel()
    has_address = np.broadcast_to(addresses.valid.ravel(), count)
    address_codes, address_table = Strings.encode(map(str, addresses.values.ravel().tolist()))
    layouts, layout_codes = _formats(i, count, dims, c)
    return Partitions.build(
        count,
        file=np.where(has_file, file_codes, -1),
        address=np.where(has_address, np.broadcast_to(address_codes, count), -1),
        layout=layout_codes,
        present=has_file | (has_address if addresses.values.size == count and addresses.values.ndim else False),
        files=table,
        addresses=address_table,
        layouts=layouts,
    )


def _formats(i: Instructions, count: int, dims: tuple[str, ...], c: Context) -> tuple[list[Layout], Any]:
    """Return the layouts that differ by format, and the code of each fragment."""
    format_ = i.targets.get("format") if i.dialect == "CFA" else None
    found = values_of(c, format_) if format_ is not None and format_.is_text else None
    if found is None:
        return [Layout(dims)], 0
    found = _versions(found, len(dims))
    if found.values.size not in (1, count):
        return [Layout(dims)], 0
    codes, table = Strings.encode(found.values.ravel().tolist())
    return [Layout(dims, format=f or None) for f in table], np.broadcast_to(codes, count)


def _versions(found: MaskedValues, ndim: int) -> MaskedValues:
    """Return the first of several versions of each fragment (CFA-0.6, a trailing dimension)."""
    if found.values.ndim <= ndim or found.values.ndim == 0 or not found.values.shape[-1]:
        return found
    return MaskedValues(found.values[..., 0], found.valid[..., 0])
