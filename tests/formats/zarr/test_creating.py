"""Metadata documents of new stores, against those that zarr-python writes."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import zarr
from zarr import codecs
from zarr.dtype import VariableLengthUTF8
from zarr.storage import MemoryStore

from cfagg.formats.zarr.creating import NewArray, array_documents, consolidated, group_documents

#: Compression -> level, and what zarr-python is given for versions 3 and 2.
CODECS = {
    "zstd": (1, lambda: codecs.ZstdCodec(level=1, checksum=False), {"id": "zstd", "level": 1}),
    "blosc": (
        5,
        lambda: codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),
        {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0},
    ),
    "gzip": (5, lambda: codecs.GzipCodec(level=5), {"id": "gzip", "level": 5}),
    "none": (0, lambda: None, None),
}

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

#: Types with fill values.
FILLS = [
    *((kind, np.dtype(kind).type(1)) for kind in NUMBERS),
    ("f4", np.float32("nan")),
    ("f4", np.float32(1e20)),
    ("f8", -np.inf),
    ("f8", np.inf),
    ("f8", 0.1),
    ("i8", np.int64(-(2**63))),
    ("u8", np.uint64(2**64 - 1)),
    ("S1", b""),
    ("S1", b"x"),
    ("S1", "é".encode()),
    ("O", ""),
    ("O", "nothing é"),
]


def make(**changes):
    made = NewArray(("x", "y"), (5, 3), np.dtype("f4"), (4, 3), 0, "zstd", 1, {"units": "K"})
    return made._replace(**changes)


def create(store, path, array, zarr_format):
    """Let zarr-python create an array."""
    import numcodecs

    _, third, second = CODECS[array.codec]
    irregular = any(not isinstance(c, int) for c in array.chunks)
    attributes = dict(array.attributes)
    if zarr_format == 2:
        attributes["_ARRAY_DIMENSIONS"] = list(array.dims)
    zarr.create_array(
        store,
        name=path,
        shape=array.shape,
        chunks=[list(c) for c in array.chunks] if irregular else array.chunks,
        dtype=VariableLengthUTF8() if array.dtype.kind == "O" else array.dtype,
        fill_value=array.fill,
        compressors=third() if zarr_format == 3 else second and numcodecs.get_codec(second),
        filters="auto" if array.dtype.kind == "O" else None,
        attributes=attributes,
        dimension_names=array.dims if zarr_format == 3 else None,
        zarr_format=zarr_format,
    )


def written(groups, arrays, zarr_format):
    """Return all documents of a store that zarr-python writes, in their order."""
    held = {}
    store = MemoryStore(held)
    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, attributes in groups.items():
            zarr.create_group(store, path=path or None, zarr_format=zarr_format, attributes=attributes)
        for path, array in arrays.items():
            create(store, path, array, zarr_format)
        zarr.consolidate_metadata(store, zarr_format=zarr_format)
    return {k: json.loads(v.to_bytes()) for k, v in held.items()}


def ours(groups, arrays, zarr_format):
    nodes = {path: group_documents(attributes, zarr_format) for path, attributes in groups.items()}
    nodes |= {path: array_documents(array, zarr_format) for path, array in arrays.items()}
    nodes[""] = consolidated(nodes, zarr_format)
    return {f"{path}/{name}".lstrip("/"): d for path, node in nodes.items() for name, d in node.items()}


def text(document):
    """Return a document as text, in which NaN equals NaN and order counts in consolidated metadata."""
    whole = document.get("metadata") or document.get("consolidated_metadata", {}).get("metadata") or {}
    return list(whole), json.dumps(document, sort_keys=True)


def check(groups, arrays, zarr_format):
    found, expected = (f(groups, arrays, zarr_format) for f in (ours, written))
    assert {k: text(d) for k, d in found.items()} == {k: text(d) for k, d in expected.items()}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("kind", "fill"), FILLS)
def test_types_and_fill_values_are_those_of_zarr_python(zarr_format, kind, fill):
    check({"": {}}, {"v": make(dtype=np.dtype(kind), fill=fill)}, zarr_format)


@pytest.mark.parametrize("kind", [*NUMBERS, "S1", "O"])
def test_version_2_may_have_no_fill_value(kind):
    check({"": {}}, {"v": make(dtype=np.dtype(kind), fill=None)}, 2)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["u1", "f8", "S1", "O"])
@pytest.mark.parametrize("codec", CODECS)
def test_codecs_are_those_of_zarr_python(zarr_format, codec, kind):
    fill = {"S": b"", "O": ""}.get(np.dtype(kind).kind, 0)
    new = make(dtype=np.dtype(kind), fill=fill, codec=codec, level=CODECS[codec][0])
    check({"": {}}, {"v": new}, zarr_format)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 4)])
def test_shapes_of_any_length_are_those_of_zarr_python(zarr_format, shape):
    new = make(shape=shape, chunks=tuple(max(1, n // 2) for n in shape), dims=tuple("xyz"[: len(shape)]))
    check({"": {}}, {"v": new}, zarr_format)


@pytest.mark.parametrize(
    "chunks", [([4, 4, 1], [6, 6]), ([9], [12]), ([4, 5], [12]), ([1, 1, 1, 2, 2, 2], [1] * 12), ([1, 2, 1, 5], [3, 9])]
)
def test_irregular_grids_are_those_of_zarr_python(chunks):
    check({"": {}}, {"v": make(shape=(9, 12), chunks=chunks)}, 3)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_and_consolidated_metadata_are_those_of_zarr_python_in_their_order(zarr_format):
    groups = {"": {"title": "é", "x": float("nan")}, "g": {"a": [1, 2.5, "c"]}, "g/h": {}, "E": {}}
    arrays = {p: make() for p in ("z", "B", "a", "Ä", "g/z", "g/Y", "g/h/x", "g-1", "ﬁ")}
    check(groups, arrays, zarr_format)


@pytest.mark.parametrize("kind", ["g", "c8", "U3", "S2", "M8[s]", "V4"])
def test_other_types_are_refused(kind):
    with pytest.raises(TypeError, match="has no name there"):
        array_documents(make(dtype=np.dtype(kind)), 3)


def test_a_conversion_does_not_load_zarr_python(tmp_path):
    import netCDF4

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 3)
        nc.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]
    code = (
        "import sys; from cfagg.conversion import convert; convert(sys.argv[1], sys.argv[2]); "
        "print([m for m in ('zarr', 'numba', 'xarray', 'dask') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.nc", tmp_path / "a.zarr"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["v"][:].tolist() == [1, 2, 3]
