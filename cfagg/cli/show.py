"""``cfagg show``: the contents of a file, without opening the files that it refers to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cfagg.cli import output
from cfagg.cli.options import JSON, SUBSTITUTE, Arguments, allow, flag, option, repeated, rows, storage_option
from cfagg.display.escape import printable

if TYPE_CHECKING:
    from cfagg.arrays.source import Source

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Print dimensions, variables, and the partition matrix, layouts and references of each aggregation."

EPILOG = """\
examples:
  cfagg show temperature.nca
  cfagg show temperature.nca --references
  cfagg show temperature.nca --json --output temperature.json
  cfagg show temperature.zarr --attributes
  cfagg show temperature.nca --variable tas --plot partitions.png

Only FILE itself is opened. --references prints a line for each file that FILE refers to, with tabs separating
the verdict of the access policy, the number of partitions in the file, and the name as written.
The JSON form is described in the documentation under "Showing".
"""

OPTIONS = (
    option("file", "FILE", "an aggregation, a netCDF or PP file, or a Zarr store; or its URL"),
    repeated("--variable", "NAME", "only this variable", default=[]),
    flag("--attributes", "show all attributes too"),
    flag("--references", "list all files referred to, without opening them"),
    JSON,
    option("--plot", "PICTURE", "plot the partition matrix to this file (.png, .svg or .pdf)"),
    rows("number of lines shown of each long list", 12),
    allow("judge references as if files at or below PATH could be read"),
    storage_option(),
    SUBSTITUTE,
    option("--output", "FILE", "write the text or JSON to this file instead of stdout"),
    flag("--overwrite", "let --output and --plot replace existing files"),
)


def run(args: Arguments) -> int:
    """Show one file."""
    output.check_outputs(args)
    from cfagg.arrays.opening import open_any

    source = open_any(args.file, args.allow, args.options(), dict(args.substitutions))
    if args.plot is not None:
        _plot(source, args)
        output.note_picture(args)
        if args.output is None and not args.json and not args.references:
            return 0
    printed = False
    with output.opened(args.output, overwrite=args.overwrite) as stream:
        for line in _lines(source, args):
            print(line, file=stream)
            printed = True
    if not printed and not args.quiet:
        print(f"note: {printable(source.path)} refers to no other files", file=sys.stderr)
    return 0


def _lines(source: Source, args: Arguments) -> Iterable[str]:
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


def _plot(source: Source, args: Arguments) -> None:
    """Plot the requested aggregations."""
    from cfagg.api import summarising
    from cfagg.display import plot
    from cfagg.errors import SourceError

    found = summarising.aggregations(source, args.variable)
    if not found:
        raise SourceError(f"{source.path} has no aggregation to draw{' among those named' if args.variable else ''}")
    drawn = dict(list(found.items())[: plot.PANELS])
    if len(drawn) < len(found):
        print(
            f"{len(found)} aggregations, the first {len(drawn)} of which are drawn; choose others with --variable",
            file=sys.stderr,
        )
    with output.aside(args.plot, overwrite=args.overwrite) as name:
        plot.save(drawn, name)
