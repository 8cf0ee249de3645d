"""`open_observations`: what is checked when a store is opened, and what a user's statistics become."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.errors import OptionError, SourceError, StaleError
from tests.observations.loaders import sample
from tests.observations.servers import served
from tests.observations.small_stores import NEW_YEAR, VARIABLES, hourly, table, write
from tests.observations.written import write_rows


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return hourly(tmp_path_factory.mktemp("opening") / "synop.zarr")


@pytest.mark.parametrize(
    "options",
    [
        {"start": "soon"},
        {"end": "1979-13"},
        {"start": 2021},
        {"window": "(3,-3]"},
        {"frequency": "-6h"},
        {"select": "x"},
        {"area": (0, 0, 10, 10)},
        {"thin": 0},
        {"sample": "all"},
    ],
)
def test_what_cannot_be_honoured_raises_when_the_store_is_opened(kept, options) -> None:
    with pytest.raises(OptionError):
        cfagg.open_observations(kept[0], **{"start": 2020, "end": 2020, **options})


def test_a_store_without_variables_gives_places_and_dates(tmp_path) -> None:
    rows = table([NEW_YEAR, NEW_YEAR + 5], variables=0)
    path = write(tmp_path / "strokes.zarr", rows, variables=())
    x = cfagg.open_observations(path, 2020, 2020, "[0,1d)", "1d")[0]
    assert (x.shape, x.latitudes.tolist(), x.timedeltas.tolist()) == ((2, 0), rows[:, 2].tolist(), [0, 5])


def test_a_store_that_is_not_there_raises(tmp_path) -> None:
    with pytest.raises(SourceError, match=r"absent\.zarr"):
        cfagg.open_observations(tmp_path / "absent.zarr", 2020, 2020)


def test_several_paths_lead_to_joining(kept) -> None:
    with pytest.raises(OptionError, match="join_observations"):
        cfagg.open_observations([kept[0], kept[0]], 2020, 2020)


def test_the_index_can_be_chosen(kept) -> None:
    ds = cfagg.open_observations(kept[0], 2020, 2020, index="bisect")
    assert ds.index.kind == "bisect"
    with pytest.raises(cfagg.CfaggError, match="no kind of index"):
        cfagg.open_observations(kept[0], 2020, 2020, index="hash")


def test_opening_and_reading_load_no_library_for_arrays_or_tables(kept) -> None:
    code = f"""
