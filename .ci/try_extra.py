"""Use what one extra brings, with only that extra installed: python try_extra.py EXTRA, or none."""

import sys
import tempfile
from pathlib import Path

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import MissingExtraError

NAME = sys.argv[1]
PATH = str(sample("sst.nca"))


def cloud(folder: str) -> None:
    """Name a place in an object store, which is asked for nothing."""
    from cfagg.storage.objects import ObjectStore

    assert ObjectStore("gs://bucket/a.zarr", {"skip_signature": True})._store is not None


def dask(folder: str) -> None:
    """Read in chunks, and accumulate on threads."""
    array = cfagg.read(PATH, chunks={}).surface_temperature
    assert array.chunks is not None
    assert float(array.mean().compute()) > 200


def icechunk(folder: str) -> None:
    """Write references to an aggregation's values."""
    assert (
        main(["index", PATH, "--to", "icechunk", "-o", f"{folder}/sst.icechunk", "--on-loss", "materialise", "-q"]) == 0
    )


def observations(folder: str) -> None:
    """Build a table from a netCDF file, and open it."""
    recipe = {
        "dates": {"start": 2003, "end": 2006, "frequency": "1d"},
        "input": {"netcdf": {"path": str(sample("storms.nc"))}},
        "output": {"layout": "tabular"},
    }
    assert cfagg.create_observations(recipe, f"{folder}/storms.zarr").rows > 0
    assert len(cfagg.open_observations(f"{folder}/storms.zarr", start=2005, end=2005)) > 0


def plot(folder: str) -> None:
    """Draw a partition matrix."""
    assert main(["show", PATH, "--plot", f"{folder}/a.png"]) == 0
    assert Path(folder, "a.png").stat().st_size > 1000


JOBS = {"cloud": cloud, "dask": dask, "icechunk": icechunk, "observations": observations, "plot": plot}

with tempfile.TemporaryDirectory() as work:
    assert main(["convert", PATH, f"{work}/a.zarr", "-q"]) == 0
    assert main(["accumulate", f"{work}/a.zarr", "surface_temperature", "-q"]) == 0
    assert main(["mean", f"{work}/a.zarr", "surface_temperature", "--over", "time", "-q", "--json"]) == 0
    for job, run in JOBS.items():
        if job == NAME:
            run(work)
            continue
        try:
            run(work)
        except (MissingExtraError, AssertionError) as error:
            print(f"{job}: not installed: {error or 'refused'}")
print(f"{NAME}: works alone")
