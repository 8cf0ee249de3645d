"""The values of ``--select`` and ``--over``: dimensions by their own or common names, labels, ranges and positions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cfagg.cf.roles import COMMON_NAMES
from cfagg.errors import SelectionError

if TYPE_CHECKING:
    from xarray import DataArray

__all__ = ["GRAMMAR", "Choice", "dimension", "dimension_by_name", "names", "positions", "selection"]

GRAMMAR = """\
selections (--select, once per dimension):
  time=1990             all of a year, month (1990-06) or day; or one label: lat=52.5
  time=1990/1999        from the first to the last, both included; either end may be omitted
  lat=30:60             the same with a colon; longitudes may cross the edge of the map: lon=-10:20
  time=[10:500]         positions, counted from 0, excluding the last one; also [-1], [::2] and [1,5,9]
"""

#: Names that a user may use for dimensions: common ones, and those that are unambiguous when requested.
_MEANT = {**COMMON_NAMES, "y": "latitude", "x": "longitude", "vertical": "vertical"}

_INDEX = re.compile(r"\[\s*((-?\d+)?\s*(:\s*(-?\d+)?\s*){0,2}|-?\d+(\s*,\s*-?\d+)*)\s*\]")
#: A date with a time of day, whose colons do not separate a range.
_CLOCK = re.compile(r"-?\d{4,}-\d\d-\d\d[T ]\d\d(:\d\d){1,2}(\.\d+)?Z?")
#: Tolerance in degrees within which a longitude beyond a bound counts as on it.
_ON = 1e-6


@dataclass(frozen=True)
class Choice:
    """The text given after one ``--select``."""

    dim: str
    text: str

    @property
    def by_index(self) -> bool:
        """Whether positions are given, in brackets."""
        return self.text.startswith("[")

    def __str__(self) -> str:
        return f"{self.dim}={self.text}"


def selection(text: str) -> Choice:
    """Return one value of ``--select``, of which only the form is checked.

    >>> selection("time=1990/1999")
    Choice(dim='time', text='1990/1999')
    """
    dim, equals, value = (part.strip() for part in text.partition("="))
    if not dim or not equals or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a dimension and a selection, like time=1990/1999")
    if value.startswith("[") and (not _INDEX.fullmatch(value) or value.strip("[] ") == ""):
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of positions like [3], [10:500], [::2] or [1,5,9]")
    if value.count("/") > 1:
        raise argparse.ArgumentTypeError(f"{value!r} has more than one /; a range is first/last")
    return Choice(dim, value)


def names(text: str) -> list[str]:
    """Return names separated by commas.

    >>> names("latitude, longitude")
    ['latitude', 'longitude']
    """
    found = [part.strip() for part in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of dimensions like latitude,longitude")
    twice = {n for n in found if found.count(n) > 1}
    if twice:
        raise argparse.ArgumentTypeError(f"{text!r} names {', '.join(sorted(twice))} twice")
    return found


def dimension_by_name(asked: str, dims: Sequence[str]) -> str | None:
    """Return the dimension of that name, ignoring case, or else the only one with another name for the same.

    >>> dimension_by_name("lat", ("time", "latitude", "longitude"))
    'latitude'
    """
    if asked in dims:
        return asked
    same = [d for d in dims if d.casefold() == asked.casefold()]
    if len(same) == 1:
        return same[0]
    kind = _MEANT.get(asked.casefold())
    found = [d for d in dims if kind is not None and _MEANT.get(d.casefold()) == kind]
    return found[0] if len(found) == 1 else None


def dimension(asked: str, kinds: Mapping[str, str], variable: str) -> str:
    """Return the requested dimension, by its name or by the quantity that its coordinate represents.

    >>> dimension("lat", {"time": "time", "rlat": "latitude"}, "tas")
    'rlat'
    """
    found = dimension_by_name(asked, list(kinds))
    if found is not None:
        return found
    kind = _MEANT.get(asked.casefold())
    fitting = [d for d, k in kinds.items() if k == kind]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(kinds) or "none"
    if fitting:
        raise SelectionError(f"{asked!r} may mean {' or '.join(fitting)} of {variable!r}; name the dimension itself")
    raise SelectionError(f"{variable!r} has no dimension {asked!r}; it has {known}")


def positions(choices: Iterable[Choice], array: DataArray, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return the selected positions, from 0 on, by dimension: an int, a slice or an int64 array."""
    import numpy as np

    found: dict[str, Any] = {}
    for choice in choices:
        dim = dimension(choice.dim, kinds, str(array.name))
        if dim in found:
            raise SelectionError(f"dimension {dim!r} is selected twice; give one selection")
        length = array.sizes[dim]
        chosen = _by_index(choice, length) if choice.by_index else _by_label(choice, dim, array, kinds[dim])
        if not isinstance(chosen, int) and not np.arange(length)[chosen].size:
            raise SelectionError(f"--select {choice} selects nothing{_extent(array, dim)}")
        found[dim] = chosen
    return found


