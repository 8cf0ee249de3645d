"""What fields of PP files become: variables, dimensions, coordinates and attributes of CF."""

from __future__ import annotations

import warnings
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import cftime
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.arrays.opening import open_any, open_reader
from cfagg.errors import CfaggError, LimitError, SourceError, UnsupportedError
from cfagg.formats.pp import FORMAT
from cfagg.formats.pp.fields import INTEGERS, WORDS
from cfagg.model.dataset import Group
from cfagg.storage.files import Borrowed
from tests.effort import examples
from tests.formats.pp.making import field

#: An instantaneous field of the 360-day calendar with the time of its forecast.
INSTANT = {"LBTIM": 12, "LBYRD": 2001, "LBMOND": 1, "LBDATD": 1, "LBUSER4": 16203, "LBUSER7": 1, "BPLAT": 90.0}

#: A monthly mean.
MEAN = {**INSTANT, "LBTIM": 122, "LBPROC": 128, "LBMOND": 2, "LBFT": 720}


def opened(*fields: bytes) -> Group:
    return FORMAT.open(Borrowed("a.pp", b"".join(fields))).root


def values(group: Group, name: str) -> np.ndarray[Any, Any]:
    found = group.variables[name]
    assert found.read is not None
    return np.asarray(found.read(tuple(slice(0, n, 1) for n in found.shape)))


def data_of(path: Path, name: str) -> np.ndarray[Any, Any]:
    reader = open_reader(open_any(path), name)
    return reader.read([slice(None)] * len(reader.shape))


def hours(*date: int, calendar: str = "360_day") -> float:
    return float(cftime.date2num(cftime.datetime(*date, calendar=calendar), "hours since 1970-01-01", calendar))


def test_fields_of_several_times_and_levels_are_one_variable(tmp_path: Path) -> None:
    fields = [
        field([t * 10 + z] * 6, **{**INSTANT, "LBDAT": 1 + t, "LBVC": 8, "BLEV": 1000.0 - 150 * z})
        for t, z in product((1, 0, 2), range(2))
    ]
    path = tmp_path / "a.pp"
    path.write_bytes(b"".join(fields))
    group = opened(*fields)
    found = group.variables["air_temperature"]
    assert (found.dims, found.shape) == (("time", "air_pressure", "latitude", "longitude"), (3, 2, 2, 3))
    assert values(group, "air_pressure").tolist() == [850.0, 1000.0]
    assert values(group, "time").tolist() == [hours(2001, 1, day) for day in (1, 2, 3)]
    assert data_of(path, "air_temperature")[..., 0, 0].tolist() == [[1, 0], [11, 10], [21, 20]]


def test_a_field_alone_has_scalar_coordinates() -> None:
    group = opened(field(**{**INSTANT, "LBVC": 8, "BLEV": 850.0, "LBRSVD4": 3, "LBUSER5": 2}))
    found = group.variables["air_temperature"]
    assert found.dims == ("latitude", "longitude")
    words = "forecast_period forecast_reference_time realization pseudo_level air_pressure"
    assert set(found.words("coordinates")) == {"time", *words.split()}
    assert {name: values(group, name).tolist() for name in ("realization", "pseudo_level", "air_pressure")} == {
        "realization": 3, "pseudo_level": 2, "air_pressure": 850.0
    }  # fmt: skip


def test_realizations_and_pseudo_levels_are_dimensions() -> None:
    group = opened(*(field(**{**INSTANT, "LBRSVD4": r, "LBUSER5": p}) for r in (2, 1) for p in (1, 2, 3)))
    found = group.variables["air_temperature"]
    assert (found.dims, found.shape) == (("realization", "pseudo_level", "latitude", "longitude"), (2, 3, 2, 3))
    assert values(group, "realization").tolist() == [1, 2]


def test_a_ragged_set_of_fields_is_several_variables_with_numbers() -> None:
    cells = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    group = opened(*(field(**{**INSTANT, "LBDAT": 1 + t, "LBVC": 8, "BLEV": 100.0 + z}) for t, z in cells))
    assert group.variables["air_temperature"].dims == ("time", "air_pressure", "latitude", "longitude")
    assert group.variables["air_temperature_1"].dims == ("latitude", "longitude")
    assert set(group.variables["air_temperature_1"].words("coordinates")) >= {"time_1", "air_pressure_1"}


def test_the_same_field_twice_is_two_variables() -> None:
    group = opened(field(**INSTANT), field(**INSTANT))
    assert {"air_temperature", "air_temperature_1"} <= set(group.variables)


def test_fields_share_the_coordinates_that_they_have_alike() -> None:
    group = opened(*(field(**{**INSTANT, "LBUSER4": s, "LBDAT": d}) for s in (16203, 16222) for d in (1, 2)))
    assert [d for d in group.dimensions if d.startswith("time")] == ["time"]
    assert group.variables["air_pressure_at_mean_sea_level"].dims == ("time", "latitude", "longitude")


def test_an_instant_has_time_reference_time_and_period() -> None:
    group = opened(field(**{**INSTANT, "LBMON": 3, "LBHR": 6, "LBMIN": 30}))
    assert values(group, "time") == hours(2001, 3, 1, 6, 30)
    assert values(group, "forecast_reference_time") == hours(2001, 1, 1)
    assert values(group, "forecast_period") == 60 * 24 + 6.5
    time = group.variables["time"]
    assert (time.text("units"), time.text("calendar")) == ("hours since 1970-01-01 00:00:00", "360_day")


