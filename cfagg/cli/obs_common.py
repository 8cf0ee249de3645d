"""What the commands of ``cfagg obs`` have in common."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_store", "option_pairs", "rows"]


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a store, and the options for those that are elsewhere."""
    parser.add_argument("store", metavar="STORE", help="directory or URL of a store of observations")
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="option for a URL, such as region=eu-west-1 or skip_signature=true; may be repeated",
    )
    parser.add_argument(
        "--allow",
        metavar="PREFIX",
        action="append",
        default=[],
        help="allow URLs of private or local addresses that start with PREFIX; may be repeated",
    )


def _pair(text: str) -> tuple[str, Any]:
    """Return one value of ``--option``."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} does not have the form KEY=VALUE")
    truths = {"true": True, "false": False}
    return key.strip(), truths.get(value.strip().lower(), value)


def option_pairs(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return all values of ``--option``, `None` where there are none."""
    return dict(args.option) or None


def rows(text: str) -> int | None:
    """Return a number of lines, `None` for all."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'all'")
    return int(text)
