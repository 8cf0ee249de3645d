"""Which statistics a dataset gives: the store's, another store's, given numbers, or those of a part of the rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cfagg.cf.durations import format_duration
from cfagg.errors import ConventionError, FragmentMismatchError, OptionError, Problem
from cfagg.observations.dates import parse_frequency

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.plan import Plan
    from cfagg.observations.store import ObservationStore

__all__ = ["Taken", "chosen_statistics", "stored_tendencies"]


class Taken(NamedTuple):
    """The statistics of another dataset: arrays by name, its variables in their order, and what it is called."""

    statistics: Mapping[str, Any]
    variables: Sequence[str]
    path: str


def chosen_statistics(
    store: ObservationStore, index: Index, plan: Plan, value: Any, options: Any = None, allow: Iterable[str] = ()
) -> dict[str, dict[str, float]]:
    """Return the statistics that a user chooses, by name and by variable of the store."""
    names, stored = plan.columns.names, plan.columns.stored
    # Another dataset's are a tuple, too, but no choice of rows.
    rows = None if isinstance(value, Taken) else _choice(value)
    if rows is not None:
        found = _by_name(_of_rows(store, index, rows), store.variables, stored, "statistics")
    elif isinstance(value, Taken):
        found = _by_name(value.statistics, value.variables, names, f"statistics of {value.path}")
    elif isinstance(value, (str, os.PathLike)):
        from cfagg.observations.store import open_store

        # Options are those of the dataset's URL; a directory takes none.
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
    """Return the statistics of tendencies of a store, for the dataset's variables; by default between two samples."""
    from cfagg.observations.arrays import open_stored
    from cfagg.observations.rows import read_small
    from cfagg.observations.store import STATISTICS

    seconds = plan.dates.frequency if step is None else parse_frequency(step)
    text = format_duration(Fraction(seconds))
    positions = plan.columns.positions(store.variables)
    found = {}
    for name in STATISTICS:
        array = open_stored(store.source, f"statistics_tendencies_{text}_{name}")
        if array is None:
            continue
        if array.shape != (len(store.variables),):
            raise FragmentMismatchError(
                f"{store.path}: {name} of the tendencies over {text} has the shape {array.shape}, expected one value "
                f"for each of the {len(store.variables)} variables"
            )
        found[name] = read_small(store.source, array).astype(np.float64)[positions]
    if not found:
        raise OptionError(
            f"{store.path} has no statistics of tendencies over {text}: name the step in the recipe "
            f"(statistics: tendencies: [{text}]) and build the store again"
        )
    return found


def _choice(value: Any) -> Any:
    """Return the choice of rows that a value is, or `None` where it is none."""
    from cfagg.observations.chosen_rows import Choice, parse_choice

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
        raise OptionError(f"{where} lack variables", [Problem(n, "is not among them") for n in missing])
    return {k: [float(v[places[n]]) for n in wanted] for k, v in statistics.items()}


def _given(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[float]]:
    """Return statistics that a user gives as numbers."""
    found: dict[str, list[float]] = {}
    problems = []
    for key, numbers in value.items():
        if isinstance(numbers, Mapping):
            if missing := [n for n in names if n not in numbers]:
                problems.append(Problem(str(key), f"has nothing for {', '.join(missing)}"))
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