@pytest.mark.parametrize(("ic", "calendar"), [(1, "standard"), (2, "360_day"), (4, "365_day")])
def test_lbtim_says_the_calendar(ic: int, calendar: str) -> None:
    group = opened(field(**{**INSTANT, "LBTIM": ic, "LBYR": 2004, "LBMON": 3}))
    assert values(group, "time") == hours(2004, 3, 1, calendar=calendar)
    assert group.variables["time"].text("calendar") == calendar
    assert "forecast_period" not in group.variables


@pytest.mark.parametrize("ic", [0, 3, 7])
def test_a_calendar_that_is_not_known_gives_no_time(ic: int) -> None:
    assert "time" not in opened(field(**{**INSTANT, "LBTIM": ic})).variables


def test_an_unset_lbtim_gives_no_time() -> None:
    group = opened(field(**{**INSTANT, "LBTIM": -32768, "LBMOND": 2, "LBPROC": 128}))
    assert "time" not in group.variables
    assert group.variables["air_temperature"].text("cell_methods") == "time: mean"


@pytest.mark.parametrize(
    "date", [{"LBMON": 13}, {"LBMON": 0}, {"LBDAT": 31}, {"LBHR": 25}, {"LBYR": 0}, {"LBYR": 999_999}]
)
def test_what_is_no_date_gives_no_time_and_keeps_fields_apart(date: dict[str, int]) -> None:
    group = opened(field(**{**INSTANT, **date}), field(**{**INSTANT, **date, "LBMIN": 5}))
    assert not [name for name in group.variables if name.startswith("time")]
    assert group.variables["air_temperature"].dims == ("time", "latitude", "longitude")


@pytest.mark.parametrize("year", [-999_999, 150_001, 999_999])
def test_dates_that_no_calendar_of_xarray_reaches_give_no_time(tmp_path: Path, year: int) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field(**{**INSTANT, "LBYR": year}))
    assert "time" not in cfagg.read(path).coords


def test_seconds_are_read_from_the_third_release_of_headers() -> None:
    assert values(opened(field(**{**INSTANT, "LBREL": 3, "LBDAY": 36})), "time") == hours(2001, 1, 1) + 0.01
    assert values(opened(field(**{**INSTANT, "LBREL": 2, "LBDAY": 36})), "time") == hours(2001, 1, 1)


def test_a_mean_over_a_period_has_bounds_and_a_cell_method() -> None:
    group = opened(field(**MEAN))
    assert values(group, "time") == hours(2001, 1, 16)
    assert values(group, "time_bounds").tolist() == [hours(2001, 1, 1), hours(2001, 2, 1)]
    assert values(group, "forecast_reference_time") == hours(2001, 1, 1)
    assert values(group, "forecast_period_bounds").tolist() == [0.0, 720.0]
    assert group.variables["air_temperature"].text("cell_methods") == "time: mean (interval: 1 hour)"


def test_a_mean_without_forecast_period_has_no_reference_time() -> None:
    assert "forecast_reference_time" not in opened(field(**{**MEAN, "LBFT": 0})).variables


@pytest.mark.parametrize(
    ("words", "methods"),
    [
        ({"LBPROC": 4096}, "time: minimum (interval: 1 hour)"),
        ({"LBPROC": 8192, "LBTIM": 22}, "time: maximum"),
        ({"LBPROC": 192, "LBTIM": 22}, "time: mean longitude: mean"),
        ({"LBPROC": 131200, "LBTIM": 22}, "realization: mean time: mean"),
        ({"LBPROC": 0}, None),
        ({"LBPROC": -1}, None),
    ],
)
def test_lbproc_says_the_cell_methods(words: dict[str, int], methods: str | None) -> None:
    assert opened(field(**{**MEAN, **words})).variables["air_temperature"].text("cell_methods") == methods


def test_bits_of_lbproc_without_a_cell_method_are_kept() -> None:
    found = opened(field(**{**MEAN, "LBPROC": 128 + 32768})).variables["air_temperature"].attributes
    assert found["um_lbproc"].tolist() == [32896]  # type: ignore[union-attr]


def test_a_climatology_has_climatological_bounds() -> None:
    group = opened(field(**{**MEAN, "LBTIM": 32, "LBYRD": 2010}))
    assert group.variables["time"].text("climatology") == "time_climatology"
    assert values(group, "time_climatology").tolist() == [hours(2001, 1, 1), hours(2010, 2, 1)]
    methods = group.variables["air_temperature"].text("cell_methods")
    assert methods == "time: mean within years time: mean over years"


def test_months_of_no_year_are_numbered() -> None:
    months = [field(**{**MEAN, "LBYR": 0, "LBYRD": 0, "LBMON": m, "LBMOND": m}) for m in (2, 1)]
    group = opened(*months)
    assert group.variables["air_temperature"].dims == ("month_number", "latitude", "longitude")
    assert values(group, "month_number").tolist() == [1, 2]


def test_daily_and_monthly_means_are_different_variables() -> None:
    days = [field(**{**MEAN, "LBDAT": d, "LBMOND": 1, "LBDATD": d + 1, "LBFT": 24 * d}) for d in (1, 2, 3)]
    months = [field(**{**MEAN, "LBTIM": 121, "LBMON": m, "LBMOND": m + 1}) for m in (1, 2)]
    group = opened(*days, *(field(**{**MEAN, "LBMON": m, "LBMOND": m + 1, "LBFT": 720 * m}) for m in (1, 2)), *months)
    shapes = [v.shape[0] for name, v in group.variables.items() if name.startswith("air_temperature")]
    # Months of the standard calendar have 31 and 28 days, and are of one length.
    assert sorted(shapes) == [2, 2, 3]


