"""The `cfagg obs` commands."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from pyarrow import parquet

from cfagg.cli.main import main
from cfagg.observations.opening import open_observations
from tests.observations.small_stores import hourly

UNITS = {"t": {"units": "K", "standard_name": "air_temperature"}, "u": {"units": "m s-1"}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path, _ = hourly(tmp_path_factory.mktemp("obs") / "a.zarr", variables_metadata=UNITS, description="Made\x1b up")
    return path


@pytest.fixture
def store(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def run(capsys, *args):
    status = main(["obs", *map(str, args)])
    return status, *capsys.readouterr()


def found(capsys, *args):
    status, out, err = run(capsys, *args, "--json")
    assert err == ""
    return status, json.loads(out)


# ---- show


def test_show_prints_variables_units_statistics_dates_density_and_index(whole, capsys):
    status, out, err = run(capsys, "show", whole)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    rows = zarr.open_group(whole, mode="r")["data"][:]
    assert lines[0] == str(whole)
    assert "  rows         720" in lines
    assert any(line.startswith("  dates        2020-01-01T") and "distinct" in line for line in lines)
    hours = np.bincount((rows[:, 0].astype("i8") * 24 + rows[:, 1].astype("i8") // 3600) - 18262 * 24)
    assert f"  density      241 rows a day on average, at most {hours.max()} in any 1 hour" in lines
    assert "  index        bisect (used)" in lines
    assert "  description  Made\\x1b up" in lines
    table = next(line for line in lines if line.startswith("  t "))
    assert table.split() == [
        "t",
        "K",
        *(f"{f(rows[:, 4].astype('f8')):.6g}" for f in (np.mean, np.std, np.min, np.max)),
    ]


def test_show_as_json_has_all_of_it(whole, capsys):
    status, got = found(capsys, "show", whole)
    assert status == 0
    assert (got["form"], got["form_version"], got["rows"], got["zarr_format"]) == ("cfagg obs show", 1, 720, 2)
    assert [v["name"] for v in got["variables"]] == ["t", "u", "v"]
    assert got["variables"][0]["units"] == "K"
    assert got["variables"][0]["long_name"] == "air temperature"
    assert set(got["variables"][0]["statistics"]) >= {"mean", "minimum", "maximum", "stdev"}
    assert got["indexes"] == ["bisect"]
    assert got["first"] < got["last"]
    assert got["stored_bytes"] == sum(p.stat().st_size for p in (whole / "data").glob("[0-9]*"))


def test_show_lists_some_variables_or_all(whole, capsys):
    assert "  v " not in run(capsys, "show", whole, "--rows", "1")[1]
    assert "…" in run(capsys, "show", whole, "--rows", "2")[1]
    assert "…" not in run(capsys, "show", whole, "--rows", "all")[1]


def test_show_tells_what_is_wrong_with_an_index_and_shows_the_rest(store, capsys):
    shutil.rmtree(store / "date_index_ranges")
    status, out, err = run(capsys, "show", store)
    assert status == 0
    assert "none; cfagg obs index builds one" in out
    assert "2020-01-01T" in out
    assert err == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_show_draws_coverage(whole, tmp_path, capsys, ending):
    target = tmp_path / f"c.{ending}"
    status, out, err = run(capsys, "show", whole, "--plot", target)
    assert (status, out, err) == (0, "", f"note: the picture is {target}\n")
    assert target.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


def test_show_replaces_no_file_unasked(whole, tmp_path, capsys):
    target = tmp_path / "c.png"
    target.write_text("mine")
    status, _, err = run(capsys, "show", whole, "--plot", target)
    assert status == 2
    assert "--overwrite" in err
    assert target.read_text() == "mine"


# ---- window


def test_window_prints_the_rows_around_a_date(whole, capsys):
    status, out, err = run(capsys, "window", whole, "2020-01-02T06", "--window", "(-1,0]", "--rows", "all")
    assert (status, err) == (0, "")
    sample = open_observations(whole, "2020-01-02T06", "2020-01-02T06", "(-1,0]", "1h")[0]
    lines = out.splitlines()
    assert "  window  (-1h,0s]: 2020-01-02T05:00:01 to 2020-01-02T06:00:00" in lines
    assert f"  rows    {len(sample)}" in lines
    assert lines[5].split() == ["row", "date", "latitude", "longitude", "t", "(K)", "u", "(m", "s-1)", "v"]
    assert [line.split()[1] for line in lines[6:]] == [str(d) for d in sample.dates]
    assert [float(line.split()[4]) for line in lines[6:]] == [float(f"{v:.6g}") for v in np.asarray(sample)[:, 0]]


def test_window_as_json_has_the_values_selected(whole, capsys):
    options = ("--select", "v,t", "--area", "90,0,0,180", "--thin", "2", "--window", "[-6,6]")
    status, got = found(capsys, "window", whole, "2020-01-02", *options)
    date = "2020-01-02T00:00:00"
    choice = {"select": ["v", "t"], "area": (90, 0, 0, 180), "thin": 2}
    sample = open_observations(whole, date, date, "[-6,6]", "1h", **choice)[0]
    assert status == 0
    assert got["columns"] == ["v", "t"]
    assert got["rows"] == len(sample) > 3
    np.testing.assert_allclose(got["values"]["v"], np.asarray(sample)[:, 0])
    assert got["timedeltas"] == sample.timedeltas.tolist()
    np.testing.assert_array_equal(np.array(got["latitudes"], "f4"), sample.latitudes)


def test_a_window_without_rows_is_an_answer(whole, capsys):
    status, out, err = run(capsys, "window", whole, "1999-01-01")
    assert (status, err) == (0, "")
    assert "  rows    0" in out.splitlines()


def test_window_exports_tables_and_netcdf(whole, tmp_path, capsys):
    sample = open_observations(whole, "2020-01-02", "2020-01-02T00:00:00", "(-3,+3]", "1h")[0]
    for ending in ("csv", "parquet", "nc"):
        assert run(capsys, "window", whole, "2020-01-02", "-o", tmp_path / f"s.{ending}") == (0, "", "")
    frame = pd.read_csv(tmp_path / "s.csv", parse_dates=["date"])
    np.testing.assert_array_equal(frame["t"].to_numpy("f4"), np.asarray(sample)[:, 0])
    np.testing.assert_array_equal(frame["date"].to_numpy("M8[s]"), sample.dates)
    table = parquet.read_table(tmp_path / "s.parquet")
    np.testing.assert_array_equal(table["u"].to_numpy(), np.asarray(sample)[:, 1])
    with xr.open_dataset(tmp_path / "s.nc") as points:
        assert points.attrs["featureType"] == "point"
        assert points["t"].attrs["units"] == "K"
        np.testing.assert_array_equal(points["v"].values, np.asarray(sample)[:, 2])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["soon"], "soon"),
        (["2020-01-01", "--window", "(3,1]"], "reversed"),
        (["2020-01-01", "--area", "1,2,3"], "NORTH"),
        (["2020-01-01", "--select", "x"], "x"),
        (["2020-01-01", "-o", "s.xls"], ".parquet"),
        (["2020-01-01", "--thin", "few"], "few"),
        (["2020-01-01", "--thin", "0"], "--thin 0 (every): the amount must be a whole number"),
        (["2020-01-01", "--index", "trie"], "trie"),
    ],
)
def test_what_cannot_be_selected_is_said_in_a_sentence(whole, capsys, arguments, word):
    status, out, err = run(capsys, "window", whole, *arguments)
    assert (status, out) == (2, "")
    assert word in err
    assert "Traceback" not in err


# ---- check


def test_check_of_a_good_store_ends_with_status_0(whole, capsys):
    status, out, err = run(capsys, "check", whole, "--full")
    assert (status, out, err) == (0, f"{whole}: nothing wrong in all 720 rows\n", "")


def test_check_names_rows_and_ends_with_status_1(store, capsys):
    zarr.open_group(store, mode="r+")["data"][345, 3] = 360
    status, out, _ = run(capsys, "check", store)
    assert status == 1
    assert any(line.startswith("OBS016 error: data:") and "(1 row: 345)" in line for line in out.splitlines())
    status, got = found(capsys, "check", store)
    assert (status, got["ok"], got["form"]) == (1, False, "cfagg obs check")
    assert [f["rows"] for f in got["findings"] if f["code"] == "OBS016"] == [[345]]
    assert run(capsys, "check", store, "--quiet")[:2] == (1, "")


def test_check_of_nothing_ends_with_status_2(tmp_path, capsys):
    status, out, err = run(capsys, "check", tmp_path / "b.zarr")
    assert (status, out) == (2, "")
    assert err.startswith("error: ")


# ---- index


def test_index_writes_pages_that_are_used(store, capsys):
    status, out, err = run(capsys, "index", store)
    assert (status, err) == (0, "")
    assert out.startswith(f"{store}: index of ")
    assert "pages (used)" in run(capsys, "show", store)[1]
    assert run(capsys, "check", store)[0] == 0
    status, got = found(capsys, "index", store, "--from", "data")
    assert (got["kind"], got["rows"]) == ("pages", 720)


def test_an_index_of_rows_that_changed_is_a_warning(store, capsys):
    run(capsys, "index", store)
    zarr.open_group(store, mode="r+")["data"][:50, 4] = 3
    status, out, _ = run(capsys, "check", store)
    assert "OBS023 warning: index pages" in out
    assert "OBS031" in out
    assert status == 1


# ---- create


RECIPE = """\
dates: {start: 2020-01-01, end: 2020-01-02, frequency: 1d}
input: {csv: {path: reports.csv}}
output: {layout: tabular}
"""


@pytest.fixture
def recipe(tmp_path):
    rows = [f"2020-01-{1 + h // 24:02}T{h % 24:02}:00:00,{h}.5,{-h},{280 + h}" for h in range(48)]
    (tmp_path / "reports.csv").write_text("\n".join(["date,latitude,longitude,t", *rows]))
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path / "recipe.yaml"


def test_create_builds_a_store(recipe, tmp_path, capsys):
    status, out, err = run(capsys, "create", recipe, tmp_path / "b.zarr")
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("note: the recipe does not choose the rows for statistics")
    assert out.startswith(f"{tmp_path / 'b.zarr'}: 48 rows of 1 variable, 2020-01-01T00:00:00")
    assert out.count("\n") == 1
    assert run(capsys, "check", tmp_path / "b.zarr")[0] == 0
    status, _, err = run(capsys, "create", recipe, tmp_path / "b.zarr")
    assert status == 2
    assert "overwrite" in err
    status, got = found(capsys, "create", recipe, tmp_path / "b.zarr", "--overwrite", "--memory", "64MiB")
    assert (status, got["rows"], got["form"]) == (0, 48, "cfagg obs create")


def test_create_as_a_dry_run_writes_nothing(recipe, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    status, out, _ = run(capsys, "create", recipe, tmp_path / "b.zarr", "--dry-run")
    assert status == 0
    assert "to read" in out
    assert sorted(tmp_path.iterdir()) == before


def test_create_tells_every_problem_of_a_recipe(recipe, tmp_path, capsys):
    recipe.write_text(RECIPE.replace("csv: {path", "cvs: {path").replace("2020-01-01,", "soon,"))
    status, out, err = run(capsys, "create", recipe, tmp_path / "b.zarr")
    assert (status, out) == (2, "")
    assert "cvs" in err
    assert "soon" in err


# ---- all of them


@pytest.mark.parametrize(
    "arguments", [[], ["unheard-of"], ["show"], ["window", "a.zarr"], ["show", "a", "--rows", "0"]]
)
def test_wrong_usage_ends_with_status_2(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert "usage: cfagg obs" in err


@pytest.mark.parametrize("command", ["create", "show", "window", "check", "index"])
def test_every_command_explains_itself(capsys, command):
    status, out, _ = run(capsys, command, "--help")
    assert status == 0
    assert f"cfagg obs {command} " in out.split("examples:")[1]


def test_options_of_urls_are_pairs(whole, capsys):
    assert run(capsys, "show", whole, "--option", "region")[0] == 2
    status, _, err = run(capsys, "show", "http://127.0.0.1:9/a.zarr", "--option", "region=x")
    assert (status, "region" in err) == (2, True)
    assert "Traceback" not in err
