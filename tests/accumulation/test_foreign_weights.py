"""Weighted sums of other writers that do not keep the weights: what they answer alone, and with weights given."""

import json
import math
import pickle

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.cli.main import main
from cfagg.errors import ConformError, NotAccumulatedError, OptionError, StaleAccumulationWarning, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::cfagg.errors.StaleAccumulationWarning")

SHAPE, CHUNKS = (23, 12), (4, 5)


def field(seed=0, missing=0.2):
    # Numbers of 32 bits, for which everything is compiled that other tests need too.
    values = np.random.default_rng(seed).normal(280, 10, SHAPE).astype("f4").astype("f8")
    values[np.random.default_rng(seed + 1).random(SHAPE) < missing] = np.nan
    return values


def write(store, values, weights, *, stride=1, dtype="f8", weights_dtype=None, chunks=CHUNKS):
    """An array over (time, x), with weighted sums along time, x and both."""
    root, narrow = zarr.create_group(store), values.astype("f4")
    names = {"dimension_names": ("time", "x")}
    root.create_array(
        "v",
        data=narrow if np.array_equal(narrow, values, equal_nan=True) else values,
        chunks=chunks,
        fill_value=np.nan,
        **names,
    )
    group = root.create_group("v_accumulation_group")
    group.attrs["_ACCUMULATION_GROUP"] = {
        "time": {"_DATA_WEIGHTED": "a", "_WEIGHTS": "b", "x": {"_DATA_WEIGHTED": "c", "_WEIGHTS": "d"}},
        "x": {"_DATA_WEIGHTED": "e", "_WEIGHTS": "f"},
    }
    valid = ~np.isnan(values)
    w = np.broadcast_to(weights, values.shape) * valid
    ends = [np.append(np.arange(stride * c, n, stride * c), n) - 1 for n, c in zip(values.shape, chunks, strict=True)]
    for terms, one, both, other in ((np.where(valid, values, 0) * w, "a", "c", "e"), (w, "b", "d", "f")):
        kind = dtype if one == "a" else weights_dtype or dtype
        table = np.cumsum(np.cumsum(terms, 0), 1)[np.ix_(*ends)]
        for name, stored, strides in (
            (one, np.cumsum(terms, 0)[ends[0]], [stride, 0]),
            (both, table, [stride, stride]),
            (other, np.cumsum(terms, 1)[:, ends[1]], [0, stride]),
        ):
            made = group.create_array(name, data=stored.astype(kind), **names)
            made.attrs.update({"_ARRAY_DIMENSIONS": ["time", "x"], "_ACCUMULATION_STRIDE": strides})


def exact_mean(values, weights, box):
    """The weighted mean of the valid cells of a box, by math.fsum."""
    part, w = values[box].ravel(), np.broadcast_to(weights, values.shape)[box].ravel()
    good = ~np.isnan(part)
    total = math.fsum(w[good])
    return math.fsum(part[good] * w[good]) / total if total else math.nan


