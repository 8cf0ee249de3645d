"""Accumulations of other writers: read as far as the data confirm them, and what is wrong with them is named."""

import json
import pickle
import shutil
import warnings

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import foreign
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.foreign_check import has_deltas, undo_deltas
from cfagg.accumulation.freshness import check
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.sums import sums
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.errors import (
    CfaggError,
    ConventionError,
    NotAccumulatedError,
    StaleAccumulationWarning,
    StaleError,
    UnsupportedError,
)
from cfagg.formats.zarr.chunks import read_chunk
from cfagg.formats.zarr.metadata import open_array
from tests.accumulation.generated import DIMS, boxes, generate, write_array
from tests.effort import examples

CHUNKS = (4, 6, 5)


def field(shape=(16, 12, 40), missing=-99.0, dtype="f4", seed=0):
    """Values from 0 to 1, a fifth of them missing."""
    values = np.random.default_rng(seed).random(shape)
    values[values < 0.2] = missing
    return values.astype(dtype)


def opened(store):
    """The group, and what the one warning about it says."""
    with pytest.warns(StaleAccumulationWarning) as warned:
        group = open_group(store, "variable")
    assert len(warned) == 1
    return group, str(warned[0].message)


def refused(store):
    """The problems for which no sums could be used."""
    with pytest.raises(NotAccumulatedError, match="cannot be used; build one with: cfagg accumulate") as caught:
        open_group(store, "variable")
    return [str(p) for p in caught.value.problems]


def assert_sums_agree(group, values, weights, counted, rtol=2e-6, count=21):
    """Compare sums over random boxes with NumPy's."""
    w = np.where(counted, weights, 0.0)
    data = np.where(counted, values, 0.0).astype("f8") * w
    for box, axes in boxes(np.random.default_rng(7), values.shape, count):
        reduced = {a: Runs([box[a].start], [box[a].stop], [0]) for a in axes}
        kept = {a: box[a] for a in range(values.ndim) if a not in axes}
        total, weight = sums(group, Request(reduced, kept))
        allowed = rtol * max(1.0, float(np.abs(data).sum(axes).max(initial=0)))
        np.testing.assert_allclose(total, data[box].sum(axes), rtol=0, atol=allowed)
        np.testing.assert_allclose(weight, w[box].sum(axes), rtol=0, atol=rtol * max(1.0, float(w.sum(axes).max())))


def cosine(n):
    return np.cos(np.deg2rad(np.linspace(-80.0, 80.0, n)))[:, None, None]


# --- stores of NASA's generator ------------------------------------------------------------------------------------


def test_a_generated_store_is_read_with_its_own_weights_and_mask(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS)
    group, message = opened(tmp_path / "s.zarr")
    assert list(group.sums) == [("latitude",), ("latitude", "longitude"), ("longitude",), ("time",)]
    assert group.dims == DIMS
    assert group.mask == MaskRecord(valid_min=0.0)
    assert group.sums["longitude",].axes == (1, 2, 0)
    assert_sums_agree(group, values, cosine(16), values >= 0)
    for part in (
        "whether all of its sums belong to the data as they are now cannot be checked",
        "it seems to have been written by NASA's generator",
        "cosine of 'latitude'",
        "values of 0.0 and above count as data, lower ones and NaN as missing",
        "sums are kept as float32: a mean over one stride may be off by 1e-06 of the mean over all",
    ):
        assert part in message
    check(group)


