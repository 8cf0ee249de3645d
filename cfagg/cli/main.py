"""The `cfagg` command: runs the sub-command, and turns every outcome into an exit status and one clear message.

Results go to stdout, messages to stderr.  Exit status: 0 success, 1 findings or a refused loss, 2 wrong usage or
failure, 130 interrupted, 141 the reader of the output has gone (such as ``| head``), 143 terminated (SIGTERM).

A sub-command is a module (see `cfagg.cli.options`).  Only the module of the requested sub-command is imported, so that
``cfagg --version`` and ``cfagg --help`` are instant.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, NoReturn, TextIO

from cfagg._version import __version__
from cfagg.cli.options import Arguments, add_command
from cfagg.display.escape import printable

__all__ = ["COMMANDS", "main"]

#: Sub-command -> (module, one line of help).
COMMANDS = {
    "show": ("cfagg.cli.show", "print the contents of a file: dimensions, variables, partition matrices, references"),
    "convert": ("cfagg.cli.convert", "write an aggregation, a file or a store in another format or dialect"),
    "aggregate": ("cfagg.cli.aggregate", "join many files into one dataset"),
    "index": ("cfagg.cli.index", "record where values are stored, so that thousands of fragments can be read quickly"),
    "append": ("cfagg.cli.append", "append files to a Zarr store, each completely or not at all"),
    "rebase": ("cfagg.cli.rebase", "move the references of an aggregation file to another directory"),
    "check": ("cfagg.cli.check", "check datasets against the CF conventions"),
    "explain": ("cfagg.cli.explain", "explain the rules of cfagg check"),
    "accumulate": ("cfagg.cli.accumulate", "store sums of an array, for quick averages over any range"),
    "mean": ("cfagg.cli.mean", "average an accumulated array over any range"),
    "obs": ("cfagg.cli.obs", "build, show and check stores of observations"),
    "completion": ("cfagg.cli.completion", "print a completion script for a shell"),
}

#: The output of `cfagg` without arguments.
_OVERVIEW = """\
cfagg treats many climate, weather and ocean files as one array.

  see what a file contains         cfagg show temperature.nca
  join many files                  cfagg aggregate data/ -o temperature.nc
  convert it to Zarr               cfagg convert temperature.nca temperature.zarr
  check it against CF              cfagg check temperature.nc
  average it over any range        cfagg accumulate temperature.zarr tas
                                   cfagg mean temperature.zarr tas --over time --select time=1990/1999
  build tables of observations     cfagg obs create recipe.yaml synop.zarr

cfagg --help lists all commands, cfagg COMMAND --help their options."""

_EPILOG = """\
examples:
  cfagg show temperature.nca
  cfagg show temperature.nca --plot partitions.png
  cfagg aggregate data/ -o temperature.nc
  cfagg convert temperature.nca temperature.zarr
  cfagg accumulate temperature.zarr tas
  cfagg check temperature.nc
  cfagg mean temperature.zarr tas --over time --select time=1990/1999
  cfagg obs create recipe.yaml synop.zarr

exit status: 0 success, 1 errors found or a refused loss, 2 wrong usage or failure, 130 interrupted,
143 terminated
"""


#: Maximum number of lines of a usage message that is printed with an error.
_SHORT = 6


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of the process, and return its exit status.

    >>> main(["--version"])
    cfagg 0.1.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _replace_closed_streams()
    _tolerate_any_text(sys.stdout, sys.stderr)
    stops: AbstractContextManager[list[int]] = _terminable() if argv is None else nullcontext([])
    with stops as terminated:
        status = _run(arguments, is_own=argv is None)
    return 143 if status == 130 and terminated else status


def _run(arguments: list[str], *, is_own: bool) -> int:
    """Return the exit status of a command line, which may be that of this process."""
    try:
        if not arguments:
            return _guarded(_overview, Arguments())
        args = _parser(arguments).parse_args(arguments, Arguments())
        if is_own:
            _spare(args.spared)
        with _warnings_as_lines(quiet=args.quiet):
            return _guarded(args.run, args)
    except SystemExit as stop:  # argparse has printed the help, the version or the error
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt as stop:  # while the command line was being parsed
        _say(str(stop) or "interrupted")
        return 130


def _overview(_: Arguments) -> int:
    print(_OVERVIEW)
    return 0


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Let SIGTERM end the work as Ctrl-C does, and note it in the list; a second one ends the process at once."""
    noted: list[int] = []

    def end(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        noted.append(number)
        # A terminal would interrupt the processes of this one, too.
        for child in sys.modules["multiprocessing"].active_children() if "multiprocessing" in sys.modules else ():
            child.terminate()
        raise KeyboardInterrupt("terminated")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGTERM, before)


