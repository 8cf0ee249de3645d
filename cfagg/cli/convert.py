"""``cfagg convert``: write an aggregation, a netCDF file or a Zarr store in another format or dialect."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from cfagg.cli import output
from cfagg.cli.bars import byte_bar
from cfagg.cli.options import (
    JSON_REPORT,
    SUBSTITUTE,
    WORD_SIZE,
    Arguments,
    allow,
    flag,
    group,
    option,
    storage_option,
    workers,
)

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = (
    "Write an aggregation, a netCDF or PP file, or a Zarr store as a Zarr store, a netCDF-4 file or an Icechunk "
    "repository with the same values, or as an aggregation file of another dialect."
)

EPILOG = """\
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


#: Options passed unchanged as arguments of `cfagg.convert`.
_OPTIONS = (
    "variables", "zarr_format", "chunks", "packing", "codec", "level", "allow", "missing", "word_size", "on_loss",
    "overwrite", "resume", "verify", "workers", "to", "relative_to", "shards", "client", "dry_run", "region",
)  # fmt: skip


def _chunks(text: str) -> str | dict[str, int]:
    """Return the value of ``--chunks``."""
    if "=" not in text:
        if text not in ("auto", "partitions"):
            raise argparse.ArgumentTypeError(f"{text!r} is not 'auto', 'partitions' or lengths like time=12,lat=64")
        return text
    return _lengths(text)


def _region(text: str) -> dict[str, slice]:
    """Return the value of ``--region``."""

    def positions(part: str) -> slice:
        ends = part.split(":")
        if len(ends) != 2 or not all(e.strip().isdecimal() or not e.strip() for e in ends):
            raise ValueError
        return slice(*(int(e) if e.strip() else None for e in ends))

    return _by_dimension(text, positions, "positions, like time=31:59")


def _lengths(text: str) -> dict[str, int]:
    """Return lengths by dimension."""
    return _by_dimension(text, int, "its length, like time=12")


def _by_dimension[T](text: str, value: Callable[[str], T], expected: str) -> dict[str, T]:
    """Return what follows each dimension's name, once for each."""
    found: dict[str, T] = {}
    for item in text.split(","):
        name, _, given = item.partition("=")
        name = name.strip()
        if name in found:
            raise argparse.ArgumentTypeError(f"{text!r} names {name!r} twice")
        try:
            found[name] = value(given if name else "")
        except ValueError:
            raise argparse.ArgumentTypeError(f"{item!r} is not a dimension and {expected}") from None
    return found


