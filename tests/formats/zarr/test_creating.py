"""Metadata documents of new stores, against those that zarr-python writes."""

import json
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import zarr
from zarr import codecs
from zarr.dtype import VariableLengthUTF8
from zarr.storage import MemoryStore

import cfagg
from cfagg.formats.zarr.consolidated import consolidated
from cfagg.formats.zarr.creating import NewArray, array_documents, document_bytes, group_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec

#: Compression -> ours, and what zarr-python is given for versions 3 and 2.
CODECS = {
    "zstd": (Codec("zstd"), lambda: codecs.ZstdCodec(level=1, checksum=False), {"id": "zstd", "level": 1}),
    "blosc": (
        Codec("blosc"),
        lambda: codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),
        {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0},
    ),
    "lz4": (
        Codec("blosc", 4, "lz4", "bitshuffle"),
        lambda: codecs.BloscCodec(cname="lz4", clevel=4, shuffle="bitshuffle"),
        {"id": "blosc", "cname": "lz4", "clevel": 4, "shuffle": 2, "blocksize": 0},
    ),
    "gzip": (Codec("gzip"), lambda: codecs.GzipCodec(level=5), {"id": "gzip", "level": 5}),
    "none": (Codec("none"), lambda: None, None),
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
    made = NewArray(("x", "y"), (5, 3), np.dtype("f4"), (4, 3), 0, Codec("zstd"), {"units": "K"})
    return made._replace(**changes)


def create(store, path, array, zarr_format):
    """Let zarr-python create an array."""
    import numcodecs

    _, third, second = next(known for known in CODECS.values() if known[0] == array.codec)
    irregular = any(not isinstance(c, int) for c in array.chunks)
    attributes = dict(array.attributes)
    if zarr_format == 2:
        attributes["_ARRAY_DIMENSIONS"] = list(array.dims)
    zarr.create_array(
        store,
        name=path,
        shape=array.shape,
        chunks=[list(c) for c in array.chunks] if irregular else array.inner or array.chunks,
        dtype=VariableLengthUTF8() if array.dtype.kind == "O" else array.dtype,
        fill_value=array.fill,
        compressors=third() if zarr_format == 3 else second and numcodecs.get_codec(second),
        filters="auto" if array.dtype.kind == "O" else None,
        attributes=attributes,
        dimension_names=array.dims if zarr_format == 3 else None,
        zarr_format=zarr_format,
        shards=array.inner and array.chunks,
        chunk_key_encoding={"name": "default", "separator": array.separator or "/"} if zarr_format == 3 else None,
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
    return {k: text(v.to_bytes()) for k, v in held.items()}


def ours(groups, arrays, zarr_format):
    nodes = {path: group_documents(attributes, zarr_format) for path, attributes in groups.items()}
    # zarr-python says in version 2 what is meant without words, too.
    said = {"separator": "."} if zarr_format == 2 else {}
    nodes |= {path: array_documents(array._replace(**said), zarr_format) for path, array in arrays.items()}
    nodes[""] = consolidated(nodes, zarr_format)
    documents = {f"{path}/{name}".lstrip("/"): d for path, node in nodes.items() for name, d in node.items()}
    return {key: text(document_bytes(document)) for key, document in documents.items()}


def text(raw):
    """Return a document byte for byte, or one with consolidated metadata with the order of those alone."""
    document = json.loads(raw)
    whole = document.get("metadata") or document.get("consolidated_metadata", {}).get("metadata")
    return raw if whole is None else (list(whole), json.dumps(document, sort_keys=True))


def check(groups, arrays, zarr_format):
    found, expected = (f(groups, arrays, zarr_format) for f in (ours, written))
    assert found == expected


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
    new = make(dtype=np.dtype(kind), fill=fill, codec=CODECS[codec][0])
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


@pytest.mark.parametrize("codec", CODECS)
def test_shards_are_those_of_zarr_python(codec):
    check({"": {}}, {"v": make(shape=(9, 6), chunks=(8, 6), inner=(4, 3), codec=CODECS[codec][0])}, 3)


def test_keys_of_chunks_with_dots_are_those_of_zarr_python():
    check({"": {}}, {"v": make(separator=".")}, 3)


def test_blosc_takes_elements_of_another_size_where_that_is_asked_for():
    document = array_documents(make(codec=Codec("blosc"), item=12, inner=(4, 3)), 3)["zarr.json"]
    assert document["codecs"][0]["configuration"]["codecs"][1]["configuration"]["typesize"] == 12


@pytest.mark.parametrize(("attributes", "names"), [({}, {".zarray"}), ({"a": 1}, {".zarray", ".zattrs"})])
def test_names_of_dimensions_may_be_untold(attributes, names):
    documents = array_documents(make(dims=None, attributes=attributes), 2)
    assert documents.keys() == names
    assert documents.get(".zattrs", {}) == attributes
    assert "dimension_names" not in array_documents(make(dims=None), 3)["zarr.json"]


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_are_packed_as_the_documents_say(tmp_path, codec):
    values = np.arange(12, dtype="f4").reshape(4, 3)
    new = make(shape=(4, 3), codec=CODECS[codec][0])
    for zarr_format, key in ((2, "0.0"), (3, "c/0/0")):
        folder = tmp_path / str(zarr_format)
        (folder / key).parent.mkdir(parents=True)
        (folder / key).write_bytes(new.codec.encoder()(values))
        write_documents(folder, array_documents(new, zarr_format))
        np.testing.assert_array_equal(zarr.open_array(folder, mode="r")[:], values)


def test_documents_of_the_published_software_are_sorted_and_refuse_what_json_cannot_say():
    assert (
        document_bytes({"b": [1], "a": "é"}, published=True)
        == b'{\n    "a": "\\u00e9",\n    "b": [\n        1\n    ]\n}'
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        document_bytes({"a": float("nan")}, published=True)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_makes_a_group_one_is_written_last(tmp_path, zarr_format):
    documents = group_documents({"a": 1}, zarr_format)
    assert list(documents)[-1] in (".zgroup", "zarr.json")
    write_documents(tmp_path, documents)
    assert {p.name for p in tmp_path.iterdir()} == documents.keys()
    assert dict(zarr.open_group(tmp_path, mode="r").attrs) == {"a": 1}


@pytest.mark.parametrize("kind", ["g", "c8", "U3", "S", "M8[s]", "V4"])
def test_other_types_are_refused(kind):
    with pytest.raises(TypeError, match="has no name in Zarr"):
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


def test_no_other_module_describes_arrays_and_groups():
    keys = re.compile(r'"(chunk_grid|compressor|node_type|zarr_consolidated_format|dimension_separator)": ')
    here = pathlib.Path(cfagg.__file__).parent
    folders = (here, here.parent / "kernels", here.parent / "conventions")
    texts = {path: path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")}
    lines = [(path.name, line) for path, text in texts.items() if keys.search(text) for line in text.splitlines()]
    found = {name for name, line in lines if keys.search(line) and ">>>" not in line}
    # What grows changes the shape and the edges of documents that are there.
    assert found == {"creating.py", "consolidated.py", "growing.py"}
