"""``cfagg show``: what is in a file, without opening any file that it refers to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cfagg.cli import output
from cfagg.cli.options import (
    add_allow,
    add_flag,
    add_json,
    add_rows,
    add_storage_option,
    add_substitute,
    check_outputs,
    new_command,
    note_picture,
    storage_options,
)

if TYPE_CHECKING:
    from cfagg.arrays.source import Source

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg show temperature.nca
  cfagg show temperature.nca --references
  cfagg show temperature.nca --json --output temperature.json
  cfagg show temperature.zarr --attributes
  cfagg show temperature.nca --variable tas --plot partitions.png

Only FILE itself is opened. --references prints a line for each file that FILE refers to. Separated by tabs, it has
the verdict of the access policy, the number of partitions in the file, and the name as written.
The JSON form is described in the documentation under "Showing".
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "show",
        "print the contents of a file",
        "Print dimensions, variables, and each aggregation's partition matrix, layouts and references.",
        _EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="an aggregation, a netCDF or PP file, or a Zarr store; or its URL")
    parser.add_argument(
        "--variable", metavar="NAME", action="append", default=[], help="only this variable; may be repeated"
    )
    add_flag(parser, "--attributes", "show all attributes too")
    add_flag(parser, "--references", "list all files referred to, without opening them")
    add_json(parser)
    parser.add_argument("--plot", metavar="PICTURE", help="draw the partition matrix to this file (.png, .svg or .pdf)")
    add_rows(parser, "number of lines shown of a long list", 12)
    add_allow(parser, "judge references as if files at or below PATH could be read")
    add_storage_option(parser)
    add_substitute(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text or JSON to this file instead of stdout")
    add_flag(parser, "--overwrite", "let --output and --plot replace a file")


def run(args: argparse.Namespace) -> int:
    """Show one file."""
    check_outputs(args)
    from cfagg.arrays.opening import open_any

    source = open_any(args.file, args.allow, storage_options(args), dict(args.substitutions))
    if args.plot is not None:
        _plot(source, args)
        note_picture(args)
        if args.output is None and not args.json and not args.references:
            return 0
    printed = False
    with output.opened(args.output) as stream:
        for line in _lines(source, args):
            print(line, file=stream)
            printed = True
    if not printed and not getattr(args, "quiet", False):
        print(f"note: {source.path} refers to no other files", file=sys.stderr)
    return 0


def _lines(source: Source, args: argparse.Namespace) -> Iterable[str]:
    """Return the lines of the result."""
    from cfagg.api import summarising
    from cfagg.display import as_json, text

    if args.references:
        from cfagg.storage.access import Access

        access = Access(source.path, args.allow)
        found = {
            path: summarising.references(a, access)
            for path, a in summarising.aggregations(source, args.variable).items()
        }
        if args.json:
            return [as_json.references_json(source.path, found.items())]
        return (line for references in found.values() for line in text.reference_lines(references))
    whole = summarising.summarise(source, allow=args.allow, rows=args.rows, variables=args.variable)
    if args.json:
        return [as_json.file_json(whole)]
    return text.file_lines(whole, attributes=args.attributes)


def _plot(source: Source, args: argparse.Namespace) -> None:
    """Draw the aggregations asked for."""
    from cfagg.api import summarising
    from cfagg.display import plot
    from cfagg.errors import SourceError

    found = summarising.aggregations(source, args.variable)
    if not found:
        raise SourceError(f"{source.path} has no aggregation to draw{' among those named' if args.variable else ''}")
    drawn = dict(list(found.items())[: plot.PANELS])
    if len(drawn) < len(found):
        print(
            f"{len(found)} aggregations, of which the first {len(drawn)} are drawn; choose others with --variable",
            file=sys.stderr,
        )
    with output.aside(args.plot) as name:
        plot.save(drawn, name)