OPTIONS = (
    option("source", "SOURCE", "an aggregation, a netCDF or PP file, or a Zarr store; or its URL"),
    option("target", "TARGET", "directory or URL of a Zarr store, or the name of a file to write", nargs="?"),
    option("--output", "TARGET", "alternative way to give TARGET"),
    group(
        "what to write",
        option(
            "--variable", "NAME", "convert this variable and those it refers to; may be repeated (default: all)",
            action="append", dest="variables",
        ),
        option(
            "--to", "KIND", "zarr, netcdf, icechunk, or the dialect of an aggregation file: CF-1.13, CFA-0.6.2, "
            "CFA-0.4, NCA-0.1 (default: by the suffix of TARGET: .zarr, .nc, .icechunk, .nca)",
        ),
        option(
            "--relative-to", "DIR", "directory to which references are relative (default: TARGET's; / is absolute)"
        ),
        option("--zarr-format", (3, 2), "version of Zarr (default: 3)", type=int, default=3),
        option(
            "--chunks", "CHUNKS",
            "'auto', 'partitions', or lengths such as time=12,lat=64; -1 is a whole dimension (default: auto)",
            type=_chunks, default="auto",
        ),
        option(
            "--shards", "SHARDS", "lengths of objects that contain several chunks, such as time=360; -1 is a whole "
            "dimension (Zarr v3)", type=_lengths,
        ),
        option(
            "--region", "REGION",
            "write into this part of an existing store, such as time=31:59 (positions, on whole chunks)",
            type=_region,
        ),
        option(
            "--packing", ("keep", "decode"),
            "write packed integers as stored, or the floats they represent (default: keep)", default="keep",
        ),
        option(
            "--codec", ("auto", "zstd", "blosc", "gzip", "none"),
            "compression (default: zstd; for netCDF that of the source)", default="auto",
        ),
        option("--level", "N", "compression level", type=int),
        option(
            "--missing", ("error", "fill"), "how to handle partitions whose file is missing (default: error)",
            default="error",
        ),
        WORD_SIZE,
        SUBSTITUTE,
        option(
            "--on-loss", ("error", "materialise", "drop"), "how to handle what TARGET cannot express, and aggregations "
            "that cannot be read: refuse and list it, write the values of such partitions beside TARGET, or leave it "
            "out (default: error)", default="error",
        ),
        allow("also read files at or below PATH"),
        storage_option(where="SOURCE"),
        storage_option("target", "TARGET"),
    ),
    group(
        "how to run",
        flag("--dry-run", "print how much would be read, written and held in memory, without writing anything"),
        flag("--overwrite", "replace TARGET, or an unfinished conversion to it"),
        flag("--resume", "finish a killed run with the same options"),
        flag("--verify", "read everything back and compare checksums"),
        workers(default="two more than the number of processors"),
        option("--dask", "ADDRESS", "address of a Dask scheduler whose workers do the work", dest="client"),
        option(
            "--memory", "SIZE",
            "memory for data being converted, such as 512MiB, in addition to that of the libraries (default: 128MiB)",
        ),
        flag("--quiet", "no progress bar, notes or summary"),
        JSON_REPORT,
    ),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Convert; the target's name goes to stdout, notes to stderr."""
    target = _target(args)
    from cfagg.conversion.converting import convert
    from cfagg.conversion.options import DEFAULT_MEMORY
    from cfagg.errors import LossError

    try:
        report = _converted(args, target, convert, DEFAULT_MEMORY)
    except LossError as error:
        return output.refused(args, "convert", error)
    from cfagg.display.sizes import count_text

    output.list_losses(report.losses)
    notes = list(report.notes)
    if resumed := getattr(report, "resumed", 0):
        notes.append(f"{count_text(resumed, 'chunk')} {'was' if resumed == 1 else 'were'} kept from an earlier run")
    verified = ", verified" if getattr(report, "verified", False) else ""
    output.print_report(args, "convert", report.as_dict(), f"{report}{verified}", notes)
    return 0


def _converted(args: Arguments, target: str, convert: Callable[..., Any], memory: int | str) -> Any:
    """Convert with a progress bar; return the report."""
    from cfagg.runtime.progress import bars
    from cfagg.runtime.targets import DIALECTS, kind_of

    shown = not args.quiet and sys.stderr.isatty()
    # For aggregation files, writing fragments takes long.
    drawn = bars(shown=shown) if kind_of(target, args.to, netcdf="netcdf") in DIALECTS else byte_bar("convert", shown)
    with drawn as progress:
        return convert(
            args.source,
            target,
            memory=memory if args.memory is None else args.memory,
            progress=progress,
            substitutions=dict(args.substitutions),
            storage_options=args.options(),
            target_options=args.options("target"),
            **args.some(*_OPTIONS),
        )


def _target(args: Arguments) -> str:
    """Return the target, which must be given once, and whose name must be that of a Zarr store."""
    from cfagg.errors import OptionError

    names = [name for name in (args.target, args.output) if name is not None]
    if len(names) != 1:
        raise OptionError(
            "give the target once: cfagg convert SOURCE TARGET, or cfagg convert SOURCE -o TARGET"
            if names
            else "there is no target: cfagg convert SOURCE TARGET"
        )
    return str(names[0])
