"""An aggregation as encoded by a convention, and the information that the convention cannot express."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.errors import ConventionError, Problem
from cfagg.findings.losses import Loss
from cfagg.model import Aggregation, Layout, Partitions

__all__ = [
    "Encoded",
    "Lack",
    "Names",
    "check",
    "expand",
    "numbered",
    "of_byte_orders",
    "of_codes",
    "of_dimensions",
    "of_layouts",
    "of_numbers",
    "of_versions",
    "own_attributes",
    "stored",
]

#: Attributes by which any of the conventions marks or describes an aggregation variable.
_MARKS = frozenset(
    {"aggregated_data", "aggregated_dimensions", "cfa_array", "cfa_dimensions", "cfa_group", "cfa_variable"}
    | {"nca_array", "nca_dimensions"}
)
_ROLES = frozenset({"cfa_private", "cfa_variable", "nca", "nca_private", "nca_variable"})

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Encoded:
    """The description of an aggregation in a file: a scalar variable with attributes, and variables that it names.

    Parameters
    ----------
    dialect : str
        The convention, such as ``"CF-1.13"``.
    dtype : numpy.dtype
        Data type of the aggregation variable.
    attributes : dict
        All its attributes.
    dimensions : dict of str to int
        Dimensions that the file needs besides those of the aggregation.
    variables : dict
        ``{name: (dimensions, values, attributes)}`` of the variables with its instructions.
    """

    dialect: str
    dtype: np.dtype[Any]
    attributes: dict[str, Any]
    dimensions: dict[str, int] = field(default_factory=dict)
    variables: dict[str, tuple[tuple[str, ...], npt.NDArray[Any], dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lack:
    """One kind of information that a convention cannot express, and all partitions that have it.

    `found` are distinct texts, and `codes` selects one of them for each of `rows`.  Without `rows` it concerns the
    variable.  `values` means that values depend on it, so that it cannot be left out.
    """

    what: str
    found: tuple[str, ...]
    why: str
    rows: Rows | None = None
    codes: npt.NDArray[Any] | None = None
    values: bool = True

    def within(self, keep: npt.NDArray[np.bool_]) -> Lack:
        """Return the same for some of its rows."""
        if self.rows is None or self.codes is None:
            return self
        return Lack(self.what, self.found, self.why, self.rows[keep], self.codes[keep], self.values)


class Names:
    """Names of dimensions and variables that are free in a file; dimensions made here may be shared."""

    def __init__(self, dimensions: Mapping[str, int] | None = None, variables: Iterable[str] = ()) -> None:
        self._taken = {*(dimensions or {}), *variables}
        self._made: dict[str, int] = {}

    def dimension(self, name: str, size: int, others: Container[str] = ()) -> str:
        """Return the name of an existing or new dimension of this size that is not among `others`."""
        free = next(
            n for n in _numbered(name) if n not in others and (n not in self._taken or self._made.get(n) == size)
        )
        self._taken.add(free)
        self._made[free] = size
        return free

    def variable(self, name: str) -> str:
        """Return an unused name."""
        free = next(n for n in _numbered(name) if n not in self._taken)
        self._taken.add(free)
        return free


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, and then the same with numbers."""
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def own_attributes(aggregation: Aggregation) -> dict[str, Any]:
    """Return the attributes of the variable except those that describe its partitions."""
    found = {
        k: v
        for k, v in aggregation.attributes.items()
        if k not in _MARKS and not (k == "cf_role" and isinstance(v, str) and v in _ROLES)
    }
    units = {"units": aggregation.units, "calendar": aggregation.calendar}
    return found | {k: v for k, v in units.items() if v is not None}


def stored(aggregation: Aggregation) -> npt.NDArray[np.bool_]:
    """Return which partitions have a fragment."""
    held: npt.NDArray[np.bool_] = aggregation.partitions.present & (aggregation.partitions.value < 0)
    return held


