"""Which rows of a store its statistics are of: all, the first so many per cent, or those of so much of the period.

The founding text leaves the choice to the recipe.  Whatever the choice, it is one range of rows, because rows are in
the order of their dates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal

from cfagg.errors import ConventionError, OptionError, Problem, SelectionError
from cfagg.observations.dates import epoch_text, first_second, last_second

__all__ = ["ALL", "Choice", "parse_choice"]

_TEXT = re.compile(r"(?:the )?(?:first )?([0-9.]+) ?% of (?:the |all )?(records|rows|period)", re.IGNORECASE)
_DAY = 86400
_KEYS = ("over", "percent", "start", "end")
_OVER = {"all": "all", "records": "records", "rows": "records", "period": "period"}
_FORMS = '"all", "80% of records", "80% of period", or start and end'


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of rows.

    Parameters
    ----------
    over : {"all", "records", "period", "dates", "published"}
        All rows; the first `share` of the rows; the rows of the first `share` of the time from the first row to the
        last; the rows from `start` to `end`; or those that the published software takes where nothing is chosen.
    share : fractions.Fraction
        Above 0, at most 1; for ``"records"`` and ``"period"``.
    start, end : int or None
        First and last second since 1970, both included; for ``"dates"``.

    Examples
    --------
    >>> str(Choice("period", Fraction(4, 5))), str(Choice("dates", start=0))
    ('80% of the period', 'rows from 1970-01-01T00:00:00')
    """

    over: Literal["all", "records", "period", "dates", "published"] = "all"
    share: Fraction = Fraction(1)
    start: int | None = None
    end: int | None = None

    def rows(self, rows: int, first: int, last: int, find: Callable[[int, int], tuple[int, int]]) -> tuple[int, int]:
        """Return the range of rows chosen.

        Parameters
        ----------
        rows : int
            Number of rows of the store.
        first, last : int
            Dates of the first and last row, in seconds since 1970; of no meaning without rows.
        find : callable
            ``find(lo, hi)`` returns the range of rows with lo <= date < hi, as the indexes of a store do.

        Returns
        -------
        tuple of int
            First row, and row after the last.  A share of some records has at least one row.

        Examples
        --------
        >>> from bisect import bisect_left
        >>> dates = [0, 10, 20, 90, 100]
        >>> find = lambda lo, hi: (bisect_left(dates, lo), bisect_left(dates, hi))
        >>> [Choice(over, Fraction(4, 5)).rows(5, 0, 100, find) for over in ("records", "period")]
        [(0, 4), (0, 3)]
        """
        if rows == 0 or self.over == "all":
            return 0, rows
        if self.over == "records":
            return 0, max(1, math.floor(rows * self.share))
        if self.over == "period":
            return find(first, math.floor(first + (last - first) * self.share) + 1)
        if self.over == "published":
            return find(first, published_end(first, last) + 1)
        lo = first if self.start is None else self.start
        hi = (last if self.end is None else self.end) + 1
        return find(lo, max(lo, hi))

    def __str__(self) -> str:
        percent = f"{float(self.share * 100):g}%"
        if self.over in ("records", "period"):
            return f"{percent} of the {self.over}"
        if self.over == "all":
            return "all rows"
        if self.over == "published":
            return "the first part of the period, as the published software chooses it"
        ends = [(word, epoch_text(e)) for word, e in (("from", self.start), ("to", self.end)) if e is not None]
        return "rows " + " ".join(f"{word} {text}" for word, text in ends)


