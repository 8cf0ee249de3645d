"""``cfagg obs check``: what is wrong with a store of observations."""

from __future__ import annotations

import argparse
import sys

from cfagg.cli.bars import step_bar
from cfagg.cli.options import add_flag, add_json, add_store, new_command, print_report, storage_options

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg obs check synop.zarr
  cfagg obs check synop.zarr --full
  cfagg obs check synop.zarr --json

exit status: 0 no errors (there may be warnings), 1 errors, 2 wrong usage or failure
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the command to the parser of `cfagg obs`, and return its own."""
    parser = new_command(
        subparsers,
        "check",
        "check order, duplicates, coordinates, indexes and statistics",
        "Check a store of observations: order of rows, duplicates, dates, coordinates, indexes, chunks\n"
        "and statistics. Rows that are wrong are listed.",
        _EPILOG,
    )
    add_store(parser)
    add_flag(parser, "--full", "read all rows of a large store (default: a million rows in 64 places)")
    add_json(parser)
    add_flag(parser, "--quiet", "print nothing; the result is the exit status")
    return parser


def run(args: argparse.Namespace) -> int:
    """Check one store; findings go to stdout."""
    from cfagg.observations.checking import check_store

    with step_bar("check", not args.quiet and sys.stderr.isatty()) as progress:
        report = check_store(args.store, args.full, options=storage_options(args), allow=args.allow, progress=progress)
    print_report(args, "obs check", report.as_dict(), str(report))
    return 0 if report.ok else 1
