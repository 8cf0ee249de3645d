"""Real observations all the way: from the bundled files through recipes and stores to samples and other formats.

Expected values are found with netCDF4, NumPy and pandas alone.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.observations.exchange import export_netcdf, export_parquet, import_netcdf, import_parquet

COLUMNS = ["wind", "pressure", "gale", "hurricane", "track"]


@pytest.fixture(scope="module")
def fixes() -> pd.DataFrame:
    """Return the fixes of all storms, sorted as rows of a store are, as float32."""
    with netCDF4.Dataset(sample("storms.nc")) as file:
        hours = file["time"][:].data.astype("i8")
        columns = {name: np.ma.filled(file[name][:].astype("f4"), np.nan) for name in ["lat", "lon", *COLUMNS[:-1]]}
        columns["track"] = np.repeat(file["track"][:].data, file["row_size"][:]).astype("f4")
    frame = pd.DataFrame({"seconds": hours * 3600 + 12053 * 86400, **columns})
    # A longitude becomes float32 before it is wrapped.
    frame["lon"] = np.where(frame["lon"] < 0, (frame["lon"].astype("f8") + 360).astype("f4"), frame["lon"])
    return frame.drop_duplicates().sort_values(["seconds", "lat", "lon", *COLUMNS], ignore_index=True)


def recipe(**changes: Any) -> dict[str, Any]:
    """Return the recipe of the storms, with other sections."""
    return {
        "description": "Tropical storms of the Atlantic",
        "dates": {"start": "2003-01-01", "end": "2006-12-31", "frequency": "1d"},
        "input": {"netcdf": {"path": str(sample("storms.nc"))}},
        "output": {"layout": "tabular"},
        "statistics": {"records": "all"},
        **changes,
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of the storms."""
    path = tmp_path_factory.mktemp("storms") / "storms.zarr"
    report = cfagg.create_observations(recipe(), path)
    assert (report.rows, report.variables) == (2468, tuple(COLUMNS))
    return path


def files_of(store: Path) -> dict[str, bytes]:
    """Return everything in a store but what tells how it was made."""
    return {
        p.relative_to(store).as_posix(): p.read_bytes()
        for p in sorted(store.rglob("*"))
        if p.is_file() and p.name not in (".zattrs", "zarr.json")
    }


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("window", "frequency"), [("(-3,+3]", "6h"), ("[-12,+12)", "24h"), ("(-1d,0]", "3h"), ("[0,0]", "1h")]
)
def test_every_sample_holds_the_fixes_of_its_window(
    store: Path, fixes: pd.DataFrame, window: str, frequency: str
) -> None:
    ds = cfagg.open_observations(store, "2005-08-20", "2005-09-20", window, frequency)
    hours = int(frequency[:-1])
    assert len(ds) == (32 * 24 - 1) // hours + 1
    low, high = {"(-3,+3]": (-10799, 10800), "[-12,+12)": (-43200, 43199), "(-1d,0]": (-86399, 0), "[0,0]": (0, 0)}[
        window
    ]
    seconds = fixes["seconds"].to_numpy()
    rows = 0
    for i, date in enumerate(ds.dates.astype("i8")):
        wanted = fixes[(seconds >= date + low) & (seconds <= date + high)]
        x = ds[i]
        np.testing.assert_array_equal(x, wanted[COLUMNS].to_numpy())
        np.testing.assert_array_equal(x.latitudes, wanted["lat"])
        np.testing.assert_array_equal(x.longitudes, wanted["lon"].astype("f4"))
        np.testing.assert_array_equal(x.timedeltas, wanted["seconds"] - date)
        np.testing.assert_array_equal(ds.details(i).dates.astype("i8"), wanted["seconds"])
        rows += len(x)
    assert rows > 200


def test_statistics_are_those_of_numpy_in_double_precision(store: Path, fixes: pd.DataFrame) -> None:
    ds = cfagg.open_observations(store)
    values = fixes[COLUMNS].to_numpy().astype("f8")
    np.testing.assert_allclose(ds.statistics["mean"], np.nanmean(values, axis=0), rtol=1e-14)
    np.testing.assert_allclose(ds.statistics["stdev"], np.nanstd(values, axis=0), rtol=1e-13)
    np.testing.assert_array_equal(ds.statistics["minimum"], np.nanmin(values, axis=0))
    np.testing.assert_array_equal(ds.statistics["maximum"], np.nanmax(values, axis=0))
    np.testing.assert_array_equal(ds.statistics["nan_count"], np.isnan(values).sum(axis=0))


