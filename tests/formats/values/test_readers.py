"""Every way of reading a file gives what netCDF4 and NumPy give."""

import contextlib
import gc
import pathlib
import subprocess
import sys
import tempfile
import threading

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.arrays.netcdf_source import open_source
from cfagg.errors import SourceError
from cfagg.formats.classic import variables as classic
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.hdf5 import library_variables as hdf5
from cfagg.formats.values import contiguous, locate, netcdf, read, reading
from cfagg.formats.values.find import check
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.pool import close_files, open_files, set_open_files
from cfagg.storage import counters
from cfagg.storage.files import CONTEXT_SOURCE
from cfagg.storage.handles import handles
from tests import damaged, nca_files
from tests.effort import examples
from tests.systems import needs_proc

STORAGE = [
    {},
    {"endian": "big"},
    {"chunksizes": (3, 4, 5)},
    {"chunksizes": (3, 4, 5), "endian": "big", "zlib": True, "shuffle": True},
    {"chunksizes": (3, 4, 5), "zlib": True, "shuffle": True, "fletcher32": True},
    {"chunksizes": (7, 2, 9), "compression": "zstd", "shuffle": False},
    {"chunksizes": (2, 4, 3), "fletcher32": True},
    {"format": "NETCDF3_CLASSIC"},
    {"format": "NETCDF3_64BIT_OFFSET", "unlimited": ("t",)},
    {"format": "NETCDF3_64BIT_DATA", "unlimited": ("t",)},
    {"unlimited": ("t", "y"), "chunksizes": (2, 2, 4), "zlib": True},
]

SHAPE = (7, 6, 9)


@st.composite
def slices(draw):
    """A hyperslab of the shape with positive steps."""
    out = []
    for n in SHAPE:
        start = draw(st.integers(0, n - 1))
        out.append(slice(start, draw(st.integers(start, n)), draw(st.integers(1, n))))
    return out


@given(
    st.sampled_from(STORAGE),
    st.sampled_from(["i1", "u1", "i2", "i4", "f4", "f8"]),
    slices(),
    st.sampled_from([0, 2**40]),
)
@settings(max_examples=examples(80))
def test_any_hyperslab_of_any_storage_equals_numpy(storage, dtype, key, direct):
    if storage.get("format", "").startswith("NETCDF3") and dtype == "u1" and "DATA" not in storage["format"]:
        dtype = "i1"
    values = np.random.default_rng(0).integers(0, 127, SHAPE).astype(dtype)
    if storage.get("endian") == "big":
        values = values.astype(np.dtype(dtype).newbyteorder(">"))
    with tempfile.TemporaryDirectory() as folder:
        path = nca_files.fragment(f"{folder}/a.nc", "v", values, ["t", "y", "x"], **storage)

        before, reading.DIRECT_BYTES = reading.DIRECT_BYTES, direct
        try:
            located = locate(str(path), "v", CONTEXT_SOURCE)
            found = read(located, key, CONTEXT_SOURCE)
        finally:
            reading.DIRECT_BYTES = before
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, values[tuple(key)])
        assert located.header.shape == SHAPE
        assert located.header.dims == ("t", "y", "x")


ATTRIBUTES = {
    "units": "K",
    "empty": "",
    "accents": "åé",
    "one": np.float32(1.5),
    "many": np.array([1, 2, 3], "i2"),
    "double": np.array([1.0, 2.0]),
}


