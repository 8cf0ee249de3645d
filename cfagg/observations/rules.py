"""Stores of observations: rows, indexes and statistics, with the findings of ``cfagg obs check``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cfagg.conventions.aside import is_observations
from cfagg.findings.context import Context
from cfagg.findings.finding import Hit
from cfagg.findings.rule import Need, RuleFunction, rule
from cfagg.runtime.progress import task

if TYPE_CHECKING:
    from cfagg.observations.findings import CheckReport


def _place(c: Context) -> str | None:
    """Return where the store of observations is, `None` where the dataset is none."""
    if not is_observations(c.dataset):
        return None
    return c.dataset.path or (c.dataset.source if "://" in c.dataset.source else None)


def _report(c: Context) -> CheckReport | None:
    """Return what a check of all rows finds."""
    place = _place(c)
    if place is None:
        return None
    from cfagg.errors import CfaggError
    from cfagg.observations.checking import check_store

    done = 0
    with task("rows") as step:

        def told(rows: int, _of: int) -> None:
            nonlocal done
            step(rows - done)
            done = rows

        try:
            return check_store(place, full=True, allow=c.options.allow, progress=told)
        except CfaggError:
            return None  # OBS001 tells why it cannot be opened


def _opened(c: Context) -> Iterator[Hit]:
    """Tell why the store cannot be opened, if it cannot."""
    place = _place(c)
    if place is None:
        return
    from cfagg.errors import CfaggError
    from cfagg.observations.store import open_store

    try:
        open_store(place, None, c.options.allow)
    except CfaggError as error:
        for message in [str(p) for p in error.problems] or [error.message]:
            yield Hit(None, None, message)


def _found(c: Context, code: str) -> Iterator[Hit]:
    """Yield the findings of one rule."""
    report = c.once(_report)
    for finding in () if report is None else report.findings:
        if finding.code != code:
            continue
        message = finding.message
        if finding.count:
            named = ", ".join(f"{r:,}" for r in finding.rows) + (", …" if finding.count > len(finding.rows) else "")
            message += f" ({finding.count:,} row{'s' * (finding.count != 1)}: {named})"
        where = c.dataset.root.variables.get(finding.where)
        yield Hit(where, None, message if where is not None else f"{finding.where}: {message}")


def _register(code: str, name: str, summary: str, needs: Need = "data") -> RuleFunction:
    """Register the rule of one code of a check of observations."""

    def function(c: Context) -> Iterator[Hit]:
        return _opened(c) if code == "OBS001" else _found(c, code)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    return rule(code, needs=needs)(function)


opens = _register("OBS001", "opens", "A store of observations can be opened.", "metadata")
chunks_are_there = _register("OBS002", "chunks_are_there", "No chunk is absent or damaged.")
rows_are_ordered = _register("OBS011", "rows_are_ordered", "Rows are in the order of all their columns.")
rows_differ = _register("OBS012", "rows_differ", "No row occurs twice.")
dates_are_days = _register("OBS013", "dates_are_days", "Dates are whole days since 1970.")
times_are_seconds = _register("OBS014", "times_are_seconds", "Times are whole seconds of a day.")
latitudes_are_latitudes = _register("OBS015", "latitudes_are_latitudes", "Latitudes are from -90 to 90.")
longitudes_are_longitudes = _register("OBS016", "longitudes_are_longitudes", "Longitudes are at least 0 and below 360.")
indexes_are_whole = _register("OBS021", "indexes_are_whole", "Indexes can be read and keep their own rules.")
indexes_are_of_the_rows = _register("OBS022", "indexes_are_of_the_rows", "Indexes are those of the rows.")
indexes_beside_are_fresh = _register("OBS023", "indexes_beside_are_fresh", "The index beside a store matches its rows.")
statistics_are_of_the_rows = _register("OBS031", "statistics_are_of_the_rows", "Statistics are those of the rows.")
statistics_are_there = _register("OBS032", "statistics_are_there", "A store has statistics.")
attributes_agree = _register("OBS041", "attributes_agree", "Attributes agree with the data.")