def _spare(names: Sequence[str]) -> None:
    """Prevent this process, which is the command's own, from loading packages that other libraries load if installed.

    Python treats a package whose entry is `None` as not installed.
    """
    for name in names:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def _parser(arguments: Sequence[str], *, every: bool = False) -> argparse.ArgumentParser:
    """Return the parser; only the sub-command requested in `arguments` is filled in, or every one."""
    parser = _Parser(
        prog="cfagg",
        description="Treat many climate, weather and ocean files as one array.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cfagg {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # No option before the sub-command has a value, so the first word is the sub-command.
    wanted = next((a for a in arguments if not a.startswith("-")), None)
    for name, (module, line) in COMMANDS.items():
        if name != wanted and not every:
            subparsers.add_parser(name, help=line, add_help=False)
            continue
        command = add_command(subparsers, name, line, import_module(module))
        command.set_defaults(whole_parser=lambda: _parser([], every=True))
    return parser


class _Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that does not accept abbreviated options and suggests the nearest name.

    Sub-commands get parsers of the same kind.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments as `argparse` does, but let the sub-command itself report unknown arguments."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and " " in self.prog:
            self.error(f"unrecognized arguments: {' '.join(map(_without_value, rest))}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Print the error, with a suggestion if a name is nearly right, and exit with status 2.

        The usage comes first if it is short; a long one would hide the message.
        """
        said = f"{self.prog}: error: {message}{self._suggestion(message)}\n"
        usage = self.format_usage()
        is_long = usage.count("\n") > _SHORT
        self.exit(2, f"{said}see {self.prog} --help\n" if is_long else usage + said)

    def _suggestion(self, message: str) -> str:
        from difflib import get_close_matches

        wrong: list[str] = []
        known: list[str] = []
        if found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            wrong, known = [found[1]], re.findall(r"[\w.-]+", found[2])
        elif found := re.fullmatch(r"unrecognized arguments: (.*)", message):
            wrong = [word.partition("=")[0] for word in found[1].split() if word.startswith("-")]
            known = [option for action in self._actions for option in action.option_strings]
        near = [(word, get_close_matches(word, known, n=1, cutoff=0.7)) for word in wrong]
        meant = [f"{match[0]} instead of {word}" for word, match in near if match]
        return f"; did you mean {', '.join(meant)}?" if meant else ""


def _without_value(word: str) -> str:
    """Return an unknown argument without its value, which may be a secret after a misspelt ``--storage-option``."""
    name, equals, value = word.partition("=")
    return f"{name}=…" if equals and value else word


def _guarded(run: Callable[[Arguments], int], args: Arguments) -> int:
    """Return the exit status of a sub-command; an error becomes a message."""
    try:
        status = run(args)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        _show_traceback(args)
        _say(_as_options(printable(str(stop))) or "interrupted")
        return 130
    except BrokenPipeError:
        # The reader has gone; buffered output must not raise a second time when Python exits.
        _drop(sys.stdout)
        return 141
    except Exception as error:  # noqa: BLE001  the outermost frame: beyond it there is only Python's own traceback
        _show_traceback(args)
        stopped, said = isinstance(error.__context__, KeyboardInterrupt), _as_options(_message(error))
        # What ended the work comes first, then what remains of it or went wrong at its end.
        _say(f"interrupted: {said}" if stopped and "interrupted" not in said else said)
        try:
            sys.stdout.flush()
        except OSError:  # the output device is full: Python must not fail a second time when it exits
            _drop(sys.stdout)
        if stopped:
            return 130
        from cfagg.errors import LossError, UnreadableAggregationError

        return 1 if isinstance(error, UnreadableAggregationError | LossError) else 2
    return status


def _show_traceback(args: Arguments) -> None:
    """Print the traceback of the exception that is being handled, if that is wanted."""
    if args.debug:
        import traceback

        _say("\n".join(map(printable, traceback.format_exc().splitlines())))


def _as_options(text: str) -> str:
    """Return a message with arguments named as options; without a message, nothing is loaded for it."""
    from cfagg.cli.messages import as_options

    return as_options(text)


def _message(error: Exception) -> str:
    """Return the printed form of an error: one sentence, followed by individual problems if there are several."""
    from cfagg.errors import CfaggError

    if isinstance(error, CfaggError):
        lines = [f"error: {printable(error.message)}"]
        lines += [f"  - {printable(str(p))}" for p in error.problems[: error.shown]]
        if len(error.problems) > error.shown:
            lines.append(f"  - and {len(error.problems) - error.shown:,} more")
        return "\n".join(lines)
    if isinstance(error, OSError) and error.strerror:
        names = [printable(os.fsdecode(f)) for f in (error.filename, error.filename2) if isinstance(f, str | bytes)]
        if not names and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            return f"error: the output cannot be written: {error.strerror}"
        return "error: " + ": ".join([*names, error.strerror])
    if isinstance(error, MemoryError):
        return "error: not enough memory for this job"
    what = printable(f"{type(error).__name__}: {error}")
    return f"error: unexpected {what} (this is a bug in cfagg; --debug shows the traceback to report)"


def _say(message: str) -> None:
    """Print a message on stderr; if that is closed or the disk is full, it is dropped."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Discard the buffered output of a stream, and all further output."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a system file, as in a notebook or a test
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def _warnings_as_lines(*, quiet: bool) -> Iterator[None]:
    """Print each distinct warning as one line on stderr, or none if only results and errors are wanted."""
    from cfagg.errors import CfaggWarning

    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = _as_options(f"warning: {printable(str(message))}")
        if not quiet and line not in seen:
            seen.add(line)
            _say(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CfaggWarning)
        warnings.showwarning = show
        yield


def _replace_closed_streams() -> None:
    """Discard printed output if the process was started without stdout or stderr (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _tolerate_any_text(*streams: TextIO) -> None:
    """Print characters that the terminal's encoding lacks in escaped form instead of failing."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
