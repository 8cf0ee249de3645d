"""``cfagg obs index``: the fast index of a store of observations."""

from __future__ import annotations

from cfagg.cli import output
from cfagg.cli.options import JSON, STORE, Arguments, flag, option

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Add an index to a store of observations that finds any window quickly."

EPILOG = """\
examples:
  cfagg obs index synop.zarr
  cfagg obs index synop.zarr --from data

Stores written by other software get an index of small pages beside their own, which that software ignores; rows,
existing indexes and attributes are not changed. Existing index pages are rebuilt.
"""

OPTIONS = (
    *STORE,
    option(
        "--from", "KIND",
        "build it from 'bisect', 'btree' or 'data', the rows (default: the store's index if any, else the rows)",
        dest="origin",
    ),
    JSON,
    flag("--quiet", "print nothing"),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Write the index; a summary goes to stdout."""
    from cfagg.display.sizes import count_text
    from cfagg.observations.indexes import build_pages
    from cfagg.observations.store import open_store

    store = open_store(args.store, args.options(), args.allow)
    entries = build_pages(store, args.origin)
    facts = {"store": store.path, "kind": "pages", "entries": entries, "rows": store.rows}
    output.print_report(
        args,
        "obs index",
        facts,
        f"{store.path}: index of {count_text(entries, 'date')} of {count_text(store.rows, 'row')}",
    )
    return 0
