"""The `cfagg mean` command."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr

from cfagg.accumulation.accumulating import accumulate
from cfagg.cli.main import main


def write(path, **options):
    rng = np.random.default_rng(3)
    data = rng.normal(280, 10, (730, 6, 8))
    data[:, 4, 5] = np.nan
    array = xr.DataArray(
        data,
        dims=("time", "latitude", "longitude"),
        coords={
            "time": xr.date_range("2000-01-01", periods=730, freq="D", **options),
            "latitude": ("latitude", np.arange(75.0, -76, -30), {"units": "degrees_north"}),
            "longitude": ("longitude", np.arange(8) * 45.0, {"units": "degrees_east"}),
        },
        name="tas",
        attrs={"units": "K", "standard_name": "air_temperature"},
    )
    array.to_dataset().to_zarr(path, encoding={"tas": {"chunks": (100, 3, 8)}}, consolidated=False)
    accumulate(path, "tas")
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write(tmp_path_factory.mktemp("mean") / "a.zarr")


def array(store):
    return xr.open_zarr(store, consolidated=False).tas.load()


def run(capsys, *args):
    status = main(["mean", *map(str, args)])
    return status, *capsys.readouterr()


def found(capsys, *args):
    status, out, err = run(capsys, *args, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def numbers(values):
    return np.array(values, dtype="f8")  # "NaN" is a number to NumPy


def test_a_mean_over_all_is_one_number_in_readable_lines(store, capsys):
    status, out, err = run(capsys, store, "tas")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "tas: air temperature, mean over time, latitude and longitude"
    assert f"  store      {store}" in lines
    assert "  time       2000-01-01 to 2001-12-30 (730)" in lines
    assert "  latitude   75°N to 75°S (6)" in lines
    assert "  weights    none: large and small cells count equally" in lines
    assert lines[-1] == f"  result     {float(array(store).mean()):.7g} K"


def test_a_dimension_without_elements_has_a_mean_that_is_missing(tmp_path, capsys):
    xr.DataArray(np.zeros((0, 3)), dims=("run", "x"), name="a").to_dataset().to_zarr(tmp_path / "a", consolidated=False)
    accumulate(tmp_path / "a", "a")
    status, out, _ = run(capsys, tmp_path / "a", "a")
    assert status == 0
    assert "  run     nothing (0)\n" in out
    assert "  result  missing\n" in out
    assert found(capsys, tmp_path / "a", "a")["selected"]["run"]["first"] is None


def test_a_series_is_listed_with_its_ends_only_if_long(store, capsys):
    out = run(capsys, store, "tas", "--over", "lat,lon")[1].splitlines()
    assert "  result     time 730" in out
    assert "  …" in out
    assert out[-1].startswith("  2001-12-30  ")
    assert len(run(capsys, store, "tas", "--over", "lat,lon", "--rows", "all")[1].splitlines()) > 730
    assert len(run(capsys, store, "tas", "--over", "lat,lon", "--rows", "4")[1].splitlines()) == len(out) - 20


def test_a_map_tells_its_extremes_and_what_is_missing(store, capsys):
    out = run(capsys, store, "tas", "--over", "time")[1]
    mean = array(store).mean("time")
    place = mean.where(mean == mean.max(), drop=True)
    assert f"highest  {float(mean.max()):.7g} K at latitude {place.latitude.item():g}," in out
    assert "missing  1 of 48" in out
    assert "result   latitude 6 × longitude 8" in out


def test_selections_are_taken_before(store, capsys):
    got = found(
        capsys, store, "tas", "--over", "time,lat", "--select", "time=2000-03/2000-11", "--select", "latitude=-20:50"
    )
    expected = array(store).sel(time=slice("2000-03", "2000-11"), latitude=slice(50, -20)).mean(("time", "latitude"))
    np.testing.assert_allclose(numbers(got["values"]), expected.values)
    assert got["selected"]["time"] == {
        "first": "2000-03-01T00:00:00", "last": "2000-11-30T00:00:00", "count": 275, "of": 730, "units": "",
    }  # fmt: skip
    assert (got["over"], got["dims"], got["shape"]) == (["time", "latitude"], ["longitude"], [8])
    assert got["units"] == "K"
    assert got["attributes"]["cell_methods"] == "time: latitude: mean"


def test_json_has_missing_values_and_coordinates(store, capsys):
    got = found(capsys, store, "tas", "--over", "time")
    assert (got["form"], got["form_version"], got["missing"]) == ("cfagg mean", 1, 1)
    assert got["values"][4][5] == "NaN"
    assert got["coordinates"]["latitude"]["values"] == [75, 45, 15, -15, -45, -75]
    got = found(capsys, store, "tas", "--over", "lat,lon", "--select", "time=2000-01")
    assert got["coordinates"]["time"]["values"][:2] == ["2000-01-01T00:00:00", "2000-01-02T00:00:00"]
    assert got["coordinates"]["time"]["calendar"] == "proleptic_gregorian"


@pytest.mark.few(3)
@pytest.mark.parametrize("statistic", ["mean", "sum", "min", "max", "std", "var", "count"])
def test_every_statistic_is_that_of_xarray(store, capsys, statistic):
    got = found(capsys, store, "tas", "--over", "time", "--select", "time=[7:500]", "--statistic", statistic)
    expected = getattr(array(store).isel(time=slice(7, 500)), statistic)("time")
    np.testing.assert_allclose(numbers(got["values"]), expected.values, rtol=1e-9)
    assert got["statistic"] == statistic


def test_ddof_is_of_deviations_only(store, capsys):
    got = found(capsys, store, "tas", "--over", "time", "--statistic", "std", "--ddof", "1")
    np.testing.assert_allclose(numbers(got["values"]), array(store).std("time", ddof=1).values)
    status, _, err = run(capsys, store, "tas", "--ddof", "1")
    assert (status, err) == (2, "error: --ddof is only for std and var, not for mean\n")


@pytest.mark.few(1)
@pytest.mark.parametrize("group", ["month", "season", "year"])
def test_groups_are_those_of_xarray(store, capsys, group):
    got = found(capsys, store, "tas", "--group", group, "--select", "time=2000-02/2001-06")
    expected = array(store).sel(time=slice("2000-02", "2001-06")).groupby(f"time.{group}").mean()
    assert got["dims"][0] == group
    assert got["coordinates"][group]["values"] == expected[group].values.tolist()
    np.testing.assert_allclose(numbers(got["values"]), expected.transpose(*got["dims"]).values)
    got = found(capsys, store, "tas", "--group", group, "--over", "lat,lon")
    assert got["dims"] == [group]


def test_one_position_of_an_averaged_dimension_may_be_selected(store, capsys):
    got = found(capsys, store, "tas", "--over", "time,lat", "--select", "time=2000-03-01", "--select", "lat=[0]")
    np.testing.assert_allclose(got["values"], array(store).isel(time=60, latitude=0).values)


def test_longitudes_across_the_edge_of_the_map_grow_on(store, capsys):
    got = found(capsys, store, "tas", "--over", "time", "--select", "lon=-90:50")
    assert got["coordinates"]["longitude"]["values"] == [-90, -45, 0, 45]
    expected = array(store).isel(longitude=[6, 7, 0, 1]).mean("time")
    np.testing.assert_allclose(numbers(got["values"]), expected.values)
    got = found(capsys, store, "tas", "--select", "lon=-90:50")
    np.testing.assert_allclose(got["values"], float(array(store).isel(longitude=[6, 7, 0, 1]).mean()))


def test_longitudes_that_run_westwards_keep_their_labels(tmp_path, capsys):
    longitude = ("longitude", np.arange(315, -1, -45).astype("u2"), {"units": "degrees_east"})
    array = xr.DataArray(np.arange(8.0)[None], {"longitude": longitude}, ("time", "longitude"), name="tas")
    array.to_dataset().to_zarr(tmp_path / "a.zarr")
    accumulate(tmp_path / "a.zarr", "tas")
    for chosen, values in (("[1,3,5]", [270, 180, 90]), ("[5,1]", [90, 270]), ("-90:50", [-90, -45, 0, 45])):
        got = found(capsys, tmp_path / "a.zarr", "tas", "--over", "time", "--select", f"lon={chosen}")
        assert got["coordinates"]["longitude"]["values"] == values
        assert got["values"] == [(7 - value / 45) % 8 for value in values]


def test_weights_of_the_accumulation_count_and_are_named(store, capsys, tmp_path):
    write(tmp_path / "w.zarr")
    accumulate(tmp_path / "w.zarr", "tas", dims=[("latitude", "longitude")], weights="area", overwrite=True)
    got = found(capsys, tmp_path / "w.zarr", "tas", "--over", "lat,lon", "--select", "time=[0:3]")
    weights = np.cos(np.deg2rad(array(store).latitude))
    expected = array(store).isel(time=slice(0, 3)).weighted(weights).mean(("latitude", "longitude"))
    np.testing.assert_allclose(got["values"], expected.values, rtol=1e-3)
    assert got["weights"] == "area"
    assert "  weights    area" in run(capsys, tmp_path / "w.zarr", "tas")[1].splitlines()


def test_explain_prints_what_would_be_read(store, capsys):
    status, out, err = run(capsys, store, "tas", "--over", "time", "--select", "time=[50:500]", "--explain")
    assert (status, err) == (0, "")
    assert out.startswith("mean of tas\n")
    assert "acc_time" in out
    got = found(capsys, store, "tas", "--over", "time", "--explain")
    assert (got["form"], got["over"]) == ("cfagg mean --explain", ["time"])
    assert got["plan"]["statistic"] == "mean"


def test_the_result_is_written_as_netcdf(store, capsys, tmp_path):
    target = tmp_path / "out.nc"
    assert run(capsys, store, "tas", "--over", "time", "-o", target)[0] == 0
    with xr.open_dataset(target) as ds:
        np.testing.assert_allclose(ds.tas.values, array(store).mean("time").values)
        assert ds.tas.attrs["cell_methods"] == "time: mean"
        assert ds.latitude.attrs["units"] == "degrees_north"
    status, out, err = run(capsys, store, "tas", "--over", "time", "-o", target)
    assert (status, out) == (2, "")
    assert "--overwrite" in err
    assert run(capsys, store, "tas", "--over", "time", "-o", target, "--overwrite")[0] == 0
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [["--over", "time"], ["--over", "lat,lon"], ["--group", "month"], ["--group", "season", "--over", "lat,lon"]],
)
def test_results_are_drawn(store, capsys, tmp_path, options):
    target = tmp_path / "p.png"
    status, out, err = run(capsys, store, "tas", *options, "--plot", target)
    assert (status, err) == (0, f"note: the picture is {target}\n")
    assert out
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plot", "p.bmp"], "must end in .png"),
        (["--plot", "p.png"], "it is a single value"),
        (["--plot", "p.png", "--group", "dayofyear"], "366 panels"),
        (["-o", "out.txt"], "must end in .nc"),
        (["-o", "nowhere/out.nc"], "no directory"),
        (["--explain", "--plot", "p.png"], "--explain"),
        (["--over", "height"], "no dimension 'height'; it has time, latitude, longitude"),
        (["--select", "height=3"], "no dimension 'height'"),
        (["--select", "lat=30"], "the nearest are 15 and 45"),
        (["--select", "time=1999"], "time runs from 2000-01-01"),
        (["--select", "time=[730]"], "no position 730"),
        (["--select", "lat=80:90"], "selects nothing"),
        (["--select", "lat=[0]", "--select", "latitude=[1]"], "is selected twice"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(store, capsys, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, store, "tas", *options)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options", [["--select", "lat"], ["--over", "lat,,"], ["--rows", "0"], ["--group", "week"], ["--statistic", "mode"]]
)
def test_wrong_usage_names_the_option(store, capsys, options):
    status, out, err = run(capsys, store, "tas", *options)
    assert (status, out) == (2, "")
    assert f"argument {options[0]}" in err


def test_an_array_without_accumulation_names_the_command(store, capsys):
    status, out, err = run(capsys, store, "latitude")
    assert (status, out) == (2, "")
    assert "cfagg accumulate" in err


def test_changed_data_are_refused_with_the_command_that_helps(capsys, tmp_path):
    path = write(tmp_path / "a.zarr")
    zarr.open_array(path, path="tas", mode="r+")[3, 3, 3] = 5
    status, out, err = run(capsys, path, "tas", "--over", "time", "--plot", tmp_path / "p.png")
    assert (status, out) == (2, "")
    assert "--refresh" in err
    assert "chunk" in err
    assert not (tmp_path / "p.png").exists()


def test_other_calendars_are_selected_grouped_and_drawn(capsys, tmp_path):
    path = write(tmp_path / "a.zarr", calendar="360_day", use_cftime=True)
    got = found(capsys, path, "tas", "--group", "month", "--over", "lat,lon", "--select", "time=2000-02-30/2001")
    assert len(got["values"]) == 12
    assert got["selected"]["time"]["first"] == "2000-02-30T00:00:00"
    assert run(capsys, path, "tas", "--over", "lat,lon", "--plot", tmp_path / "p.svg")[0] == 0
    got = found(capsys, path, "tas", "--over", "lat,lon", "--select", "time=2000-02")
    assert got["coordinates"]["time"]["calendar"] == "360_day"


def test_grouping_needs_dates(capsys, tmp_path):
    xr.DataArray(np.zeros((4, 3)), dims=("run", "x"), name="a").to_dataset().to_zarr(tmp_path / "a", consolidated=False)
    accumulate(tmp_path / "a", "a")
    status, _, err = run(capsys, tmp_path / "a", "a", "--group", "month")
    assert (status, err) == (2, "error: --group needs one dimension with dates; 'a' has none among run, x\n")
    assert "  run     positions 0 to 3 (4)\n" in run(capsys, tmp_path / "a", "a")[1]


def test_dates_in_an_auxiliary_coordinate_label_select_and_group(tmp_path, capsys):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    tas = root.create_array("tas", data=np.arange(24.0).reshape(12, 2), chunks=(6, 2), dimension_names=("step", "x"))
    tas.attrs["coordinates"] = "valid_time"
    dates = root.create_array("valid_time", data=np.arange(12.0) * 31, chunks=(12,), dimension_names=("step",))
    dates.attrs["units"] = "days since 2000-01-01"
    accumulate(tmp_path / "a.zarr", "tas")
    status, out, _ = run(capsys, tmp_path / "a.zarr", "tas", "--over", "x", "--select", "time=2000-02/2000-03")
    assert status == 0
    assert [line.split() for line in out.splitlines()[-2:]] == [["2000-02-01", "2.5"], ["2000-03-03", "4.5"]]
    grouped = found(capsys, tmp_path / "a.zarr", "tas", "--group", "year")
    assert grouped["coordinates"]["year"]["values"] == [2000]
    assert numbers(grouped["values"]).tolist() == [[11, 12]]
