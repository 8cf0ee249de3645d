"""Whether an array is still described as when its accumulation was built: dimensions, shape, chunks, type, meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cfagg.accumulation.mask import read_meaning
from cfagg.accumulation.related import encoding_of
from cfagg.conventions import limits
from cfagg.conventions.accumulation import Extra
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_record import MaskRecord, Packing
from cfagg.conventions.findings import shorten
from cfagg.errors import ConformError, Problem, UnsupportedError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.model import Grid, Regular

__all__ = ["Differences", "differences", "differences_since", "names_none"]


@dataclass(frozen=True)
class Differences:
    """What is described in another way than when the accumulation was built, in words."""

    problems: tuple[Problem, ...] = ()
    #: Dimensions that are longer now: their size then and now.
    grown: Mapping[str, tuple[int, int]] = field(default_factory=Table)
    #: Whether anything but growth changed.
    other: bool = False

    def __bool__(self) -> bool:
        return bool(self.problems)


def differences(source: ZarrArray, extra: Extra) -> Differences:
    """Return what differs between an array and the description that its accumulation keeps."""
    then = extra.source
    if source.dims != then.dims:
        return Differences((Problem("dimensions", f"{list(then.dims)}, now {list(source.dims)}"),), other=True)
    problems, grown, other = [], {}, False
    for d, old, new in zip(then.dims, then.shape, source.shape, strict=True):
        if old != new:
            problems.append(Problem("shape", f"{d!r} had size {old}, now {new}"))
        if old < new:
            grown[d] = (old, new)
        other = other or old > new
    changed = _cuts(then.grid, source)
    if np.dtype(then.dtype) != source.dtype:
        changed.append(Problem("type", f"{then.dtype}, now {source.dtype.name}"))
    else:
        changed += _meaning(source, extra.packing, extra.mask)
        changed += _encoding(source, extra.source.encoding, None if extra.weights is None else extra.weights.kind)
    return Differences(tuple(problems + changed), Table(grown), other or bool(changed))


def differences_since(then: ZarrArray, now: ZarrArray) -> Differences:
    """Return what differs between an array and what it was when the group of another writer was opened."""
    if then.ndim == now.ndim and names_none(now):
        now = replace(now, dims=then.dims)
    if then.dims != now.dims:
        return Differences((Problem("dimensions", f"{list(then.dims)}, now {list(now.dims)}"),), other=True)
    problems = []
    if then.shape != now.shape:
        problems.append(Problem("shape", f"{then.shape}, now {now.shape}"))
    problems += _cuts(then.grid, now)
    if then.dtype != now.dtype:
        problems.append(Problem("type", f"{then.dtype.name}, now {now.dtype.name}"))
    else:
        old = read_meaning(then)
        problems += _meaning(now, old.packing, old.mask)
        problems += _encoding(now, encoding_of(then, None), None)
    return Differences(tuple(problems), other=bool(problems))


def names_none(array: ZarrArray) -> bool:
    """Return whether an array does not name its dimensions itself."""
    return array.dims == tuple(f"dim_{d}" for d in range(array.ndim)) and "_ARRAY_DIMENSIONS" not in array.attributes


def _encoding(source: ZarrArray, then: Mapping[str, str], weights: str | None) -> list[Problem]:
    """Return what else decides which values the stored bytes are, and has changed."""
    now = encoding_of(source, weights)
    return [
        Problem(name, f"{shorten(then.get(name, 'absent'))}, now {shorten(now.get(name, 'absent'))}")
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]


def _cuts(then: Grid, source: ZarrArray) -> list[Problem]:
    """Return along which dimensions chunks are others than they were."""
    return [
        Problem("chunks", f"along {d!r} {_chunks(then, i)}, now {_chunks(source.grid, i)}")
        for i, d in enumerate(source.dims)
        if not _same_chunks(then, source.grid, i)
    ]


def _same_chunks(then: Grid, now: Grid, axis: int) -> bool:
    """Return whether chunks are the same as far as both arrays reach."""
    a, b = then.axes[axis], now.axes[axis]
    if isinstance(a, Regular) and isinstance(b, Regular):
        return a.chunk == b.chunk
    if then.matrix_shape[axis] > limits.MAX_PARTITIONS:  # no true array, and too many edges to list
        return False
    n = min(then.shape[axis], now.shape[axis])
    # The chunk at the common end may reach beyond it in one of them.
    old, new = then.edges[axis], now.edges[axis]
    return np.array_equal(old[old < n], new[new < n])


def _chunks(grid: Grid, axis: int) -> str:
    """Return the chunks along an axis in words."""
    edges = grid.axes[axis]
    if isinstance(edges, Regular):
        return f"chunks of {edges.chunk}"
    return f"chunks of {shorten(np.diff(edges).tolist())}"


def _meaning(source: ZarrArray, packing: Packing | None, mask: MaskRecord) -> list[Problem]:
    """Return what decides how stored values are read, and has changed."""
    try:
        now = read_meaning(source)
    except (ConformError, UnsupportedError) as error:
        return [Problem("attributes", str(error))]
    problems = []
    one = Packing(1.0, 0.0)
    for name in ("scale_factor", "add_offset"):
        old, new = (getattr(p or one, name) for p in (packing, now.packing))
        if old != new:
            problems.append(Problem(name, f"{old}, now {new}"))
    return problems + _mask(mask, now.mask)


def _mask(old: MaskRecord, new: MaskRecord) -> list[Problem]:
    """Return what decides which values are missing, and has changed; 5 and 5.0 are the same value."""
    problems = []
    # NaN always means missing.
    before, after = ({v for v in m.fills if v == v} for m in (old, new))  # noqa: PLR0124
    if before != after:
        problems.append(Problem("missing values", f"{_listed(before)}, now {_listed(after)}"))
    for name in ("valid_min", "valid_max", "unsigned"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            problems.append(Problem(name, f"{a}, now {b}"))
    return problems


def _listed(values: set[Any]) -> str:
    return ", ".join(map(str, sorted(values))) or "none"
