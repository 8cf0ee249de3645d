"""What coordinates are for, to pictures and to the rest of the library: two rooms that must give the same answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from cfagg.cf.roles import AXES_BY_NAME, LATITUDE_UNITS, LONGITUDE_UNITS, PRESSURES, axis_of, place_of
from cfagg.display.kinds import kind_of, place_of_coordinate
from cfagg.observations.sources.geometry import Described, _likely

KINDS = {"T": "time", "Z": "vertical"}
UNITS = sorted({*LATITUDE_UNITS, *LONGITUDE_UNITS})


def coordinate(attributes: dict[str, Any]) -> xr.DataArray:
    return xr.DataArray([1.0, 2.0], coords={"q": ("q", [1.0, 2.0], attributes)}, dims="q")


@pytest.mark.parametrize("name", sorted(AXES_BY_NAME | dict.fromkeys(PRESSURES, "Z")))
def test_a_standard_name_means_the_same_in_pictures(name: str) -> None:
    attributes = {"standard_name": name}
    axis = axis_of(attributes)
    found = kind_of(coordinate({**attributes, "units": "degrees"} if axis in ("X", "Y") else attributes), "q")
    assert found == (place_of(attributes) or KINDS.get(str(axis), "other"))


@given(
    units=st.sampled_from(UNITS).flatmap(lambda u: st.sampled_from([u, u.upper(), u.lower(), f" {u} "])),
    name=st.sampled_from(["", "latitude", "longitude", "grid_latitude", "projection_x_coordinate", "air_temperature"]),
)
def test_units_of_places_mean_the_same_in_pictures_observations_and_weights(units: str, name: str) -> None:
    attributes = {"units": units} | ({"standard_name": name} if name else {})
    place = place_of(attributes)
    assert place_of_coordinate("q", coordinate(attributes)["q"]) == place
    variable = Described("q", ("q",), np.dtype("f8"), attributes)
    likely = [kind for kind in ("latitude", "longitude") if _likely(kind, {"q": variable})]
    # A standard name of something else makes data of it, there.
    assert likely == ([place] if place and name in ("", place) else [])
