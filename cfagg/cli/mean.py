"""``cfagg mean``: a statistic over any range, from the accumulation of an array."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.cli import output, selecting
from cfagg.cli.options import JSON, Arguments, allow, flag, group, option, repeated, rows, storage_option
from cfagg.errors import SelectionError, UnsupportedError

if TYPE_CHECKING:
    from xarray import DataArray

    from cfagg.accumulation.accumulated import Accumulated
    from cfagg.display.statistic import Query

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "SPARED", "run"]

_STATISTICS = ("mean", "sum", "min", "max", "std", "var", "count")
_GROUPS = ("month", "season", "year", "dayofyear", "hour")

DESCRIPTION = "Average an array of a Zarr store over any range of any dimensions, from its accumulation."

EPILOG = f"""\
examples:
  cfagg mean temperature.zarr tas --over time --select time=1990/1999 --plot map.png
  cfagg mean temperature.zarr tas --over lat,lon --select lat=30:60 --select lon=-10:40
  cfagg mean temperature.zarr tas --over time --group season -o seasons.nc
  cfagg mean temperature.zarr tas --over time --select time=1990/ --explain

{selecting.GRAMMAR}
Dimensions are given by their own names, or by time, lat, lon and the like if these are unambiguous.
The array must have been accumulated with: cfagg accumulate STORE VARIABLE
"""


#: xarray would load all of dask to find that no array is a dask array.
SPARED = ("dask",)

OPTIONS = (
    option("store", "STORE", "directory or URL of a Zarr store"),
    option("variable", "VARIABLE", "path of an accumulated array in the store"),
    group(
        "what to compute",
        option(
            "--over", "DIMS", "dimensions to average over, such as time or lat,lon (default: all; with --group, time)",
            type=selecting.names,
        ),
        repeated("--select", "DIM=VALUE", "select a range first; see below", type=selecting.selection, default=[]),
        option("--group", _GROUPS, "compute one value per month, season, year, ..."),
        option("--statistic", _STATISTICS, "statistic to compute (default: mean)", default="mean"),
        option("--ddof", "N", "divisor of std and var: the count minus N (default: 0)", type=int, default=0),
        option(
            "--weights", "NAME", "'area' or a variable of the store, if another program stored sums without weights"
        ),
    ),
    group(
        "what to do with the result",
        JSON,
        option("--plot", "PICTURE", "plot a map, series, profile or section (.png, .svg or .pdf)"),
        option("--output", "FILE", "write the result as a netCDF file (.nc)"),
        flag("--overwrite", "let --output and --plot replace existing files"),
        flag("--explain", "print what would be read, without reading it"),
        flag("--adopt", "accept a copy of the accumulated data for this run, if its contents are the same"),
        option(
            "--trust-for", "SECONDS",
            "how long to trust a check for changes (default: 0, check every time)", type=float, default=0.0,
        ),
        allow("also follow links in the store to files in or below PATH"),
        storage_option(),
        rows("values printed"),
    ),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Compute; the result goes to stdout, and to files if requested."""
    _check(args)
    from cfagg.accumulation.accumulated import open_accumulated
    from cfagg.cf.dimension_kinds import date_coordinate

    acc = open_accumulated(
        args.store,
        args.variable,
        weights=args.weights,
        adopt=args.adopt,
        trust_for=args.trust_for,
        allow=args.allow,
        storage_options=args.options(),
    )
    array, kinds = _template(acc)
    chosen = selecting.positions(args.select, array, kinds)
    over = _over(args, array, kinds)
    # A dimension with one selected position is kept if it is to be reduced.
    isel = {d: slice(p, p + 1) if isinstance(p, int) and d in over else p for d, p in chosen.items()}
    options: dict[str, Any] = {"ddof": args.ddof} if args.statistic in ("std", "var") else {}
    asked_of: Any = acc
    if args.group is not None:
        # Dates may be in an auxiliary coordinate, by which the library groups.
        asked_of = acc.groupby(f"{date_coordinate(acc.coords, _time(array, kinds))}.{args.group}")
    result = getattr(asked_of, args.statistic)(over, isel=isel, explain=args.explain, **options)
    asked = _asked(args, acc, array, kinds, over, isel)
    if args.explain:
        from cfagg.display.escape import printable
        from cfagg.display.statistic import plan_json

        for line in [plan_json(result.as_dict(), asked)] if args.json else str(result).splitlines():
            print(line if args.json else printable(line))
        return 0
    ranges = {selecting.dimension(c.dim, kinds, str(array.name)) for c in args.select if not c.by_index}
    return _give(args, _relabelled(result, array, kinds, {d: p for d, p in isel.items() if d in ranges}), asked)


