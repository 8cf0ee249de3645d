"""CFA-0.6.2: from an aggregation variable and the variables that it names to an aggregation.

``location`` gives the sizes of the fragments; ``file``, ``format`` and ``address`` give one or more locations of each.
Other terms are properties of the fragments.  The terms of two drafts of CF-1.13 are also read: ``map``, ``location``,
``variable`` and ``unique_value`` of cfdm 1.12, ``shape``, ``location``, ``address`` and ``value`` of CFAPyX.

Sources: CFA-0.6.2, "Aggregation instructions".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.findings import shorten
from cfagg.conventions.instructions import Column, Instructions, Text
from cfagg.conventions.scope import Scope
from cfagg.conventions.unique import unique_values
from cfagg.conventions.uris import local_path
from cfagg.errors import CfaggError
from cfagg.model import Aggregation, Grid, Layout, Partitions

__all__ = ["DIALECT", "is_draft", "parse", "substitutions"]

DIALECT = "CFA-0.6.2"

#: Equivalent terms of the standard and the drafts, in the order in which they are tried.
_ROLES: tuple[Mapping[str, str], ...] = (
    {"location": "sizes", "file": "file", "format": "format", "address": "address"},
    {"map": "sizes", "location": "file", "variable": "address", "unique_value": "value", "unique_values": "value"},
    {"shape": "sizes", "location": "file", "address": "address", "value": "value", "unique_value": "value"},
)
_STANDARD = frozenset().union(*_ROLES)

_BASE = re.compile(r"\$\{\w+\}", re.ASCII)


def is_draft(attributes: Mapping[str, Any]) -> bool:
    """Return whether fragments are described by the terms of a draft of CF-1.13.

    >>> is_draft({"aggregated_data": "map: m location: u variable: v"}), is_draft({"aggregated_data": "map: m uris: u"})
    (True, False)
    """
    terms = {w[:-1].lower() for w in str(attributes.get("aggregated_data", "")).split() if w.endswith(":")}
    return not terms.isdisjoint({"map", "shape"}) and not terms.isdisjoint({"location", "unique_value", "value"})


def parse(
    name: str, attributes: Mapping[str, Any], dtype: npt.DTypeLike, scope: Scope, *, source: str = ""
) -> Aggregation:
    """Return the aggregation that a variable describes by ``location``, ``file``, ``format`` and ``address``.

    Raises `ConventionError` if attributes or variables break the convention, and `LimitError` for too many fragments.
    """
    said = Instructions(name, attributes, dtype, scope, source, _folded)
    terms = said.terms.keys()
    roles = next((r for r in _ROLES[1:] if next(iter(r)) in terms and "file" not in terms), _ROLES[0])
    term = {role: t for t, role in roles.items() if t in terms}
    if "sizes" not in term or not ({"file", "address"} <= term.keys() or ("value" in term and "file" not in term)):
        raise said.error(
            f"aggregated_data has the terms {', '.join(map(shorten, terms))}; expected location, file, format and "
            "address"
        )
    grid = said.grid(term["sizes"])
    if "file" not in term:
        return said.aggregation(grid, unique_values(said, term["value"], grid), DIALECT)
    if roles is _ROLES[0] and "format" not in term:
        said.findings.repair("format", "aggregated_data has no term 'format'; the fragments are taken as netCDF")
    partitions = _Fragments(said, term, grid).partitions()
    others = {t: v for t in terms if t not in roles and (v := _fact(said, t, grid)) is not None}
    return said.aggregation(grid, partitions, DIALECT, terms=others)


def _folded(term: str) -> str:
    """Return a term normalised for comparison: those of the convention are case-insensitive."""
    return term.lower() if term.lower() in _STANDARD else term


def substitutions(text: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the replacement of each ``${base}``: that of the attribute, unless overridden by `given`.

    >>> substitutions("${data}: /archive/ ${run}: r1", {"run": "r2"})
    {'${data}': '/archive/', '${run}': 'r2'}
    """
    words = text.split()
    found = {k[:-1]: t for k, t in zip(words[::2], words[1::2], strict=False) if k.endswith(":")}
    return {**found, **{k if k.startswith("${") else f"${{{k}}}": v for k, v in given.items()}}


def _substituted(names: list[str], changes: Mapping[str, str]) -> list[str]:
    """Return names with each base replaced once; replacements are not substituted again."""
    if not changes or "${" not in "\n".join(names):
        return names
    return [_BASE.sub(lambda m: changes.get(m[0], m[0]), name) for name in names]


