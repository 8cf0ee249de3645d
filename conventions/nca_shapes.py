"""Checks that sub-arrays, and the parts taken from them, have the shapes that their locations require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions import part as part_module
from cfagg.conventions.columns import MISSING, integer_rows, integers_problem
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import ConventionError

__all__ = ["Batch", "Private", "Shapes"]

Int64 = npt.NDArray[np.int64]
Private = Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]


class Batch(NamedTuple):
    """The columns of one batch of partitions that concern shapes; None if no partition has the key."""

    number: Int64
    """Index of each partition in its list."""
    ok: npt.NDArray[np.bool_]
    """Whether index and location are well-formed."""
    extent: Int64
    """The extent of the location along each dimension of the master array, shape (n, ndim)."""
    dims: list[Any] | None
    """Dimensions as tuples, `MISSING` if they are the master's, None if they are already a problem."""
    shapes: list[Any]
    parts: list[Any] | None
    file: list[Any] | None
    address: list[Any] | None

    def where(self, i: int, path: str) -> str:
        """Return the key path of a value of one partition."""
        return f"Partitions[{self.number[i]}].{path}"

    def has_part(self, i: int) -> bool:
        """Return whether a partition is a part of its sub-array."""
        return self.parts is not None and self.parts[i] is not MISSING

    def own_variable(self, i: int, private: Private) -> str | None:
        """Return the variable of the aggregation file that a partition refers to, or None if it is elsewhere."""
        if self.address is None or (self.file is not None and self.file[i] is not MISSING):
            return None
        name = self.address[i]
        return name if name is not MISSING and name in private else None


