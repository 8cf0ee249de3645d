"""Reading selections of aggregations, against NumPy arrays made by hand."""

import json
import os
import pathlib
import pickle
import tempfile
import threading

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfagg.access import Access
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConformError,
    ConventionError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    LimitError,
    SelectionError,
    SourceError,
    UnsupportedError,
)
from cfagg.execute import Reader, plain_reader
from cfagg.pieces import split
from cfagg.readers import counters
from cfagg.source import open_source
from tests import nca_files, strategies


def open_reader(path, name="tas", **options):
    group, found = open_source(path).find(name)
    allow = options.pop("allow", ())
    return Reader(found, Access(path, allow), group=group.path, **options)


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
def test_read_into_fills_a_strided_view_and_nothing_around_it(agg, master, selection):
    expected = outer(master, selection)
    room = np.full([2 * n + 2 for n in expected.shape], -1, "f4")
    view = room[(..., *(slice(1, 1 + 2 * n, 2) for n in expected.shape))]
    open_reader(agg).read_into(view, selection)
    np.testing.assert_array_equal(view, expected)
    assert (room == -1).sum() == room.size - expected.size + (expected == -1).sum()


def test_read_into_refuses_an_output_of_another_shape_or_type(agg):
    reader = open_reader(agg)
    with pytest.raises(SelectionError, match=r"shape \(10, 6, 8\)"):
        reader.read_into(np.empty((10, 6, 7), "f4"), [slice(None)] * 3)
    with pytest.raises(SelectionError, match="float32"):
        reader.read_into(np.empty((10, 6, 8), "f8"), [slice(None)] * 3)


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
        data = data.reshape((*data.shape, 1)).transpose([[*dims, "z"].index(d) for d in how["order"]] + [
            len(dims)] * ("z" not in how["order"]))
        data = data.reshape(data.shape[: len(how["order"])])
        if how["part"] is not None:
            whole = np.full([size for _, _, size in how["part"]], 7, how["dtype"])
            whole[np.ix_(*(i for _, i, _ in how["part"]))] = data
            data = whole
            out["part"] = "[" + ", ".join(t for t, _, _ in how["part"]) + "]"
        out["dimensions"] = list(how["order"])
        out["directions"] = {d: d not in how["flipped"] for d in how["order"]}
        out["data"] = {"ncvar": f"v{k}", "shape": list(data.shape), "dtype": {"i2": "short", "i4": "int", "f4": "float", "f8": "double"}[how["dtype"]]}
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
        folder / "agg.nca", "tas", "f4", sizes, content, {"units": "s"}, dims=dims, private=private,
        fill_value=np.float32(-9999),
    )
    return path, np.where(missing, np.float32(-9999), master)


@given(aggregations())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_aggregation_and_any_selection_equal_numpy(case):
    dims, edges, stored, selection, seed = case
    with tempfile.TemporaryDirectory() as folder:
        path, master = write_case(pathlib.Path(folder), dims, edges, stored, seed)
        reader = open_reader(path)
        np.testing.assert_array_equal(whole(reader), master)
        np.testing.assert_array_equal(reader.read(selection), outer(master, selection))
