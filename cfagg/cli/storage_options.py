"""Options for URLs, ``--storage-option KEY=VALUE``; what is wrong with one is said without its value, perhaps a key."""

from __future__ import annotations

import argparse
import re
from typing import Any

__all__ = ["add_storage_option", "add_substitute", "storage_options"]

_TRUTHS = frozenset({"request_payer", "skip_signature", "use_emulator", "virtual_hosted_style_request"})
_SECONDS = frozenset({"deadline", "timeout"})


def add_storage_option(
    parser: argparse._ActionsContainer, *, of: str = "storage", where: str = "", former: tuple[str, ...] = ()
) -> None:
    """Add ``--storage-option``, or that of something else; `former` are further names of it."""
    what = f"option for {where}, if it is a URL" if where else "option for a URL"
    parser.add_argument(
        f"--{of}-option",
        *former,
        metavar="KEY=VALUE",
        dest=f"{of}_options",
        action="append",
        default=[],
        type=_pair,
        help=f"{what}, such as region=eu-west-1 or skip_signature=true; may be repeated (keys are better left to the "
        "environment: other users of a machine see command lines)",
    )


def storage_options(args: argparse.Namespace, of: str = "storage") -> dict[str, Any] | None:
    """Return all values as one mapping, `None` where there are none."""
    given: list[tuple[str, Any]] = getattr(args, f"{of}_options")
    headers = {name.partition(".")[2]: value for name, value in given if name.startswith("headers.")}
    found = {name: value for name, value in given if not name.startswith("headers.")}
    return {**found, **({"headers": headers} if headers else {})} or None


def add_substitute(parser: argparse._ActionsContainer) -> None:
    """Add ``--substitute``."""
    parser.add_argument(
        "--substitute",
        metavar="BASE=TEXT",
        dest="substitutions",
        action="append",
        default=[],
        type=_substitution,
        help="put this text in place of ${BASE} in names of files, whatever the file says; may be repeated",
    )


def _substitution(text: str) -> tuple[str, str]:
    """Return one substitution."""
    base, equals, value = text.partition("=")
    if not re.fullmatch(r"\w+|\$\{\w+\}", base.strip()) or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a base and a text, like base=/archive/")
    return base.strip(), value


def _pair(text: str) -> tuple[str, Any]:
    """Return one option."""
    name, equals, value = (part.strip() for part in text.partition("="))
    # A name in another form may be a key that was given without its name: base64 ends with an equals sign.
    if not re.fullmatch(r"[a-z][a-z_]*|headers\.[A-Za-z0-9-]+", name) or not equals or not value:
        raise argparse.ArgumentTypeError("expected KEY=VALUE, or headers.NAME=VALUE for a header")
    if name == "headers":
        raise argparse.ArgumentTypeError("expected headers.NAME=VALUE for a header")
    if name in _TRUTHS:
        if value.lower() not in ("true", "false"):
            raise argparse.ArgumentTypeError(f"{name} is neither true nor false")
        return name, value.lower() == "true"
    if name in _SECONDS:
        try:
            return name, float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{name} is not a number of seconds") from None
    return name, value