def test_values_that_equal_the_fill_value_of_0_count_as_they_did_for_the_generator(tmp_path):
    values = field(missing=0.0)
    generate(tmp_path / "s.zarr", values, CHUNKS)
    # Absent chunks are zeros, too.
    values[:4, :6, :5] = 0
    shutil.rmtree(tmp_path / "s.zarr")
    generate(tmp_path / "s.zarr", values, CHUNKS)
    (tmp_path / "s.zarr" / "variable" / "0.0.0").unlink()
    group, _ = opened(tmp_path / "s.zarr")
    assert_sums_agree(group, values, cosine(16), values >= 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("steps", [41, 44, 45, 49])
def test_what_the_sums_along_time_leave_out_is_read_from_the_data(tmp_path, steps):
    values = field((16, 12, steps))
    generate(tmp_path / "s.zarr", values, CHUNKS)
    group, message = opened(tmp_path / "s.zarr")
    assert group.samples["time",][2].tolist() == [10, 20, 30, 40]
    assert f"the last {steps - 40} positions of 'time' are not in the sums along time" in message
    assert_sums_agree(group, values, cosine(16), values >= 0)


def test_arrays_whose_tail_was_never_written_are_left_out_by_name(tmp_path):
    generate(tmp_path / "s.zarr", field((16, 12, 43)), CHUNKS)
    group, message = opened(tmp_path / "s.zarr")
    assert list(group.sums) == [("time",)]
    for name in ("acc_lat", "acc_wt_lat", "acc_lon", "acc_lat_lon"):
        assert f"left out: {name}: " in message
    assert "acc_lat: 2 of 18 chunks are absent" in message


@pytest.mark.parametrize(("stride", "positions"), [(3, [10, 25, 40]), (4, [10, 30])])
def test_sums_that_begin_over_two_chunks_whatever_the_stride_are_read_where_they_stand(tmp_path, stride, positions):
    values = field((16, 12, 45))
    generate(tmp_path / "s.zarr", values, CHUNKS, strides={"time": stride})
    group, message = opened(tmp_path / "s.zarr")
    assert group.samples["time",][2].tolist() == positions
    assert "the first sum along time is over two chunks, whatever the stride" in message
    assert_sums_agree(group, values, cosine(16), values >= 0)


def test_differences_under_the_private_filter_read_as_sums(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS)
    array = open_array(tmp_path / "s.zarr", "variable_accumulation_group/acc_lat")
    assert has_deltas(array)
    assert array.decoder is None
    read = undo_deltas(array)
    data = np.where(values >= 0, values, 0) * cosine(16)
    expected = np.cumsum(data, 0)[[7, 15]].transpose(0, 2, 1)[:, :5, :6]
    found = read_chunk(read, (0, 0, 0))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(read_chunk(pickle.loads(pickle.dumps(read)), (0, 0, 0)), found)
    plain = open_array(tmp_path / "s.zarr", "variable_accumulation_group/acc_wt_lat")
    assert undo_deltas(plain) is plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[0].pop("accumulation_dimension"), "does not say its axis"),
        (lambda f: f[0].update(accumulation_dim_order_idx=[5, 6, 7]), "does not say its axis"),
        (lambda f: f.insert(0, {"id": "delta", "dtype": "<f4"}), "as the first filter of an array"),
        (lambda f: f.append({"id": "unheard_of"}), "uses a codec besides"),
    ],
)
def test_a_private_filter_that_is_not_understood_is_named(tmp_path, change, message):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    path = tmp_path / "s.zarr" / "variable_accumulation_group" / "acc_lat" / ".zarray"
    document = json.loads(path.read_text())
    change(document["filters"])
    path.write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match=message):
        undo_deltas(open_array(tmp_path / "s.zarr", "variable_accumulation_group/acc_lat"))
    group, told = opened(tmp_path / "s.zarr")
    assert ("latitude",) not in group.sums
    assert message in told


