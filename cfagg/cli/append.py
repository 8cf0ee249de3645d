"""``cfagg append``: extend a Zarr store with the contents of files."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from cfagg.cli import output
from cfagg.cli.options import FILES_FROM, JSON_REPORT, Arguments, allow, flag, option, storage_option, workers

if TYPE_CHECKING:
    from cfagg.writing.zarr.appending import Appended

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Append files to a Zarr store along one dimension, one after the other, each completely or not at all."

EPILOG = """\
examples:
  cfagg append temperature.zarr 2026-11.nc --dim time
  cfagg append s3://bucket/temperature.zarr data/2026-*.nc --dim time

Readers see each file completely or not at all. If a run is killed, the store is as it was before the
file being appended, and the next run continues from there.
"""

OPTIONS = (
    option("store", "STORE", "directory or URL of a Zarr store"),
    option("data", "DATA", "files of any format that cfagg reads, in order", nargs="*"),
    FILES_FROM,
    option("--dim", "NAME", "the dimension that grows", required=True),
    option("--group", "PATH", "a group of the store (default: the root)"),
    option(
        "--on-loss", ("error", "drop"),
        "how to handle attributes and variables that the store does not have (default: error)", default="error",
    ),
    flag("--any-order", "append even if the coordinate overlaps that of the store, or is out of order"),
    allow("also read files at or below PATH that DATA refers to"),
    storage_option(where="STORE"),
    storage_option("data", "DATA"),
    workers(default="one per processor, at most 8"),
    flag("--quiet", "no notes or summary"),
    JSON_REPORT,
)  # fmt: skip


def run(args: Arguments) -> int:
    """Append files; a summary goes to stdout, notes to stderr."""
    from cfagg.api.appending import append
    from cfagg.errors import LossError, OptionError

    files = args.named(args.data)
    if not files:
        raise OptionError("name files to append")
    whole: Appended | None = None
    for number, file in enumerate(files):
        try:
            one = append(
                args.store, file, args.dim, group=args.group, on_loss=args.on_loss, any_order=args.any_order,
                allow=args.allow, storage_options=args.options(), data_options=args.options("data"),
                workers=args.workers,
            )  # fmt: skip
        except LossError as error:
            _say(number, files)
            return output.refused(args, "append", error)
        except BaseException as error:
            # What an interruption says may be that this file was appended, but an accumulation not extended.
            _say(number, files, told=isinstance(error, KeyboardInterrupt) and bool(error.args))
            raise
        whole = one if whole is None else _together(whole, one)
    assert whole is not None  # noqa: S101 - there is a file
    output.list_losses(whole.losses)
    output.print_report(args, "append", whole.as_dict(), str(whole), whole.notes)
    return 0


def _say(count: int, files: list[str], *, told: bool = False) -> None:
    """Report what was appended before an error, which may tell of the last file itself."""
    if count:
        rest = f" before {files[count]}" if told else f"; {files[count]} was not"
        verb = "was" if count == 1 else "were"
        print(f"note: {count} of {len(files)} files {verb} appended{rest}", file=sys.stderr)


def _together(one: Appended, other: Appended) -> Appended:
    """Return the combined report of two calls."""
    return replace(
        other,
        start=one.start,
        chunks=one.chunks + other.chunks,
        stored=one.stored + other.stored,
        losses=tuple(dict.fromkeys((*one.losses, *other.losses))),
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
    )
