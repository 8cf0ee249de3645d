"""A check as JSON: one list with an object for each source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from cfagg.checking.formats import Style, Totals, most_first
from cfagg.checking.outcome import Outcome
from cfagg.checking.registry import registered

__all__ = ["render"]


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield a list with the members ``source``, ``cf_version`` and ``findings`` of each source.

    With statistics, it is a list with ``code``, ``severity``, ``count`` and ``summary`` of each broken rule.
    """
    if style.statistics:
        yield from _statistics(results)
        return
    before = "[\n"
    for result in results:
        yield before + json.dumps(result.as_dict(), indent=1)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _statistics(results: Iterable[Outcome]) -> Iterator[str]:
    totals, known = Totals(), registered()
    for result in results:
        totals.add(result)
    rows = [
        {
            "code": code,
            "severity": known[code].severity if code in known else None,
            "count": number,
            "summary": known[code].summary if code in known else None,
        }
        for code, number in most_first(totals.codes)
    ]
    yield json.dumps(rows, indent=1) + "\n"