def test_dimensions_that_the_array_does_not_name_are_those_of_the_group_if_they_fit(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    assert open_array(tmp_path / "s.zarr", "variable").dims == ("dim_0", "dim_1", "dim_2")
    write_array(tmp_path / "s.zarr" / "longitude", np.arange(7.0), (7,))
    with pytest.raises(ConventionError, match=r"'longitude' has shape \(7,\); add _ARRAY_DIMENSIONS"):
        open_group(tmp_path / "s.zarr", "variable")


def test_a_store_that_xarray_cannot_open_is_asked_by_the_labels_beside_the_data(tmp_path):
    values = field()
    store = tmp_path / "s.zarr"
    generate(store, values, CHUNKS, attributes={"units": "mm/h", "missing_value": -99.0})
    write_array(store / "time", np.arange(40.0), (40,), attributes={"units": "days since 2001-01-01"})
    shutil.rmtree(store / "longitude")
    with pytest.warns(StaleAccumulationWarning):
        acc = open_accumulated(store, "variable")
    assert acc.sizes == {"latitude": 16, "longitude": 12, "time": 40}
    found = acc.mean("time", sel={"time": slice("2001-01-03", "2001-01-31"), "latitude": slice(0, 90)})
    part = np.where(values >= 0, values, np.nan)[8:, :, 2:31]
    np.testing.assert_allclose(found.values, np.nanmean(part, 2), rtol=1e-5)
    assert found.dims == ("latitude", "longitude")
    assert "longitude" not in found.coords
    assert found.attrs["units"] == "mm/h"
    assert "missing_value" not in found.attrs


def test_dimensions_that_the_array_names_itself_may_stand_in_the_group_in_any_order(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS, attributes={"_ARRAY_DIMENSIONS": list(DIMS)})
    path = tmp_path / "s.zarr" / "variable_accumulation_group" / ".zattrs"
    tree = json.loads(path.read_text())["_ACCUMULATION_GROUP"]
    path.write_text(json.dumps({"_ACCUMULATION_GROUP": dict(reversed(tree.items()))}))
    group, _ = opened(tmp_path / "s.zarr")
    assert group.dims == DIMS
    assert_sums_agree(group, values, cosine(16), values >= 0)


def test_a_group_can_be_pickled_with_its_weights_and_differences(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS)
    group, _ = opened(tmp_path / "s.zarr")
    assert_sums_agree(pickle.loads(pickle.dumps(group)), values, cosine(16), values >= 0, count=7)


def test_a_group_written_anew_since_it_was_opened_is_refused(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    group, _ = opened(tmp_path / "s.zarr")
    shutil.rmtree(tmp_path / "s.zarr")
    generate(tmp_path / "s.zarr", field(seed=1), CHUNKS)
    with pytest.raises(StaleError, match="rebuilt or removed"):
        check(group)


@pytest.mark.parametrize("how", [accumulate, open_accumulated])
def test_a_group_of_another_writer_is_not_adopted(tmp_path, how):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleAccumulationWarning)
        with pytest.raises(
            NotAccumulatedError, match=r"was written by another program and keeps no checksums.*--overwrite"
        ):
            how(tmp_path / "s.zarr", "variable", adopt=True)


# --- what is wrong with them ---------------------------------------------------------------------------------------


def test_a_fill_value_that_was_counted_as_data_is_refused(tmp_path):
    generate(tmp_path / "s.zarr", field(missing=-9999.0), CHUNKS, fill=-9999.0)
    assert refused(tmp_path / "s.zarr") == [
        "missing values: cells that are missing were counted as data (-9999.0 means missing)"
    ]


def test_a_fill_value_that_no_cell_has_does_no_harm(tmp_path):
    values = field(missing=0.5)
    generate(tmp_path / "s.zarr", values, CHUNKS, fill=-9999.0)
    group, _ = opened(tmp_path / "s.zarr")
    assert_sums_agree(group, values, cosine(16), values > -1)


def test_a_fill_value_is_not_looked_up_in_more_data_than_is_quick(tmp_path, monkeypatch):
    generate(tmp_path / "s.zarr", field(missing=0.5), CHUNKS, fill=-9999.0)
    monkeypatch.setattr(foreign, "_SCANNED", 100)
    (problem,) = refused(tmp_path / "s.zarr")
    assert "every cell not below the fill value -9999.0 was counted" in problem
    assert "too large to look for" in problem


def test_a_declared_missing_value_above_the_fill_value_is_refused(tmp_path):
    values = field()
    values[0, 0, 0] = 1e20
    generate(tmp_path / "s.zarr", values, CHUNKS, attributes={"missing_value": 1e20})
    (problem,) = refused(tmp_path / "s.zarr")
    assert "cells that are missing were counted as data (1.0000000" in problem


def test_nan_that_was_let_into_the_sums_is_named(tmp_path):
    values = field()
    values[0, 0, 0] = np.nan
    generate(tmp_path / "s.zarr", values, CHUNKS)
    problems = refused(tmp_path / "s.zarr")
    assert len(problems) == 4
    assert "time: a sum in 'acc_time' is not finite: cells that are NaN or infinite were counted" in problems


def test_sums_cut_to_whole_numbers_are_refused(tmp_path):
    generate(tmp_path / "s.zarr", (field() * 50).astype("i4"), CHUNKS, fill=0)
    problems = refused(tmp_path / "s.zarr")
    assert "time: weighted sums that were truncated to whole numbers (int32) are of no use" in problems


def test_data_rewritten_since_are_named_where_they_are_looked_at(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS)
    values[15, 11, 39] = 5.0
    write_array(tmp_path / "s.zarr" / "variable", values, CHUNKS)
    problems = refused(tmp_path / "s.zarr")
    assert len(problems) == 3
    assert any(
        p.startswith("time: the sum over latitude 15, longitude 11, time 30:40 in 'acc_time' is ") for p in problems
    )


def test_data_written_after_the_sums_are_remarked_even_where_they_agree(tmp_path):
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS)
    assert "written after the sums" not in opened(tmp_path / "s.zarr")[1]
    write_array(tmp_path / "s.zarr" / "variable", values, CHUNKS)
    assert "some data were written after the sums" in opened(tmp_path / "s.zarr")[1]


