"""``cfagg index``: the byte-offset index of an aggregation file, or references for other libraries."""

from __future__ import annotations

import argparse
import sys

from cfagg.cli.bars import step_bar
from cfagg.cli.options import (
    add_allow,
    add_files_from,
    add_flag,
    add_json,
    add_storage_option,
    add_workers,
    listed,
    new_command,
    print_report,
    storage_options,
)

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg index temperature.nc
  cfagg index data/*.nc -o data.cfagg-index
  cfagg index temperature.nc --to kerchunk -o temperature.json

An index that is there is refreshed: only files that have changed are looked into. It is used wherever the aggregation
file is read. Files may be patterns, directories or URLs.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "index",
        "note where the values of fragments stand, so that they are read quickly",
        "Make or refresh the byte-offset index of an aggregation file, by which fragments are read without a look into "
        "each, or write references for other libraries.",
        _EPILOG,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="an aggregation file, or any files")
    add_files_from(parser)
    parser.add_argument("-o", "--output", metavar="OUT", help="what is written (default: FILE.cfagg-index)")
    parser.add_argument("--to", choices=["kerchunk", "icechunk"], help="write references for other libraries instead")
    parser.add_argument(
        "--on-loss",
        choices=["error", "materialise", "drop"],
        default="error",
        help="what to do about what references cannot say (default: error)",
    )
    add_flag(parser, "--overwrite", "replace references, or a file that is no index")
    add_allow(parser, "also read fragments at or below PATH")
    add_storage_option(parser, where="FILE")
    how = parser.add_mutually_exclusive_group()
    add_workers(how, "processes", "one per processor for many files")
    how.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler whose workers look into the files")
    add_flag(parser, "--quiet", "no notes or summary")
    add_json(parser, "print the report as strict JSON")


def run(args: argparse.Namespace) -> int:
    """Write an index or references; a summary goes to stdout, notes to stderr."""
    from cfagg.aggregation.indexing import index
    from cfagg.errors import OptionError

    files = [*args.files, *listed(args.files_from or ())]
    if not files:
        raise OptionError("name an aggregation file, or files")
    with step_bar("index", sys.stderr.isatty() and not args.quiet) as progress:
        report = index(
            files[0] if len(files) == 1 else files,
            output=args.output,
            to=args.to,
            on_loss=args.on_loss,
            overwrite=args.overwrite,
            allow=args.allow,
            storage_options=storage_options(args),
            client=args.dask,
            workers=args.workers,
            progress=progress,
        )
    left: tuple[str, ...] = getattr(report, "left_out", ())
    changed: tuple[str, ...] = getattr(report, "changed", ())
    notes = [*report.notes, *(f"{one} had changed" for one in changed), *(f"read without it: {one}" for one in left)]
    print_report(args, "index", report.as_dict(), str(report), notes)
    return 0
