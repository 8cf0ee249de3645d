"""``cfagg append``: let a Zarr store grow by what files hold."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from cfagg.cli.options import (
    add_allow,
    add_files_from,
    add_flag,
    add_json,
    add_storage_option,
    add_workers,
    listed,
    new_command,
    print_report,
    refused,
    storage_options,
)

if TYPE_CHECKING:
    from cfagg.writing.zarr.appending import Appended

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg append temperature.zarr 2026-11.nc --dim time
  cfagg append s3://bucket/temperature.zarr data/2026-*.nc --dim time

Readers see each file whole or not at all. If a run is killed, the store is as it was before the file at which it was,
and the next run goes on from there.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "append",
        "append files to a Zarr store",
        "Append files to a Zarr store along one dimension, one after the other, each whole or not at all.",
        _EPILOG,
    )
    parser.add_argument("store", metavar="STORE", help="directory or URL of a Zarr store")
    parser.add_argument("data", metavar="DATA", nargs="*", help="files of any format that cfagg reads, in their order")
    add_files_from(parser)
    parser.add_argument("--dim", metavar="NAME", required=True, help="the dimension that grows")
    parser.add_argument("--group", metavar="PATH", help="a group of the store (default: the root)")
    parser.add_argument(
        "--on-loss",
        choices=["error", "drop"],
        default="error",
        help="what to do about attributes and variables that the store does not have (default: error)",
    )
    add_flag(parser, "--any-order", "append also where the coordinate overlaps that of the store, or is out of order")
    add_allow(parser, "also read files at or below PATH that DATA refers to")
    add_storage_option(parser, where="STORE")
    add_storage_option(parser, of="data", where="DATA")
    add_workers(parser, default="one per processor, at most 8")
    add_flag(parser, "--quiet", "no notes or summary")
    add_json(parser, "print the report as strict JSON")


def run(args: argparse.Namespace) -> int:
    """Append files; a summary goes to stdout, notes to stderr."""
    from cfagg.api.appending import append
    from cfagg.errors import LossError, OptionError

    files = [*args.data, *listed(args.files_from or ())]
    if not files:
        raise OptionError("name files to append")
    whole: Appended | None = None
    for file in files:
        try:
            one = append(
                args.store, file, args.dim, group=args.group, on_loss=args.on_loss, any_order=args.any_order,
                allow=args.allow, storage_options=storage_options(args), data_options=storage_options(args, "data"),
                workers=args.workers,
            )  # fmt: skip
        except LossError as error:
            _say(whole, files, file)
            return refused(args, "append", error)
        except BaseException:
            _say(whole, files, file)
            raise
        whole = one if whole is None else _together(whole, one)
    assert whole is not None  # noqa: S101 - there is a file
    notes = [*whole.notes, *(f"lost: {loss}" for loss in whole.losses)]
    print_report(args, "append", whole.as_dict(), str(whole), notes)
    return 0


def _say(done: Appended | None, files: list[str], file: str) -> None:
    """Say what was appended before an error."""
    if done is not None:
        count = files.index(file)
        print(f"note: {count} of {len(files)} files were appended; {file} was not", file=sys.stderr)


def _together(one: Appended, other: Appended) -> Appended:
    """Return the report of two calls."""
    return replace(
        other,
        start=one.start,
        chunks=one.chunks + other.chunks,
        stored=one.stored + other.stored,
        losses=tuple(dict.fromkeys((*one.losses, *other.losses))),
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
    )
