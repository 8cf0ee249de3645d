"""``cfagg rebase``: move the references of an aggregation file to another directory."""

from __future__ import annotations

import argparse

from cfagg.cli.options import add_flag, add_json, add_storage_option, new_command, print_report, storage_options

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg rebase temperature.nca --from /archive/cmip5 --to /data/cmip5
  cfagg rebase temperature.nc --from /data --to s3://bucket/data -o remote.nc

No data are touched. Without -o the file itself is replaced, whole or not at all. FILE and OUT may be URLs.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "rebase",
        "move the references of an aggregation file to another directory",
        "Move the references of an aggregation file from one directory or URL to another.",
        _EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="an aggregation file: NCA-0.1, CFA-0.4, CFA-0.6.2 or CF-1.13")
    parser.add_argument("--from", metavar="A", dest="old", required=True, help="directory or URL that they begin with")
    parser.add_argument("--to", metavar="B", dest="new", required=True, help="what they are to begin with")
    parser.add_argument("-o", "--output", metavar="OUT", help="write another file and leave FILE as it is")
    add_flag(parser, "--overwrite", "replace OUT")
    add_storage_option(parser, where="FILE")
    add_storage_option(parser, of="target", where="OUT")
    add_flag(parser, "--quiet", "no notes or summary")
    add_json(parser, "print the report as strict JSON")


def run(args: argparse.Namespace) -> int:
    """Move references; the file's name goes to stdout, notes to stderr."""
    from cfagg.writing.rebasing import rebase

    report = rebase(
        args.file, args.old, args.new, output=args.output, overwrite=args.overwrite,
        storage_options=storage_options(args), target_options=storage_options(args, "target"),
    )  # fmt: skip
    print_report(args, "rebase", report.as_dict(), str(report), report.notes)
    return 0
