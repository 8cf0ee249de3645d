"""Small files in the form in which models and satellite services write theirs, three of each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

Y, X = 4, 5
LAT, LON = np.meshgrid(np.linspace(40, 41, Y), np.linspace(5, 6, X), indexing="ij")


class File:
    """A file being written."""

    def __init__(self, path: Path, dims: str, kind: Any = "NETCDF4") -> None:
        """Create a file with dimensions such as ``"time=0 y=4"``, of which 0 is unlimited."""
        self._file = netCDF4.Dataset(path, "w", format=kind)
        for word in dims.split():
            name, _, size = word.partition("=")
            self._file.createDimension(name, int(size))

    def __call__(self, name: str, kind: Any, dims: str, values: Any, **attributes: Any) -> None:
        """Add a variable, whose values are stored as they are."""
        own = self._file.createVariable(name, kind, dims.split(), fill_value=attributes.pop("fill", None))
        own.set_auto_maskandscale(False)
        own.setncatts(attributes)
        own[...] = np.array(values, object) if kind is str else values

    def close(self, **attributes: Any) -> None:
        """Close the file, with global attributes."""
        self._file.setncatts(attributes)
        self._file.close()


def field(k: int, *shape: int) -> Any:
    """Return values that differ from file to file."""
    return np.arange(np.prod(shape), dtype="f4").reshape(shape) + 1000 * k


def cesm(path: Path, k: int) -> None:
    """Write a month of an atmosphere on hybrid levels: no standard names, constants and dates in every file."""
    put = File(path, f"lat={Y} lon={X} lev=3 time=0 nbnd=2 chars=8", "NETCDF3_64BIT_OFFSET")
    put("lat", "f8", "lat", np.linspace(-45, 45, Y), units="degrees_north", long_name="latitude")
    put("lon", "f8", "lon", np.arange(X) * 72.0, units="degrees_east", long_name="longitude")
    put("gw", "f8", "lat", np.ones(Y) / Y, long_name="latitude weights")
    levels = {"standard_name": "atmosphere_hybrid_sigma_pressure_coordinate", "positive": "down", "units": "hPa"}
    put("lev", "f8", "lev", [100, 500, 900], formula_terms="a: hyam b: hybm p0: P0 ps: PS", **levels)
    put("hyam", "f8", "lev", [0.1, 0.2, 0.0])
    put("hybm", "f8", "lev", [0.0, 0.3, 0.9])
    put("P0", "f8", "", 1e5, units="Pa")
    days = [0, 31, 59, 90]
    put("time", "f8", "time", days[k + 1 : k + 2], units="days since 0001-01-01", calendar="noleap", bounds="time_bnds")
    put("time_bnds", "f8", "time nbnd", [days[k : k + 2]])
    put("date", "i4", "time", [10000 + k], long_name="current date (YYYYMMDD)")
    put("date_written", "S1", "time chars", netCDF4.stringtochar(np.array([f"0{k}/01/20"], "S8")))
    put("mdt", "i4", "", 1800, units="s", long_name="timestep")
    put("ndbase", "i4", "", 0, long_name="base day")
    put("PS", "f4", "time lat lon", field(k, 1, Y, X), units="Pa", cell_methods="time: mean")
    put("T", "f4", "time lev lat lon", field(k, 1, 3, Y, X), units="K", cell_methods="time: mean")
    put.close(Conventions="CF-1.0", host=f"node{k}")


def wrf(path: Path, k: int) -> None:
    """Write a day of a regional model: coordinates only for some variables, and not those of the staggered grid."""
    put = File(path, f"Time=0 DateStrLen=19 south_north={Y} west_east={X} west_east_stag={X + 1}", "NETCDF3_CLASSIC")
    times = np.array([f"2001-01-0{k + 1}_{hour:02}:00:00" for hour in (0, 12)], "S19")
    put("Times", "S1", "Time DateStrLen", netCDF4.stringtochar(times))
    put("XTIME", "f4", "Time", [1440 * k, 1440 * k + 720], units="minutes since 2001-01-01 00:00:00")
    for name, values, units in (("XLAT", LAT, "degree_north"), ("XLONG", LON, "degree_east")):
        whole = np.broadcast_to(values, (2, Y, X))
        put(name, "f4", "Time south_north west_east", whole, units=units, coordinates="XLONG XLAT")
    put("T2", "f4", "Time south_north west_east", field(k, 2, Y, X), units="K", coordinates="XLONG XLAT XTIME")
    dims = "Time south_north west_east_stag"
    put("U10", "f4", dims, field(k, 2, Y, X + 1), units="m s-1", coordinates="XLONG_U XLAT_U XTIME")
    put.close(TITLE=" OUTPUT FROM WRF", START_DATE=f"2001-01-0{k + 1}_00:00:00")


def roms(path: Path, k: int) -> None:
    """Write two days of an ocean model: terrain-following levels, parameters of the run, gaps as 1e37."""
    dims = f"ocean_time=0 s_rho=3 eta_rho={Y} xi_rho={X} tracer=2"
    put = File(path, dims, "NETCDF3_64BIT_OFFSET")
    put("ocean_time", "f8", "ocean_time", [86400.0 * (2 * k), 86400.0 * (2 * k + 1)], units="seconds since 1900-01-01")
    levels = {"standard_name": "ocean_s_coordinate_g2", "positive": "up"}
    put(
        "s_rho",
        "f8",
        "s_rho",
        [-0.8, -0.5, -0.2],
        formula_terms="s: s_rho C: Cs_r eta: zeta depth: h depth_c: hc",
        **levels,
    )
    put("Cs_r", "f8", "s_rho", [-0.7, -0.3, -0.1])
    put("hc", "f8", "", 20.0, units="meter")
    put("ntimes", "i4", "", 100, long_name="number of long time-steps")
    put("nl_tnu2", "f8", "tracer", [1.0, 2.0], long_name="nonlinear model Laplacian mixing coefficient")
    put("h", "f8", "eta_rho xi_rho", field(0, Y, X), units="meter", coordinates="lon_rho lat_rho")
    put("lat_rho", "f8", "eta_rho xi_rho", LAT, units="degrees_north", standard_name="latitude")
    put("lon_rho", "f8", "eta_rho xi_rho", LON, units="degrees_east", standard_name="longitude")
    gap = np.float32(1e37)
    at = "lon_rho lat_rho ocean_time"
    put("zeta", "f4", "ocean_time eta_rho xi_rho", field(k, 2, Y, X), fill=gap, units="meter", coordinates=at)
    values = field(k, 2, 3, Y, X)
    at = "lon_rho lat_rho s_rho ocean_time"
    put("temp", "f4", "ocean_time s_rho eta_rho xi_rho", values, fill=gap, units="Celsius", coordinates=at)
    put.close(history=f"run {k}")


def goes(path: Path, k: int) -> None:
    """Write an image of a geostationary satellite: a scalar time, unsigned packed values, flags with coordinates."""
    put = File(path, f"y={Y} x={X} number_of_time_bounds=2 band=1")
    at = {"coordinates": "band_id t y x", "grid_mapping": "projection", "_Unsigned": "true", "units": "1"}
    name = "toa_lambertian_equivalent_albedo_multiplied_by_cosine_solar_zenith_angle"
    scale = {"scale_factor": np.float32(0.5), "add_offset": np.float32(0)}
    values = field(k, Y, X).astype("i2")
    put("CMI", "i2", "y x", values, fill=np.int16(-1), standard_name=name, ancillary_variables="DQF", **at, **scale)
    flags = {"flag_values": np.array([0, 1, 2], "i1"), "flag_meanings": "good conditional bad"}
    values = (field(k, Y, X) % (k + 2)).astype("i1")
    put("DQF", "i1", "y x", values, fill=np.int8(-1), standard_name="status_flag", **at, **flags)
    time = {"units": "seconds since 2000-01-01 12:00:00", "standard_name": "time", "bounds": "time_bounds"}
    put("t", "f8", "", 6.3e8 + 300 * k, **time)
    put("time_bounds", "f8", "number_of_time_bounds", [6.3e8 + 300 * k - 100, 6.3e8 + 300 * k + 100])
    for axis, size, step in (("y", Y, -2.8e-5), ("x", X, 2.8e-5)):
        said = {"standard_name": f"projection_{axis}_coordinate", "units": "rad", "axis": axis.upper()}
        put(axis, "i2", axis, np.arange(size), scale_factor=np.float32(step), add_offset=np.float32(0.1), **said)
    put("projection", "i4", "", 0, grid_mapping_name="geostationary", perspective_point_height=35786023.0)
    put("band_id", "i1", "band", [2], units="1", standard_name="sensor_band_identifier")
    put.close(dataset_name=f"image {k}")


def era5(path: Path, k: int) -> None:
    """Write a day of a reanalysis: a version for each time as text, a member as scalar, whole seconds."""
    put = File(path, f"valid_time=3 latitude={Y} longitude={X}")
    put("number", "i8", "", 0, units="1", standard_name="realization")
    seconds = 1577836800 + 28800 * (3 * k + np.arange(3))
    put("valid_time", "i8", "valid_time", seconds, standard_name="time", units="seconds since 1970-01-01")
    north = {"units": "degrees_north", "standard_name": "latitude", "stored_direction": "decreasing"}
    put("latitude", "f8", "latitude", np.linspace(60, 59.25, Y), fill=np.nan, **north)
    put("longitude", "f8", "longitude", np.arange(X), fill=np.nan, units="degrees_east", standard_name="longitude")
    put("expver", str, "valid_time", ["0001" if k < 2 else "0005"] * 3)
    at = "number valid_time latitude longitude expver"
    dims = "valid_time latitude longitude"
    put(
        "t2m",
        "f4",
        dims,
        field(k, 3, Y, X),
        fill=np.float32(np.nan),
        units="K",
        long_name="2 metre temperature",
        coordinates=at,
    )
    put.close(Conventions="CF-1.7", history=f"downloaded {k}")


ARCHIVES: dict[str, Callable[[Path, int], None]] = {one.__name__: one for one in (cesm, wrf, roms, goes, era5)}


def write(folder: Path, name: str, count: int = 3) -> list[Path]:
    """Write files of an archive and return their names."""
    names = [folder / f"{name}{k}.nc" for k in range(count)]
    for k, path in enumerate(names):
        ARCHIVES[name](path, k)
    return names
