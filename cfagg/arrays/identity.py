"""Noticing a sub-array whose dimensions are in another order than declared although its shape fits.

Where a file names its dimensions as the aggregation does, names alone tell.  Where it does not, and two dimensions are
of equal size, coordinates are compared: by ``standard_name``, ``axis`` and the units of latitude and longitude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cfagg.cf.roles import axis_of
from cfagg.errors import FragmentMismatchError

__all__ = ["check_order", "identity"]


def identity(attributes: Mapping[str, Any]) -> str | None:
    """Return the axis that a coordinate variable with these attributes belongs to, or its standard name, or `None`.

    >>> identity({"units": "degrees_north"}), identity({"standard_name": "latitude"}), identity({"axis": "y"})
    ('Y', 'Y', 'Y')
    >>> identity({"standard_name": "wavelength"}), identity({"units": "K"})
    ('wavelength', None)
    """
    axis, name = (attributes.get(k) for k in ("axis", "standard_name"))
    if isinstance(axis, str) and axis.strip():
        return axis.strip().upper()
    return axis_of(attributes) or (name.strip() or None if isinstance(name, str) else None)


def check_order(
    declared: Sequence[str],
    found: Sequence[str],
    shape: Sequence[int],
    of_master: Callable[[str], str | None],
    of_file: Callable[[str], str | None],
    where: str,
) -> None:
    """Raise where coordinates show that dimensions of equal size are interchanged.

    `declared` are names of the aggregation, in the sub-array's order, `found` those of the file; `of_master` and
    `of_file` give the identity of a dimension's coordinates in the aggregation file and in the fragment's.
    """
    if len(declared) != len(found):
        return
    for k, (name, here) in enumerate(zip(declared, found, strict=True)):
        rivals = [d for j, d in enumerate(declared) if j != k and shape[j] == shape[k]]
        if name == here or shape[k] == 1 or not rivals:
            continue
        expected, actual = of_master(name), of_file(here)
        if expected is None or actual is None or expected == actual:
            continue
        other = next((d for d in rivals if of_master(d) == actual), None)
        if other is not None:
            raise FragmentMismatchError(
                f"{where}: dimension {k} of the sub-array, {here!r} of size {shape[k]}, has the coordinates of "
                f"{other!r}, but the aggregation says that it is {name!r}; declare the partition's 'dimensions' in the "
                "file's order"
            )
