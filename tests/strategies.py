"""Hypothesis strategies shared by the tests: grids, selections, calendars, packings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from cfagg.accumulation.ranges import Request, Runs
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


# ---- gather ----------------------------------------------------------------------------------------------------

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
    cut = (..., *(slice(0, abs(steps[d]) * shape[d], abs(steps[d])) for d in order))
    flips = (..., *(slice(None, None, 1 if step > 0 else -1) for step in steps))
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
def gather_arguments(draw, target: str, pure: bool | None = None, masked: bool | None = None) -> dict:
    """Scale, offset, fills, bounds and fill for a type; `pure` and `masked` as asked for, else any."""
    out = {}
    if not (draw(st.booleans()) if pure is None else pure):
        out["scale"] = draw(st.sampled_from([0.1, 1.0, -1.0, 2.0, 1000.0, 1e-5, 1e300]))
        out["offset"] = draw(st.sampled_from([0.5, 0.0, -273.15, 1.0, 2.0**31, -1e18]))
    if not (draw(st.booleans()) if masked is None else masked):
        return out
    place = np.dtype(target)
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
    """One dimension of a grid, as `Grid` takes it, length and edges; regular or variable, the last cell overhanging."""
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


# --- conforming ------------------------------------------------------------------------------------------------------


@st.composite
def sub_arrays(draw) -> dict:
    """A sub-array as stored (block, dims, flipped, attributes) and a master array for it.

    All factors are powers of two, or whole, so that any order of computation gives the same numbers.
    """
    master_dims = tuple(draw(st.permutations(["t", "y", "x"]))[: draw(st.integers(0, 3))])
    absent = {d for d in master_dims if draw(st.integers(0, 4)) == 0}
    extra = ["z"] if draw(st.booleans()) else []
    dims = tuple(draw(st.permutations([d for d in master_dims if d not in absent] + extra)))
    shape = tuple(1 if d == "z" else draw(st.integers(1, 3)) for d in dims)
    dtype = np.dtype(draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "f4", "f8", ">i2", ">f4"])))
    low = 0 if dtype.kind == "u" else -100
    values = draw(st.lists(st.integers(low, 100), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    attributes: dict = {}
    if dtype.kind == "i" and dtype.itemsize < 4 and draw(st.booleans()):
        attributes["_Unsigned"] = "true"
    if draw(st.booleans()):
        attributes["_FillValue"] = dtype.type(draw(st.integers(low, 100)))
    if draw(st.booleans()):
        attributes["missing_value"] = np.array(draw(st.lists(st.integers(low, 100), min_size=1, max_size=3)), dtype)
    if draw(st.booleans()) and "_Unsigned" not in attributes:
        attributes["valid_range"] = np.sort(np.array(draw(st.tuples(*[st.integers(low, 100)] * 2)), dtype))
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.25, 0.5, 2.0, -1.0]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([-7.5, 0.25, 100.0]))
    units = draw(st.sampled_from([("K", "K", (1, 0)), ("km", "m", (1000, 0)), ("K @ 256", "K", (1, 256))]))
    return {
        "block": np.array(values, dtype).reshape(shape),
        "dims": dims,
        "flipped": tuple(draw(st.booleans()) for _ in dims),
        "attributes": attributes,
        "units": units,
        "master_dims": master_dims,
        "master": draw(
            st.sampled_from(
                [
                    ("f4", {}, np.nan),
                    ("f8", {"_FillValue": -99999.0}, -99999.0),
                    ("f4", {"missing_value": 1e20}, np.float32(1e20)),
                    ("i4", {"scale_factor": 0.25, "add_offset": 1.0, "_FillValue": -(2**31)}, -(2**31)),
                    (">f4", {"_FillValue": np.nan}, np.nan),
                ]
            )
        ),
    }


# ---- NCA 0.1 ---------------------------------------------------------------------------------------------------


@st.composite
def names(draw) -> str:
    """A name in any script, without white space or control characters."""
    return draw(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6))


@st.composite
def takings(draw, count: int) -> tuple[list[int], int, str]:
    """`count` indices of a dimension, in any order that a `part` can say; its size; and the text."""
    if draw(st.booleans()):
        step = draw(st.sampled_from([1, 2, 3, -1, -2]))
        low = draw(st.integers(0, 2))
        span = (count - 1) * abs(step) + 1
        start = low if step > 0 else low + span - 1
        stop = start + count * step
        if step < 0 and stop < -1:
            stop = -1
        return list(range(start, stop, step)), low + span + draw(st.integers(0, 2)), f"({start}, {stop}, {step})"
    indices = draw(st.lists(st.integers(0, count + 4), min_size=count, max_size=count, unique=True))
    space = draw(st.sampled_from(["", " "]))
    return indices, max(indices) + 1 + draw(st.integers(0, 2)), f"[{f',{space}'.join(map(str, indices))}]"


@st.composite
def nca_documents(draw, max_dims: int = 3):
    """A decoded ``nca_array``, its dimensions, all sizes, the sub-arrays by (file, ncvar), and the master array.

    The list of partitions and the partitioned dimensions come in any order; sub-arrays have permuted, missing, extra,
    reversed dimensions, parts, and all optional keys.
    """
    dims = draw(st.lists(names(), max_size=max_dims, unique=True))
    cuts = [draw(edges(max_cells=3, max_size=4).filter(lambda e: len(e) > 1)) for _ in dims]
    sizes = {d: int(e[-1]) for d, e in zip(dims, cuts, strict=True)}
    extra = [d for d in ("height", "run", "été") if d not in dims]
    master = np.arange(int(np.prod(list(sizes.values()), dtype=int))).reshape([sizes[d] for d in dims])
    directions = {d: draw(st.booleans()) for d in dims}
    pdims = draw(st.permutations([d for d, e in zip(dims, cuts, strict=True) if len(e) > 2 or draw(st.booleans())]))
    partitions, arrays = [], {}
    for number, index in enumerate(np.ndindex(*[len(e) - 1 for e in cuts])):
        location = [[int(e[i]), int(e[i + 1])] for e, i in zip(cuts, index, strict=True)]
        block = master[tuple(slice(*r) for r in location)]
        kept = [d for d, n in zip(dims, block.shape, strict=True) if n > 1 or draw(st.booleans())]
        added = draw(st.lists(st.sampled_from(extra), max_size=2, unique=True))
        order = draw(st.permutations([*kept, *added]))
        block = block.reshape([n for d, n in zip(dims, block.shape, strict=True) if d in kept] + [1] * len(added))
        block = block.transpose([[*kept, *added].index(d) for d in order])
        p = {"index": [index[dims.index(d)] for d in pdims], "location": location}
        own = {d: draw(st.booleans()) for d in order if d in added or draw(st.booleans())}
        flips = [a for a, d in enumerate(order) if d in dims and own.get(d, directions[d]) != directions[d]]
        block = np.flip(block, flips)
        if own:
            p["directions"] = own
        if order != dims or draw(st.booleans()):
            p["dimensions"] = order
        data = {"shape": list(block.shape)}
        if block.ndim and draw(st.booleans()):
            taken = [draw(takings(n)) for n in block.shape]
            whole = np.full([n for _, n, _ in taken], -7)
            whole[np.ix_(*[i for i, _, _ in taken])] = block
            p["part"] = f"[{', '.join(t for _, _, t in taken)}]"
            block, data["shape"] = whole, list(whole.shape)
        for key, values in (("format", names()), ("units", st.text(max_size=3)), ("calendar", names())):
            if draw(st.integers(0, 3)) == 0:
                p[key] = draw(values)
        if draw(st.booleans()):
            data["file"] = f"{draw(names())}{number}"
        if draw(st.integers(0, 3)) == 0:
            data["dtype"] = draw(st.sampled_from(["double", "float", "short", "int64", ">i2"]))
        data["ncvar"] = f"{draw(names())}{number}"
        for key, values in (
            ("file_offset", st.integers(0, 2**62)),
            ("lbpack", st.integers(0, 4)),
            ("scale_factor", st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)),
            ("add_offset", st.floats(allow_nan=False, allow_infinity=False)),
        ):
            packed = key in ("scale_factor", "add_offset")  # says nothing of netCDF files
            if draw(st.integers(0, 3)) == 0 and not (packed and p.get("format", "netcdf").lower().startswith("netcdf")):
                data[key] = draw(values)
        arrays[data.get("file"), data["ncvar"]] = block
        p["data"] = data
        partitions.append(p)
    document = {
        "directions": directions if dims else draw(st.booleans()),
        "pdimensions": pdims,
        "pshape": [len(cuts[dims.index(d)]) - 1 for d in pdims],
        "Partitions": draw(st.permutations(partitions)),
    }
    document = {key: document[key] for key in draw(st.permutations(list(document)))}
    return document, dims, {**sizes, **dict.fromkeys(extra, 1)}, arrays, master


@st.composite
def number_blocks(draw, dtype: str, shape: tuple[int, ...]) -> tuple[np.ndarray, dict]:
    """A block with values that do not count, in any layout of memory, and the arguments that say which these are."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arguments: dict = {}
    if kind.kind == "f":
        scale = draw(st.sampled_from([1.0, 1e-6, 1e9]))
        values = (rng.normal(280 * draw(st.booleans()), scale, shape)).astype(kind)
        fills = [1e20, -9999.0, np.nan, np.inf]
    else:
        info = np.iinfo(kind)
        most = min(int(info.max), 2**40)
        values = rng.integers(max(int(info.min), -most), most, shape, kind, endpoint=True)
        fills = [0, 7, int(info.max), int(info.min), 2**70, 0.5]
    chosen = draw(st.lists(st.sampled_from(fills), max_size=4))
    holes = [kind.type(f) for f in chosen if kind.kind == "f" or (f != 0.5 and info.min <= f <= info.max)]
    if kind.kind == "f":
        holes += [kind.type(v) for v in draw(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), max_size=2))]
    share = draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    if holes and share:
        values = np.where(rng.random(shape) < share, rng.choice(np.array(holes, kind), shape), values)
    if chosen:
        arguments["fills"] = chosen
    middle = float(np.median(values)) if values.size and np.isfinite(values).all() else 0.0
    for name in ("valid_min", "valid_max"):
        if draw(st.integers(0, 3)) == 0:
            arguments[name] = draw(st.sampled_from([middle, int(middle), 2.0**70, -np.inf, np.nan]))
    block = draw(views(shape, dtype, swapped=True))
    block[...] = values
    return block, arguments


