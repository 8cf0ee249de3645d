"""``cfagg rebase``: move the references of an aggregation file to another directory."""

from __future__ import annotations

from cfagg.cli import output
from cfagg.cli.options import JSON_REPORT, Arguments, flag, option, storage_option

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Move the references of an aggregation file from one directory or URL to another."

EPILOG = """\
examples:
  cfagg rebase temperature.nca --from /archive/cmip5 --to /data/cmip5
  cfagg rebase temperature.nc --from /data --to s3://bucket/data -o remote.nc

No data are touched. Without -o the file itself is replaced atomically. FILE and OUT may be URLs.
"""

OPTIONS = (
    option("file", "FILE", "an aggregation file: NCA-0.1, CFA-0.4, CFA-0.6.2 or CF-1.13"),
    option("--from", "A", "directory or URL with which the references begin", dest="old", required=True),
    option("--to", "B", "directory or URL with which to replace it", dest="new", required=True),
    option("--output", "OUT", "write another file and leave FILE unchanged"),
    flag("--overwrite", "replace OUT"),
    storage_option(where="FILE"),
    storage_option("target", "OUT"),
    flag("--quiet", "no notes or summary"),
    JSON_REPORT,
)


def run(args: Arguments) -> int:
    """Move references; the file's name goes to stdout, notes to stderr."""
    from cfagg.writing.rebasing import rebase

    report = rebase(
        args.file, args.old, args.new, output=args.output, overwrite=args.overwrite,
        storage_options=args.options(), target_options=args.options("target"),
    )  # fmt: skip
    output.print_report(args, "rebase", report.as_dict(), str(report), report.notes)
    return 0
