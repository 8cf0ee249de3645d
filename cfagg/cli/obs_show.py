"""``cfagg obs show``: the contents of a store of observations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfagg.cli import output
from cfagg.cli.options import JSON, STORE, Arguments, flag, option, rows

if TYPE_CHECKING:
    from cfagg.observations.store import ObservationStore

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Print the contents of a store of observations, reading only metadata, statistics and the index."

EPILOG = """\
examples:
  cfagg obs show synop.zarr
  cfagg obs show synop.zarr --json
  cfagg obs show synop.zarr --plot coverage.png

The map of --plot counts rows; for a store with more than four million rows, it counts that many rows in 256 places.
"""

OPTIONS = (
    *STORE,
    JSON,
    option("--plot", "PICTURE", "plot coverage in time and on a map (.png, .svg or .pdf)"),
    rows("variables listed"),
    option("--output", "FILE", "write the text or JSON to this file instead of stdout"),
    flag("--overwrite", "let --output and --plot replace existing files"),
)


def run(args: Arguments) -> int:
    """Show one store."""
    output.check_outputs(args)
    from cfagg.observations.describe import describe
    from cfagg.observations.store import open_store

    store = open_store(args.store, args.options(), args.allow)
    if args.plot is not None:
        _plot(store, args)
        output.note_picture(args)
        if args.output is None and not args.json:
            return 0
    from cfagg.observations import describe as observations

    found = describe(store)
    if args.json:
        lines = [observations.description_json(found)]
    else:
        lines = observations.description_lines(found, rows=args.rows)
    with output.opened(args.output, overwrite=args.overwrite) as stream:
        for line in lines:
            print(line, file=stream)
    return 0


def _plot(store: ObservationStore, args: Arguments) -> None:
    """Plot how the rows are distributed over time and the Earth."""
    from pathlib import PurePath

    from cfagg.cf.instants import epoch_text
    from cfagg.display import coverage
    from cfagg.display.sizes import count_text
    from cfagg.observations.describe import map_coverage, time_coverage

    index = store.index()
    counts, looked_at = map_coverage(store)
    subtitle = f"{count_text(store.rows, 'row')} of {count_text(len(store.variables), 'variable')}"
    if index.first is not None and index.last is not None:
        subtitle += f", {epoch_text(index.first)} to {epoch_text(index.last)}"
    with output.aside(args.plot, overwrite=args.overwrite) as name:
        coverage.save(
            time_coverage(index),
            counts,
            name,
            title=PurePath(store.path).name or store.path,
            subtitle=subtitle,
            share=looked_at / store.rows if store.rows else 1.0,
        )
