"""``cfagg index``: the byte-offset index of an aggregation file, or references for other libraries."""

from __future__ import annotations

import argparse
import sys

from cfagg.cli import output
from cfagg.cli.bars import step_bar
from cfagg.cli.options import (
    FILES_FROM,
    JSON_REPORT,
    allow,
    either,
    flag,
    listed,
    option,
    storage_option,
    storage_options,
    workers,
)

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = (
    "Make or refresh the byte-offset index of an aggregation file, by which fragments are read without a look into "
    "each, or write references for other libraries."
)

EPILOG = """\
examples:
  cfagg index temperature.nc
  cfagg index data/*.nc -o data.cfagg-index
  cfagg index temperature.nc --to kerchunk -o temperature.json

An index that is there is refreshed: only files that have changed are looked into. It is used wherever the aggregation
file is read. Files may be patterns, directories or URLs.
"""

OPTIONS = (
    option("files", "FILE", "an aggregation file, or any files", nargs="*"),
    FILES_FROM,
    option("--output", "OUT", "what is written (default: FILE.cfagg-index)"),
    option("--to", ("kerchunk", "icechunk"), "write references for other libraries instead"),
    option(
        "--on-loss", ("error", "materialise", "drop"), "what to do about what references cannot say (default: error)",
        default="error",
    ),
    flag("--overwrite", "replace references, or a file that is no index"),
    allow("also read fragments at or below PATH"),
    storage_option(where="FILE"),
    either(
        workers("processes", "one per processor for many files"),
        option("--dask", "ADDRESS", "a Dask scheduler whose workers look into the files"),
    ),
    flag("--quiet", "no notes or summary"),
    JSON_REPORT,
)  # fmt: skip


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
    output.print_report(args, "index", report.as_dict(), str(report), notes)
    return 0
