"""Opening accumulation groups: everything they name is there, or is named in the error."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import opening
from cfagg.accumulation.group import command, group_path
from cfagg.accumulation.integrity import read_stored, read_whole, sealed
from cfagg.accumulation.opening import open_group
from cfagg.errors import CfaggError, ConventionError, FragmentReadError, NotAccumulatedError, SourceError, StaleError
from tests.accumulation.reference import seal, seal_attributes, valid_cells, write_group, write_source
from tests.effort import examples

DIMS = ("time", "lat", "lon")
CHUNKS = (4, 3, 5)
SETS = (("time",), ("lat", "lon"))


def build(store, *, zarr_format=3, weighted=False, stride=1):
    """Write an array and its accumulation, a copy of those made before; return the values."""
    template, raw = _built(zarr_format, weighted, stride)
    shutil.copytree(template.name, store, dirs_exist_ok=True)
    # A copy has inodes and times of its own.
    seal(store, "tas")
    return raw


@cache
def _built(zarr_format, weighted, stride):
    raw = (np.arange(20 * 6 * 8).reshape(20, 6, 8) * 7 % 101).astype("i2")
    raw[3, 2, 1] = -1
    template = tempfile.TemporaryDirectory()
    store = Path(template.name)
    attributes = {"_FillValue": -1} if zarr_format == 3 else {}
    write_source(store, "tas", raw, DIMS, CHUNKS, zarr_format=zarr_format, attributes=attributes, fill_value=-1)
    weights = {"weights": np.cos(np.arange(6) / 6) + 1, "weight_dims": ("lat",)} if weighted else {}
    write_group(
        store, "tas", raw, DIMS, CHUNKS, SETS, stride={"time": stride}, fills=(-1,), zarr_format=zarr_format,
        statistics=[("time",)], **weights,
    )  # fmt: skip
    return template, raw


def folder(store, name=""):
    return store / "tas_accumulation_group" / name


def edit(store, change):
    """Change the attributes of the group, as one who writes all that belongs to them."""
    attributes = json.loads(folder(store, "zarr.json").read_text())["attributes"]
    change(attributes)
    if "cfagg" in attributes:
        seal_attributes(store, "tas", attributes)
    else:
        path = folder(store, "zarr.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "attributes": attributes}))


@pytest.mark.few(1)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_opened_group_says_what_it_holds(tmp_path, zarr_format, weighted):
    raw = build(tmp_path, zarr_format=zarr_format, weighted=weighted, stride=2)
    group = open_group(tmp_path, "tas")
    assert (group.store, group.variable, group.dims) == (str(tmp_path), "tas", DIMS)
    assert list(group.sums) == list(SETS)
    assert [s if s is None else s.tolist() for s in group.samples["time",]] == [[8, 16, 20], None, None]
    assert [s if s is None else s.tolist() for s in group.samples["lat", "lon"]] == [None, [3, 6], [5, 8]]
    assert group.kind == ("float64" if weighted else "int64")
    assert not group.complete
    assert group.mask.fills == (-1,)
    assert (group.scale, group.offset, group.dtype) == (1.0, 0.0, np.dtype("i2"))
    assert list(group.statistics) == [DIMS, ("time",)]
    assert [level.level for level in group.statistics["time",]] == [0, 1]
    assert (group.weights is not None) == weighted
    assert all(({"weights", "counts"} <= set(s.arrays)) == weighted for s in group.sums.values())
    valid = valid_cells(raw, (-1,))
    w = (np.cos(np.arange(6) / 6) + 1)[:, None] if weighted else 1
    np.testing.assert_allclose(read_whole(group.sums["time",].data)[-1], (raw * valid * w).sum(0))
    if weighted:
        assert group.weights.axes == (1,)
        np.testing.assert_array_equal(group.weights.array, np.cos(np.arange(6) / 6) + 1)


def test_packing_and_completeness_are_told(tmp_path):
    raw = np.arange(24, dtype="i2").reshape(6, 4)
    write_source(tmp_path, "tas", raw, ("t", "x"), (2, 4), attributes={"scale_factor": 0.5, "add_offset": 3.0})
    write_group(tmp_path, "tas", raw, ("t", "x"), (2, 4), [("t",)], packing=(0.5, 3.0))
    group = open_group(tmp_path, "tas")
    assert (group.scale, group.offset, group.complete) == (0.5, 3.0, True)


def test_stored_arrays_may_permute_the_dimensions(tmp_path):
    build(tmp_path)
    for name in ("acc_time", "acc_wt_time"):
        old = zarr.open_array(folder(tmp_path, name))
        values, attributes = old[...].T, dict(old.attrs)
        shutil.rmtree(folder(tmp_path, name))
        attributes["_ARRAY_DIMENSIONS"] = attributes["_ARRAY_DIMENSIONS"][::-1]
        attributes["_ACCUMULATION_STRIDE"] = attributes["_ACCUMULATION_STRIDE"][::-1]
        zarr.create_array(folder(tmp_path, name), data=values, attributes=attributes)
    seal(tmp_path, "tas", stamps=False)
    group = open_group(tmp_path, "tas")
    assert group.sums["time",].axes == (2, 1, 0)
    assert group.sums["lat", "lon"].axes == (0, 1, 2)


def test_a_variable_in_a_group_has_its_accumulation_beside_it(tmp_path):
    build(tmp_path / "s" / "ocean")
    zarr.create_group(tmp_path / "s", overwrite=False)
    group = open_group(tmp_path / "s", "ocean/tas")
    assert group.path == "ocean/tas_accumulation_group" == group_path("/ocean/tas/")
    assert group.folder == str(tmp_path / "s/ocean/tas_accumulation_group")


def test_a_group_survives_pickling(tmp_path):
    build(tmp_path, weighted=True)
    group = open_group(tmp_path, "tas")
    assert group.weights.array.shape == (6,)
    again = pickle.loads(pickle.dumps(group))
    assert again.extra == group.extra
    np.testing.assert_array_equal(read_whole(again.sums["time",].data), read_whole(group.sums["time",].data))
    assert again.weights.array.sum() == group.weights.array.sum()
    assert len(pickle.dumps(again)) < 200_000


def test_an_array_without_accumulation_is_told_the_command(tmp_path):
    build(tmp_path)
    with pytest.raises(
        NotAccumulatedError, match=r"'lat' has no accumulation; build one with: cfagg accumulate .* lat"
    ):
        open_group(tmp_path, "lat")


def test_a_group_of_the_name_that_is_no_accumulation_is_none(tmp_path):
    build(tmp_path)
    edit(tmp_path, lambda attributes: attributes.pop("_ACCUMULATION_GROUP"))
    with pytest.raises(NotAccumulatedError):
        open_group(tmp_path, "tas")


def test_an_array_that_is_not_there_is_an_error_of_its_own(tmp_path):
    build(tmp_path)
    with pytest.raises(SourceError, match="no Zarr array 'pr'"):
        open_group(tmp_path, "pr")


NAMES = ["acc_time", "acc_wt_lat_lon", "count_time", "max_time_level1", "boundary_lat", "chunk_stamps", "weights",
         "cnt_time"]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_array_is_named(tmp_path, name):
    build(tmp_path, weighted=True)
    shutil.rmtree(folder(tmp_path, name))
    with pytest.raises(ConventionError, match=rf"(?s)--overwrite.*{name}: .*has no Zarr array"):
        open_group(tmp_path, "tas")


def test_all_missing_arrays_are_named_at_once(tmp_path):
    build(tmp_path, weighted=True)
    for name in NAMES:
        shutil.rmtree(folder(tmp_path, name))
    with pytest.raises(ConventionError) as caught:
        open_group(tmp_path, "tas")
    assert {p.where for p in caught.value.problems} == set(NAMES)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "chunk_stamps"])
def test_an_array_of_wrong_shape_is_named(tmp_path, name):
    build(tmp_path, weighted=True)
    array = zarr.open_array(folder(tmp_path, name), mode="r+")
    array.resize(tuple(n + 1 for n in array.shape))
    with pytest.raises(ConventionError, match=rf"(?s){name}: expected .*, found"):
        open_group(tmp_path, "tas")


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["acc_time", "acc_wt_time", "min_time", "m2_time", "chunk_stamps"])
def test_an_array_of_wrong_type_is_named(tmp_path, name):
    build(tmp_path)
    path = folder(tmp_path, name) / "zarr.json"
    document = json.loads(path.read_text())
    document["data_type"] = "float32"
    path.write_text(json.dumps(document))
    with pytest.raises(ConventionError, match=rf"(?s){name}: expected .*found float32"):
        open_group(tmp_path, "tas")


def test_other_boundaries_than_those_of_the_chunks_are_refused(tmp_path):
    build(tmp_path)
    zarr.open_array(folder(tmp_path, "boundary_time"), mode="r+")[1] = 7
    seal(tmp_path, "tas", stamps=False)
    with pytest.raises(ConventionError, match="boundary_time: does not hold the boundaries"):
        open_group(tmp_path, "tas")


def test_another_stride_in_an_array_than_in_the_group_is_refused(tmp_path):
    build(tmp_path)
    zarr.open_array(folder(tmp_path, "acc_time"), mode="r+").attrs["_ACCUMULATION_STRIDE"] = [2, 0, 0]
    seal(tmp_path, "tas", stamps=False)
    with pytest.raises(ConventionError, match="acc_time: stride 2 along 'time', but the group says 1"):
        open_group(tmp_path, "tas")


@pytest.mark.few(2)
@pytest.mark.parametrize("stride", [[1, 0], [-1, 0, 0], [1, 1, 0], "1", None])
def test_a_stride_that_breaks_the_convention_is_refused(tmp_path, stride):
    build(tmp_path)
    zarr.open_array(folder(tmp_path, "acc_time"), mode="r+").attrs["_ACCUMULATION_STRIDE"] = stride
    with pytest.raises(ConventionError, match="acc_time"):
        open_group(tmp_path, "tas")


def test_missing_values_without_counts_are_refused_where_there_are_weights(tmp_path):
    build(tmp_path, weighted=True)
    edit(tmp_path, lambda attributes: attributes["cfagg"].update(counts=[]))
    with pytest.raises(ConventionError, match="no counts"):
        open_group(tmp_path, "tas")


@pytest.mark.parametrize("name", ["../tas", "/etc", "a/../../x", ""])
def test_a_group_cannot_name_arrays_elsewhere(tmp_path, name):
    build(tmp_path)
    edit(tmp_path, lambda attributes: attributes["cfagg"].update(stamps=name))
    with pytest.raises(ConventionError):
        open_group(tmp_path, "tas")


def test_a_missing_chunk_of_a_group_is_damage_and_not_zero(tmp_path):
    build(tmp_path)
    group = open_group(tmp_path, "tas")
    data = group.sums["time",].data
    shutil.rmtree(f"{data.folder}/c/0")
    with pytest.raises(FragmentReadError, match=r"chunk \(0, 0, 0\) of '.*acc_time' .* is not stored.*--overwrite"):
        read_stored(data, (0, 0, 0))
    with pytest.raises(FragmentReadError, match="damaged"):
        read_whole(data)


def test_what_is_read_whole_cannot_be_written(tmp_path):
    build(tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        read_whole(open_group(tmp_path, "tas").stamps)[0] = 0


def test_an_array_that_has_grown_is_refused_at_opening_unless_asked_otherwise(tmp_path):
    build(tmp_path)
    zarr.open_array(tmp_path / "tas", mode="r+").resize((24, 6, 8))
    with pytest.raises(StaleError, match=r"(?s)--refresh.*'time' had size 20, now 24"):
        open_group(tmp_path, "tas")
    assert dict(open_group(tmp_path, "tas", check=False).differences.grown) == {"time": (20, 24)}


def test_commands_are_quoted_for_the_shell():
    assert command("/a b", "x", "--refresh --json") == "cfagg accumulate '/a b' x --refresh --json"


def test_a_group_that_is_exchanged_all_the_time_opens(tmp_path, monkeypatch):
    """A reader meets either group whole, whatever the moment and however long the exchange takes on a busy machine."""
    monkeypatch.setattr(opening, "_ATTEMPTS", 30_000)
    build(tmp_path / "s")
    here, away = folder(tmp_path / "s"), tmp_path / "away"
    shutil.copytree(here, away)
    stop = threading.Event()

    def exchange():
        """Put a group in the other's place, as a builder does that cannot exchange them in one step."""
        spare, turn = tmp_path / "spare", 0
        while not stop.wait(0.02):
            turn += 1
            document = json.loads((away / "zarr.json").read_text())
            document["attributes"]["cfagg"]["created_by"] = f"turn {turn % 2}"
            (away / "zarr.json").write_text(json.dumps({**document, "attributes": sealed(document["attributes"])}))
            here.rename(spare)
            away.rename(here)
            spare.rename(away)

    thread = threading.Thread(target=exchange)
    thread.start()
    found = set()
    try:
        # Until both were met, however slowly the other thread gets on.
        end = time.monotonic() + 600
        while not {"turn 0", "turn 1"} <= found:
            assert time.monotonic() < end, found
            found.add(open_group(tmp_path / "s", "tas").extra.created_by)
    finally:
        stop.set()
        thread.join()
    assert found <= {"reference", "turn 0", "turn 1"}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["", "time", "acc_time", "int64", "weights"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["time", "lat", "array"]), inner),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    store = tmp_path_factory.mktemp("s")
    build(store, weighted=True)
    return store


KEYS = ["version", "source", "packing", "mask", "weights", "sums", "stride", "excluded", "low", "counts", "statistics",
        "stamps", "boundaries", "created_by"]  # fmt: skip


@settings(max_examples=examples(60))
@given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=2))
def test_any_attributes_open_or_raise_an_error_of_cfagg(built, changes):
    path = folder(built, "zarr.json")
    kept = path.read_text()
    try:
        edit(built, lambda attributes: attributes["cfagg"].update(changes))
        try:
            group = open_group(built, "tas")
        except CfaggError:
            return
        assert list(group.sums) == list(SETS)
    finally:
        path.write_text(kept)
