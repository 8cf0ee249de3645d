"""Datasets joined at load time."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import OptionError, SelectionError
from cfagg.observations.fields import Fields
from tests.observations.small_stores import hourly

N = 12


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two datasets of two stores, with the same dates."""
    folder = tmp_path_factory.mktemp("joining")
    paths = [hourly(folder / f"{name}.zarr", seed=i)[0] for i, name in enumerate(("synop", "buoys"))]
    first = cfagg.open_observations(paths[0], 2020, "2020-01-03", "(-3,+3]", "6h")
    return first, cfagg.open_observations(paths[1], 2020, "2020-01-03", "(-1,0]", "6h", select=["v", "t"])


def analysis(start: str = "2020-01-01", count: int = 20, step: int = 6) -> xr.Dataset:
    times = np.datetime64(start, "h") + step * np.arange(count).astype("m8[h]")
    values = np.arange(count * 4, dtype="f4").reshape(count, 2, 2)
    return xr.Dataset(
        {"t": (("time", "lat", "lon"), values)}, {"time": times.astype("M8[ns]"), "lat": [0.0, 1.0], "lon": [2.0, 3.0]}
    )


def test_a_joined_sample_has_the_part_of_each_dataset(pair) -> None:
    joined = cfagg.join_observations({"a": pair[0], "b": pair[1], "fields": analysis()})
    assert (len(joined), joined.names) == (N, ("a", "b", "fields"))
    for i in (0, 5, -1, np.int64(3)):
        x = joined[i]
        assert (list(x), len(x)) == (["a", "b", "fields"], 3)
        assert np.array_equal(x["a"], pair[0][i])
        assert np.array_equal(x["b"].latitudes, pair[1][i].latitudes)
        assert np.array_equal(x["fields"], Fields(analysis())[range(N)[i]])
        assert x.date == pair[0].dates[i]


def test_datasets_of_a_sequence_are_named_after_their_stores(pair) -> None:
    assert cfagg.join_observations([*pair, analysis()]).names == ("synop", "buoys", "fields")
    with pytest.raises(OptionError, match="several datasets are named synop"):
        cfagg.join_observations([pair[0], pair[0]])


def test_variables_and_statistics_are_those_of_each(pair) -> None:
    joined = cfagg.join_observations([*pair, analysis()])
    assert joined.variables == {"synop": ("t", "u", "v"), "buoys": ("v", "t"), "fields": ("t",)}
    assert set(joined.statistics) == {"synop", "buoys"}
    assert np.array_equal(joined.statistics["buoys"]["mean"], pair[1].statistics["mean"])


def test_details_are_those_of_each(pair) -> None:
    found = cfagg.join_observations([*pair, analysis()]).details(4)
    assert np.array_equal(found["buoys"].timedeltas, pair[1].details(4).timedeltas)
    assert found["fields"].latitudes.tolist() == [0, 0, 1, 1]
    assert set(found["fields"].dates.tolist()) == {pair[0].dates[4].item()}
    with pytest.raises(SelectionError, match="one sample"):
        cfagg.join_observations(pair).details(slice(0, 2))


@pytest.mark.parametrize("key", [slice(2, 9, 3), slice(None, None, -1), [3, -2], [], np.arange(N) % 5 == 1])
def test_several_samples_are_those_of_each(pair, key) -> None:
    joined = cfagg.join_observations([*pair, analysis()])
    x = joined[key]
    numbers = np.arange(N)[np.array(key, int) if isinstance(key, list) else key]
    assert np.array_equal(x["synop"], pair[0][numbers])
    assert np.array_equal(x["fields"], Fields(analysis())[numbers])
    assert np.array_equal(x.dates, pair[0].dates[numbers])


@pytest.mark.parametrize("key", [N, -N - 1, True, "a", 1.5, [[0, 1]], [0, N]])
def test_samples_that_are_not_there_raise(pair, key) -> None:
    with pytest.raises(SelectionError):
        cfagg.join_observations(pair)[key]


def test_iterating_ends_with_the_last_sample(pair) -> None:
    assert [x.date for x in cfagg.join_observations(pair)] == pair[0].dates.tolist()


def test_dates_that_differ_raise_with_every_difference(pair) -> None:
    other = pair[1].subset(frequency="12h")
    late = analysis("2020-01-01T12:00")
    with pytest.raises(OptionError, match="dates='common'") as caught:
        cfagg.join_observations({"a": pair[0], "b": other, "c": pair[1], "d": late})
    assert [p.where for p in caught.value.problems] == ["b", "d"]
    assert "no field at 2 of 12 dates, the first 2020-01-01T00:00:00" in str(caught.value)


def test_common_dates_are_those_that_all_have(pair) -> None:
    other = pair[1].subset(start="2019-12-31T18:00:00", frequency="4h")
    joined = cfagg.join_observations({"a": pair[0], "b": other, "c": analysis("2020-01-01T06:00")}, dates="common")
    held = (pair[0].dates, other.dates, Fields(analysis("2020-01-01T06:00")).dates)
    every = sorted(set.intersection(*(set(dates.tolist()) for dates in held)))
    assert joined.dates.tolist() == every
    for x in joined:
        assert np.array_equal(x["a"], pair[0][pair[0].dates.tolist().index(x.date.item())])
        assert np.array_equal(x["b"], other[other.dates.tolist().index(x.date.item())])


def test_no_common_date_raises(pair) -> None:
    with pytest.raises(OptionError, match="no date in common"):
        cfagg.join_observations({"a": pair[0], "b": analysis("1990-01-01")}, dates="common")


def test_names_that_are_the_same_as_text_raise(pair) -> None:
    with pytest.raises(OptionError, match="same name as text: 1, '1'"):
        cfagg.join_observations({1: pair[0], "1": pair[1]})


@pytest.mark.parametrize("datasets", [[], {}, "synop.zarr", ["synop.zarr"], {"a": 3}, 3])
def test_what_is_no_dataset_raises(datasets) -> None:
    with pytest.raises(OptionError):
        cfagg.join_observations(datasets)


def test_an_unknown_way_to_choose_dates_raises(pair) -> None:
    with pytest.raises(OptionError, match="must be 'same' or 'common'"):
        cfagg.join_observations(pair, dates="all")


def test_joined_datasets_and_samples_can_be_pickled(pair) -> None:
    joined = cfagg.join_observations([*pair, analysis()])
    joined.prefetch(3, slice(5, 8))
    other = pickle.loads(pickle.dumps(joined))
    x = pickle.loads(pickle.dumps(other[3]))
    assert np.array_equal(x["synop"].longitudes, pair[0][3].longitudes)
    assert x.date == joined[3].date
    assert repr(x) == repr(joined[3])


def test_metadata_are_those_of_each_and_survive_json(pair) -> None:
    found = cfagg.join_observations([*pair, analysis()]).metadata()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["members"]["buoys"]["variables"] == ["v", "t"]
    assert found["members"]["fields"]["kind"] == "fields"
    assert (found["samples"], found["end"]) == (N, "2020-01-03T18:00:00")
