"""The xarray engine."""

import pickle
import threading

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import CfaggWarning, FragmentNotFoundError, OptionError, SourceError
from cfagg.formats.values import filters
from cfagg.labelled.engine import CfaggBackendEntrypoint
from cfagg.storage import counters
from tests import nca_files

MASTER = (np.arange(10 * 6 * 8) % 97).astype("f4").reshape(10, 6, 8)
COORDINATES = {
    "time": (["time"], np.arange(10.0), {"units": "days since 2000-01-01", "bounds": "time_bnds", "axis": "T"}),
    "time_bnds": (["time", "bnds"], np.arange(10.0)[:, None] + [0, 1], {}),
    "lat": (["lat"], np.linspace(-75, 75, 6), {"units": "degrees_north"}),
    "lon": (["lon"], np.arange(8) * 45.0, {"units": "degrees_east"}),
}


@pytest.fixture
def path(tmp_path):
    return nca_files.simple(
        tmp_path,
        MASTER,
        ["time", "lat", "lon"],
        [[0, 3, 4, 10], [0, 6], [0, 5, 8]],
        attributes={"units": "K", "standard_name": "air_temperature"},
        coordinates=COORDINATES,
    )


@pytest.fixture
def expected():
    ds = xr.Dataset(
        {"tas": (("time", "lat", "lon"), MASTER, {"units": "K", "standard_name": "air_temperature"})},
        {k: (d, v, a) for k, (d, v, a) in COORDINATES.items() if k != "time_bnds"},
        {"Conventions": "CF-1.5"},
    )
    ds["time_bnds"] = COORDINATES["time_bnds"][:2]
    return xr.decode_cf(ds)


def test_the_dataset_is_the_one_that_the_single_array_would_give(path, expected):
    ds = xr.open_dataset(path, engine="cfagg")
    xr.testing.assert_identical(ds.load(), expected)


@pytest.mark.parametrize("first", [slice(None, None, -1), slice(8, 1, -2)])
@pytest.mark.parametrize("second", [slice(1, 1), slice(0, 0), slice(3, 1)])
def test_nothing_of_a_reversed_array_is_an_empty_array(path, first, second):
    tas = xr.open_dataset(path, engine="cfagg").tas
    assert tas.isel(time=first).isel(time=second).values.shape == (0, 6, 8)
    assert tas.isel(time=first).isel(time=second, lat=[3, 1]).values.shape == (0, 2, 8)


def test_opening_opens_no_partition(path):
    for file in (path.parent / "parts").iterdir():
        file.unlink()
    ds = xr.open_dataset(path, engine="cfagg")
    assert ds.tas.shape == (10, 6, 8)
    with pytest.raises(FragmentNotFoundError, match=r"partition \(0, 0, 0\)"):
        ds.tas.load()


def test_chunks_follow_the_partitions(path, expected):
    ds = xr.open_dataset(path, engine="cfagg", chunks={})
    assert ds.tas.chunks == ((3, 1, 6), (6,), (5, 3))
    xr.testing.assert_identical(ds.compute(), expected)


def test_a_chunk_opens_its_own_partition_only(path):
    ds = xr.open_dataset(path, engine="cfagg", chunks={})
    before = counters.snapshot()
    ds.tas.data.blocks[1, 0, 1].compute(scheduler="synchronous")
    done = counters.snapshot() - before
    assert done.files <= 2
    assert done.bytes == 1 * 6 * 3 * 4


