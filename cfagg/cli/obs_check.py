"""``cfagg obs check``: report problems in a store of observations."""

from __future__ import annotations

import sys

from cfagg.cli import output
from cfagg.cli.bars import step_bar
from cfagg.cli.options import JSON, STORE, Arguments, flag

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = (
    "Check a store of observations: order of rows, duplicates, dates, coordinates, indexes, chunks\n"
    "and statistics. Rows with errors are listed."
)

EPILOG = """\
examples:
  cfagg obs check synop.zarr
  cfagg obs check synop.zarr --full
  cfagg obs check synop.zarr --json

exit status: 0 no errors (there may be warnings), 1 errors, 2 wrong usage or failure
"""

OPTIONS = (
    *STORE,
    flag("--full", "read all rows of a large store (default: a million rows in 64 places)"),
    JSON,
    flag("--quiet", "print nothing; the result is the exit status"),
)


def run(args: Arguments) -> int:
    """Check one store; findings go to stdout."""
    from cfagg.observations.checking import check_store

    with step_bar("check", not args.quiet and sys.stderr.isatty()) as progress:
        report = check_store(args.store, args.full, options=args.options(), allow=args.allow, progress=progress)
    output.print_report(args, "obs check", report.as_dict(), str(report))
    return 0 if report.ok else 1
