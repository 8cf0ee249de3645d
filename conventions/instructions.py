"""Reading common to CF-1.13 and CFA-0.6.2: variables that locate the fragments of an aggregation, as columns.

``aggregated_dimensions`` names the dimensions of the array, ``aggregated_data`` the variables by the terms of the
convention.  The sizes of fragments define the grid; file names and addresses, which span the array of fragments, become
codes into tables of distinct texts, so that each text is processed only once.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.conventions.closure import matrix_size
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.scope import Described, Scope
from cfagg.errors import CfaggError, ConventionError, LimitError
from cfagg.model import Aggregation, Grid, Partitions, Strings

__all__ = ["Column", "Instructions", "Text"]

Int64 = npt.NDArray[np.int64]

#: Number of texts that are first compared together, and the most bytes that this may take.
_MANY, _BYTES = 10_000, 2**28


@dataclass(frozen=True)
class Text:
    """Texts of one variable, flat in C order; those that are missing are empty."""

    values: list[str]
    shape: tuple[int, ...]
    missing: npt.NDArray[np.bool_]  # of `shape`


@dataclass(frozen=True)
class Column:
    """Texts as codes into a table of distinct ones; those that are missing have the code -1."""

    codes: npt.NDArray[np.int32]
    table: Strings

    @classmethod
    def of(cls, values: list[str], change: Callable[[list[str]], list[str]] | None = None) -> Column:
        """Return the column of some texts, after a change of the distinct ones."""
        if values and values[0] and all(map(operator.lt, values, itertools.islice(values, 1, None))):
            # In strictly ascending order all are distinct, and none has to be hashed.
            plain = values
        elif len(values) >= _MANY and differ(values):
            plain = values
        else:
            # A dictionary keeps the order of first use.
            seen = dict.fromkeys(values)
            seen.pop("", None)
            plain = list(seen)
        texts = plain if change is None else change(plain)
        if len(plain) == len(values) and texts is plain:
            return cls(np.arange(len(values), dtype=np.int32), Strings(texts))
        number: dict[str, int] = {}
        codes = {old: number.setdefault(new, len(number)) for old, new in zip(plain, texts, strict=True)}
        codes[""] = -1
        return cls(np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), Strings(number))


def differ(values: list[str]) -> bool:
    """Return whether texts are surely all different and none is empty, several times as fast as with a dictionary.

    >>> differ(["b", "a"]), differ(["a", "a"]), differ(["a", ""])
    (True, False, False)
    """
    longest = max(map(len, values))
    if longest * len(values) > _BYTES or "" in values:
        return False
    try:
        block = np.array(values, f"S{longest}").view(np.uint8).reshape(len(values), longest)
    except UnicodeEncodeError:
        return False
    words = np.zeros((len(values), -(-longest // 8) * 8), np.uint8)
    words[:, :longest] = block
    # Equal texts always have equal numbers; with any odd factor and shift, the numbers of others mostly differ.
    numbers = np.zeros(len(values), np.uint64)
    for column in words.view(np.uint64).T:
        numbers ^= column
        numbers *= np.uint64(0x9E3779B97F4A7C15)
        numbers ^= numbers >> np.uint64(29)
    numbers.sort()
    return bool((numbers[1:] != numbers[:-1]).all())


class Instructions:
    """The attributes of an aggregation variable, and the variables that they name."""

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, Any],
        dtype: npt.DTypeLike,
        scope: Scope,
        source: str,
        known: Callable[[str], str],
    ) -> None:
        """Read the attributes; `known` normalises a term."""
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.scope = scope
        self.source = source
        self.subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
        self.findings = Findings(self.subject)
        self.others = {k: v for k, v in attributes.items() if k not in ("aggregated_dimensions", "aggregated_data")}
        self.dims, self.shape = self._dimensions(attributes)
        self.terms = self._terms(attributes, known)
        self.cells: tuple[int, ...] = ()  # of the array of fragments

    def _dimensions(self, attributes: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        words = self._text(attributes, "aggregated_dimensions").split()
        dims = tuple(map(self.scope.dimension, words))
        if len(dims) > limits.MAX_RANK:
            raise LimitError(
                f"{self.subject}: {len(dims)} dimensions in aggregated_dimensions; at most {limits.MAX_RANK} are read"
            )
        sizes = self.scope.sizes
        for i, dim in enumerate(dims):
            if dim in dims[:i]:
                self.findings.problem("aggregated_dimensions", f"{dim!r} occurs twice")
            elif dim not in sizes:
                where = "the group of the variable, and those above it, have" if "/" in dim else "the file has"
                self.findings.problem("aggregated_dimensions", f"{where} no dimension {dim!r}")
            elif not 0 <= int(sizes[dim]) < 2**63:
                self.findings.problem("aggregated_dimensions", f"{dim!r} has the impossible size {sizes[dim]}")
        self.findings.check("aggregated_dimensions does not name the dimensions of the array")
        return dims, tuple(int(sizes[d]) for d in dims)

    def _terms(self, attributes: Mapping[str, Any], known: Callable[[str], str]) -> dict[str, str]:
        text = self._text(attributes, "aggregated_data")
        words = text.split()
        found: dict[str, str] = {}
        if len(words) % 2 or not words:
            raise self.error(f"aggregated_data is {shorten(text)}; expected pairs of a term with ':' and a variable")
        for key, variable in zip(words[::2], words[1::2], strict=True):
            term = known(key[:-1])
            if not key.endswith(":") or key == ":" or variable.endswith(":"):
                self.findings.problem(
                    "aggregated_data", f"{shorten(f'{key} {variable}')} is not a pair of a term with ':' and a variable"
                )
            elif term in found:
                self.findings.problem("aggregated_data", f"the term {shorten(key)} occurs twice")
            else:
                found[term] = variable
        self.findings.check("aggregated_data does not name the variables that describe the fragments")
        return found

    def _text(self, attributes: Mapping[str, Any], name: str) -> str:
        value = attributes.get(name)
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(()).item()
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError as error:
                raise self.error(f"the attribute {name} is not UTF-8 at byte {error.start}") from None
        if not isinstance(value, str):
            found = "none" if value is None else f"{shorten(value)} ({type(value).__name__})"
            raise self.error(f"the attribute {name} should be text; found {found}")
        # A null character ends a text in C, and counts as a blank.
        return str(value).replace("\0", " ")

    def error(self, message: str) -> ConventionError:
        """Return an error about the variable."""
        return ConventionError(f"{self.subject}: {message}")

    def find(self, term: str) -> Described:
        """Return the file's description of the variable of a term."""
        found = self.scope.find(self.terms[term])
        if found is None:
            raise self.error(
                f"aggregated_data names {self.terms[term]!r} for {term!r}, but the file has no such variable"
            )
        return found

    def values(self, term: str) -> np.ma.MaskedArray[Any, Any]:
        """Return the values of the variable of a term, as stored."""
        try:
            return np.ma.asanyarray(self.scope.values(self.terms[term]))
        except CfaggError as error:
            raise type(error)(f"{self.subject}: {term}: {error.message}", error.problems) from error

    def grid(self, term: str) -> Grid:
        """Return the grid of the fragments, whose sizes are in the variable of a term, and record their number."""
        found = self.find(term)
        if found.dtype.kind not in "iu":
            raise self.error(f"{term}: {self.terms[term]!r} holds {found.dtype.name}, expected integers")
        rank = len(self.dims)
        if not rank:
            if any(n != 1 for n in found.shape) or self.values(term).filled(0).ravel().tolist() != [1]:
                raise self.error(f"{term}: {self.terms[term]!r} is not the one number 1, as the array is a scalar")
            return Grid([])
        if len(found.shape) != 2 or found.shape[0] != rank:
            raise self.error(
                f"{term}: {self.terms[term]!r} has shape {found.shape}, expected one row for each of the {rank} "
                "dimensions of the array"
            )
        sizes = self.values(term)
        valid = ~np.ma.getmaskarray(sizes)
        edges, cells = [], []
        for d, row in enumerate(sizes.data):
            edges.append(self._edges(term, d, row[valid[d]]))
            cells.append(int(valid[d].sum()))
            if not valid[d, : cells[-1]].all():
                self.findings.repair(
                    "padding", f"{term}: row {d} has missing values before its last size; they belong after it"
                )
        self.findings.check(f"{term} does not divide the array into fragments")
        self.cells = tuple(cells)
        try:
            matrix_size(self.cells)
        except LimitError as error:
            raise LimitError(f"{self.subject}: {error.message}") from None
        return Grid(edges, self.shape)

    def _edges(self, term: str, d: int, sizes: npt.NDArray[Any]) -> Int64:
        dim, n = self.dims[d], self.shape[d]
        where = f"{term}, row {d} ({dim})"
        if not n and not sizes.any():
            return np.zeros(1, np.int64)
        bad = np.flatnonzero((sizes < 1) | (sizes > n))
        if bad.size:
            at = int(bad[0])
            expected = f"expected 1 to {n}" if n else "the dimension has no elements"
            self.findings.problem(where, f"fragment {at} has size {sizes[at]}; {expected}")
            return np.zeros(1, np.int64)
        edges = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes.astype(np.int64), out=edges[1:])
        # No size is larger than the dimension, so some running sum would be negative after an overflow.
        if edges[-1] != n or (edges < 0).any():
            total = sum(sizes.tolist())
            self.findings.problem(where, f"the sizes have the sum {total}; the dimension has {n} elements")
        return edges

    def text(self, term: str, *, scalar: bool = False, versions: bool = False) -> Text:
        """Return the texts of the variable of a term, which spans the array of fragments.

        It may be a `scalar`, or have one more dimension with `versions` of each fragment.
        """
        found = self.find(term)
        if found.dtype.kind != "O":
            raise self.error(f"{term}: {self.terms[term]!r} holds {found.dtype.name}, expected text")
        shape = found.shape
        wanted = shape[: len(self.cells)] if versions and len(shape) == len(self.cells) + 1 else shape
        if wanted != self.cells and not (scalar and shape == ()):
            raise self.error(
                f"{term}: {self.terms[term]!r} has shape {shape}, but the array of fragments has shape {self.cells}"
            )
        values = self.values(term)
        if values.shape != shape:
            raise self.error(f"{term}: {self.terms[term]!r} has shape {shape}, but its values have {values.shape}")
        missing = np.ma.getmaskarray(values)
        data = values.data
        if missing.any():
            data = data.copy()
            data[missing] = ""
        texts = data.ravel().tolist()
        if "" in texts:
            missing = np.fromiter((t == "" for t in texts), np.bool_, len(texts)).reshape(shape)
        return Text(texts, shape, missing)

    def place(self, flat: int, shape: tuple[int, ...]) -> str:
        """Return the index of a fragment for messages."""
        return str([int(k) for k in np.unravel_index(flat, shape)] if shape else [])

    def aggregation(self, grid: Grid, partitions: Partitions, dialect: str, **more: Any) -> Aggregation:
        """Return the aggregation, after reporting all findings."""
        self.findings.check("the fragments are not described as the convention requires")
        self.findings.warn()
        others = self.others
        units, calendar = (others.pop(k) if isinstance(others.get(k), str) else None for k in ("units", "calendar"))
        return Aggregation(
            name=self.name,
            dims=self.dims,
            shape=self.shape,
            dtype=self.dtype,
            grid=grid,
            partitions=partitions,
            units=units,
            calendar=calendar,
            attributes=others,
            source=self.source,
            dialect=dialect,
            # The conformed values are themselves the packed ones.
            packs=False,
            **more,
        )
