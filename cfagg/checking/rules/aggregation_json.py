"""Aggregations described in JSON: NCA 0.1 to 0.2.2 (``nca_array``), CFA 0.3 and 0.4 (``cfa_array``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.instructions import aggregations, has_free_dimensions
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule, shared
from cfagg.formats.metadata.foreign import Foreign
from cfagg.model.dataset import Variable

if TYPE_CHECKING:
    from cfagg.checking.described import Description

#: Kinds of problems by the key path at which they occur; the first match is used.
_KINDS = (
    ("dimensions", re.compile(r"(nca|cfa)_dimensions")),
    ("shape", re.compile(r"Partitions\[\d+\]\.((data|subarray)\.shape|part)\b")),
    ("matrix", re.compile(r"location along|Partitions\Z|Partitions\[\d+\]\.(index|location)")),
)

#: Number of problems of one variable that are listed individually.
_TOLD = 20


def _marked(c: Context, dialect: str) -> list[Variable]:
    """Return the variables described in JSON, or meant to be."""
    return [
        v
        for v in aggregations(c)
        if v.dialect == dialect
        and "aggregated_dimensions" not in v.attributes
        and "aggregated_data" not in v.attributes
    ]


def _descriptions(c: Context, dialect: str) -> Iterator[Description]:
    marked = _marked(c, dialect)
    if marked:
        from cfagg.checking.described import described

        known = described(c)
        yield from (known[v] for v in marked)


def _dimensions(c: Context, dialect: str) -> Iterator[Hit]:
    attribute = f"{dialect.lower()}_dimensions"
    for v in _marked(c, dialect):
        if attribute not in v.attributes:
            continue  # a scalar
        if v.text(attribute) is None:
            yield Hit(v, attribute, f"{attribute} is not text; expected names of dimensions, separated by blanks")
            continue
        for name, count in Counter(v.words(attribute)).items():
            if c.resolver.dimension(name, v.group) is None:
                message = f"there is no dimension {name!r}; define it, or correct the name"
                yield Hit(v, attribute, message, None if has_free_dimensions(c) else "warning")
            elif count > 1:
                yield Hit(v, attribute, f"dimension {name!r} is named twice; each is named once")


def _scalar(c: Context, dialect: str) -> Iterator[Hit]:
    attribute = f"{dialect.lower()}_dimensions"
    for v in _marked(c, dialect):
        if v.stored:
            names = ", ".join(d.name for d in v.stored)
            message = f"it is stored with dimensions ({names}); store it as a scalar: {attribute} names the dimensions"
            yield Hit(v, None, message)


def _json(c: Context, dialect: str) -> Iterator[Hit]:
    attribute = f"{dialect.lower()}_array"
    for d in _descriptions(c, dialect):
        v = d.variable
        if attribute not in v.attributes:
            if "cfa_group" not in v.attributes:
                yield Hit(v, attribute, f"there is no {attribute}, which describes the partitions: add it")
            continue
        if v.text(attribute) is None:
            value = v.attributes[attribute]
            if isinstance(value, Foreign):
                yield Hit(v, attribute, f"it was not read: it is {value}", "info")
            else:
                yield Hit(v, attribute, f"{attribute} is not text; expected JSON")
            continue
        if d.limit:
            yield Hit(v, attribute, f"it was not read: {d.limit}", "info")
        if d.broken:
            yield from (Hit(v, attribute, f"{problem.message}; write strict JSON") for problem in d.problems)
        for misprint in d.misprints:
            yield Hit(v, attribute, f"{misprint}; write strict JSON", "warning")


def _kind(where: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.match(where)), "keys")


def _problems(c: Context, dialect: str, kind: str) -> Iterator[Hit]:
    for d in _descriptions(c, dialect):
        attribute = f"{dialect.lower()}_{'group' if 'cfa_group' in d.variable.attributes else 'array'}"
        found = [p for p in d.problems if not d.broken and _kind(p.where) == kind]
        for problem in found[:_TOLD]:
            yield Hit(d.variable, attribute, str(problem))
        if len(found) > _TOLD:
            yield Hit(d.variable, attribute, f"{len(found) - _TOLD:,} more problems of this kind are not listed")
        if kind == "keys":
            yield from (Hit(d.variable, attribute, repair, "warning") for repair in d.repairs)


def _own(c: Context, dialect: str) -> Iterator[Hit]:
    """Yield the problems of sub-arrays in the dataset itself."""
    attribute = f"{dialect.lower()}_array"
    for d in _descriptions(c, dialect):
        if d.aggregation is None:
            continue
        # The reader of JSON is loaded only if it is needed.
        from cfagg.checking.described import is_private

        partitions = d.aggregation.partitions
        own = np.unique(partitions.address[(partitions.file < 0) & (partitions.address >= 0)])
        for name in (str(partitions.addresses[int(code)]) for code in own):
            target, _ = c.resolver.variable(name, d.variable.group)
            if target is None:
                message = f"a partition without a file is the variable {name!r} of this dataset, which does not exist"
                yield Hit(d.variable, attribute, f"{message}; name its file, or add the variable")
            elif not is_private(target):
                mark = "nca_private = 1" if dialect == "NCA" else 'cf_role = "cfa_private"'
                yield Hit(target, None, f"it holds a sub-array of {d.variable.path!r}; mark it by {mark}", "warning")


def _conventions(c: Context, dialect: str) -> Iterator[Hit]:
    if not _marked(c, dialect):
        return
    words = (c.dataset.root.text("Conventions") or "").replace(",", " ").split()
    if not any(w == dialect or w.startswith(f"{dialect}-") for w in words):
        found = " ".join(words) or "not there"
        message = f"Conventions is {found}, but there are {dialect} variables; add the word {dialect} to it"
        yield Hit(c.dataset.root, "Conventions", message)


shared(_dimensions, NCA001="NCA", CFA001="CFA")


shared(_scalar, NCA002="NCA", CFA002="CFA")


shared(_json, NCA003="NCA", CFA003="CFA")


shared(
    _problems,
    NCA004=("NCA", "keys"),
    NCA005=("NCA", "matrix"),
    NCA006=("NCA", "shape"),
    CFA004=("CFA", "keys"),
    CFA005=("CFA", "matrix"),
    CFA006=("CFA", "shape"),
)


@rule("NCA007")
def nca_own_subarrays_exist(c: Context) -> Iterator[Hit]:
    """Sub-arrays in the dataset itself exist and are marked as private."""
    for v in c.with_attribute("nca_private"):
        value = v.numbers("nca_private")
        if value is None or value.size != 1 or value.dtype.kind not in "iu":
            yield Hit(v, "nca_private", "nca_private must be an integer: 0 for no, any other for yes")
    yield from _own(c, "NCA")


shared(_conventions, NCA008="NCA", CFA008="CFA")


@rule("CFA007")
def cfa_own_subarrays_exist(c: Context) -> Iterator[Hit]:
    """Sub-arrays in the dataset itself exist and are marked as private."""
    return _own(c, "CFA")
