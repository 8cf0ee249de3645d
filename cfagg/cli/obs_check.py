"""``cfagg obs check``: what is wrong with a store of observations."""

from __future__ import annotations

import argparse
import sys

from cfagg.cli import obs_common
from cfagg.cli.bars import step_bar
from cfagg.cli.storage_options import storage_options

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
    parser = subparsers.add_parser(
        "check",
        help="check order, duplicates, coordinates, indexes and statistics",
        description="Check a store of observations: order of rows, duplicates, dates, coordinates, indexes, chunks\n"
        "and statistics. Rows that are wrong are listed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    obs_common.add_store(parser)
    parser.add_argument(
        "--full", action="store_true", help="read all rows of a large store (default: a million rows in 64 places)"
    )
    parser.add_argument("--json", action="store_true", help="print strict JSON for machines")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; the result is the exit status")
    return parser


def run(args: argparse.Namespace) -> int:
    """Check one store; findings go to stdout."""
    from cfagg.observations.checking import check_store

    with step_bar("check", not args.quiet and sys.stderr.isatty()) as progress:
        report = check_store(args.store, args.full, options=storage_options(args), allow=args.allow, progress=progress)
    if args.json:
        from cfagg.display.as_json import dump, encode

        print(dump({"form": "cfagg obs check", "form_version": 1, **encode(report.as_dict())}))
    elif not args.quiet:
        from cfagg.display.escape import printable

        for line in str(report).splitlines():
            print(printable(line))
    return 0 if report.ok else 1
