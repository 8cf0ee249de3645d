"""The proof that a lazy array is a selection of a stored one: what counts as proved, and that it is true."""

import dask
import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

import cfagg
from cfagg.accumulation.provenance import Decoding, UntracedError, trace
from tests.accumulation.reference import write_source
from tests.effort import examples

RAW = np.arange(24 * 6 * 8).reshape(24, 6, 8).astype("i2")
ATTRIBUTES = {"scale_factor": 0.5, "add_offset": 2.0, "_FillValue": 5, "units": "K"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("provenance") / "a.zarr"
    write_source(path, "tas", RAW, ("time", "lat", "lon"), (10, 4, 8), attributes=ATTRIBUTES)
    write_source(path, "deep/ta", RAW.astype(">f4"), ("time", "lat", "lon"), (10, 4, 8), coordinates=False)
    return path


OPENERS = {
    "open_zarr": lambda path: xr.open_zarr(path, consolidated=False, chunks=None),
    "open_zarr, dask": lambda path: xr.open_zarr(path, consolidated=False),
    "open_zarr, larger chunks": lambda path: xr.open_zarr(path, consolidated=False, chunks={"time": 20, "lat": -1}),
    "open_dataset": lambda path: xr.open_dataset(path, engine="zarr", consolidated=False),
    "read": cfagg.read,
    "read, dask": lambda path: cfagg.read(path, chunks={}),
    "chunked later": lambda path: cfagg.read(path).chunk(time=7),
}


def values(origin):
    """What an origin says the values are, read by zarr-python."""
    raw = zarr.open_array(origin.store, path=origin.path, mode="r")[...]
    out = raw.astype("f8") * origin.decoding.scale + origin.decoding.offset
    for fill in origin.decoding.fills:
        out[raw == fill] = np.nan
    for axis in range(out.ndim - 1, -1, -1):
        picked = origin.picked[axis]
        out = np.take(out, picked if isinstance(picked, int) else np.asarray(picked, "i8"), axis)
    return out


@pytest.mark.parametrize("opener", OPENERS)
def test_an_opened_variable_is_traced(store, opener):
    array = OPENERS[opener](store).tas
    origin = trace(array.variable)
    assert (origin.store, origin.path, origin.shape, origin.dtype) == (str(store), "tas", RAW.shape, np.dtype("i2"))
    assert origin.decoding == Decoding(fills=frozenset({5}), scale=0.5, offset=2.0)
    np.testing.assert_array_equal(values(origin), array.values)


def test_nothing_is_read(store, monkeypatch):
    from xarray.backends.zarr import ZarrArrayWrapper

    array = cfagg.read(store).tas.isel(time=slice(3, 9))
    monkeypatch.setattr(ZarrArrayWrapper, "__getitem__", lambda *_: pytest.fail("read"))
    assert trace(array.variable).picked[0] == range(3, 9)


KEYS = st.tuples(
    *(
        st.one_of(st.integers(-n, n - 1), st.slices(n), st.lists(st.integers(-n, n - 1), min_size=1, max_size=4))
        for n in RAW.shape
    )
)


@settings(max_examples=examples(60))
@given(opener=st.sampled_from(sorted(OPENERS)), first=KEYS, second=st.slices(3))
def test_selections_are_traced_truly_or_not_at_all(store, opener, first, second):
    def select(array):
        array = array.isel(dict(zip(array.dims, first, strict=True)))
        return array.isel({array.dims[0]: second}) if array.ndim else array

    array = select(OPENERS[opener](store).tas)
    try:
        origin = trace(array.variable)
    except UntracedError:
        # dask's own way with lists is not followed, and xarray loads what is empty.
        assert any(isinstance(k, list) for k in first) or not array.size
        return
    # Of what is loaded: some empty selections of lazy arrays are beyond xarray.
    expected = select(cfagg.read(store).tas.load())
    # dask takes an element where NumPy finds none before the first, as in a[-2:-3:-1] of one element.
    np.testing.assert_array_equal(values(origin), (expected if expected.shape == array.shape else array).values)


@pytest.mark.parametrize("opener", ["open_zarr", "open_zarr, dask"])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.rename("other").rename(time="t"),
        lambda a: a.assign_coords(time=np.arange(24) + 100),
        lambda a: a.copy(deep=True),
        lambda a: a.assign_attrs(units="degC"),
        lambda a: a.sel(lat=slice(2, 4)),
        lambda a: a.to_dataset(name="x").x,
    ],
)
def test_changes_that_leave_the_values_alone_are_traced(store, opener, change):
    array = change(OPENERS[opener](store).tas)
    np.testing.assert_array_equal(values(trace(array.variable)), array.values)


def _set_one(array):
    array[0, 0, 0] = 7
    return array


def _set_in_place(array):
    array.load()
    array.values[0, 0, 0] = 7
    return array


