"""What several sub-commands have in common: their options, and how a report is printed.

What is wrong with a ``--storage-option`` is said without its value, which may be a key.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfagg.errors import LossError

__all__ = [
    "add_allow", "add_files_from", "add_flag", "add_json", "add_repeated", "add_rows", "add_storage_option",
    "add_store", "add_substitute", "add_workers", "check_outputs", "listed", "new_command", "note_picture",
    "print_report", "refused", "storage_options",
]  # fmt: skip

type Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_TRUTHS = frozenset({"request_payer", "skip_signature", "use_emulator", "virtual_hosted_style_request"})
_SECONDS = frozenset({"deadline", "timeout"})


def new_command(commands: Commands, name: str, line: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser of a new sub-command; its epilog stays as it is written."""
    return commands.add_parser(
        name, help=line, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_flag(parser: argparse._ActionsContainer, name: str, line: str) -> None:
    """Add an option without a value; ``--quiet`` is ``-q`` too."""
    parser.add_argument(*(("-q",) if name == "--quiet" else ()), name, action="store_true", help=line)


def add_repeated(parser: argparse._ActionsContainer, name: str, metavar: str, line: str, **how: Any) -> None:
    """Add an option that may be given several times."""
    parser.add_argument(name, metavar=metavar, action="append", help=f"{line}; may be repeated", **how)


def add_files_from(parser: argparse._ActionsContainer) -> None:
    """Add ``--files-from``."""
    add_repeated(parser, "--files-from", "LIST", "also take names, one a line, from a file; - is standard input")


def listed(lists: Iterable[str]) -> Iterator[str]:
    """Yield the names in lists of files."""
    from cfagg.errors import SourceError

    for name in lists:
        if name == "-":
            lines = sys.stdin.read().splitlines()
        else:
            try:
                with open(name, encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123
                    lines = stream.read().splitlines()
            except OSError as error:
                raise SourceError(f"{name} cannot be read: {error.strerror or error}") from error
        yield from (line for line in lines if line.strip())


def add_allow(parser: argparse._ActionsContainer, line: str, metavar: str = "PATH") -> None:
    """Add ``--allow``, with what it does."""
    add_repeated(parser, "--allow", metavar, line, default=[])


def add_json(parser: argparse._ActionsContainer, line: str = "print strict JSON for machines") -> None:
    """Add ``--json``."""
    add_flag(parser, "--json", line)


def add_rows(parser: argparse._ActionsContainer, what: str, default: int = 24) -> None:
    """Add ``--rows``, the number of lines of something, or all."""
    line = f"{what}, or 'all' (default: {default})"
    parser.add_argument("--rows", metavar="N", type=_rows, default=default, help=line)


def add_workers(parser: argparse._ActionsContainer, what: str = "threads", default: str = "one per processor") -> None:
    """Add ``--workers``."""
    parser.add_argument("--workers", type=int, metavar="N", help=f"{what} (default: {default})")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a store of observations, and the options for those that are elsewhere."""
    parser.add_argument("store", metavar="STORE", help="directory or URL of a store of observations")
    add_storage_option(parser, former=("--option",))
    add_allow(parser, "also read what links lead to in PREFIX, or follow redirects of a server to it", "PREFIX")


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse a ``--plot`` or an ``--output`` that cannot be written, before anything is read."""
    from cfagg.cli import output

    for target in filter(None, (args.plot, args.output)):
        output.check(target, overwrite=args.overwrite)
    if args.plot is not None:
        from cfagg.display import picture

        picture.kind(args.plot)
        picture.check_library()


def note_picture(args: argparse.Namespace) -> None:
    """Say on stderr where the picture is that was drawn."""
    if args.plot is not None and not getattr(args, "quiet", False):
        from cfagg.display.escape import printable

        print(f"note: the picture is {printable(args.plot)}", file=sys.stderr)


def print_report(
    args: argparse.Namespace, form: str, facts: Mapping[str, Any], text: str, notes: Iterable[str] = ()
) -> None:
    """Print a report as strict JSON, or as text with notes on stderr, or not at all where it shall be quiet."""
    if args.json:
        from cfagg.display.as_json import dump, encode

        print(dump({"form": f"cfagg {form}", "form_version": 1, **encode(facts)}))
    elif not args.quiet:
        from cfagg.display.escape import printable

        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        for line in text.splitlines():
            print(printable(line))


def refused(args: argparse.Namespace, form: str, error: LossError) -> int:
    """Print everything that would be lost, which was not to be; return the exit status."""
    from cfagg.cli.messages import as_options
    from cfagg.display.escape import printable

    if args.json:
        from cfagg.display.as_json import dump

        losses = [loss._asdict() for loss in error.losses]
        print(dump({"form": f"cfagg {form}", "form_version": 1, "target": None, "losses": losses}))
    else:
        for loss in error.losses:
            print(f"lost: {printable(str(loss))}")
    sys.stdout.flush()
    print(as_options(f"error: {printable(error.message)}"), file=sys.stderr)
    return 1


def _rows(text: str) -> int | None:
    """Return a number of lines, `None` for all."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'all'")
    return int(text)


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
    line = "put this text in place of ${BASE} in names of files, whatever the file says"
    how = {"dest": "substitutions", "default": [], "type": _substitution}
    add_repeated(parser, "--substitute", "BASE=TEXT", line, **how)


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
