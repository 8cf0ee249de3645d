"""Plain NumPy and standard-library twins of kernels and codecs.

Slow, obvious, and written without looking at the code they check.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from fractions import Fraction

import netCDF4
import numpy as np

# ---- gather ----------------------------------------------------------------------------------------------------


def gather_element(value, source, target, scale, offset, fills, valid_min, valid_max, fill):
    """Return one gathered element of type `target`, or None where `target` cannot hold it, in exact numbers."""
    same = float if source.kind == "f" else int
    with np.errstate(over="ignore"):
        given = [f for f in (*fills, valid_min, valid_max) if f is not None]
        typed = [float(source.type(f)) if source.kind == "f" else f for f in given]
    v = same(value)
    above = valid_max is not None and v > typed.pop()
    below = valid_min is not None and v < typed.pop()
    missing = math.isnan(v) or above or below or v in typed
    if missing:
        return target.type(fill) if fill is not None else target.type(math.nan) if target.kind == "f" else None
    pure = scale == 1 and offset == 0
    result = v if pure else float(v) * scale + offset
    if target.kind == "f":
        with np.errstate(over="ignore"):
            x = target.type(result)
        if math.isfinite(v) and not math.isfinite(x):
            return None
        return None if pure and source.kind != "f" and int(x) != v else x
    if not math.isfinite(result) or (pure and result != round(result)):
        return None
    whole = round(result)
    exact = pure or max(abs(whole), 0 if source.kind == "f" else abs(v)) <= 2**53
    info = np.iinfo(target)
    return target.type(whole) if exact and info.min <= whole <= info.max else None


def gather(source, target, scale=1.0, offset=0.0, fills=(), valid_min=None, valid_max=None, fill=None):
    """Return the gathered array of type `target` and where it cannot hold an element, one element after the other."""
    out, bad = np.zeros(source.shape, target), np.zeros(source.shape, bool)
    for index in np.ndindex(source.shape):
        x = gather_element(source[index], source.dtype, out.dtype, scale, offset, fills, valid_min, valid_max, fill)
        bad[index] = x is None
        out[index] = 0 if x is None else x
    return out, bad


def gather_whole(source, target, scale=1.0, offset=0.0, fills=(), fill=np.nan):
    """Return the same for large arrays that have no bad element, one pass after the other."""
    native = source.astype(source.dtype.newbyteorder("="))
    result = native if (scale, offset) == (1, 0) else native.astype("f8") * scale + offset
    out = np.asarray(result, target)
    missing = np.isin(native, np.array(fills, native.dtype)) | np.isnan(native)
    out[missing] = fill if missing.any() else 0
    return out


# --- calendars -------------------------------------------------------------------------------------------------------


def _leap(calendar, year):
    if calendar == "julian" or (calendar == "standard" and year < 1582):
        return year % 4 == 0
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_lengths(calendar, year):
    if calendar == "360_day":
        return [30] * 12
    leap = {"noleap": False, "all_leap": True}.get(calendar, _leap(calendar, year))
    return [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


@functools.cache
def calendar_table(calendar, first, last):
    """Return year, month and day of every day from year `first` to `last`, counted one after another."""
    blocks, years = {}, []
    for year in range(first, last + 1):  # counted with a year 0
        lengths = _month_lengths(calendar, year)
        key = (lengths[1], calendar == "standard" and year == 1582)
        if key not in blocks:
            dates = [(m, d) for m, length in enumerate(lengths, 1) for d in range(1, length + 1)]
            blocks[key] = np.array([(m, d) for m, d in dates if not (key[1] and m == 10 and 4 < d < 15)], np.int64)
        years.append((year - 1 if year <= 0 and calendar in {"standard", "julian"} else year, blocks[key]))
    month_day = np.concatenate([block for _, block in years])
    return np.repeat([y for y, _ in years], [len(b) for _, b in years]), month_day[:, 0], month_day[:, 1]


@functools.cache
def first_day(calendar, year):
    """Return 1 January of a year (counted with a year 0) in days since 1 March of year 0, Gregorian in `standard`."""
    low, high = sorted((year, 0))
    days = sum(sum(_month_lengths(calendar, y)) for y in range(low, high))
    days -= 10 if calendar == "standard" and low <= 1582 < high else 0
    days = -days if year < 0 else days
    # January and February of year 0 are before the origin; the Julian 1 March is two days before the Gregorian.
    origin = sum(_month_lengths(calendar, 0)[:2]) + (2 if calendar == "standard" else 0)
    return days - origin


def day_of(calendar, year, month, day):
    """Return a date after 1582 in days since the origin of `first_day`."""
    return first_day(calendar, year) + sum(_month_lengths(calendar, year)[: month - 1]) + day - 1


def with_year_zero(calendar, date):
    """Return dates with their years counted with a year 0."""
    year, month, day = date
    return (np.where(year < 0, year + 1, year) if calendar in {"standard", "julian"} else year), month, day


# Projection ---------------------------------------------------------------------------------------------------------


def select(array, selection):
    """Return the orthogonal selection of a whole array; an integer leaves size 1."""
    for d, entry in enumerate(selection):
        array = np.take(array, np.atleast_1d(np.arange(array.shape[d])[entry]), axis=d)
    return array


def cells_of(edges, elements):
    """Return for every touched cell, ascending, its elements in order of their values, and their output positions."""
    found = {}
    for position, element in sorted(enumerate(elements), key=lambda pair: pair[1]):
        cell = max(c for c in range(len(edges)) if edges[c] <= element)
        within, positions = found.setdefault(cell, ([], []))
        within.append(element - edges[cell])
        positions.append(position)
    return sorted(found.items())


def chunk_store(array, chunks):
    """Return the chunks of an array at full size, flat in C order, shape (number of chunks, chunk size)."""
    padded = np.full([n + -n % c for n, c in zip(array.shape, chunks, strict=True)], -1, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    starts = itertools.product(*(range(0, n, c) for n, c in zip(array.shape, chunks, strict=True)))
    cut = [padded[tuple(slice(s, s + c) for s, c in zip(start, chunks, strict=True))].ravel() for start in starts]
    return np.array(cut, array.dtype).reshape(len(cut), math.prod(chunks))


# --- conforming ------------------------------------------------------------------------------------------------------


def missing(stored, attributes, netcdf=True):
    """Return which stored numbers are missing, by the text of CF 2.5.1 and the NetCDF User's Guide, in whole arrays.

    Attributes are NumPy arrays.  A valid attribute of the stored type, or of any integer type beside 8-bit data, is
    compared with stored values, one of another type with unpacked values.
    """
    sign = {"true": "u", "false": "i"}.get(str(attributes.get("_Unsigned", "")).lower(), stored.dtype.kind)
    meant = np.dtype(sign + stored.dtype.str[2:]) if stored.dtype.kind in "iu" else stored.dtype
    values = stored.view(meant)
    out = values != values  # noqa: PLR0124
    fills = [f for name in ("_FillValue", "missing_value") for f in attributes.get(name, [])]
    if netcdf and "_FillValue" not in attributes and stored.dtype.itemsize > 1:
        fills.append(np.array(netCDF4.default_fillvals[stored.dtype.str[1:]]).astype(stored.dtype)[()])

    def as_stored(number):
        if stored.dtype.kind == "f":
            return stored.dtype.type(number)
        fits = np.iinfo(stored.dtype).min <= number <= np.iinfo(stored.dtype).max and number == int(number)
        return int(np.array(int(number), stored.dtype).view(meant)) if fits else number

    for fill in fills:
        out |= values == as_stored(fill)
    scale = attributes.get("scale_factor", np.array([1.0]))[0]
    offset = attributes.get("add_offset", np.array([0.0]))[0]
    unpacked = values.astype("f8") * float(scale) + float(offset)
    digits = [a[0].dtype.type for n, a in attributes.items() if n in ("scale_factor", "add_offset")]
    for name in ("valid_min", "valid_max", "valid_range"):
        for k, bound in enumerate(attributes.get(name, [])):
            own = bound.dtype == stored.dtype or (
                bound.dtype.kind in "iu" and stored.dtype.kind in "iu" and bound.itemsize == stored.itemsize
            )
            own |= stored.itemsize == 1 and bound.dtype.kind in "iu"
            upper = name == "valid_max" or k == 1
            if own or (scale == 1 and offset == 0):
                out |= values > as_stored(bound) if upper else values < as_stored(bound)
                continue
            real = bound.dtype.type if bound.dtype.kind == "f" else max(digits, key=lambda t: np.finfo(t).eps)
            cancelled = max(np.finfo(t).eps for t in digits) * (abs(float(bound) - float(offset)) + abs(float(offset)))
            near = max(4 * float(np.spacing(real(abs(bound)))), float(cancelled))
            out |= unpacked > float(bound) + near if upper else unpacked < float(bound) - near
    return out


def conformed(block, dims, flipped, attributes, units, master_dims, master_dtype, master_attributes, fill):
    """Return a sub-array in the master's form, one step after another in the order that the specification gives.

    `units` are the scale and offset of the change of units; `fill` is the master's missing value.
    """
    if attributes.get("_Unsigned") == "true":
        block = block.astype(block.dtype.str.replace("i", "u"))
    wrap = 256**block.dtype.itemsize if attributes.get("_Unsigned") == "true" else None
    stored = block.astype(object)
    missing = np.zeros(block.shape, bool)
    fills = [*np.atleast_1d(attributes.get("_FillValue", [])), *np.atleast_1d(attributes.get("missing_value", []))]
    if "_FillValue" not in attributes and block.dtype.itemsize > 1:
        default = {"i2": -32767, "u2": 65535, "i4": -2147483647}.get(block.dtype.str[1:], 9.969209968386869e36)
        fills.append(default if wrap is None else -32767)
    low, high = attributes.get("valid_range", [None, None])
    for index, value in np.ndenumerate(stored):
        same = [f if block.dtype.kind == "f" or wrap is None else int(f) % wrap for f in fills]
        missing[index] = value != value or any(value == block.dtype.type(f) for f in same)  # noqa: PLR0124
        if low is not None:
            ends = [low, high] if wrap is None else [int(low) % wrap, int(high) % wrap]
            missing[index] |= not ends[0] <= value <= ends[1]
    values = block.astype("f8") * attributes.get("scale_factor", 1.0) + attributes.get("add_offset", 0.0)
    values = values * units[0] + units[1]
    for axis, flip in enumerate(flipped):
        if flip:
            values, missing = np.flip(values, axis), np.flip(missing, axis)
    present = [d for d in master_dims if d in dims]
    order = [dims.index(d) for d in present] + [k for k, d in enumerate(dims) if d not in master_dims]
    shape = [block.shape[dims.index(d)] if d in dims else 1 for d in master_dims]
    values, missing = (a.transpose(order).reshape(shape) for a in (values, missing))
    values = (values - master_attributes.get("add_offset", 0.0)) / master_attributes.get("scale_factor", 1.0)
    values = np.where(missing, 0, values)
    out = np.array(np.rint(values) if np.dtype(master_dtype).kind in "iu" else values, master_dtype)
    out[missing] = fill
    return out


# ---- NCA 0.1 ---------------------------------------------------------------------------------------------------


def part_indices(text, shape):
    """The indices of a `part` as lists, by cutting the text at its brackets."""
    out = []
    for opening, body in re.findall(r"([\[(])([^\[\]()]*)[\])]", text.strip()[1:-1]):
        numbers = [int(n) for n in body.split(",") if n.strip()]
        out.append(list(range(*numbers)) if opening == "(" else numbers)
    return out or [list(range(n)) for n in shape]


def nca_master(document, dims, sizes, arrays):
    """The master array of a decoded ``nca_array``, by the text's own steps; `arrays` by (file, ncvar)."""
    out = np.full([sizes[d] for d in dims], -1)
    master = document["directions"] if dims else {}
    for p in document["Partitions"]:
        data = arrays[p["data"].get("file"), p["data"]["ncvar"]]
        data = data[np.ix_(*part_indices(p.get("part", "[]"), data.shape))] if data.ndim else data
        names = list(p.get("dimensions", dims))
        directions = p.get("directions", {})
        for axis, dim in enumerate(names):
            if dim in dims and isinstance(directions, dict) and directions.get(dim, master[dim]) != master[dim]:
                data = np.flip(data, axis)
        extra = [d for d in names if d not in dims]
        data = data.reshape(data.shape + (1,) * sum(d not in names for d in dims))
        names += [d for d in dims if d not in names]
        data = data.transpose([names.index(d) for d in [*extra, *dims]]).reshape(
            data.size and [-1] if not dims else [data.shape[names.index(d)] for d in dims]
        )
        out[tuple(slice(*r) for r in p["location"])] = data if dims else data[0]
    return out


