"""Reading selections of aggregations, against NumPy arrays made by hand."""

import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.stored import NetcdfReader
from cfagg.errors import (
    ConformError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    OptionError,
    SelectionError,
    SourceError,
)
from cfagg.formats.values import reading
from cfagg.storage import counters
from cfagg.storage.access import Access
from tests import nca_files, strategies
from tests.effort import examples
from tests.systems import proc


def open_reader(path, name="tas", **options):
    group, found = open_source(path).find(name)
    allow = options.pop("allow", ())
    return AggregationReader(found, Access(path, allow), group=group.path, **options)


def whole(reader):
    return reader.read([slice(None)] * len(reader.shape))


def values(*shape, dtype="f4"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def edit(path, change, name="tas"):
    """Change the JSON of an NCA file."""
    with netCDF4.Dataset(path, "a") as ds:
        content = json.loads(ds[name].nca_array)
        change(content)
        ds[name].nca_array = json.dumps(content)


@pytest.fixture
def master():
    return values(10, 6, 8)


@pytest.fixture
def agg(tmp_path, master):
    return nca_files.simple(tmp_path, master, ["time", "lat", "lon"], [[0, 3, 4, 10], [0, 6], [0, 5, 8]])


SELECTIONS = [
    (slice(None), slice(None), slice(None)),
    (slice(2, 9, 2), slice(None, None, -1), slice(1, 7, 3)),
    (slice(None, None, -3), 2, slice(6, None, -2)),
    (-1, -1, -1),
    (np.array([9, 0, 0, 3]), slice(0, 0), slice(None)),
    (np.array([9, 0, 0, 3]), np.array([5, 1]), np.array([7, 0, 4, 4, 5])),
    (np.arange(10) % 3 == 0, 0, np.array([-1, -8])),
    (slice(100, 200), slice(None), slice(None)),
]


def outer(array, selection):
    """NumPy's answer to outer indexing."""
    drop = []
    for d, key in enumerate(selection):
        if isinstance(key, int):
            drop.append(d)
            key = [key]
        array = array[(slice(None),) * d + (key,)]
    return array.reshape([n for d, n in enumerate(array.shape) if d not in drop])


@pytest.mark.parametrize("selection", SELECTIONS, ids=range(len(SELECTIONS)))
def test_every_kind_of_selection_equals_numpy(agg, master, selection):
    found = open_reader(agg).read(selection)
    np.testing.assert_array_equal(found, outer(master, selection))
    assert found.dtype == master.dtype


@pytest.mark.parametrize("selection", SELECTIONS, ids=range(len(SELECTIONS)))
def test_reading_into_an_output_fills_a_strided_view_and_nothing_around_it(agg, master, selection):
    expected = outer(master, selection)
    room = np.full([2 * n + 2 for n in expected.shape], -1, "f4")
    view = room[(..., *(slice(1, 1 + 2 * n, 2) for n in expected.shape))]
    open_reader(agg).read(selection, view)
    np.testing.assert_array_equal(view, expected)
    assert (room == -1).sum() == room.size - expected.size + (expected == -1).sum()


def test_reading_into_an_output_refuses_an_output_of_another_shape_or_type(agg):
    reader = open_reader(agg)
    with pytest.raises(SelectionError, match=r"shape \(10, 6, 8\)"):
        reader.read([slice(None)] * 3, np.empty((10, 6, 7), "f4"))
    with pytest.raises(SelectionError, match="float32"):
        reader.read([slice(None)] * 3, np.empty((10, 6, 8), "f8"))


def test_a_scalar_master_is_read(tmp_path):
    path = nca_files.simple(tmp_path, np.array(3.5, "f4"), [], [])
    assert open_reader(path).read([]) == np.float32(3.5)


def test_size_1_dimensions_the_master_does_not_span_are_dropped(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(1, 4, 1, 3), ["height", "lat", "member", "lon"])

    def describe(index, location):
        return {
            "dimensions": ["height", "lat", "member", "lon"],
            "directions": {"height": False, "member": True},
            "data": {"file": "a.nc", "ncvar": "tas", "shape": [1, 4, 1, 3]},
        }

    path = nca_files.aggregation(
        tmp_path / "agg.nca",
        "tas",
        "f4",
        {"lat": 4, "lon": 3, "height": 1, "member": 1},
        nca_files.array(["lat", "lon"], [[0, 4], [0, 3]], describe),
        dims=["lat", "lon"],
    )
    np.testing.assert_array_equal(whole(open_reader(path)), values(4, 3))


def test_a_size_1_master_dimension_absent_from_the_sub_array_is_added(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(4), ["lat"])

    def describe(index, location):
        return {"dimensions": ["lat"], "data": {"file": "a.nc", "ncvar": "tas", "shape": [4]}}

    content = nca_files.array(["time", "lat"], [[0, 1], [0, 4]], describe)
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"time": 1, "lat": 4}, content)
    np.testing.assert_array_equal(whole(open_reader(path)), values(1, 4))


