"""What users hold: statistics over any ranges, against xarray on the same store."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import cftime
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.accumulation.accumulated import Accumulated, open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.labels import Labels
from cfagg.errors import NotAccumulatedError, OptionError, SelectionError, SourceError, StaleError
from tests.accumulation.comparing import chunks_read
from tests.accumulation.fields import DIMS, assert_same, dataset, stored
from tests.accumulation.reference import write_source
from tests.effort import examples
from tests.strategies import slices

STATISTICS = ("sum", "mean", "count", "min", "max", "std", "var")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("store"), dataset())


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """With statistics of every combination."""
    return stored(tmp_path_factory.mktemp("store"), dataset(), statistics=("min", "max", "std"))


@pytest.fixture(scope="module", params=["noleap", "360_day", "julian"])
def other(request, tmp_path_factory):
    """In another calendar."""
    return stored(tmp_path_factory.mktemp("store"), dataset(request.param))


SELECTIONS = [
    ({}, {}),
    ({"time": slice(3, 477)}, {}),
    ({"time": slice(460, 5, -3), "lat": [4, 0, 0]}, {}),
    ({"time": np.arange(500) % 7 == 2}, {"lat": slice(-40, 40)}),
    ({}, {"time": slice("2000-05", "2001-03"), "lon": 90.0}),
    ({"lat": -2}, {"time": "2001"}),
    ({"lon": slice(7, 1, -2)}, {"lat": [-30.0, 30.0], "time": slice("2000-12-24", None)}),
]


@pytest.mark.few(4)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("dim", [None, ..., "time", ("lat", "lon"), ["lon", "time"], "lat", ()])
def test_statistics_are_those_of_xarray(rich, statistic, dim):
    acc, array = rich
    for isel, sel in SELECTIONS:
        one = {d for d, v in {**isel, **sel}.items() if isinstance(v, int | float)}
        if dim is not None and dim is not ... and one & set([dim] if isinstance(dim, str) else dim):
            continue
        found = getattr(acc, statistic)(dim, isel, sel)
        assert_same(found, getattr(array.isel(isel).sel(sel), statistic)(dim))
        assert found.dtype == (np.int64 if statistic == "count" else np.float64)


KEYS = ["time.month", "time.season", "time.year", "time.day", "phase", "region"]


def assert_same_groups(acc, array, statistic, key, dim, sel):
    found = getattr(acc.groupby(key), statistic)(dim, sel=sel)
    along = "lat" if key == "region" else "time"
    whole = dim is None or dim is ... or along in dim
    part = array.sel(sel).groupby(key) if whole else array.sel(sel)
    assert_same(found, getattr(part, statistic)(dim))


@pytest.mark.few(8)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("key", ["time.season", "region"])
@pytest.mark.parametrize("dim", [None, ..., ["lat", "time"], ["lon"]])
def test_groups_are_those_of_xarray(rich, statistic, key, dim):
    assert_same_groups(*rich, statistic, key, dim, {"time": slice("2000-05", "2001-03"), "lat": slice(-40, 20)})


@pytest.mark.few(3)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("statistic", ["mean", "max"])
def test_any_coordinate_groups(plain, key, statistic):
    assert_same_groups(*plain, statistic, key, None, {})


@pytest.mark.few(2)
@pytest.mark.parametrize("key", KEYS[:4])
def test_any_calendar_groups(other, key):
    assert_same_groups(*other, "mean", key, None, {"time": slice("2000-02", "2002-02-28")})
    assert_same_groups(*other, "mean", key, ["time", "lon"], {"time": "2001"})


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_selection_is_that_of_xarray(plain, data):
    acc, array = plain
    isel = {}
    for d, n in zip(DIMS, array.shape, strict=True):
        kind = data.draw(st.integers(0, 3))
        if kind == 0:
            isel[d] = data.draw(slices(n))
        elif kind == 1:
            isel[d] = data.draw(st.integers(-n, n - 1))
        elif kind == 2:
            isel[d] = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=6))
    left = [d for d in DIMS if not isinstance(isel.get(d), int)]
    dim = data.draw(st.lists(st.sampled_from(left), unique=True)) if left else []
    part = array.isel(isel)
    statistic = data.draw(st.sampled_from(STATISTICS[: 7 if part.size else 3]))
    assert_same(getattr(acc, statistic)(dim, isel), getattr(part, statistic)(dim))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_nothing_selected_gives_nan_and_0_for_sums_and_counts(plain, statistic):
    acc, _ = plain
    found = getattr(acc, statistic)("time", {"time": slice(5, 5)})
    assert found.dims == ("lat", "lon")
    wanted = 0.0 if statistic in ("sum", "count") else np.nan
    np.testing.assert_array_equal(found, np.full((6, 8), wanted))


def test_a_sum_over_nothing_is_0_as_its_documentation_says(tmp_path):
    fields = dataset(steps=20)
    fields["tas"][:, 2, 3] = np.nan
    acc, _ = stored(tmp_path, fields)
    assert acc.sum("time")[2, 3] == 0
    assert acc.count("time")[2, 3] == 0
    assert all(np.isnan(getattr(acc, s)("time")[2, 3]) for s in STATISTICS if s not in ("sum", "count"))


def test_of_no_values_there_is_no_variance_whatever_the_divisor(plain):
    assert np.isnan(plain[0].var("time", {"time": slice(0)}, ddof=-1)).all()


@pytest.mark.parametrize("ddof", [0, 1, 3])
def test_degrees_of_freedom(plain, ddof):
    acc, array = plain
    part = {"time": slice(0, 3)}
    for statistic in ("std", "var"):
        found = getattr(acc, statistic)("time", part, ddof=ddof)
        assert_same(found, getattr(array.isel(part), statistic)("time", ddof=ddof))


PACKINGS = [
    {"dtype": "i2", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768},
    {"dtype": "i2", "scale_factor": -0.01, "add_offset": 273.15, "_FillValue": -32768},
    {"dtype": "u1", "scale_factor": 0.4, "add_offset": 240.0, "_FillValue": 255},
    {"dtype": "i4", "_FillValue": -1},
    {"dtype": "f4", "_FillValue": 9.96921e36},
]


@pytest.mark.few(1)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("encoding", PACKINGS)
def test_packed_values_are_decoded(tmp_path, encoding, zarr_format):
    acc, array = stored(tmp_path, dataset(steps=90), encoding=encoding, zarr_format=zarr_format)
    assert array.isnull().any()
    for statistic in STATISTICS:
        for dim in (None, "time", ("lat", "lon")):
            found = getattr(acc, statistic)(dim, {"time": slice(7, 83)})
            # xarray decodes some types in float32.
            assert_same(found, getattr(array.isel(time=slice(7, 83)), statistic)(dim), rtol=2e-6, atol=1e-3)


def test_unsigned_values_in_a_signed_type(tmp_path):
    values = np.arange(40, dtype="u1").reshape(10, 2, 2) * 6
    raw = xr.Dataset({"tas": (DIMS, values.view("i1"), {"_Unsigned": "true", "scale_factor": 0.5})})
    raw.to_zarr(tmp_path, consolidated=False, encoding={"tas": {"chunks": (3, 2, 2)}})
    accumulate(tmp_path, "tas", statistics=("min", "max", "std"))
    acc = open_accumulated(tmp_path, "tas")
    array = xr.open_zarr(tmp_path, chunks=None, consolidated=False)["tas"].astype("f8")
    assert array.max() == 117
    for statistic in STATISTICS:
        for dim in (None, "time"):
            found = getattr(acc, statistic)(dim, {"time": slice(1, 8)})
            assert_same(found, getattr(array.isel(time=slice(1, 8)), statistic)(dim))


@pytest.mark.few(1)
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weights", ["area", "array"])
def test_weighted_statistics_are_those_of_xarray(tmp_path, weights, missing):
    fields = dataset(steps=90, missing=missing)
    fields["tas"][:, 1, 1] = np.nan if missing else 280
    given_ = "area" if weights == "area" else fields["area"].drop_attrs().reset_coords(drop=True)
    acc, array = stored(tmp_path, fields, weights=given_, statistics=("min", "max", "std"))
    w = np.cos(np.deg2rad(fields["lat"])) if weights == "area" else given_
    if weights == "area":  # areas between the bounds that the latitudes imply
        w = xr.DataArray(acc.group.weights.array, dims=("lat",) if acc.group.weights.axes == (1,) else ("lat", "lon"))
    for dim in (None, "time", ("lat", "lon"), "lon"):
        for isel in ({}, {"time": slice(7, 83), "lat": slice(1, 5)}, {"lat": 1, "lon": [1, 1, 2]}):
            if dim not in (None, "time") and "lon" in isel:
                continue
            part = array.isel(isel)
            of = part.weighted(w.isel({d: i for d, i in isel.items() if d in w.dims}).broadcast_like(part, exclude=()))
            for statistic in ("sum", "mean", "std", "var"):
                found = getattr(acc, statistic)(dim, isel)
                wanted = getattr(of, statistic)(dim)
                scale = float(acc.group.weights.array.max())
                atol = 1e-9 * scale * part.size * 300 if statistic == "sum" else 1e-6
                np.testing.assert_allclose(found.values, wanted.values, rtol=1e-8, atol=atol)
            for statistic in ("count", "min", "max"):
                assert_same(getattr(acc, statistic)(dim, isel), getattr(part, statistic)(dim))


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("ddof", "; expected isel, sel, method, tolerance, keep_attrs"),
        ("grouping", "; expected isel"),
        ("picked", "; expected isel"),
        ("keep_attr", r"; did you mean keep_attrs\?"),
        ("time", r"; to select along it, give {'time': \.\.\.} as isel or sel"),
    ],
)
def test_a_statistic_takes_no_option_that_it_would_not_look_at(plain, option, meant):
    acc, _ = plain
    asked = {option: 1}
    of_mean, of_std, of_anomaly = (f"^{name} has no option '{option}'{meant}" for name in ("mean", "std", "anomaly"))
    for call in (acc.mean, acc.groupby("time.month").mean, acc.climatology):
        with pytest.raises(OptionError, match=of_mean):
            call(**asked)
    with pytest.raises(OptionError, match=of_anomaly):
        acc.anomaly(**asked)
    if option != "ddof":
        with pytest.raises(OptionError, match=of_std):
            acc.std(**asked)


def test_weighted_variances_have_no_degrees_of_freedom(tmp_path):
    acc, _ = stored(tmp_path, dataset(steps=20), weights="area")
    with pytest.raises(SelectionError, match="ddof"):
        acc.var(ddof=1)


def test_attributes_units_and_cell_methods(plain):
    acc, _ = plain
    assert acc.mean("time").attrs == {
        "units": "K",
        "standard_name": "air_temperature",
        "cell_methods": "area: mean time: mean",
    }
    assert acc.var(("lon", "lat")).attrs["units"] == "K2"
    assert acc.max(("lon", "lat")).attrs["cell_methods"] == "area: mean lat: lon: maximum"
    assert acc.count("time").attrs["units"] == "1"
    assert acc.mean("time", keep_attrs=False).attrs == {}


def test_labels_may_match_inexactly(plain):
    acc, array = plain
    sel = {"lat": [-33.0, 48.0], "lon": 91.0}
    assert_same(acc.mean("time", sel=sel, method="nearest"), array.sel(sel, method="nearest").mean("time"))
    with pytest.raises(SelectionError, match="no such label"):
        acc.mean("time", sel=sel, method="nearest", tolerance=0.5)


def test_dates_of_a_calendar_select(other):
    acc, array = other
    first = array["time"].values[7]
    assert isinstance(first, cftime.datetime)
    assert_same(acc.mean("lat", sel={"time": first}), array.sel(time=first).mean("lat"))
    both = slice(first, type(first)(2001, 2, 1))
    assert_same(acc.max(sel={"time": both}), array.sel(time=both).max())


ERRORS = [
    ({"dim": "depth"}, "no dimension 'depth'; it has 'time', 'lat', 'lon'"),
    ({"isel": {"depth": 0}}, "no dimension 'depth' to select from"),
    ({"isel": {"time": 500}}, "position 500 is outside of a dimension of length 500"),
    ({"isel": {"time": [3, -501]}}, "position -501 is outside"),
    ({"isel": {"time": 2**64 - 1}}, "position 18446744073709551615 is outside"),
    ({"isel": {"time": np.array([3, 2**64 - 1], "u8")}}, "position 18446744073709551615 is outside"),
    ({"sel": {"time": slice("2000", "2001")}, "method": "nearest"}, "cannot use ``method`` argument"),
    ({"isel": {"time": 1.5}}, "expected a whole number"),
    ({"isel": {"time": [[1, 2]]}}, "expected a whole number"),
    ({"isel": {"time": [[1], [2, 3]]}}, "expected a whole number"),
    ({"sel": {"lat": 10**400}}, "no such label 1000"),
    ({"isel": {"time": slice(0.5, 2)}}, "is not a slice of whole numbers"),
    ({"isel": {"time": np.ones(3, bool)}}, "a mask of length 3 for a dimension of length 500"),
    ({"sel": {"time": "1890"}}, "no such label '1890'.*labels run from 1999-11-15"),
    ({"sel": {"lat": 11.0}}, "no such label 11.0"),
    ({"sel": {"lat": "north"}}, "no such label 'north'"),
    ({"isel": {"lat": 0}, "sel": {"lat": 10.0}}, "selected by index and by label"),
    ({"isel": {"lat": 0}, "dim": "lat"}, "dimension 'lat' of 'tas' was dropped"),
    ({"sel": {"lat": xr.DataArray([10.0, 30.0], dims="points")}}, "pass a plain list"),
]


@pytest.mark.parametrize(("asked", "message"), ERRORS)
def test_what_is_not_there_is_refused(plain, asked, message):
    with pytest.raises(SelectionError, match=message):
        plain[0].mean(**asked)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("depth.month", "no coordinate 'depth' to group by; it has .*'height'"),
        (
            xr.DataArray(np.array(["a", 1] * 250, object), dims="time", name="mixed"),
            "the values of 'mixed' have no order",
        ),
        ("time.fortnight", "no component 'fortnight'"),
        ("time._obj", "no component '_obj'"),
        ("lat.month", "has no dates"),
        ("area", "one value for each position of one of the dimensions"),
        (xr.DataArray(np.zeros(7), dims="time"), "one value for each position"),
        (xr.DataArray(np.zeros(500), dims="time", name="lon"), "rename"),
        (
            xr.DataArray(np.zeros(6), {"lat": np.linspace(50, -50, 6)}, "lat", "band"),
            "'band' have other labels along 'lat'",
        ),
    ],
)
def test_groups_that_cannot_be_are_refused(plain, key, message):
    with pytest.raises(SelectionError, match=message):
        plain[0].groupby(key)


def test_a_grouped_dimension_cannot_be_selected_away(plain):
    with pytest.raises(SelectionError, match="was dropped"):
        plain[0].groupby("time.month").mean(isel={"time": 3})


def test_groups_may_come_from_an_array(plain):
    acc, array = plain
    key = xr.DataArray(np.where(np.arange(500) < 9, np.nan, np.arange(500) // 100), dims="time", name="batch")
    labelled = key.assign_coords(time=array["time"])
    for each in (key, labelled):
        assert_same(acc.groupby(each).mean(), array.groupby(labelled).mean())


def test_no_group_is_left_where_nothing_is_selected(plain):
    found = plain[0].groupby("time.month").mean(isel={"time": slice(0)})
    assert (found.dims, found.shape) == (("month", "lat", "lon"), (0, 6, 8))


def test_explain_reads_nothing(plain, monkeypatch):
    acc, _ = plain
    for module in ("sums.add_up", "spread.in_order", "nodes.read_stored"):
        monkeypatch.setattr(f"cfagg.accumulation.{module}", None)
    read = chunks_read(monkeypatch)
    for statistic in STATISTICS:
        found = getattr(acc, statistic)("time", {"time": slice(3, 400)}, explain=True)
        assert found.statistic == statistic
        assert found.bytes <= found.as_dict()["without_accumulation"]["bytes"]
    assert not read
    assert "acc_time" in str(acc.groupby("time.year").mean(explain=True))


def writing(store):
    zarr.open_array(store / "tas", mode="r+")[3, 2, 1] = 999.0


def appending(store):
    group = zarr.open_group(store, mode="r+")
    group["tas"].resize((60, 6, 8))


def removing(store):
    shutil.rmtree(store / "tas_accumulation_group")


def replacing(store):
    accumulate(store, "tas", overwrite=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("change", [writing, appending, removing, replacing])
@pytest.mark.parametrize("statistic", ["mean", "max", "std", "count"])
def test_a_change_after_opening_is_noticed(tmp_path, change, statistic):
    acc, _ = stored(tmp_path, dataset(steps=50), chunks=(10, 6, 8))
    assert getattr(acc, statistic)().ndim == 0
    change(tmp_path)
    with pytest.raises(StaleError, match="tas"):
        getattr(acc, statistic)()


def test_stale_accumulations_open_and_answer_only_for_what_was_not_written(tmp_path):
    _, raw = stored(tmp_path, dataset(steps=50), chunks=(10, 6, 8))
    writing(tmp_path)
    acc = open_accumulated(tmp_path, "tas")
    with pytest.raises(StaleError, match=r"chunk \(0, 0, 0\): written at"):
        acc.mean(isel={"time": slice(9, 40)})
    assert_same(acc.mean("time", isel={"time": slice(10, 40)}), raw.isel(time=slice(10, 40)).mean("time"))


def test_chunks_that_vanish_are_called_stale_not_damaged(tmp_path):
    acc, _ = stored(tmp_path, dataset(steps=50), chunks=(10, 6, 8))
    shutil.rmtree(tmp_path / "tas")
    with pytest.raises(StaleError, match="no Zarr array 'tas'"):
        acc.mean(isel={"time": slice(3, 37)})


def test_arrays_without_accumulation(tmp_path):
    dataset(steps=5).to_zarr(tmp_path, consolidated=False)
    with pytest.raises(NotAccumulatedError, match="cfagg accumulate"):
        open_accumulated(tmp_path, "tas")
    with pytest.raises(SourceError, match="no Zarr array 'pr'"):
        open_accumulated(tmp_path, "pr")


def test_a_coordinate_that_cannot_be_read_is_named(tmp_path):
    stored(tmp_path, dataset(steps=5))
    (tmp_path / "lat" / "zarr.json").write_text("{")
    with pytest.raises(StaleError, match=r"(?s)coordinate 'lat': .*lat/zarr\.json is not JSON"):
        open_accumulated(tmp_path, "tas")


def test_arrays_in_groups(tmp_path):
    dataset(steps=50).to_zarr(tmp_path, group="model/day", consolidated=False)
    accumulate(tmp_path, "model/day/tas")
    array = xr.open_zarr(tmp_path, group="model/day", chunks=None, consolidated=False)["tas"].astype("f8")
    assert_same(open_accumulated(tmp_path, "model/day/tas").mean("time"), array.mean("time"))


def test_variable_chunks(tmp_path):
    raw = np.random.default_rng(2).normal(size=(30, 4))
    write_source(tmp_path, "tas", raw, ("time", "x"), ((7, 20, 3), (4,)))
    accumulate(tmp_path, "tas")
    np.testing.assert_allclose(
        open_accumulated(tmp_path, "tas").mean("time", {"time": slice(2, 28)}), raw[2:28].mean(0)
    )


def test_it_is_a_context_and_pickles(plain):
    acc, array = plain
    with pickle.loads(pickle.dumps(acc)) as copy:
        assert_same(copy.groupby("time.month").mean(), array.groupby("time.month").mean())
    by = pickle.loads(pickle.dumps(acc.groupby("time.month")))
    assert_same(by.mean(), array.groupby("time.month").mean())


@pytest.mark.full
def test_many_threads_ask_at_once(plain):
    acc, array = plain
    asked = [{"time": slice(i, 500 - 2 * i)} for i in range(24)]
    with ThreadPoolExecutor(6) as pool:
        for isel, found in zip(asked, pool.map(lambda isel: acc.std("time", isel), asked), strict=True):
            assert_same(found, array.isel(isel).std("time"))


def test_it_shows_what_it_is(plain):
    acc, _ = plain
    assert repr(acc).startswith("<Accumulated 'tas' (time: 500, lat: 6, lon: 8) float32; sums over time, lat")
    assert "Accumulated tas" in acc._repr_html_()
    assert "time: 500, lat: 6, lon: 8" in acc._repr_html_()
    assert (acc.name, acc.dims, acc.shape, acc.sizes["lon"]) == ("tas", DIMS, (500, 6, 8), 8)
    assert ("time",) in acc.combinations
    assert acc.coords["lat"].attrs == {"units": "degrees_north"}


@pytest.mark.few(1)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_view_of_the_array_answers_as_the_view(plain, statistic):
    acc, array = plain
    base = (slice(10, 400, 3), 4, np.array([5, 1, 2, 7]))
    view = array[base[0], base[1], base[2]]
    viewed = Accumulated(acc.group, Labels.of_array(view, base))
    for dim in (None, "time", "lon", ()):
        for isel in ({}, {"time": slice(100, 3, -2)}, {"lon": [1, 1, 3]}, {"time": slice(5, 90)}):
            found = getattr(viewed, statistic)(dim, isel)
            assert_same(found, getattr(view.isel(isel), statistic)(dim))
    assert_same(getattr(viewed.groupby("time.season"), statistic)(), getattr(view.groupby("time.season"), statistic)())


@pytest.mark.parametrize("weights", [None, "area"])
def test_the_sum_of_one_missing_cell_is_0_as_that_of_any_range(tmp_path, weights):
    fields = dataset(steps=20)
    fields["tas"][3, 2, 1] = np.nan
    acc, array = stored(tmp_path / "a.zarr", fields, (10, 3, 4), weights=weights)
    cell = {"time": 3, "lat": 2, "lon": 1}
    assert acc.sum(isel=cell).item() == array.isel(cell).sum().item() == 0
    assert acc.sum(..., isel=cell).item() == 0
    assert np.isnan(acc.sum([], isel=cell))
    own = cfagg.read(str(tmp_path / "a.zarr"))["tas"].isel(cell).cfagg
    assert own.sum(weights=None if weights is None else "stored").item() == 0
