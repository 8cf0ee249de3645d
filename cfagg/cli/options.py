"""Options as tables: a sub-command is a module with ``DESCRIPTION``, ``EPILOG``, ``OPTIONS`` and ``run(args) -> int``.

Errors in a ``--storage-option`` are reported without its value, which may be a key.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "FILES_FROM", "JSON", "JSON_REPORT", "STORE", "SUBSTITUTE", "WORD_SIZE", "Arguments", "Group", "Option",
    "add_command", "allow", "either", "flag", "group", "option", "repeated", "rows", "storage_option", "workers",
]  # fmt: skip

_TRUTHS = frozenset({"request_payer", "skip_signature", "use_emulator", "virtual_hosted_style_request"})
_SECONDS = frozenset({"deadline", "timeout"})

#: Options with a one-letter form.
_LETTERS = {"--output": ("-o",), "--quiet": ("-q",)}


# Named tuples would compile their annotations, a sixth of the time in which the command starts.
class Option:
    """An option or argument: its names, and further parameters for `argparse`."""

    def __init__(self, names: tuple[str, ...], how: Mapping[str, Any]) -> None:
        self.names = names
        self.how = how


class Group:
    """Options under a title or, without one, mutually exclusive options."""

    def __init__(self, title: str | None, members: tuple[Option | Group, ...]) -> None:
        self.title = title
        self.members = members


class Arguments(argparse.Namespace):
    """The options of a command line."""

    #: Options of every command, which may precede or follow its name.
    debug: bool = False
    quiet: bool = False

    def some(self, *names: str) -> dict[str, Any]:
        """Return options as arguments of the same names."""
        return {name: getattr(self, name) for name in names}

    def options(self, of: str = "storage") -> dict[str, Any] | None:
        """Return all values of ``--storage-option`` as one mapping, or `None` if there are none."""
        given: list[tuple[str, Any]] = getattr(self, f"{of}_options")
        headers = {name.partition(".")[2]: value for name, value in given if name.startswith("headers.")}
        found = {name: value for name, value in given if not name.startswith("headers.")}
        return {**found, **({"headers": headers} if headers else {})} or None

    def named(self, files: Iterable[str]) -> list[str]:
        """Return files, including those named in lists of files."""
        return [*files, *_listed(self.files_from or ())]


type Options = Iterable[Option | Group]


def option(name: str, what: str | tuple[Any, ...], line: str, **how: Any) -> Option:
    """Return an option or argument with a value, given by a metavar or a choice of values."""
    kind = {"metavar": what} if isinstance(what, str) else {"choices": what}
    return Option((*_LETTERS.get(name, ()), name), {**kind, "help": line, **how})


def flag(name: str, line: str) -> Option:
    """Return an option without a value."""
    return Option((*_LETTERS.get(name, ()), name), {"action": "store_true", "help": line})


def repeated(name: str, metavar: str, line: str, **how: Any) -> Option:
    """Return an option that may be given several times."""
    return option(name, metavar, f"{line}; may be repeated", action="append", **how)


def group(title: str, *members: Option | Group) -> Group:
    """Return options under a title."""
    return Group(title, members)


def either(*members: Option | Group) -> Group:
    """Return mutually exclusive options."""
    return Group(None, members)


def add_command(commands: Any, name: str, line: str, home: Any) -> argparse.ArgumentParser:
    """Return the parser of a new sub-command, built from its module; its epilog is not reformatted."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=line, description=home.DESCRIPTION, epilog=home.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _add(parser, home.OPTIONS)
    parser.set_defaults(run=getattr(home, "run", None), spared=getattr(home, "SPARED", ()))
    if inner := getattr(home, "COMMANDS", {}):
        its_own = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
        for own, (module, about) in inner.items():
            add_command(its_own, own, about, import_module(module))
    # Both `cfagg --debug show` and `cfagg show --debug`.
    flags = [("--debug", "show the traceback of an error")]
    if not any("--quiet" in action.option_strings for action in parser._actions):
        flags.append(("--quiet", "no warnings or notes, only results and errors"))
    for flag_name, about in flags:
        added = flag(flag_name, about)
        parser.add_argument(*added.names, default=argparse.SUPPRESS, **added.how)
    return parser


def _add(parser: argparse._ActionsContainer, options: Options) -> None:
    for entry in options:
        if isinstance(entry, Option):
            parser.add_argument(*entry.names, **entry.how)
        elif entry.title is None:
            _add(parser.add_mutually_exclusive_group(), entry.members)
        else:
            _add(parser.add_argument_group(entry.title), entry.members)


def _rows(text: str) -> int | None:
    """Return a number of lines, or `None` for all."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'all'")
    return int(text)


def _substitution(text: str) -> tuple[str, str]:
    """Return one substitution."""
    base, equals, value = text.partition("=")
    if not re.fullmatch(r"\w+|\$\{\w+\}", base.strip()) or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a base and a text, like base=/archive/")
    return base.strip(), value


def _pair(text: str) -> tuple[str, Any]:
    """Return one option."""
    name, equals, value = (part.strip() for part in text.partition("="))
    # A name in another form may be a key given without its name: base64 ends with an equals sign.
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


FILES_FROM = repeated("--files-from", "LIST", "also read names, one per line, from a file; - is standard input")
JSON = flag("--json", "print strict JSON for machines")
JSON_REPORT = flag("--json", "print the report as strict JSON")
SUBSTITUTE = repeated(
    "--substitute", "BASE=TEXT", "replace ${BASE} by this text in names of files, overriding the file's own value",
    dest="substitutions", default=[], type=_substitution,
)  # fmt: skip
WORD_SIZE = option(
    "--word-size", (1, 4, 8),
    "word size of PP files in bytes, the unit of addresses (default: detected from each file)", type=int,
)  # fmt: skip


def allow(line: str, metavar: str = "PATH") -> Option:
    """Return ``--allow``, with its effect."""
    return repeated("--allow", metavar, line, default=[])


def rows(what: str, default: int = 24) -> Option:
    """Return ``--rows``, the number of lines of something, or all."""
    return option("--rows", "N", f"{what}, or 'all' (default: {default})", type=_rows, default=default)


def workers(what: str = "threads", default: str = "one per processor") -> Option:
    """Return ``--workers``."""
    return option("--workers", "N", f"{what} (default: {default})", type=int)


def storage_option(of: str = "storage", where: str = "", former: tuple[str, ...] = ()) -> Option:
    """Return ``--storage-option``, or a similar option with another prefix; `former` are its former names."""
    what = f"option for {where}, if it is a URL" if where else "option for a URL"
    line = (
        f"{what}, such as region=eu-west-1 or skip_signature=true; may be repeated (keys are better left to the "
        "environment: other users of a machine can see command lines)"
    )
    how = {"metavar": "KEY=VALUE", "dest": f"{of}_options", "action": "append", "default": [], "type": _pair}
    return Option((f"--{of}-option", *former), {**how, "help": line})


#: A store of observations, and the options for remote ones.
STORE = (
    option("store", "STORE", "directory or URL of a store of observations"),
    storage_option(former=("--option",)),
    allow("also follow links and server redirects to places in PREFIX", "PREFIX"),
)


def _listed(lists: Iterable[str]) -> Iterator[str]:
    """Yield the names in lists of files."""
    from cfagg.errors import SourceError

    for name in lists:
        try:
            text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            raise SourceError(f"{name} cannot be read: {error.strerror or error}") from error
        # Names may contain anything but the end of a line, and need not be text in the encoding of standard input.
        lines = re.split("\r?\n", os.fsdecode(text))
        yield from (line for line in lines if line.strip())