@st.composite
def axes_sets(draw, ndim: int, max_size: int = 4) -> list[tuple[int, ...]]:
    """Distinct sets of axes, each ascending and not empty."""
    if ndim == 0:
        return []
    one = st.sets(st.integers(0, ndim - 1), min_size=1).map(lambda t: tuple(sorted(t)))
    return draw(st.lists(one, max_size=max_size, unique=True))


# ---- sums over ranges ------------------------------------------------------------------------------------------


@st.composite
def runs(draw, length: int) -> Runs:
    """Ranges on a dimension: all of it, one, a slice, positions by groups, or any that overlap and repeat."""
    keep = draw(st.booleans())
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Runs.whole(length, keep=keep)
    if kind == 1:
        start, stop = sorted(draw(st.tuples(st.integers(0, length), st.integers(0, length))))
        return Runs([start], [stop], [0], keep=keep)
    if kind == 2:
        return Runs.of_slice(draw(slices(length)), length, keep=keep)
    groups = draw(st.integers(1, 4))
    if kind == 3:
        positions = draw(st.lists(st.integers(0, length - 1), max_size=2 * length)) if length else []
        codes = draw(st.lists(st.integers(-1, groups - 1), min_size=len(positions), max_size=len(positions)))
        return Runs.of_positions(positions, codes, groups, keep=keep)
    ends = draw(st.lists(st.tuples(st.integers(0, length), st.integers(0, length)).map(sorted), max_size=6))
    codes = draw(st.lists(st.integers(0, groups - 1), min_size=len(ends), max_size=len(ends)))
    return Runs([a for a, _ in ends], [b for _, b in ends], codes, groups, keep)


