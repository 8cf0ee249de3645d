"""Stores that grow."""

import json

import numpy as np
import pytest

import cfagg
from cfagg.errors import ConventionError, TargetError, UnsupportedError
from cfagg.observations.dates import without
from cfagg.observations.layouts import DataLayout
from cfagg.observations.store import open_store
from tests.observations import builds
from tests.observations.builds import contents, recipe


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
def test_a_store_that_grew_is_the_one_that_is_built_at_once(whole, tmp_path, form):
    for end in ("2020-01-02", "2020-01-03", "2020-01-10"):
        cfagg.create_observations(recipe(end=end, format=form), tmp_path / "a.zarr", append=end != "2020-01-02")
    assert contents(tmp_path / "a.zarr") == contents(whole / f"{form}.zarr")


def test_a_store_may_grow_at_its_beginning(whole, tmp_path):
    cfagg.create_observations(recipe(start="2020-01-05"), tmp_path / "a.zarr")
    report = cfagg.create_observations(recipe(), tmp_path / "a.zarr", append=True)
    assert len(report.parts) == 4
    assert contents(tmp_path / "a.zarr") == contents(whole / "zarr2.zarr")


def test_chunks_before_new_rows_are_not_packed_again(tmp_path, monkeypatch):
    cfagg.create_observations(recipe(end="2020-01-08"), tmp_path / "a.zarr")
    packed, encode = [], DataLayout.encode
    monkeypatch.setattr(DataLayout, "encode", lambda self, rows: packed.append(1) or encode(self, rows))
    report = cfagg.create_observations(recipe(), tmp_path / "a.zarr", append=True)
    assert len(packed) <= 3 < report.rows // 700


def test_what_is_covered_is_not_read_again(tmp_path):
    seen = []

    def read(start, end):
        seen.append((start.day, end.day))
        return builds.reports(start, end)

    cfagg.create_observations(recipe(read, end="2020-01-03"), tmp_path / "a.zarr")
    before = contents(tmp_path / "a.zarr")
    seen.clear()
    report = cfagg.create_observations(recipe(read, end="2020-01-03"), tmp_path / "a.zarr", append=True)
    assert (seen, report.parts, contents(tmp_path / "a.zarr")) == ([], (), before)
    cfagg.create_observations(recipe(read, end="2020-01-05", group_by="all"), tmp_path / "a.zarr", append=True)
    assert seen == [(4, 6)]


def test_a_period_without_observations_is_remembered(tmp_path):
    cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    rows = open_store(tmp_path / "a.zarr").rows
    report = cfagg.create_observations(recipe(end="2020-01-12"), tmp_path / "a.zarr", append=True)
    assert (report.rows, len(report.parts)) == (rows, 2)
    assert cfagg.create_observations(recipe(end="2020-01-12"), tmp_path / "a.zarr", append=True).parts == ()


def test_appending_needs_a_store_of_the_same_kind(tmp_path):
    with pytest.raises(TargetError, match="cannot be appended to"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", append=True)
    cfagg.create_observations(recipe(end="2020-01-05"), tmp_path / "a.zarr")
    with pytest.raises(ConventionError, match="format 'zarr2', the recipe has 'cfagg'"):
        cfagg.create_observations(recipe(format="cfagg"), tmp_path / "a.zarr", append=True)
    with pytest.raises(ConventionError, match="unlike the store"):
        cfagg.create_observations(recipe(lambda a, b: builds.reports(a, b)[["date", "latitude", "longitude", "t"]]),
                                  tmp_path / "a.zarr", append=True)  # fmt: skip


def test_a_store_that_does_not_tell_its_period_cannot_grow(tmp_path):
    cfagg.create_observations(recipe(end="2020-01-05"), tmp_path / "a.zarr")
    path = tmp_path / "a.zarr" / ".zattrs"
    attributes = json.loads(path.read_text())
    del attributes["cfagg"]
    path.write_text(json.dumps(attributes))
    with pytest.raises(UnsupportedError, match="which period"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", append=True)


def test_new_parts_are_what_is_outside_of_periods():
    days = np.arange("2020-01-01", "2020-01-20", dtype="M8[D]").tolist()
    parts = [(days[i], days[i + 3]) for i in range(0, 15, 3)]
    covered = [(days[2], days[4]), (days[6], days[9])]
    found = {d for a, b in without(parts, covered) for d in days if a <= d < b}
    assert found == {d for d in days[:15] if not any(a <= d < b for a, b in covered)}