@st.composite
def parts(draw, n):
    """Some way to find n elements in a longer axis: text of the part, indices, length of the axis."""
    kind = draw(st.sampled_from(["whole", "range", "reversed", "list"]))
    if kind == "whole":
        return f"(0, {n}, 1)", np.arange(n), n
    if kind == "list":
        size = n + draw(st.integers(0, 4))
        index = draw(st.permutations(range(size)))[:n]
        return json.dumps(index), np.array(index, int), size
    start, step = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    index = start + step * np.arange(n)
    size = int(index[-1]) + 1 + draw(st.integers(0, 2))
    if kind == "reversed":
        return f"({index[-1]}, {start - 1}, {-step})", index[::-1], size
    return f"({start}, {index[-1] + 1}, {step})", index, size


@st.composite
def aggregations(draw):
    """A random NCA aggregation: (dims, edges, and per partition how it is stored), with its selection."""
    dims = ["t", "y", "x"][: draw(st.integers(1, 3))]
    edges = [draw(strategies.edges(max_cells=3, max_size=4).filter(lambda e: len(e) > 1)) for _ in dims]
    count = int(np.prod([len(e) - 1 for e in edges]))
    stored = []
    for cell in range(count):
        index = np.unravel_index(cell, [len(e) - 1 for e in edges])
        extent = {d: int(e[i + 1] - e[i]) for d, e, i in zip(dims, edges, index, strict=True)}
        order = draw(st.permutations([*dims, "z"] if draw(st.booleans()) else dims))
        stored.append(
            {
                "order": order,
                "flipped": {d for d in dims if draw(st.booleans())},
                "part": [draw(parts(extent.get(d, 1))) for d in order] if draw(st.booleans()) else None,
                "dtype": draw(st.sampled_from(["i2", "i4", "f4", "f8"])),
                "packing": draw(st.sampled_from([None, (0.5, 30.0), (2.0, -60.0)])),
                "minutes": draw(st.booleans()),
                "format": draw(st.sampled_from(["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "private"])),
                "compression": draw(st.sampled_from([None, "zlib", "zstd"])),
            }
        )
    shape = [int(e[-1]) for e in edges]
    selection = [
        draw(
            strategies.slices(n)
            | st.integers(-n, n - 1)
            | st.lists(st.integers(-n, n - 1), max_size=5).map(lambda v: np.array(v, int))
        )
        for n in shape
    ]
    return dims, edges, stored, selection, draw(st.integers(0, 2**16))


def write_case(folder, dims, edges, stored, seed):
    """Write the case and return its path and the master array."""
    rng = np.random.default_rng(seed)
    shape = [int(e[-1]) for e in edges]
    master = (rng.integers(-100, 100, shape) * 120).astype("f4")
    missing = rng.random(shape) < 0.2
    private = {}
    sizes = {**dict(zip(dims, shape, strict=True)), "z": 1}

    def describe(index, location):
        k = int(np.ravel_multi_index(index, [len(e) - 1 for e in edges]))
        how = stored[k]
        box = tuple(slice(a, b) for a, b in location)
        data, gone = master[box].astype("f8"), missing[box]
        out = {"data": {}}
        if how["minutes"]:
            data = data / 60
            out["units"] = "minutes"
        attributes = {}
        if how["packing"]:
            scale, offset = how["packing"]
            data = (data - offset) / scale
            attributes = {"scale_factor": scale, "add_offset": offset}
        data = np.where(gone, -32000, data).astype(how["dtype"])
        for d, name in enumerate(dims):
            if name in how["flipped"]:
                data = np.flip(data, d)
        data = data.reshape((*data.shape, 1)).transpose(
            [[*dims, "z"].index(d) for d in how["order"]] + [len(dims)] * ("z" not in how["order"])
        )
        data = data.reshape(data.shape[: len(how["order"])])
        if how["part"] is not None:
            whole = np.full([size for _, _, size in how["part"]], 7, how["dtype"])
            whole[np.ix_(*(i for _, i, _ in how["part"]))] = data
            data = whole
            out["part"] = "[" + ", ".join(t for t, _, _ in how["part"]) + "]"
        out["dimensions"] = list(how["order"])
        out["directions"] = {d: d not in how["flipped"] for d in how["order"]}
        out["data"] = {
            "ncvar": f"v{k}",
            "shape": list(data.shape),
            "dtype": {"i2": "short", "i4": "int", "f4": "float", "f8": "double"}[how["dtype"]],
        }
        own = [f"{d}_{k}" for d in how["order"]]
        fill = np.array(-32000, how["dtype"])
        if how["format"] == "private":
            private[f"v{k}"] = (own, data, attributes, fill)
        else:
            out["data"]["file"] = f"f{k}.nc"
            storage = {}
            if how["format"] == "NETCDF4" and how["compression"]:
                storage = {"compression": how["compression"], "chunksizes": [max(1, n - 1) for n in data.shape]}
            nca_files.fragment(
                folder / f"f{k}.nc", f"v{k}", data, own, attributes, format=how["format"], fill_value=fill, **storage
            )
        return out

    content = nca_files.array(dims, edges, describe)
    path = nca_files.aggregation(
        folder / "agg.nca",
        "tas",
        "f4",
        sizes,
        content,
        {"units": "s"},
        dims=dims,
        private=private,
        fill_value=np.float32(-9999),
    )
    return path, np.where(missing, np.float32(-9999), master)


@given(aggregations())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_aggregation_and_any_selection_equal_numpy(case):
    dims, edges, stored, selection, seed = case
    with tempfile.TemporaryDirectory() as folder:
        path, master = write_case(pathlib.Path(folder), dims, edges, stored, seed)
        reader = open_reader(path)
        np.testing.assert_array_equal(whole(reader), master)
        np.testing.assert_array_equal(reader.read(selection), outer(master, selection))


@given(
    st.permutations(["time", "lat", "lon"]),
    st.sets(st.sampled_from(["time", "lat", "lon"])),
    st.tuples(*(strategies.slices(n) for n in (10, 6, 8))),
    st.sampled_from([None, (0.5, 3.0)]),
    st.booleans(),
)
@settings(max_examples=examples(60))
def test_chunks_conformed_one_by_one_as_they_are_decoded_equal_numpy(order, flipped, selection, packing, big):
    dims = ["time", "lat", "lon"]
    stored = values(10, 6, 8).astype(">i2" if big else "<i2")
    turned = stored[tuple(slice(None, None, -1) if d in flipped else slice(None) for d in dims)]
    turned = turned.transpose([dims.index(d) for d in order])
    attributes = {} if packing is None else {"scale_factor": packing[0], "add_offset": packing[1]}
    chunks = [{"time": 4, "lat": 6, "lon": 3}[d] for d in order]
    before, reading.DIRECT_BYTES = reading.DIRECT_BYTES, 1
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = {"zlib": True, "chunksizes": chunks, "endian": "big" if big else "little"}
            nca_files.fragment(f"{folder}/a.nc", "tas", turned, order, attributes, **options)
            one = {
                "location": [[0, 10], [0, 6], [0, 8]],
                "dimensions": list(order),
                "directions": dict.fromkeys(flipped, False),
                "data": {"file": "a.nc", "ncvar": "tas", "shape": list(turned.shape)},
            }
            content = nca_files.array(dims, [[0, 10], [0, 6], [0, 8]], lambda *_: one)
            sizes = {"time": 10, "lat": 6, "lon": 8}
            path = nca_files.aggregation(f"{folder}/agg.nca", "tas", "f8", sizes, content, dims=dims)
            found = open_reader(path).read(selection)
    finally:
        reading.DIRECT_BYTES = before
    scale, offset = packing or (1.0, 0.0)
    np.testing.assert_array_equal(found, (stored.astype("f8") * scale + offset)[selection])


def test_only_the_partitions_and_the_hyperslab_needed_are_read(tmp_path):
    big = values(4, 200, 300)
    path = nca_files.simple(tmp_path, big, ["time", "lat", "lon"], [[0, 1, 2, 3, 4], [0, 200], [0, 300]])
    reader = open_reader(path)
    before = counters.snapshot()
    read_before = bytes_read_by_process()
    found = reader.read([2, slice(50, 60), slice(None)])
    read = bytes_read_by_process() - read_before
    done = counters.snapshot() - before
    np.testing.assert_array_equal(found, big[2, 50:60])
    # The header once through the library, and the values once.
    assert done.files <= 2
    assert done.bytes == found.nbytes == 12_000
    # The kernel's own count: the 240 kB of the partition were not read, let alone those of its neighbours.
    assert read < 60_000


def bytes_read_by_process():
    lines = proc("self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def test_a_stepped_selection_of_a_classic_file_reads_its_rows_only(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(64, 128, 256), ["t", "y", "x"], format="NETCDF3_64BIT_OFFSET")

    def describe(index, location):
        return {"data": {"file": "a.nc", "ncvar": "tas", "shape": [64, 128, 256]}}

    content = nca_files.array(["t", "y", "x"], [[0, 64], [0, 128], [0, 256]], describe)
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": 64, "y": 128, "x": 256}, content)
    reader = open_reader(path)
    reader.header(0)
    before = counters.snapshot()
    found = reader.read([slice(None, None, 32), 7, slice(None)])
    np.testing.assert_array_equal(found, values(64, 128, 256)[::32, 7])
    assert (counters.snapshot() - before).bytes == found.nbytes == 2 * 256 * 4


def test_a_reader_is_pickled_and_reads_in_the_copy(agg, master):
    copy = pickle.loads(pickle.dumps(open_reader(agg)))
    np.testing.assert_array_equal(whole(copy), master)


def test_many_threads_read_the_same_values(tmp_path):
    master = values(40, 30, 20)
    path = nca_files.simple(tmp_path, master, ["t", "y", "x"], [range(0, 41, 2), [0, 30], [0, 20]], compression="zlib")
    reader = open_reader(path)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            a, b = sorted(rng.integers(0, 41, 2))
            if not np.array_equal(reader.read([slice(a, b), slice(None, None, -1), 3]), master[a:b, ::-1, 3]):
                wrong.append((a, b))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_large_partition_is_read_in_blocks_that_never_fill_the_memory(tmp_path, monkeypatch):
    import cfagg.arrays.blocks

    monkeypatch.setattr(cfagg.arrays.blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(cfagg.arrays.blocks, "THREAD_BYTES", 0)
    monkeypatch.setattr(cfagg.arrays.blocks, "SHARE_BYTES", 0)
    master = values(11, 13, 17)
    largest = []

    def describe(index, location):
        nca_files.fragment(
            tmp_path / "a.nc", "tas", master.transpose(2, 0, 1)[::-1], ["x", "t", "y"], chunksizes=[4, 3, 5], zlib=True
        )
        return {
            "dimensions": ["x", "t", "y"],
            "directions": {"x": False},
            "data": {"file": "a.nc", "ncvar": "tas", "shape": [17, 11, 13]},
        }

    content = nca_files.array(["t", "y", "x"], [[0, 11], [0, 13], [0, 17]], describe)
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": 11, "y": 13, "x": 17}, content)
    reader = open_reader(path, workers=3)
    apply = cfagg.arrays.aggregated.conform.apply

    def measured(recipe, block, view, *, where):
        largest.append(block.nbytes)
        apply(recipe, block, view, where=where)

    monkeypatch.setattr(cfagg.arrays.aggregated.conform, "apply", measured)
    np.testing.assert_array_equal(whole(reader), master)
    np.testing.assert_array_equal(
        reader.read([slice(None, None, -2), np.array([12, 0, 0, 5]), slice(16, 2, -3)]),
        outer(master, [slice(None, None, -2), np.array([12, 0, 0, 5]), slice(16, 2, -3)]),
    )
    assert len(largest) > 8
    assert max(largest) <= 2000


def test_a_missing_file_raises_when_its_values_are_read_and_says_where(agg, master):
    (agg.parent / "parts" / "1_0_1.nc").unlink()
    reader = open_reader(agg)
    np.testing.assert_array_equal(reader.read([slice(0, 3), slice(None), slice(None)]), master[:3])
    with pytest.raises(
        FragmentNotFoundError, match=r"agg.nca, variable 'tas', partition \(1, 0, 1\).*1_0_1.nc.*missing='fill'"
    ):
        whole(reader)


def test_missing_fill_fills_the_missing_file_only(agg, master):
    (agg.parent / "parts" / "1_0_1.nc").unlink()
    expected = master.copy()
    expected[3:4, :, 5:8] = np.nan
    np.testing.assert_array_equal(whole(open_reader(agg, missing="fill")), expected)


def test_missing_fill_does_not_hide_a_missing_variable(agg):
    file = agg.parent / "parts" / "1_0_1.nc"
    file.unlink()
    nca_files.fragment(file, "other", values(1, 6, 3), ["time", "lat", "lon"])
    with pytest.raises(FragmentNotFoundError, match=r"partition \(1, 0, 1\).*no variable 'tas'.*other"):
        whole(open_reader(agg, missing="fill"))


def test_missing_fill_does_not_hide_a_file_that_is_out_of_reach(agg):
    file = agg.parent / "parts" / "1_0_0.nc"
    file.unlink()
    # A circle of links is as out of reach as a directory without permission.
    file.symlink_to(file.name)
    with pytest.raises(FragmentReadError, match=r"partition \(1, 0, 0\)"):
        whole(open_reader(agg, missing="fill"))


def test_missing_fill_uses_the_declared_fill_of_an_integer_master_and_refuses_without(tmp_path):
    for fill in (np.int32(-5), None):
        folder = tmp_path / str(fill)
        path = nca_files.simple(folder, values(4, dtype="i4"), ["t"], [[0, 2, 4]], fill_value=fill)
        if fill is not None:
            with netCDF4.Dataset(path) as ds:
                content = ds["tas"].nca_array
            path.unlink()
            nca_files.aggregation(path, "tas", "i4", {"t": 4}, content, fill_value=fill)
        (folder / "parts" / "1.nc").unlink()
        reader = open_reader(path, missing="fill")
        if fill is None:
            with pytest.raises(ConformError, match=r"partition \(1,\).*_FillValue"):
                whole(reader)
        else:
            assert whole(reader).tolist() == [0, 1, -5, -5]


def test_an_unknown_word_for_missing_is_refused(agg):
    with pytest.raises(OptionError, match="'ignore'"):
        open_reader(agg, missing="ignore")


def test_a_sub_array_of_another_shape_is_refused(agg):
    file = agg.parent / "parts" / "0_0_0.nc"
    file.unlink()
    nca_files.fragment(file, "tas", values(3, 6, 4), ["time", "lat", "lon"])
    with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0, 0\).*\(3, 6, 4\)"):
        whole(open_reader(agg))


def test_a_sub_array_larger_than_its_location_is_refused(agg):
    file = agg.parent / "parts" / "0_0_0.nc"
    file.unlink()
    nca_files.fragment(file, "tas", values(4, 6, 5), ["time", "lat", "lon"])
    with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0, 0\).*\(4, 6, 5\)"):
        open_reader(agg).read([0, 0, 0])


def test_a_transposed_sub_array_whose_shape_fits_is_noticed(tmp_path):
    path = nca_files.simple(tmp_path, values(4, 4), ["lat", "lon"], [[0, 4], [0, 4]])
    (tmp_path / "parts" / "0_0.nc").unlink()
    nca_files.fragment(tmp_path / "parts" / "0_0.nc", "tas", values(4, 4), ["lon", "lat"])
    with pytest.raises(FragmentMismatchError, match=r"\('lon', 'lat'\).*'dimensions'"):
        whole(open_reader(path))


def test_a_sub_array_of_another_type_than_declared_is_refused(agg):
    with netCDF4.Dataset(agg, "a") as ds:
        content = json.loads(ds["tas"].nca_array)
        content["Partitions"][0]["data"]["dtype"] = "double"
        ds["tas"].nca_array = json.dumps(content)
    with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0, 0\).*float32"):
        whole(open_reader(agg))


def test_a_text_variable_is_no_sub_array_of_numbers(agg):
    file = agg.parent / "parts" / "0_0_0.nc"
    file.unlink()
    nca_files.fragment(file, "tas", np.full((3, 6, 5), "a", "S1"), ["time", "lat", "lon"])
    with pytest.raises((FragmentMismatchError, ConformError), match=r"partition \(0, 0, 0\)"):
        whole(open_reader(agg))


def test_a_plain_variable_is_read_undecoded(tmp_path):
    nca_files.fragment(
        tmp_path / "a.nc",
        "t",
        np.array([1, -9, 3], "i2"),
        ["x"],
        {"scale_factor": 2.0},
        fill_value=np.int16(-9),
        group="g",
    )
    reader = NetcdfReader(tmp_path / "a.nc", "/g", "t")
    assert reader.read([slice(None, None, -1)]).tolist() == [3, -9, 1]
    assert pickle.loads(pickle.dumps(reader)).read([1]) == -9
    out = np.zeros(2, "i2")
    reader.read([np.array([2, 0])], out)
    assert out.tolist() == [3, 1]


def test_a_plain_variable_of_strings_is_read(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("s", str, ("x",))[:] = np.array(["a", "", "øæ"], object)
        ds.createVariable("one", str, ())[...] = "alone"
    assert NetcdfReader(tmp_path / "a.nc", "/", "s").read([slice(None, None, 2)]).tolist() == ["a", "øæ"]
    assert NetcdfReader(tmp_path / "a.nc", "/", "one").read([]).item() == "alone"


def test_a_plain_variable_that_is_not_there_names_those_that_are(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "t", values(3), ["x"])
    with pytest.raises(SourceError, match=r"no variable 'u'.*t"):
        NetcdfReader(tmp_path / "a.nc", "/", "u")


def test_an_empty_unlimited_dimension_gives_no_values(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "t", values(0), ["x"], unlimited=["x"])
    assert NetcdfReader(tmp_path / "a.nc", "/", "t").read([slice(None)]).shape == (0,)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_header_that_claims_more_than_memory_holds_is_a_limit(tmp_path):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("t")
        ds.createVariable("v", "f8", ("t",))[:] = [1, 2, 3]
    data = bytearray(path.read_bytes())
    data[4:8] = (2**30).to_bytes(4, "big")  # the number of records
    path.write_bytes(data)
    program = (
        "import resource, cfagg\n"
        "from cfagg.arrays.stored import NetcdfReader\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        f"try: NetcdfReader({str(path)!r}, '/', 'v').read([slice(None)])\n"
        "except cfagg.CfaggError as error: print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("LimitError", "SourceError"), done.stderr