def test_forecasts_from_several_times_are_reference_times_by_periods() -> None:
    # Each day a forecast of two days: the second day of one is the first of the next.
    fields = [
        field([10 * start + ahead] * 6, **{**INSTANT, "LBDAT": start + ahead, "LBDATD": start, "LBFT": 24 * ahead})
        for start in (1, 2, 3)
        for ahead in (0, 1)
    ]
    group = opened(*fields)
    found = group.variables["air_temperature"]
    assert found.dims == ("forecast_reference_time", "forecast_period", "latitude", "longitude")
    assert group.variables["time"].dims == ("forecast_reference_time", "forecast_period")
    assert values(group, "time")[:, 1].tolist() == [hours(2001, 1, day) for day in (2, 3, 4)]


def test_the_same_times_from_several_reference_times_are_both_dimensions() -> None:
    fields = [field(**{**INSTANT, "LBMON": 2, "LBDAT": t, "LBDATD": r}) for r in (1, 2) for t in (5, 6, 9)]
    group = opened(*fields)
    found = group.variables["air_temperature"]
    assert (found.dims[:2], found.shape[:2]) == (("forecast_reference_time", "time"), (2, 3))
    assert group.variables["forecast_period"].dims == ("forecast_reference_time", "time")


def test_one_forecast_of_many_times_has_one_reference_time() -> None:
    group = opened(*(field(**{**INSTANT, "LBDAT": d}) for d in (1, 2, 3)))
    assert group.variables["forecast_period"].dims == ("time",)
    assert group.variables["forecast_reference_time"].dims == ()


HYBRID = {**INSTANT, "LBVC": 65, "LBUSER4": 4}


def hybrid(level: int, **more: float) -> bytes:
    words = {"LBLEV": level, "BLEV": 100.0 * level, "BRLEV": 100.0 * level - 50, "BRSVD1": 100.0 * level + 50}
    b = {"BHLEV": 1 - level / 10, "BHRLEV": 1.05 - level / 10, "BRSVD2": 0.95 - level / 10}
    return field(**{**HYBRID, **words, **b, **more})


def test_hybrid_heights_have_formula_terms_where_the_orography_is_in_the_file() -> None:
    orography = field(**{**INSTANT, "LBUSER4": 33, "LBVC": 129, "LBTIM": 0})
    group = opened(hybrid(2), hybrid(1), orography)
    found = group.variables["air_potential_temperature"]
    assert found.dims == ("model_level_number", "latitude", "longitude")
    height = group.variables["level_height"]
    assert height.text("standard_name") == "atmosphere_hybrid_height_coordinate"
    assert height.text("formula_terms") == "a: level_height b: sigma orog: surface_altitude"
    of_bounds = group.variables["level_height_bounds"].attributes
    assert of_bounds == {"formula_terms": "a: level_height_bounds b: sigma_bounds orog: surface_altitude"}
    assert values(group, "level_height").tolist() == [100.0, 200.0]
    assert values(group, "level_height_bounds").tolist() == [[50.0, 150.0], [150.0, 250.0]]
    assert values(group, "sigma").tolist() == [0.9, 0.8]
    assert values(group, "sigma_bounds").tolist() == [[0.95, 0.85], [0.85, 0.75]]


@pytest.mark.parametrize(("place", "there"), [(0.0, True), (15.0, False)])
def test_the_orography_is_that_of_the_grid_though_it_has_no_coordinates(place: float, there: bool) -> None:
    projected = {**INSTANT, "LBCODE": 5}
    level = {"LBVC": 65, "LBLEV": 1, "BLEV": 10.0, "BHLEV": 0.9, "BRLEV": 5.0, "BRSVD1": 15.0}
    group = opened(field(**{**projected, **level}), field(**{**projected, "LBUSER4": 33, "BZX": place}))
    assert ("formula_terms" in group.variables["level_height"].attributes) == there


def test_hybrid_heights_without_orography_have_no_formula() -> None:
    other = field(range(12), LBROW=4, LBNPT=3, **{**INSTANT, "LBUSER4": 33})
    for group in (opened(hybrid(1), hybrid(2)), opened(hybrid(1), hybrid(2), other)):
        height = group.variables["level_height"].attributes
        assert "formula_terms" not in height
        assert height["long_name"] == "level_height"


@pytest.mark.parametrize(("word", "head"), [("BHLEV", "sigma"), ("BLEV", "level_height")])
def test_hybrid_heights_without_numbers_of_levels_have_no_formula(word: str, head: str) -> None:
    group = opened(*(field(LBVC=65, LBUSER4=33, LBUSER7=1, **{word: value}) for value in (0.0, 0.5)))
    assert head in group.dimensions
    assert not any("formula_terms" in v.attributes for v in group.variables.values())


def test_the_lowest_level_is_number_zero() -> None:
    assert values(opened(hybrid(1, LBLEV=9999), hybrid(1)), "model_level_number").tolist() == [0, 1]


