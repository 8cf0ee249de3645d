"""What the commands of ``cfagg obs`` have in common."""

from __future__ import annotations

import argparse

from cfagg.cli.storage_options import add_storage_option

__all__ = ["add_store", "rows"]


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a store, and the options for those that are elsewhere."""
    parser.add_argument("store", metavar="STORE", help="directory or URL of a store of observations")
    add_storage_option(parser, former=("--option",))
    parser.add_argument(
        "--allow",
        metavar="PREFIX",
        action="append",
        default=[],
        help="also read what links lead to in PREFIX, or follow redirects of a server to it; may be repeated",
    )


def rows(text: str) -> int | None:
    """Return a number of lines, `None` for all."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'all'")
    return int(text)