def test_weights_that_are_no_cosine_of_latitude_answer_from_sample_to_sample(tmp_path):
    values, weights = field(), np.arange(1.0, 17.0)
    generate(tmp_path / "s.zarr", values, CHUNKS, weights=weights)
    group, message = opened(tmp_path / "s.zarr")
    assert "its weights are unknown" in message
    total, weight = sums(group, Request({2: Runs([10], [30], [0])}, {0: slice(None), 1: slice(None)}))
    w = np.where(values >= 0, weights[:, None, None], 0.0)[:, :, 10:30]
    np.testing.assert_allclose(total / weight, (values[:, :, 10:30] * w).sum(2) / w.sum(2), rtol=1e-5)


@pytest.mark.parametrize("latitude", [np.linspace(0, 340, 16), np.full(16, np.nan)])
def test_weighted_sums_without_a_latitude_have_unknown_weights(tmp_path, latitude):
    generate(tmp_path / "s.zarr", field(), CHUNKS, latitude=latitude, weights=np.ones(16))
    group, message = opened(tmp_path / "s.zarr")
    assert not group.weights.known
    assert "its weights are unknown" in message


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("acc_time", {"_ACCUMULATION_STRIDE": [0, -2, 0]}, "acc_time._ACCUMULATION_STRIDE[1]: 0 where"),
        ("acc_time", {"_ACCUMULATION_STRIDE": [2, 0, 0]}, "accumulated along ['latitude'], but the group names"),
        ("acc_time", {"_ACCUMULATION_STRIDE": [0, 4, 0]}, "acc_wt_time: dimensions"),
        ("acc_wt_time", {"_ARRAY_DIMENSIONS": ["latitude", "time", "x"]}, "has no dimension 'x'"),
    ],
)
def test_attributes_that_break_the_convention_are_named_and_the_rest_is_read(tmp_path, name, change, problem):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    path = tmp_path / "s.zarr" / "variable_accumulation_group" / name / ".zattrs"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    group, message = opened(tmp_path / "s.zarr")
    assert list(group.sums) == [("latitude",), ("latitude", "longitude"), ("longitude",)]
    assert problem in message