import sys
from concurrent.futures import ProcessPoolExecutor
import cfagg
ds = cfagg.open_observations({str(kept[0])!r}, 2020, "2020-01-03", "(-3,3]", "6h", area=(90, 0, 0, 180), thin=2)
assert len(ds[3]) and len(ds[2:7]) and ds.details(1).dates.size and ds.metadata()
print(*sorted({{m.split(".")[0] for m in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & {"dask", "numba", "pandas", "pyarrow", "xarray", "zarr"}


def test_the_home_directory_may_be_named(kept, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(kept[0].parent))
    assert len(cfagg.open_observations("~/synop.zarr", 2020, "2020-01-01")) == 8


# ---- statistics ------------------------------------------------------------------------------------------------


def opened(kept, statistics, **options):
    return cfagg.open_observations(kept[0], 2020, 2020, statistics=statistics, **options).statistics


def test_statistics_may_be_numbers_in_the_order_of_the_variables(kept) -> None:
    found = opened(kept, {"mean": [1, 2], "stdev": {"t": 4, "v": 3, "u": 0}}, select=["v", "t"])
    assert {k: v.tolist() for k, v in found.items()} == {"mean": [1, 2], "stdev": [3, 4]}


def test_statistics_may_be_those_of_another_store_by_the_names_in_it(kept, tmp_path) -> None:
    rows = table(NEW_YEAR + np.arange(10), seed=5)
    other = write(tmp_path / "other.zarr", rows, variables=("v", "x", "t"))
    for value in (other, str(other)):
        found = opened(kept, value, select=["t", "v"], rename={"t": "temperature"})
        assert np.allclose(found["mean"], rows[:, [6, 4]].astype("f8").mean(axis=0))
    with pytest.raises(OptionError) as caught:
        opened(kept, other)
    assert [p.where for p in caught.value.problems] == ["u"]


def test_statistics_may_be_those_of_another_dataset_by_its_names(kept) -> None:
    other = cfagg.open_observations(kept[0], 2020, 2020, rename={"u": "t", "t": "u"})
    assert opened(kept, other)["mean"].tolist() == other.statistics["mean"][[1, 0, 2]].tolist()


@pytest.mark.parametrize(
    ("choice", "stop"), [("all", 720), ("50% of records", 360), ({"over": "records", "percent": 10}, 72)]
)
def test_statistics_may_be_calculated_of_a_choice_of_rows(kept, choice, stop) -> None:
    values = kept[1][:stop, 4:].astype("f8")
    found = opened(kept, choice, select=["v", "t"])
    assert np.allclose(found["mean"], values.mean(axis=0)[[2, 0]], rtol=1e-12)
    assert np.allclose(found["stdev"], values.std(axis=0)[[2, 0]], rtol=1e-12)
    assert found["nan_count"].tolist() == [0, 0]


def test_statistics_stay_with_their_variables_in_a_subset(kept) -> None:
    ds = cfagg.open_observations(kept[0], 2020, 2020, statistics={"mean": [1, 2, 3]})
    other = ds.subset(select=["v", "t"], rename={"v": "w"})
    assert other.statistics["mean"].tolist() == [3, 1]
    assert ds.subset(statistics={"mean": [4, 5, 6]}).statistics["mean"].tolist() == [4, 5, 6]
    assert ds.statistics["mean"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "statistics",
    [{"mean": [1, 2]}, {"mean": {"t": 1}}, {"mean": "abc"}, {"mean": [[1, 2, 3]]}, 3, ["mean"], "120% of records",
     {"over": "records"}],
)  # fmt: skip
def test_statistics_that_do_not_fit_raise(kept, statistics) -> None:
    with pytest.raises(OptionError):
        opened(kept, statistics)


def test_all_problems_of_statistics_are_told_at_once(kept) -> None:
    with pytest.raises(OptionError) as caught:
        opened(kept, {"mean": {"t": 1}, "stdev": [1], "maximum": [1, 2, 3]})
    assert [p.where for p in caught.value.problems] == ["mean", "stdev"]


def test_the_names_of_the_signature_are_those_of_the_founding_text(kept) -> None:
    ds = cfagg.open_observations(str(kept[0]), start=1979, end=2020, window="(-3,+3]", frequency="6h")
    assert (len(ds), str(ds.dates[0]), str(ds.dates[-1])) == (61364, "1979-01-01T00:00:00", "2020-12-31T18:00:00")
    assert ds.variables == VARIABLES
    assert ds.counts.sum() == len(kept[1])
    assert Path(ds.path) == kept[0]


# ---- tendencies ------------------------------------------------------------------------------------------------


def test_statistics_of_tendencies_are_those_that_the_recipe_asked_for(tmp_path) -> None:
    hours = np.arange(0, 48, 6)
    lines = [f"2020-01-0{1 + h // 24}T{h % 24:02}:00:00,10,20,{h * h},{-h}" for h in hours.tolist()]
    (tmp_path / "a.csv").write_text("\n".join(["date,latitude,longitude,t,u", *lines]))
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-02T18:00:00", "frequency": "6h"},
        "input": {"csv": {"path": str(tmp_path / "a.csv")}},
        "output": {"layout": "tabular"},
        "statistics": {"tendencies": ["6h"], "grid": 1.0},
    }
    cfagg.create_observations(recipe, tmp_path / "a.zarr")
    ds = cfagg.open_observations(tmp_path / "a.zarr", frequency="6h", select=["u", "t"])
    found = ds.statistics_tendencies()
    assert np.allclose(found["mean"], [-6, np.diff(hours**2).mean()])
    assert np.allclose(found["stdev"], [0, np.diff(hours**2).std()])
    assert np.array_equal(ds.statistics_tendencies("PT6H")["maximum"], found["maximum"])
    with pytest.raises(OptionError, match="tendencies over 12h"):
        ds.statistics_tendencies("12h")


def test_a_store_without_tendencies_says_so(kept) -> None:
    with pytest.raises(OptionError, match="no statistics of tendencies over 3h"):
        cfagg.open_observations(kept[0]).statistics_tendencies()


# ---- forms of stores -------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "form",
    [{"format": "zarr2", "date_indexing": "btree", "rows_per_chunk": 70}, {"format": "cfagg"},
     {"format": "zarr2", "sidecar": False}, {"format": "cfagg", "date_indexing": "btree", "sidecar": False}],
    ids=["btree", "own", "bisect alone", "own, btree alone"],
)  # fmt: skip
def test_every_form_of_store_gives_the_same_samples(kept, form, tmp_path) -> None:
    write_rows(tmp_path / "a.zarr", VARIABLES, kept[1], **form)
    options = {"area": (80, -100, -80, 100), "thin": {"random": 0.7}, "sample": "deltatime", "select": ["v", "t"]}
    ours, plain = (
        cfagg.open_observations(p, "2019-12-31", "2020-01-04", "(-4,2]", "5h", **options)
        for p in (tmp_path / "a.zarr", kept[0])
    )
    assert np.array_equal(ours[:], plain[:])
    assert np.array_equal(ours[::3].dates, plain[::3].dates)
    assert ours[:].boundaries == plain[:].boundaries
    for name, values in plain.statistics.items():
        assert np.allclose(ours.statistics[name], values)


# ---- from a server ---------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_store_on_a_web_server_gives_the_same_samples_also_to_a_spawned_worker(kept) -> None:
    asked = ("2020-01-01", "2020-01-03", "(-3,3]", "6h")
    here = cfagg.open_observations(kept[0], *asked)
    with served(kept[0].parent) as server:
        there = cfagg.open_observations(f"{server.url}/synop.zarr", *asked, statistics=f"{server.url}/synop.zarr")
        assert np.array_equal(there[:], here[:])
        assert np.array_equal(there.statistics["stdev"], here.statistics["stdev"])
        assert there.metadata()["sources"][0]["path"] == f"{server.url}/synop.zarr"
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert np.array_equal(pool.submit(sample, (there, 4)).result(), here[4])


def test_of_a_replaced_store_only_what_is_in_the_cache_is_given(tmp_path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    ds = cfagg.open_observations(path, start="2020-01-01", end="2020-01-03", window="[0,1h)", frequency="1h")
    first = np.asarray(ds[0]).copy()
    shutil.rmtree(path)
    hourly(path, seed=1)
    np.testing.assert_array_equal(ds[0], first)
    with pytest.raises(StaleError, match="replaced or removed since it was opened"):
        ds[60]
