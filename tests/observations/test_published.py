"""Stores of the published software open unchanged, and give the samples that it gives; its recipe builds the same rows.

The stores are committed, see published/SOURCES.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.observations.store import open_store
from tests.observations.published.make import ASKED

HERE = Path(__file__).parent / "published"

kinds = pytest.mark.parametrize("kind", ["bisect", "btree"])


@kinds
@pytest.mark.parametrize("number", range(len(ASKED)), ids=[a[2] for a in ASKED])
def test_samples_are_those_of_the_published_software(kind: str, number: int) -> None:
    wanted = np.load(HERE / "samples.npz")
    start, end, window, frequency = ASKED[number]
    ds = cfagg.open_observations(HERE / f"{kind}.zarr", start, end, window, frequency)
    assert ds.index.kind == kind
    count = len(wanted[f"dates_{number}"])
    np.testing.assert_array_equal(ds.dates.astype("i8")[:count], wanted[f"dates_{number}"])
    samples = [ds[i] for i in range(count)]
    assert [len(s) for s in samples] == wanted[f"counts_{number}"].tolist()
    np.testing.assert_array_equal(np.concatenate(samples), wanted[f"values_{number}"])
    for name in ("latitudes", "longitudes", "timedeltas"):
        found = np.concatenate([getattr(s, name) for s in samples])
        np.testing.assert_array_equal(found, wanted[f"{name}_{number}"])


@kinds
def test_attributes_and_statistics_are_read(kind: str) -> None:
    store = open_store(HERE / f"{kind}.zarr")
    assert store.variables == ("wind", "pressure", "gale", "storm")
    assert (store.rows, store.attributes.date_indexing) == (220, kind)
    assert set(store.statistics) == {"mean", "minimum", "maximum", "stdev"}
    assert store.statistics["maximum"][0] == 150


@kinds
def test_the_recipe_of_the_published_software_builds_the_same_store(kind: str, tmp_path: Path) -> None:
    text = (HERE / "recipe.yaml").read_text().replace("bisect", kind)
    # The rows that the published software takes where a recipe does not say which.
    dates = "{start: 2005-08-22T12:00:00, end: 2005-09-13T12:00:00}"
    (tmp_path / "recipe.yaml").write_text(f"{text}statistics: {dates}\n")
    (tmp_path / "storms.csv").write_bytes((HERE / "storms.csv").read_bytes())
    cfagg.create_observations(tmp_path / "recipe.yaml", tmp_path / "a.zarr")
    ours, theirs = open_store(tmp_path / "a.zarr"), open_store(HERE / f"{kind}.zarr")
    np.testing.assert_array_equal(ours.data.read(0, 220).view("u4"), theirs.data.read(0, 220).view("u4"))
    assert ours.variables == theirs.variables
    for name in ("data/.zarray", "mean/.zarray"):
        assert (tmp_path / "a.zarr" / name).read_bytes() == (HERE / f"{kind}.zarr" / name).read_bytes(), name
    for name, values in theirs.statistics.items():
        np.testing.assert_allclose(ours.statistics[name], values, rtol=1e-12, err_msg=name)
    for key in ("statistics_start_date", "statistics_end_date", "index_start_date", "index_end_date", "index_length"):
        assert ours.attributes.all[key] == theirs.attributes.all[key], key


def test_both_indexes_find_the_same_rows_for_any_window() -> None:
    one, other = (open_store(HERE / f"{kind}.zarr").index() for kind in ("bisect", "btree"))
    random = np.random.default_rng(0)
    lo = random.integers(one.first - 90000, one.last + 90000, 500)
    hi = lo + random.integers(0, 200000, 500)
    np.testing.assert_array_equal(one.find_many(lo, hi), other.find_many(lo, hi))
