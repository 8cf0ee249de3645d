"""Stores that several tests of the command only read, made once for each module."""

from pathlib import Path

import pytest

from cfagg.cli import main as cli
from cfagg.demo import sample


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the paths of a sample, of stores made from samples, of a recipe and of nothing yet (out)."""
    folder = tmp_path_factory.mktemp("jobs")
    names = ("out", "zarr", "recipe", "storms")
    places = {name: folder / name for name in names} | {"nca": sample("sst.nca"), "sst": sample("sst")}
    places["recipe"].write_text(
        f"dates: {{start: 2003, end: 2006, frequency: 1d}}\ninput: {{netcdf: {{path: {sample('storms.nc')}}}}}\n"
        "output: {layout: tabular}\n",
        encoding="utf-8",
    )
    assert cli.main(["convert", str(places["nca"]), str(places["zarr"]), "-q"]) == 0
    assert cli.main(["accumulate", str(places["zarr"]), "surface_temperature", "-q"]) == 0
    assert cli.main(["obs", "create", str(places["recipe"]), str(places["storms"]), "-q"]) == 0
    return places