@pytest.mark.few(10)
@pytest.mark.parametrize("opener", ["open_zarr", "open_zarr, dask"])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a + 0,
        lambda a: a * 1.0,
        lambda a: -a,
        lambda a: a.where(a > 3),
        lambda a: a.fillna(0),
        lambda a: a.clip(0, 10),
        lambda a: a.astype("f4"),
        lambda a: a.shift(time=1),
        lambda a: a.roll(time=1, roll_coords=False),
        lambda a: a.pad(time=1),
        lambda a: a.transpose("lat", "time", "lon"),
        lambda a: a.expand_dims("run"),
        lambda a: a.stack(p=("lat", "lon")),
        lambda a: a.isel(lat=xr.DataArray([0, 1], dims="p"), lon=xr.DataArray([0, 1], dims="p")),
        lambda a: xr.concat([a, a], "time"),
        lambda a: xr.concat([a.isel(time=slice(0, 10)), a.isel(time=slice(10, None))], "time"),
        lambda a: a.isel(time=[0, 1]).broadcast_like(a),
        lambda a: a.cumsum("time"),
        lambda a: a.load(),
        lambda a: a.compute(),
        lambda a: xr.apply_ufunc(np.sqrt, a, dask="allowed"),
        lambda a: xr.zeros_like(a),
        lambda a: a.copy(data=a.values),
        _set_one,
        _set_in_place,
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_changed_copies_are_not_traced(store, opener, change):
    array = change(OPENERS[opener](store).tas)
    array.encoding = OPENERS[opener](store).tas.encoding  # what travels with copies proves nothing
    with pytest.raises(UntracedError):
        trace(array.variable)


@pytest.mark.parametrize(
    "change", [lambda a: a.persist(), lambda a: a.map_blocks(lambda x: x, template=a), lambda a: a.chunk(time=7)]
)
def test_other_tasks_of_dask_are_not_traced(store, change):
    with pytest.raises(UntracedError):
        trace(change(OPENERS["open_zarr, dask"](store).tas).variable)


def test_a_value_set_through_a_second_name_is_noticed(store):
    array = cfagg.read(store).tas
    same = array[:]
    array[0, 0, 0] = 7
    with pytest.raises(UntracedError, match="in memory"):
        trace(array.variable)
    # The slice was made before, and stays what is stored.
    np.testing.assert_array_equal(values(trace(same.variable)), same.values)


def test_optimised_graphs_are_not_mistaken(store):
    (array,) = dask.optimize(xr.open_zarr(store, consolidated=False).tas.isel(time=slice(3, 15)))
    try:
        origin = trace(array.variable)
    except UntracedError:
        return
    np.testing.assert_array_equal(values(origin), array.values)


def test_raw_values_are_told_from_decoded_ones(store):
    for chunks in (None, {}):
        raw = xr.open_zarr(store, consolidated=False, chunks=chunks, mask_and_scale=False).tas
        assert trace(raw.variable).decoding == Decoding()
        decoded = xr.decode_cf(xr.open_zarr(store, consolidated=False, chunks=None, mask_and_scale=False)).tas
        assert trace(decoded.variable).decoding.scale == 0.5


def test_unsigned_values_are_seen(tmp_path):
    attributes = {"_Unsigned": "true", "_FillValue": -1}
    write_source(tmp_path / "u.zarr", "n", RAW.astype("i1"), ("a", "b", "c"), (10, 4, 8), attributes=attributes)
    origin = trace(cfagg.read(tmp_path / "u.zarr").n.variable)
    assert origin.decoding == Decoding(unsigned=True, fills=frozenset({255}))


def test_groups_and_big_endian_values_are_traced(store):
    for chunks in (None, {}):
        array = xr.open_zarr(store, group="deep", consolidated=False, chunks=chunks).ta
        origin = trace(array.variable)
        assert (origin.path, origin.dtype) == ("deep/ta", np.dtype("f4"))
        np.testing.assert_array_equal(values(origin), array.values)


def test_dates_and_flags_are_not_traced(tmp_path):
    write_source(
        tmp_path / "t.zarr", "when", RAW, ("a", "b", "c"), (10, 4, 8), attributes={"units": "days since 2000-1-1"}
    )
    with pytest.raises(UntracedError):
        trace(cfagg.read(tmp_path / "t.zarr").when.variable)
    write_source(
        tmp_path / "b.zarr", "flag", (RAW % 2).astype("i1"), ("a", "b", "c"), (10, 4, 8), attributes={"dtype": "bool"}
    )
    with pytest.raises(UntracedError):
        trace(cfagg.read(tmp_path / "b.zarr").flag.variable)


def test_what_is_not_in_a_directory_is_not_traced(store, tmp_path):
    memory = zarr.storage.MemoryStore()
    xr.Dataset({"x": ("a", np.arange(3.0))}).to_zarr(memory, consolidated=False)
    with pytest.raises(UntracedError, match="not a directory"):
        trace(xr.open_zarr(memory, consolidated=False, chunks=None).x.variable)
    xr.Dataset({"tas": ("a", np.arange(3.0))}).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(UntracedError, match="not come from a Zarr store"):
        trace(cfagg.read(tmp_path / "a.nc").tas.variable)


def test_a_long_chain_of_selections_is_followed(store):
    array = xr.open_zarr(store, consolidated=False).tas
    for _ in range(20):
        array = array.isel(time=slice(1, None))
    assert trace(array.variable).picked[0] == range(20, 24)