def test_hybrid_pressures_follow_the_surface_pressure_of_their_times() -> None:
    words = {"LBVC": 9, "LBUSER4": 16204, "BHLEV": 5000.0, "BHRLEV": 4000.0, "BRSVD2": 6000.0}
    b = {"BLEV": 0.5, "BRLEV": 0.6, "BRSVD1": 0.4}
    fields = [field(**{**INSTANT, **words, **b, "LBLEV": 7, "LBDAT": d}) for d in (1, 2)]
    pressure = [field(**{**INSTANT, "LBUSER4": 409, "LBVC": 129, "LBDAT": d}) for d in (1, 2)]
    group = opened(*fields, *pressure)
    level = group.variables["level_pressure"]
    assert level.text("standard_name") == "atmosphere_hybrid_sigma_pressure_coordinate"
    assert level.text("formula_terms") == "ap: level_pressure b: sigma ps: surface_air_pressure"
    assert (values(group, "level_pressure"), values(group, "sigma")) == (5000.0, 0.5)
    alone = opened(*fields, pressure[0])
    assert "formula_terms" not in alone.variables["level_pressure"].attributes


@pytest.mark.parametrize(
    ("lbvc", "name", "units", "positive"),
    [
        (1, "height", "m", "up"),
        (2, "depth", "m", "down"),
        (6, "depth", "m", "down"),
        (8, "air_pressure", "hPa", "down"),
        (10, "sigma", "1", "down"),
        (19, "air_potential_temperature", "K", "up"),
    ],
)
def test_lbvc_says_what_levels_are(lbvc: int, name: str, units: str, positive: str) -> None:
    levels = [{"BLEV": 10.0 * z, "BRSVD1": 10.0 * z - 5, "BRLEV": 10.0 * z + 5} for z in (2, 1)]
    group = opened(*(field(**{**INSTANT, "LBVC": lbvc, **level}) for level in levels))
    found = group.variables[name]
    assert group.variables["air_temperature"].dims == (name, "latitude", "longitude")
    assert values(group, name).tolist() == [10.0, 20.0]
    assert (found.text("units"), found.text("positive"), found.text("axis")) == (units, positive, "Z")
    if name == "depth":
        assert values(group, "depth_bounds").tolist() == [[5.0, 15.0], [15.0, 25.0]]


def test_soil_levels_without_depths_are_numbered() -> None:
    group = opened(*(field(**{**INSTANT, "LBVC": 6, "LBLEV": z, "BLEV": float(z)}) for z in (2, 1)))
    assert values(group, "soil_model_level_number").tolist() == [1, 2]


def test_a_surface_has_no_vertical_coordinate() -> None:
    found = opened(field(**{**INSTANT, "LBVC": 129, "LBLEV": 9999})).variables
    assert not {"level", "height", "model_level_number"} & set(found)


def test_levels_of_an_unknown_kind_are_kept_apart() -> None:
    group = opened(*(field(**{**INSTANT, "LBVC": 77, "LBLEV": z}) for z in (2, 1)))
    assert values(group, "level").tolist() == [1, 2]


def test_a_quantity_that_is_defined_at_a_height_has_it() -> None:
    group = opened(field(**{**INSTANT, "LBUSER4": 3236, "LBVC": 1, "BLEV": -1.0}))
    assert values(group, "height") == 1.5


def test_a_regular_grid_is_counted_from_before_its_first_point() -> None:
    group = opened(field(**{**INSTANT, "BZX": 339.02, "BDX": 0.44, "BZY": 23.76, "BDY": -0.44}))
    # As decimal numbers of 4-byte words: not 0.439999997…
    assert values(group, "longitude").tolist() == pytest.approx([339.46, 339.9, 340.34], abs=1e-12)
    assert values(group, "latitude").tolist() == pytest.approx([23.32, 22.88], abs=1e-12)
    assert "bounds" not in group.variables["longitude"].attributes


def test_a_grid_of_cells_has_bounds() -> None:
    group = opened(field(**{**INSTANT, "LBCODE": 2, "BZX": 0.0, "BDX": 10.0}))
    assert values(group, "longitude_bounds").tolist() == [[5.0, 15.0], [15.0, 25.0], [25.0, 35.0]]


def test_another_pole_makes_a_rotated_grid() -> None:
    group = opened(field(**{**INSTANT, "LBCODE": 101, "BPLAT": 38.0, "BPLON": 190.0}))
    found = group.variables["air_temperature"]
    assert found.dims == ("grid_latitude", "grid_longitude")
    mapping = group.variables[found.text("grid_mapping") or ""].attributes
    assert mapping["grid_mapping_name"] == "rotated_latitude_longitude"
    assert [np.ravel(mapping[f"grid_north_pole_{n}"]).tolist() for n in ("latitude", "longitude")] == [[38.0], [190.0]]


@pytest.mark.parametrize("longitude", [0.0, 180.0])
def test_the_pole_of_the_earth_turns_nothing(longitude: float) -> None:
    found = opened(field(**{**INSTANT, "BPLON": longitude})).variables["air_temperature"]
    assert "grid_mapping" not in found.attributes


def test_a_zonal_mean_has_the_whole_circle_as_bounds() -> None:
    group = opened(field([1, 2], LBNPT=1, **{**MEAN, "LBPROC": 64, "BDX": 360.0}))
    assert values(group, "longitude_bounds").tolist() == [[0.0, 360.0]]


def vectors(**given: list[float]) -> bytes:
    codes = {"x": 1, "y": 2, "x_low": 12, "x_high": 13}
    return b"".join(
        np.array(1000 * len(v) + codes[k], ">i4").tobytes() + np.array(v, ">f4").tobytes() for k, v in given.items()
    )


