"""Structures of real files, small: which of them are one array is what iris, xarray or the published data sets say."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.cf.joining import Described, Options, describe, describe_all, join, members_of, tied, why
from cfagg.cf.references import Resolver
from cfagg.model.dataset import Dataset, Group
from tests.cf.joining.datasets import add

TIME = {"standard_name": "time", "units": "hours since 1970-01-01", "calendar": "360_day"}
REFERENCE = {**TIME, "standard_name": "forecast_reference_time"}
PERIOD = {"standard_name": "forecast_period", "units": "hours"}
LATITUDE = {"standard_name": "latitude", "units": "degrees_north"}
LONGITUDE = {"standard_name": "longitude", "units": "degrees_east"}


def described(root: Group, name: str) -> Described:
    return describe(root.variables[name], Resolver(Dataset("a.nc", "netcdf", root)))


def arrays(*members: Described) -> list[int]:
    """Return the array that each member is joined into."""
    return join(members_of(tied(members))).box.tolist()


def monthly_field(month: int) -> Described:
    """One field of a long run as iris writes it: the period since its start grows as the time does."""
    root = Group()
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    add(root, "time", (), 720.0 * month, **TIME)
    add(root, "forecast_period", (), 720.0 * month + 86400.0, **PERIOD, bounds="period_bounds")
    add(root, "period_bounds", ("bnds",), 720.0 * month + 86400.0 + np.array([-360.0, 360.0]))
    add(root, "forecast_reference_time", (), -86400.0, **REFERENCE)
    others = "time forecast_period forecast_reference_time"
    add(root, "v", ("lat",), np.zeros(2, "f4"), standard_name="sea_ice_y_velocity", units="m s-1", coordinates=others)
    return described(root, "v")


def member_of_lagged_ensemble(realization: int) -> Described:
    """One member of a seasonal forecast: three members start a day later than those before them."""
    root, start = Group(), 24.0 * (realization // 3)
    times = np.array([720.0, 1440.0])
    add(root, "time", ("time",), times, **TIME)
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    add(root, "realization", (), np.int32(realization), standard_name="realization", units="1")
    add(root, "forecast_period", ("time",), times - start, **PERIOD, bounds="period_bounds")
    add(root, "period_bounds", ("time", "bnds"), times[:, None] - start + np.array([-360.0, 360.0]))
    add(root, "forecast_reference_time", (), start, **REFERENCE)
    others = "realization forecast_period forecast_reference_time"
    named = {"standard_name": "surface_temperature", "units": "K", "coordinates": others}
    add(root, "ts", ("time", "lat"), np.zeros((2, 2), "f4"), **named)
    return described(root, "ts")


def month_of_ocean(month: int) -> Described:
    """As NEMO writes it: a dimension's own coordinate says nothing, the grid has coordinates of two dimensions only."""
    root = Group()
    add(root, "time_counter", ("time_counter",), [0.0], axis="T")
    add(root, "time_centered", ("time_counter",), [720.0 * month], **TIME)
    add(root, "nav_lat", ("y", "x"), [[10.0, 11.0], [20.0, 21.0]], **LATITUDE)
    add(root, "nav_lon", ("y", "x"), [[30.0, 40.0], [31.0, 41.0]], **LONGITUDE)
    named = {
        "standard_name": "sea_surface_temperature",
        "units": "degC",
        "coordinates": "time_centered nav_lat nav_lon",
    }
    add(root, "tos", ("time_counter", "y", "x"), np.zeros((1, 2, 2), "f4"), **named)
    return described(root, "tos")


def decades_of_model(model: str, *decades: int) -> Described:
    """As CMIP6 publishes them: attributes of the file tell models with equal grids and times apart."""
    root = Group(attributes={"source_id": model, "variant_label": "r1i1p1f1", "tracking_id": f"hdl:{model}/{decades}"})
    add(root, "time", ("time",), [24.0 * d for d in decades], **TIME)
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    add(root, "ta", ("time", "lat"), np.zeros((len(decades), 2), "f4"), standard_name="air_temperature", units="K")
    return described(root, "ta")


def test_months_whose_forecast_period_grows_with_time_are_one_array() -> None:
    assert arrays(*(monthly_field(m) for m in (2, 0, 1))) == [0, 0, 0]


def test_members_of_a_lagged_ensemble_are_one_array() -> None:
    assert arrays(*map(member_of_lagged_ensemble, range(6))) == [0] * 6


def forecast(run: int, step: int | None) -> Described:
    """All steps of a run of a forecast, or one step of two runs, with the times that these are for."""
    root = Group()
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    steps = np.array([6.0, 12.0])
    if step is None:
        add(root, "time", (), 24.0 * run, **REFERENCE)
        add(root, "step", ("step",), steps, **PERIOD)
        add(root, "valid_time", ("step",), 24.0 * run + steps, **TIME)
    else:
        add(root, "time", ("time",), 24.0 * (run + np.arange(2.0)), **REFERENCE)
        add(root, "step", (), steps[step], **PERIOD)
        add(root, "valid_time", ("time",), 24.0 * (run + np.arange(2.0)) + steps[step], **TIME)
    named = {"standard_name": "precipitation_amount", "units": "m", "coordinates": "time step valid_time"}
    add(root, "tp", ("step" if step is None else "time", "lat"), np.zeros((2, 2), "f4"), **named)
    return described(root, "tp")