# ---- sums of chunks --------------------------------------------------------------------------------------------


def counted(block, fills=(), valid_min=None, valid_max=None):
    """Where values count: compared as exact Python numbers, after fills and bounds took the type of a real block."""
    kind = block.dtype.type

    def typed(value):
        with np.errstate(over="ignore"):
            return float(kind(value)) if block.dtype.kind == "f" else value

    low, high = (None if b is None or math.isnan(b) else typed(b) for b in (valid_min, valid_max))
    missing = {typed(f) for f in fills}
    return np.array(
        [
            math.isfinite(v) and v not in missing and (low is None or v >= low) and (high is None or v <= high)
            for v in block.ravel().tolist()
        ],
        bool,
    ).reshape(block.shape)


def cells(array, axes):
    """The values of each cell of a reduction over some axes as lists, and its shape."""
    kept = [a for a in range(array.ndim) if a not in axes]
    shape = [array.shape[a] for a in kept]
    rows = array.transpose([*kept, *axes]).reshape(math.prod(shape), -1 if array.size else 0)
    return rows.tolist(), shape


def reduced(array, axes, function, dtype):
    """A function of the list of values of each cell."""
    rows, shape = cells(array, axes)
    return np.array([function(row) for row in rows], dtype).reshape(shape)


def centred_squares(values, weights):
    """The exact weighted sum of squared distances from the weighted mean."""
    values, weights = [Fraction(v) for v in values], [Fraction(w) for w in weights]
    total = sum(weights)
    if not total:
        return 0.0
    mean = sum(w * v for v, w in zip(values, weights, strict=True)) / total
    return float(sum(w * (v - mean) ** 2 for v, w in zip(values, weights, strict=True)))


