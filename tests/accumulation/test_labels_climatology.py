"""Climatologies and anomalies, against xarray on the same store."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from cfagg.errors import SelectionError
from tests.accumulation.fields import assert_same, dataset, stored


@pytest.fixture(scope="module", params=["standard", "360_day"])
def pair(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("store"), dataset(request.param))


@pytest.fixture(scope="module")
def monthly(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("store"), dataset(steps=60, freq="MS", missing=0))


def without_scalars(array):
    """Drop coordinates that arithmetic of groups spreads along time."""
    return array.drop_vars({"height", "phase", "lon"} - set(array.dims), errors="ignore")


@pytest.mark.few(1)
@pytest.mark.parametrize("by", ["month", "season", "dayofyear"])
@pytest.mark.parametrize("statistic", ["mean", "max", "count"])
def test_a_climatology_is_a_statistic_by_groups(pair, by, statistic):
    acc, array = pair
    sel = {"time": slice("2000", "2002"), "lat": slice(-30, 30)}
    groups = array.sel(sel).groupby(f"time.{by}")
    assert_same(acc.climatology(by, statistic=statistic, sel=sel), getattr(groups, statistic)())
    assert_same(acc.climatology(by, "lon", statistic=statistic, sel=sel), getattr(groups, statistic)(["time", "lon"]))
    assert_same(acc.climatology(by, ..., statistic=statistic, sel=sel), getattr(groups, statistic)(...))


@pytest.mark.few(2)
@pytest.mark.parametrize("by", ["month", "season"])
def test_anomalies_of_steps_are_those_of_xarray(pair, by):
    acc, array = pair
    sel = {"time": slice("2000-02", "2002-09"), "lon": 90.0}
    groups = array.sel(sel).groupby(f"time.{by}")
    found = acc.anomaly(by, sel=sel, each="step")
    wanted = groups - groups.mean()
    np.testing.assert_allclose(found, wanted.transpose(*found.dims), atol=1e-9)
    assert_same(without_scalars(found), without_scalars(wanted.transpose(*found.dims)))


@pytest.mark.parametrize("each", ["period", "step"])
def test_of_monthly_data_each_period_is_a_step(monthly, each):
    acc, array = monthly
    groups = array.groupby("time.month")
    wanted = groups - groups.mean()
    assert_same(without_scalars(acc.anomaly(each=each)), without_scalars(wanted))


def test_anomalies_of_months_are_those_of_monthly_means(pair):
    acc, array = pair
    reference = slice("2000", "2001")
    found = acc.anomaly("month", ("lat", "lon"), reference=reference)
    months = array["time"].dt.year * 12 + array["time"].dt.month
    means = array.groupby(months.rename("each")).mean(...)
    usual = array.sel(time=reference).groupby("time.month").mean(...)
    np.testing.assert_allclose(found, means.values - usual.sel(month=found["month"]).values, atol=1e-9)
    # Labelled with the first time of each month.
    assert found.dims == ("time",)
    first = np.flatnonzero(np.diff(months.values, prepend=0))
    np.testing.assert_array_equal(found["time"].values, array["time"].values[first])
    assert found["time"].attrs == array["time"].attrs


@pytest.fixture(scope="module")
def forecast(tmp_path_factory):
    """Return an array along steps, whose dates are in an auxiliary coordinate."""
    series = dataset(steps=60, freq="MS", missing=0).rename(time="step")
    dates = series["step"].variable
    return stored(tmp_path_factory.mktemp("store"), series.drop_vars("step").assign_coords(valid_time=dates))


def test_dates_of_an_auxiliary_coordinate_make_a_climatology(forecast):
    acc, array = forecast
    assert "step" not in array.coords
    assert_same(acc.climatology("month"), array.groupby("valid_time.month").mean())
    assert_same(acc.climatology("season", "lon"), array.groupby("valid_time.season").mean(["step", "lon"]))


@pytest.mark.parametrize("each", ["period", "step"])
def test_dates_of_an_auxiliary_coordinate_make_anomalies(forecast, each):
    acc, array = forecast
    years = slice("2000", "2001")
    groups = array.groupby("valid_time.month")
    usual = array.isel(step=np.isin(array["valid_time"].dt.year, [2000, 2001])).groupby("valid_time.month").mean()
    wanted = groups - usual
    found = acc.anomaly("month", reference=years, each=each)
    assert found.dims == (("valid_time" if each == "period" else "step"), "lat", "lon")
    np.testing.assert_allclose(found.values, wanted.transpose("step", "lat", "lon").values, atol=1e-9)
    np.testing.assert_array_equal(found["valid_time"].values, array["valid_time"].values)
    np.testing.assert_array_equal(found["month"].values, array["valid_time"].dt.month.values)


def test_a_winter_is_one_period_over_the_turn_of_the_year(pair):
    acc, array = pair
    found = acc.anomaly("season", ..., sel={"time": slice("2000-12", "2002-02")})
    assert found["season"].values.tolist() == ["DJF", "MAM", "JJA", "SON", "DJF"]
    winters = array.sel(time=slice("2000-12", "2001-02")).mean() - acc.climatology(
        "season", ..., sel={"time": slice("2000-12", "2002-02")}
    ).sel(season="DJF")
    assert found.values[0] == pytest.approx(float(winters))


@pytest.mark.parametrize("chosen", [slice(2, None, 12), [2, 14, 26, 50]])
def test_a_month_of_different_years_is_several_periods(monthly, chosen):
    acc, array = monthly
    groups = array.isel(time=chosen).groupby("time.month")
    wanted = groups - groups.mean()
    assert_same(without_scalars(acc.anomaly(isel={"time": chosen})), without_scalars(wanted))


def test_months_six_years_apart_are_two_periods(tmp_path):
    acc, array = stored(tmp_path, dataset("360_day", steps=73, freq="MS", missing=0).isel(time=[0, 72]))
    groups = array.groupby("time.month")
    assert_same(without_scalars(acc.anomaly()), without_scalars(groups - groups.mean()))


@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_summers_without_the_rest_of_the_year_are_several_periods(tmp_path, calendar):
    fields = dataset(calendar)
    acc, array = stored(tmp_path, fields.isel(time=fields["time"].dt.season == "JJA"))
    found = acc.anomaly("season", ...)
    wanted = array.groupby("time.year").mean(...) - array.mean()
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert found["time"].dt.year.values.tolist() == wanted["year"].values.tolist()


def test_groups_that_the_reference_does_not_have_are_nan(monthly):
    acc, _ = monthly
    found = acc.anomaly(reference=slice("2001-01", "2001-03"), dim=("lat", "lon"))
    assert (found.isnull() == (found["month"] > 3)).all()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"each": "year"}, "expected 'period' or 'step'"),
        ({"explain": True}, "difference of two means"),
        ({"isel": {"time": 3}}, "need a range along 'time'"),
        ({"isel": {"time": [5, 3]}}, "ascending positions"),
        ({"by": "fortnight"}, "no component 'fortnight'"),
        ({"reference": slice("1700", "oops")}, "no such label"),
    ],
)
def test_anomalies_that_cannot_be_are_refused(monthly, asked, message):
    with pytest.raises(SelectionError, match=message):
        monthly[0].anomaly(**asked)


def test_an_unknown_statistic_is_refused(monthly):
    with pytest.raises(SelectionError, match="no statistic 'median'"):
        monthly[0].climatology(statistic="median")


def test_an_array_without_dates_has_no_climatology(tmp_path):
    fields = xr.Dataset({"tas": (("x", "y"), np.zeros((4, 5)))}, coords={"x": np.arange(4)})
    acc, _ = stored(tmp_path, fields, chunks=(2, 5))
    with pytest.raises(SelectionError, match="no dimensions whose coordinates are dates"):
        acc.climatology()


def test_the_result_says_what_it_is(monthly):
    found = monthly[0].anomaly("season", "lon")
    assert found.attrs["cell_methods"] == "area: mean time: lon: mean"
    assert monthly[0].anomaly(keep_attrs=False).attrs == {}
