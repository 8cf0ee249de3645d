"""Tables are written as CF discrete sampling geometries, value for value."""

from __future__ import annotations

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError, OptionError, TargetError, TargetExistsError
from cfagg.observations.exchange import export_netcdf
from cfagg.observations.exchange.table import Table
from tests.effort import examples
from tests.observations.exchange.tables import WAYS, check_geometry, table

ways = pytest.mark.parametrize(("form", "options"), WAYS, ids=lambda w: str(w))


def rows_of(path: Path, variables: tuple[str, ...]) -> np.ndarray:
    """Return the rows of a file, read with netCDF4 and NumPy alone, in the order of the file."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        names = {getattr(v, "cfagg_name", n): n for n, v in file.variables.items()}
        number = None
        if "row_size" in file.variables:
            number = np.repeat(np.arange(len(file["row_size"])), file["row_size"][:])
        elif "instance_index" in file.variables:
            number = file["instance_index"][:]

        def column(name: str) -> np.ndarray:
            variable = file[name]
            return variable[:] if variable.dimensions == ("obs",) else variable[:][number]

        time = column("time")
        columns = [time // 86400, time % 86400, column("latitude"), column("longitude")]
        # The variable called time is not the coordinate of that name.
        columns += [column(names[v] if v != "time" else "time_1") for v in variables]
        return np.stack(columns, axis=1).astype("f4")


@pytest.mark.parametrize(
    ("day", "calendar"), [(0, "standard"), (-141426, "standard"), (-141428, "proleptic_gregorian")]
)
def test_the_calendar_is_one_in_which_the_dates_are_those_of_the_rows(tmp_path: Path, day: int, calendar: str) -> None:
    rows = np.array([[day, 3600, 51.5, 0, 7], [day + 1, 0, 51.5, 0, 7]], "f4")
    path = export_netcdf(Table.of_rows("reports", ["t2m"], rows), tmp_path / "a.nc")
    with xr.open_dataset(path) as found:
        assert found["time"].encoding["calendar"] == calendar
        assert found["time"].values[0] == np.datetime64(day, "D") + np.timedelta64(1, "h")


def in_order(rows: np.ndarray) -> np.ndarray:
    """Return rows sorted by all columns, as bits."""
    bits = np.ascontiguousarray(rows).view("u4")
    return bits[np.lexsort(bits.T[::-1])]


@ways
def test_every_bit_of_every_row_is_in_the_file(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    wanted = table(move="feature" in options)
    path = export_netcdf(wanted, tmp_path / "a.nc", form, **options)
    found = rows_of(path, wanted.variables)
    np.testing.assert_array_equal(in_order(found), in_order(wanted.read(0, wanted.rows)))


@ways
def test_the_file_is_a_discrete_sampling_geometry_of_cf(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    check_geometry(export_netcdf(table(move="feature" in options), tmp_path / "a.nc", form, **options))


@ways
def test_xarray_opens_the_file_with_its_coordinates(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    wanted = table(move="feature" in options)
    path = export_netcdf(wanted, tmp_path / "a.nc", form, **options)
    with xr.open_dataset(path) as found:
        assert {"time", "latitude", "longitude"} <= set(found.coords)
        assert found.sizes["obs"] == wanted.rows
        assert found["time"].dtype.kind == "M"
        assert found["t2m"].attrs["units"] == "K"
        assert found["t2m"].attrs["standard_name"] == "air_temperature"
        assert int(found["t2m"].isnull().sum()) == int(np.isnan(wanted.read(0, wanted.rows)[:, 5]).sum())


def test_rows_of_an_instance_stand_together_and_in_order_of_time(tmp_path: Path) -> None:
    path = export_netcdf(table(), tmp_path / "a.nc", "contiguous", by="id")
    with netCDF4.Dataset(path) as file:
        tracks = np.split(file["time"][:].data, np.cumsum(file["row_size"][:])[:-1])
        assert all((np.diff(t) >= 0).all() for t in tracks)
        assert file["id"][:].tolist() == [3, 13, 23, 33, 43, 53, 63]


def test_an_indexed_array_keeps_the_order_of_the_store(tmp_path: Path) -> None:
    wanted = table()
    found = rows_of(export_netcdf(wanted, tmp_path / "a.nc", "indexed"), wanted.variables)
    np.testing.assert_array_equal(found.view("u4"), wanted.read(0, wanted.rows).view("u4"))


def test_blocks_of_any_size_give_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows_of(export_netcdf(table(), tmp_path / "a.nc", "contiguous", by="id"), table().variables)
    monkeypatch.setattr("cfagg.observations.exchange.table.BLOCK_ROWS", 7)
    parts = rows_of(export_netcdf(table(), tmp_path / "b.nc", "contiguous", by="id"), table().variables)
    np.testing.assert_array_equal(whole.view("u4"), parts.view("u4"))


@settings(max_examples=examples(25))
@given(st.data())
def test_any_stations_in_any_order_come_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    n, stations = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 5))
    wanted = table(n, stations=stations, move=data.draw(st.booleans()), seed=data.draw(st.integers(0, 9)))
    form, by = data.draw(st.sampled_from(["point", "indexed", "contiguous"])), data.draw(st.sampled_from([None, "id"]))
    path = tmp_path_factory.mktemp("any") / "a.nc"
    export_netcdf(wanted, path, form, by=None if form == "point" else by)
    np.testing.assert_array_equal(in_order(rows_of(path, wanted.variables)), in_order(wanted.read(0, wanted.rows)))


def test_stations_that_stay_are_time_series_and_those_that_move_are_tracks(tmp_path: Path) -> None:
    for move, feature in ((False, "timeSeries"), (True, "trajectory")):
        path = export_netcdf(table(move=move), tmp_path / f"{feature}.nc", "indexed", by="id")
        with netCDF4.Dataset(path) as file:
            assert file.featureType == feature


def test_profiles_have_one_time_and_place_and_a_depth_that_counts_down(tmp_path: Path) -> None:
    rows = [[18262, 0, 10, 20, 1, 5, 281], [18262, 0, 10, 20, 1, 15, 280], [18263, 60, 11, 20, 2, 5, 282]]
    wanted = Table.of_rows("x", ["cast", "depth", "t"], np.array(rows, "f4"), {"depth": {"units": "m"}})
    path = export_netcdf(wanted, tmp_path / "a.nc", "contiguous", by="cast", feature="profile", vertical="depth")
    check_geometry(path)
    with netCDF4.Dataset(path) as file:
        assert (file["depth"].positive, file["depth"].axis) == ("down", "Z")
        assert file["time"][:].tolist() == [18262 * 86400, 18263 * 86400 + 60]
        assert file["t"].coordinates == "time latitude longitude depth cast"
    np.testing.assert_array_equal(rows_of(path, wanted.variables), np.array(rows, "f4"))


def test_what_netcdf_cannot_hold_is_kept_as_json(tmp_path: Path) -> None:
    path = export_netcdf(table(), tmp_path / "a.nc")
    with netCDF4.Dataset(path) as file:
        kept = json.loads(file.cfagg)
        assert (file.title, file.license) == ("Reports", "CC0-1.0")
        assert file["wind_speed"].cfagg_name == "wind/speed"
    assert kept["variables"] == ["id", "t2m", "wind_speed", "depth", "time_1"]
    assert kept["attributes"] == {"t2m": {"levels": {"of": [1, 2]}}, "depth": {"axis": "Z"}}
    assert kept["about"]["recipe"]["input"] == [{"csv": None}]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"form": "ragged"}, OptionError, "form='ragged': choose one of point, indexed, contiguous"),
        ({"by": "id"}, OptionError, "form='point' takes neither by= nor feature="),
        ({"form": "indexed", "feature": "swath"}, OptionError, "feature='swath': choose one of timeSeries"),
        ({"form": "indexed", "feature": "trajectory"}, OptionError, "feature='trajectory' needs by="),
        ({"form": "indexed", "by": "id", "feature": "profile"}, OptionError, "needs vertical="),
        ({"form": "indexed", "by": "ship"}, ConventionError, r"reports\.zarr has no variable 'ship'; it has id, t2m"),
        ({"form": "indexed", "by": "t2m"}, ConventionError, r"rows without a value of 't2m'.*\n  - row \d+: t2m is m"),
        ({"vertical": "t2m"}, ConventionError, "it is unknown whether 't2m' increases upwards or downwards"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, options: dict[str, str], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        export_netcdf(table(), tmp_path / "a.nc", **options)
    assert not list(tmp_path.iterdir())


def test_a_station_that_moves_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(ConventionError, match=r"more than one place\n  - row \d+: another place than .* of id 3\.0"):
        export_netcdf(table(move=True), tmp_path / "a.nc", "indexed", by="id", feature="timeSeries")


def test_times_that_are_no_whole_seconds_are_refused_with_their_row(tmp_path: Path) -> None:
    rows = np.array([[1, 0, 0, 0, 5], [1, 0.5, 0, 0, 5]], "f4")
    with pytest.raises(ConventionError, match=r"not whole seconds\n  - row 1: __date is 1\.0, __time is 0\.5"):
        export_netcdf(Table.of_rows("x", ["t"], rows), tmp_path / "a.nc")


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = export_netcdf(table(5), tmp_path / "a.nc")
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        export_netcdf(table(9), path)
    export_netcdf(table(9), path, overwrite=True)
    with netCDF4.Dataset(path) as file:
        assert len(file.dimensions["obs"]) == 9


def test_a_table_that_fails_half_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export_netcdf(table(5), tmp_path / "a.nc")
    before = path.read_bytes()

    def read(start: int, stop: int) -> np.ndarray:
        if start:
            raise OSError("the disk is gone")
        return table().read(start, stop)

    monkeypatch.setattr("cfagg.observations.exchange.table.BLOCK_ROWS", 100)
    broken = Table("broken", table().variables, 500, read)
    with pytest.raises(TargetError, match="the disk is gone"):
        export_netcdf(broken, path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"no.*a\.nc cannot be written: No such file or directory"):
        export_netcdf(table(5), tmp_path / "no" / "a.nc")
