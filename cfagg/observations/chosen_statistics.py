"""The statistics of a dataset, and the range of rows that they are computed from."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cfagg.cf.durations import format_duration
from cfagg.cf.instants import epoch_text
from cfagg.errors import ConventionError, OptionError, Problem, SelectionError
from cfagg.observations.dates import first_second, last_second, parse_frequency

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.selection import Plan
    from cfagg.observations.store import ObservationStore

__all__ = ["ALL", "Choice", "Taken", "chosen_statistics", "parse_choice", "stored_tendencies"]


class Taken(NamedTuple):
    """The statistics of another dataset: arrays by name, its variables in their order, and its path."""

    statistics: Mapping[str, Any]
    variables: Sequence[str]
    path: str


def chosen_statistics(
    store: ObservationStore, index: Index, plan: Plan, value: Any, options: Any = None, allow: Iterable[str] = ()
) -> dict[str, dict[str, float]]:
    """Return the statistics that a user chooses, by name and by variable of the store."""
    names, stored = plan.columns.names, plan.columns.stored
    # Statistics of another dataset are also a tuple, but not a choice of rows.
    rows = None if isinstance(value, Taken) else _choice(value)
    if rows is not None:
        found = _by_name(_of_rows(store, index, rows), store.variables, stored, "statistics")
    elif isinstance(value, Taken):
        found = _by_name(value.statistics, value.variables, names, f"statistics of {value.path}")
    elif isinstance(value, (str, os.PathLike)):
        from cfagg.observations.store import open_store

        # The options are for the URL of the dataset; a directory has none.
        remote = "://" in os.fspath(value)
        other = open_store(value, options=options if remote else None, allow=allow)
        found = _by_name(other.statistics, other.variables, stored, f"statistics of {other.path}")
    elif isinstance(value, Mapping):
        found = _given(value, names)
    else:
        raise OptionError(
            f"statistics={value!r:.80} must be a mapping, a dataset, the path of a store, or a choice of rows such as "
            '"80% of records"'
        )
    return {k: dict(zip(stored, v, strict=True)) for k, v in found.items()}


def stored_tendencies(store: ObservationStore, plan: Plan, step: Any = None) -> dict[str, Any]:
    """Return the statistics of tendencies for the variables of a dataset; by default between two samples."""
    from cfagg.observations.store import STATISTICS

    seconds = plan.dates.frequency if step is None else parse_frequency(step)
    text = format_duration(Fraction(seconds))
    positions = plan.columns.positions(store.variables)
    found = {}
    for name in STATISTICS:
        values = store.each_variable(f"statistics_tendencies_{text}_{name}", f"{name} of the tendencies over {text}")
        if values is not None:
            found[name] = values[positions]
    if not found:
        raise OptionError(
            f"{store.path} has no statistics of tendencies over {text}; name the step in the recipe "
            f"(statistics: tendencies: [{text}]) and rebuild the store"
        )
    return found


def _choice(value: Any) -> Any:
    """Return the choice of rows that a value represents, or `None` if it is not a choice."""
    if isinstance(value, Mapping) and not {"over", "percent", "start", "end"} & set(value):
        return None
    if isinstance(value, str) and value.strip().lower() != "all" and "%" not in value:
        return None
    if not isinstance(value, (str, Mapping, Choice)):
        return None
    try:
        return parse_choice(value)
    except ConventionError as error:
        raise OptionError(error.message, error.problems) from None


def _of_rows(store: ObservationStore, index: Index, choice: Any) -> dict[str, Any]:
    """Calculate the statistics of a choice of rows."""
    from cfagg.observations.statistics import over_rows

    first, last = index.first, index.last
    start, stop = (0, 0) if first is None or last is None else choice.rows(store.rows, first, last, index.find)
    if start >= stop and first is not None and last is not None:
        raise OptionError(
            f"{store.path} has no row among {choice}, of which statistics= asks; its rows are from "
            f"{epoch_text(first)} to {epoch_text(last)}; choose a range with rows"
        )
    columns = np.arange(4, 4 + len(store.variables))
    found: dict[str, Any] = over_rows(
        len(store.variables), start, stop, lambda a, b: store.data.read(a, b, columns)
    ).result()
    return found


def _by_name(
    statistics: Mapping[str, Any], names: Sequence[str], wanted: Sequence[str], where: str
) -> dict[str, list[float]]:
    """Return statistics of the wanted variables, in their order."""
    places = {name: i for i, name in enumerate(names)}
    if missing := [n for n in wanted if n not in places]:
        raise OptionError(f"{where} lack some variables", [Problem(n, "is missing") for n in missing])
    return {k: [float(v[places[n]]) for n in wanted] for k, v in statistics.items()}


def _given(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[float]]:
    """Return statistics given by a user as numbers."""
    found: dict[str, list[float]] = {}
    problems = []
    for key, numbers in value.items():
        if isinstance(numbers, Mapping):
            if missing := [n for n in names if n not in numbers]:
                problems.append(Problem(str(key), f"has no value for {', '.join(missing)}"))
                continue
            numbers = [numbers[n] for n in names]  # noqa: PLW2901
        try:
            column = np.asarray(numbers, np.float64)
        except (TypeError, ValueError):
            problems.append(Problem(str(key), "does not consist of numbers"))
            continue
        if column.shape != (len(names),):
            problems.append(Problem(str(key), f"has shape {column.shape}; expected one number for each of {names}"))
            continue
        found[str(key)] = column.tolist()
    if problems:
        raise OptionError("statistics= does not fit the variables", problems)
    return found


_TEXT = re.compile(r"(?:the )?(?:first )?([0-9.]+) ?% of (?:the |all )?(records|rows|period)", re.IGNORECASE)
_DAY = 86400
_KEYS = ("over", "percent", "start", "end")
_OVER = {"all": "all", "records": "records", "rows": "records", "period": "period"}
_FORMS = '"all", "80% of records", "80% of period", or start and end'


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of rows: all, a share of the rows or of the time, a range of dates, or as in the published software."""

    over: Literal["all", "records", "period", "dates", "published"] = "all"
    #: Share of the rows, or of the time from the first row to the last, above 0 and at most 1.
    share: Fraction = Fraction(1)
    #: First and last second since 1970, both included.
    start: int | None = None
    end: int | None = None

    def rows(self, rows: int, first: int, last: int, find: Callable[[int, int], tuple[int, int]]) -> tuple[int, int]:
        """Return the range of rows chosen; `first` and `last` are the dates of all rows."""
        # A share of a nonempty store has at least one row.  ``find(lo, hi)`` returns the range of rows with lo <= date
        # < hi, as the indexes of a store do.
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
    """Return the last second of the rows from which the published software computes statistics by default."""
    # The first 80 % of the days from the first row to the last; from 10 years on, all but the last calendar year; from
    # 20 years on, all but the last three.
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


