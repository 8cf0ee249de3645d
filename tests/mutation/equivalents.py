"""Mutants that no test can tell from the original, each with its reason; they are not tried.

Keyed by the module; then the line of the source, what is changed in it, and what it becomes.
"""

from __future__ import annotations

_TOTAL = "the sizes of all frames are summed up then, with the same result"
_HEAD = "if len(head) < 6 or not head.startswith(_ZSTD):"
_CIRCLE = "if len(levels) >= DEEPEST or visited > MOST or any(o.address == below.address for o in levels):"
_SIZE = "if size is None or not fewest <= size <= most or not size or fewest < most:"
_SIMPLE = "if near and abs((1 / near if inverse else near) - Fraction(value)) <= tolerance:"
_ROUNDED = "bad, first = _count((np.abs(changed - whole) > dates.tolerance(changed)) | (np.abs(changed) > 2.0**53))"
_ORDER = "if layout.dims != located.header.dims and len(set(located.header.shape)) < len(located.header.shape):"
_SIZES = "len(set(located.header.shape)) < len(located.header.shape)"
_NO_RIVALS = "what is compared are dimensions of other names and of one size; the condition saves opening coordinates"
_MOST = "return not most * abs(scale) + abs(offset) < float(np.finfo(target).max)"
_PLAIN = 'if pure and (target.kind in "iu" or source.kind != "f" or source.itemsize <= target.itemsize):'
_COMPARED = "a wider range is only looked at: what becomes the fill is compared with that"
_INSIDE = "inside = least <= min(results) - 1 and max(results) + 1 <= greatest"
_BEHIND = "a number stands behind whatever is passed over, and its place is behind the end, too"
_ROOM = "what is not filled is cut off"
_GALLOP = "while high < len(edges) - 1 and edges[high] <= element:"
_LEAP = "high = min(low + stride, len(edges) - 1)"
_NEARER = "elements are below the last edge; what was leapt over is bisected"
_ALONE = "a row alone is sorted"

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "cfagg/cf/conform.py": {
        (
            _ROUNDED,
            "np.abs(changed - whole) > dates.tolerance(changed)",
            "np.abs(changed - whole) >= dates.tolerance(changed)",
        ): "the tolerance is an estimate",
    },
    "cfagg/cf/dates.py": {
        ('return size >= _LARGE or (size >= 2**12 and "cfagg.kernels.calendars" in sys.modules)', "12", "13"): "speed",
    },
    "cfagg/cf/gather.py": {
        ("_LOADED, _UNLOADED = 2**22, 2**27", "2", "3"): "speed",
        ("_LOADED, _UNLOADED = 2**22, 2**27", "22", "23"): "speed",
        ("_LOADED, _UNLOADED = 2**22, 2**27", "27", "28"): "speed",
        ("_SMALL = 2**15", "2", "3"): "speed",
        ("_SMALL = 2**15", "15", "16"): "speed",
    },
    "cfagg/cf/gather_numpy.py": {
        ("_BLOCK = 2**16", "2", "3"): "speed",
        ("_BLOCK = 2**16", "16", "17"): "speed",
        ("if source.size > _BLOCK and source.ndim:", "source.size > _BLOCK", "source.size >= _BLOCK"): "speed",
        (
            'if mantissa(rule.source) > mantissa(np.dtype(np.float64)) and rule.source.kind != "f":',
            'mantissa(rule.source) > mantissa(np.dtype(np.float64)) and rule.source.kind != "f"',
            "mantissa(rule.source) > mantissa(np.dtype(np.float64))",
        ): "no real type has more digits",
        (
            'if mantissa(rule.source) > mantissa(np.dtype(np.float64)) and rule.source.kind != "f":',
            'mantissa(rule.source) > mantissa(np.dtype(np.float64)) and rule.source.kind != "f"',
            "mantissa(rule.source) > mantissa(np.dtype(np.float64)) or rule.source.kind != 'f'",
        ): "integers of fewer digits are not beyond it",
    },
    "cfagg/cf/gather_rule.py": {
        (
            'plain_nan = target.kind == "f" and math.isnan(value)',
            'target.kind == "f" and math.isnan(value)',
            "math.isnan(value)",
        ): "no integer is NaN",
        ("lost=lost and masked,", "lost and masked", "lost"): "nothing is lost where nothing is missing",
        (_MOST, _MOST[11:], _MOST[11:].replace("<", "<=")): "what is at the end of a type is in it",
        (_INSIDE, "1", "2"): "a margin",
        (_INSIDE, "max(results) + 1 <= greatest", "max(results) + 1 < greatest"): "a margin",
        (_INSIDE, "least <= min(results) - 1", "least < min(results) - 1"): "a margin",
    },
    "cfagg/cf/recipe.py": {
        (
            _PLAIN,
            _PLAIN[13:-2],
            'source.kind != "f" or source.itemsize <= target.itemsize'.replace('"', "'"),
        ): _COMPARED,
        (
            "low, high = max(math.ceil(low - slack), int(info.min)), min(math.floor(high + slack), int(info.max))",
            "min",
            "max",
        ): _COMPARED,
        (
            "clash = _clash(source, target, scale, offset, missing, fill) if declared and not identity else None",
            "declared and not identity",
            "declared",
        ): "the same values are missing on both sides",
        ('few = source.kind in "iu" and high - low < 8', "high - low < 8", "high - low <= 8"): "speed",
        ('few = source.kind in "iu" and high - low < 8', "8", "9"): "speed",
    },
    "cfagg/cf/units.py": {
        (_SIMPLE, _SIMPLE[12:-1], _SIMPLE[12:-1].replace("<=", "<")): "the tolerance is an estimate",
    },
    "cfagg/cf/valid.py": {
        ("if upper == (scale > 0):", "scale > 0", "scale >= 0"): "no scale is 0",
    },
    "cfagg/formats/codecs.py": {
        ("part = stream.decompress(rest, most - total + 1)", "1", "2"): "a bound of memory, one byte larger",
        ("part = stream.decompress(rest, most - total + 1)", "most - total", "most + total"): "a bound of memory",
        ("return most + most // 8 + 65536", "65536", "65537"): "a bound, one byte larger",
        ("return 2 * most + 2**20", "20", "21"): "a bound",
        (_HEAD, "len(head) < 6", "len(head) <= 6"): "no frame has less than nine bytes",
        (_HEAD, "6", "7"): "no frame has less than nine bytes",
        ("head = bytes(memoryview(stored)[:18])", "18", "19"): "no header has more than 18 bytes",
        ("return 0", "0", "1"): "what is skipped is not counted by the size that is said of it",
        (_SIZE, "fewest <= size <= most", "fewest < size <= most"): _TOTAL,
        (_SIZE, "fewest <= size <= most", "fewest <= size < most"): _TOTAL,
        (_SIZE, "fewest < most", "fewest <= most"): _TOTAL,
        ("if size is None and 0 < fewest == most:", "0", "1"): "one byte is decoded either way",
        ("if at + 3 > len(view):", "at + 3", "at - 3"): "behind the end there are only zeros, so that it is seen later",
    },
    "cfagg/formats/classic/header.py": {
        ("if begin + count > len(self.data):", "begin + count > len(self.data)", "False"): _BEHIND,
        ("raise ShortError", "raise ShortError", "pass"): _BEHIND,
    },
    "cfagg/formats/hdf5/sound.py": {
        ("def __init__(self, data: Bytes, *, heaps: bool = True) -> None:", "True", "False"): "speed",
    },
    "cfagg/formats/hdf5/slots.py": {
        (
            "if rank > 4:",
            "rank > 4",
            "False",
        ): "the type that follows is taken for one more size then, and more elements than there is room for",
    },
    "cfagg/arrays/fragment_files.py": {
        ("if bounds is None:", "bounds is None", "False"): "it was found in this file a moment ago",
    },
    "cfagg/arrays/fragments.py": {
        (
            "if not isinstance(inner, Aggregation):",
            "not isinstance(inner, Aggregation)",
            "False",
        ): "what cannot be read as an aggregation is refused before",
        (_ORDER, _SIZES, _SIZES.replace("<", "<=")): _NO_RIVALS,
        (_ORDER, _ORDER[3:-1], "layout.dims != located.header.dims"): _NO_RIVALS,
        (_ORDER, _ORDER[3:-1], _SIZES): _NO_RIVALS,
        (_ORDER, _ORDER[3:-1], _ORDER[3:-1].replace(" and ", " or ")): _NO_RIVALS,
    },
    "cfagg/kernels/exact_sums.py": {
        (
            "sign = 1 - 2 * (word >> 31)",
            "2 * (word >> 31)",
            "2 // (word >> 31)",
        ): "without Numba, where NumPy divides by zero to zero",
    },
    "cfagg/kernels/hyperslab.py": {
        (
            "n = chunkn - chunk0",
            "chunkn - chunk0",
            "chunkn + chunk0",
        ): "chunks behind the last that is touched are skipped",
        ("table = np.empty((4, 16), np.int64)", "16", "17"): "it grows as needed",
    },
    "cfagg/kernels/projection.py": {
        (
            "spanned = int(index[-1]) // chunk - int(index[0]) // chunk + 1 if m else 0",
            "int(index[-1]) // chunk - int(index[0]) // chunk",
            "int(index[-1]) // chunk + int(index[0]) // chunk",
        ): _ROOM,
        (
            'head, tail = np.searchsorted(edges, index[[0, -1]], "right") - 1 if m else (0, -1)',
            "-1",
            "1",
        ): "there is no room for elements where there are none",
        (
            'head, tail = np.searchsorted(edges, (low, low + (count - 1) * step), "right") - 1',
            "1",
            "2",
        ): "one cell earlier is one to step over",
        (_GALLOP, "high < len(edges) - 1 and edges[high] <= element", "edges[high] <= element"): _NEARER,
        (_GALLOP, "len(edges) - 1", "len(edges) + 1"): _NEARER,
        (_LEAP, "min", "max"): _NEARER,
        (_LEAP, "len(edges) - 1", "len(edges) + 1"): _NEARER,
        ("c = _cell_of(edges, element, c + 1)", "c + 1", "c - 1"): _NEARER,
        ("while shift < 63 and top >> shift > 0:", "63", "64"): "the shift is a multiple of 11",
        ("orders = np.empty((2, len(index)), np.int64)", "2", "3"): _ROOM,
    },
    "cfagg/kernels/ranges.py": {
        ("_PIECE = 1 << 17", "17", "18"): "speed",
        (
            'if integer and box.dtype.kind == "u" and box.dtype.itemsize == 8:',
            'integer and box.dtype.kind == "u" and box.dtype.itemsize == 8',
            "False",
        ): "NumPy takes the same bits, more slowly",
    },
    "cfagg/kernels/rows.py": {
        ("while low + step <= rows.shape[0]:", "low + step <= rows.shape[0]", "low + step < rows.shape[0]"): _NEARER,
        ("step *= 2", "2", "3"): "what was leapt over is bisected",
        (
            "epoch = np.int64(rows[i, 0]) * 86400 + np.int64(rows[i, 1])",
            "86400",
            "86401",
        ): "the second is less than the factor",
        ("cut = 32 - room if room < 32 else 0", "32 - room", "32 + room"): "without Numba: all keys are equal then",
        ("room = 62 - bits", "62", "63"): "there is a bit more than is used",
        ("n = stop - start", "stop - start", "stop + start"): "the other way to sort them",
        ("for i in range(start + 1, stop):", "start + 1", "start - 1"): _ALONE,
        ("if stop - start > 1:", "stop - start", "stop + start"): _ALONE,
        (
            "if i < middle and (j >= right or _compare(rows, order[i], rows, order[j]) <= 0):",
            "_compare(rows, order[i], rows, order[j]) <= 0",
            "_compare(rows, order[i], rows, order[j]) < 0",
        ): "equal rows are equal in all their bits",
    },
    "cfagg/formats/hdf5/library.py": {
        ("first = first or error", "first or error", "error"): "all attempts fail alike on what is damaged",
    },
    "cfagg/formats/hdf5/links.py": {
        ("MOST, DEEPEST = 1 << 20, 128", "20", "21"): "a bound",
        (_CIRCLE, "any", "all"): "a circle is too deep in the end",
        (_CIRCLE, _CIRCLE[3:-1], "len(levels) >= DEEPEST or visited > MOST"): "a circle is too deep in the end",
    },
}


def explained(path: str, text: str, before: str, after: str) -> str | None:
    """Return why a mutant is equivalent, or `None` where nothing is known of it."""
    return EQUIVALENTS.get(path, {}).get((text, before, after))