@pytest.mark.parametrize("files", [[(0, None), (1, None), (3, None)], [(0, 0), (0, 1), (2, 0), (2, 1)]])
def test_the_times_that_forecasts_are_for_follow_from_start_and_step(files: list[tuple[int, int | None]]) -> None:
    assert arrays(*(forecast(*file) for file in files)) == [0] * len(files)


def test_months_on_a_grid_with_coordinates_of_two_dimensions_are_one_array() -> None:
    assert arrays(*map(month_of_ocean, range(3))) == [0, 0, 0]


def test_models_with_equal_grids_and_times_in_files_of_other_lengths_are_an_array_each() -> None:
    one = [decades_of_model("EC-Earth3", d) for d in range(3)]
    other = [decades_of_model("MIROC6", 0, 1), decades_of_model("MIROC6", 2)]
    assert arrays(*one, *other) == [0, 0, 0, 1, 1]
    assert arrays(*other, *one) == [0, 0, 1, 1, 1]


def test_a_decade_of_one_model_is_never_joined_with_those_of_another_that_also_has_some_of_its_times() -> None:
    one, other = [[decades_of_model(m, d) for d in range(3)] for m in ("EC-Earth3", "MIROC6")]
    assert arrays(*other[1:], *one) == [0, 0, 1, 1, 1]


def history_of_ocean(*times: float) -> list[Described]:
    """As ROMS writes it: each quantity on a grid of its own, and a vertical coordinate of which CF knows no units."""
    root = Group()
    add(root, "ocean_time", ("ocean_time",), np.array(times), **TIME)
    add(
        root, "s_rho", ("s_rho",), [-0.5, -0.1], standard_name="ocean_s_coordinate_g1", formula_terms="C: Cs_r depth: h"
    )
    add(root, "Cs_r", ("s_rho",), [-0.4, -0.05])
    add(root, "h", ("y_rho", "x_rho"), np.full((3, 4), 100.0), standard_name="sea_floor_depth", units="m")
    for grid, columns in (("rho", 4), ("u", 3)):
        for letter, attributes in (("lat", LATITUDE), ("lon", LONGITUDE)):
            values = np.arange(3.0 * columns).reshape(3, columns)
            add(root, f"{letter}_{grid}", (f"y_{grid}", f"x_{grid}"), values, **attributes)
    for name, grid, columns in (("temp", "rho", 4), ("u", "u", 3)):
        named = {"standard_name": name, "units": "1", "coordinates": f"lat_{grid} lon_{grid}"}
        dims = ("ocean_time", "s_rho", f"y_{grid}", f"x_{grid}")
        add(root, name, dims, np.zeros((len(times), 2, 3, columns), "f4"), **named)
    return describe_all(Dataset("a.nc", "netcdf", root))


def test_quantities_on_staggered_grids_have_axes_of_their_own_lengths() -> None:
    for one in history_of_ocean(0.0):
        assert tuple(len(one.axes[one.along[d]].values) for d in one.stated.dims) == one.shape


def test_months_with_a_parametric_vertical_coordinate_without_units_are_one_array() -> None:
    assert arrays(*history_of_ocean(0.0), *history_of_ocean(24.0)) == [0, 1, 0, 1]


def test_a_file_without_a_time_is_apart_and_keeps_others_from_nothing() -> None:
    members = [*history_of_ocean(0.0)[:1], *history_of_ocean()[:1], *history_of_ocean(24.0)[:1]]
    assert arrays(*members) == [0, 1, 0]
    found = members_of(members)
    assert "its dimension 'ocean_time' has no elements" in str(why(found, join(found), 0, 1))


def test_an_attribute_of_variables_that_becomes_an_axis_is_that_of_each() -> None:
    root = Group()
    add(root, "time", ("time",), [0.0], **TIME)
    for name, level in (("a", 1), ("b", 2)):
        add(root, name, ("time",), [1.0], standard_name="air_temperature", units="K", level=level)
    found = describe_all(Dataset("a.nc", "netcdf", root), Options(dimension="level"))
    assert [int(one.axes["level"].values[0]) for one in found] == [1, 2]


def day_on_latitudes(day: float, *latitudes: float) -> Described:
    """As two programs write one grid: counted from the pole, and from the equator."""
    root = Group()
    add(root, "time", ("time",), [day], **TIME)
    add(root, "lat", ("lat",), np.array(latitudes), **LATITUDE)
    add(root, "ta", ("time", "lat"), np.zeros((1, len(latitudes)), "f4"), standard_name="air_temperature", units="K")
    return described(root, "ta")


def test_an_equator_that_rounding_moved_is_the_equator() -> None:
    counted, exact = -90 + 900 * 0.1 + 1.4e-14, 0.0
    assert arrays(day_on_latitudes(0.0, -90.0, exact, 90.0), day_on_latitudes(1.0, -90.0, counted, 90.0)) == [0, 0]
    assert arrays(day_on_latitudes(0.0, -90.0, exact, 90.0), day_on_latitudes(1.0, -90.0, 1e-9, 90.0)) == [0, 1]


def test_small_coordinates_of_one_variable_beside_large_ones_stay_what_they_are() -> None:
    one = day_on_latitudes(0.0, 0.0, 1e-14, 90.0)
    assert arrays(one, day_on_latitudes(1.0, 0.0, 2e-14, 90.0)) == [0, 1]
