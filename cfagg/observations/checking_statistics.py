"""Whether the statistics of a store are those of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import OptionError, SelectionError
from cfagg.findings.finding import Finding
from cfagg.observations.dates import first_second, last_second
from cfagg.observations.findings import finding_of

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.statistics import Accumulator
    from cfagg.observations.store import ObservationStore

__all__ = ["chosen_range", "compare_statistics", "plausible_statistics"]

type Values = Mapping[str, npt.NDArray[Any]]

#: Means and standard deviations of other software may differ by so much of the size of the values.
_TOLERANCE = 1e-6
#: Arrays that a store of the published software has.
_EXPECTED = ("mean", "minimum", "maximum", "stdev")


def chosen_range(store: ObservationStore, index: Index | None) -> tuple[int, int] | None:
    """Return the rows that a store says its statistics are of, else all; `None` if that is unclear."""
    given = store.attributes.all.get("statistics_rows")
    if given is not None:
        fits = isinstance(given, list) and len(given) == 2 and all(type(n) is int for n in given)
        return (given[0], given[1]) if fits and 0 <= given[0] <= given[1] <= store.rows else None
    start, end = store.attributes.statistics_start_date, store.attributes.statistics_end_date
    if start is None and end is None:
        return 0, store.rows
    if index is None:
        return None
    try:
        lo = -(2**62) if start is None else first_second(start)
        hi = 2**62 if end is None else last_second(end) + 1
    except (OptionError, SelectionError):
        return None
    return index.find(lo, max(lo, hi))


def compare_statistics(store: ObservationStore, found: Accumulator) -> list[Finding]:
    """Return which statistics are not those of the rows: extremes and counts exactly, others but for rounding."""
    findings: list[Finding] = []
    expected = found.result()
    size = np.nan_to_num(np.abs(expected["mean"]), nan=0, posinf=0) + np.nan_to_num(expected["stdev"], nan=0)
    for name, stored in store.statistics.items():
        right = np.asarray(expected[name], np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(stored - right) <= (_TOLERANCE * size if name in ("mean", "stdev") else 0)
        same = near | (stored == right) | (np.isnan(stored) & np.isnan(right))
        if name == "stdev":
            # Of infinite values there is none; other software may say otherwise.
            same |= np.isinf(expected["mean"])
        wrong = np.flatnonzero(~same).tolist()
        if wrong:
            said = [f"{store.variables[i]} {stored[i]:.9g}, of its rows {right[i]:.9g}" for i in wrong[:5]]
            more = f"; and {len(wrong) - 5} more variables" if len(wrong) > 5 else ""
            findings.append(finding_of("OBS031", f"statistics.{name}", "; ".join(said) + more))
    return findings


def plausible_statistics(store: ObservationStore) -> list[Finding]:
    """Return which statistics are absent, or cannot be those of any rows; no row is read."""
    given: Values = store.statistics
    absent = [name for name in _EXPECTED if name not in given]
    findings = [finding_of("OBS032", "statistics", f"the store has no {', '.join(absent)}")] if absent else []
    rules: list[tuple[str, npt.NDArray[np.bool_], str]] = []
    if not absent:
        mean, low, high, stdev = (given[name] for name in _EXPECTED)
        slack = _TOLERANCE * np.nan_to_num(np.maximum(np.abs(low), np.abs(high)), nan=0, posinf=0)
        with np.errstate(invalid="ignore"):
            rules += [
                ("minimum", low > high, "is above the maximum"),
                ("mean", (mean < low - slack) | (mean > high + slack), "is not between minimum and maximum"),
                ("stdev", (stdev < 0) | (stdev > (high - low) / 2 + slack), "cannot be with these extremes"),
            ]
    if "nan_count" in given:
        count = given["nan_count"]
        rules.append(("nan_count", ~((count >= 0) & (count <= store.rows)), f"is not 0 to {store.rows:,}"))
    for name, wrong, said in rules:
        for i in np.flatnonzero(wrong)[:5].tolist():
            value = f"{given[name][i]:.9g}"
            findings.append(finding_of("OBS031", f"statistics.{name}", f"{value} of {store.variables[i]} {said}"))
    return findings
