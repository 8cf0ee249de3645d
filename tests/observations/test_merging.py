"""Sorted runs in one order, whatever the memory."""

import contextlib
import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.observations.merging import RowRange, RowTable, merge_portion, plan_merge, write_run
from tests import oracles
from tests.effort import examples
from tests.strategies import observation_rows


def runs_of(folder, parts):
    return [write_run(folder / f"run-{k}", oracles.sorted_rows(p)) for k, p in enumerate(parts)]


def ordered(folder, runs, most, columns=5):
    pieces = []
    for k, portion in enumerate(plan_merge(runs, most)):
        if len(portion.ranges) == 1:
            pieces.append(portion.ranges[0])
        else:
            run = merge_portion(portion, folder / f"portion-{k}")
            pieces.append(RowRange(run, 0, run.rows))
    return RowTable.of(pieces, columns)


@settings(max_examples=examples(50))
@given(st.lists(observation_rows(most=15), max_size=6), st.integers(1, 40))
def test_all_rows_come_in_order_and_once(tmp_path_factory, parts, most):
    folder = tmp_path_factory.mktemp("runs")
    table = ordered(folder, runs_of(folder, parts), most)
    expected = oracles.sorted_rows(np.concatenate([*parts, np.empty((0, 5), "f4")]))
    assert table.read(0, table.rows).tobytes() == expected.tobytes()


def test_runs_that_do_not_meet_are_taken_as_they_are(tmp_path):
    days = [np.array([[d, s, 0, 0, 0] for s in range(5)], "f4") for d in (2, 0, 1)]
    portions = plan_merge(runs_of(tmp_path, days), 100)
    assert [[(p.source.path.name, len(p)) for p in portion.ranges] for portion in portions] == [
        [("run-1", 5)],
        [("run-2", 5)],
        [("run-0", 5)],
    ]


def test_of_runs_that_meet_at_their_ends_only_the_ends_are_merged(tmp_path):
    one = np.array([[0, s, 0, 0, 0] for s in range(100)], "f4")
    two = np.array([[0, s, 1, 0, 0] for s in range(98, 200)], "f4")
    portions = plan_merge(runs_of(tmp_path, [one, two]), 1000)
    merged = [p for p in portions if len(p.ranges) > 1]
    assert sum(p.rows for p in merged) <= 3
    assert sum(p.rows for p in portions) == 202


def test_no_portion_is_larger_than_asked_for_where_rows_differ(tmp_path):
    chance = np.random.default_rng(0)
    parts = [chance.integers(0, 86400, (1000, 5)).astype("f4") for _ in range(4)]
    portions = plan_merge(runs_of(tmp_path, parts), 200)
    assert max(p.rows for p in portions) <= 200
    table = ordered(tmp_path, runs_of(tmp_path, parts), 200)
    assert table.read(0, table.rows).tobytes() == oracles.sorted_rows(np.concatenate(parts)).tobytes()


def test_rows_of_dates_are_found(tmp_path):
    rows = np.array([[0, 5, 0, 0, 0], [0, 5, 1, 0, 0], [0, 9, 0, 0, 0], [1, 0, 0, 0, 0]], "f4")
    table = ordered(tmp_path, runs_of(tmp_path, [rows[:2], rows[2:]]), 10)
    assert [table.find(*w) for w in ((0, 5), (5, 6), (6, 86401), (9, 9), (10**6, 10**7))] == [
        (0, 0), (0, 2), (2, 4), (2, 2), (4, 4),
    ]  # fmt: skip


@contextlib.contextmanager
def few_files(most):
    """Let this process open no more than `most` files besides those that are open."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_limit(most, held), before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(held)


def _limit(most, held):
    """Return a limit below which `most` numbers of files are free, some of which may be below those of open files."""
    numbers = Path("/proc/self/fd")
    taken = {int(p.name) for p in numbers.iterdir()} if numbers.exists() else set(range(held + 1))
    free = (n for n in itertools.count() if n not in taken)
    return next(itertools.islice(free, most, None))


def days(start, end):
    dates = pd.date_range(start, end, freq="12h", inclusive="left")
    return pd.DataFrame({"date": dates, "latitude": 0.0, "longitude": 0.0, "n": np.arange(len(dates))})


def recipe(source, end):
    return {
        "dates": {"start": "2020-01-01", "end": end, "frequency": "1d"},
        "input": source,
        "output": {"layout": "tabular"},
        "build": {"group_by": "daily", "max_workers": 1},
        "statistics": {"records": "all"},
    }


def test_a_build_may_have_more_parts_than_a_process_may_open_files(tmp_path):
    cfagg.create_observations(recipe(days, "2020-01-10"), tmp_path / "a.zarr")  # all modules are loaded
    with few_files(40):
        report = cfagg.create_observations(recipe(days, "2020-04-30"), tmp_path / "a.zarr", append=True)
    assert report.rows == 242


def test_a_source_may_have_more_parquet_files_than_a_process_may_open(tmp_path):
    for day in pd.date_range("2020-01-01", "2020-03-31"):
        days(day, day + pd.Timedelta(days=1)).to_parquet(tmp_path / f"{day:%Y%m%d}.parquet")
    source = {"parquet": {"path": str(tmp_path / "*.parquet")}}
    with few_files(40):
        report = cfagg.create_observations(recipe(source, "2020-03-31"), tmp_path / "a.zarr")
    assert report.rows == 182
