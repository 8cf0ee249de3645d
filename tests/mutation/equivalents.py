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

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "cfagg/cf/apply.py": {
        (
            _ROUNDED,
            "np.abs(changed - whole) > dates.tolerance(changed)",
            "np.abs(changed - whole) >= dates.tolerance(changed)",
        ): "the tolerance is an estimate",
    },
    "cfagg/cf/dates.py": {
        ('return size >= _LARGE or (size >= 2**12 and "cfagg.kernels.calendars" in sys.modules)', "12", "13"): "speed",
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
    "cfagg/fragments.py": {
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
    "cfagg/readers/hdf5_tree.py": {
        ("prefix = os.pread(handle, 24, storage.tree)", "24", "25"): "only what is unpacked of it counts",
    },
    "cfagg/readers/hdf5_file.py": {
        ("first = first or error", "first or error", "error"): "all attempts fail alike on what is damaged",
    },
    "cfagg/readers/hdf5_links.py": {
        ("MOST, DEEPEST = 1 << 20, 128", "20", "21"): "a bound",
        (_CIRCLE, "any", "all"): "a circle is too deep in the end",
        (_CIRCLE, _CIRCLE[3:-1], "len(levels) >= DEEPEST or visited > MOST"): "a circle is too deep in the end",
    },
    "cfagg/readers/hdf5_proof.py": {
        (
            'return os.pread(self._fd, stop - start, start + self._begin) if stop > start else b""',
            "stop > start",
            "stop >= start",
        ): "of no bytes none are read",
    },
}


def explained(path: str, text: str, before: str, after: str) -> str | None:
    """Return why a mutant is equivalent, or `None` where nothing is known of it."""
    return EQUIVALENTS.get(path, {}).get((text, before, after))
