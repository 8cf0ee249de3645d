"""The tables of what survives a translation from one dialect of aggregation into another: each cell is tried."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from tests.conventions.test_written import LACKS, LOST
from tests.writing.every_dialect import READ, RICH, WRITTEN, losses, write


def survives() -> str:
    """Return which facts about partitions each written dialect has words for.

    >>> survives().splitlines()[0]
    '| | NCA-0.1 | CFA-0.4 | CFA-0.6.2 | CF-1.13 |'
    """
    rows = []
    for what, (aggregation, _) in LOST.items():
        cells = []
        for to in WRITTEN:
            lost = any(lack.what == what for lack in LACKS[to].lacks(aggregation))
            cells.append("lost" if lost else "yes")
        rows.append(_row(what, *cells))
    return "\n".join([_row("", *WRITTEN), _row(*["---"] * 5), *rows])


def translations() -> str:
    """Return what is lost of one aggregation in each dialect in each other.

    >>> translations().splitlines()[0]
    '| from | with | NCA-0.1 | CFA-0.4 | CFA-0.6.2 | CF-1.13 |'
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dialect in READ:
            for rich in (False, True):
                if rich and dialect == "CFA-0.5":
                    continue
                here = Path(folder) / f"{dialect}-{rich}"
                here.mkdir()
                path = write(here, dialect, rich=rich)
                cells = [", ".join(dict.fromkeys(loss.what for loss in losses(path, to))) or "all" for to in WRITTEN]
                rows.append(_row(dialect, RICH[dialect] if rich else "whole arrays", *cells))
    return "\n".join([_row("from", "with", *WRITTEN), _row(*["---"] * 6), *rows])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
