"""The demonstration: ``python -m cfagg.demo FOLDER``.

Converts the bundled series of monthly sea surface temperatures to Zarr, reads the store back, compares every value with
the packed months as read by netCDF4, and plots two partition matrices: that of the series, and that of figure 1 of the
NCA text. Then it accumulates the series, and plots a map of the mean of three years and a series of area means, which
are compared with those computed from the months.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cfagg.errors import SourceError
from cfagg.errors.arguments import a_path

__all__ = ["main", "sample"]

#: The years of the map.
YEARS = "time=2007/2009"


def sample(name: str = "") -> Path:
    """Return the path of a bundled sample file.

    Parameters
    ----------
    name : str
        Name of the file, such as ``sst.nca``; by default the folder of all samples.

    Returns
    -------
    pathlib.Path
        The installed file.

    Raises
    ------
    SourceError
        The sample does not exist.

    Examples
    --------
    >>> sample("figure1.nca").name
    'figure1.nca'
    """
    folder = Path(__file__).parent / "sample_data"
    if not folder.is_dir():
        # In a checkout without symbolic links, the folder is beside the package.
        folder = Path(__file__).parents[1] / "sample_data"
    path = folder / a_path(name, "name", expected="name a sample, such as 'sst.nca'")
    if not path.exists():
        known = ", ".join(sorted(p.name for p in folder.glob("*.nca")))
        raise SourceError(f"there is no sample {name!r} in {folder}; the aggregations are {known}")
    return path


def main(folder: Path) -> int:
    """Run the demonstration and return the exit status: 0, or 1 if a value differs."""
    folder.mkdir(parents=True, exist_ok=True)
    source, store = sample("sst.nca"), folder / "sst.zarr"
    if _command("convert", str(source), str(store), "--chunks", "time=6,latitude=9,longitude=27", "--overwrite"):
        return 1

    import xarray as xr

    with xr.open_zarr(store) as dataset:
        print(dataset, flush=True)
        different = _compare(dataset["surface_temperature"], source.parent / "sst")

    plots = find_spec("matplotlib") is not None
    if _average(store, folder, plots):
        return 1
    different += _compare_means(store, source.parent / "sst")
    if not plots:
        print("\nNo picture: it needs matplotlib, which comes with cfagg[plot].")
        return 1 if different else 0
    for name in ("sst", "figure1"):
        if _command("show", str(sample(f"{name}.nca")), "--overwrite", "--plot", str(folder / f"{name}.png")):
            return 1
    print(f"\nThe store and the pictures are in {folder}")
    return 1 if different else 0


def _average(store: Path, folder: Path, plots: bool) -> int:
    """Accumulate the series and print means of it; return an exit status."""
    array = (str(store), "surface_temperature")
    if status := _command("accumulate", *array, "--weights", "area", "--overwrite"):
        return status
    for name, *what in (
        ("mean", "--over", "time", "--select", YEARS),
        ("series", "--over", "latitude,longitude", "--rows", "6"),
    ):
        picture = ("--overwrite", "--plot", str(folder / f"{name}.png")) if plots else ()
        if status := _command("mean", *array, *what, *picture):
            return status
    return 0


def _command(*args: str) -> int:
    """Run a command as typed at a prompt, and show it."""
    from cfagg.cli.main import main as cfagg

    print("\n$ cfagg", *args, flush=True)
    return int(cfagg(list(args)))


def _compare(array: object, months: Path) -> int:
    """Print and return the number of values of the store that differ from those that netCDF4 unpacks month by month."""
    import numpy as np

    expected = [field.astype("f4") for _, field in _fields(months)]
    found, wanted = np.asarray(array), np.stack([np.ma.filled(field, np.nan) for field in expected])
    equal = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    different = int((~equal).sum())
    print(f"\n{found.size:,} values compared with the {len(expected)} months, {different:,} differ", flush=True)
    return different


def _compare_means(store: Path, months: Path) -> int:
    """Print and return the number of means in the plotted map that differ from those of the months."""
    import numpy as np

    from cfagg.accumulation.accumulated import open_accumulated

    first, last = YEARS.removeprefix("time=").split("/")
    fields = [field.astype("f4").astype("f8") for name, field in _fields(months) if first <= name[:4] <= last]
    wanted = np.ma.filled(np.ma.stack(fields).mean(axis=0), np.nan)
    found = open_accumulated(store, "surface_temperature").mean("time", sel={"time": slice(first, last)})
    different = int((~np.isclose(found, wanted, rtol=1e-12, atol=0, equal_nan=True)).sum())
    print(f"\n{wanted.size:,} means compared with those of {len(fields)} months, {different:,} differ", flush=True)
    return different


def _fields(months: Path) -> list[tuple[str, Any]]:
    """Return the name and the unpacked field of each month, with missing values masked."""
    import netCDF4
    import numpy as np

    fields = []
    for path in sorted(months.glob("*.nc")):
        with netCDF4.Dataset(path) as month:
            fields.append((path.stem, np.ma.masked_array(month["surface_temperature"][0])))
    return fields


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo_output")))
