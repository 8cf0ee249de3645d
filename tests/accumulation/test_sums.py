"""Sums over any ranges, against NumPy on whole arrays."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import adding
from cfagg.accumulation import group as group_module
from cfagg.accumulation.explain import explain
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.sums import counts, plan_sums, raw_sums, sums, sums_and_counts
from cfagg.errors import FragmentReadError, SelectionError
from tests import strategies as s
from tests.accumulation.comparing import chunks_read, threads
from tests.accumulation.reference import seal, valid_cells, write_group, write_source
from tests.effort import examples, types
from tests.oracles import requested_sums

DIMS = ("time", "level", "latitude", "longitude")
SIZES = (30, 11, 8, 6)


TYPES = types("i2", "f4", "u1", "i8", "f8")


@st.composite
def accumulations(draw, dtypes=TYPES):
    """Arguments of `write`: an array with an accumulation of some of its combinations."""
    ndim = draw(st.integers(1, 4))
    dims = DIMS[:ndim]
    shape = tuple(draw(st.integers(1, SIZES[ndim - 1])) for _ in dims)
    chunks = []
    for n in shape:
        sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
        ends = [*itertools.takewhile(lambda e, n=n: e < n, itertools.accumulate(sizes)), n]
        uneven = [b - a for a, b in itertools.pairwise([0, *ends])]
        chunks.append(draw(st.one_of(st.integers(1, n), st.just(uneven))))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    raw = rng.integers(0, 100, shape).astype(dtype) if dtype.kind != "f" else rng.normal(0, 50, shape).astype(dtype)
    rules = {}
    if draw(st.booleans()):
        rules["fills"] = (7.0,) if dtype.kind == "f" else (7,)
        raw[rng.random(shape) < 0.3] = 7
        if dtype.kind == "f":
            raw[rng.random(shape) < 0.1] = np.nan
            raw[rng.random(shape) < 0.05] = -np.inf
    if draw(st.booleans()):
        rules["valid_max"] = 60.0 if dtype.kind == "f" else 60
    every = [c for k in range(1, ndim + 1) for c in itertools.combinations(dims, k)]
    combinations = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    options = {"stride": {d: draw(st.integers(1, 3)) for d in dims}}
    if draw(st.booleans()):
        over = tuple(d for d in dims if draw(st.booleans()))
        options |= {"weights": rng.random([shape[dims.index(d)] for d in over]), "weight_dims": over}
    if draw(st.booleans()):
        options["packing"] = draw(st.sampled_from([(0.5, -3.0), (-2.0, 0.0)]))
    return raw, dims, chunks, combinations, rules, options, draw(st.sampled_from([None, "auto"]))


def write(store, raw, dims, chunks, combinations, rules=None, options=None, compressors=None, **more):
    """Write an array and its accumulation, and open it."""
    rules, options = rules or {}, options or {}
    attributes = {"missing_value": list(rules["fills"])} if "fills" in rules else {}
    attributes |= {"valid_max": rules["valid_max"]} if "valid_max" in rules else {}
    if "packing" in options:
        attributes |= dict(zip(("scale_factor", "add_offset"), options["packing"], strict=True))
    if raw.dtype.kind in "iu" and isinstance(attributes.get("valid_max"), float):
        attributes["valid_max"] = int(attributes["valid_max"])
    made = {"attributes": attributes, "compressors": compressors, "coordinates": False, **more}
    write_source(Path(store), "tas", raw, dims, chunks, **made)
    write_group(Path(store), "tas", raw, dims, chunks, combinations, **rules, **options)
    return open_group(store, "tas")


def expected(raw, dims, rules, options, request):
    """Return sums of real values and of weights, and counts, from the whole array."""
    valid = valid_cells(raw, rules.get("fills", ()), None, rules.get("valid_max"))
    scale, offset = options.get("packing", (1.0, 0.0))
    wide = [n if d in options.get("weight_dims", ()) else 1 for d, n in zip(dims, raw.shape, strict=True)]
    weights = np.broadcast_to(np.reshape(options.get("weights", np.ones(())), wide), raw.shape) * valid
    real = np.where(valid, raw, 0).astype("f8") * scale + offset
    found = [requested_sums(v, request) for v in (real * weights, weights, valid.astype("i8"))]
    return *found, float(np.abs(real * weights).sum()) or 1.0


@settings(max_examples=examples(45))
@given(st.data(), accumulations())
def test_sums_weights_and_counts_are_those_of_the_whole_array(data, made):
    raw, dims, chunks, combinations, rules, options, compressors = made
    with tempfile.TemporaryDirectory() as store:
        group = write(store, raw, dims, chunks, combinations, rules, options, compressors)
        for _ in range(4):
            request = data.draw(s.requests(raw.shape))
            total, weight, number, most = expected(raw, dims, rules, options, request)
            with threads(data.draw(st.sampled_from([1, 2]))):
                found = sums(group, request)
            assert [x.dtype for x in found] == [np.float64] * 2
            assert [x.shape for x in found] == [total.shape] * 2
            many = max(1, *(int(r.sizes.max(initial=0)) for r in request.reduced.values()), 1)
            np.testing.assert_allclose(found[0], total, rtol=1e-12, atol=1e-12 * most * many)
            np.testing.assert_allclose(found[1], weight, rtol=1e-12, atol=1e-12 * raw.size * many)
            np.testing.assert_array_equal(counts(group, request), number)
            for both, alone in zip(sums_and_counts(group, request), (*found, number), strict=True):
                np.testing.assert_allclose(both, alone, rtol=1e-12, atol=1e-12 * max(most, raw.size) * many)


@pytest.mark.full
@settings(max_examples=examples(30))
@given(st.data(), accumulations(dtypes=types("i2", "u8", "i1", "u2", "i4", "i8")))
def test_sums_of_integers_are_exact(data, made):
    raw, dims, chunks, combinations, rules, options, compressors = made
    raw = raw.astype("i8") * (2**45 if raw.dtype.itemsize == 8 else 1)
    fills = {"fills": tuple(int(f) * (2**45 if raw.max(initial=0) > 100 else 1) for f in rules.get("fills", ()))}
    options = {"stride": options["stride"]}
    with tempfile.TemporaryDirectory() as store:
        group = write(store, raw, dims, chunks, combinations, fills, options, compressors)
        request = data.draw(s.requests(raw.shape))
        exact = requested_sums(np.where(valid_cells(raw, fills["fills"]), raw, 0), request)
        found = raw_sums(group, request).data
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found.reshape(exact.shape), exact)


def series(store, raw, chunk=10, **options):
    """Return the accumulation along time of an array whose first axis is time."""
    dims = DIMS[: raw.ndim]
    return write(store, raw, dims, (chunk, *raw.shape[1:]), [("time",)], **options)


def test_an_absent_chunk_counts_as_its_fill_value(tmp_path):
    raw = np.arange(40, dtype="f4")
    raw[10:20] = 3
    group = series(tmp_path, raw, fill_value=3)
    (tmp_path / "tas/c/1").unlink()
    assert sums(group, Request({0: Runs([12], [33], [0])}))[0] == raw[12:33].sum()


def test_results_are_the_same_digits_whatever_the_number_of_threads(tmp_path):
    raw = np.random.default_rng(1).normal(size=(90, 20)).astype("f4")
    group = series(tmp_path, raw, chunk=5)
    month = Runs.of_positions(np.arange(90), np.arange(90) // 7 % 12, 12)
    found = []
    for number in (1, 2, 5):
        with threads(number):
            found.append(sums(group, Request({0: month, 1: Runs.whole(20)}))[0])
    assert found[0].tolist() == found[1].tolist() == found[2].tolist()


def test_results_do_not_depend_on_which_array_is_read_first(tmp_path):
    raw = np.random.default_rng(2).integers(0, 99, (40, 6)).astype("f4")
    group = write(tmp_path, raw, DIMS[:2], (10, 2), [("time",)])
    plan = plan_sums(group, Request({0: Runs([2], [35], [0])}, {1: slice(None)}), ("data",))
    assert len(plan.readings) == 2
    for readings in (plan.readings, plan.readings[::-1]):
        found = adding.add_up(group, dataclasses.replace(plan, readings=readings), integer=False)
        assert found.high["data"].tolist() == [raw[2:35].sum(0).tolist()]


def test_cells_kept_twice_or_backwards_stand_where_they_were_asked_for(tmp_path):
    raw = np.arange(60.0).reshape(12, 5)
    group = series(tmp_path, raw)
    total, _ = sums(group, Request({0: Runs.whole(12)}, {1: np.array([4, -5, 4])}))
    assert total.tolist() == raw.sum(0)[[4, 0, 4]].tolist()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("runs", "shape"),
    [
        (Runs([0], [5], [0]), ()),
        (Runs([0], [5], [0], keep=True), (1,)),
        (Runs([], [], [], 3), (3,)),
        (Runs([], [], [], 0), (0,)),
    ],
)
def test_a_dimension_of_groups_stays(tmp_path, runs, shape):
    assert sums(series(tmp_path, np.ones(20)), Request({0: runs}))[0].shape == shape


def test_nothing_selected_is_a_sum_of_nothing(tmp_path):
    total, weight = sums(series(tmp_path, np.ones(20)), Request({0: Runs([], [], [])}))
    assert (total, weight) == (0.0, 0.0)


def test_an_array_without_elements_has_sums_of_nothing(tmp_path):
    write_source(tmp_path, "tas", np.ones((4, 0)), DIMS[:2], (2, 1), coordinates=False)
    write_group(tmp_path, "tas", np.ones((4, 0)), DIMS[:2], (2, 1), [("time",)])
    group = open_group(tmp_path, "tas")
    assert sums(group, Request({0: Runs.whole(4)}, {1: slice(None)}))[0].shape == (0,)
    assert sums(group, Request({0: Runs.whole(4), 1: Runs.whole(0)})) == (0.0, 0.0)


def test_a_request_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(SelectionError, match="a range ends at 21"):
        sums(series(tmp_path, np.ones(20)), Request({0: Runs([0], [21], [0])}))


def test_each_chunk_is_read_once_and_as_explained(tmp_path, monkeypatch):
    raw = np.random.default_rng(0).normal(size=(60, 24, 18))
    group = write(
        tmp_path,
        raw,
        ("time", "latitude", "longitude"),
        (7, 5, 4),
        [("time",), ("latitude", "longitude"), ("latitude",)],
    )
    weeks = Runs.of_positions(np.arange(3, 55), np.arange(52) // 10, 6)
    request = Request({0: weeks, 1: Runs([2], [19], [0]), 2: Runs([1], [17], [0])})
    steps = explain(group, request, "mean").steps
    read = {step.array: chunks_read(monkeypatch, step.array) for step in steps}
    total, _ = sums(group, request)
    np.testing.assert_allclose(total, requested_sums(raw, request), rtol=1e-10)
    for step in steps:
        assert len(set(read[step.array])) == len(read[step.array]) == step.chunks


def test_a_missing_chunk_of_sums_is_damage_and_named(tmp_path):
    group = series(tmp_path, np.ones(40))
    shutil.rmtree(tmp_path / "tas_accumulation_group/acc_time/c")
    with pytest.raises(FragmentReadError, match=r"chunk .* of 'tas_accumulation_group/acc_time' .* is not stored"):
        sums(group, Request({0: Runs([0], [30], [0])}))


def test_sums_that_int64_does_not_hold_become_real_numbers(tmp_path):
    # The second half alone stays below 2**63; taken twice it does not.
    raw = np.where(np.arange(40) < 20, -(2**57), 2**57).astype("i8")
    raw[:20] -= np.arange(20)
    group = series(tmp_path, raw * 3, chunk=4)
    exact = 3 * sum(int(x) for x in raw[20:40])
    assert 2**63 > exact > 2**63 / 2
    found = raw_sums(group, Request({0: Runs([20, 20], [40, 40], [0, 0])})).data
    assert float(found.ravel()[0]) == 2.0 * exact
    assert raw_sums(group, Request({0: Runs([20], [40], [0])})).data.tolist() == [exact]


@pytest.mark.parametrize("beyond", [-(10**6), -1, 0, 1, 10**6])
def test_sums_at_the_end_of_int64_are_right_whether_it_holds_them_or_not(tmp_path, beyond):
    # All stored sums fit, but the second half does not.
    raw = np.array([-(2**60)] * 4 + [2**61] * 3 + [2**61 + beyond], "i8")
    group = series(tmp_path, raw, chunk=2)
    found = float(raw_sums(group, Request({0: Runs([4], [8], [0])})).data.ravel()[0])
    assert found == pytest.approx(2.0**63 + beyond, rel=1e-15)


def test_pairs_of_numbers_keep_digits_that_one_number_loses(tmp_path):
    rng = np.random.default_rng(3)
    raw = rng.normal(size=60)
    raw[:10] = 1e17 * rng.normal(size=10)
    group = series(tmp_path, raw, chunk=5)
    plain = sums(group, Request({0: Runs([20], [52], [0])}))[0]
    exact = [float(sum(map(Fraction, raw[:b]))) for b in range(5, 61, 5)]
    rest = [float(sum(map(Fraction, raw[:b])) - Fraction(e)) for b, e in zip(range(5, 61, 5), exact, strict=True)]
    made = zarr.open_group(tmp_path, mode="r+", path="tas_accumulation_group")
    made["acc_time"][...] = exact
    made.create_array(
        "acc_time_low",
        data=np.array(rest),
        dimension_names=["time"],
        attributes={"_ARRAY_DIMENSIONS": ["time"], "_ACCUMULATION_STRIDE": [1]},
    )
    made.attrs["cfagg"] = {**made.attrs["cfagg"], "sums": "double-double", "low": {"acc_time": "acc_time_low"}}
    seal(tmp_path, "tas")
    for factor in (1, 3):
        request = Request({0: Runs([20] * factor, [52] * factor, [0] * factor)})
        wanted = factor * float(sum(map(Fraction, raw[20:52])))
        assert sums(open_group(tmp_path, "tas"), request)[0] == pytest.approx(wanted, rel=1e-13)
    # Without the second number the cells themselves are read.
    assert plain == pytest.approx(wanted / 3, rel=1e-13)


@pytest.mark.full
@settings(max_examples=examples(15))
@given(st.data(), accumulations())
def test_weights_too_large_to_be_held_are_read_by_boxes(data, made):
    raw, dims, chunks, combinations, rules, options, compressors = made
    options = {**options, "weights": np.random.default_rng(0).random(raw.shape), "weight_dims": dims}
    with tempfile.TemporaryDirectory() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_module, "MANY_WEIGHTS", 0)
        group = write(store, raw, dims, chunks, combinations, rules, options, compressors)
        request = data.draw(s.requests(raw.shape))
        found = sums(group, request)
        total, weight, _, most = expected(raw, dims, rules, options, request)
        np.testing.assert_allclose(found[0], total, rtol=1e-11, atol=1e-11 * most)
        np.testing.assert_allclose(found[1], weight, rtol=1e-11, atol=1e-11 * raw.size)
        assert "array" not in group.weights.__dict__


def test_counts_of_a_complete_array_need_no_data(tmp_path):
    group = series(tmp_path, np.ones((20, 3)))
    plan = plan_sums(group, Request({0: Runs([3], [17], [0])}, {1: slice(None)}), ("counts",))
    assert plan.readings == ()
    assert counts(group, Request({0: Runs([3], [17], [0])}, {1: slice(None)})).tolist() == [14, 14, 14]


def test_a_query_loads_neither_a_compiler_nor_array_libraries(tmp_path):
    raw = np.random.default_rng(0).normal(size=(40, 6)).astype("f4")
    raw[3, 2] = np.nan
    group = series(tmp_path, raw, compressors="auto")
    assert sums(group, Request({0: Runs([2], [35], [0]), 1: Runs.whole(6)}))[1] == 33 * 6 - 1
    probe = (
        "import sys; from cfagg.accumulation.opening import open_group; from cfagg.accumulation.sums import sums; "
        "from cfagg.accumulation.ranges import Request, Runs; "
        f"group = open_group({str(tmp_path)!r}, 'tas'); "
        "print(sums(group, Request({0: Runs([2], [35], [0]), 1: Runs.whole(6)}))[1]); "
        "print(*{'numba', 'zarr', 'xarray', 'dask', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["197.0", ""]
