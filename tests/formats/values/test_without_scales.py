"""Files as h5py writes them, whose dimensions have no names: the netCDF library's names, and values by our own path."""

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError
from cfagg.formats.values.find import locate, read
from cfagg.formats.values.storage import Chunked, Contiguous, Library
from cfagg.storage.files import CONTEXT_SOURCE

VARIABLES = {
    "lzf": {"data": np.arange(60.0).reshape(5, 12), "chunks": (2, 5), "compression": "lzf", "shuffle": True},
    "checked": {"data": np.arange(60, dtype=">i2").reshape(5, 12), "chunks": (2, 5), "compression": "lzf",
                "fletcher32": True},
    "gzip": {"data": np.arange(12), "chunks": (5,), "compression": "gzip"},
    "plain": {"data": np.arange(12.0)},
    "square": {"data": np.eye(5, dtype="f4"), "chunks": (2, 2), "compression": "lzf"},
    "scalar": {"data": 3.5},
    "part/grouped": {"data": np.arange(10, dtype="u1").reshape(2, 5), "chunks": (1, 5), "compression": "lzf"},
    "empty": {"shape": (3, 4), "maxshape": (None, 4), "dtype": "f4", "chunks": (2, 2), "compression": "lzf",
              "fillvalue": 7},
    "letters": {"data": np.array([list("abc"), list("def")], "S1"), "chunks": (1, 3), "compression": "lzf"},
    "bare": {"shape": (4, 3), "dtype": "i4"},
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, made in VARIABLES.items():
            file.create_dataset(name, **made)
    return tmp_path / "a.h5"


@pytest.mark.parametrize("name", VARIABLES)
def test_names_of_dimensions_are_those_of_netcdf_and_values_those_of_h5py(path, name):
    with netCDF4.Dataset(path) as peer:
        variable = peer[name]
        dims, shape = variable.dimensions, variable.shape
    located = locate(str(path), name, CONTEXT_SOURCE)
    assert (located.header.dims, located.header.shape) == (dims, shape)
    assert isinstance(located.storage, Chunked | Contiguous)
    with h5py.File(path) as file:
        for box in (tuple(slice(0, n, 1) for n in shape), tuple(slice(n // 2, n, 2) for n in shape)):
            np.testing.assert_array_equal(read(located, box, CONTEXT_SOURCE), file[name][box])


def test_a_dataset_and_a_conversion_have_what_only_h5py_can_unpack(path, tmp_path):
    found = cfagg.read(path)
    np.testing.assert_array_equal(found["lzf"], VARIABLES["lzf"]["data"])
    assert found["plain"].dims == found["gzip"].dims
    cfagg.convert(path, tmp_path / "a.zarr")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "a.zarr")["square"], np.eye(5))


@pytest.mark.parametrize("codec", [numcodecs.Zstd(3), numcodecs.BZ2(9)])
def test_filters_that_h5py_itself_lacks_are_unpacked_too(tmp_path, codec):
    values = np.arange(40, dtype="<f4").reshape(4, 10)
    number = {"zstd": 32015, "bz2": 307}[codec.codec_id]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 10))
    plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.IEEE_F32LE, space, plist)
        for start in (0, 2):
            made.write_direct_chunk((start, 0), bytes(codec.encode(values[start : start + 2])))
    np.testing.assert_array_equal(cfagg.read(tmp_path / "a.h5")["v"], values)


def test_a_variable_shorter_than_its_dimension_is_left_to_the_netcdf_library(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createVariable("long", "f4", ("t",))[:] = np.arange(6)
        file.createVariable("short", "f4", ("t",))[:2] = [1, 2]
    located = locate(str(tmp_path / "a.nc"), "short", CONTEXT_SOURCE)
    assert located.header.shape == (6,)
    assert isinstance(located.storage, Library)
    assert read(located, (slice(0, 6, 1),), CONTEXT_SOURCE)[:2].tolist() == [1, 2]


def test_a_variable_without_scales_that_leads_out_of_its_file_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(np.arange(4.0).tobytes())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        outside = [(str(tmp_path / "secret"), 0, 32)]
        file.create_dataset("v", shape=(4, 1), dtype="f8", external=outside)
    with pytest.raises(AccessError, match="another file"):
        locate(str(tmp_path / "a.h5"), "v", CONTEXT_SOURCE)
