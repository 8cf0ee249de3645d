"""The description of fragments by an aggregation variable: the variables in ``aggregated_data`` and their values.

Both CF-1.13 (``map``, ``uris``, ``identifiers``, ``unique_values``) and CFA-0.6 (``location``, ``file``, ``format``,
``address``) describe fragments by such variables.  They are small and count as metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.lists import pairs
from cfagg.checking.context import Context, once
from cfagg.checking.missing import missing_mask
from cfagg.model.dataset import Dimension, Variable

__all__ = [
    "Instructions", "MaskedValues", "aggregations", "has_free_dimensions", "instructions", "masked", "naming",
    "text_dimensions",
]  # fmt: skip

#: The most values of one instruction variable that are read.
LIMIT = 1 << 22

#: What a substitution replaces.
_BASE = re.compile(r"\$\{\w+\}", re.ASCII)


class MaskedValues(NamedTuple):
    """The values of an instruction variable, with strings as `object`, and a mask of those that are not missing."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]


def text_dimensions(variable: Variable) -> tuple[Dimension, ...]:
    """Return the dimensions of a variable except the one for characters."""
    return variable.stored[:-1] if variable.kind == "char" else variable.stored


def masked(variable: Variable) -> MaskedValues | None:
    """Return the values of a variable and which of them are missing, or `None` if there are none to examine.

    Missing numbers are those that `cfagg.cf.missing` determines; strings are missing if empty or declared missing.
    More than `LIMIT` raise `LimitError`.
    """
    if variable.read is None or variable.dialect is not None or variable.kind == "other":
        return None
    if variable.is_text:
        shape = [d.size for d in text_dimensions(variable)]
        texts = variable.texts(LIMIT)
        if texts.size != prod(shape):
            return None
        texts = texts.reshape(shape)
        fills = {""}
        for name in ("_FillValue", "missing_value"):
            value = variable.attributes.get(name)
            fills |= {value} if isinstance(value, str) else set(value) if isinstance(value, tuple) else set()
        flat = np.fromiter((t not in fills for t in texts.ravel()), np.bool_, texts.size)
        return MaskedValues(texts, flat.reshape(texts.shape))
    values = np.asarray(variable.values(LIMIT))
    if values.shape != tuple(d.size for d in variable.stored):
        return None
    return MaskedValues(values, ~missing_mask(variable, values))


@dataclass(eq=False)
class Instructions:
    """The instructions of one aggregation variable: names of variables by terms of ``aggregated_data``.

    `targets` are the variables that exist; `problem` describes an error in the grammar of the attribute.
    """

    variable: Variable
    dialect: Literal["CF", "CFA"]
    terms: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Variable] = field(default_factory=dict)
    problem: str | None = None

    @property
    def has_dimensions(self) -> bool:
        """Whether ``aggregated_dimensions`` is text, which may be empty."""
        return self.variable.text("aggregated_dimensions") is not None

    @property
    def layout(self) -> Variable | None:
        """The variable with the sizes of the fragments."""
        return self.targets.get("map" if self.dialect == "CF" else "location")

    @cached_property
    def sizes(self) -> MaskedValues | None:
        """Sizes of fragments as stored, or `None` if they are unknown."""
        return None if self.layout is None or self.layout.kind != "integer" else masked(self.layout)

    @cached_property
    def counts(self) -> tuple[int, ...] | None:
        """Number of fragments along each aggregated dimension, or `None` if the sizes do not determine it."""
        dims, layout = self.variable.dimensions, self.layout
        if not dims:
            return ()
        if layout is None or self.sizes is None or len(layout.stored) != 2 or layout.stored[0].size != len(dims):
            return None
        return tuple(int(n) for n in self.sizes.valid.sum(axis=1))


def naming(
    described: Callable[[Context], list[Instructions]], term: str
) -> Callable[[Context], list[tuple[Instructions, Variable]]]:
    """Return a function that lists the instructions in which `term` names an existing variable, with that variable."""
    return lambda c: [(i, i.targets[term]) for i in described(c) if term in i.targets]


@once
def values_of(_: Context, variable: Variable) -> MaskedValues | None:
    """Return the result of `masked`, read once for all rules."""
    return masked(variable)


def has_free_dimensions(c: Context) -> bool:
    """Return whether a dataset can have dimensions that no variable has; Zarr and xarray cannot."""
    return c.dataset.format not in ("zarr", "xarray")


@once
def aggregations(c: Context) -> list[Variable]:
    """Return the aggregation variables of a dataset, however they are described."""
    return [v for v in c.dataset.variables if v.dialect is not None]


@once
def instructions(c: Context) -> dict[Variable, Instructions]:
    """Return the instructions of every variable that has ``aggregated_dimensions`` or ``aggregated_data``."""
    found = {}
    for v in aggregations(c):
        if v.dialect not in ("CF", "CFA") or not (
            "aggregated_dimensions" in v.attributes or "aggregated_data" in v.attributes
        ):
            continue
        found[v] = _instructions(v, "CF" if v.dialect == "CF" else "CFA", c)
    return found


def _instructions(variable: Variable, dialect: Literal["CF", "CFA"], c: Context) -> Instructions:
    made = Instructions(variable, dialect)
    if "aggregated_data" not in variable.attributes:
        made.problem = "there is no aggregated_data; an aggregation variable needs it to name its fragments: add it"
        return made
    text = variable.text("aggregated_data")
    parts = None if text is None else pairs(text.replace("\0", " "))
    if text is None:
        made.problem = "aggregated_data is not text; expected 'feature: variable' pairs"
    elif not parts or any(len(names) != 1 for _, names in parts):
        made.problem = f"aggregated_data is {text[:80]!r}; expected 'feature: variable' pairs separated by blanks"
    if made.problem is not None or parts is None:
        return made
    for key, names in parts:
        term = key.lower() if dialect == "CFA" else key
        if term in made.terms:
            made.problem = f"feature {key!r} occurs twice in aggregated_data; each is given once"
        made.terms[term] = names[0]
        target, _ = c.resolver.variable(names[0], variable.group)
        if target is not None:
            made.targets[term] = target
    if dialect == "CFA" and made.terms.keys() >= {"shape", "location"} and "file" not in made.terms:
        made.problem = (
            "shape, location and address are terms of a draft; in CF-1.13 they are called map, uris and identifiers"
        )
        made.targets.clear()
    return made


def substitutions(variable: Variable) -> Mapping[str, str]:
    """Return the substitutions in file names of CFA-0.6 that are understood.

    Source: CFA-0.6.2, "file": blank-separated ``${base}: text``.
    """
    words = variable.words("substitutions")
    return {k[:-1]: t for k, t in zip(words[::2], words[1::2], strict=False) if k.startswith("${") and k.endswith("}:")}


def substituted(text: str, changes: Mapping[str, str]) -> str:
    """Return a file name with all substitutions applied once, so that their order does not matter.

    >>> substituted("${data}/a.nc", {"${data}": "/archive"})
    '/archive/a.nc'
    """
    return _BASE.sub(lambda found: changes.get(found[0], found[0]), text)