def running_sums(parts):
    """The exact running sums of a list of numbers."""
    out, total = [], Fraction(0)
    for part in parts:
        total += Fraction(part)
        out.append(total)
    return out


# ---- sums over ranges ------------------------------------------------------------------------------------------


def memberships(runs, length):
    """How often each position along an axis belongs to each group, shape (groups, length)."""
    out = np.zeros((runs.groups, length), np.int64)
    for start, stop, group in zip(runs.start, runs.stop, runs.group, strict=True):
        out[group, start:stop] += 1
    return out


def fold_memberships(fold, length):
    """The same of a fold, whose segments count with their coefficients."""
    out = np.zeros((fold.groups, length), np.int64)
    for segment, group, coefficient in zip(fold.segment, fold.group, fold.coefficient, strict=True):
        out[group, fold.start[segment] : fold.stop[segment]] += coefficient
    return out


def requested_sums(values, request):
    """Sums of a whole array over the ranges of a request, in the type of the array."""
    for axis, runs in request.reduced.items():
        matrix = memberships(runs, values.shape[axis]).astype(values.dtype)
        values = np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
    for axis, chosen in request.kept.items():
        values = np.take(values, np.arange(values.shape[axis])[chosen], axis)
    gone = tuple(axis for axis, runs in request.reduced.items() if not runs.stays)
    return values.squeeze(gone)


