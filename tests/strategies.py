"""Hypothesis strategies shared by the tests: grids, selections, calendars, packings."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from cfagg.model import Grid, Regular


@st.composite
def edges(draw, max_cells: int = 8, max_size: int = 12) -> np.ndarray:
    """Edges of one dimension: from no cell at all to `max_cells` cells of unequal sizes."""
    sizes = draw(st.lists(st.integers(1, max_size), max_size=max_cells))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@st.composite
def slices(draw, length: int) -> slice:
    """Any slice that Python accepts on a dimension of `length`, of either sign and beyond both ends."""
    bound = st.none() | st.integers(-length - 3, length + 3)
    step = draw(st.none() | st.integers(-length - 2, length + 2).filter(bool))
    return slice(draw(bound), draw(bound), step)


# ---- gather -----------------------------------------------------------------------------------------------------------

REAL_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")


@st.composite
def views(draw, shape: tuple[int, ...], dtype: str, swapped: bool = False) -> np.ndarray:
    """A view of this shape whose axes lie in memory in any order, in steps of either sign, with gaps between.

    `dtype` may be byte-swapped; the memory outside the view is zero.
    """
    kind = np.dtype(dtype).newbyteorder("S" if swapped and draw(st.booleans()) else "=")
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, -1, 2, -3])) for _ in shape]
    gaps = [draw(st.sampled_from([0, 0, 1])) for _ in shape]
    base = np.zeros([abs(steps[d]) * shape[d] + gaps[d] for d in order], kind)
    cut = tuple(slice(0, abs(steps[d]) * shape[d], abs(steps[d])) for d in order)
    flips = tuple(slice(None, None, 1 if step > 0 else -1) for step in steps)
    return base[cut].transpose([order.index(d) for d in range(len(shape))])[flips]


@st.composite
def telling_values(draw, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values where casts go wrong: ends of every type, powers of two around mantissas, halves, infinities, NaN."""
    kind = np.dtype(dtype)
    ends = [
        v + d
        for n in (0, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64)
        for s in (1, -1)
        for v in [s * 2**n]
        for d in (-1, 0, 1)
    ]
    if kind.kind == "f":
        pool = [*ends, 0.5, 1.5, 2.5, -0.5, -0.0, 0.1, 1e-40, 1e20, 3.5e38, 1e300, np.inf, -np.inf, np.nan]
        with np.errstate(over="ignore"):
            pool = np.array(pool, "f8").astype(kind)
    else:
        info = np.iinfo(kind)
        pool = np.array([v for v in ends if info.min <= v <= info.max], kind)
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).choice(pool, shape)


@st.composite
def gather_arguments(draw, source: str, target: str, pure: bool | None = None, masked: bool | None = None) -> dict:
    """Scale, offset, fills, bounds and fill for these types; `pure` and `masked` as asked for, else any."""
    out = {}
    if not (draw(st.booleans()) if pure is None else pure):
        out["scale"] = draw(st.sampled_from([0.1, -1.0, 2.0, 1000.0, 1e-5, 1e300]))
        out["offset"] = draw(st.sampled_from([0.5, -273.15, 1.0, 2.0**31, -1e18]))
    if not (draw(st.booleans()) if masked is None else masked):
        return out
    kind, place = np.dtype(source), np.dtype(target)
    one = st.sampled_from([0, 1, 127, 255, -1, -32768, 32767, 2**31, 2**53, 2**64 - 1, 2**63 - 1, 0.5, 1e20])
    out["fills"] = draw(st.lists(one, min_size=1, max_size=4))
    if draw(st.booleans()):
        out["valid_min"] = draw(st.sampled_from([-100, -2.5, 0, 1, 2**40, -(2**70), np.float32(-0.1)]))
    if draw(st.booleans()):
        out["valid_max"] = draw(st.sampled_from([100, 99.5, 0, 2**40, 2**70, np.inf]))
    if draw(st.booleans()):
        out["fill"] = 1e20 if place.kind == "f" else int(np.iinfo(place).max)
    return out


# --- calendars -------------------------------------------------------------------------------------------------------

CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")


@st.composite
def calendar_dates(draw) -> tuple[str, int, int, int]:
    """A calendar, and a year, month and day that need not be a date of it; leap days and 1582 come often."""
    special = [0, -1, 1, 4, 100, 1500, 1582, 1700, 1900, 2000, -4, -5, -100]
    year = draw(st.integers(-9999, 9999) | st.sampled_from(special))
    month, day = draw(st.tuples(st.integers(1, 12), st.integers(1, 32)) | st.sampled_from([(2, 28), (2, 29), (2, 30)]))
    return draw(st.sampled_from(CALENDARS)), year, month, day


# Projection ---------------------------------------------------------------------------------------------------------


@st.composite
def axes(draw, max_length: int = 14):
    """One dimension of a grid, as (what `Grid` takes, length, edges): regular or variable, the last cell overhanging."""
    length = draw(st.integers(0, max_length))
    if draw(st.booleans()):
        chunk = draw(st.integers(1, max_length + 3))
        return Regular(length, chunk), length, np.arange(0, length + chunk, chunk)
    e = [0]
    while e[-1] < length:
        e.append(e[-1] + draw(st.integers(1, 6)))
    return np.array(e), length, np.array(e)


@st.composite
def selections(draw, length: int):
    """A selection on one dimension: a slice, an integer, an index array in any order with repeats, or a mask."""
    kinds = [slices(length), st.lists(st.booleans(), min_size=length, max_size=length).map(lambda m: np.array(m, bool))]
    if length:
        index = st.integers(-length, length - 1)
        kinds += [index, st.lists(index, max_size=10).map(lambda i: np.array(i, np.int64))]
    return draw(st.one_of(kinds))


@st.composite
def selected_grids(draw, max_dims: int = 4):
    """A grid of 0 to `max_dims` dimensions and one selection for each."""
    dims = draw(st.lists(axes(max_length=14 if max_dims < 4 else 9), max_size=max_dims))
    return Grid([a for a, _, _ in dims], [n for _, n, _ in dims]), [draw(selections(n)) for _, n, _ in dims]