def irregular(day: int = 1, **given: list[float]) -> bytes:
    extra = vectors(**given)
    whole = np.arange(6, dtype=">f4").tobytes() + extra
    words = {"LBDAT": day, "BDX": 0.0, "BDY": 0.0, "LBEXT": len(extra) // 4, "LBLREC": len(whole) // 4}
    return field(whole, **{**INSTANT, **words})


def test_an_irregular_grid_is_read_from_extra_data(tmp_path: Path) -> None:
    data = irregular(x=[1, 2, 4], y=[10, 30], x_low=[0.5, 1.5, 3], x_high=[1.5, 3, 5])
    group = opened(data)
    assert values(group, "longitude").tolist() == [1.0, 2.0, 4.0]
    assert values(group, "latitude").tolist() == [10.0, 30.0]
    assert values(group, "longitude_bounds").tolist() == [[0.5, 1.5], [1.5, 3.0], [3.0, 5.0]]
    path = tmp_path / "a.pp"
    path.write_bytes(data)
    assert data_of(path, "air_temperature").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_fields_of_other_extra_data_are_other_variables() -> None:
    group = opened(irregular(x=[1, 2, 4], y=[10, 30]), irregular(day=2, x=[1, 2, 5], y=[10, 30]))
    assert {"longitude", "longitude_1", "air_temperature_1"} <= set(group.variables)


def test_rows_without_coordinates_are_dimensions_alone() -> None:
    group = opened(field(**{**INSTANT, "BDX": 0.0}))
    assert group.variables["air_temperature"].dims == ("latitude", "x")
    assert "x" not in group.variables


@pytest.mark.parametrize("code", [3, 5, 105, 0, -32768])
def test_rows_of_a_projection_are_no_latitudes(code: int) -> None:
    group = opened(field(**{**INSTANT, "LBCODE": code, "BDX": 10_000.0, "BDY": 10_000.0}))
    assert group.variables["air_temperature"].dims == ("y", "x")
    assert not {"x", "y", "latitude", "longitude"} & group.variables.keys()


def test_a_cross_section_has_the_coordinates_that_lbcode_names() -> None:
    extra = vectors(y=[1000, 500])
    whole = np.arange(6, dtype=">f4").tobytes() + extra
    # 1, then 10 along x (latitude), then 1 along y (pressure).
    words = {"LBCODE": 11001, "BZX": 0.0, "BDX": 10.0, "BDY": 0.0, "LBEXT": len(extra) // 4, "LBLREC": len(whole) // 4}
    group = opened(field(whole, **{**INSTANT, **words}))
    assert group.variables["air_temperature"].dims == ("air_pressure", "latitude")
    assert values(group, "air_pressure").tolist() == [1000.0, 500.0]
    assert values(group, "latitude").tolist() == [10.0, 20.0, 30.0]


def test_a_time_series_divides_its_period() -> None:
    words = {"LBCODE": 31323, "LBTIM": 22, "LBDATD": 3, "BDX": 0.0, "BDY": 0.0}
    group = opened(field(**{**INSTANT, **words}))
    assert group.variables["air_temperature"].dims == ("time", "site")
    assert values(group, "time").tolist() == [hours(2001, 1, 1), hours(2001, 1, 2)]


def test_dimensions_of_a_field_are_called_otherwise_than_those_of_several() -> None:
    words = {"LBCODE": 31323, "LBTIM": 22, "BDX": 0.0, "BDY": 0.0}
    group = opened(*(field(**{**INSTANT, **words, "LBDAT": d, "LBDATD": d + 1}) for d in (1, 2, 3)))
    found = group.variables["air_temperature"]
    assert (found.dims, found.shape) == (("time", "time_of_field", "site"), (3, 2, 3))


def test_two_dimensions_of_one_kind_are_both_there() -> None:
    group = opened(field(**{**INSTANT, "LBCODE": 11010, "BDX": 10.0, "BZX": 0.0}))
    assert group.variables["air_temperature"].dims == ("latitude", "latitude_x")


def test_variables_without_a_standard_name_are_called_by_their_code() -> None:
    group = opened(field(**{**INSTANT, "LBUSER4": 98765}), field(**{**INSTANT, "LBUSER4": 0, "LBFC": 9999}))
    assert group.variables["m01s98i765"].text("um_stash_source") == "m01s98i765"
    assert group.variables["lbfc_9999"].attributes["um_field_code"].tolist() == [9999]  # type: ignore[union-attr]


def test_the_version_of_the_model_is_an_attribute() -> None:
    found = opened(field(**{**INSTANT, "LBSRCE": 11011111})).variables["air_temperature"]
    assert (found.text("um_version"), found.text("source")) == ("11.1", "Data from Met Office Unified Model")
    assert "source" not in opened(field(**INSTANT)).variables["air_temperature"].attributes


def test_missing_values_scales_and_packings_may_differ_between_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(
        field([-99, 1, 2, 3, 4, 5], **{**INSTANT, "BMDI": -99.0})
        + field([-1, 1, 2, 3, 4, 5], **{**INSTANT, "BMDI": -1.0, "LBDAT": 2})
        + field([-99, 1, 2, 3, 4, 5], **{**INSTANT, "BMDI": -99.0, "LBDAT": 3, "BMKS": 2.0, "BDATUM": 0.5})
        + field([-99, 2, 1, 2, 3, 4], **{**INSTANT, "BMDI": -99.0, "LBDAT": 4, "LBPACK": 4})
    )
    found = data_of(path, "air_temperature")
    assert np.isnan(open_any(path).find("air_temperature")[1].attributes["_FillValue"])
    nan = np.nan
    np.testing.assert_array_equal(found[:, 0], [[nan, 1, 2], [nan, 1, 2], [nan, 2.5, 4.5], [nan, nan, 1]])


@pytest.mark.parametrize("size", [4, 8])
def test_reals_that_are_not_packed_are_scaled(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field([1, 2, 3, 4, 5, 6], size, **{**INSTANT, "BMKS": 2.0, "BDATUM": 0.5}))
    assert data_of(path, "air_temperature").tolist() == [[2.5, 4.5, 6.5], [8.5, 10.5, 12.5]]


def test_scaled_integers_keep_all_digits(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    stored = np.array([2**24 + 1, 3, 4, 5, 6, -99], ">i4").tobytes()
    path.write_bytes(field(stored, **{**INSTANT, "LBUSER1": 2, "BMDI": -99.0, "BMKS": 2.0}))
    assert data_of(path, "air_temperature").ravel()[:2].tolist() == [2**25 + 2, 6]


def test_the_missing_value_of_one_field_is_a_value_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    fields = [([-99, 1, 2, 3, 4, 5], -99.0), ([-99, -1e30, 2, 3, 4, 5], -1e30)]
    path.write_bytes(b"".join(field(v, **{**INSTANT, "BMDI": m, "LBDAT": d}) for d, (v, m) in enumerate(fields, 1)))
    found = cfagg.read(path)["air_temperature"].values
    np.testing.assert_array_equal(found[:, 0], [[np.nan, 1, 2], [-99, np.nan, 2]])


def test_the_missing_value_of_one_field_is_an_integer_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    fields = [([-99, 1, 2, 3, 4, 5], -99.0), ([-99, -1, 2, 3, 4, 5], -1e30), ([-99, -1, 2, 3, 4, 5], -1.0)]
    path.write_bytes(
        b"".join(
            field(np.array(v, ">i4").tobytes(), **{**INSTANT, "LBUSER1": 2, "BMDI": m, "LBDAT": d})
            for d, (v, m) in enumerate(fields, 1)
        )
    )
    found = cfagg.read(path)["air_temperature"].values
    np.testing.assert_array_equal(found[:, 0], [[np.nan, 1, 2], [-99, -1, 2], [-99, np.nan, 2]])
    as_stored = cfagg.read(path, decode_cf=False)["air_temperature"]
    assert as_stored.attrs["_FillValue"].dtype == as_stored.dtype == np.int32


def test_an_integer_that_would_be_missing_in_its_variable_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    lowest = np.iinfo(np.int32).min
    path.write_bytes(
        b"".join(
            field(np.full(6, v, ">i4").tobytes(), **{**INSTANT, "LBUSER1": 2, "BMDI": m, "LBDAT": d})
            for d, (v, m) in enumerate([(1, -99.0), (lowest, -1.0)], 1)
        )
    )
    with pytest.raises(SourceError, match=f"field 1 of .* has the value {lowest}, which marks missing values"):
        data_of(path, "air_temperature")


def test_a_scaled_value_may_be_the_missing_value_as_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field([-2, -1, 2, 3, 4, 5], **{**INSTANT, "BMDI": -1.0, "BMKS": 0.5}))
    found = cfagg.read(path)["air_temperature"].values
    np.testing.assert_array_equal(found, [[-1, np.nan, 1], [1.5, 2, 2.5]])


def test_forecasts_beside_means_without_reference_times_are_another_variable() -> None:
    def mean(day: int, ahead: int) -> bytes:
        return field(**{**INSTANT, "LBTIM": 22, "LBPROC": 128, "LBDAT": day, "LBDATD": day + 1, "LBFT": ahead})

    group = opened(*(mean(day, 24 * day * run) for run in (0, 1) for day in (1, 2)), mean(1, 48), mean(2, 72))
    assert group.variables["air_temperature"].dims[:-2] == ("time",)
    assert group.variables["air_temperature_1"].dims[:-2] == ("forecast_reference_time", "time")


def test_periods_whose_bounds_are_not_as_far_from_the_reference_times_are_not_one_period() -> None:
    def mean(year: int, month: int, ahead: int) -> bytes:
        dates = {"LBYR": year, "LBMON": month, "LBYRD": year, "LBMOND": month + 1}
        return field(**{**INSTANT, "LBTIM": 24, "LBPROC": 128, **dates, "LBFT": ahead})

    # The middles of February are as far from one reference time as those of March from another.
    pairs = [(2, 1000 + 28 * 12), (3, 1000 + 31 * 12)]
    fields = [mean(2001 + k, month, ahead + 8760 * k) for month, ahead in pairs for k in (0, 1)]
    group = opened(*fields, mean(2001, 2, 5000))
    bounds = [values(group, n).reshape(-1, 2) for n in group.variables if n.endswith("bounds") and "period" in n]
    widths = {round(high - low) // 24 for part in bounds for low, high in part.tolist()}
    assert widths == {28, 31}


def test_points_of_land_are_placed_by_the_mask_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    mask = field([1, 0, 1, 0, 0, 1], **{**INSTANT, "LBUSER4": 30})
    path.write_bytes(field([7, 8, 9], LBPACK=120, **INSTANT) + mask)
    assert data_of(path, "air_temperature").tolist() == [[7, -np.float32(1e30), 8], [-np.float32(1e30)] * 2 + [9]]


MASK = np.array([[1, 0, 1], [0, 0, 1]])


def mask(values: np.ndarray[Any, Any], **words: float) -> bytes:
    rows, columns = values.shape
    said = {"LBUSER1": 3, "LBUSER4": 30, "LBUSER7": 1, "BPLAT": 90.0, "LBROW": rows, "LBNPT": columns}
    return field(values.astype(">i4").tobytes(), **{**said, **words})


LAND = {**INSTANT, "LBPACK": 120, "BMDI": -9.0}


def test_the_mask_of_another_model_is_none_of_the_atmosphere(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(mask(1 - MASK, LBUSER7=2) + mask(MASK) + field([7, 8, 9], **LAND))
    assert data_of(path, "air_temperature").tolist() == [[7, -9, 8], [-9, -9, 9]]


def test_points_of_land_are_placed_by_the_mask_of_their_grid(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    other = 1 - MASK
    path.write_bytes(
        mask(other, BZX=15.0)
        + mask(MASK.T)
        + mask(MASK)
        + field([7, 8, 9], **LAND)
        + field([4, 5, 6], **{**LAND, "LBROW": 3, "LBNPT": 2})
        + field([1, 2, 3], **{**LAND, "BZX": 15.0})
    )
    assert data_of(path, "air_temperature").tolist() == [[7, -9, 8], [-9, -9, 9]]
    assert data_of(path, "air_temperature_1").tolist() == [[4, -9], [-9, -9], [5, 6]]
    assert data_of(path, "air_temperature_2").tolist() == [[-9, 1, -9], [2, 3, -9]]


def test_masks_of_two_other_grids_tell_no_land(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(mask(1 - MASK, BZX=15.0) + mask(MASK, BZX=30.0) + field([7, 8, 9], **LAND))
    with pytest.raises(SourceError, match="no land-sea mask"):
        data_of(path, "air_temperature")


def test_a_mask_of_another_grid_tells_no_land(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(mask(MASK, BZX=15.0) + field([7, 8, 9], **LAND))
    with pytest.raises(SourceError, match=r"no land-sea mask .* of its grid"):
        data_of(path, "air_temperature")


@pytest.mark.parametrize("shape", [{}, {"LBROW": 0, "LBNPT": 0}])
def test_two_masks_of_one_grid_have_to_be_equal(tmp_path: Path, shape: dict[str, int]) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(mask(MASK) + field([7, 8, 9], **{**LAND, **shape}) + mask(MASK))
    assert data_of(path, "air_temperature").tolist() == [[7, -9, 8], [-9, -9, 9]]
    path.write_bytes(mask(MASK) + field([7, 8, 9], **{**LAND, **shape}) + mask(1 - MASK))
    with pytest.raises(SourceError, match=r"different land-sea masks of a grid, with headers at bytes 4 and 584"):
        data_of(path, "air_temperature")


def test_what_is_missing_in_a_mask_is_sea(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    reals = np.where(MASK == 1, 1.0, -1e30).ravel().tolist()
    path.write_bytes(field(reals, LBUSER4=30, LBUSER7=1, BPLAT=90.0) + field([7, 8, 9], **LAND))
    assert data_of(path, "air_temperature").tolist() == [[7, -9, 8], [-9, -9, 9]]


def test_points_of_land_without_rows_have_the_shape_of_the_mask(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    mask = field([1, 0, 1, 0, 0, 1], **{**INSTANT, "LBUSER4": 30})
    path.write_bytes(field([7, 8, 9], LBPACK=220, LBROW=0, LBNPT=0, **INSTANT) + mask)
    assert data_of(path, "air_temperature")[:, 1].tolist() == [7, 9]


def test_points_of_land_without_a_mask_are_refused_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field([7, 8, 9], LBPACK=120, **INSTANT))
    with pytest.raises(CfaggError, match=r"the file has no land-sea mask .*append its field"):
        data_of(path, "air_temperature")
    with path.open("ab") as file:
        file.write(field([1, 0, 1, 0, 0, 1], **{**INSTANT, "LBUSER4": 30}))
    missing = float(np.float32(-1e30))
    assert data_of(path, "air_temperature").tolist() == [[7, missing, 8], [missing, missing, 9]]


def test_an_axis_of_another_kind_has_no_coordinate() -> None:
    group = opened(field(**{**INSTANT, "LBCODE": 19910}))
    assert group.variables["air_temperature"].dims == ("latitude", "x")


def test_a_quantity_of_one_kind_of_area_says_so_in_its_cell_methods() -> None:
    # From version 5.3 of the model on.
    for version, methods in ((503, "area: mean where land"), (502, None)):
        group = opened(field(**{**INSTANT, "LBUSER4": 506, "LBSRCE": version * 10_000 + 1111}))
        found = next(v for v in group.variables.values() if v.chunks is not None)
        assert found.text("cell_methods") == methods


def test_a_selection_of_plain_fields_reads_what_is_selected(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    values = np.arange(600.0).reshape(3, 10, 20)
    fields = (field(v, LBROW=10, LBNPT=20, **{**INSTANT, "LBDAT": t + 1}) for t, v in enumerate(values))
    path.write_bytes(b"".join(fields))
    reader = open_reader(open_any(path), "air_temperature")
    assert reader.dtype == np.float32
    assert np.array_equal(reader.read([slice(1, 3), slice(2, 9, 3), [3, 1]]), values[1:3, 2:9:3][..., [3, 1]])


def test_a_field_without_rows_has_points(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field(LBROW=0, **INSTANT))
    assert open_any(path).find("air_temperature")[1].dims == ("point",)  # type: ignore[union-attr]
    assert data_of(path, "air_temperature").tolist() == [1, 2, 3, 4, 5, 6]


def test_a_packing_that_is_not_read_is_refused_where_its_variable_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field(LBPACK=3, **INSTANT) + field(**{**INSTANT, "LBUSER4": 24}))
    assert data_of(path, "surface_temperature").tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(UnsupportedError, match=r"field 0 of .*a\.pp: the packing LBPACK = 3 cannot be read"):
        data_of(path, "air_temperature")


def test_more_rows_than_the_file_can_hold_are_refused() -> None:
    with pytest.raises(LimitError, match=r"field 0 of a\.pp has 2 rows and 100,000,000 columns"):
        opened(field(LBNPT=10**8, LBPACK=4, **INSTANT))


def test_more_variables_than_anybody_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cfagg.formats.pp.dataset.MOST_VARIABLES", 2)
    with pytest.raises(LimitError, match=r"a\.pp has 3 fields of 3 variables, more than 2"):
        opened(*(field(**{**INSTANT, "LBUSER4": s}) for s in (1, 2, 3)))


#: Values that no header should have.
ODD = (0, -1, 1, 7, 9999, -32768, 2**31 - 1, -(2**31), 2**62, -(2**63), 1e300, -1e30, float("nan"), float("inf"))


@settings(max_examples=examples(60))
@given(
    st.lists(st.dictionaries(st.sampled_from(sorted(WORDS)), st.sampled_from(ODD), max_size=4), max_size=4), st.data()
)
def test_headers_of_any_words_are_read_or_refused(changes: list[dict[str, float]], data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([4, 8]))
    base = data.draw(st.sampled_from([INSTANT, MEAN, {**HYBRID, "LBCODE": 2}, {**INSTANT, "LBCODE": 31323}]))
    with np.errstate(all="ignore"):
        fields = [field(size=size, **_storable({**base, "LBDAT": 1 + i, **c}, size)) for i, c in enumerate(changes)]
    with warnings.catch_warnings(), suppress(CfaggError):
        warnings.simplefilter("error", RuntimeWarning)
        group = opened(*fields, field(size=size, **base))
        for name, variable in group.variables.items():
            if variable.read is not None:
                assert values(group, name).shape == variable.shape
            elif variable.chunks is not None:
                assert variable.chunks().grid.shape == variable.shape


def _storable(words: dict[str, float], size: int) -> dict[str, float]:
    """Return words that can be stored: an integer may have any bits."""
    most = 2 ** (8 * size - 1)
    return {
        name: value if WORDS[name] >= INTEGERS else max(-most, min(most - 1, int(value))) if np.isfinite(value) else 3
        for name, value in words.items()
        if not (WORDS[name] >= INTEGERS and size == 4 and np.isfinite(value) and abs(value) > 3e38)
    }


def test_dask_chunks_are_the_fields(tmp_path: Path) -> None:
    import cfagg

    path = tmp_path / "a.pp"
    path.write_bytes(b"".join(field([t] * 6, **{**INSTANT, "LBDAT": 1 + t}) for t in range(3)))
    with cfagg.read(path, chunks={}) as found:
        assert found.air_temperature.chunks == ((1, 1, 1), (2,), (3,))
        assert found.air_temperature[:, 0, 0].values.tolist() == [0, 1, 2]


def test_missing_values_are_masked(tmp_path: Path) -> None:
    import cfagg

    path = tmp_path / "a.pp"
    path.write_bytes(field([1, -1e30, 3, 4, 5, 6], **INSTANT))
    with cfagg.read(path) as found:
        assert np.isnan(found.air_temperature.values).tolist() == [[False, True, False], [False] * 3]


def test_codes_of_no_internal_model_are_told_by_the_field_code() -> None:
    group = opened(field(**{**INSTANT, "LBUSER7": 0, "LBFC": 16, "LBUSER4": 1}))
    assert group.variables["air_temperature"].text("um_stash_source") == "m00s00i001"


def test_a_mean_of_extremes_has_no_cell_method_of_time() -> None:
    found = opened(field(**{**MEAN, "LBPROC": 4096 + 128})).variables["air_temperature"]
    assert found.text("cell_methods") is None
    assert found.attributes["um_lbproc"].tolist() == [4224]  # type: ignore[union-attr]


def test_a_cross_section_of_levels_has_no_other_level() -> None:
    words = {"LBCODE": 11001, "BZX": 0.0, "BDX": 10.0, "BZY": 0.0, "BDY": 100.0, "LBVC": 8, "BLEV": 5.0}
    group = opened(field(**{**INSTANT, **words}))
    assert values(group, "air_pressure").tolist() == [100.0, 200.0]
    assert "air_pressure_1" not in group.variables


def test_titles_keep_no_fields_apart() -> None:
    def titled(text: bytes, day: int) -> bytes:
        extra = np.array(1000 * (len(text) // 4) + 10, ">i4").tobytes() + text
        whole = np.arange(6, dtype=">f4").tobytes() + extra
        return field(whole, **{**INSTANT, "LBDAT": day, "LBEXT": len(extra) // 4, "LBLREC": len(whole) // 4})

    assert opened(titled(b"abcd", 1), titled(b"efgh", 2)).variables["air_temperature"].shape == (2, 2, 3)
