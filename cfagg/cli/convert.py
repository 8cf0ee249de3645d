"""``cfagg convert``: write an aggregation, a netCDF file or a Zarr store in another format or dialect."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from cfagg.cli.bars import byte_bar
from cfagg.cli.options import (
    add_allow,
    add_flag,
    add_json,
    add_storage_option,
    add_substitute,
    add_workers,
    new_command,
    print_report,
    refused,
    storage_options,
)

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg convert temperature.nca temperature.zarr
  cfagg convert temperature.nca temperature.zarr --chunks time=12,lat=64
  cfagg convert temperature.nca temperature.zarr --chunks partitions --packing decode
  cfagg convert temperature.nca temperature.zarr --resume
  cfagg convert old.zarr new.zarr --chunks time=-1,lat=16,lon=16 --zarr-format 3
  cfagg convert store.zarr values.nc
  cfagg convert old.nca new.nc --to CF-1.13
  cfagg convert old.nca new.nc --to CF-1.13 --on-loss materialise

The store is built beside TARGET and moved into place when it is complete. To finish a run that was killed, repeat the
command with --resume.
"""


#: Options that are arguments of `cfagg.convert` as they are.
_OPTIONS = (
    "variables", "zarr_format", "chunks", "packing", "codec", "level", "allow", "missing", "word_size", "on_loss",
    "overwrite", "resume", "verify", "workers", "to", "relative_to", "shards", "client", "dry_run", "region",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "convert",
        "write an aggregation, a file or a store in another format or dialect",
        "Write an aggregation, a netCDF or PP file, or a Zarr store as a Zarr store, a netCDF-4 file or an Icechunk "
        "repository with the same values, or as an aggregation file of another dialect.",
        _EPILOG,
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="an aggregation, a netCDF or PP file, or a Zarr store; or its URL"
    )
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="directory or URL of a Zarr store, or the name of a file to write"
    )
    parser.add_argument("-o", "--output", metavar="TARGET", help="another way to give TARGET")
    what = parser.add_argument_group("what to write")
    what.add_argument(
        "--variable",
        metavar="NAME",
        action="append",
        dest="variables",
        help="convert this variable and those it refers to; may be repeated (default: all)",
    )
    what.add_argument(
        "--to",
        metavar="KIND",
        help="zarr, netcdf, icechunk, or the dialect of an aggregation file: CF-1.13, CFA-0.6.2, CFA-0.4, NCA-0.1 "
        "(default: as TARGET is named: .zarr, .nc, .icechunk, .nca)",
    )
    what.add_argument(
        "--relative-to",
        metavar="DIR",
        help="directory at which references start (default: that of TARGET; / is absolute)",
    )
    what.add_argument("--zarr-format", type=int, choices=(3, 2), default=3, help="version of Zarr (default: 3)")
    what.add_argument(
        "--chunks",
        metavar="CHUNKS",
        type=_chunks,
        default="auto",
        help="'auto', 'partitions', or lengths such as time=12,lat=64; -1 is a whole dimension (default: auto)",
    )
    what.add_argument(
        "--shards",
        metavar="SHARDS",
        type=_lengths,
        help="objects that hold several chunks, by their lengths, such as time=360; -1 is a whole dimension (Zarr v3)",
    )
    what.add_argument(
        "--region",
        metavar="REGION",
        type=_region,
        help="write into this part of a store that is there, such as time=31:59 (positions, on whole chunks)",
    )
    what.add_argument(
        "--packing",
        choices=("keep", "decode"),
        default="keep",
        help="write packed integers as stored, or the floats they represent (default: keep)",
    )
    what.add_argument(
        "--codec",
        choices=("auto", "zstd", "blosc", "gzip", "none"),
        default="auto",
        help="compression (default: zstd; in netCDF that of the source)",
    )
    what.add_argument("--level", type=int, metavar="N", help="compression level")
    what.add_argument(
        "--missing",
        choices=("error", "fill"),
        default="error",
        help="what to do if the file of a partition is missing (default: error)",
    )
    what.add_argument(
        "--word-size",
        type=int,
        choices=(1, 4, 8),
        default=None,
        help="bytes by which addresses in PP files count (default: the structure of each file decides)",
    )
    add_substitute(what)
    what.add_argument(
        "--on-loss",
        choices=("error", "materialise", "drop"),
        default="error",
        help="what to do about what TARGET cannot say, and aggregations that cannot be read: refuse and list it, write "
        "the values of such partitions beside TARGET, or leave it out (default: error)",
    )
    add_allow(what, "also read files at or below PATH")
    add_storage_option(what, where="SOURCE")
    add_storage_option(what, of="target", where="TARGET")
    how = parser.add_argument_group("how to run")
    add_flag(how, "--dry-run", "say how much would be read, written and held in memory, and write nothing")
    add_flag(how, "--overwrite", "replace TARGET, or an unfinished conversion to it")
    add_flag(how, "--resume", "finish a killed run with the same options")
    add_flag(how, "--verify", "read everything back and compare checksums")
    add_workers(how, default="two more than there are processors")
    how.add_argument("--dask", metavar="ADDRESS", dest="client", help="a Dask scheduler whose workers do the work")
    how.add_argument(
        "--memory",
        metavar="SIZE",
        default=None,
        help="memory for data in flight, such as 512MiB, in addition to the libraries' (default: 128MiB)",
    )
    add_flag(how, "--quiet", "no progress bar, notes or summary")
    add_json(how, "print the report as strict JSON")


