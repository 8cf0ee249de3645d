"""Filters that change values: limits, masks, units."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PlainValidator, TypeAdapter, model_validator

from cfagg.cf.units import linear
from cfagg.errors import ConventionError, Problem, UnitsError
from cfagg.observations.dates import as_date
from cfagg.observations.filters.choosing import need
from cfagg.observations.frames import COMPULSORY, attributes_of
from cfagg.observations.registry import Config
from cfagg.observations.settings import Made, Names, Number, Section, Text, columns_of, wrong

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Clip", "ConvertUnits", "ExcludeDates", "Mask", "MaskInfs", "MaskOutsideRange"]


def _numbers(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return a column; truth values as numbers, since pandas makes objects of them where some are replaced."""
    column = frame[name]
    return column.astype(np.float32) if column.dtype == bool else column


class _Limited:
    """A filter with a smallest and a largest value for each column; null for no limit."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        places = "is not changed by this filter; choose rows with the filter area, or dates"
        self.limits = columns_of(Annotated[Any, PlainValidator(_pair)], config, places=places)


class Clip(_Limited):
    """Set values beyond a limit to the limit; missing values stay missing."""

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with values within the limits."""
        need(frame, self.limits)
        return frame.assign(
            **{name: _numbers(frame, name).clip(low, high) for name, (low, high) in self.limits.items()}
        )


class MaskOutsideRange(_Limited):
    """Make values beyond a limit missing."""

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for values beyond a limit."""
        need(frame, self.limits)
        columns = {}
        for name, (low, high) in self.limits.items():
            beyond = (frame[name] < low) if low is not None else False
            beyond = beyond | ((frame[name] > high) if high is not None else False)
            columns[name] = _numbers(frame, name).mask(beyond)
        return frame.assign(**columns)


def _pair(value: Any) -> tuple[float | None, float | None]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{value!r} is not a pair of smallest and largest value")
    try:
        TypeAdapter(tuple[Number | None, Number | None]).validate_python(value)
    except ValueError:
        raise ValueError(f"{value!r} has limits that are neither numbers nor null") from None
    low, high = value
    if low is not None and high is not None and low > high:
        raise ValueError(f"the smallest value, {low}, is above the largest, {high}")
    return low, high


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    **{word: getattr(operator, word) for word in ("gt", "lt", "eq", "ne", "ge", "le")},
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}


#: Why dates and places have no mask.
_PLACES = "cannot be made missing; leave rows out with the filters area or drop_nans"


class _Test(Section):
    operator: Literal["gt", "lt", "eq", "ne", "ge", "le", ">", "<", "==", "!=", ">=", "<="] = "=="
    value: Number


class Mask:
    """Make values missing for which a comparison with a value is true."""

    # A mapping of columns to ``{value: ..., operator: ...}``; the operator is ``==`` if not given.

    def __init__(self, config: Mapping[str, Any]) -> None:
        tests = columns_of(_Test, config, places=_PLACES)
        self.tests = {name: (test.operator, test.value) for name, test in tests.items()}

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for these values."""
        need(frame, self.tests)
        return frame.assign(
            **{n: _numbers(frame, n).mask(_COMPARE[w](frame[n], v)) for n, (w, v) in self.tests.items()}
        )


