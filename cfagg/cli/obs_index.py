"""``cfagg obs index``: the fast index of a store of observations."""

from __future__ import annotations

import argparse

from cfagg.cli.options import add_flag, add_json, add_store, new_command, print_report, storage_options

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg obs index synop.zarr
  cfagg obs index synop.zarr --from data

Stores written by other software get an index of small pages beside their own, which that software ignores; rows,
existing indexes and attributes are not changed. If there are index pages already, they are rebuilt.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the command to the parser of `cfagg obs`, and return its own."""
    parser = new_command(
        subparsers,
        "index",
        "add cfagg's fast index to a store",
        "Write index pages into a store of observations, which find any window quickly.",
        _EPILOG,
    )
    add_store(parser)
    parser.add_argument(
        "--from",
        dest="origin",
        metavar="KIND",
        help="build it from 'bisect', 'btree' or 'data', the rows (default: the store's index if any, else the rows)",
    )
    add_json(parser)
    add_flag(parser, "--quiet", "print nothing")
    return parser


def run(args: argparse.Namespace) -> int:
    """Write the index; what was written is said on stdout."""
    from cfagg.observations.indexes import build_pages
    from cfagg.observations.store import open_store

    store = open_store(args.store, storage_options(args), args.allow)
    entries = build_pages(store, args.origin)
    facts = {"store": store.path, "kind": "pages", "entries": entries, "rows": store.rows}
    print_report(args, "obs index", facts, f"{store.path}: index of {entries:,} dates of {store.rows:,} rows")
    return 0