def parse_choice(value: Any) -> Choice:
    """Return the choice of rows of a recipe or user, such as ``80% of period``; an error lists every problem."""
    if value is None or isinstance(value, Choice):
        return value or ALL
    if isinstance(value, str):
        value = {"over": value}
    if not isinstance(value, Mapping):
        raise ConventionError(f"statistics is {value!r}; expected {_FORMS}")
    problems = [
        Problem(f"statistics.{key}", f"is not known; expected {', '.join(_KEYS)}") for key in value if key not in _KEYS
    ]
    found: Choice | None = None
    if value.get("over") is not None:
        found = _over(value, problems)
    elif value.get("percent") is not None:
        problems.append(Problem("statistics.percent", "needs over: records or over: period beside it"))
    if value.get("start") is not None or value.get("end") is not None:
        if found is not None:
            problems.append(Problem("statistics", "has both over and start or end; give one or the other"))
        found = _dates(value, problems)
    if problems:
        raise ConventionError("the rows for statistics cannot be chosen", problems)
    return found or ALL


def exact_number(text: str) -> Fraction:
    """Return the number that a text names, such as 80, 1e-3 or 1/3; ValueError for others."""
    # A fraction takes as many digits as the exponent is large, so those beyond float64 are refused.
    if "/" not in text and not 0 < abs(float(text)) < math.inf:
        raise ValueError(f"{text!r} is zero, infinite, or no number")
    return Fraction(text)


def _over(value: Mapping[str, Any], problems: list[Problem]) -> Choice:
    """Return all rows or a share of them."""
    text, percent = str(value["over"]).strip(), value.get("percent")
    if match := _TEXT.fullmatch(text):
        if percent is not None:
            problems.append(Problem("statistics.percent", f"is given although {text!r} has its own; leave one out"))
        percent, text = match.groups()
    over = _OVER.get(text.lower())
    if over is None:
        problems.append(Problem("statistics.over", f"is {value['over']!r}; expected {_FORMS}"))
        return ALL
    if over == "all":
        if percent is not None:
            problems.append(Problem("statistics.percent", "cannot be used with all rows; give over: records or period"))
        return ALL
    try:
        share = exact_number(str(percent).strip().removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        problems.append(Problem("statistics.percent", f"is {percent!r}; expected a number above 0 and at most 100"))
        return ALL
    return Choice("records" if over == "records" else "period", share)


def _dates(value: Mapping[str, Any], problems: list[Problem]) -> Choice:
    """Return the rows between two dates."""
    ends: list[int | None] = []
    for key, second in (("start", first_second), ("end", last_second)):
        given = value.get(key)
        try:
            ends.append(None if given is None else second(given))
        except (OptionError, SelectionError) as error:
            problems.append(Problem(f"statistics.{key}", error.message))
            ends.append(None)
    start, end = ends
    if start is not None and end is not None and end < start:
        problems.append(Problem("statistics.end", f"{epoch_text(end)} is before start {epoch_text(start)}"))
    return Choice("dates", start=start, end=end)
