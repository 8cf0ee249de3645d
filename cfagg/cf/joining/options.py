"""Options that decide which variables are joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from cfagg.cf.joining.cells import Conditions, conditions_of
from cfagg.errors import OptionError

__all__ = ["Options"]

_CHOICES = ("apart", "error", "equal", "first", "last")
_SEVERAL = ("equal", "exist", "ignore", "dimension", "field_ancillaries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How similar variables must be to be joined.

    Names and defaults are those of `cf.aggregate` in cf-python, except for `rtol` and `atol`, both 2**-52 there, and
    `interleave` and `on_overlap`, which it does not have. Its ``ncvar_identities`` is `variable_identities` here.

    Parameters
    ----------
    relaxed_identities : bool
        Variables without a standard name are identified by their long name, or else by their name; dimensions without
        coordinates by their name.
    field_identity : str, optional
        The attribute that identifies data variables, such as ``"long_name"``, instead of the standard name.
    variable_identities : bool
        All variables are identified by their names in the file.
    allow_no_identity : bool
        Data variables without identity are treated as the same quantity, and coordinates without a standard name are
        identified by the names of their dimensions. By default these are not joined at all.
    relaxed_units : bool
        Variables without units are joined with each other; by default these, and those with coordinates without units,
        are not joined at all.
    rtol, atol : float
        Relative and absolute tolerance within which coordinates are equal, by default a few units in the last place of
        8-byte reals. Coordinates other than times stored as 4-byte reals may always differ by two units in their last
        place. Integers and text are compared exactly.
    equal_all, exist_all : bool
        All attributes except standard ones must be equal, or must exist in both or in neither.
    equal, exist : str or sequence of str
        Attributes, of the variable or else of its group or dataset, that must be equal, or must exist in both or in
        neither.
    ignore : str or sequence of str
        Attributes that the four previous options ignore.
    respect_valid : bool
        Valid ranges must be equal.
    concatenate : bool
        Attributes that differ become their distinct values in the order of files, separated by ``" :AGGREGATED: "``;
        otherwise they are omitted.
    overlap : bool
        Cells of neighbours, given by their bounds, may overlap.
    contiguous : bool
        There must be no gap between cells of neighbours, all of which need bounds.
    cells : bool or mapping of str to conditions, optional
        Conditions that keep variables apart, such as daily and monthly means. The keys are identities of coordinates or
        ``"X"``, ``"Y"``, ``"Z"``, ``"T"``; each value is one condition or several, tried in order, each a mapping of
        ``"cellsize"`` (of bounds) or ``"spacing"`` (of coordinates) or both to text: ``"1 day"``, ``"1 month"`` (28 to
        31 days), ``"1 year"`` (300 to 366 days) or a range such as ``"28 to 31 days"``. `True` distinguishes common
        frequencies: means and instants of 1, 3 and 6 hours, and means of days, months and years.
    axes : str or sequence of str, optional
        The identities of the axes along which to join, in this order. By default any axis is used.
    dimension : str or sequence of str
        Attributes, of the variable or else of its group or dataset, that become coordinates of new axes, such as
        ``"realization_index"``.
    field_ancillaries : str or sequence of str
        Attributes that become ancillary variables along the axes that are joined, such as ``"tracking_id"``.
    interleave : bool
        Coordinates of one may be between those of another, such as odd and even times; none may be in both.
    on_overlap : {"apart", "error", "equal", "first", "last"}
        How to handle variables with common coordinates that would otherwise be joined: keep them apart, raise an error,
        use one if all coordinates and values are equal, such as constants repeated in each file, or use the values of
        the first or last in the order of files. Values are compared up to some million, along time up to 16384.

    Raises
    ------
    OptionError
        An option has an invalid value, or two contradict each other, because interleaved coordinates have no neighbours
        whose cells could be `contiguous` or `overlap`.

    Notes
    -----
    Apart from these options, the results differ from those of cf-python 3.21 as follows. Parts fill an array however
    it was cut, even if they cannot be joined along one axis after the other. Comments of cell methods do not matter.
    Data variables without units need `relaxed_units`. With `contiguous`, cells without bounds are never known to touch.
    If some overlap along an axis, only those equal along all others stay apart, after attributes that distinguish
    datasets of archives have been compared.

    Examples
    --------
    >>> Options(equal="source_id", cells={"T": {"cellsize": "1 day"}}).equal
    ('source_id',)
    """

    relaxed_identities: bool = False
    field_identity: str | None = None
    variable_identities: bool = False
    allow_no_identity: bool = False
    relaxed_units: bool = False
    rtol: float = 2.0**-50
    atol: float = 0.0
    equal_all: bool = False
    exist_all: bool = False
    equal: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    respect_valid: bool = False
    concatenate: bool = True
    overlap: bool = True
    contiguous: bool = False
    cells: Conditions | Any = None
    axes: tuple[str, ...] | None = None
    dimension: tuple[str, ...] = ()
    field_ancillaries: tuple[str, ...] = ()
    interleave: bool = False
    on_overlap: Literal["apart", "error", "equal", "first", "last"] = "apart"

    def __post_init__(self) -> None:
        for name in _SEVERAL:
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if self.axes is not None:
            object.__setattr__(self, "axes", _names("axes", self.axes))
        object.__setattr__(self, "cells", conditions_of(self.cells))
        for name in (f.name for f in fields(self) if f.type == "bool"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r}: it must be True or False")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise OptionError(f"{name}={value!r}: expected a number that is not negative")
        if self.field_identity is not None and not isinstance(self.field_identity, str):
            raise OptionError(f"field_identity={self.field_identity!r}: it must be the name of an attribute")
        if self.on_overlap not in _CHOICES:
            raise OptionError(f"on_overlap={self.on_overlap!r}: it must be one of {', '.join(map(repr, _CHOICES))}")
        if self.interleave and (self.contiguous or not self.overlap):
            raise OptionError(
                "interleave=True joins parts that interlock: leave it out, or contiguous=True and overlap=False"
            )


def _names(option: str, value: Any) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{option}={value!r}: it must be one name or several")
    return names