def run(args: argparse.Namespace) -> int:
    """Convert; the target's name goes to stdout, notes to stderr."""
    target = _target(args)
    from cfagg.conversion.converting import convert
    from cfagg.conversion.options import DEFAULT_MEMORY
    from cfagg.errors import LossError

    try:
        report = _converted(args, target, convert, DEFAULT_MEMORY)
    except LossError as error:
        return refused(args, "convert", error)
    from cfagg.display.escape import printable
    from cfagg.display.sizes import count_text

    for loss in report.losses:
        print(f"lost: {printable(str(loss))}", file=sys.stderr)
    notes = list(report.notes)
    if resumed := getattr(report, "resumed", 0):
        notes.append(f"{count_text(resumed, 'chunk')} {'was' if resumed == 1 else 'were'} kept from an earlier run")
    verified = ", verified" if getattr(report, "verified", False) else ""
    print_report(args, "convert", report.as_dict(), f"{report}{verified}", notes)
    return 0


def _converted(args: argparse.Namespace, target: str, convert: Callable[..., Any], memory: int | str) -> Any:
    """Convert with a progress bar; return the report."""
    from cfagg.runtime.progress import bars
    from cfagg.runtime.targets import DIALECTS, kind_of

    shown = not args.quiet and sys.stderr.isatty()
    # Of aggregation files, fragments take long.
    drawn = bars(shown=shown) if kind_of(target, args.to, netcdf="netcdf") in DIALECTS else byte_bar("convert", shown)
    with drawn as progress:
        return convert(
            args.source,
            target,
            memory=memory if args.memory is None else args.memory,
            progress=progress,
            substitutions=dict(args.substitutions),
            storage_options=storage_options(args),
            target_options=storage_options(args, of="target"),
            **{name: getattr(args, name) for name in _OPTIONS},
        )


def _target(args: argparse.Namespace) -> str:
    """Return the target, which is named once and is a Zarr store by its name."""
    from cfagg.errors import OptionError

    names = [name for name in (args.target, args.output) if name is not None]
    if len(names) != 1:
        raise OptionError(
            "give the target once: cfagg convert SOURCE TARGET, or cfagg convert SOURCE -o TARGET"
            if names
            else "there is no target: cfagg convert SOURCE TARGET"
        )
    return str(names[0])


def _chunks(text: str) -> str | dict[str, int]:
    """Return the value of ``--chunks``."""
    if "=" not in text:
        if text not in ("auto", "partitions"):
            raise argparse.ArgumentTypeError(f"{text!r} is not 'auto', 'partitions' or lengths like time=12,lat=64")
        return text
    return _lengths(text)


def _region(text: str) -> dict[str, slice]:
    """Return the value of ``--region``."""
    region = {}
    for item in text.split(","):
        name, _, part = item.partition("=")
        ends = part.split(":")
        if not name.strip() or len(ends) != 2 or not all(e.strip().isdecimal() or not e.strip() for e in ends):
            raise argparse.ArgumentTypeError(f"{item!r} is not a dimension and positions, like time=31:59")
        region[name.strip()] = slice(*(int(e) if e.strip() else None for e in ends))
    return region


def _lengths(text: str) -> dict[str, int]:
    """Return lengths by dimension."""
    chunks: dict[str, int] = {}
    for item in text.split(","):
        name, _, length = item.partition("=")
        try:
            chunks[name.strip()] = int(length)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{item!r} is not a dimension and its length, like time=12") from None
    return chunks