def test_a_missing_array_and_one_of_wrong_shape_are_named(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    group = tmp_path / "s.zarr" / "variable_accumulation_group"
    shutil.rmtree(group / "acc_lon")
    for name in ("acc_lat_lon", "acc_wt_lat_lon"):
        attributes = json.loads((group / name / ".zattrs").read_text())
        write_array(group / name, np.ones((2, 3, 40), "f4"), (2, 3, 5), attributes=attributes)
    for name in ("acc_time", "acc_wt_time"):
        attributes = json.loads((group / name / ".zattrs").read_text())
        write_array(group / name, np.ones((16, 4, 11), "f4"), (4, 4, 6), attributes=attributes)
    _, message = opened(tmp_path / "s.zarr")
    assert "has no Zarr array 'variable_accumulation_group/acc_lon'" in message
    assert "acc_lat_lon: expected 1 samples along 'longitude', found 3" in message
    assert "acc_time: expected size 12 along 'longitude', found 11" in message


def test_a_damaged_chunk_is_named(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    (tmp_path / "s.zarr" / "variable_accumulation_group" / "acc_time" / "0.0.0").write_bytes(b"xx")
    group, message = opened(tmp_path / "s.zarr")
    assert ("time",) not in group.sums
    assert "acc_time/0.0.0) is damaged" in message


JSON = st.sampled_from(
    [None, True, -1, 0, 1, 7, 2**62, 1.5, "", "x", "acc_time", "<f8", "<i4", [], [1], [0, 0, 0], {}, {"id": "x"}]
)


@settings(max_examples=examples(40))
@given(st.data())
def test_whatever_stands_in_the_metadata_is_read_or_refused_with_an_error_of_ours(tmp_path_factory, data):
    store = tmp_path_factory.mktemp("fuzz") / "s.zarr"
    values = field()
    generate(store, values, CHUNKS)
    path = data.draw(st.sampled_from(sorted((store / "variable_accumulation_group").rglob(".z*"))))
    document = json.loads(path.read_text())
    node = document
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not (isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans())):
            break
        node = node[key]
    node[key] = data.draw(JSON)
    path.write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleAccumulationWarning)
        try:
            group = open_group(store, "variable")
        except CfaggError:
            return
    assert_sums_agree(group, values, cosine(16), values >= 0, count=3)


def test_differences_that_decode_to_another_size_are_named(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    path = tmp_path / "s.zarr" / "variable_accumulation_group" / "acc_lat" / "0.0.0"
    path.write_bytes(numcodecs.Blosc("zstd").encode(np.ones(3, "u1")))
    group, message = opened(tmp_path / "s.zarr")
    assert ("latitude",) not in group.sums
    assert "is damaged: it decodes to 3 bytes, expected 240" in message


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2"])
@pytest.mark.parametrize("chunk", [5, 16])
def test_latitudes_of_any_type_and_chunks_make_weights(tmp_path, dtype, chunk):
    latitude = np.linspace(-75, 75, 16).astype(dtype)
    values = field()
    generate(tmp_path / "s.zarr", values, CHUNKS, latitude=latitude.astype("f8"))
    shutil.rmtree(tmp_path / "s.zarr" / "latitude")
    write_array(tmp_path / "s.zarr" / "latitude", latitude, (chunk,), fill=0)
    group, _ = opened(tmp_path / "s.zarr")
    weights = np.cos(np.deg2rad(latitude.astype("f8")))
    np.testing.assert_allclose(group.weights.array, weights, rtol=1e-15)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(group)).weights.array, group.weights.array)
    assert_sums_agree(group, values, weights[:, None, None], values >= 0, count=7)


def test_a_group_attribute_that_breaks_the_convention_is_refused(tmp_path):
    generate(tmp_path / "s.zarr", field(), CHUNKS)
    path = tmp_path / "s.zarr" / "variable_accumulation_group" / ".zattrs"
    path.write_text(json.dumps({"_ACCUMULATION_GROUP": {"latitude": 1, "longitude": {}, "time": {"x": {}}}}))
    with pytest.raises(ConventionError, match=r"latitude: object expected(.|\n)*no dimension 'x'"):
        open_group(tmp_path / "s.zarr", "variable")


# --- writers that follow the text alone ----------------------------------------------------------------------------