@pytest.mark.few(1)
@pytest.mark.parametrize("group", ["weekly", "monthly", "yearly", "all"])
def test_the_store_is_the_same_however_it_is_cut_into_parts(tmp_path: Path, store: Path, group: str) -> None:
    cfagg.create_observations(recipe(build={"group_by": group}), tmp_path / "a.zarr", workers=2)
    assert files_of(tmp_path / "a.zarr") == files_of(store)


@pytest.mark.full
def test_appending_season_by_season_gives_the_same_store(tmp_path: Path, store: Path) -> None:
    for year in (2003, 2004, 2005, 2006):
        dates = {"start": "2003-01-01", "end": f"{year}-12-31", "frequency": "1d"}
        cfagg.create_observations(recipe(dates=dates), tmp_path / "a.zarr", append=year > 2003)
    assert files_of(tmp_path / "a.zarr") == files_of(store)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["csv", "parquet", "observations", "callable"])
def test_every_source_of_the_same_fixes_gives_the_same_store(
    tmp_path: Path, store: Path, fixes: pd.DataFrame, kind: str
) -> None:
    dates = pd.to_datetime(fixes["seconds"], unit="s")
    table = pd.DataFrame({"date": dates, "latitude": fixes["lat"], "longitude": fixes["lon"], **fixes[COLUMNS]})
    table = table.sample(frac=1, random_state=0)
    if kind == "csv":
        table.to_csv(tmp_path / "a.csv", index=False)
        source: Any = {"csv": {"path": str(tmp_path / "a.csv")}}
    elif kind == "parquet":
        table.to_parquet(tmp_path / "a.parquet", row_group_size=300)
        source = {"parquet": {"path": str(tmp_path / "a.parquet")}}
    elif kind == "observations":
        source = {"observations": {"path": str(store)}}
    else:

        def source(start: Any, end: Any) -> pd.DataFrame:
            return table[(table["date"] >= start) & (table["date"] < end)]

    cfagg.create_observations(recipe(input=source), tmp_path / "a.zarr")
    assert files_of(tmp_path / "a.zarr") == files_of(store)


def test_filters_convert_cut_and_mask(tmp_path: Path, fixes: pd.DataFrame) -> None:
    steps = [
        {"netcdf": {"path": str(sample("storms.nc"))}},
        {"convert_units": {"wind": "m s-1"}},
        {"area": [31, -98, 18, -81]},
        {"drop": ["gale", "hurricane"]},
        {"rename": {"pressure": "msl"}},
    ]
    cfagg.create_observations(recipe(input={"pipe": steps}), tmp_path / "gulf.zarr")
    ds = cfagg.open_observations(tmp_path / "gulf.zarr", 2003, 2006, "[0,1d)", "1d")
    inside = fixes[fixes["lat"].between(18, 31) & fixes["lon"].between(262, 279)]
    assert ds.variables == ("wind", "msl", "track")
    assert ds.variables_metadata["wind"]["units"] == "m s-1"
    x = ds[:]
    np.testing.assert_allclose(x[:, 0], inside["wind"].astype("f8") * 1852 / 3600, rtol=1e-6)
    np.testing.assert_array_equal(x[:, 1:], inside[["pressure", "track"]])


def test_the_own_layout_gives_the_same_samples(tmp_path: Path, store: Path) -> None:
    cfagg.create_observations(recipe(output={"layout": "tabular", "format": "cfagg"}), tmp_path / "a.zarr")
    arguments = (2003, 2006, "(-3,+3]", "6h")
    one, other = (cfagg.open_observations(p, *arguments) for p in (store, tmp_path / "a.zarr"))
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one[one.counts > 0], other[other.counts > 0])
    assert {k: v.tolist() for k, v in one.statistics.items()} == {k: v.tolist() for k, v in other.statistics.items()}


def test_a_pickled_dataset_gives_the_same_samples(store: Path) -> None:
    ds = cfagg.open_observations(store, 2005, 2005, "(-3,+3]", "6h", sample="deltatime", area=(40, -100, 10, -20))
    again = pickle.loads(pickle.dumps(ds))
    np.testing.assert_array_equal(ds[900:1100], again[900:1100])
    assert json.dumps(again.metadata())