def _check(args: Arguments) -> None:
    """Raise errors for impossible requests before anything is read."""
    if args.explain and (args.plot or args.output):
        raise UnsupportedError("--explain computes nothing that --plot or --output could use; give one or the other")
    if args.ddof and args.statistic not in ("std", "var"):
        raise UnsupportedError(f"--ddof is only for std and var, not for {args.statistic}")
    output.check_outputs(args, of_data=True)
    if args.output is not None and Path(args.output).suffix.lower() != ".nc":
        raise UnsupportedError(f"{args.output} cannot be written: its name must end in .nc; --json prints text instead")


def _template(acc: Accumulated) -> tuple[DataArray, dict[str, str]]:
    """Return an array with the coordinates of the accumulated one but no values, and the kinds of its dimensions."""
    import numpy as np
    import xarray as xr

    from cfagg.cf.dimension_kinds import dated, kinds

    nothing = np.broadcast_to(np.int8(0), acc.shape)
    array = dated(xr.DataArray(nothing, coords=acc.coords.coords, dims=acc.dims, name=acc.name))
    return array, {str(d): kind for d, kind in kinds(array).items()}


def _over(args: Arguments, array: DataArray, kinds: dict[str, str]) -> tuple[str, ...]:
    """Return the dimensions that are reduced, in the array's order."""
    asked = {selecting.dimension(name, kinds, str(array.name)) for name in args.over or ()}
    if args.group is not None:
        asked.add(_time(array, kinds))
    return tuple(str(d) for d in array.dims if d in asked or not (args.over or args.group))


def _time(array: DataArray, kinds: dict[str, str]) -> str:
    """Return the dimension with dates."""
    found = [
        d for d, kind in kinds.items() if kind == "time" and d in array.coords and array.coords[d].dtype.kind in "MO"
    ]
    if len(found) != 1:
        number = len(found) or "none"
        raise SelectionError(
            f"--group needs one dimension with dates; {array.name!r} has {number} among {', '.join(kinds)}"
        )
    return found[0]


def _asked(
    args: Arguments,
    acc: Accumulated,
    array: DataArray,
    kinds: dict[str, str],
    over: tuple[str, ...],
    isel: dict[str, Any],
) -> Query:
    from cfagg.display.statistic import Query, selected

    weights = acc.group.weights
    named = None
    if weights is not None and args.statistic not in ("count", "min", "max"):
        record = acc.group.extra.weights if acc.group.extra is not None else None
        # Areas come from a variable as well, but they are shown as areas.
        named = "yes" if record is None else record.name if record.kind == "variable" else record.kind
    return Query(
        store=args.store,
        variable=args.variable.strip("/"),
        statistic=args.statistic,
        over=over,
        group=args.group,
        selected={
            d: selected(array, d, kind, isel.get(d, slice(None))) for d, kind in kinds.items() if d in over or d in isel
        },
        weights=named,
    )


def _relabelled(result: DataArray, array: DataArray, kinds: dict[str, str], isel: dict[str, Any]) -> DataArray:
    """Return a result whose longitudes increase monotonically if a range of them crosses the edge of the map."""
    import numpy as np

    for dim, positions in isel.items():
        if kinds[dim] == "longitude" and isinstance(positions, np.ndarray) and dim in result.dims:
            values = array.coords[dim].values[positions]
            values = values if values.dtype.kind == "f" else values.astype(np.int64)
            grown = values + 360 * np.cumsum(np.diff(values, prepend=values[:1]) < 0)
            # As written by the user: -10 to 20, not 350 to 380.
            grown = grown - 360 if grown[-1] > 360 else grown
            result = result.assign_coords({dim: (dim, grown.astype(values.dtype), array.coords[dim].attrs)})
    return result


def _give(args: Arguments, result: DataArray, asked: Query) -> int:
    """Print, plot and write a result."""
    from cfagg.display import statistic

    if args.output is not None:
        with output.aside(args.output, overwrite=args.overwrite) as name:
            output.write_netcdf(result, name)
    if args.plot is not None:
        from cfagg.cf.dimension_kinds import dated, grid, kinds
        from cfagg.display import field

        shown = dated(result)
        subtitle = " · ".join(f"{d} {part}" for d, part in asked.selected.items())
        title = f"{field.label(result, units=False)}, {asked.title}"
        with output.aside(args.plot, overwrite=args.overwrite) as name:
            field.save(shown, name, kinds(shown), grid(shown), title=title, subtitle=subtitle)
        output.note_picture(args)
    if args.json:
        print(statistic.as_json(result, asked))
    else:
        from cfagg.cf.dimension_kinds import dated

        for line in statistic.text_lines(dated(result), asked, rows=args.rows):
            print(line)
    sys.stdout.flush()
    return 0