class MaskInfs(Made):
    """Make infinite values missing, in named columns or those that begin with a prefix."""

    short: ClassVar[str] = "columns"

    columns: Names = ()
    column_prefix: Text = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.columns) == bool(self.column_prefix):
            raise wrong((("columns",), "or column_prefix is required, but not both"))
        places = [name for name in COMPULSORY if name in (self.columns or [self.column_prefix])]
        if places:
            raise wrong(*(((name,), _PLACES) for name in places))
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for infinite values."""
        begun = [c for c in frame.columns if c.startswith(self.column_prefix) and c not in COMPULSORY]
        columns = list(self.columns) or begun or [self.column_prefix]
        need(frame, columns)
        return frame.assign(**{c: frame[c].mask(np.isinf(frame[c])) for c in columns})


class ExcludeDates:
    """Make values of some days missing."""

    # A mapping of columns to pairs of a first and a last day, such as 20200131 or 2020-01-31, both included.

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.days = columns_of(Annotated[Any, PlainValidator(_periods)], config, places=_PLACES)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN on these days."""
        need(frame, ["date", *self.days])
        dates = frame["date"].to_numpy().astype("M8[us]")  # nanoseconds end in 2262
        columns = {}
        for name, pairs in self.days.items():
            gone = np.zeros(len(frame), bool)
            for first, last in pairs:
                gone |= (dates >= np.datetime64(first)) & (dates < np.datetime64(last) + np.timedelta64(1, "D"))
            columns[name] = _numbers(frame, name).mask(gone)
        return frame.assign(**columns)


def _periods(pairs: Any) -> list[tuple[datetime, datetime]]:
    """Return one or several pairs of days as the starts of the first day and of the last."""
    single = isinstance(pairs, list | tuple) and len(pairs) == 2 and not isinstance(pairs[0], list | tuple)
    found = []
    for pair in [pairs] if single else pairs if isinstance(pairs, list | tuple) else [pairs]:
        days = [_day(v) for v in pair] if isinstance(pair, list | tuple) and len(pair) == 2 else [None, None]
        first, last = days
        if first is None or last is None or last < first:
            raise ValueError(f"{pair!r} is not a pair of a first and a last day")
        found.append((first, last))
    return found


def _day(value: Any) -> datetime | None:
    """Return the start of a day, or `None` for anything else, including a time of day."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str | date) or (isinstance(text, str) and len(text) < 8):
        return None
    try:
        found = as_date(text)
    except ValueError:
        return None
    return found if found == datetime(found.year, found.month, found.day) else None


class _Change(Section):
    old: Text | None = Field(None, alias="from")
    new: Text = Field(alias="to")

    @model_validator(mode="after")
    def _converts(self) -> Self:
        if self.old is not None:
            linear(self.old, self.new)
        return self


class ConvertUnits:
    """Convert columns to other units, in the syntax of UDUNITS."""

    # A mapping of columns to new units, if the source knows the old ones, or to ``{from: ..., to: ...}``.

    def __init__(self, config: Mapping[str, Any]) -> None:
        given = {name: value if isinstance(value, Mapping) else {"to": value} for name, value in config.items()}
        changes = columns_of(_Change, Config(given, getattr(config, "where", "")))
        self.units = {name: (change.old, change.new) for name, change in changes.items()}

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with converted columns, computed in double precision."""
        need(frame, self.units)
        known, problems, columns = attributes_of(frame), [], {}
        for name, (said, new) in self.units.items():
            there = known.get(name, {}).get("units")
            old = said or there
            if old is None:
                problems.append(Problem(name, f"has no units to convert to {new!r}; give both from and to"))
                continue
            if said is not None and there is not None and linear(said, str(there)) != (1.0, 0.0):
                problems.append(Problem(name, f"is in {there!r} by its source, not in {said!r}"))
                continue
            if frame[name].dtype.kind in "mMc":
                problems.append(Problem(name, f"is not numeric but {frame[name].dtype}"))
                continue
            try:
                scale, offset = linear(str(old), new)
                columns[name] = frame[name].to_numpy(np.float64, na_value=np.nan) * scale + offset
            except (UnitsError, ValueError, TypeError) as error:
                problems.append(Problem(name, getattr(error, "message", f"is not numeric: {error}")))
        if problems:
            raise ConventionError("units cannot be converted", problems)
        return frame.assign(**columns)

    def attributes(self, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the attributes of columns with their new units."""
        return {**before, **{name: {**before.get(name, {}), "units": new} for name, (_, new) in self.units.items()}}