@pytest.mark.parametrize(
    "kind", ["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
)
def test_headers_found_directly_are_those_of_the_netcdf_library(tmp_path, kind):
    path = str(tmp_path / "a.nc")
    with netCDF4.Dataset(path, "w", format=kind) as ds:
        ds.createDimension("time", None)
        ds.createDimension("y", 4)
        ds.createDimension("only", 2)
        ds.setncatts(ATTRIBUTES)
        for name, dtype, dims in (
            ("time", "f8", ("time",)),
            ("short", "i2", ("time",)),
            ("y", "f4", ("y",)),
            ("v", "i2", ("time", "y", "only")),
            ("text", "S1", ("y",)),
            ("scalar", "i4", ()),
        ):
            variable = ds.createVariable(name, dtype, dims, fill_value=dtype == "i2" and np.int16(-3))
            variable.setncatts(ATTRIBUTES)
        if kind == "NETCDF4":
            ds.createVariable("y2", "f4", ("y",)).setncattr_string("list", ["a", "bc"])
            ds.createVariable("only", "f4", ("y",))
        ds["v"][:5] = 7
        ds["time"][:3] = 1
        names = list(ds.variables)
    handle = handles.get(path)
    for name in names:
        with netcdf.opened(path) as ds:
            v = ds[name]
            expected = (v.dimensions, v.shape, netcdf.dtype_of(v), netcdf.attributes_of(v))
        header = locate(path, name, CONTEXT_SOURCE).header
        assert (header.dims, header.shape, header.dtype) == expected[:3]
        assert list(header.attributes) == list(expected[3])
        for attribute, value in expected[3].items():
            np.testing.assert_array_equal(header.attributes[attribute], value)
            assert type(header.attributes[attribute]) is type(value)
        direct = hdf5.find if kind.startswith("NETCDF4") else classic.find
        if name not in ("short", "time") or kind.startswith("NETCDF3"):
            assert direct(handle, name, CONTEXT_SOURCE) is not None


def test_a_variable_shorter_than_its_unlimited_dimension_is_filled_as_the_netcdf_library_does(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t", None)
        ds.createVariable("long", "i4", ("t",))[:6] = 1
        ds.createVariable("short", "i4", ("t",), fill_value=-1)[:2] = 5
    located = locate(str(tmp_path / "a.nc"), "short", CONTEXT_SOURCE)
    assert located.header.shape == (6,)
    assert read(located, [slice(0, 6, 1)], CONTEXT_SOURCE).tolist() == [5, 5, -1, -1, -1, -1]


def test_hdf5_files_without_netcdf_dimensions_are_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(6.0).reshape(2, 3)
    located = locate(str(tmp_path / "a.h5"), "v", CONTEXT_SOURCE)
    assert located.header.shape == (2, 3)
    assert read(located, [slice(1, 2, 1), slice(0, 3, 1)], CONTEXT_SOURCE).tolist() == [[3, 4, 5]]


def test_a_file_with_a_user_block_is_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["v"] = np.arange(6.0)
    located = locate(str(tmp_path / "a.h5"), "v", CONTEXT_SOURCE)
    assert read(located, [slice(0, 6, 2)], CONTEXT_SOURCE).tolist() == [0, 2, 4]


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_scalar_list_is_one_value(tmp_path, length):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", (), h5py.vlen_dtype("i2"))[()] = np.arange(length, dtype="i2")
    found = read(locate(tmp_path / "a.h5", "v", CONTEXT_SOURCE), (), CONTEXT_SOURCE)
    assert (found.shape, np.ravel(found[()]).tolist()) == ((), list(range(length)))


def test_filters_that_are_not_known_here_are_left_to_the_library(tmp_path):
    values = np.arange(100_000, dtype="i4")
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"] = np.arange(100_000)
        file["x"].make_scale("x")
        file.create_dataset("v", data=values, chunks=(10_000,), scaleoffset=0).dims[0].attach_scale(file["x"])
    located = locate(str(tmp_path / "a.nc"), "v", CONTEXT_SOURCE)
    assert not hdf5_chunks.can_read(located.storage)
    np.testing.assert_array_equal(read(located, [slice(0, 100_000, 1)], CONTEXT_SOURCE), values)


def test_a_stream_of_records_has_as_many_as_the_file_holds(tmp_path):
    path = nca_files.fragment(
        tmp_path / "a.nc",
        "v",
        np.arange(12, dtype="i4").reshape(4, 3),
        ["t", "x"],
        format="NETCDF3_CLASSIC",
        unlimited=["t"],
    )
    data = bytearray(path.read_bytes())
    data[4:8] = b"\xff" * 4
    path.write_bytes(data)
    located = locate(str(path), "v", CONTEXT_SOURCE)
    assert located.header.shape == (4, 3)
    assert read(located, [slice(3, 4, 1), slice(0, 3, 1)], CONTEXT_SOURCE).tolist() == [[9, 10, 11]]


def test_a_scattered_hyperslab_is_walked_in_rows_where_that_reads_less(tmp_path):
    values = np.arange(64 * 100_000, dtype="i4").reshape(64, 100_000)
    nca_files.fragment(tmp_path / "a.nc", "v", values, ["t", "x"])
    located = locate(str(tmp_path / "a.nc"), "v", CONTEXT_SOURCE)
    before = counters.snapshot()
    found = contiguous.read(
        check(located, CONTEXT_SOURCE),
        located.storage,
        (64, 100_000),
        [slice(0, 64, 1), slice(7, 8, 1)],
        CONTEXT_SOURCE,
    )
    assert found[:, 0].tolist() == values[:, 7].tolist()
    assert (counters.snapshot() - before).bytes == 64 * 4


@needs_proc
def test_open_files_are_bounded_and_can_be_closed(tmp_path):
    close_files()
    set_open_files(5)
    try:
        for i in range(12):
            nca_files.fragment(tmp_path / f"{i}.nc", "v", np.arange(3), ["x"], zlib=True)
            located = locate(str(tmp_path / f"{i}.nc"), "v", CONTEXT_SOURCE)
            assert read(located, [slice(0, 3, 1)], CONTEXT_SOURCE).tolist() == [0, 1, 2]
            assert 0 < open_files() <= 15
        held = [str(fd.readlink()) for fd in pathlib.Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        assert sum(str(tmp_path) in name for name in held) <= 10
        close_files()
        assert open_files() == 0
    finally:
        set_open_files(64)


def test_a_file_that_was_replaced_is_opened_anew(tmp_path):
    for n in (3, 5):
        (tmp_path / "a.nc").unlink(missing_ok=True)
        nca_files.fragment(tmp_path / "a.nc", "v", np.arange(n), ["x"])
        located = locate(str(tmp_path / "a.nc"), "v", CONTEXT_SOURCE)
        assert read(located, [slice(0, n, 1)], CONTEXT_SOURCE).tolist() == list(range(n))


def test_a_forked_child_opens_its_own_handles(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "v", np.arange(3), ["x"], zlib=True)
    code = f"""
import os
from cfagg.formats.values import locate, read
from cfagg.storage.files import CONTEXT_SOURCE
located = locate({str(tmp_path / "a.nc")!r}, "v", CONTEXT_SOURCE)
read(located, [slice(0, 3, 1)], CONTEXT_SOURCE)
child = os.fork()
if child == 0:
    os._exit(0 if read(located, [slice(0, 3, 1)], CONTEXT_SOURCE).tolist() == [0, 1, 2] else 1)
assert os.waitpid(child, 0)[1] == 0
assert read(located, [slice(0, 3, 1)], CONTEXT_SOURCE).tolist() == [0, 1, 2]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_a_forked_child_neither_uses_nor_closes_what_a_library_has_open_in_its_parent(tmp_path):
    """Libraries keep file positions and caches that parent and child would share."""
    (tmp_path / "a.nc").write_bytes(b"a")
    code = f"""
import os
from cfagg.formats.values.pool import Pool
from cfagg.storage.handles import handles
closed = []
class Open:
    def __init__(self, handle):
        self.process = os.getpid()
    def __del__(self):
        closed.append(self)
pool = Pool(Open, closed.append)
handle = handles.get({str(tmp_path / "a.nc")!r})
assert pool.get(handle).process == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if not pool.has(handle) and pool.get(handle).process == os.getpid() and not closed else 1)
assert os.waitpid(child, 0)[1] == 0
assert pool.has(handle)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_lock_is_reentrant_and_keeps_other_threads_and_xarray_out():
    from xarray.backends.locks import HDF5_LOCK, NETCDFC_LOCK
    from xarray.backends.netCDF4_ import NETCDF4_PYTHON_LOCK

    assert NETCDF4_PYTHON_LOCK
    order = []

    def other():
        with LIBRARY:
            order.append("other")

    with LIBRARY, LIBRARY:
        assert HDF5_LOCK.locked()
        assert NETCDFC_LOCK.locked()
        thread = threading.Thread(target=other)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
    assert not HDF5_LOCK.locked()


def test_a_name_with_dots_does_not_climb_out_of_its_group(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "v", np.arange(3), ["x"], group="g")
    for address in ("g/../g/v", "./g/v", "../v"):
        with pytest.raises(SourceError, match="no variable"):
            locate(str(tmp_path / "a.nc"), address, CONTEXT_SOURCE)


@needs_proc
def test_a_small_piece_of_a_variable_of_few_chunks_opens_its_file_once(tmp_path):
    values = np.arange(48, dtype="i4").reshape(8, 6)
    nca_files.fragment(tmp_path / "a.nc", "v", values, ["y", "x"], chunksizes=(4, 3), zlib=True)
    close_files()
    before = counters.snapshot()
    located = locate(str(tmp_path / "a.nc"), "v", CONTEXT_SOURCE)
    assert read(located, [slice(3, 5, 1), slice(5, 6, 1)], CONTEXT_SOURCE).tolist() == [[23], [29]]
    assert (counters.snapshot() - before).files == 1
    held = [str(fd.readlink()) for fd in pathlib.Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert held.count(str(tmp_path / "a.nc")) == 1


def test_names_that_are_not_utf8_are_damage_of_the_file(tmp_path):
    path = nca_files.fragment(tmp_path / "a.nc", "v", np.arange(3.0), ["x"], {"title": "a"}, format="NETCDF3_CLASSIC")
    path.write_bytes(path.read_bytes().replace(b"title", b"ti\xffle"))
    with pytest.raises(SourceError):
        open_source(path)


def test_nothing_is_left_open_of_a_file_that_netcdf4_opens_by_half(tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes((pathlib.Path(damaged.__file__).parent / "files" / "opened_by_half.h5").read_bytes())

    def left():
        return [d for d in gc.get_objects() if type(d) is netCDF4.Dataset and d.isopen() and d.filepath() == str(path)]

    gc.disable()
    try:
        # The library may take the file as a whole, for it goes by what stood in memory before; often it does not.
        try:
            netCDF4.Dataset(path).close()
        except AttributeError:
            assert len(left()) == 1
        gc.collect()
        with contextlib.suppress(AttributeError):
            netcdf.dataset_of(str(path), "r").close()
        assert left() == []
    finally:
        gc.enable()


def test_members_of_compounds_are_told_by_name_while_someone_else_reads_the_file(tmp_path):
    # The netCDF library lists them by their places then, and otherwise in the order of the type.
    path = tmp_path / "a.nc"
    layout = {"names": ["b", "a"], "formats": ["<f8", "<u4"], "offsets": [25, 0], "itemsize": 40}
    values = np.array([(3.25, 7)] * 3, np.dtype(layout))
    with h5py.File(path, "w") as file:
        file["v"] = values
    found = locate(path, "v", CONTEXT_SOURCE)
    with netCDF4.Dataset(path) as other:
        other["v"][...]
        block = read(found, [slice(0, 3)], CONTEXT_SOURCE)
    assert block.dtype == found.header.dtype
    assert (block["b"].tolist(), block["a"].tolist()) == ([3.25] * 3, [7] * 3)
