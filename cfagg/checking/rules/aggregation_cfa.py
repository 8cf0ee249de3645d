"""Aggregations of CFA-0.6: ``aggregated_data`` with location, file, format and address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import numpy as np

from cfagg.cf.uris import problem_of, scheme_of
from cfagg.checking.context import Context, once
from cfagg.checking.instructions import (
    Instructions,
    has_free_dimensions,
    instructions,
    naming,
    substituted,
    substitutions,
    text_dimensions,
    values_of,
)
from cfagg.checking.rules.aggregation import wrong_values
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule, shared
from cfagg.model.dataset import Variable

#: Terms that every aggregation has.
_TERMS = ("location", "file", "format", "address")

_BASE = re.compile(r"\$\{[A-Za-z0-9_]+\}:")
_USED = re.compile(r"\$\{[^{}$]{0,200}\}?")


@once
def _described(c: Context) -> list[Instructions]:
    return [i for i in instructions(c).values() if i.dialect == "CFA"]


@rule("CFA011", each=_described)
def dimensions_exist(c: Context, i: Instructions) -> Iterator[Hit]:
    """``aggregated_dimensions`` is text that names dimensions of the dataset."""
    v = i.variable
    if v.text("aggregated_dimensions") is None:
        message = (
            "aggregated_dimensions is missing or is not text; write the names of the dimensions, separated by blanks"
        )
        yield Hit(v, "aggregated_dimensions", message)
    for name in v.words("aggregated_dimensions"):
        if c.resolver.dimension(name, v.group) is None:
            message = f"there is no dimension {name!r}; define it, or correct the name"
            yield Hit(v, "aggregated_dimensions", message, None if has_free_dimensions(c) else "warning")


@rule("CFA012", each=_described)
def variable_is_scalar(_: Context, i: Instructions) -> Iterator[Hit]:
    """An aggregation variable is stored without dimensions."""
    if i.variable.stored:
        names = ", ".join(d.name for d in i.variable.stored)
        yield Hit(i.variable, None, f"it is stored with dimensions ({names}); store it as a scalar")


@rule("CFA013", each=_described)
def terms_are_complete(_: Context, i: Instructions) -> Iterator[Hit]:
    """``aggregated_data`` names variables of the dataset for location, file, format and address."""
    if i.problem is not None:
        yield Hit(i.variable, "aggregated_data", i.problem)
        return
    for term in _TERMS:
        if term not in i.terms:
            message = (
                f"there is no {term!r} among the terms {', '.join(i.terms)}; all of {', '.join(_TERMS)} are needed"
            )
            yield Hit(i.variable, "aggregated_data", message)
    for term, name in i.terms.items():
        if term not in i.targets:
            message = f"{term} names the variable {name!r}, which is not in the dataset; add it, or name another"
            yield Hit(i.variable, "aggregated_data", message)


@rule("CFA014", each=naming(_described, "location"))
def location_has_its_shape(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The location variable holds integers, with a row for each aggregated dimension."""
    rows = len(i.variable.dimensions)
    if v.kind != "integer":
        yield Hit(v, None, "it is not of an integer type; sizes of fragments are integers: change its type")
    elif not i.has_dimensions:
        return  # the rule on dimensions reports it
    elif not rows:
        values = None if i.sizes is None else i.sizes.values
        if prod(d.size for d in v.stored) != 1 or (values is not None and values.size == 1 and values.ravel()[0] != 1):
            yield Hit(v, None, "without aggregated dimensions it has one element, with the value 1")
    elif len(v.stored) != 2 or v.stored[0].size != rows:
        found = " x ".join(str(d.size) for d in v.stored) or "a scalar"
        message = f"it is {found}; expected two dimensions: {rows} rows, one for each aggregated dimension, and columns"
        yield Hit(v, None, message)


