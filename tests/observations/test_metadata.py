"""Metadata for a training's checkpoint."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cfagg
from cfagg.errors.redacting import redacted
from cfagg.observations.metadata import as_json
from tests.observations.small_stores import VARIABLES, hourly


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return hourly(
        tmp_path_factory.mktemp("metadata") / "synop.zarr",
        uuid="4f2c",
        recipe={"input": {"csv": {"path": "synop.csv"}}},
        variables_metadata={"t": {"units": "K"}},
    )[0]


def test_metadata_survive_json(path) -> None:
    found = cfagg.open_observations(path, 2020, 2020, statistics={"mean": [1, np.nan, np.inf]}).metadata()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["statistics"] == {"mean": [1, None, None]}


def test_metadata_tell_sources_recipe_versions_statistics_and_what_was_asked_for(path) -> None:
    ds = cfagg.open_observations(
        path, 2020, "2020-01-03", "(-3,+3]", "6h", select=["v", "t"], rename={"t": "temperature"},
        area=(60, -20, 30, 40), thin={"random": 0.5, "seed": 3}, sample="deltatime",
    )  # fmt: skip
    found = ds.metadata()
    (source,) = found["sources"]
    assert (source["path"], source["uuid"], source["rows"]) == (str(path), "4f2c", 720)
    assert source["attributes"]["variables"] == list(VARIABLES)
    assert found["recipe"] == {"input": {"csv": {"path": "synop.csv"}}}
    assert {"cfagg", "python", "numpy", "numcodecs"} <= set(found["versions"])
    expected = {
        "start": "2020-01-01T00:00:00", "end": "2020-01-03T23:59:59", "last": "2020-01-03T18:00:00", "frequency": 21600,
        "samples": 12, "window": "(-3h,3h]", "sample": "deltatime", "area": [60, -20, 30, 40],
        "thin": {"random": 0.5, "seed": 3}, "columns": ["deltatime", "latitude", "longitude", "v", "temperature"],
        "variables": ["v", "temperature"], "stored_variables": ["v", "t"],
        "variables_metadata": {"temperature": {"units": "K"}},
    }  # fmt: skip
    assert {k: found[k] for k in expected} == expected
    assert found["statistics"]["mean"] == ds.statistics["mean"].tolist()


def test_what_metadata_tell_opens_the_same_dataset_again(path) -> None:
    ds = cfagg.open_observations(
        path, 2020, "2020-01-03", "(-1/3s,2/3]", "6h", area=(60, -20, 30, 40), thin={"every": 3}
    )
    m = ds.metadata()
    again = cfagg.open_observations(
        m["sources"][0]["path"], m["start"], m["end"], m["window"], f"{m['frequency']}s", select=m["stored_variables"],
        area=m["area"], thin=m["thin"], sample=m["sample"],
    )  # fmt: skip
    assert np.array_equal(again[:], ds[:])
    assert {**again.metadata(), "opened": 0} == {**m, "opened": 0}


def test_the_digest_of_a_source_tells_changed_data(path, tmp_path) -> None:
    same, _ = hourly(tmp_path / "same.zarr", uuid="4f2c")
    other, _ = hourly(tmp_path / "other.zarr", uuid="4f2c", seed=1)
    digests = [cfagg.open_observations(p, 2020, 2020).metadata()["sources"][0]["identity"] for p in (path, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_keys_and_passwords_in_a_url_are_left_out() -> None:
    assert redacted("https://me:secret@example.org/a.zarr?token=1", mark="") == "https://example.org/a.zarr"
    assert redacted("/data/me@home?.zarr", mark="") == "/data/me@home?.zarr"


def test_any_value_becomes_plain() -> None:
    value = {
        "a": (1, np.float32(0.5)),
        "d": np.array(["2020-01-01"], "M8[D]"),
        "n": None,
        "b": np.bool_(True),
        3: {"x"},
    }
    assert as_json(value) == {"a": [1, 0.5], "d": ["2020-01-01"], "n": None, "b": True, "3": ["x"]}