def _by_index(choice: Choice, length: int) -> Any:
    """Return positions from 0 on that are given in brackets."""
    import numpy as np

    inner = "".join(choice.text.strip("[]").split())
    if not inner:
        raise SelectionError(f"--select {choice.dim}: [] contains no position")
    if len(inner) > 1000:
        raise SelectionError(f"--select {choice.dim}: {len(inner):,} characters are too many for positions")
    if ":" in inner:
        parts = [int(p) if p.strip() else None for p in inner.split(":")]
        if len(parts) == 3 and parts[2] is not None and parts[2] < 1:
            raise SelectionError(f"--select {choice}: a step of {parts[2]} is not at least 1")
        start, stop, step = slice(*parts).indices(length)
        return slice(start, max(start, stop), step)
    listed = [int(p) for p in inner.split(",")]
    outside = [i for i in listed if not -length <= i < length]
    if outside:
        raise SelectionError(f"--select {choice}: there is no position {outside[0]}; the dimension has {length:,}")
    inside = [i % length for i in listed]
    return inside[0] if len(inside) == 1 else np.array(inside, np.int64)


def _by_label(choice: Choice, dim: str, array: DataArray, kind: str) -> Any:
    """Return the positions of a label or of a range of labels."""
    if dim not in array.coords or array.coords[dim].ndim != 1:
        raise SelectionError(
            f"--select {choice}: dimension {dim!r} has no coordinate; select positions, as {choice.dim}=[0:10]"
        )
    ends = _ends(choice)
    if array.coords[dim].dtype.kind in "iuf":
        return _by_number(choice, dim, array, kind, ends)
    label: Any = choice.text if ends is None else slice(*(e or None for e in ends))
    return _indexed(choice, dim, array, label)


def _ends(choice: Choice) -> tuple[str, str] | None:
    """Return both ends of a range, either of which may be empty, or `None` for a single label."""
    text = choice.text
    if "/" in text:
        first, _, last = text.partition("/")
    elif ":" not in text or _CLOCK.fullmatch(text):
        return None
    elif text.count(":") > 1:
        raise SelectionError(f"--select {choice}: it is not clear which : separates the ends; write first/last")
    else:
        first, _, last = text.partition(":")
    if not first.strip() and not last.strip():
        raise SelectionError(f"--select {choice}: a range needs at least one end")
    return first.strip(), last.strip()


def _indexed(choice: Choice, dim: str, array: DataArray, label: Any) -> Any:
    """Return the positions of labels using the coordinate's own index, which understands partial dates."""
    import numpy as np

    try:
        found = array.xindexes[dim].sel({dim: label}).dim_indexers[dim]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        # pandas lets an AttributeError escape if an end of a range is NaN or NaT.
        raise SelectionError(f"--select {choice}: there is no such {dim}{_extent(array, dim)}") from error
    if isinstance(found, slice):
        return slice(*found.indices(array.sizes[dim]))
    at = np.asarray(getattr(found, "values", found))
    if at.dtype.kind == "b":
        at = np.flatnonzero(at)
    return int(at) if at.ndim == 0 else at.astype(np.int64)


def _by_number(choice: Choice, dim: str, array: DataArray, kind: str, ends: tuple[str, str] | None) -> Any:
    """Return the positions of a number, or of those between two, in whichever direction the coordinate runs."""
    import numpy as np

    values = array.coords[dim].values
    if ends is None:
        number = _number(choice, choice.text, values.dtype)
        at = np.flatnonzero(values == number)
        if at.size == 1:
            return int(at[0])
        if at.size:
            return at
        near = sorted({float(v) for v in values[np.argsort(np.abs(values - number), kind="stable")[:2]]})
        hint = f"; the nearest are {' and '.join(f'{v:g}' for v in near)}" if values.size else ""
        raise SelectionError(f"--select {choice}: there is no {dim} of {number:g}{hint}")
    low, high = (_number(choice, e, values.dtype) if e else None for e in ends)
    if kind == "longitude" and low is not None and high is not None:
        return _around(values, float(low), float(high))
    if low is not None and high is not None and low > high:
        low, high = high, low
    inside = np.ones(values.shape, bool)
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values <= high
    return _run(np.flatnonzero(inside))


def _number(choice: Choice, text: str, dtype: Any) -> Any:
    """Return a number in the coordinate's own precision, so that 0.3 matches the label stored for it."""
    import numpy as np

    try:
        number = float(text)
    except ValueError:
        raise SelectionError(f"--select {choice}: {text!r} is not a number") from None
    return np.asarray(number, dtype)[()] if dtype.kind == "f" else number


def _around(values: Any, first: float, last: float) -> Any:
    """Return the longitudes from one eastwards to another, in that order, modulo 360 degrees."""
    import numpy as np

    width = last - first if last >= first else (last - first) % 360
    if width >= 360 - _ON:
        return slice(0, len(values))
    east = (values.astype("f8") - first) % 360
    east[east > 360 - _ON] = 0
    at = np.flatnonzero(east <= width + _ON)
    return _run(at[np.argsort(east[at], kind="stable")])


def _run(at: Any) -> Any:
    """Return positions as a slice if they are one."""
    import numpy as np

    if at.size and (np.diff(at) == 1).all():
        return slice(int(at[0]), int(at[-1]) + 1)
    return at.astype(np.int64)


def _extent(array: DataArray, dim: str) -> str:
    """Return the range of a coordinate in words."""
    from cfagg.display.labels import label_text

    if dim not in array.coords or not array.sizes[dim]:
        return ""
    values = array.coords[dim].values
    return f"; {dim} runs from {label_text(values[0])} to {label_text(values[-1])}"
