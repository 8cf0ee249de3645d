"""Detection of a sub-array whose dimensions are in another order than declared although its shape fits.

Names are not sufficient: a file may use the aggregation's name of one dimension for another one of the same size.  If
two dimensions have equal size, their coordinates are compared by ``standard_name``, by axis, and by ``units``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from cfagg.cf.roles import axis_of
from cfagg.errors import FragmentMismatchError

__all__ = ["UNKNOWN", "Identity", "check_order", "interchanged", "is_square"]


class Identity(NamedTuple):
    """The identity of the coordinates of a dimension, most specific first; `None` if unknown."""

    standard_name: str | None = None
    axis: str | None = None
    units: str | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Identity:
        """Return the identity of a coordinate variable with these attributes."""
        name, axis, units = (
            value.strip() or None if isinstance(value, str) else None
            for value in map(attributes.get, ("standard_name", "axis", "units"))
        )
        return cls(name, axis.upper() if axis else axis_of(attributes), units)


#: The identity of a dimension without coordinates.
UNKNOWN = Identity()


def is_square(sizes: Sequence[int]) -> bool:
    """Return whether two dimensions could be interchanged unnoticed.

    >>> is_square((1, 4, 4)), is_square((1, 1, 4))
    (True, False)
    """
    wide = [n for n in sizes if n > 1]
    return len(set(wide)) < len(wide)


def check_order(
    declared: Sequence[str],
    found: Sequence[str],
    sizes: Sequence[int],
    of_master: Callable[[str], Identity],
    of_file: Callable[[str], Identity],
    where: str,
) -> None:
    """Raise an error if coordinates show that dimensions of equal size are interchanged; see `interchanged`."""
    odd = interchanged(declared, found, sizes, of_master, of_file)
    if odd is not None:
        k, j = odd
        raise FragmentMismatchError(
            f"{where}: dimension {k} of the sub-array, {found[k]!r} of size {sizes[k]}, has the coordinates of "
            f"{declared[j]!r} ({_said(of_file(found[k]))}), but the aggregation says that it is {declared[k]!r} "
            f"({_said(of_master(declared[k]))}); declare the partition's 'dimensions' in the file's order, or write "
            "the fragment in the aggregation's"
        )


def interchanged(
    declared: Sequence[str],
    found: Sequence[str],
    sizes: Sequence[int],
    of_master: Callable[[str], Identity],
    of_file: Callable[[str], Identity],
) -> tuple[int, int] | None:
    """Return a dimension with the coordinates of another one of equal size, and that one, or `None`.

    `declared` are names of the aggregation, in the sub-array's order, `found` those of the file; `of_master` and
    `of_file` return the identity of the coordinates of a dimension in the aggregation file and in the fragment's.
    """
    pairs = [(k, j) for k, j in combinations(range(len(sizes)), 2) if sizes[k] == sizes[j] > 1]
    alike = sorted({k for pair in pairs for k in pair})
    masters = {k: of_master(declared[k]) for k in alike}
    if all(known == UNKNOWN for known in masters.values()):
        return None
    files = {k: of_file(found[k]) for k in alike}
    for pair in pairs:
        odd = _interchanged([masters[k] for k in pair], [files[k] for k in pair])
        if odd is not None:
            return pair[odd], pair[1 - odd]
    return None


def _interchanged(masters: Sequence[Identity], files: Sequence[Identity]) -> int | None:
    """Return which of two dimensions of a file is the other one of the aggregation, or `None` if neither is."""
    for what, expected, actual in zip(
        Identity._fields, zip(*masters, strict=True), zip(*files, strict=True), strict=True
    ):
        own = [actual[k] is not None and actual[k] == expected[k] for k in range(2)]
        crossed = [actual[k] is not None and actual[k] == expected[1 - k] != expected[k] for k in range(2)]
        # If both match the same one, units prove nothing, and names only do if the aggregation knows both.
        if any(crossed) and (not any(own) or (what != "units" and None not in expected)):
            return crossed.index(True)
        if any(own) and not any(crossed):
            return None
    return None


def _said(found: Identity) -> str:
    """Return the identity of coordinates, for messages."""
    said = ", ".join(f"{name} {value!r}" for name, value in found._asdict().items() if value is not None)
    return said or "without coordinates"