def published_end(first: int, last: int) -> int:
    """Return the last second of which the published software takes statistics where nothing is chosen.

    Of the days from the first row to the last, the first 80 %; of 10 years and more all but the last calendar year, of
    20 and more all but the last three.

    Parameters
    ----------
    first, last : int
        Dates of the first and last row, in seconds since 1970.

    Examples
    --------
    >>> published_end(0, 9 * 86400) // 86400
    7
    """
    days = (last - first) // _DAY + 1
    years = round((days - 1) / 365.25)
    if days < 10 or years < 10:
        return first + (max(1, days * 4 // 5) - 1) * _DAY
    final = datetime.fromtimestamp(first + (days - 1) * _DAY, UTC)
    until = datetime(final.year - (3 if years >= 20 else 1) + 1, 1, 1, tzinfo=UTC)
    # The last of the days, all at the first row's time of day, before that year begins.
    return first + -(-(int(until.timestamp()) - first) // _DAY) * _DAY - _DAY


#: All rows.
ALL = Choice()


def parse_choice(value: Any, where: str = "statistics") -> Choice:
    """Return the choice that a recipe or a user asks for.

    Parameters
    ----------
    value : str, mapping, Choice or None
        ``None`` and ``"all"`` mean all rows; ``"80% of records"`` the first of them; ``"80% of period"`` those of the
        first 80 % of the time covered.  A mapping has ``over`` (one of these texts, or ``"records"`` or ``"period"``
        with ``percent``), or ``start`` and ``end`` (dates as of `cfagg.open_observations`, both included; one may be
        left out).
    where : str
        Key path of the value, for messages.

    Raises
    ------
    ConventionError
        With every problem of the value.

    Examples
    --------
    >>> print(parse_choice("80% of records"))
    80% of the records
    >>> print(parse_choice({"start": 1979, "end": 2020}))
    rows from 1979-01-01T00:00:00 to 2020-12-31T23:59:59
    """
    if value is None or isinstance(value, Choice):
        return value or ALL
    if isinstance(value, str):
        value = {"over": value}
    if not isinstance(value, Mapping):
        raise ConventionError(f"{where} is {value!r}; expected {_FORMS}")
    problems = [
        Problem(f"{where}.{key}", f"is not known; expected {', '.join(_KEYS)}") for key in value if key not in _KEYS
    ]
    found: Choice | None = None
    if value.get("over") is not None:
        found = _over(value, where, problems)
    elif value.get("percent") is not None:
        problems.append(Problem(f"{where}.percent", "needs over: records or over: period beside it"))
    if value.get("start") is not None or value.get("end") is not None:
        if found is not None:
            problems.append(Problem(where, "has both over and start or end; give one or the other"))
        found = _dates(value, where, problems)
    if problems:
        raise ConventionError("rows of which statistics are taken cannot be chosen", problems)
    return found or ALL


def _over(value: Mapping[str, Any], where: str, problems: list[Problem]) -> Choice:
    """Return all rows or a share of them."""
    text, percent = str(value["over"]).strip(), value.get("percent")
    if match := _TEXT.fullmatch(text):
        if percent is not None:
            problems.append(Problem(f"{where}.percent", f"stands beside {text!r}, which has its own"))
        percent, text = match.groups()
    over = _OVER.get(text.lower())
    if over is None:
        problems.append(Problem(f"{where}.over", f"is {value['over']!r}; expected {_FORMS}"))
        return ALL
    if over == "all":
        if percent is not None:
            problems.append(Problem(f"{where}.percent", "cannot be used with all rows; give over: records or period"))
        return ALL
    try:
        share = Fraction(str(percent).strip().removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        problems.append(Problem(f"{where}.percent", f"is {percent!r}; expected a number above 0 and at most 100"))
        return ALL
    return Choice("records" if over == "records" else "period", share)


def _dates(value: Mapping[str, Any], where: str, problems: list[Problem]) -> Choice:
    """Return the rows between two dates."""
    ends: list[int | None] = []
    for key, second in (("start", first_second), ("end", last_second)):
        given = value.get(key)
        try:
            ends.append(None if given is None else second(given))
        except (OptionError, SelectionError) as error:
            problems.append(Problem(f"{where}.{key}", error.message))
            ends.append(None)
    start, end = ends
    if start is not None and end is not None and end < start:
        problems.append(Problem(f"{where}.end", f"{epoch_text(end)} is before start {epoch_text(start)}"))
    return Choice("dates", start=start, end=end)