class Shapes:
    """Checks shapes batch by batch and collects the distinct parts."""

    def __init__(
        self,
        dims: tuple[str, ...],
        private: Private,
        findings: Findings,
        brackets: Literal["python", "round", "square"] = "python",
    ) -> None:
        self.dims, self.private, self.findings, self.brackets = dims, private, findings, brackets
        #: Codes of parts by their canonical text.
        self.parts: dict[str, int] = {}
        self._parsed: dict[tuple[str, tuple[int, ...]], tuple[int, tuple[int, ...]] | str] = {}

    def check(self, batch: Batch) -> tuple[npt.NDArray[np.int32], list[Any] | None]:
        """Return codes of parts (-1 for the whole) and shapes not given by locations, None if none is a part."""
        n = len(batch.shapes)
        codes = np.full(n, -1, np.int32)
        needed: list[Any] | None = [MISSING] * n if batch.parts is not None else None
        groups: dict[Any, list[int]] = {}
        if batch.dims is None:
            groups[MISSING] = list(range(n))
        else:
            for i, entry in enumerate(batch.dims):
                groups.setdefault(entry, []).append(i)
        for entry, rows in groups.items():
            if entry is None:
                continue
            names = self.dims if entry is MISSING else entry
            wanted = self._wanted(batch, rows, names)
            found, good = self._found(batch, rows, names, wanted)
            self._compare(batch, rows, names, found, wanted, good)
            if batch.parts is not None and needed is not None:
                self._take(batch, rows, names, found, wanted, good, codes, needed)
        return codes, needed

    def _wanted(self, batch: Batch, rows: list[int], names: Sequence[str]) -> Int64:
        """Return the shapes that data arrays with these dimensions must have."""
        extent = batch.extent if len(rows) == len(batch.shapes) else batch.extent[rows]
        for d, dim in enumerate(self.dims):
            if dim in names:
                continue
            for k in np.flatnonzero((extent[:, d] != 1) & batch.ok[rows]).tolist():
                self.findings.problem(
                    batch.where(rows[k], "dimensions"),
                    f"{dim!r} is not among {list(names)}, but the location spans {extent[k, d]} of it",
                )
        if names == self.dims:
            return extent
        # A dimension that the master array does not span has size 1, from the column of ones at the end.
        padded = np.concatenate([extent, np.ones((len(rows), 1), np.int64)], axis=1)
        return padded[:, [self.dims.index(d) if d in self.dims else -1 for d in names]]

    def _found(
        self, batch: Batch, rows: list[int], names: Sequence[str], wanted: Int64
    ) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Return the shapes given, and which of them are usable."""
        width = len(names)
        given = [batch.shapes[i] for i in rows] if len(rows) < len(batch.shapes) else batch.shapes
        if MISSING in given:
            given = [
                self._derived(batch, i, wanted[k]) if value is MISSING else value
                for k, (i, value) in enumerate(zip(rows, given, strict=True))
            ]
        found, bad = integer_rows(given, width, 1, lambda v: integers_problem(v, width, "dimension"))
        good = batch.ok[rows].copy()
        for k, message in bad.items():
            good[k] = False
            if given[k] is not None:  # else reported already
                self.findings.problem(batch.where(rows[k], "data.shape"), message)
        for k in np.flatnonzero((found < 0).any(axis=1) & good).tolist():
            good[k] = False
            self.findings.problem(batch.where(rows[k], "data.shape"), f"negative size in {found[k].tolist()}")
        return found, good

    def _derived(self, batch: Batch, i: int, wanted: Int64) -> list[int] | None:
        """Return the shape of a sub-array that does not give it, or None if it is unknown."""
        if not batch.ok[i]:
            return None
        own = batch.own_variable(i, self.private)
        if own is None and batch.has_part(i):
            self.findings.problem(
                batch.where(i, "data.shape"), "the key is missing; beside part, it cannot be derived from the location"
            )
            return None
        source = "the location" if own is None else f"the variable {own!r}"
        place = self.findings.place(batch.where(i, "data.shape"))
        self.findings.repair("shape", f"{place} is missing; taken from {source}")
        return wanted.tolist() if own is None else [int(n) for n in self.private[own][1]]

    def _compare(
        self,
        batch: Batch,
        rows: list[int],
        names: Sequence[str],
        found: Int64,
        wanted: Int64,
        good: npt.NDArray[np.bool_],
    ) -> None:
        """Compare whole sub-arrays with their locations, and those in the aggregation file with its variables."""
        for k in np.flatnonzero((found != wanted).any(axis=1) & good).tolist():
            if batch.has_part(rows[k]):
                continue
            good[k] = False
            self.findings.problem(
                batch.where(rows[k], "data.shape"),
                f"{found[k].tolist()} does not fit the location, which spans {wanted[k].tolist()} of {list(names)}; "
                "a partition of a larger sub-array needs part",
            )
        if not self.private or batch.address is None:
            return
        for k, i in enumerate(rows):
            own = batch.own_variable(i, self.private) if good[k] else None
            if own is not None and found[k].tolist() != list(self.private[own][1]):
                good[k] = False
                self.findings.problem(
                    batch.where(i, "data.shape"),
                    f"{found[k].tolist()}, but the file's variable {own!r} has shape {list(self.private[own][1])}",
                )

    def _take(
        self,
        batch: Batch,
        rows: list[int],
        names: Sequence[str],
        found: Int64,
        wanted: Int64,
        good: npt.NDArray[np.bool_],
        codes: npt.NDArray[np.int32],
        needed: list[Any],
    ) -> None:
        """Store the parts of sub-arrays in `codes` and `needed`."""
        for k, i in enumerate(rows):
            if not (good[k] and batch.parts is not None and batch.has_part(i)):
                continue
            text, shape, extent = batch.parts[i], tuple(found[k].tolist()), tuple(wanted[k].tolist())
            part = self._part(text, shape)
            if isinstance(part, str):
                self.findings.problem(batch.where(i, "part"), part)
                continue
            code, counts = part
            if counts != extent:
                self.findings.problem(
                    batch.where(i, "part"),
                    f"{shorten(text)} takes {list(counts)} of a sub-array of shape {list(shape)}, "
                    f"but the location spans {list(extent)} of {list(names)}",
                )
            elif code >= 0:
                codes[i] = code
                needed[i] = shape

    def _part(self, text: str, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | str:
        """Return the code of a part (-1 for everything) and its extent, or the problem with it."""
        known = self._parsed.get((text, shape))
        if known is None:
            try:
                indices = part_module.parse(text, shape, self.brackets)
                canonical = part_module.canonical(indices, shape)
                code = -1 if canonical == "[]" else self.parts.setdefault(canonical, len(self.parts))
                known = (code, part_module.counts(indices))
            except ConventionError as error:
                known = error.message
            self._parsed[text, shape] = known
        return known
