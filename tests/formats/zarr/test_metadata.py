"""What an array is, from its own metadata documents."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CfaggError, ConventionError, LimitError, SourceError, UnsupportedError
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.documents import MAX_DOCUMENT, is_group, node_folder, read_group
from cfagg.formats.zarr.metadata import current_signature
from tests.effort import examples
from tests.formats.zarr.stores import create


def edit(path, **changes):
    """Change keys of a JSON document; `None` removes one."""
    document = json.loads(path.read_text())
    document.update(changes)
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


def rectilinear(shapes):
    """Return a chunk grid with these lengths."""
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarrays_stores_are_described_as_xarray_sees_them(tmp_path, zarr_format):
    data = xr.DataArray(np.zeros((5, 4), ">f4"), dims=("time", "lat"), attrs={"units": "K"}, name="tas")
    data.encoding["chunks"] = (2, 4)
    data.to_dataset().to_zarr(tmp_path / "s", zarr_format=zarr_format, consolidated=False)
    array = open_array(tmp_path / "s", "tas")
    assert (array.shape, array.dims, array.zarr_format) == ((5, 4), ("time", "lat"), zarr_format)
    assert array.grid.sizes == ((2, 2, 1), (4,))
    assert array.dtype == np.dtype("f4")
    assert array.attributes["units"] == "K"
    assert np.isnan(array.fill_value) or array.fill_value == 0


@pytest.mark.few(8)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("name", ["default", "v2"])
@pytest.mark.parametrize("shape", [(), (9,), (9, 30)])
def test_keys_are_where_zarr_python_writes(tmp_path, zarr_format, separator, name, shape):
    encoding = {"name": "v2" if zarr_format == 2 else name, "separator": separator}
    made = create(
        tmp_path, "x", shape, (3,) * len(shape), dtype="i4", chunk_key_encoding=encoding, zarr_format=zarr_format
    )
    made[...] = np.ones(shape)
    array = open_array(tmp_path, "x")
    keys = {array.key(index) for index in np.ndindex(array.objects.matrix_shape)}
    found = {str(p.relative_to(tmp_path / "x")) for p in (tmp_path / "x").rglob("*") if p.is_file()}
    assert keys == found - {"zarr.json", ".zarray", ".zattrs"}


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("f4", np.nan), ("f8", np.inf), ("f4", -np.inf), ("f8", 1e20), ("f4", 0.1), ("i2", -32767), ("u8", 2**64 - 1),
        ("?", True), ("i8", -(2**63)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_values_are_those_of_zarr_python(tmp_path, dtype, given, zarr_format):
    peer = create(tmp_path, "x", (2,), (2,), dtype=dtype, fill_value=given, zarr_format=zarr_format)
    array = open_array(tmp_path, "x")
    np.testing.assert_array_equal(np.full(2, array.fill_value, dtype), peer[...])
    assert array.fill_declared


def test_a_fill_value_of_null_is_zero_and_not_declared(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="f4", zarr_format=2)
    edit(tmp_path / "x/.zarray", fill_value=None)
    array = open_array(tmp_path, "x")
    assert (array.fill_value, array.fill_declared) == (0, False)


def test_a_fill_value_in_hexadecimal_digits_is_those_bits(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="f4")
    edit(tmp_path / "x/zarr.json", fill_value="0x3fc00000")
    assert open_array(tmp_path, "x").fill_value == 1.5


def test_rectilinear_edges_are_runs_lists_and_numbers(tmp_path):
    create(tmp_path, "x", (10, 8, 7), [[3, 3, 4], [8], [2, 5]], dtype="i4")
    edit(tmp_path / "x/zarr.json", chunk_grid=rectilinear([[[3, 2], 4], [8], 5]))
    assert open_array(tmp_path, "x").grid.sizes == ((3, 3, 4), (8,), (5, 2))


def test_the_older_name_of_rectilinear_grids_is_read(tmp_path):
    create(tmp_path, "x", (10,), [[3, 7]], dtype="i4")
    grid = {"name": "rectangular", "configuration": {"chunk_shape": [[3, 7]]}}
    edit(tmp_path / "x/zarr.json", chunk_grid=grid)
    assert open_array(tmp_path, "x").grid.sizes == ((3, 7),)


def test_edges_left_over_by_a_smaller_array_are_not_chunks(tmp_path):
    peer = create(tmp_path, "x", (10,), [[3, 3, 4]], dtype="i4")
    peer[...] = np.arange(10)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        peer.resize((5,))
    grid = open_array(tmp_path, "x").grid
    assert grid.sizes == ((3, 2),)
    assert grid.edges[0].tolist() == [0, 3, 6]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_empty_arrays_have_no_chunks(tmp_path, shape, zarr_format):
    create(tmp_path, "x", shape, (2,) * len(shape), dtype="i4", zarr_format=zarr_format)
    assert open_array(tmp_path, "x").grid.size == 0


def test_shards_and_the_chunks_in_them_are_two_grids(tmp_path):
    create(tmp_path, "x", (10, 7), (2, 3), shards=(4, 6), dtype="i4")
    array = open_array(tmp_path, "x")
    assert array.grid.matrix_shape == (5, 3)
    assert array.objects.matrix_shape == (3, 2)
    assert array.object_of((4, 2)) == (2, 1)
    assert array.key(array.object_of((4, 2))) == "c/2/1"


def test_without_shards_both_grids_are_one(tmp_path):
    create(tmp_path, "x", (10,), (4,), dtype="i4")
    array = pickle.loads(pickle.dumps(open_array(tmp_path, "x")))
    assert array.objects is array.grid


def test_dimensions_without_names_are_numbered(tmp_path):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4")
    assert open_array(tmp_path, "x").dims == ("dim_0", "dim_1")


def test_dimension_names_of_v3_may_stand_in_the_attributes(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="i4", attributes={"_ARRAY_DIMENSIONS": ["time"], "a": 1})
    array = open_array(tmp_path, "x")
    assert array.dims == ("time",)
    assert array.attributes == {"a": 1}


def test_two_names_of_one_dimension_must_agree(tmp_path):
    attributes = {"_ARRAY_DIMENSIONS": ["lat"]}
    create(tmp_path, "x", (2,), (2,), dtype="i4", attributes=attributes, dimension_names=["time"])
    with pytest.raises(ConventionError, match=r"\['time'\].*\['lat'\] disagree"):
        open_array(tmp_path, "x")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_is_no_array(tmp_path, zarr_format):
    zarr.create_group(tmp_path, path="g", zarr_format=zarr_format)
    with pytest.raises(SourceError, match="'g' is a group"):
        open_array(tmp_path, "g")


def test_an_array_that_is_not_there_is_told_with_those_that_are(tmp_path):
    create(tmp_path, "g/tas", (2,), (2,), dtype="i4")
    create(tmp_path, "g/pr", (2,), (2,), dtype="i4")
    with pytest.raises(SourceError, match="no Zarr array 'g/tos'; found pr, tas"):
        open_array(tmp_path, "g/tos")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "there is no such directory"),
        ("file", "it is a file, and a Zarr store is a directory; make one with: cfagg convert"),
        ("", "the empty name is not a Zarr store"),
    ],
)
def test_a_store_that_is_no_directory_is_refused(tmp_path, name, said):
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=said):
        open_array(name if ":" in name or not name else tmp_path / name, "x")


@pytest.mark.parametrize("path", ["../secret", "g/../../secret", "g//x", "./x", "g\\..\\x", "a\0b"])
def test_a_path_does_not_leave_the_store(tmp_path, path):
    create(tmp_path / "secret", "", (2,), (2,), dtype="i4")
    create(tmp_path / "s", "g/x", (2,), (2,), dtype="i4")
    with pytest.raises(SourceError, match="is not a path of a Zarr node"):
        open_array(tmp_path / "s", path)
    with pytest.raises(SourceError):
        node_folder(str(tmp_path / "s"), path)


def test_the_stores_root_may_be_the_array(tmp_path):
    create(tmp_path, "", (2,), (2,), dtype="i4")
    assert open_array(tmp_path, "").shape == (2,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [2, -1]}, "shape"),
        ({"shape": "2"}, "shape"),
        ({"shape": [True, 2]}, "shape"),
        ({"fill_value": "x"}, "fill_value"),
        ({"fill_value": 2**40}, "fill_value"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}, "chunk_grid"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 2]}}}, "chunk_grid"),
        ({"chunk_grid": {"name": "regular"}}, "chunk_grid"),
        ({"codecs": []}, "codecs"),
        ({"codecs": [3]}, "codecs"),
        ({"dimension_names": ["a"]}, "dimension_names"),
        ({"dimension_names": ["a", "a"]}, "occurs twice"),
        ({"attributes": []}, "attributes"),
        ({"zarr_format": 4}, "format 3"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}}, "separator"),
        ({"chunk_grid": rectilinear([[1], [2]])}, "end"),
        ({"chunk_grid": rectilinear([[0, 2], [2]])}, "at least"),
        ({"chunk_grid": rectilinear([[[2]], [2]])}, "at least"),
    ],
)  # fmt: skip
def test_metadata_that_break_the_specification_are_refused(tmp_path, changes, message):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4")
    edit(tmp_path / "x/zarr.json", **changes)
    with pytest.raises(SourceError, match=message):
        open_array(tmp_path, "x")


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": None}, {"chunks": [2]}, {"chunks": None}, {"zarr_format": 3}, {"order": "K"}, {"filters": 3},
        {"compressor": []}, {"dimension_separator": "-"}, {"fill_value": "text"},
    ],
    ids=str,
)  # fmt: skip
def test_metadata_of_v2_that_break_the_specification_are_refused(tmp_path, changes):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4", zarr_format=2)
    edit(tmp_path / "x/.zarray", **changes)
    with pytest.raises(SourceError, match="violate the Zarr specification"):
        open_array(tmp_path, "x")


def test_all_problems_are_told_at_once(tmp_path):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4")
    edit(tmp_path / "x/zarr.json", fill_value="x", dimension_names=[1, 2], attributes=3)
    with pytest.raises(SourceError) as caught:
        open_array(tmp_path, "x")
    assert {p.where for p in caught.value.problems} == {"fill_value", "dimension_names", "attributes"}


@pytest.mark.parametrize(
    "changes",
    [
        {"data_type": "complex64"},
        {"data_type": {"name": "struct"}},
        {"chunk_grid": {"name": "hexagonal"}},
        {"chunk_key_encoding": {"name": "fanout"}},
        {"storage_transformers": [{"name": "t"}]},
        {"a_new_extension": {"name": "x"}},
        {"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "reference"}}},
    ],
    ids=str,
)
def test_what_is_legal_and_not_read_is_refused_as_such(tmp_path, changes):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4")
    edit(tmp_path / "x/zarr.json", **changes)
    with pytest.raises(UnsupportedError):
        open_array(tmp_path, "x")


def test_an_extension_that_need_not_be_understood_is_left_alone(tmp_path):
    create(tmp_path, "x", (2, 2), (2, 2), dtype="i4")
    edit(tmp_path / "x/zarr.json", a_new_extension={"must_understand": False})
    assert open_array(tmp_path, "x").shape == (2, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not JSON: line 1 is malformed from column 1 on; write it again"),
        (b'{\n"a"', "is not JSON: line 2 is malformed from column 4 on"),
        (b"[1]", "holds a JSON list, expected an object"),
        (b"null", "holds a JSON NoneType, expected an object"),
        (b'{"a": "\xff"}', "is not JSON: byte 7 is not UTF-8"),
        (b'{"a": %s}' % (b"1" * 5000), "is not JSON: a number has too many digits"),
    ],
    ids=range(6),
)
def test_what_is_no_json_object_is_refused(tmp_path, text, said):
    create(tmp_path, "x", (2,), (2,), dtype="i4")
    (tmp_path / "x/zarr.json").write_bytes(text)
    with pytest.raises(SourceError, match=rf"zarr\.json {said}"):
        open_array(tmp_path, "x")


def test_deep_nesting_and_large_documents_are_refused(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="i4")
    path = tmp_path / "x/zarr.json"
    path.write_text("[" * 200_000)
    with pytest.raises(LimitError, match="nested"):
        open_array(tmp_path, "x")
    with path.open("wb") as file:
        file.truncate(MAX_DOCUMENT + 1)
    with pytest.raises(LimitError, match="bytes"):
        open_array(tmp_path, "x")


def test_endless_chunks_are_refused(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="i4")
    edit(tmp_path / "x/zarr.json", chunk_grid=rectilinear([[[1, 2**50], 2]]), shape=[2**50 + 1])
    with pytest.raises(LimitError, match="chunks"):
        open_array(tmp_path, "x")


def test_consolidated_metadata_are_not_looked_at(tmp_path):
    peer = create(tmp_path, "x", (4,), (2,), dtype="i4")
    with pytest.warns(UserWarning, match="onsolidated"):
        zarr.consolidate_metadata(tmp_path)
    peer.resize((6,))
    assert open_array(tmp_path, "x").shape == (6,)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_signature_changes_with_shape_and_attributes(tmp_path, zarr_format):
    peer = create(tmp_path, "x", (4,), (2,), dtype="i4", zarr_format=zarr_format)
    array = open_array(tmp_path, "x")
    assert current_signature(array) == array.signature
    peer.attrs["scale_factor"] = 2
    assert current_signature(array) != array.signature
    again = open_array(tmp_path, "x")
    peer.resize((5,))
    assert current_signature(again) != again.signature


def test_an_array_that_is_gone_has_no_signature(tmp_path):
    create(tmp_path, "x", (4,), (2,), dtype="i4")
    array = open_array(tmp_path, "x")
    (tmp_path / "x/zarr.json").unlink()
    assert current_signature(array) is None


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_attributes_of_groups_are_read(tmp_path, zarr_format):
    zarr.create_group(tmp_path, path="g", zarr_format=zarr_format, attributes={"a": [1]})
    zarr.create_group(tmp_path, path="h", zarr_format=zarr_format)
    assert read_group(str(tmp_path), "g", zarr_format).content == {"a": [1]}
    assert read_group(str(tmp_path), "h", zarr_format).content == {}
    assert read_group(str(tmp_path), "i", zarr_format) is None


def test_what_is_no_group_has_no_attributes_of_one(tmp_path):
    create(tmp_path, "x", (2,), (2,), dtype="i4")
    with pytest.raises(SourceError, match=r"x/zarr\.json does not describe a group with attributes"):
        read_group(str(tmp_path), "x", 3)
    zarr.create_group(tmp_path, path="g")
    edit(tmp_path / "g/zarr.json", attributes=[1])
    with pytest.raises(SourceError, match=r"g/zarr\.json does not describe a group with attributes"):
        read_group(str(tmp_path), "g", 3)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_directory_with_an_array_is_no_group(tmp_path, zarr_format):
    zarr.create_group(tmp_path, path="g", zarr_format=zarr_format)
    create(tmp_path, "g/x", (2,), (2,), dtype="i4", zarr_format=zarr_format)
    assert is_group(str(tmp_path / "g"))
    assert not is_group(str(tmp_path / "g" / "x"))
    assert not is_group(str(tmp_path / "nowhere"))
    if zarr_format == 2:
        (tmp_path / "g" / "x" / ".zgroup").write_text('{"zarr_format": 2}')
        assert not is_group(str(tmp_path / "g" / "x"))
    (tmp_path / "g" / (".zgroup" if zarr_format == 2 else "zarr.json")).write_text("{")
    assert not is_group(str(tmp_path / "g"))


KEYS = [
    "shape", "chunk_grid", "codecs", "fill_value", "attributes", "dimension_names", "chunk_key_encoding", "chunks",
    "data_type", "dtype", "filters", "compressor", "order", "dimension_separator", "node_type",
]  # fmt: skip

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats(width=16)
    | st.sampled_from(["", "regular", "bytes", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "configuration", "a"]), inner),
    max_leaves=6,
)


@settings(max_examples=examples(100))
@given(
    st.sampled_from([2, 3]),
    st.dictionaries(
        st.sampled_from(KEYS),
        json_values, min_size=1, max_size=3,
    ),
)  # fmt: skip
def test_any_metadata_open_or_raise_an_error_of_cfagg(tmp_path_factory, zarr_format, changes):
    store = tmp_path_factory.mktemp("s")
    create(store, "x", (2, 2), (2, 2), dtype="i4", zarr_format=zarr_format)
    edit(store / "x" / ("zarr.json" if zarr_format == 3 else ".zarray"), **changes)
    try:
        array = open_array(store, "x")
    except CfaggError:
        return
    assert array.grid.shape == array.shape
    assert array.decoder is None or callable(array.decoder.decode)


def test_the_shard_of_a_chunk_is_found_without_writing_out_the_edges_of_all_shards(tmp_path):
    # Some versions of zarr-python write out the edges themselves where they create the array.
    zarr.create_array(tmp_path, name="a", shape=(16,), chunks=(2,), shards=(8,), dtype="i1")
    document = tmp_path / "a" / "zarr.json"
    document.write_text(json.dumps(json.loads(document.read_text()) | {"shape": [2**50]}))
    opened = open_array(tmp_path, "a")
    assert [opened.object_of((i,)) for i in (0, 3, 4, 2**49 - 1)] == [(0,), (0,), (1,), (2**47 - 1,)]
    assert "edges" not in vars(opened.objects)


def test_a_folder_that_is_no_store_is_said_to_be_none(tmp_path):
    with pytest.raises(SourceError, match=r"has no Zarr array 'tas': it is not a Zarr store"):
        open_array(tmp_path, "tas")
    zarr.open_group(tmp_path / "a.zarr", mode="w")
    with pytest.raises(SourceError, match=r"has no Zarr array 'tas'; name an array of the store"):
        open_array(tmp_path / "a.zarr", "tas")