def write_by_the_text(store, values, dtype, *, zarr_format=3, stride=2, chunks=(5, 4), valid=None, fill=-1):
    """An array over (time, x), and unweighted sums and counts along time and along both, in a type."""
    valid = np.ones(values.shape, bool) if valid is None else valid
    root = zarr.create_group(store, zarr_format=zarr_format)
    names = {"dimension_names": ("time", "x")} if zarr_format == 3 else {}
    attributes = {"_ARRAY_DIMENSIONS": ["time", "x"]}
    given = {"fill_value": values.dtype.type(fill)}
    array = root.create_array("variable", shape=values.shape, chunks=chunks, dtype=values.dtype, **given, **names)
    array.attrs.update(attributes | ({"_FillValue": fill} if zarr_format == 3 else {}))
    array[:] = values
    group = root.create_group("variable_accumulation_group")
    tree = {
        "time": {"_DATA_UNWEIGHTED": "a", "_WEIGHTS": "b", "x": {"_DATA_UNWEIGHTED": "c", "_WEIGHTS": "d"}},
        "x": {},
    }
    group.attrs["_ACCUMULATION_GROUP"] = tree
    ends = [np.append(np.arange(stride * c, n, stride * c), n) - 1 for n, c in zip(values.shape, chunks, strict=True)]
    for field_, one, both in ((np.where(valid, values, 0), "a", "c"), (valid, "b", "d")):
        along = np.cumsum(field_, 0, dtype=dtype)
        table = np.cumsum(along, 1, dtype=dtype)[np.ix_(*ends)]
        for name, stored, strides in ((one, along[ends[0]], [stride, 0]), (both, table, [stride, stride])):
            made = group.create_array(name, data=stored, **names)
            made.attrs.update(attributes | {"_ACCUMULATION_STRIDE": strides})


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_whole_numbers_summed_without_loss_stay_exact(tmp_path, zarr_format):
    values = np.random.default_rng(0).integers(-1, 100, (43, 18)).astype("i2")
    write_by_the_text(tmp_path / "s.zarr", values, "i8", zarr_format=zarr_format, valid=values != -1)
    group, message = opened(tmp_path / "s.zarr")
    assert group.kind == "int64"
    assert group.weights is None
    assert group.mask.fills == (-1,)
    assert "NASA" not in message
    for box, axes in boxes(np.random.default_rng(1), values.shape, 9):
        kept = {a: box[a] for a in (0, 1) if a not in axes}
        total, count = sums(group, Request({a: Runs([box[a].start], [box[a].stop], [0]) for a in axes}, kept))
        np.testing.assert_array_equal(total, np.where(values != -1, values, 0)[box].sum(axes))
        np.testing.assert_array_equal(count, (values != -1)[box].sum(axes))


def test_sums_that_may_have_overflowed_are_refused(tmp_path):
    values = np.random.default_rng(0).integers(0, 100, (43, 18)).astype("i4")
    write_by_the_text(tmp_path / "s.zarr", values, "i4")
    assert "time: a: sums may exceed int32" in f"time: {refused(tmp_path / 's.zarr')[0]}"


@pytest.mark.parametrize(("dtype", "refuses"), [("u4", True), ("u8", False)])
def test_unsigned_sums_of_unsigned_numbers_are_read_where_they_hold_them(tmp_path, dtype, refuses):
    values = np.random.default_rng(0).integers(0, 2**32 - 1, (43, 18)).astype("u4")
    write_by_the_text(tmp_path / "s.zarr", values, dtype, fill=2**32 - 1)
    if refuses:
        assert refused(tmp_path / "s.zarr")[0].startswith("a: sums may exceed uint32")
    else:
        assert opened(tmp_path / "s.zarr")[0].kind == "int64"


def test_booleans_are_summed_as_0_and_1(tmp_path):
    values = np.random.default_rng(0).random((43, 18)) < 0.5
    write_by_the_text(tmp_path / "s.zarr", values, "i8", fill=0, valid=values)
    assert_sums_agree(opened(tmp_path / "s.zarr")[0], values, np.ones(values.shape), values)


