"""``cfagg obs window``: the observations in one window of time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.cli import output, selecting
from cfagg.cli.options import JSON, STORE, Arguments, flag, group, option, rows
from cfagg.errors import UnsupportedError
from cfagg.errors.extras import require

if TYPE_CHECKING:
    from cfagg.observations.sample import Sample

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

_ENDINGS = (".csv", ".parquet", ".nc")

DESCRIPTION = "Print or export the observations in one time window, as a training program would receive them."

EPILOG = """\
examples:
  cfagg obs window synop.zarr 2020-01-31
  cfagg obs window synop.zarr 2020-01-31T12 --window "[-30min,+30min]" --select t2m,ps
  cfagg obs window synop.zarr 2020-01-31T12 --area 70,-10,30,40 --output sample.nc

DATE is a day or a full time in UTC; the window is relative to it, in hours if there is no unit. A round bracket
excludes an end, a square one includes it. Write areas that begin with a minus as --area=-30,-10,-60,40.
--output writes a table with the date of each row and its distance from DATE in seconds (.csv, .parquet), or a netCDF
file of CF points (.nc).
"""


def _area(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != 4:
        raise argparse.ArgumentTypeError(f"{text!r} is not four numbers NORTH,WEST,SOUTH,EAST")
    return found


def _thin(text: str) -> float | int:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


OPTIONS = (
    *STORE,
    option("date", "DATE", "date of the sample, such as 2020-01-31 or 2020-01-31T12:00:00"),
    group(
        "what to select",
        option("--window", "WINDOW", 'window around DATE (default: "(-3,+3]")', default="(-3,+3]"),
        option("--select", "NAMES", "only these variables, in this order", type=selecting.names),
        option("--area", "N,W,S,E", "only rows in this area, in degrees", type=_area),
        option("--thin", "N", "every N-th row, or a random fraction such as 0.1", type=_thin),
        option("--index", "KIND", "index to use: pages, bisect or btree"),
    ),
    group(
        "what to do with the result",
        JSON,
        option("--output", "FILE", "write the rows to this file (.csv, .parquet or .nc)"),
        flag("--overwrite", "let --output replace an existing file"),
        rows("number of rows printed"),
    ),
)


def run(args: Arguments) -> int:
    """Read one sample; it goes to stdout, or to a file."""
    if args.output is not None:
        output.check(args.output, overwrite=args.overwrite, of_data=True)
        if Path(args.output).suffix.lower() not in _ENDINGS:
            raise UnsupportedError(f"{args.output} cannot be written: its name must end in {', '.join(_ENDINGS)}")
    from cfagg.cf.instants import epoch_text
    from cfagg.observations.dates import first_second
    from cfagg.observations.opening import open_observations

    date = epoch_text(first_second(args.date))
    dataset = open_observations(
        args.store, date, date, args.window, "1h", storage_options=args.options(),
        **args.some("select", "area", "thin", "index", "allow"),
    )  # fmt: skip
    sample = dataset[0]
    if args.output is not None:
        with output.aside(args.output, overwrite=args.overwrite) as name:
            _export(sample, name)
        if not args.json:
            return 0
    from cfagg.observations import describe as observations

    lines = (
        [observations.sample_json(dataset, sample)]
        if args.json
        else observations.sample_lines(dataset, sample, rows=args.rows)
    )
    for line in lines:
        print(line)
    return 0


def _export(sample: Sample, name: str) -> None:
    """Write the rows of a sample."""
    ending = Path(name).suffix.lower()
    if ending == ".csv":
        frame: Any = sample.to_pandas()
        frame.to_csv(name, index=False, date_format="%Y-%m-%dT%H:%M:%S")
    elif ending == ".parquet":
        require(".parquet files", "pyarrow")
        from pyarrow import parquet

        parquet.write_table(sample.to_arrow(), name)
    else:
        output.write_netcdf(sample.to_xarray(), name)