def requested_cells(values, request):
    """Yield the index in the result, with all axes, and the cells behind it, for every group and position."""
    request = request.resolve(values.shape)
    along = []
    for axis in range(values.ndim):
        if axis in request.kept:
            along.append([[p] for p in request.kept[axis]])
            continue
        runs = request.reduced[axis]
        members = [[] for _ in range(runs.groups)]
        for a, b, g in zip(runs.start, runs.stop, runs.group, strict=True):
            members[g] += range(a, b)
        along.append(members)
    for index in np.ndindex(request.lengths):
        yield index, values[np.ix_(*(np.array(m[i], "i8") for m, i in zip(along, index, strict=True)))]


# --- observations: statistics ----------------------------------------------------------------------------------------


def column_statistics(column):
    """Return mean, minimum, maximum, standard deviation and number of NaN of float32 values, in fractions."""
    values = [float(v) for v in column if not math.isnan(v)]
    nan = len(column) - len(values)
    if not values:
        return (math.nan,) * 4 + (0 + nan,)
    low, high = min(values) + 0.0, max(values) + 0.0
    if any(math.isinf(v) for v in values):
        return sum(v for v in values if math.isinf(v)), low, high, math.nan, nan
    mean = sum(map(Fraction, values)) / len(values)
    variance = sum((Fraction(v) - mean) ** 2 for v in values) / len(values)
    return float(mean), low, high, variance, nan


# ---- observations ----------------------------------------------------------------------------------------------


def in_window(epoch: int, date: int, start: Fraction, end: Fraction, closed_start: bool, closed_end: bool) -> bool:
    """Say whether an observation belongs to a window, by comparing exact numbers of seconds."""
    offset = Fraction(epoch - date)
    after = offset >= start if closed_start else offset > start
    before = offset <= end if closed_end else offset < end
    return after and before


def dates_of_samples(start: int, end: int, frequency: int) -> list[int]:
    """Return the dates of samples by the loop of the founding text."""
    result, date = [], start
    while date <= end:
        result.append(date)
        date += frequency
    return result


