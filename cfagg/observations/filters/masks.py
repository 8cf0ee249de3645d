"""Filters of the published recipes that make values missing, and that sort rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.observations.filters.columns import need
from cfagg.observations.frames import COMPULSORY
from cfagg.observations.periods import as_date
from cfagg.observations.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExcludeDates", "Mask", "MaskInfs", "SortBy"]

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    **{word: getattr(operator, word) for word in ("gt", "lt", "eq", "ne", "ge", "le")},
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}


class Mask:
    """Make values missing that compare to a value as said.

    Parameters
    ----------
    config : mapping
        From columns to ``{value: ..., operator: ...}``; the operator is one of ``== != < <= > >=``, ``==`` if not
        given.

    Examples
    --------
    >>> import pandas as pd
    >>> Mask({"t": {"value": 300, "operator": ">"}}).transform(pd.DataFrame({"t": [299.0, 301.0]}))["t"].tolist()
    [299.0, nan]
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.tests: dict[str, tuple[str, float]] = {}
        for name, test in settings.rest().items():
            inner = Settings(test, f"{settings.where}.{name}".strip("."))
            word = inner.one_of("operator", _COMPARE, "==")
            value = inner.number("value")
            if value is None and not inner.problems:
                inner.wrong("value", "is missing")
            inner.unknown()
            settings.problems += inner.problems
            self.tests[name] = (word, value or 0.0)
        _no_places(settings, self.tests)
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for these values."""
        need(frame, self.tests)
        return frame.assign(**{n: frame[n].mask(_COMPARE[w](frame[n], v)) for n, (w, v) in self.tests.items()})


class MaskInfs:
    """Make infinite values missing.

    Parameters
    ----------
    config : mapping
        ``columns``: names; or ``column_prefix``: how they begin.

    Examples
    --------
    >>> import pandas as pd
    >>> MaskInfs({"columns": ["t"]}).transform(pd.DataFrame({"t": [1.0, np.inf, -np.inf]}))["t"].tolist()
    [1.0, nan, nan]
    """

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.columns = settings.names("columns") or ()
        self.prefix = settings.text("column_prefix")
        if bool(self.columns) == bool(self.prefix) and not settings.problems:
            settings.wrong("columns", "or column_prefix is needed, one of them")
        _no_places(settings, dict.fromkeys(self.columns or [self.prefix]))
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for infinite values."""
        begun = [c for c in frame.columns if c.startswith(self.prefix) and c not in COMPULSORY]
        columns = list(self.columns) or begun or [self.prefix]
        need(frame, columns)
        return frame.assign(**{c: frame[c].mask(np.isinf(frame[c])) for c in columns})


class ExcludeDates:
    """Make values of some days missing.

    Parameters
    ----------
    config : mapping
        From columns to pairs of a first and a last day, such as 20200131 or 2020-01-31, both included.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-31T23:59", "2020-02-01T00:00"]), "t": [1.0, 2.0]})
    >>> ExcludeDates({"t": [[20200101, 20200131]]}).transform(frame)["t"].tolist()
    [nan, 2.0]
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.days: dict[str, list[tuple[datetime, datetime]]] = {}
        for name, pairs in settings.rest().items():
            single = isinstance(pairs, list | tuple) and len(pairs) == 2 and not isinstance(pairs[0], list | tuple)
            self.days[name] = []
            for pair in [pairs] if single else pairs if isinstance(pairs, list | tuple) else [None]:
                found = _days(pair)
                if found is None:
                    settings.wrong(name, f"{pair!r} is not a pair of a first and a last day")
                else:
                    self.days[name].append(found)
        _no_places(settings, self.days)
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN on these days."""
        need(frame, ["date", *self.days])
        dates = frame["date"].to_numpy()
        columns = {}
        for name, pairs in self.days.items():
            gone = np.zeros(len(frame), bool)
            for first, stop in pairs:
                gone |= (dates >= np.datetime64(first)) & (dates < np.datetime64(stop))
            columns[name] = frame[name].mask(gone)
        return frame.assign(**columns)


class SortBy:
    """Sort the rows of a part.  A store has its own order; this decides which of duplicates is the first.

    Parameters
    ----------
    config : mapping
        ``columns``: names, the first one decides first.

    Examples
    --------
    >>> import pandas as pd
    >>> SortBy({"columns": ["quality"]}).transform(pd.DataFrame({"quality": [3, 1, 2]})).index.tolist()
    [1, 2, 0]
    """

    short = "columns"
    whole = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.columns = settings.names("columns") or ()
        if not self.columns and not settings.problems:
            settings.wrong("columns", "has no names")
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows sorted; equal ones stay in their order."""
        need(frame, self.columns)
        return frame.sort_values(list(self.columns), kind="stable")


def _no_places(settings: Settings, columns: Mapping[str, Any]) -> None:
    if not columns and not settings.problems:
        settings.wrong("", "has no columns")
    for name in COMPULSORY:
        if name in columns:
            settings.wrong(name, "cannot be made missing; leave rows out with the filters area or drop_nans")


def _days(pair: Any) -> tuple[datetime, datetime] | None:
    """Return the start of the first day and the end of the last."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return None
    ends = []
    for day in pair:
        text = str(day) if isinstance(day, int) and not isinstance(day, bool) else day
        if not isinstance(text, str | date) or (isinstance(text, str) and len(text) < 8):
            return None
        try:
            ends.append(as_date(text))
        except ValueError:
            return None
    if any((end - datetime(end.year, end.month, end.day)) for end in ends):
        return None  # a day has no time
    return (ends[0], ends[1] + timedelta(days=1)) if ends[0] <= ends[1] else None
