"""``cfagg index``: the byte-offset index of an aggregation file, or references for other libraries."""

from __future__ import annotations

import sys

from cfagg.cli import output
from cfagg.cli.bars import step_bar
from cfagg.cli.options import FILES_FROM, JSON_REPORT, Arguments, allow, either, flag, option, storage_option, workers

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = (
    "Create or refresh the byte-offset index of an aggregation file, with which fragments are read without opening "
    "each first, or write references for other libraries."
)

EPILOG = """\
examples:
  cfagg index temperature.nc
  cfagg index data/*.nc -o data.cfagg-index
  cfagg index temperature.nc --to kerchunk -o temperature.json

An existing index is refreshed: only changed files are scanned. It is used wherever the
aggregation file is read. Files may be patterns, directories or URLs.
"""

OPTIONS = (
    option("files", "FILE", "an aggregation file, or any files", nargs="*"),
    FILES_FROM,
    option("--output", "OUT", "the file to write (default: FILE.cfagg-index)"),
    option("--to", ("kerchunk", "icechunk"), "write references for other libraries instead"),
    option(
        "--on-loss", ("error", "materialise", "drop"), "how to handle what references cannot express (default: error)",
        default="error",
    ),
    flag("--overwrite", "replace references, or a file that is not an index"),
    allow("also read fragments at or below PATH"),
    storage_option(where="FILE"),
    either(
        workers("processes", "one per processor for many files"),
        option("--dask", "ADDRESS", "address of a Dask scheduler whose workers open the files"),
    ),
    flag("--quiet", "no notes or summary"),
    JSON_REPORT,
)  # fmt: skip


def run(args: Arguments) -> int:
    """Write an index or references; a summary goes to stdout, notes to stderr."""
    from cfagg.aggregation.indexing import index
    from cfagg.errors import LossError, OptionError

    files = args.named(args.files)
    if not files:
        raise OptionError("name an aggregation file, or files")
    try:
        with step_bar("index", sys.stderr.isatty() and not args.quiet) as progress:
            report = index(
                files[0] if len(files) == 1 else files, storage_options=args.options(), client=args.dask,
                progress=progress, **args.some("output", "to", "on_loss", "overwrite", "allow", "workers"),
            )  # fmt: skip
    except LossError as error:
        return output.refused(args, "index", error)
    output.list_losses(getattr(report, "losses", ()))
    left: tuple[str, ...] = getattr(report, "left_out", ())
    changed: tuple[str, ...] = getattr(report, "changed", ())
    notes = [*report.notes, *(f"{one} had changed" for one in changed), *(f"read without it: {one}" for one in left)]
    output.print_report(args, "index", report.as_dict(), str(report), notes)
    return 0