class _Fragments:
    """The fragments of an aggregation, in one or more versions."""

    def __init__(self, said: Instructions, term: Mapping[str, str], grid: Grid) -> None:
        self.said = said
        self.term = term
        self.count = grid.size
        self.file = said.text(term["file"], versions=True)
        self.address = said.text(term["address"], scalar=True, versions=True)
        self.format = said.text(term["format"], scalar=True, versions=True) if "format" in term else None
        for name, text in (("address", self.address), ("format", self.format)):
            if text is not None and text.shape not in ((), self.file.shape):
                raise said.error(f"{term[name]}: shape {text.shape}, but {term['file']} has shape {self.file.shape}")

    def partitions(self) -> Partitions:
        """Return the first version of every fragment, along with the others."""
        several = len(self.file.shape) > len(self.said.cells)
        many = self.file.shape[-1] if several else 1
        if not many:
            raise self.said.error(f"{self.term['file']}: the dimension of the versions of a fragment has size 0")
        first, *others = (self._version(order) for order in self._orders(many))
        if not others:
            return first
        return Partitions.build(
            self.count,
            **{n: getattr(first, n) for n in ("file", "address", "layout", "present", "files", "addresses", "layouts")},
            versions=others,
        )

    def _orders(self, many: int) -> list[npt.NDArray[np.int64]]:
        """Return the flat indices of the first versions of all fragments, of the second ones, and so on."""
        if many == 1:
            return [np.arange(self.count)]
        # Padding follows the existing versions.
        rows = np.argsort(self.file.missing.reshape(-1, many), axis=1, kind="stable")
        rows = (rows + np.arange(len(rows))[:, None] * many)[: self.count]
        last = self.file.missing.ravel()[rows].all(axis=0)
        return [rows[:, k] for k in range(many) if k == 0 or not last[k]]

    def _version(self, order: npt.NDArray[np.int64]) -> Partitions:
        """Return one version of every fragment."""
        said = self.said
        gone = self.file.missing.ravel()[order]
        has_address = (
            ~self.address.missing.ravel()[order]
            if self.address.shape or not self.file.shape
            else np.zeros(len(order), bool)
        )
        own = gone & has_address
        nameless = ~gone & ~has_address if self.address.shape else ~gone & self.address.missing.any()
        if nameless.any():
            place = np.unravel_index(int(order[np.flatnonzero(nameless)[0]]), self.file.shape or (1,))
            said.findings.problem(
                self.term["address"],
                f"the address of fragment {[int(k) for k in place]} is missing, but its file is not",
            )
        files = Column.of(self._names(order))
        addresses = Column.of(self._addresses(order, gone, own))
        layout, layouts = self._layouts(order, gone)
        return Partitions.build(
            self.count,
            file=files.codes,
            address=addresses.codes,
            layout=layout,
            present=~gone | own,
            files=files.table,
            addresses=addresses.table,
            layouts=layouts,
        )

    def _names(self, order: npt.NDArray[np.int64]) -> list[str]:
        """Return the files as paths, which are not URIs if they have no scheme."""
        text = self.said.find(self.term["file"]).attributes.get("substitutions")
        changes = substitutions(text if isinstance(text, str) else "", self.said.scope.substitutions)
        names = _substituted(_taken(self.file, order), changes)
        return [local_path(n) for n in names] if "file:" in "\n".join(names).lower() else names

    def _addresses(
        self, order: npt.NDArray[np.int64], gone: npt.NDArray[np.bool_], own: npt.NDArray[np.bool_]
    ) -> list[str]:
        """Return the addresses; those in this file may also be in the group of the variable with the addresses."""
        if not self.address.shape and not own.any():
            address = self.address.values[0]
            return ["" if g else address for g in gone.tolist()] if gone.any() else [address] * len(order)
        texts = _taken(self.address, order)
        if not own.any():
            return texts
        group = self.said.terms[self.term["address"]].rpartition("/")[0]
        paths: dict[str, str] = {}
        for i in np.flatnonzero(own).tolist():
            text = texts[i]
            if text not in paths:
                beside = f"{group}/{text}" if group else text
                there = self.said.scope.find(text) is None and self.said.scope.find(beside) is not None
                paths[text] = beside if there else text
            texts[i] = paths[text]
        return texts

    def _layouts(self, order: npt.NDArray[np.int64], gone: npt.NDArray[np.bool_]) -> tuple[Any, list[Layout]]:
        """Return the code of each fragment's layout, and the layouts, which differ by format."""
        dims = self.said.dims
        if self.format is None:
            return 0, [Layout(dims)]
        if not self.format.shape:
            named = Layout(dims, format=self.format.values[0] or None)
            # Fragments in this file or without a file have no format.
            return (gone.astype(np.int32), [named, Layout(dims)]) if gone.any() and named.format else (0, [named])
        column = Column.of(_taken(self.format, order))
        layouts = [Layout(dims, format=name) for name in column.table]
        codes = column.codes
        if (codes < 0).any():
            codes = np.where(codes < 0, len(layouts), codes)
            layouts.append(Layout(dims))
        return codes, layouts


def _taken(text: Text, order: npt.NDArray[np.int64]) -> list[str]:
    """Return some elements of a text, flat."""
    if len(order) == len(text.values) and not len(text.shape):
        return list(text.values)
    values = text.values
    return [values[i] for i in order.tolist()]


def _fact(said: Instructions, term: str, grid: Grid) -> np.ma.MaskedArray[Any, Any] | None:
    """Return the values of a term that the convention does not know, if each fragment has one."""
    found = said.scope.find(said.terms[term])
    if found is None or found.shape not in (said.cells, ()):
        shape = "does not exist" if found is None else f"has shape {found.shape}, not that of the array of fragments"
        if found is not None and list(said.terms.values()).count(said.terms[term]) == 1:
            shape += "; it is read as an ordinary variable"
            said.scope.leave(said.terms[term])
        said.findings.repair(
            "term", f"the term {shorten(term)} of aggregated_data is left out: {said.terms[term]!r} {shape}"
        )
        return None
    try:
        values = said.values(term)
    except CfaggError as error:
        said.findings.repair("term", f"the term {shorten(term)} of aggregated_data is left out: {error.message}")
        return None
    if found.dtype.kind == "O":
        empty = np.fromiter((v == "" for v in values.data.ravel().tolist()), bool, values.size).reshape(values.shape)
        values = np.ma.MaskedArray(values.data, np.ma.getmaskarray(values) | empty)
    return np.ma.MaskedArray(
        np.broadcast_to(values.data, said.cells)[tuple(map(slice, grid.matrix_shape))],
        np.broadcast_to(np.ma.getmaskarray(values), said.cells)[tuple(map(slice, grid.matrix_shape))],
    )