def rows_between(epochs, starts, lengths, lo: int, hi: int) -> tuple[int, int]:
    """First row, and row after the last, with lo <= epoch < hi, entry by entry; where it would be if there is none."""
    begin = end = None
    for epoch, start, length in zip(list(epochs), list(starts), list(lengths), strict=True):
        if epoch >= lo and begin is None:
            begin = end = int(start)
        if lo <= epoch < hi:
            end = int(start) + int(length)
    rows = int(starts[-1] + lengths[-1]) if len(epochs) else 0
    return (rows, rows) if begin is None or end is None else (begin, end)


def btree_pages(entries: list[tuple[int, int, int]], room: int) -> tuple[list[list[int]], int]:
    """Pages of a B+tree that is loaded from sorted entries, page 1 first, and the page of its root."""

    def page(is_node: int, left: int, right: int, content: list[tuple[int, int, int]]) -> list[int]:
        flat = [number for entry in content for number in entry]
        return [is_node, len(content), left, right, *flat, *[0] * (3 * room - len(flat))]

    groups = [entries[i : i + room] for i in range(0, len(entries), room)]
    if len(groups) < 2:
        return [page(0, 0, 0, entries)], 1
    pages = [page(0, 0, 0, [])]
    level = []
    for i, group in enumerate(groups):
        number = len(pages) + 1
        pages.append(page(0, number - 1 if i else 0, number + 1 if i + 1 < len(groups) else 0, group))
        level.append((group[0][0], number))
    while len(level) > 1:
        above = []
        for i in range(0, len(level), room + 1):
            children = level[i : i + room + 1]
            above.append((children[0][0], len(pages) + 1))
            pages.append(page(1, children[0][1], 0, [(key, child, 0) for key, child in children[1:]]))
        level = above
    return pages, level[0][1]


# ---- observations: order of rows -------------------------------------------------------------------------------


def sorted_rows(rows):
    """Return rows sorted by all columns, NaN last, each distinct one once; -0.0 equals 0.0, and NaN any NaN."""
    rows = np.array(rows, "f4")
    rows[np.isnan(rows)] = np.nan
    rows[rows == 0] = 0
    rows = rows[np.lexsort(rows.T[::-1])] if len(rows) else rows
    same = ((rows[1:] == rows[:-1]) | (np.isnan(rows[1:]) & np.isnan(rows[:-1]))).all(axis=1)
    return rows[np.concatenate([[True], ~same])] if len(rows) else rows


# ---- WGDOS -----------------------------------------------------------------------------------------------------


def ibm_float(word):
    """Return what a word means in IBM's floating point."""
    return (-1) ** (word >> 31) * (word & 0xFFFFFF) * Fraction(16) ** ((word >> 24 & 127) - 64) / 2**24


def unpack_wgdos(stored, shape, missing):
    """Return values as fractions and `missing`, and how many lack in each row; None where a row cannot be.

    The bits of a row are taken for a text of digits.
    """
    words = [int(w) for w in stored]
    exponent = words[1] - 2**32 * (words[1] >> 31)
    if abs(exponent) > 900:
        return None
    at, rows, lacking = 3, [], []
    for _ in range(shape[0]):
        if at + 2 > len(words):
            return None
        base, flags, held = ibm_float(words[at]), words[at + 1] >> 16, words[at + 1] & 0xFFFF
        text = "".join(f"{w:032b}" for w in words[at + 2 : at + 2 + held])
        at += 2 + held
        maps = (flags >> 5).bit_count()
        taken = 32 * -(-maps * shape[1] // 32)
        if at > len(words) or flags > 255 or taken > len(text):
            return None
        missed, least, zero = ("0" * shape[1], "0" * shape[1], "1" * shape[1])
        begin = 0
        if flags & 32:
            missed, begin = text[begin : begin + shape[1]], begin + shape[1]
        if flags & 64:
            least, begin = text[begin : begin + shape[1]], begin + shape[1]
        if flags & 128:
            zero, begin = text[begin : begin + shape[1]], begin + shape[1]
        text, bits, row, short = text[taken:], flags % 32, [], 0
        for column in range(shape[1]):
            if zero[column] == "0" and missed[column] == "1":
                return None
            if zero[column] == "0":
                row.append(Fraction(0))
            elif missed[column] == "1":
                row.append(missing)
            elif least[column] == "1" or not bits:
                row.append(base)
            elif len(text) < bits:
                row.append(missing)
                short += 1
            else:
                row.append(base + int(text[:bits], 2) * Fraction(2) ** exponent)
                text = text[bits:]
        rows.append(row)
        lacking.append(short)
    return rows, lacking
