"""The check of one source: open it, run the rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cfagg.checking.context import Context
from cfagg.checking.engine import KEPT, run, version_of
from cfagg.checking.lookup import table_versions
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.checking.outcome import most_severe_first
from cfagg.checking.registry import registered
from cfagg.checking.report import SourceReport
from cfagg.checking.suppressions import Hiding, Suppression
from cfagg.errors import CfaggError
from cfagg.errors.redacting import redacted
from cfagg.findings.finding import Finding
from cfagg.formats.metadata.standard_input import StandardInput
from cfagg.model.dataset import Dataset

__all__ = ["MOST", "check_one", "check_or_report", "could_not", "named", "partition_matrices"]


def check_one(
    source: Any,
    options: Options,
    suppressions: Sequence[Suppression] = (),
    *,
    drawn: bool = False,
    most: int = KEPT,
) -> SourceReport:
    """Check one source; `drawn` draws the partition matrices of aggregations as well.

    Up to `most` findings of each rule are kept.
    """
    with open_dataset(source, options=options) as dataset:
        version = version_of(dataset, options)
        hiding = Hiding(dataset.source, suppressions)
        result = run(dataset, options, hiding, most)
        pictures = tuple(partition_matrices(dataset)) if drawn else ()
    ran = tuple(
        code
        for code, rule in registered().items()
        if rule.function and rule.holds_in(version) and options.chooses(code) and code not in result.skipped
    )
    return SourceReport(
        source=result.source,
        cf_version=str(version).removeprefix("CF-"),
        findings=tuple(most_severe_first(result.findings)),
        skipped=result.skipped,
        ran=ran,
        dropped=dict(result.dropped),
        suppressed=dict(hiding.counts),
        reached=hiding.reached(ran),
        pictures=pictures,
        tables=table_versions(options.tables),
    )


def check_or_report(
    source: Any,
    options: Options,
    suppressions: Sequence[Suppression] = (),
    *,
    drawn: bool = False,
    most: int = KEPT,
) -> SourceReport:
    """Check one source; a failure to open or check it becomes a finding ``INT003``."""
    try:
        return check_one(source, options, suppressions, drawn=drawn, most=most)
    except CfaggError as error:
        return could_not(source, error.message)
    except OSError as error:
        return could_not(source, error.strerror or str(error))
    except MemoryError:
        return could_not(source, "there is not enough memory for this check")
    except Exception as error:  # noqa: BLE001 - one damaged file of thousands must not end the check of the others
        return could_not(source, f"the check failed: {type(error).__name__}: {error}")


def could_not(source: Any, why: str) -> SourceReport:
    """Return the result for a source that could not be checked."""
    why = redacted(why)
    finding = Finding("INT003", "error", None, None, f"not checked: {why}")
    return SourceReport(named(source), None, (finding,), failure=why)


def named(source: Any) -> str:
    """Return the name of a source."""
    if isinstance(source, str | os.PathLike):
        return redacted(os.fsdecode(source))
    if isinstance(source, StandardInput):
        return str(source)
    return f"{type(source).__name__} object"


#: Largest number of pictures of one dataset, since a page with hundreds is of no use.
MOST = 20


def partition_matrices(dataset: Dataset, most: int = MOST) -> list[tuple[str, str]]:
    """Return path and picture (SVG) of the partition matrix of each aggregation that is understood."""
    if all(v.dialect is None for v in dataset.variables):
        return []
    from cfagg.checking.described import described
    from cfagg.display.matrix import draw
    from cfagg.display.svg import svg

    found: list[tuple[str, str]] = []
    for variable, description in described(Context(dataset)).items():
        if description.aggregation is not None and len(found) < most:
            found.append(
                (variable.path, svg(draw(description.aggregation), label=f"Partition matrix of {variable.path}"))
            )
    return found