WEIGHTS = {
    "along time": np.random.default_rng(5).random((23, 1)) + 0.1,
    "along x": np.random.default_rng(6).random((1, 12)) + 0.1,
    "of every cell": np.random.default_rng(7).random(SHAPE) + 0.1,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_aligned_ranges_are_answered_by_sums_whose_weights_nobody_knows(tmp_path, kind):
    values = field()
    write(tmp_path / "s", values, WEIGHTS[kind])
    acc = open_accumulated(tmp_path / "s", "v")
    for a, b in ((0, 4), (4, 16), (8, 23), (0, 23)):
        found = acc.mean("time", isel={"time": slice(a, b)}).values
        expected = [exact_mean(values, WEIGHTS[kind], np.s_[a:b, i : i + 1]) for i in range(12)]
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        for c, d in ((0, 5), (5, 12)):
            one = acc.mean(isel={"time": slice(a, b), "x": slice(c, d)}).item()
            assert one == pytest.approx(exact_mean(values, WEIGHTS[kind], np.s_[a:b, c:d]), rel=1e-13)


def test_a_range_that_ends_within_a_chunk_needs_the_weights_and_says_so(tmp_path):
    write(tmp_path / "s", field(), WEIGHTS["of every cell"])
    acc = open_accumulated(tmp_path / "s", "v")
    with pytest.raises(UnsupportedError, match=r"weights of single cells.*time.*0, 4, 8, 12, 16, 20, 23.*weights="):
        acc.mean("time", isel={"time": slice(3, 16)})
    with pytest.raises(UnsupportedError, match="weights="):
        acc.mean("time", isel={"time": slice(3, 16)}, explain=True)
    with pytest.raises(UnsupportedError, match="weights="):
        acc.std("time", isel={"time": slice(0, 16)})


def test_counts_and_extremes_need_no_weights(tmp_path):
    values = field()
    write(tmp_path / "s", values, WEIGHTS["of every cell"])
    acc = open_accumulated(tmp_path / "s", "v")
    part = values[3:17]
    np.testing.assert_array_equal(acc.count("time", isel={"time": slice(3, 17)}), (~np.isnan(part)).sum(0))
    np.testing.assert_array_equal(acc.max("time", isel={"time": slice(3, 17)}), np.nanmax(part, 0))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_any_range_is_answered_where_the_weights_are_given(tmp_path, kind):
    values = field()
    write(tmp_path / "s", values, WEIGHTS[kind])
    acc = open_accumulated(tmp_path / "s", "v", weights=WEIGHTS[kind])
    for a, b in ((0, 4), (3, 16), (9, 10), (1, 23)):
        found = acc.mean("time", isel={"time": slice(a, b)}).values
        expected = [exact_mean(values, WEIGHTS[kind], np.s_[a:b, i : i + 1]) for i in range(12)]
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        one = acc.mean(isel={"time": slice(a, b), "x": slice(2, 11)}).item()
        assert one == pytest.approx(exact_mean(values, WEIGHTS[kind], np.s_[a:b, 2:11]), rel=1e-13)
    w = np.broadcast_to(WEIGHTS[kind], SHAPE)
    good = ~np.isnan(values)
    mean = (np.where(good, values, 0) * w).sum(0) / (w * good).sum(0)
    variance = (np.where(good, (values - mean) ** 2, 0) * w).sum(0) / (w * good).sum(0)
    np.testing.assert_allclose(acc.var("time").values, variance, rtol=1e-12)
    again = pickle.loads(pickle.dumps(acc))
    assert again.mean(isel={"time": slice(3, 5)}).item() == acc.mean(isel={"time": slice(3, 5)}).item()


def test_sums_of_known_weights_are_used_and_not_only_confirmed(tmp_path):
    values = field()
    write(tmp_path / "s", values, WEIGHTS["along x"])
    acc = open_accumulated(tmp_path / "s", "v", weights=WEIGHTS["along x"])
    steps = acc.mean("time", isel={"time": slice(4, 16)}, explain=True).steps
    assert {s.array for s in steps} == {"v_accumulation_group/a", "v_accumulation_group/b"}


def test_weights_that_are_not_those_of_the_sums_are_refused(tmp_path):
    write(tmp_path / "s", field(), WEIGHTS["of every cell"])
    with pytest.raises(NotAccumulatedError) as caught:
        open_accumulated(tmp_path / "s", "v", weights=WEIGHTS["along x"])
    assert any("sum of weights" in str(p) or "the sum over" in str(p) for p in caught.value.problems)
    with pytest.raises(ConformError, match="do not broadcast"):
        open_accumulated(tmp_path / "s", "v", weights=np.ones(7))


def test_weights_for_sums_without_weights_are_refused(tmp_path):
    write(tmp_path / "s", field(), 1.0)
    path = tmp_path / "s/v_accumulation_group/zarr.json"
    path.write_text(path.read_text().replace("_DATA_WEIGHTED", "_DATA_UNWEIGHTED"))
    open_accumulated(tmp_path / "s", "v")
    with pytest.raises(OptionError, match="unweighted sums"):
        open_accumulated(tmp_path / "s", "v", weights=np.ones(12))


def test_given_weights_of_an_accumulation_of_our_own_have_to_be_its_own(tmp_path):
    zarr.create_array(tmp_path / "s", name="v", data=field(), chunks=CHUNKS, dimension_names=("time", "x"))
    w = WEIGHTS["along x"]
    cfagg.accumulate(tmp_path / "s", "v", ["time"], weights=w)
    assert open_accumulated(tmp_path / "s", "v", weights=w).mean().item() == pytest.approx(
        open_accumulated(tmp_path / "s", "v").mean().item()
    )
    with pytest.raises(OptionError, match=r"keeps weights that differ.*cfagg accumulate .* --overwrite"):
        open_accumulated(tmp_path / "s", "v", weights=2 * w)


def test_whole_numbers_as_weights_of_real_sums_are_read(tmp_path):
    values, w = field(), np.arange(1.0, 13.0)
    write(tmp_path / "s", values, w, weights_dtype="i8")
    acc = open_accumulated(tmp_path / "s", "v")
    assert acc.mean(isel={"time": slice(4, 16)}).item() == pytest.approx(exact_mean(values, w, np.s_[4:16]), rel=1e-13)


def test_where_nothing_counts_there_is_no_mean_whatever_the_weights(tmp_path):
    values = field()
    values[:, 3] = np.nan
    values[4:8, 5] = np.nan
    write(tmp_path / "s", values, WEIGHTS["of every cell"])
    found = open_accumulated(tmp_path / "s", "v").mean("time", isel={"time": slice(4, 8)}).values
    assert np.flatnonzero(np.isnan(found)).tolist() == [i for i in range(12) if np.isnan(values[4:8, i]).all()]
    assert {3, 5} <= set(np.flatnonzero(np.isnan(found)).tolist())


def test_where_all_values_are_one_their_mean_is_known_though_the_sums_have_lost_it(tmp_path):
    values = np.full(SHAPE, 1e16)
    values[8:16] = 0.0
    write(tmp_path / "s", values, WEIGHTS["of every cell"])
    found = open_accumulated(tmp_path / "s", "v").mean("time", isel={"time": slice(8, 16)}).values
    np.testing.assert_array_equal(found, np.zeros(12))


def test_answers_that_sums_of_unknown_weights_have_lost_are_refused(tmp_path):
    values = np.full(SHAPE, 1e16)
    values[8:16] = np.random.default_rng(0).random((8, 12)) * 1e-3
    write(tmp_path / "s", values, WEIGHTS["of every cell"])
    acc = open_accumulated(tmp_path / "s", "v")
    with pytest.raises(UnsupportedError, match=r"rounding.*weights="):
        acc.mean("time", isel={"time": slice(8, 16)})
    acc = open_accumulated(tmp_path / "s", "v", weights=WEIGHTS["of every cell"])
    expected = [exact_mean(values, WEIGHTS["of every cell"], np.s_[8:16, i : i + 1]) for i in range(12)]
    np.testing.assert_allclose(acc.mean("time", isel={"time": slice(8, 16)}), expected, rtol=1e-13)


def test_sums_beyond_what_any_weights_give_are_refused(tmp_path):
    values = field(missing=0)
    write(tmp_path / "s", values + 50, WEIGHTS["of every cell"])
    zarr.open_array(tmp_path / "s", path="v", mode="r+")[:] = values
    with pytest.raises(NotAccumulatedError) as caught:
        open_accumulated(tmp_path / "s", "v")
    assert any("no weights can give" in str(p) for p in caught.value.problems)


def test_data_that_were_rewritten_contradict_weights_that_are_constant_in_time(tmp_path):
    values = field(missing=0)
    write(tmp_path / "s", values, WEIGHTS["along x"])
    values[22, 11] += 3
    zarr.open_array(tmp_path / "s", path="v", mode="r+")[:] = values
    with pytest.raises(NotAccumulatedError) as caught:
        open_accumulated(tmp_path / "s", "v")
    assert any("but the data give" in str(p) for p in caught.value.problems)


@pytest.mark.parametrize("change", [lambda w: -w, lambda w: np.where(w > 0.5, w, -w)])
def test_negative_weights_are_refused(tmp_path, change):
    write(tmp_path / "s", field(), change(WEIGHTS["along x"]))
    with pytest.raises(NotAccumulatedError) as caught:
        open_accumulated(tmp_path / "s", "v")
    assert any("negative" in str(p) for p in caught.value.problems)


def test_the_warning_tells_that_the_weights_are_not_known(tmp_path):
    write(tmp_path / "s", field(), WEIGHTS["along x"])
    with pytest.warns(StaleAccumulationWarning, match="its weights are unknown"):
        open_accumulated(tmp_path / "s", "v")


def test_the_command_takes_the_name_of_the_weights(tmp_path, capsys):
    values = field()
    write(tmp_path / "s", values, WEIGHTS["along x"])
    weights = zarr.open_group(tmp_path / "s").create_array("w", data=WEIGHTS["along x"][0], dimension_names=("x",))
    assert weights.shape == (12,)
    args = ["mean", str(tmp_path / "s"), "v", "--select", "time=[3:17]", "--select", "x=[1:12]", "--json"]
    assert main(args) == 2
    assert "--weights" in capsys.readouterr().err
    assert main([*args, "--weights", "w"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["values"] == pytest.approx(exact_mean(values, WEIGHTS["along x"], np.s_[3:17, 1:]), rel=1e-13)