def test_unsigned_numbers_in_a_signed_type_need_sums_that_hold_them(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (40, 4)).astype("u1")
    write_by_the_text(tmp_path / "s.zarr", values.view("i1"), "i2", fill=-1)
    zarr.open_array(tmp_path / "s.zarr" / "variable", mode="r+").attrs["_Unsigned"] = "true"
    assert refused(tmp_path / "s.zarr")[0].startswith("a: sums may exceed int16")


def test_sums_that_leave_missing_values_in_are_refused(tmp_path):
    values = np.random.default_rng(0).integers(-1, 100, (43, 18)).astype("i2")
    write_by_the_text(tmp_path / "s.zarr", values, "i8")
    (problem,) = refused(tmp_path / "s.zarr")
    assert problem == "missing values: cells that are missing were counted as data (-1 means missing)"


def test_sums_that_contradict_the_data_are_refused(tmp_path):
    values = np.random.default_rng(0).integers(0, 100, (43, 18)).astype("i2")
    write_by_the_text(tmp_path / "s.zarr", values, "i8", valid=values > 3)
    problems = refused(tmp_path / "s.zarr")
    assert [p.partition(":")[0] for p in problems] == ["time", "time+x"]
    assert all("but the data give" in p for p in problems)


def test_real_numbers_in_double_precision_need_no_remark_on_rounding(tmp_path):
    values = np.random.default_rng(0).random((43, 18)).astype("f4")
    write_by_the_text(tmp_path / "s.zarr", values, "f8", stride=1)
    group, message = opened(tmp_path / "s.zarr")
    assert "kept as" not in message
    assert_sums_agree(group, values, np.ones(values.shape), np.ones(values.shape, bool), rtol=1e-12, count=9)


def without_weights(store):
    """Leave the names of the counts out of a group."""
    path = store / "variable_accumulation_group" / "zarr.json"
    document = json.loads(path.read_text())
    tree = document["attributes"]["_ACCUMULATION_GROUP"]["time"]
    del tree["_WEIGHTS"]
    del tree["x"]["_WEIGHTS"]
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_sums_without_counts_are_used_where_nothing_is_missing(tmp_path, dtype):
    values = (np.random.default_rng(0).random((43, 18)) * 100).astype(dtype)
    write_by_the_text(tmp_path / "s.zarr", values, "i8" if dtype == "i2" else "f8")
    without_weights(tmp_path / "s.zarr")
    group, _ = opened(tmp_path / "s.zarr")
    assert list(group.sums) == [("time",), ("time", "x")]
    assert_sums_agree(group, values, np.ones(values.shape), np.ones(values.shape, bool), rtol=1e-12, count=9)


def test_sums_without_counts_are_of_no_use_where_values_are_missing(tmp_path):
    values = np.random.default_rng(0).random((43, 18))
    values[40, 3] = np.nan
    write_by_the_text(tmp_path / "s.zarr", values, "f8", valid=~np.isnan(values))
    without_weights(tmp_path / "s.zarr")
    assert refused(tmp_path / "s.zarr")[0] == "time: sums of the data without _WEIGHTS, and values are missing"


def test_sums_without_counts_are_of_no_use_where_that_is_not_looked_up(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "_SCANNED", 0)
    values = np.random.default_rng(0).random((43, 18))
    write_by_the_text(tmp_path / "s.zarr", values, "f8")
    without_weights(tmp_path / "s.zarr")
    assert "too large to look for" in refused(tmp_path / "s.zarr")[0]


def test_answers_that_are_lost_in_sums_of_others_are_read_from_the_cells(tmp_path):
    values = np.full((43, 18), 1e-3)
    values[:5] = 1e16
    write_by_the_text(tmp_path / "s.zarr", values, "f8", stride=1)
    group, _ = opened(tmp_path / "s.zarr")
    total, count = sums(group, Request({0: Runs([9], [41], [0])}, {1: slice(None)}))
    np.testing.assert_allclose(total / count, 1e-3, rtol=1e-12)
