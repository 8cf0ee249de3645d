"""The demonstration: ``python -m cfagg.demo FOLDER``.

Converts the bundled series of monthly sea surface temperatures to Zarr, reads the store back, compares every value
with the packed months as netCDF4 reads them, and draws two partition matrices: that of the series, and that of figure 1
of the NCA text.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from cfagg.errors import SourceError

__all__ = ["main", "sample"]


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
        There is no such sample.

    Examples
    --------
    >>> sample("figure1.nca").name
    'figure1.nca'
    """
    folder = Path(__file__).parent / "sample_data"
    if not folder.is_dir():
        # A checkout without symbolic links: the folder stands beside the package.
        folder = Path(__file__).parents[1] / "sample_data"
    path = folder / name
    if not path.exists():
        known = ", ".join(sorted(p.name for p in folder.glob("*.nca")))
        raise SourceError(f"there is no sample {name!r} in {folder}; the aggregations are {known}")
    return path


def main(folder: Path) -> int:
    """Run the demonstration and return the exit status: 0, or 1 where a value differs."""
    folder.mkdir(parents=True, exist_ok=True)
    source, store = sample("sst.nca"), folder / "sst.zarr"
    if _command("convert", str(source), str(store), "--overwrite"):
        return 1

    import xarray as xr

    with xr.open_zarr(store) as dataset:
        print(dataset, flush=True)
        different = _compare(dataset["surface_temperature"], source.parent / "sst")

    if find_spec("matplotlib") is None:
        print("\nNo picture: it needs matplotlib, which comes with cfagg[plot].")
        return 1 if different else 0
    for name in ("sst", "figure1"):
        if _command("show", str(sample(f"{name}.nca")), "--overwrite", "--plot", str(folder / f"{name}.png")):
            return 1
    print(f"\nThe store and the pictures are in {folder}")
    return 1 if different else 0


def _command(*args: str) -> int:
    """Run a command as typed at a prompt, and show it."""
    from cfagg.cli.main import main as cfagg

    print("\n$ cfagg", *args, flush=True)
    return int(cfagg(list(args)))


def _compare(array: object, months: Path) -> int:
    """Print and return how many values of the store differ from those that netCDF4 unpacks month by month."""
    import netCDF4
    import numpy as np

    expected = []
    for path in sorted(months.glob("*.nc")):
        with netCDF4.Dataset(path) as month:
            field = np.ma.masked_array(month["surface_temperature"][:])
            expected.append(np.ma.filled(field.astype("f4"), np.nan))
    found, wanted = np.asarray(array), np.concatenate(expected)
    equal = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    different = int((~equal).sum())
    print(f"\n{found.size:,} values compared with the {len(expected)} months, {different:,} differ", flush=True)
    return different


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo_output")))
