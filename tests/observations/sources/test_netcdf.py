"""Observations from netCDF."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pandas as pd
import pytest

from cfagg.errors import AccessError, CalendarError, CfaggError, ConventionError, SourceError, UnknownConventionWarning
from cfagg.observations.creating import create_observations
from cfagg.observations.sources import netcdf as module
from cfagg.observations.sources.netcdf import NetcdfSource, read_netcdf
from tests.observations.sources.dsg_files import FORMS, places, temperature, variable, write_form
from tests.observations.sources.reading import rows

SAMPLES = Path(__file__).parents[3] / "sample_data"


def read(path: Path | str, **options: Any) -> pd.DataFrame:
    return pd.concat(list(read_netcdf(str(path), **options)))


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows in the order of all columns, whatever the order of the file."""
    columns = [c for c in ("date", "latitude", "longitude", "t", "height") if c in frame.columns]
    assert sorted(columns) == sorted(frame.columns)
    return frame[columns].sort_values(columns, ignore_index=True)


@pytest.mark.few(16)
@pytest.mark.parametrize("block", [1 << 18, 2, 1])
@pytest.mark.parametrize("name", list(FORMS))
def test_every_form_of_cf_gives_its_observations(
    tmp_path: Path, name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    expected = write_form(tmp_path / "a.nc", name)
    found = read(tmp_path / "a.nc")
    pd.testing.assert_frame_equal(in_order(found), expected, check_dtype=False)
    assert found["t"].dtype == np.float32
    assert found.index.is_unique


@pytest.mark.few(6)
@pytest.mark.parametrize("name", list(FORMS))
def test_parts_of_a_file_have_their_observations(tmp_path: Path, name: str) -> None:
    expected = write_form(tmp_path / "a.nc", name)
    source = NetcdfSource({"path": str(tmp_path / "a.nc"), "columns": ["t"]})
    source.prepare(tmp_path / "kept")
    start, end = datetime(2020, 1, 1, 1), datetime(2020, 1, 1, 6)
    wanted = expected[(expected["date"] >= start) & (expected["date"] < end)]
    found = rows(source, start, end)
    columns = ["date", "latitude", "longitude", "t"]
    pd.testing.assert_frame_equal(in_order(found), in_order(wanted[columns]), check_dtype=False, check_index_type=False)


def test_attributes_of_columns_are_kept(tmp_path: Path) -> None:
    write_form(tmp_path / "a.nc", "profile, contiguous")
    frame = next(read_netcdf(str(tmp_path / "a.nc")))
    assert frame.attrs["variables"] == {
        "height": {"standard_name": "height", "units": "m", "positive": "up"},
        "t": {"standard_name": "air_temperature", "units": "K"},
    }


def small(path: Path, **changes: Any) -> Path:
    """Write three points; a change is a function of the file, called before it is closed."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("obs", 3)
        places(file, ("obs",), ("obs",), [0, 1, 2], [50, 51, 52], [5, 6, 7])
        temperature(file, ("obs",), [1, 2, 3])
        file.set_auto_maskandscale(False)
        for change in changes.values():
            change(file)
    return path


def test_packed_and_missing_values_are_unpacked_as_cf_says(tmp_path: Path) -> None:
    def packed(file: Any) -> None:
        made = file.createVariable("p", "i2", ("obs",), fill_value=-1)
        made.setncatts({"scale_factor": 0.1, "add_offset": 1000.0, "valid_max": np.int16(500)})
        made.set_auto_maskandscale(False)
        made[:] = np.array([132, -1, 501], "i2")
        whole = file.createVariable("n", "i4", ("obs",))
        whole[:] = [1, 2**24 + 1, 3]
        unsigned = file.createVariable("u", "i1", ("obs",))
        unsigned.setncatts({"_Unsigned": "true"})
        unsigned.set_auto_maskandscale(False)
        unsigned[:] = np.array([-1, 1, 2], "i1")

    found = read(small(tmp_path / "a.nc", a=packed))
    np.testing.assert_allclose(found["p"], [1013.2, np.nan, np.nan], rtol=1e-14)
    assert found["n"].tolist() == [1, 2**24 + 1, 3]
    assert found["u"].tolist() == [255, 1, 2]


def test_values_keep_their_bits(tmp_path: Path) -> None:
    bits = np.array([0x7FC00001, 0x80000000, 0x3DCCCCCD], "u4").view("f4")

    def exact(file: Any) -> None:
        file.createVariable("x", "f4", ("obs",), fill_value=np.nan)[:] = bits

    assert read(small(tmp_path / "a.nc", a=exact))["x"].to_numpy().tobytes() == bits.tobytes()


@pytest.mark.parametrize(("units", "sign"), [("degrees_west", -1), ("degreeW", -1), ("Degrees East", 1), ("degree", 1)])
def test_longitudes_counted_to_the_west_are_negative(tmp_path: Path, units: str, sign: int) -> None:
    def change(file: Any) -> None:
        file["lon"].units = units

    assert read(small(tmp_path / "a.nc", a=change))["longitude"].tolist() == [sign * 5, sign * 6, sign * 7]


def test_latitudes_counted_to_the_south_are_refused(tmp_path: Path) -> None:
    def change(file: Any) -> None:
        file["lat"].units = "degrees_south"

    with pytest.raises(SourceError, match="variable 'lat' is not an angle"):
        read(small(tmp_path / "a.nc", a=change))


def test_angles_in_other_units_are_brought_to_degrees(tmp_path: Path) -> None:
    def radians(file: Any) -> None:
        file["lat"].units = "radian"
        file["lat"][:] = np.radians([10.0, 20.0, 30.0])

    np.testing.assert_allclose(read(small(tmp_path / "a.nc", a=radians))["latitude"], [10, 20, 30], rtol=1e-6)
    with pytest.raises(SourceError, match="'lat' is not an angle"):
        read(small(tmp_path / "b.nc", a=lambda file: file["lat"].setncatts({"units": "m"})))


def test_times_follow_their_calendar(tmp_path: Path) -> None:
    def calendar(file: Any) -> None:
        file["time"].setncatts({"calendar": "noleap", "units": "days since 2020-02-28"})

    found = read(small(tmp_path / "a.nc", a=calendar))
    assert found["date"].dt.strftime("%m-%d").tolist() == ["02-28", "03-01", "03-02"]
    with pytest.raises(CalendarError, match="variable 'time'"):
        read(small(tmp_path / "b.nc", a=lambda file: file["time"].setncatts({"units": "days"})))


def test_points_without_time_and_data_are_left_out_and_others_are_not(tmp_path: Path) -> None:
    def padded(file: Any) -> None:
        file["time"][1], file["t"][1] = -999.0, -999.0

    assert read(small(tmp_path / "a.nc", a=padded)).index.tolist() == [1, 3]
    with pytest.raises(SourceError, match="observation 2 has data but no date"):
        read(small(tmp_path / "b.nc", a=lambda file: file["time"].__setitem__(1, -999.0)))
    assert len(read(small(tmp_path / "c.nc", a=lambda file: file["t"].__setitem__(slice(None), -999.0)))) == 3


def test_data_without_a_place_stay_so_that_a_filter_may_drop_them(tmp_path: Path) -> None:
    path = small(tmp_path / "a.nc", a=lambda file: file["lat"].__setitem__(1, -999.0))
    assert read(path)["latitude"].isna().tolist() == [False, True, False]
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-01", "frequency": "1d"},
        "input": {"netcdf": {"path": str(path)}},
        "output": {"layout": "tabular"},
    }
    with pytest.raises(ConventionError, match=r"a\.nc gave rows .*\n.*row 2: latitude is nan.*filter drop_nans"):
        create_observations(recipe, tmp_path / "a.zarr")
    recipe["input"] = {"pipe": [recipe["input"], {"drop_nans": ["latitude", "longitude"]}]}
    assert create_observations(recipe, tmp_path / "a.zarr").rows == 2


def test_arrays_compressed_by_gathering_or_subsampling_are_refused(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("time", 1), ("lat", 2), ("lon", 3), ("land", 2)):
            file.createDimension(name, size)
        variable(file, "time", ("time",), [0], "f8", units="days since 2020-01-01")
        variable(file, "lat", ("lat",), [0, 1], units="degrees_north")
        variable(file, "lon", ("lon",), [0, 1, 2], units="degrees_east")
        variable(file, "land", ("land",), [1, 4], "i4", compress="lat lon")
        variable(file, "t", ("time", "land"), [[280, 281]])
    with pytest.raises(ConventionError, match=r"no variable has dimensions .*: t \(time, land\); .*gathering"):
        read(tmp_path / "a.nc")
    assert len(read(tmp_path / "a.nc", columns=[])) == 6
    with netCDF4.Dataset(tmp_path / "b.nc", "w") as file:
        for name, size in (("time", 1), ("y", 4), ("x", 4), ("tie_y", 2), ("tie_x", 2)):
            file.createDimension(name, size)
        variable(file, "time", ("time",), [0], "f8", units="days since 2020-01-01")
        for name, units, bounds in (("lat", "degrees_north", "lat_bounds"), ("lon", "degrees_east", "lon_bounds")):
            variable(file, name, ("tie_y", "tie_x"), [[0, 0], [1, 1]], units=units, bounds_tie_points=bounds)
            variable(file, bounds, ("tie_y", "tie_x"), [[0, 0], [1, 1]])
        for name in "yx":
            variable(file, f"{name}_index", (f"tie_{name}",), [0, 3], "i4")
        variable(file, "way", (), 0, "i4", tie_point_mapping="y: y_index tie_y x: x_index tie_x")
        variable(file, "t", ("time", "y", "x"), np.zeros((1, 4, 4)), coordinate_interpolation="lat: lon: way")
    with pytest.raises(ConventionError, match=r"no variable has dimensions .*: t \(time, y, x\); .*subsampling"):
        read(tmp_path / "b.nc")


def test_groups_that_may_have_the_places_are_named_as_not_read(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("obs", 3)
        places(file.createGroup("geolocation"), ("obs",), ("obs",), [0, 1, 2], [50, 51, 52], [5, 6, 7])
        temperature(file, ("obs",), [1, 2, 3])
    with pytest.raises(ConventionError, match="groups: variables of geolocation are not read; copy them to the root"):
        read(tmp_path / "a.nc")


def test_levels_and_flags_alone_are_no_observation(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write_form(path, "profile, incomplete")
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("quality", "i1", ("profile", "z"))[...] = 0
        file["t"].ancillary_variables = "quality"
        file["height"][0, 1] = 40.0
    assert len(read(path)) == 3


def test_what_belongs_to_stations_becomes_a_column_but_not_what_describes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write_form(path, "time series, contiguous")
    with netCDF4.Dataset(path, "a") as file:
        variable(file, "altitude", ("station",), [10, 20, 30], standard_name="surface_altitude", units="m")
        file.createDimension("two", 2)
        variable(file, "time_bounds", ("obs", "two"), np.zeros((5, 2)), "f8")
        file["time"].bounds = "time_bounds"
        file["t"].grid_mapping = "crs"
        file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
    found = read(path)
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t", "altitude"]
    assert found["altitude"].tolist() == [10, 10, 30, 30, 30]


def test_variables_of_other_dimensions_are_left_out_with_a_warning(tmp_path: Path) -> None:
    def bands(file: Any) -> None:
        file.createDimension("band", 2)
        variable(file, "response", ("band",), [1, 2])

    path = small(tmp_path / "a.nc", a=bands)
    with pytest.warns(UnknownConventionWarning, match="response belong to no observation"):
        found = read(path)
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t"]
    assert len(read(path, columns=["t"])) == 3
    with pytest.raises(ConventionError, match=r"response: has dimensions \(band\)"):
        read(path, columns=["t", "response"])
    small(tmp_path / "b.nc", a=bands)
    with pytest.warns(UnknownConventionWarning, match=r"a\.nc: response .* left out, here and in other files") as told:
        assert len(rows(NetcdfSource({"path": str(tmp_path / "*.nc")}))) == 6
    assert len(told) == 1


def test_columns_decide_what_numbers_the_observations(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write_form(path, "profile, orthogonal")
    with netCDF4.Dataset(path, "a") as file:
        variable(file, "depth_of_snow", ("profile",), [0.5, 0.25])
    assert read(path, columns=["depth_of_snow"])["depth_of_snow"].tolist() == [0.5, 0.25]
    assert len(read(path, columns=["depth_of_snow", "t"])) == 4


def test_names_may_be_given_where_attributes_do_not_tell(tmp_path: Path) -> None:
    def rename(file: Any) -> None:
        for name in ("time", "lat", "lon"):
            file[name].delncattr("standard_name")
            file.renameVariable(name, f"my_{name}")
        for name in ("my_lat", "my_lon"):
            file[name].units = "degrees"

    path = small(tmp_path / "a.nc", a=rename)
    with pytest.raises(ConventionError, match=r"latitude: is in none of .*\n.*longitude: is in none of"):
        read(path)
    assert len(read(path, flavour={"latitude": "my_lat", "longitude": "my_lon"})) == 3
    with pytest.raises(ConventionError, match=r"flavour\.date: when is not a variable"):
        read(path, flavour={"date": "when", "latitude": "my_lat", "longitude": "my_lon"})
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("when", str, ("obs",))[0] = "2020-01-01"
    with pytest.raises(ConventionError, match=r"a\.nc .*\n.*date: when is text, expected numbers; name another"):
        read(path, flavour={"date": "when", "latitude": "my_lat", "longitude": "my_lon"})


def test_two_times_need_a_choice(tmp_path: Path) -> None:
    def second(file: Any) -> None:
        variable(file, "received", ("obs",), [5, 5, 5], "f8", standard_name="time", units="days since 2020-01-01")

    path = small(tmp_path / "a.nc", a=second)
    assert "received" in read(path).columns  # the data name the other one as their coordinate
    path = small(tmp_path / "b.nc", a=second, b=lambda file: file["t"].delncattr("coordinates"))
    with pytest.raises(ConventionError, match="date: may be time, received; name the variable in flavour"):
        read(path)
    assert read(path, flavour={"date": "received"}, columns=["t"])["date"].nunique() == 1


@pytest.mark.parametrize(
    ("form", "name", "values", "said"),
    [
        ("time series, contiguous", "row_size", [2, 0, 4], "counts of variable 'row_size' sum to 6, expected 5"),
        ("time series, contiguous", "row_size", [-1, 3, 3], "fall to -1"),
        ("time series, indexed", "station_index", [0, 2, 3, 2, 2], "element 3 of obs belongs to number 3 of station"),
        ("time series, indexed", "station_index", [0, 2, -5, 2, 2], "is -5 for element 3"),
        ("time series of profiles, ragged", "station_index", [1, 0, 7], "element 3 of profile belongs to number 7"),
    ],
)
def test_counts_and_indexes_that_lie_are_found(
    tmp_path: Path, form: str, name: str, values: list[int], said: str
) -> None:
    path = tmp_path / "a.nc"
    write_form(path, form)
    with netCDF4.Dataset(path, "a") as file:
        file[name][:] = values
    with pytest.raises(ConventionError, match=said):
        read(path)


@pytest.mark.parametrize(
    ("form", "name", "said"),
    [
        ("time series, contiguous", "row_size", "'row_size' has the count 1.5, expected whole numbers"),
        ("time series, indexed", "station_index", "'station_index' is 1.5 for element"),
    ],
)
def test_counts_and_indexes_that_unpack_to_fractions_are_found(tmp_path: Path, form: str, name: str, said: str) -> None:
    path = tmp_path / "a.nc"
    write_form(path, form)
    with netCDF4.Dataset(path, "a") as file:
        file[name].set_auto_maskandscale(False)
        file[name][:] = 3
        file[name].scale_factor = 0.5
    with pytest.raises(ConventionError, match=said):
        read(path)


def test_dimensions_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    for i, (dimension, said) in enumerate((("nowhere", "expected whole numbers"), ("obs", "leads from obs"))):
        path = small(
            tmp_path / f"{i}.nc",
            a=lambda file, dim=dimension: variable(file, "which", ("obs",), [0, 0, 0], "i4", instance_dimension=dim),
        )
        with pytest.raises(ConventionError, match=said):
            read(path)


def test_observations_of_no_station_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write_form(path, "time series, indexed")
    with netCDF4.Dataset(path, "a") as file:
        file["station_index"][1] = np.ma.masked
        file["t"][1] = -999.0
    assert read(path).index.tolist() == [1, 3, 4, 5]


def test_values_in_other_files_are_refused(tmp_path: Path) -> None:
    path = small(tmp_path / "a.nc")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["t"] = np.arange(3.0)
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "t", (3,))
        attributes = {k: v for k, v in file["t"].attrs.items() if k == "units"}
        del file["t"]
        made = file.create_virtual_dataset("t", layout)
        made.attrs.update(attributes)
        made.dims[0].attach_scale(file["obs"])
    with pytest.raises(AccessError, match="another file"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"CDF\x01", b"\x89HDF\r\n\x1a\n", b"time,lat\n"])
def test_what_is_no_netcdf_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.nc"):
        read(path)


def test_a_file_without_observations_gives_an_empty_frame(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("obs", 0)
        places(file, ("obs",), ("obs",), np.empty(0), np.empty(0), np.empty(0))
        temperature(file, ("obs",), np.empty(0))
    found = read(tmp_path / "a.nc")
    assert (len(found), found.columns.tolist()) == (0, ["date", "latitude", "longitude", "t"])


def test_a_file_of_nothing_is_refused_in_words(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w"):
        pass
    with pytest.raises(CfaggError, match="no variables"):
        read(tmp_path / "a.nc")


def test_classic_files_are_read(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("obs", None)
        places(file, ("obs",), ("obs",), [0, 1], [50, 51], [5, 6])
        temperature(file, ("obs",), [1, 2])
    assert read(tmp_path / "a.nc")["t"].tolist() == [1, 2]


@pytest.mark.parametrize("many", [False, True])
def test_a_path_may_be_an_object_of_pathlib(tmp_path: Path, many: bool) -> None:
    expected = write_form(tmp_path / "a.nc", "point")
    path = tmp_path / "a.nc"
    assert len(rows(NetcdfSource({"path": [path] if many else path}))) == len(expected)


@pytest.mark.parametrize(
    "attributes",
    [{"nca_array": "{}", "nca_dimensions": "obs"}, {"aggregated_dimensions": "obs", "aggregated_data": "x: y"}],
)
def test_aggregations_are_refused_and_not_left_out_in_silence(tmp_path: Path, attributes: dict[str, str]) -> None:
    write_form(tmp_path / "a.nc", "point")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as dataset:
        dataset.createVariable("sst", "f4", ()).setncatts(attributes)
    with pytest.raises(ConventionError, match=r"sst: is an aggregation of other files.*name the other variables"):
        read(tmp_path / "a.nc")
    assert len(read(tmp_path / "a.nc", columns=["t"]))


def test_the_sample_aggregation_is_refused() -> None:
    with pytest.raises(ConventionError, match="surface_temperature: is an aggregation"):
        read(SAMPLES / "sst.nca")
