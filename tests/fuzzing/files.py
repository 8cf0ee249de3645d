"""Parsers of whole files: classic netCDF, HDF5, CDL, by each way that leads to them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzzing.checksums import put_right
from tests.fuzzing.target import target


@cache
def _folder() -> Path:
    made, owner = tempfile.mkdtemp(prefix="cfagg-fuzz"), os.getpid()
    # Children that were forked have it in common.
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(made, ignore_errors=True))
    return Path(made)


def stored(data: bytes, suffix: str = ".nc") -> str:
    """Return the path of a file with these bytes; the same for all inputs, but never the same file."""
    path = _folder() / f"input{suffix}"
    aside = _folder() / "aside"
    aside.write_bytes(data)
    aside.replace(path)
    return str(path)


def _written(fill: Any, **options: Any) -> bytes:
    import netCDF4

    path = _folder() / "seed.nc"
    with netCDF4.Dataset(path, "w", **options) as dataset:
        fill(dataset)
    return path.read_bytes()


def _grid(dataset: Any) -> None:
    """A time, two axes and a field, with attributes of several types."""
    dataset.Conventions = "CF-1.8"
    dataset.title = "A grid"
    dataset.createDimension("time", None)
    dataset.createDimension("lat", 3)
    time = dataset.createVariable("time", "f8", ("time",))
    time.setncatts({"units": "days since 2000-01-01", "standard_name": "time"})
    lat = dataset.createVariable("lat", "f4", ("lat",))
    lat.setncatts({"units": "degrees_north", "valid_range": np.array([-90, 90], "f4")})
    field = dataset.createVariable("tas", "i2", ("time", "lat"), fill_value=-999)
    field.setncatts({"units": "K", "scale_factor": 0.01, "standard_name": "air_temperature"})
    word = dataset.createVariable("word", "S1", ("lat",))
    time[:], lat[:], word[:] = [0.5, 1.5], [-30, 0, 30], [b"a", b"b", b"c"]
    field.set_auto_maskandscale(False)
    field[:] = [[1, 2, 3], [4, 5, -999]]


@cache
def classic_seeds() -> list[bytes]:
    formats = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")
    return [*(_written(_grid, format=name) for name in formats), _written(_instructed, format=formats[0])]


def _deep(dataset: Any) -> None:
    """What only netCDF-4 has: groups, texts, compressed chunks, an enumeration."""
    _grid(dataset)
    inner = dataset.createGroup("inner")
    inner.createDimension("x", 4)
    names = inner.createVariable("names", str, ("x",))
    names[:] = np.array(["a", "bc", "", "é"], object)
    packed = inner.createVariable("packed", "f4", ("lat", "x"), compression="zlib", shuffle=True, fletcher32=True)
    packed[:] = np.arange(12).reshape(3, 4)
    packed.setncattr_string("flags", ["one", "two"])


def _aggregation(dataset: Any) -> None:
    dataset.Conventions = "CF-1.5 NCA-0.1"
    dataset.createDimension("time", 4)
    one = dataset.createVariable("tas", "f4", ())
    one.nca_dimensions = "time"
    one.nca_array = (
        '{"directions": {"time": true}, "pdimensions": ["time"], "pshape": [2], "Partitions": ['
        '{"index": [0], "location": [[0, 2]], "data": {"shape": [2], "ncvar": "part"}},'
        '{"index": [1], "location": [[2, 4]], "data": {"shape": [2], "ncvar": "part", "part": "[(0, 2, 1)]"}}]}'
    )
    dataset.createDimension("two", 2)
    part = dataset.createVariable("part", "f4", ("two",))
    part.nca_private = np.int32(1)
    part[:] = [1, 2]


def _instructed(dataset: Any) -> None:
    """Aggregations by instruction variables, with fragments in the file itself, versions and unique values."""
    dataset.Conventions = "CF-1.13 CFA-0.6.2"
    for name, n in (("time", 4), ("f_time", 2), ("one", 1), ("characters", 5), ("two", 2)):
        dataset.createDimension(name, n)
    dataset.createVariable("sizes", "i4", ("one", "f_time"))[:] = [[2, 2]]
    dataset.createVariable("values", "f4", ("f_time",))[:] = [1, 2]
    for name, dims, texts in (
        ("uris", ("f_time",), [b"x.nc", b"y.nc"]),
        ("address", ("f_time",), [b"part", b"part"]),
        ("id", (), b"tas"),
        ("file", ("f_time", "two"), [[b"", b""], [b"x.nc", b"y.nc"]]),
        ("addresses", ("f_time", "two"), [[b"part", b""], [b"part", b"a"]]),
    ):
        text = dataset.createVariable(name, "S1", (*dims, "characters"))
        text[:] = np.array(texts, "S5").ravel().view("S1").reshape(text.shape)
    dataset.createVariable("part", "f4", ("two",))[:] = [1, 2]
    for name, terms in (
        ("a", "map: sizes uris: uris identifiers: id"),
        ("b", "map: sizes unique_values: values"),
        ("c", "location: sizes file: file format: id address: addresses note: values"),
    ):
        one = dataset.createVariable(name, "f4", ())
        one.setncatts({"aggregated_dimensions": "time", "aggregated_data": terms})


def _many(dataset: Any) -> None:
    """So many attributes and variables that they are kept in heaps."""
    dataset.createDimension("time", 2)
    for number in range(9):
        dataset.createVariable(f"v{number}", "i1", ("time",))
    time = dataset.createVariable("time", "f8", ("time",))
    time[:] = [0, 1]
    time.setncatts({"units": "days since 2000-01-01", **{f"a{n}": np.int32(n) for n in range(9)}})
    time.setncattr_string("words", ["one", "two"])


@cache
def hdf5_seeds() -> list[bytes]:
    import h5py

    found = [_written(_grid, format="NETCDF4"), _written(_deep, format="NETCDF4")]
    for version in ("earliest", "latest"):
        path = _folder() / "seed.h5"
        with h5py.File(path, "w", libver=version) as file:
            x = file.create_dataset("x", data=np.arange(4.0))
            x.make_scale("x")
            data = file.create_dataset("data", (4, 6), "i4", chunks=(2, 3), compression="gzip", maxshape=(None, 6))
            data[:] = np.arange(24).reshape(4, 6)
            data.dims[0].attach_scale(x)
            data.attrs["units"] = "m"
            data.attrs["words"] = ["a", "bcd"]
            group = file.create_group("group")
            group["compact"] = np.arange(3, dtype="u1")
            group.attrs["long"] = np.arange(20)
            file["again"] = h5py.SoftLink("/group/compact")
        found.append(path.read_bytes())
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("data", data=np.arange(24.0).reshape(4, 6), chunks=(2, 3), fletcher32=True)
        grows = file.create_dataset("again", (4, 6), "i2", maxshape=(None, None), chunks=(2, 3), shuffle=True)
        grows[:] = np.arange(24).reshape(4, 6)
    found.append(path.read_bytes())
    return [*found, *(_written(fill, format="NETCDF4") for fill in (_aggregation, _many, _instructed))]


def _texts(dataset: Any) -> None:
    """Values and attributes of variable length."""
    dataset.createDimension("x", 2)
    names = dataset.createVariable("names", str, ("x",))
    names[:] = np.array(["a", "bc"], object)
    names.setncattr_string("flags", ["one", "two"])


def _small(dataset: Any) -> None:
    """A variable with its axis."""
    dataset.createDimension("time", 2)
    time = dataset.createVariable("time", "f8", ("time",))
    time.units = "days since 2000-01-01"
    field = dataset.createVariable("tas", "i2", ())
    time[:], field[:] = [0.5, 1.5], 1


@cache
def small_hdf5_seeds() -> list[bytes]:
    import h5py

    path = _folder() / "seed.h5"
    with h5py.File(path, "w", libver="latest") as file:
        data = file.create_dataset("data", (2, 4), "i4", chunks=(2, 2), compression="gzip", maxshape=(None, 4))
        data[:] = np.arange(8).reshape(2, 4)
        data.attrs["units"] = "m"
        file["group/compact"] = np.arange(3, dtype="u1")
    latest = path.read_bytes()
    return [_written(_small, format="NETCDF4"), latest, _written(_texts, format="NETCDF4")]


def _own_types(dataset: Any) -> None:
    """Types that the file defines, and texts with a fill value."""
    dataset.createDimension("x", 2)
    kind = dataset.createCompoundType(np.dtype([("a", "f4"), ("b", "i2", (3,))]), "kind")
    dataset.createVariable("c", kind, ("x",))[:] = np.zeros(2, kind.dtype)
    dataset.createVariable("l", dataset.createVLType(np.int16, "list"), ("x",))[0] = np.arange(3, dtype="i2")
    dataset.createVariable("e", dataset.createEnumType(np.uint8, "enum", {"no": 0, "yes": 1}), ("x",))[:] = [0, 1]
    dataset.createVariable("s", str, ("x",), fill_value="none")[0] = "a"


@cache
def typed_hdf5_seeds() -> list[bytes]:
    """Return files with types of variable length within others, references, and filters that are not undone here."""
    import h5py

    path, found = _folder() / "seed.h5", []
    kind = np.dtype([("n", "i4"), ("text", h5py.string_dtype()), ("list", h5py.vlen_dtype("f4"), (2,))])
    values = np.empty(2, kind)
    for i in range(2):
        values[i]["n"], values[i]["text"] = i, "text"
        values[i]["list"][:] = [np.arange(i, dtype="f4"), np.arange(3, dtype="f4")]
    for options in ({"libver": "latest"}, {"libver": "earliest", "userblock_size": 512}):
        with h5py.File(path, "w", **options) as file:
            file["compound"], file.attrs["compound"] = values, values
            file.create_dataset("texts", (4,), h5py.string_dtype(), chunks=(2,), maxshape=(None,))[:2] = ["a", "bcd"]
            file["references"] = np.array([file.ref], h5py.Reference)
            file.create_dataset("regions", (1,), h5py.regionref_dtype)[0] = file["texts"].regionref[1:]
        found.append(path.read_bytes())
    with h5py.File(path, "w") as file:
        for name, options in (("scaled", {"scaleoffset": 2}), ("szip", {"compression": "szip", "fletcher32": True})):
            file.create_dataset(name, data=np.arange(24).reshape(4, 6), chunks=(2, 6), **options)
        file.create_dataset("words", data=np.array([b"a", b"bcd"]), chunks=(2,), fletcher32=True)
        file.create_dataset("enum", data=[0, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}), chunks=(2,), compression=1)
    return [*found, path.read_bytes(), _written(_own_types, format="NETCDF4")]


CDL = [
    """netcdf a {
dimensions:
    time = UNLIMITED ; // (2 currently)
    lat = 3 ;
variables:
    double time(time) ;
        time:units = "days since 2000-01-01" ;
    float lat(lat), lat_bnds(lat) ;
        lat:valid_range = -90.f, 90.f ;
    short tas(time, lat) ;
        tas:_FillValue = -999s ;
        tas:scale_factor = 0.01 ;
        string tas:flags = "one", "two" ;
    char word(lat) ;
    byte b ;
    uint64 big ;
// global attributes:
    :Conventions = "CF-1.8" ;
    :count = 1b, 2UB, 3s, 4US, 5, 6U, 7LL, 8ULL, 1.f, 1e3, 0x1F, NaN, -Infinityf ;
data:
    time = 0.5, 1.5 ;
    lat = -30, 0, 30 ;
    tas = 1, 2, 3, 4, 5, _ ;
    word = "abc" ;
    b = 97 ;
}
""",
    """netcdf deep {
dimensions: x = 2 ;
variables: string names(x) ; names:long_name = "a \\"quoted\\" name\\n", "second" ;
data: names = "a", NIL ;
group: inner {
  dimensions: y = 4 ;
  variables: int64 i(x, y) ; ubyte u(y) ;
  data: i = 1, 2, 3, 4, 5, 6, 7, 8 ; u = 255, 1UB, 'c', 0 ;
  group: below { :a = "text" ; }
}
}
""",
    """netcdf dates { dimensions: time = 2 ; variables: int time(time) ; time:units = "hours since 2000-01-01" ;
data: time = "2000-01-01 06", "2000-01-02" ; }""",
]

_TOKENS = [
    *("netcdf", "{", "}", "(", ")", ";", ":", "=", ",", "dimensions:", "variables:", "data:", "group:", "types:", "_"),
    *("UNLIMITED", "char", "string", "float", "double", "int64", "ubyte", "NIL", "NaN", "-inf", "1e999", "1b", "300UB"),
    *("9223372036854775808", "-5", '"', "'", "\\", "'\\x41'", "//", "$", "x", "/inner/x", "tas:", "_FillValue", "0x"),
]


def check(path: str, *, data: bool) -> None:
    """Run all rules, none of which may crash."""
    from cfagg.checking.engine import run
    from cfagg.checking.opening import open_dataset
    from cfagg.checking.options import Options

    options = Options(data=data)
    with open_dataset(path, options=options) as dataset:
        crashed = [f for f in run(dataset, options).findings if f.code in ("INT001", "INT002")]
    if crashed:
        raise AssertionError(str(crashed[0]))


def values(path: str) -> None:
    """Read every value that the checker can read."""
    from cfagg.checking.opening import open_dataset

    with open_dataset(path) as dataset:
        for group in dataset.groups:
            for variable in group.variables.values():
                if variable.read is not None and np.prod(variable.shape, dtype=float) <= 1 << 20:
                    variable.read(tuple(slice(0, n, 1) for n in variable.shape))


def show(path: str) -> None:
    """Print what is in it."""
    from cfagg.api import summarising
    from cfagg.arrays.netcdf_source import open_source
    from cfagg.display import text

    list(text.file_lines(summarising.summarise(open_source(path)), attributes=True))


def read(path: str) -> None:
    """Read all values, as a user of xarray."""
    from cfagg.api.reading import read as opened

    with opened(path, decode_times=False) as dataset:
        for variable in dataset.variables.values():
            if variable.size <= 1 << 20:
                _ = variable.values


def locate(path: str) -> None:
    """Find variables as partitions, and read them."""
    from cfagg.errors import CfaggError
    from cfagg.formats.values import find
    from cfagg.storage.files import Context

    data = Path(path).read_bytes()
    for name in ("tas", "time", "data", "inner/packed", "word", "again"):
        if name.rpartition("/")[2].encode() not in data:
            continue
        try:
            context = Context()
            found = find.locate(path, name, context)
            if np.prod(found.header.shape, dtype=float) <= 1 << 20:
                find.read(found, tuple(slice(0, n, 1) for n in found.header.shape), context)
        except CfaggError:
            continue


def convert(path: str) -> None:
    """Make a Zarr store of it."""
    import shutil

    from cfagg.conversion import convert as converted

    # What a failed conversion leaves for its resumption would refuse all later ones.
    made = _folder() / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    converted(path, made / "a.zarr")


#: Ways that lead to the parsers of whole files, with their shares.
WAYS: dict[str, tuple[Callable[[str], None], float]] = {
    "check": (lambda path: check(path, data=False), 1),
    "check --data": (lambda path: check(path, data=True), 0.2),
    "values": (values, 1),
    "locate": (locate, 1),
    "show": (show, 1),
    "read": (read, 0.2),
    "convert": (convert, 0.05),
}


def _register(way: str, kind: str, seeds: Callable[[], list[bytes]], finish: Any = None) -> None:
    use, share = WAYS[way]
    target(f"{way} {kind}", seeds=seeds, file=True, share=share, finish=finish)(lambda data: use(stored(data)))


for _way in WAYS:
    _register(_way, "classic", classic_seeds)
    _register(_way, "HDF5", hdf5_seeds, put_right)


def _each_way(data: bytes) -> None:
    from cfagg.errors import CfaggError

    path = stored(data)
    for way in ("check --data", "show", "read"):
        try:
            WAYS[way][0](path)
        except CfaggError:
            continue


target("every byte of HDF5", seeds=small_hdf5_seeds, every=True, share=0.3)(_each_way)
_SUMS = "every byte of HDF5 with its checksums"
target(_SUMS, seeds=small_hdf5_seeds, every=True, finish=put_right, share=0.3)(_each_way)


@target("types of HDF5", seeds=typed_hdf5_seeds, finish=put_right)
def types(data: bytes) -> None:
    """Read files in every way, values of all types too."""
    from cfagg.errors import CfaggError

    path = stored(data)
    for way in ("values", "show", "read"):
        try:
            WAYS[way][0](path)
        except CfaggError:
            continue


@target("CDL", seeds=lambda: CDL, tokens=_TOKENS)
def cdl(text: str) -> None:
    from cfagg.formats.cdl.parsing import parse_cdl

    with parse_cdl(text) as dataset:
        for variable in dataset.variables:
            if variable.read is not None:
                variable.read(tuple(slice(0, n, 1) for n in variable.shape))


@target("check --data CDL", seeds=lambda: CDL, tokens=_TOKENS, share=0.2)
def checked_cdl(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    check(stored(raw, ".cdl"), data=True)


def remove() -> None:
    """Remove what was written."""
    import shutil

    shutil.rmtree(_folder(), ignore_errors=True)


if os.environ.get("CFAGG_FUZZ_WORKER"):
    import atexit

    atexit.register(remove)
