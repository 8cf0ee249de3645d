"""Stores of observations: rows, indexes and statistics, with the findings of ``cfagg obs check``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cfagg.conventions.aside import is_observations
from cfagg.findings.context import Context
from cfagg.findings.finding import Hit
from cfagg.findings.rule import Explanation, Rule
from cfagg.findings.versions import Version
from cfagg.observations.findings import CODES
from cfagg.runtime.progress import task

if TYPE_CHECKING:
    from cfagg.observations.findings import CheckReport


def _place(c: Context) -> str | None:
    """Return the path of the store of observations, or `None` if the dataset is not one."""
    if not is_observations(c.dataset):
        return None
    return c.dataset.path or (c.dataset.source if "://" in c.dataset.source else None)


def _report(c: Context) -> CheckReport | None:
    """Return the result of a check of all rows."""
    place = _place(c)
    if place is None:
        return None
    from cfagg.errors import CfaggError
    from cfagg.observations.checking import check_store

    done = 0
    with task("rows") as step:

        def advance(rows: int, _of: int) -> None:
            nonlocal done
            step(rows - done)
            done = rows

        try:
            return check_store(place, full=True, allow=c.options.allow, progress=advance)
        except CfaggError:
            return None  # OBS001 reports why it cannot be opened


def _opened(c: Context) -> Iterator[Hit]:
    """Report why the store cannot be opened, if so."""
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
        if finding.code == code:
            where = c.dataset.root.variables.get(finding.where)
            yield Hit(where, None, finding.text if where is not None else f"{finding.where}: {finding.text}")


#: The rules that ``cfagg check`` finds by the name of this module, like those of other packages.
RULES = [
    Rule(
        code,
        "cfagg",
        "Stores of observations",
        severity,
        Version(1, 0),
        summary,
        "metadata" if code == "OBS001" else "data",
        _opened if code == "OBS001" else partial(_found, code=code),
        explanation=Explanation(Path(__file__).with_suffix(".toml"), code),
    )
    for code, (severity, summary) in CODES.items()
]
