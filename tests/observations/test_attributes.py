"""Root attributes of stores, as written and as damaged."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from cfagg.errors import ConventionError, LimitError
from cfagg.observations import store as module
from cfagg.observations.store import parse_attributes

PUBLISHED = Path(__file__).parent / "published" / "bisect.zarr"


def written() -> dict:
    return json.loads((PUBLISHED / ".zattrs").read_text())


def test_attributes_of_the_published_software_are_understood():
    found = parse_attributes(written(), "a.zarr")
    assert found.variables == tuple(written()["variables"])
    assert (found.date_indexing, found.version) == ("bisect", "0.22")
    assert found.recipe["input"] == written()["recipe"]["input"]
    assert found.all["index_length"] == written()["index_length"]


def test_the_older_name_of_the_layout_is_understood():
    assert parse_attributes({"format": "tabular", "variables": []}, "a").variables == ()


@pytest.mark.parametrize("layout", [{}, {"layout": "gridded"}, {"layout": None}, {"format": "zarr2"}])
def test_another_layout_is_told(layout):
    with pytest.raises(ConventionError, match=r"a\.zarr is not an observation store.*cfagg\.read"):
        parse_attributes({"variables": ["t"], **layout}, "a.zarr")


def test_every_problem_is_told_at_once():
    wrong = {
        "layout": "tabular",
        "variables": ["t", "t", "__time"],
        "meta_variables": ["date"],
        "date_indexing": 3,
        "uuid": ["x"],
        "recipe": "text",
        "variables_metadata": {"t": 5},
    }
    with pytest.raises(ConventionError) as raised:
        parse_attributes(wrong, "a.zarr")
    assert sorted(p.where for p in raised.value.problems) == [
        "date_indexing", "meta_variables", "recipe", "uuid", "variables", "variables", "variables_metadata.t",
    ]  # fmt: skip


@pytest.mark.parametrize("variables", [None, "t", [1], [""], {"t": 1}])
def test_variables_that_are_no_names_are_told(variables):
    with pytest.raises(ConventionError, match="expected a list of names"):
        parse_attributes({"layout": "tabular", "variables": variables}, "a.zarr")


def test_too_many_variables_are_told(monkeypatch):
    monkeypatch.setattr(module, "MAX_VARIABLES", 3)
    with pytest.raises(LimitError, match="4 variables"):
        parse_attributes({"layout": "tabular", "variables": list("abcd")}, "a.zarr")


def test_attributes_pickle_and_stay_read_only():
    found = pickle.loads(pickle.dumps(parse_attributes(written(), "a.zarr")))
    assert found == parse_attributes(written(), "a.zarr")
    with pytest.raises(TypeError):
        found.recipe["name"] = "another"