@rule("CFA015", each=naming(_described, "location"))
def location_fills_the_dimensions(c: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The sizes in a row of the location variable sum to the size of its aggregated dimension."""
    if not i.counts or i.sizes is None:
        return
    names = i.variable.words("aggregated_dimensions")
    for d, (row, valid) in enumerate(zip(i.sizes.values, i.sizes.valid, strict=True)):
        dimension = i.variable.dimensions[d]
        total = sum(row[valid].tolist())
        if total != dimension.size and c.resolver.dimension(names[d], i.variable.group) is not None:
            message = f"row {d} sums to {total:,}, but dimension {dimension.name!r} has size {dimension.size:,}"
            yield Hit(v, None, f"{message}: the fragments must fill it")


@rule("CFA016", each=naming(_described, "file"))
def file_spans_the_fragments(_: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """The file variable holds text, with a dimension for each aggregated dimension and optionally one for versions."""
    if not v.is_text:
        yield Hit(v, None, "it does not hold text; expected names of files: change its type to string")
        return
    found = tuple(d.size for d in text_dimensions(v))
    if i.counts is None or not i.has_dimensions:
        return
    if found[: len(i.counts)] != i.counts or len(found) > len(i.counts) + 1:
        wanted = " x ".join(map(str, i.counts)) or "a scalar"
        message = f"its shape is {' x '.join(map(str, found)) or 'a scalar'}, but the fragments are {wanted}"
        yield Hit(v, None, f"{message}, perhaps with one more dimension for versions of a fragment")


def _like_file(c: Context, term: str) -> Iterator[Hit]:
    for i, v in naming(_described, term)(c):
        file = i.targets.get("file")
        if file is None or not text_dimensions(v) or text_dimensions(v) == text_dimensions(file):
            continue
        names = [", ".join(d.name for d in text_dimensions(x)) for x in (v, file)]
        message = f"it has dimensions ({names[0]}); expected none, or those of the file variable, ({names[1]})"
        yield Hit(v, None, message)


shared(_like_file, CFA017="address", CFA018="format")


@rule("CFA019", each=naming(_described, "file"))
def files_are_uris_or_paths(c: Context, _: Instructions, v: Variable) -> Iterator[Hit]:
    """After substitution, file names are URIs or relative paths."""
    if "substitutions" in v.attributes:
        words = v.words("substitutions")
        if not words or len(words) % 2 or not all(_BASE.fullmatch(w) for w in words[::2]):
            message = "substitutions does not have the form '${base}: text ${other}: text'"
            yield Hit(v, "substitutions", message)
            return
    found = values_of(c, v) if v.is_text else None
    if found is None:
        return
    changes = substitutions(v)
    told: dict[str, list[str]] = {}
    for text in found.values[found.valid].tolist():
        whole = substituted(text, changes)
        unknown = _USED.search(whole)
        problem = problem_of(whole) if unknown is None else f"has no substitution for {unknown[0]!r}: add it"
        if unknown is not None and unknown[0] in changes:
            problem = f"becomes {whole[:80]!r}, as what replaces a base is not replaced again: write {unknown[0]!r} out"
        # A relative path is a path, not a URI, so blanks and other characters are allowed.
        if problem is not None and (not problem.startswith("holds") or scheme_of(whole) is not None):
            told.setdefault(problem, []).append(text)
    yield from wrong_values(v, told)


@rule("CFA020", each=naming(_described, "address"))
def fragments_have_addresses(c: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """Every fragment with a file also has an address in it."""
    file = i.targets.get("file")
    if file is None or not file.is_text or values_of(c, v) is None:
        return
    files, addresses = values_of(c, file), values_of(c, v)
    if files is None or addresses is None or addresses.values.shape not in ((), files.values.shape):
        return
    missing = files.valid & ~np.broadcast_to(addresses.valid, files.values.shape)
    if missing.any():
        at = list(map(int, np.argwhere(missing)[0])) if files.values.ndim else []
        n = int(missing.sum())
        what = "fragment has" if n == 1 else "fragments have"
        yield Hit(v, None, f"{n:,} {what} a file but no address, the first at {at}; name the variable in the file")


@rule("CFA021", each=naming(_described, "address"))
def own_fragments_exist(c: Context, i: Instructions, v: Variable) -> Iterator[Hit]:
    """A fragment with an address and no file is a variable of the dataset itself."""
    file = i.targets.get("file")
    files, addresses = (values_of(c, file) if file is not None and file.is_text else None), values_of(c, v)
    if files is None or addresses is None or addresses.values.shape != files.values.shape or not v.is_text:
        return
    for name in dict.fromkeys(addresses.values[addresses.valid & ~files.valid].tolist()):
        target, _ = c.resolver.variable(name, i.variable.group)
        if target is None and addresses.values.ndim:
            message = f"a fragment without a file is the variable {name!r} of this dataset, which does not exist"
            yield Hit(v, None, f"{message}; name its file, or add the variable")


@rule("CFA022")
def conventions_say_so(c: Context) -> Iterator[Hit]:
    """``Conventions`` names the version of CFA."""
    if not _described(c):
        return
    words = (c.dataset.root.text("Conventions") or "").replace(",", " ").split()
    if not any(w.startswith("CFA-") for w in words):
        found = " ".join(words) or "not there"
        yield Hit(
            c.dataset.root, "Conventions", f"Conventions is {found}; add CFA-0.6.2, which describes the fragments"
        )