@st.composite
def requests(draw, shape: tuple[int, ...]) -> Request:
    """Any request on an array of this shape."""
    reduced, kept = {}, {}
    for axis, n in enumerate(shape):
        if draw(st.integers(0, 2)):
            reduced[axis] = draw(runs(n))
        elif draw(st.booleans()):
            kept[axis] = draw(slices(n))
        else:
            kept[axis] = np.array(draw(st.lists(st.integers(-n, n - 1), max_size=5)) if n else [], np.int64)
    return Request(reduced, kept)


@st.composite
def samples(draw, length: int) -> np.ndarray:
    """Positions up to which sums are stored; not always up to the end."""
    at = draw(st.sets(st.integers(1, length), max_size=6)) if length else set()
    if length and draw(st.booleans()):
        at.add(length)
    return np.array(sorted(at), np.int64)


# ---- observations ----------------------------------------------------------------------------------------------


@st.composite
def offsets(draw) -> tuple[str, Fraction]:
    """Text of an end of a window, and its seconds."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    number = draw(st.integers(0, 500))
    text, size = draw(
        st.sampled_from(
            [
                ("{}", 3600), ("{}h", 3600), ("{} d", 86400), ("{}m", 60), ("{}min", 60), ("{}s", 1), ("{}.5", None),
                ("{}.25s", None), ("PT{}M", 60), ("P{}D", 86400), ("{}:30", None), ("{}/7s", None),
            ]
        )
    )  # fmt: skip
    special = {
        "{}.5": Fraction(2 * number + 1, 2) * 3600,
        "{}.25s": number + Fraction(1, 4),
        "{}:30": Fraction(number * 3600 + 1800),
        "{}/7s": Fraction(number, 7),
    }
    seconds = special[text] if size is None else Fraction(number * size)
    return sign + text.format(number), -seconds if sign == "-" else seconds


@st.composite
def index_entries(draw, most: int = 1100, distinct: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of an index: even, with gaps, at random, several of one epoch unless distinct; one, or none."""
    n = draw(st.one_of(st.integers(0, 20), st.sampled_from([63, 64, 65, 66, 511, 512, 513, 1025, most])))
    n = min(n, most)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    least = 1 if distinct else 0

    def column(low: int) -> np.ndarray:
        kind = draw(st.sampled_from(["even", "random", "rare", "huge"]))
        even = np.full(n, draw(st.integers(low, 7)), np.int64)
        if kind == "random":
            return rng.integers(low, low + draw(st.sampled_from([2, 9, 1000])), n)
        if kind == "rare":
            return np.where(rng.random(n) < 0.02, rng.integers(low, 10**6, n), even)
        if kind == "huge":
            return np.where(rng.random(n) < 0.5, rng.integers(low, 2**58 // (n + 1), n), even)
        return even

    epoch = draw(st.sampled_from([-(10**9), 0, 1_577_836_800])) + np.cumsum(column(least), dtype=np.int64)
    length = column(1)
    return epoch, np.cumsum(length) - length, length


@st.composite
def intervals(draw, epochs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of dates as windows have them, open or closed at either end: at, between and beyond epochs."""
    near = [0, 5, *(int(e) for e in epochs[:: max(1, len(epochs) // 20)]), *(int(e) for e in epochs[-1:])]
    end = st.tuples(st.sampled_from(near), st.integers(-2, 2)).map(sum)
    pairs = draw(st.lists(st.tuples(end, end), max_size=12))
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


@st.composite
def observation_rows(draw, most: int = 40, columns: int = 5) -> np.ndarray:
    """Rows of observations in any order, many of which are equal in their first columns, or altogether."""
    n = draw(st.integers(0, most))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = np.empty((n, columns), "f4")
    rows[:, 0] = chance.integers(-2, 3, n)
    rows[:, 1] = chance.choice([0, 1, 86399], n)
    values = np.array([-90, -0.0, 0.0, 1e-40, 5.5, np.nan, np.inf, -np.inf], "f4")
    rows[:, 2:] = chance.choice(values[: draw(st.integers(1, len(values)))], (n, columns - 2))
    return rows