def test_a_store_goes_through_netcdf_and_parquet_and_back(tmp_path: Path, store: Path) -> None:
    first = import_netcdf(export_netcdf(store, tmp_path / "a.nc", "contiguous", by="track"), tmp_path / "a.zarr")
    second = import_parquet(export_parquet(first, tmp_path / "a.parquet"), tmp_path / "b.zarr")
    third = import_netcdf(export_netcdf(second, tmp_path / "b.nc", "indexed", by="track"), tmp_path / "c.zarr")
    assert files_of(first) == files_of(second) == files_of(third)
    assert {k: v for k, v in files_of(third).items() if "pages" not in k} == {
        k: v for k, v in files_of(store).items() if "pages" not in k
    }
    told, kept = (json.loads((p / ".zattrs").read_text()) for p in (store, third))
    assert told["variables_metadata"] == kept["variables_metadata"]
    assert told["description"] == kept["description"]


def test_one_season_of_one_storm_is_exported_from_a_dataset(tmp_path: Path, store: Path, fixes: pd.DataFrame) -> None:
    ds = cfagg.open_observations(store, "2005-08-23", "2005-08-31", "[0,1d)", "1d", select=["wind", "track"])
    path = export_netcdf(ds, tmp_path / "august.nc", "contiguous", by="track")
    with xr.open_dataset(path) as found:
        katrina = int(np.flatnonzero(found["track"].values == 48)[0])
        sizes = found["row_size"].values.astype(int)
        rows = slice(sizes[:katrina].sum(), sizes[: katrina + 1].sum())
        wanted = fixes[(fixes["track"] == 48) & (fixes["seconds"] < np.datetime64("2005-09-01", "s").astype("i8"))]
        np.testing.assert_array_equal(found["wind"][rows], wanted["wind"])
        np.testing.assert_array_equal(found["longitude"][rows], wanted["lon"].astype("f4"))
        assert found["wind"][rows].attrs["units"] == "knot"


def test_storms_and_fields_are_joined_at_the_dates_of_both(store: Path) -> None:
    months = cfagg.open_observations(store, "2006-04", "2006-09", "[-15d,15d)", "12h", select="wind")
    with cfagg.read(sample("sst.nca")) as sst:
        joined = cfagg.join_observations({"storms": months, "sst": sst}, dates="common")
        assert len(joined) == 6
        for i, date in enumerate(joined.dates):
            field = sst["surface_temperature"].sel(time=date.astype("M8[ns]")).values
            np.testing.assert_array_equal(joined[i]["sst"][0], field)
            np.testing.assert_array_equal(joined[i]["storms"], months[int(np.flatnonzero(months.dates == date)[0])])


def test_the_command_builds_shows_checks_and_exports(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe()))  # JSON is YAML
    assert main(["obs", "create", "recipe.yaml", "a.zarr", "--quiet"]) == 0
    assert files_of(tmp_path / "a.zarr") == files_of(store)
    capsys.readouterr()
    assert main(["obs", "show", "a.zarr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2468
    assert main(["obs", "check", "a.zarr", "--full"]) == 0
    assert main(["obs", "window", "a.zarr", "2005-08-28T12", "-o", "noon.csv"]) == 0
    assert pd.read_csv(tmp_path / "noon.csv")["pressure"].tolist() == [1009, 909]


def test_profiles_become_rows_with_their_depths(tmp_path: Path) -> None:
    source = {"netcdf": {"path": str(sample("profiles.nc"))}}
    dates = {"start": "1983-01-01", "end": "1986-12-31", "frequency": "1d"}
    report = cfagg.create_observations(recipe(input=source, dates=dates), tmp_path / "a.zarr")
    assert report.rows == 1887
    ds = cfagg.open_observations(
        tmp_path / "a.zarr", window="[0,0]", frequency="1d", select=["depth", "practical_salinity"]
    )
    x = ds[0]
    with netCDF4.Dataset(sample("profiles.nc")) as file:
        surface = file["practical_salinity"][:][file["depth"][:] == 5]
    np.testing.assert_array_equal(np.sort(x[x[:, 0] == 5][:, 1]), np.sort(surface))
