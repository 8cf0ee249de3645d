"""Samples: rows and their annotations stay together, or part for good."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import AlignmentError, SelectionError
from cfagg.observations.sample import Details, Header, Sample
from tests.effort import examples
from tests.observations.small_stores import NEW_YEAR, epochs_of, table
from tests.strategies import slices

NAMES = ("t", "u", "v")


def made(n: int = 12, samples: int = 1) -> Sample:
    """A sample whose first variable is its latitude and the second its date, so that each row tells what it is."""
    rows = table(NEW_YEAR + np.arange(n) * 100)
    rows[:, 2] = np.arange(n)
    rows[:, 4] = rows[:, 2]
    which = None if samples == 1 else np.arange(n) * samples // n
    details = Details(rows[:, :4], NEW_YEAR + 600 * np.arange(samples), which)
    return Sample(rows[:, 4:], details, Header(NAMES, {"t": {"units": "K"}}))


def aligned(sample: Sample) -> bool:
    values = np.asarray(sample)
    return np.array_equal(sample.latitudes, values[:, 0]) and len(sample.dates) == len(sample.timedeltas) == len(values)


def test_a_sample_is_an_array_of_the_variables() -> None:
    sample = made()
    assert isinstance(sample, np.ndarray)
    assert (sample.shape, sample.dtype, sample.columns) == ((12, 3), np.float32, NAMES)
    assert aligned(sample)


def test_details_are_those_of_the_rows() -> None:
    sample = made()
    epochs = NEW_YEAR + np.arange(12) * 100
    assert np.array_equal(sample.dates, epochs.view("M8[s]"))
    assert np.array_equal(sample.timedeltas, np.arange(12) * 100)
    assert sample.timedeltas.dtype == np.int64
    assert sample.latitudes.dtype == sample.longitudes.dtype == np.float32
    assert str(sample.reference_date) == "2020-01-01T00:00:00"


@given(slices(12))
@settings(max_examples=examples(50))
def test_a_slice_of_rows_slices_the_annotations(key) -> None:
    assert aligned(made()[key])


@given(st.lists(st.integers(-12, 11), max_size=15))
@settings(max_examples=examples(30))
def test_numbers_of_rows_select_the_annotations(key) -> None:
    picked = made()[np.array(key, np.int64)]
    assert aligned(picked)
    assert picked.shape == (len(key), 3)


@given(st.lists(st.booleans(), min_size=12, max_size=12))
@settings(max_examples=examples(30))
def test_a_mask_of_rows_selects_the_annotations(mask) -> None:
    assert aligned(made()[np.array(mask)])


def test_a_condition_on_the_places_selects_rows() -> None:
    sample = made()
    assert sample[sample.latitudes > 6].latitudes.tolist() == [7, 8, 9, 10, 11]
    assert sample[sample[:, 0] > 6].latitudes.tolist() == [7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ((slice(2, 5), slice(1, 3)), ("u", "v")),
        ((slice(2, 5), [2, 0]), ("v", "t")),
        ((slice(None), np.array([True, False, True])), ("t", "v")),
        (([3, 1], slice(None, None, -1)), ("v", "u", "t")),
        ((Ellipsis, slice(0, 1)), ("t",)),
        ((Ellipsis,), NAMES),
        ((slice(1, 3), Ellipsis), NAMES),
        ((slice(1, 3), Ellipsis, slice(0, 2)), ("t", "u")),
    ],
)
def test_rows_and_columns_are_selected_together(key, columns) -> None:
    sample = made()
    picked = sample[key]
    assert picked.columns == columns
    rows = np.arange(12)[key[0]] if key[0] is not Ellipsis else np.arange(12)
    assert np.array_equal(picked.latitudes, rows)
    assert np.array_equal(np.asarray(picked), np.asarray(sample)[key])


@pytest.mark.parametrize("key", [pd.Series([True, False] * 6), xr.DataArray([0, 2]), ((0, 2),), ((0, 2), slice(1, 2))])
def test_rows_are_selected_by_what_numpy_takes_for_lists(key) -> None:
    picked = made()[key]
    assert np.array_equal(np.asarray(picked), np.asarray(made())[key])
    assert np.array_equal(picked.latitudes, [0, 2] if len(picked) == 2 else range(0, 12, 2))


def test_one_column_keeps_its_rows_and_its_name() -> None:
    column = made()[2:6, 1]
    assert (column.ndim, column.columns, column.latitudes.tolist()) == (1, ("u",), [2, 3, 4, 5])
    assert column[1:].latitudes.tolist() == [3, 4, 5]
    assert made()[[5, 3], 1].latitudes.tolist() == [5, 3]


@pytest.mark.parametrize(
    "key",
    [3, (3, slice(None)), (3, 1), ([0, 1], [1, 2]), (None, slice(0, 2)), (slice(0, 2), None), [[0, 1], [2, 3]],
     np.ones((12, 3), bool), (Ellipsis, 2, slice(0, 2))],
)  # fmt: skip
def test_what_is_no_longer_rows_is_a_plain_array_or_number(key) -> None:
    sample = made()
    try:
        expected = np.asarray(sample)[key]
    except IndexError:
        with pytest.raises(IndexError):
            sample[key]
        return
    picked = sample[key]
    assert not isinstance(picked, Sample)
    assert np.array_equal(picked, expected)


def test_arithmetic_by_element_keeps_the_annotations_but_no_units() -> None:
    sample = made()
    scaled = (sample - sample.mean(axis=0)) / 2
    assert isinstance(scaled, Sample)
    assert np.array_equal(scaled.latitudes, sample.latitudes)
    assert np.allclose(scaled, (np.asarray(sample) - np.asarray(sample).mean(axis=0)) / 2)
    assert (sample.header.attributes, scaled.header.attributes) == ({"t": {"units": "K"}}, {})


@pytest.mark.parametrize("change", [np.nan_to_num, lambda s: np.where(s > 3, s, 0), lambda s: np.clip(s, 0, 1)])
def test_functions_by_element_keep_the_annotations(change) -> None:
    sample = made()
    sample[2, 1] = np.nan
    changed = change(sample)
    assert np.array_equal(np.asarray(changed), change(np.asarray(sample)), equal_nan=True)
    assert np.array_equal(changed.latitudes, sample.latitudes)


def test_a_choice_between_samples_of_other_rows_has_no_annotations() -> None:
    assert not hasattr(np.where(made() > 3, made(), 0), "latitudes")


def test_arithmetic_in_place_keeps_the_annotations_but_no_units() -> None:
    sample = made()
    same = sample
    sample -= 1
    assert sample is same
    assert sample.latitudes.tolist() == list(range(12))
    assert np.asarray(sample)[:, 0].tolist() == list(range(-1, 11))
    assert sample.header.attributes == {}


def test_the_sum_of_two_samples_of_other_rows_has_no_annotations() -> None:
    assert not isinstance(made() + made(), Sample)
    sample = made()
    assert isinstance(sample + sample, Sample)
    assert not isinstance(sample[::-1] + sample, Sample)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.T,
        lambda s: s.reshape(3, 12),
        lambda s: s.ravel(),
        lambda s: np.concatenate([s, s]),
        lambda s: np.sort(s, axis=0),
        lambda s: s @ np.eye(3, dtype="f4"),
        lambda s: np.add.accumulate(s),
        lambda s: s.sum(axis=1, keepdims=True),
        lambda s: np.roll(s, 1, axis=0),
        lambda s: s[::-1].view(),
    ],
)
def test_what_numpy_rearranges_has_no_annotations(change) -> None:
    changed = change(made())
    assert not hasattr(changed, "latitudes")
    assert not hasattr(changed, "columns")


@pytest.mark.parametrize("method", ["sort", "partition"])
def test_sorting_in_place_leaves_the_annotations_behind(method) -> None:
    sample = made()[::-1].copy()
    getattr(sample, method)(*([3] if method == "partition" else []), axis=0)
    with pytest.raises(AlignmentError, match="no longer"):
        _ = sample.latitudes


def test_a_flip_keeps_rows_and_annotations_together() -> None:
    assert aligned(np.flip(made(), axis=0))


@pytest.mark.parametrize("kind", [copy.copy, copy.deepcopy, lambda s: s.copy(), lambda s: s.astype("f8")])
def test_copies_keep_the_annotations(kind) -> None:
    sample = made()
    other = kind(sample[::2])
    assert aligned(other)
    other[:] = 0
    assert sample.any()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_sample_is_pickled_with_its_annotations(protocol) -> None:
    sample = made(samples=3)[1::2]
    other = pickle.loads(pickle.dumps(sample, protocol))
    assert np.array_equal(other, sample)
    assert isinstance(other, Sample)
    assert aligned(other)
    assert np.array_equal(other.timedeltas, sample.timedeltas)
    assert other.header == sample.header


def test_a_pickled_part_does_not_carry_the_whole() -> None:
    assert len(pickle.dumps(made(10000)[:2])) < 3000


def test_the_rows_of_several_samples_have_boundaries_and_each_its_own_date() -> None:
    sample = made(12, samples=3)
    assert sample.boundaries == [slice(0, 4), slice(4, 8), slice(8, 12)]
    assert np.array_equal(sample.reference_dates, (NEW_YEAR + 600 * np.arange(3)).view("M8[s]"))
    assert sample.timedeltas.tolist() == [100 * i - 600 * (i // 4) for i in range(12)]
    assert sample[3:6].boundaries == [slice(0, 1), slice(1, 3), slice(3, 3)]
    with pytest.raises(SelectionError, match="no single date"):
        _ = sample.reference_date
    with pytest.raises(SelectionError, match="were reordered"):
        _ = sample[::-1].boundaries


def test_dates_far_from_1970_are_exact() -> None:
    epochs = np.array([-(10**10) - 1, -1, 0, 2**31, 10**11 + 7])
    rows = table(epochs)
    assert Details(rows[:, :4], np.array([0])).epochs.tolist() == epochs_of(rows).tolist() == epochs.tolist()


def test_a_sample_without_rows_has_annotations_without_rows() -> None:
    sample = made(0)
    assert (sample.shape, len(sample.latitudes), len(sample.dates), len(sample.timedeltas)) == ((0, 3), 0, 0, 0)


@pytest.mark.parametrize("key", [3, (slice(0, 2), 1), None, [[0, 1]], ...])
def test_details_are_selected_by_rows_alone(key) -> None:
    with pytest.raises(SelectionError):
        made().details[key]
    assert len(made().details[[]]) == 0


@pytest.mark.parametrize("shuffle", [np.random.default_rng(1).shuffle, np.random.RandomState(1).shuffle])
@pytest.mark.parametrize("columns", [slice(None), 0])
def test_shuffled_rows_have_no_places(shuffle, columns) -> None:
    sample = made()[:, columns]
    before = np.array(sample)
    shuffle(sample)
    assert sorted(np.asarray(sample).tolist()) == before.tolist() != np.asarray(sample).tolist()
    with pytest.raises(AlignmentError, match="no longer consists of the rows"):
        _ = sample.latitudes


def test_rows_keep_their_places_if_values_are_set() -> None:
    sample = made()
    sample[sample > 5] = 0
    sample[3] = 0
    sample[2:4, 1] = np.ones(2)
    sample[3, np.array([True, False, True])] = np.ones(2)
    assert np.array_equal(sample.latitudes, np.arange(12))
