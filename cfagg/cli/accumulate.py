"""``cfagg accumulate``: store sums from which means over any range are computed quickly."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from cfagg.cli import output, selecting
from cfagg.cli.bars import byte_bar
from cfagg.cli.options import JSON, Arguments, allow, either, flag, group, option, storage_option, workers
from cfagg.errors import SelectionError

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Store cumulative sums of an array of a Zarr store at the edges of its chunks (ZEP 5)."

EPILOG = """\
examples:
  cfagg accumulate temperature.zarr tas
  cfagg accumulate temperature.zarr tas --dims time --dims lat,lon --weights area
  cfagg accumulate temperature.zarr tas --dry-run
  cfagg accumulate temperature.zarr tas --append
  cfagg accumulate temperature.zarr tas --refresh
  cfagg accumulate --adopt copy.zarr tas

The sums of VARIABLE are stored beside it in the group VARIABLE_accumulation_group; the data are not changed.
The group is built beside the store and moved into place when it is complete. To finish a run that was killed, repeat
the command with --resume. --append and --refresh keep the settings with which the accumulation was built.
A copy of a store (cp -r, rsync, tar, git) is refused until --adopt has compared it with the checksums of the original.
"""


#: Options passed unchanged as arguments of `cfagg.accumulate`, and those passed only if given.
_AS_THEY_ARE = ("append", "refresh", "overwrite", "adopt", "resume", "dry_run", "allow")
_KEPT = ("dims", "weights", "statistics", "precision", "codec", "workers", "memory")


def _stride(text: str) -> tuple[str | None, int]:
    """Return one value of ``--stride``: a dimension, `None` for all, and a number of chunks."""
    name, equals, number = text.rpartition("=")
    try:
        value = int(number)
    except ValueError:
        value = 0
    if value < 1 or bool(equals) != bool(name.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of chunks like 2 or time=2")
    return name.strip() or None, value


def _words(text: str) -> tuple[str, ...]:
    """Return words separated by commas."""
    return tuple(word.strip() for word in text.split(","))


OPTIONS = (
    option("store", "STORE", "directory of a Zarr store, version 2 or 3, or its URL in an object store"),
    option("variable", "VARIABLE", "path of an array in the store"),
    group(
        "what to store",
        option(
            "--dims", "DIMS", "a combination of dimensions to sum along, such as time or lat,lon; may be repeated "
            "(default: every single dimension, and the horizontal ones together)",
            type=selecting.names, action="append",
        ),
        option(
            "--stride", "N", "number of chunks between sums, such as 2 or time=2; may be repeated (default: 1)",
            type=_stride, action="append",
        ),
        option("--weights", "NAME", "'area' for cell areas, 'none', or a variable of the store (default: none)"),
        option(
            "--statistics", "NAMES", "'chunks', or any of 'min', 'max', 'std' to store them for every combination, or "
            "'none' (default: chunks)", type=_words,
        ),
        option(
            "--precision", ("auto", "float64", "double-double"),
            "numeric type of the sums (default: auto, which is exact for integers)",
        ),
        option("--codec", ("blosc", "zstd", "gzip", "none"), "compression (default: blosc)"),
    ),
    group(
        "if there already is an accumulation",
        either(
            flag("--append", "extend it after the array has grown along one dimension"),
            flag("--refresh", "update it after the data have changed"),
            flag("--overwrite", "replace it, or an unfinished build"),
            flag("--adopt", "accept a copy of the store if its contents are the same"),
        ),
    ),
    group(
        "how to run",
        flag("--resume", "finish a killed run with the same options"),
        flag("--dry-run", "print what would be stored; read no data and write nothing"),
        option("--dask", "ADDRESS", "address of a Dask scheduler whose workers read the data"),
        workers(default="one per processor, 16 for a store on another machine"),
        option(
            "--memory", "SIZE",
            "memory for data being processed, such as 1GiB, in addition to that of the libraries (default: 256MiB)",
        ),
        allow("also follow links in the store to files in or below PATH"),
        storage_option(),
        JSON,
        flag("--quiet", "no progress bar or summary"),
    ),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Accumulate; the summary goes to stdout."""
    from cfagg.accumulation.accumulating import accumulate

    options = args.options()
    # Options that are not given are left out, since an existing accumulation keeps its own.
    given = {name: value for name in _KEPT if (value := getattr(args, name)) is not None}
    if (strides := _strides(args.stride)) is not None:
        given["stride"] = strides
    if given.get("weights") == "none":
        given["weights"] = None
    if "dims" in given or isinstance(given.get("stride"), dict):
        _resolve(given, args.store, args.variable, args.allow, options)
    shown = not args.quiet and not args.dry_run and sys.stderr.isatty()
    with byte_bar("accumulate", shown) as progress:
        report = accumulate(
            args.store,
            args.variable,
            client=args.dask,
            progress=progress,
            storage_options=options,
            **args.some(*_AS_THEY_ARE),
            **given,
        )
    output.print_report(args, "accumulate", report.as_dict(), str(report))
    return 0


def _strides(given: list[tuple[str | None, int]] | None) -> int | dict[str, int] | None:
    """Return all values of ``--stride`` as one."""
    if not given:
        return None
    if len(given) == 1 and given[0][0] is None:
        return given[0][1]
    found: dict[str, int] = {}
    for name, value in given:
        if name is None or name in found:
            raise SelectionError("--stride is given more than once; give it once for all, or once per dimension")
        found[name] = value
    return found


def _resolve(
    given: dict[str, Any], store: str, variable: str, allow: Sequence[str], options: dict[str, Any] | None
) -> None:
    """Replace common names of dimensions by those of the array; unknown ones are left for the library to refuse."""
    from cfagg.formats.zarr import open_array
    from cfagg.storage.urls import a_place, is_url

    place = a_place(store, options, allow) if is_url(store) else store
    dims = open_array(place, variable, allow=allow).dims

    def name(asked: str) -> str:
        return selecting.dimension_by_name(asked, dims) or asked

    if "dims" in given:
        given["dims"] = [tuple(name(d) for d in combination) for combination in given["dims"]]
    if isinstance(given.get("stride"), dict):
        strides: dict[str, int] = {}
        for asked, number in given["stride"].items():
            if name(asked) in strides:
                raise SelectionError(f"--stride is given twice for dimension {name(asked)!r}; give it once")
            strides[name(asked)] = number
        given["stride"] = strides
