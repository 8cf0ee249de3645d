"""A check as JSON: one list with an object for each source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cfagg.checking.formats import Style, Totals, most_first
from cfagg.checking.outcome import Outcome
from cfagg.checking.registry import registered
from cfagg.display.as_json import form_json, forms_json

__all__ = ["render"]


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield a list with the form and the members ``source``, ``cf_version`` and ``findings`` of each source.

    With statistics, it is a list with the form, ``code``, ``severity``, ``count`` and ``summary`` of each broken rule.
    """
    if style.statistics:
        yield from _statistics(results)
        return
    before = "[\n"
    for result in results:
        yield before + form_json("check", result.as_dict())
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
    yield forms_json("check --statistics", rows) + "\n"