def of_dimensions(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield the dimensions whose names cannot be in a list of words."""
    odd = [dim for dim in aggregation.dims if dim.split() != [dim]]
    if odd:
        yield Lack("dimension", (", ".join(map(repr, odd)),), "names of dimensions are separated by blanks; rename it")


def of_layouts(
    aggregation: Aggregation,
    mask: npt.NDArray[np.bool_],
    what: str,
    why: str,
    found: Callable[[Layout], str | None],
    *,
    values: bool = True,
) -> Iterator[Lack]:
    """Yield what a convention lacks for partitions in `mask` with layouts for which `found` returns a text."""
    texts = [found(layout) for layout in aggregation.partitions.layouts]
    if any(text is not None for text in texts):
        bad = np.array([text is not None for text in texts])
        rows = np.flatnonzero(mask & bad[aggregation.partitions.layout])
        if rows.size:
            codes = aggregation.partitions.layout[rows]
            yield Lack(what, tuple(text or "" for text in texts), why, rows, codes, values)


def of_codes(
    mask: npt.NDArray[np.bool_], what: str, found: Iterable[str], codes: npt.NDArray[Any] | None, why: str
) -> Iterator[Lack]:
    """Yield what a convention lacks for all partitions in `mask`; without `codes` all have the first of `found`."""
    rows = np.flatnonzero(mask)
    if rows.size:
        chosen = np.zeros(rows.size, np.int8) if codes is None else codes[rows]
        yield Lack(what, tuple(found), why, rows, chosen)


def of_numbers(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield fragments that are named by the number of their variable, as CFA 0.4 allows."""
    found, codes = np.unique(aggregation.partitions.offset, return_inverse=True)
    why = "a fragment is a variable with a name"
    yield from of_codes(numbered(aggregation), "number of a variable", list(map(str, found.tolist())), codes, why)


def numbered(aggregation: Aggregation) -> npt.NDArray[np.bool_]:
    """Return which partitions name a netCDF variable by its number instead of an address in the file."""
    partitions = aggregation.partitions
    netcdf = np.array([is_netcdf(layout.format) for layout in partitions.layouts] or [True])[partitions.layout]
    found: npt.NDArray[np.bool_] = stored(aggregation) & netcdf & (partitions.address < 0) & (partitions.offset >= 0)
    return found


def of_byte_orders(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield the byte orders of files, which the files record themselves, too."""
    why = "the file of the sub-array gives it"
    yield from of_layouts(aggregation, stored(aggregation), "byte order", why, lambda one: one.endian, values=False)


def of_versions(partitions: Partitions, why: str) -> Iterator[Lack]:
    """Yield the further versions of fragments, without which the first ones remain."""
    if not partitions.versions:
        return
    counts = np.sum([other.present for other in partitions.versions], axis=0)
    rows = np.flatnonzero(counts)
    if rows.size:
        found = tuple(f"{n} more version{'s'[: n != 1]}" for n in range(len(partitions.versions) + 1))
        yield Lack("versions of fragments", found, why, rows, counts[rows], values=False)


def expand(aggregation: Aggregation, lacks: Iterable[Lack]) -> list[Loss]:
    """Return every loss, partition by partition."""
    out: list[Loss] = []
    shape = aggregation.grid.matrix_shape
    name = aggregation.name
    for lack in lacks:
        if lack.rows is None or lack.codes is None:
            out.append(Loss(name, None, lack.what, lack.found[0], lack.why))
            continue
        index = np.stack(np.unravel_index(lack.rows, shape), 1).tolist() if shape else [()] * lack.rows.size
        found, what, why = lack.found, lack.what, lack.why
        out += [Loss(name, tuple(i), what, found[c], why) for i, c in zip(index, lack.codes.tolist(), strict=True)]
    return out


def check(aggregation: Aggregation, lacks: Iterable[Lack], dialect: str) -> None:
    """Raise an error about everything on which values depend."""
    losses = expand(aggregation, (lack for lack in lacks if lack.values))
    if losses:
        problems = [
            Problem(
                "variable" if loss.partition is None else f"partition {list(loss.partition)}",
                f"{loss.what} ({loss.found}): {loss.why}",
            )
            for loss in losses
        ]
        raise ConventionError(f"variable {aggregation.name!r}: {dialect} cannot describe this aggregation", problems)