INDEXERS = {
    "basic": {"time": slice(1, 8, 3), "lat": 2},
    "negative steps": {"time": slice(None, None, -2), "lon": slice(6, 1, -3)},
    "outer": {"time": [9, 0, 3, 3], "lon": [7, 1]},
    "mask": {"lat": np.array([True, False, True, True, False, False])},
    "vectorized": {"time": xr.DataArray([9, 2, 2, 0], dims="p"), "lat": xr.DataArray([0, 5, 5, 1], dims="p")},
    "vectorized 2-d": {"time": xr.DataArray([[9, 2], [2, 0]], dims=("p", "q")), "lon": xr.DataArray([3, 7], dims="q")},
    "scalar": {"time": -1, "lat": 0, "lon": 5},
    "nothing": {"time": slice(0, 0)},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("indexer", INDEXERS.values(), ids=INDEXERS)
def test_every_way_of_indexing_equals_numpy(path, expected, indexer):
    ds = xr.open_dataset(path, engine="cfagg")
    xr.testing.assert_identical(ds.isel(indexer).load(), expected.isel(indexer))


def test_indexing_is_lazy_and_composed(path, expected):
    lazy = xr.open_dataset(path, engine="cfagg").tas[::-1][2:, 1][:, [4, 0]]
    before = counters.snapshot()
    xr.testing.assert_identical(lazy.load(), expected.tas[::-1][2:, 1][:, [4, 0]])
    # Gaps of a few bytes are read through, other rows of other partitions are not.
    assert (counters.snapshot() - before).bytes < MASTER.nbytes // 2


def test_a_dataset_is_pickled_lazily_and_reads_in_the_copy(path, expected):
    for chunks in (None, {}):
        ds = xr.open_dataset(path, engine="cfagg", chunks=chunks)
        copy = pickle.loads(pickle.dumps(ds))
        assert len(pickle.dumps(ds)) < 40_000
        xr.testing.assert_identical(copy.load(), expected)


@pytest.mark.full
def test_a_process_of_dask_distributed_reads_the_partitions(path, expected):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        ds = xr.open_dataset(path, engine="cfagg", chunks={})
        assert float(ds.tas.sum()) == float(MASTER.sum())
        xr.testing.assert_identical(ds.compute(), expected)


def test_threads_that_read_through_other_engines_at_the_same_time_do_not_interfere(path, expected, tmp_path):
    expected.tas.to_netcdf(tmp_path / "plain.nc", engine="netcdf4")
    # xarray opens and closes files of its own engines without its lock, so those are opened beforehand.
    plain = [xr.open_dataset(tmp_path / "plain.nc", engine="netcdf4", cache=False) for _ in "12"]
    wrong = []

    def other(ds):
        wrong.extend("netcdf4" for _ in range(60) if not np.array_equal(ds.tas.values, MASTER))

    def ours(_):
        for _ in range(15):
            with xr.open_dataset(path, engine="cfagg") as ds:
                if not np.array_equal(ds.tas.values, MASTER):
                    wrong.append("cfagg")

    jobs = [*((other, ds) for ds in plain), (ours, None), (ours, None)]
    threads = [threading.Thread(target=work, args=(argument,)) for work, argument in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for ds in plain:
        ds.close()
    assert wrong == []


FILTERS = ["zlib", "szip", "zstd", "bzip2", "blosc"]


def packed(path, codec) -> None:
    """Write an array with a filter, or skip the test where the netCDF library lacks it."""
    with netCDF4.Dataset(path, "w") as file:
        family = codec.partition("_")[0]
        if codec != "zlib" and not getattr(file, f"has_{family}_filter")():
            pytest.skip(f"this netCDF library cannot write {family}")
        file.createDimension("x", 2000)
        options = {"complevel": 7, "chunksizes": (500,), "fletcher32": True, "szip_pixels_per_block": 16}
        file.createVariable("v", "f4", ("x",), compression=codec, **options)[:] = np.arange(2000)


@pytest.mark.parametrize(("codec", "written"), [
    ("zlib", "zlib"), ("zstd", "zstd"), ("bzip2", "bzip2"), ("szip", "szip"), ("blosc_lz4", "zlib"),
])  # fmt: skip
def test_arrays_are_written_to_netcdf_with_the_filter_they_came_with_or_with_deflate(tmp_path, codec, written):
    packed(tmp_path / "a.nc", codec)
    cfagg.read(tmp_path / "a.nc").to_netcdf(tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc") as b:
        found = b["v"].filters()
        assert [name for name in FILTERS if found[name]] == [written]
        assert found == a["v"].filters() or codec == "blosc_lz4"
        np.testing.assert_array_equal(b["v"][:], np.arange(2000))


def test_arrays_are_written_with_deflate_where_the_netcdf_library_lacks_their_filter(tmp_path, monkeypatch):
    packed(tmp_path / "a.nc", "zstd")
    monkeypatch.setattr(filters, "filters_written", frozenset)
    encoding = cfagg.read(tmp_path / "a.nc").v.encoding
    assert "compression" not in encoding
    assert (encoding["zlib"], encoding["complevel"], encoding["shuffle"]) == (True, 4, True)


def test_encoding_says_how_the_array_is_stored(path):
    encoding = xr.open_dataset(path, engine="cfagg").tas.encoding
    assert encoding["dtype"] == np.dtype("f4")
    assert encoding["source"] == str(path)
    assert encoding["original_shape"] == (10, 6, 8)
    assert encoding["preferred_chunks"] == {"time": (3, 1, 6), "lat": (6,), "lon": (5, 3)}


def test_what_was_read_can_be_written_as_plain_netcdf_and_read_again(path, expected, tmp_path):
    xr.open_dataset(path, engine="cfagg").to_netcdf(tmp_path / "plain.nc")
    with xr.open_dataset(tmp_path / "plain.nc", engine="netcdf4") as ds:
        np.testing.assert_array_equal(ds.tas, expected.tas)
        assert not any(k.startswith("nca_") for k in ds.tas.attrs)


def test_a_packed_master_with_missing_values_is_decoded_by_xarray(tmp_path):
    raw = np.array([[1, 2], [-99, 4], [5, 6]], "i2")
    path = nca_files.simple(
        tmp_path, raw, ["t", "y"], [[0, 1, 3], [0, 2]], attributes={"scale_factor": 0.5}, fill_value=np.int16(-99)
    )
    with netCDF4.Dataset(path) as ds:
        content = ds["tas"].nca_array
    path.unlink()
    nca_files.aggregation(path, "tas", "i2", {"t": 3, "y": 2}, content, {"scale_factor": 0.5}, fill_value=np.int16(-99))
    np.testing.assert_array_equal(xr.open_dataset(path, engine="cfagg").tas, [[0.5, 1], [np.nan, 2], [2.5, 3]])
    stored = xr.open_dataset(path, engine="cfagg", mask_and_scale=False).tas
    np.testing.assert_array_equal(stored, raw)
    assert stored.dtype == np.dtype("i2")


@pytest.mark.parametrize("opened", [cfagg.read, lambda path: cfagg.aggregate([path])])
def test_a_missing_value_as_text_makes_nothing_missing_and_is_told(tmp_path, opened):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("a", "f4", ("x",))[:] = [1, -9999]
        ds["a"].setncattr_string("missing_value", "-9999")
    with pytest.warns(CfaggWarning, match=r"a\.nc.*'a'.*missing_value = '-9999' is text"):
        assert opened(tmp_path / "a.nc").a.values.tolist() == [1, -9999]


def test_the_engine_recognises_aggregations_and_leaves_everything_else(path, tmp_path):
    engine = CfaggBackendEntrypoint()
    (tmp_path / "text.nca").write_text("not netCDF")
    assert engine.guess_can_open(path)
    assert engine.guess_can_open(str(path))
    for other in (
        tmp_path / "parts" / "0_0_0.nc",
        tmp_path / "text.nca",
        tmp_path / "gone.nca",
        tmp_path,
        b"CDF\x01",
        7,
    ):
        assert not engine.guess_can_open(other)


def test_plain_netcdf_is_not_hijacked(path):
    with xr.open_dataset(path.parent / "parts" / "0_0_0.nc") as ds:
        assert ds.tas.shape == (3, 6, 5)
        assert "preferred_chunks" not in ds.tas.encoding


def test_what_is_not_a_path_is_refused():
    with pytest.raises(SourceError, match="bytes"):
        CfaggBackendEntrypoint().open_dataset(b"CDF\x01")


def add_group(path):
    with netCDF4.Dataset(path, "a") as ds:
        group = ds.createGroup("model/run")
        variable = group.createVariable("tas2", "f4", ())
        variable.setncatts({k: v for k, v in ds["tas"].__dict__.items() if k != "_FillValue"})


def test_groups_open_as_a_tree_and_one_by_one(path):
    add_group(path)
    tree = xr.open_datatree(path, engine="cfagg", chunks={})
    assert tree.groups == ("/", "/model", "/model/run")
    np.testing.assert_array_equal(tree["/model/run/tas2"], MASTER)
    groups = xr.open_groups(path, engine="cfagg")
    assert sorted(groups) == ["/", "/model", "/model/run"]
    ds = xr.open_dataset(path, engine="cfagg", group="model/run")
    assert list(ds.data_vars) == ["tas2"]
    np.testing.assert_array_equal(ds.tas2, MASTER)


@pytest.mark.parametrize("group", ["model", "/model", "model/", "/model//run", "model/run"])
def test_a_tree_of_a_group_begins_at_that_group(path, group):
    add_group(path)
    tree = xr.open_datatree(path, engine="cfagg", group=group)
    assert tree.groups == (("/",) if "run" in group else ("/", "/run"))
    np.testing.assert_array_equal(tree["tas2" if "run" in group else "run/tas2"], MASTER)


@pytest.mark.parametrize("opened", [xr.open_dataset, xr.open_datatree])
def test_a_group_that_is_no_path_is_refused(path, opened):
    with pytest.raises(OptionError, match="group: found an object of type tuple"):
        opened(path, engine="cfagg", group=("model", "run"))


@pytest.mark.parametrize("how", ["closed", "block", "child closed"])
def test_others_may_write_a_file_whose_tree_was_closed(tmp_path, how):
    path = tmp_path / "tree.nc"
    written = xr.DataTree.from_dict({"/": xr.Dataset({"a": ("x", [1, 2])}), "/b": xr.Dataset({"c": ("y", [1.0])})})
    written.to_netcdf(path)
    tree = xr.open_datatree(path, engine="cfagg")
    with pytest.raises(PermissionError):
        written.to_netcdf(path)
    if how == "closed":
        tree.close()
    elif how == "child closed":
        tree["b"].close()
    else:
        with tree:
            tree.load()
    written.to_netcdf(path)


def test_variables_can_be_dropped(path):
    assert list(xr.open_dataset(path, engine="cfagg", drop_variables=["tas"]).data_vars) == ["time_bnds"]


@pytest.fixture
def written(tmp_path):
    values = {"tas": ("x", np.arange(3.0)), "name": ("x", np.array(["a", "b", "c"], object))}
    xr.Dataset(values).to_netcdf(tmp_path / "plain.nc")
    return xr.Dataset(values)


@pytest.mark.parametrize("how", ["closed", "block", "loaded", "loaded in place", "dropped", "never kept"])
def test_others_may_write_a_file_that_was_read(tmp_path, written, how):
    path = tmp_path / "plain.nc"
    ds = xr.open_dataset(path, engine="cfagg")
    if how == "closed":
        ds.close()
    elif how == "block":
        with ds:
            ds.load()
    elif how == "loaded":
        ds = xr.load_dataset(path, engine="cfagg")
    elif how == "loaded in place":
        ds.load()
    elif how == "dropped":
        del ds
    else:
        ds = ds.tas.sum().compute()
    with netCDF4.Dataset(path, "a") as file:
        file.note = "appended"
    assert xr.open_dataset(path, engine="cfagg").attrs["note"] == "appended"
    written.to_netcdf(path, engine="netcdf4")
    with h5py.File(path, "a") as file:
        file.attrs["note"] = "by another library"
    xr.testing.assert_identical(xr.open_dataset(path, engine="cfagg").load().drop_attrs(), written)


@pytest.mark.parametrize(
    "part", [lambda ds: ds, lambda ds: ds[["tas"]], lambda ds: ds.copy(deep=True), lambda ds: ds.chunk()]
)
def test_a_file_is_not_overwritten_by_values_that_are_yet_to_be_read_from_it(tmp_path, written, part):
    path = tmp_path / "plain.nc"
    some = part(xr.open_dataset(path, engine="cfagg"))
    with pytest.raises(OSError, match="denied"):
        some.to_netcdf(path)
    with pytest.raises(OSError, match="already open"):
        h5py.File(path, "w")
    xr.testing.assert_identical(xr.load_dataset(path), written)


def test_what_one_dataset_reads_is_kept_where_another_is_closed(tmp_path, written):
    path = tmp_path / "plain.nc"
    one, other = (xr.open_dataset(path, engine="cfagg") for _ in range(2))
    other.close()
    with pytest.raises(OSError, match="denied"):
        one.to_netcdf(path)
    one.close()
    written.to_netcdf(path)


def test_a_dataset_that_was_sent_to_another_process_can_be_closed_there(tmp_path, written):
    there = pickle.loads(pickle.dumps(xr.open_dataset(tmp_path / "plain.nc", engine="cfagg")))
    xr.testing.assert_identical(there.load(), written)
    there.close()


def test_fragments_may_be_written_while_their_aggregation_is_open(path, tmp_path):
    ds = xr.open_dataset(path, engine="cfagg")
    ds.tas.load()
    fragments = sorted(p for p in tmp_path.rglob("*.nc") if p != path)
    assert fragments
    for each in fragments:
        with netCDF4.Dataset(each, "a") as file:
            file.note = "appended"


def test_text_of_an_aggregation_is_read_where_it_is_asked_for(tmp_path):
    for k, names in enumerate((["Kiel", "Oslo"], ["Reykjavik", "Bergen"])):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "i4", ("time",))
            time.setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            time[:] = [2 * k, 2 * k + 1]
            port = file.createVariable("port", str, ("time",))
            port.standard_name = "region"
            port[:] = np.array(names, object)
    cfagg.aggregate([tmp_path / "0.nc", tmp_path / "1.nc"], output=tmp_path / "all.nc")
    (tmp_path / "1.nc").rename(tmp_path / "away.nc")
    ds = xr.open_dataset(tmp_path / "all.nc", engine="cfagg")
    assert ds.port[:2].values.tolist() == ["Kiel", "Oslo"]
    (tmp_path / "away.nc").rename(tmp_path / "1.nc")
    assert ds.port.max() == "Reykjavik"
    ds.to_netcdf(tmp_path / "copy.nc")
    with netCDF4.Dataset(tmp_path / "copy.nc") as file:
        assert file["port"].dtype is str
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "copy.nc").port.drop_encoding(), ds.port)
