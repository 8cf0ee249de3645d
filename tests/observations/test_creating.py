"""Building stores: what is in them, however they are built."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import distributed
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import (
    CfaggError,
    ConformError,
    ConventionError,
    SourceError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.observations import building
from cfagg.observations.indexes import open_index
from cfagg.observations.store import open_store
from cfagg.observations.writing import Place
from tests import oracles
from tests.effort import examples
from tests.observations import builds
from tests.observations.builds import contents, from_file, recipe

#: Of so little memory, runs have some hundred rows.
MEMORY = st.sampled_from([1, 2**20, "512MiB"])


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
def test_all_rows_are_there_sorted_rounded_and_once(whole, form):
    data = zarr.open_group(whole / f"{form}.zarr", mode="r")["data"]
    assert data[:].tobytes() == builds.expected().tobytes()


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize(
    ("function", "group_by", "workers", "memory"),
    [
        (builds.reports, "daily", 1, "512MiB"),
        (builds.reports, 3, 2, "512MiB"),
        (builds.reports, "weekly", 4, "512MiB"),
        (builds.small_frames, "daily", 3, "512MiB"),
        (builds.small_frames, "all", 2, 1000),
    ],
)
def test_stores_are_the_same_byte_by_byte_whatever_the_parts(
    whole, tmp_path, monkeypatch, form, function, group_by, workers, memory
):
    monkeypatch.setattr(building.Budget, "run", 4096)
    made = recipe(builds.reports, group_by=group_by, format=form)
    # The name of the function is in the recipe that is kept.
    monkeypatch.setattr(function, "__qualname__", builds.reports.__qualname__)
    made = recipe(function, group_by=group_by, format=form)
    report = cfagg.create_observations(made, tmp_path / "a.zarr", workers=workers, memory=memory)
    assert report.rows == len(builds.expected())
    assert contents(tmp_path / "a.zarr") == contents(whole / f"{form}.zarr")


@pytest.mark.full
@settings(max_examples=examples(25))
@given(st.data())
def test_any_rows_in_any_frames_and_parts_give_one_store(tmp_path_factory, data):
    n = data.draw(st.integers(1, 60))
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    table = pd.DataFrame(
        {
            "date": builds.START.astype("M8[ms]") + (chance.integers(0, 2 * 86400 * 4, n) * 250).astype("m8[ms]"),
            "latitude": chance.choice([-90.0, -0.0, 0.0, 90.0], n),
            "longitude": chance.choice([-180.0, -1e-9, 0.0, 180.0, 359.99999999], n),
            "t": chance.choice([np.nan, 1.0, 2.0], n),
            "wind": chance.choice([-0.0, 0.0], n),
        }
    )
    table = pd.concat([table, table.sample(frac=0.3, random_state=1)])
    made = []

    def read(start, end):
        found = table[(table["date"] >= np.datetime64(start)) & (table["date"] < np.datetime64(end))]
        for at in range(0, len(found), size):
            yield found.iloc[at : at + size]

    for _ in range(2):
        size = data.draw(st.integers(1, 50))
        document = recipe(
            read, end="2020-01-03", group_by=data.draw(st.sampled_from(["all", 1, "6h"])), rows_per_chunk=11
        )
        path = tmp_path_factory.mktemp("any") / "a.zarr"
        cfagg.create_observations(document, path, workers=data.draw(st.integers(1, 3)), memory=data.draw(MEMORY))
        made.append(contents(path))
    assert made[0] == made[1]
    assert zarr.open_group(path, mode="r")["data"][:].tobytes() == builds.expected(table).tobytes()


def test_statistics_are_those_of_all_rows(whole):
    rows, group = builds.expected(), zarr.open_group(whole / "zarr2.zarr", mode="r")
    for j in range(2):
        mean, low, high, variance, nan = oracles.column_statistics(rows[:, 4 + j])
        found = [group[k][j] for k in ("mean", "minimum", "maximum", "nan_count")]
        assert found == [mean, low, high, nan]
        assert group["stdev"][j] == pytest.approx(float(variance) ** 0.5, rel=1e-15)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("statistics", "chosen"),
    [
        ({"records": "50%"}, lambda e: np.arange(len(e)) < len(e) // 2),
        ({"period": "50%"}, lambda e: e <= e[0] + (e[-1] - e[0]) / 2),
        ({"start": "2020-01-03", "end": "2020-01-04T11:59:59"}, lambda e: (e >= 18264 * 86400) & (e < 18265.5 * 86400)),
    ],
)
def test_statistics_are_of_the_rows_that_the_recipe_names(tmp_path, statistics, chosen):
    cfagg.create_observations(recipe(statistics=statistics), tmp_path / "a.zarr")
    rows, store = builds.expected(), open_store(tmp_path / "a.zarr")
    picked = rows[chosen(rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8"))]
    mean, low, high, _, nan = oracles.column_statistics(picked[:, 5])
    assert [store.statistics[k][1] for k in ("mean", "minimum", "maximum", "nan_count")] == [mean, low, high, nan]
    last = np.datetime64("1970-01-01") + np.timedelta64(int(picked[-1, 0]), "D")
    assert store.attributes.statistics_end_date.startswith(str(last))


def test_tendencies_are_stored_for_each_step(tmp_path):
    cfagg.create_observations(recipe(statistics={"tendencies": ["1d", "2d"], "grid": 30}), tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    for step in ("1d", "2d"):
        assert group[f"statistics_tendencies_{step}_stdev"][0] > 0
        assert abs(group[f"statistics_tendencies_{step}_mean"][0]) < 1


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_both_kinds_of_index_and_the_pages_find_the_rows(tmp_path, form, kind):
    cfagg.create_observations(recipe(date_indexing=kind, format=form), tmp_path / "a.zarr")
    store, rows = open_store(tmp_path / "a.zarr"), builds.expected()
    epochs = rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8")
    lo = np.random.default_rng(1).integers(epochs[0] - 10, epochs[-1] + 10, 50)
    wanted = np.stack([np.searchsorted(epochs, lo), np.searchsorted(epochs, lo + 7000)], axis=1)
    assert open_index(store).kind == "pages"
    for index in (open_index(store), open_index(store, kind)):
        np.testing.assert_array_equal(index.find_many(lo, lo + 7000), wanted)


def test_attributes_are_those_of_the_published_software(whole):
    attributes = json.loads((whole / "zarr2.zarr" / ".zattrs").read_text())
    n = len(builds.expected())
    assert attributes.items() >= {
        "layout": "tabular", "date_indexing": "bisect", "version": "0.22", "dtype": "float32", "shape": [n, 6],
        "variables": ["t", "wind"], "dimensions": ["dates", "variables"], "chunks": [700, 6], "constant_fields": [],
        "start_date": "2020-01-01 00:00:00", "last_date": "2020-01-10 00:00:00", "variables_metadata": {},
    }.items()  # fmt: skip
    assert attributes["recipe"]["dates"]["start"] == "2020-01-01"
    assert "build" not in attributes["recipe"]
    assert attributes["cfagg"]["periods"] == [["2020-01-01T00:00:00", "2020-01-11T00:00:00"]]
    assert attributes["provenance_load"]["module_versions"]["cfagg"]["version"] == cfagg.__version__


def test_folders_of_sources_are_kept_only_if_asked_for(tmp_path):
    for sanitise, found in ((True, "reports.csv"), (False, str(tmp_path / "reports.csv"))):
        cfagg.create_observations(from_file(tmp_path, sanitise=sanitise), tmp_path / "a.zarr", overwrite=True)
        attributes = open_store(tmp_path / "a.zarr").attributes.all
        assert attributes["recipe"]["input"]["csv"]["path"] == found
        assert attributes["cfagg"]["sources"][0]["path"] == found


def test_attributes_of_columns_are_kept(tmp_path):
    def read(start, end):
        frame = builds.reports(start, end)
        frame.attrs["variables"] = {"t": {"units": "K", "standard_name": "air_temperature"}}
        return frame

    cfagg.create_observations(recipe(read), tmp_path / "a.zarr")
    assert open_store(tmp_path / "a.zarr").attributes.variables_metadata["t"]["units"] == "K"


def in_units(units, first=1, last=31):
    """Return a source of reports in some units on some days."""

    def read(start, end):
        rows = builds.reports(start, end)
        frame = rows[rows["date"].dt.day.between(first, last)].copy()
        frame.attrs["variables"] = {"t": {"units": units}}
        return frame

    return read


def test_units_that_mean_the_same_need_not_be_written_alike(tmp_path):
    joined = {"join": [in_units("K"), in_units("kelvin")]}
    cfagg.create_observations({**recipe(), "input": joined}, tmp_path / "a.zarr")
    assert open_store(tmp_path / "a.zarr").attributes.variables_metadata["t"]["units"] == "K"


@pytest.mark.parametrize("at", ["rows of one part", "parts", "frames that a filter sees at once", "rows to append"])
def test_columns_in_several_units_are_refused(tmp_path, at):
    both = {"join": [in_units("K"), in_units("degC")]}
    given = {
        "rows of one part": both,
        "parts": {"join": [in_units("K", 1, 4), in_units("degC", 5, 31)]},
        "frames that a filter sees at once": {"pipe": [both, {"sort_by": ["t"]}, {"convert_units": {"t": "degC"}}]},
        "rows to append": in_units("degC"),
    }
    if append := at == "rows to append":
        cfagg.create_observations(recipe(in_units("K"), end="2020-01-05"), tmp_path / "a.zarr")
    with pytest.raises(ConventionError, match="count otherwise than those of other rows") as error:
        cfagg.create_observations({**recipe(), "input": given[at]}, tmp_path / "a.zarr", append=append)
    assert [(p.where, p.message) for p in error.value.problems] == [("t", "has units 'degC', but in other rows 'K'")]


def test_columns_in_several_units_may_be_converted(tmp_path):
    both = {"join": [in_units("K", 1, 4), in_units("degC", 5, 31)]}
    steps = {"pipe": [both, {"convert_units": {"t": "K"}}]}
    cfagg.create_observations({**recipe(), "input": steps}, tmp_path / "a.zarr")
    store = open_store(tmp_path / "a.zarr")
    days = store.data.read(0, store.rows)
    assert store.attributes.variables_metadata["t"]["units"] == "K"
    assert days[days[:, 0] > 18266][:, 4].min() > 500 > days[days[:, 0] < 18265][:, 4].max()


def test_a_report_tells_what_was_done(tmp_path):
    told = []
    report = cfagg.create_observations(recipe(), tmp_path / "a.zarr", progress=lambda *a: told.append(a))
    assert (report.rows, report.read) == (len(builds.expected()), len(builds.ALL))
    assert report.duplicates == report.read - report.rows
    assert (len(report.parts), report.resumed) == (10, 0)
    assert report.to_dict()["variables"] == ("t", "wind")
    assert str(report).startswith(f"{tmp_path / 'a.zarr'}: {report.rows:,} rows of 2 variables, 2020-01-01T")
    assert told == sorted(told)
    assert told[-1] == (1000, 1000)


def test_a_dry_run_writes_nothing(tmp_path):
    report = cfagg.create_observations(recipe(), tmp_path / "a.zarr", dry_run=True)
    assert (len(report.parts), report.rows, list(tmp_path.iterdir())) == (10, 0, [])


def test_whole_numbers_that_are_rounded_are_told(tmp_path):
    def read(start, end):
        return builds.reports(start, end).assign(station=72295123, level=3, depth=-72295123)

    assert cfagg.create_observations(recipe(read), tmp_path / "a.zarr").rounded == ("depth", "station")


def write_csv(frame, folder):
    frame.to_csv(folder / "a.csv", index=False)
    return {"csv": {"path": str(folder / "a.csv")}}


def write_parquet(frame, folder):
    frame.to_parquet(folder / "a.parquet", index=False)
    return {"parquet": {"path": str(folder / "a.parquet")}}


@pytest.mark.few(1)
@pytest.mark.parametrize("write", [write_csv, write_parquet])
@pytest.mark.parametrize("gaps", [False, True])
def test_whole_numbers_of_files_that_are_rounded_are_told(tmp_path, write, gaps):
    frame = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=4, freq="h"), "latitude": 1.5, "longitude": 2.5})
    frame = frame.assign(station=[72295123, 3, 4, 5], level=2**24, pressure=[101325123.25, 1, 2, 3], huge=1e20)
    if gaps:
        frame["station"] = frame["station"].astype("Int64").mask([False, True, False, False])
    asked = {"dates": {"start": 2020, "end": 2020}, "input": write(frame, tmp_path), "output": {"layout": "tabular"}}
    assert cfagg.create_observations(asked, tmp_path / "a.zarr").rounded == ("station",)


def test_columns_in_another_order_are_brought_into_that_of_the_first_part(tmp_path):
    def read(start, end):
        frame = builds.reports(start, end)
        return frame if start.day % 2 else frame[["wind", "date", "t", "longitude", "latitude"]]

    cfagg.create_observations(recipe(read), tmp_path / "a.zarr")
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["data"][:].tobytes() == builds.expected().tobytes()


def gusts(start, end):
    """Give other columns, and rows of odd days only."""
    frame = builds.reports(start, end).rename(columns={"wind": "gust"})
    return frame[frame["date"].dt.day % 2 == 1]


@pytest.mark.parametrize("first", ["reports", "gusts"])
def test_sources_of_other_columns_are_joined_where_one_has_no_rows(tmp_path, first):
    steps = [builds.reports, gusts] if first == "reports" else [gusts, builds.reports]
    for group_by in ("daily", "all"):
        made = recipe(builds.reports, group_by=group_by) | {"input": {"join": steps}}
        cfagg.create_observations(made, tmp_path / group_by)
    daily, whole = (zarr.open_group(tmp_path / name, mode="r")["data"][:] for name in ("daily", "all"))
    np.testing.assert_array_equal(daily, whole)
    odd = builds.ALL[builds.ALL["date"].dt.day % 2 == 1]
    counts = [np.isfinite(builds.expected(rows)[:, -1]).sum() for rows in (builds.ALL, odd)]
    assert np.isfinite(daily[:, -2:]).sum(axis=0).tolist() == counts[:: 1 if first == "reports" else -1]


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def no_rows(start, end):
    return builds.ALL.iloc[:0]


def other_columns(start, end):
    frame = builds.reports(start, end)
    return frame.rename(columns={"wind": "gust"}) if start.day == 3 else frame


def no_date(start, end):
    return builds.reports(start, end).drop(columns="latitude")


def with_nat(start, end):
    return builds.reports(start, end).assign(date=pd.NaT)


def beyond_the_pole(start, end):
    return builds.reports(start, end).assign(latitude=91.0)


def text(start, end):
    return builds.reports(start, end).assign(t="warm")


def huge(start, end):
    return builds.reports(start, end).assign(t=1e300)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (no_rows, SourceError, "no observations"),
        (other_columns, ConventionError, "part 2 .*lacks wind and has gust too, unlike part 0"),
        (no_date, ConventionError, "latitude"),
        (with_nat, ConventionError, "NaT"),
        (beyond_the_pole, ConventionError, "latitude is 91"),
        (text, ConventionError, "t is 'warm'"),
        (huge, ConformError, "t is 1e\\+300"),
    ],
)
def test_bad_sources_are_refused_and_leave_no_store(tmp_path, function, error, said):
    with pytest.raises(error, match=said):
        cfagg.create_observations(recipe(function), tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("function", [beyond_the_pole, no_rows])
def test_where_nothing_was_read_nothing_is_left(tmp_path, function):
    with pytest.raises(CfaggError):
        cfagg.create_observations(recipe(function), tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_store_is_replaced_only_if_asked_for(tmp_path):
    cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    with pytest.raises(TargetExistsError, match="overwrite"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    report = cfagg.create_observations(recipe(end="2020-01-02"), tmp_path / "a.zarr", overwrite=True)
    assert open_store(tmp_path / "a.zarr").rows == report.rows
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_something_else_is_never_replaced(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thesis.tex").write_text("...")
    with pytest.raises(TargetError, match="not a Zarr store"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", overwrite=True)
    assert (tmp_path / "a.zarr" / "thesis.tex").exists()


def test_a_failing_build_leaves_the_old_store(tmp_path):
    cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    before = contents(tmp_path / "a.zarr")
    with pytest.raises(ConformError):
        cfagg.create_observations(recipe(huge), tmp_path / "a.zarr", overwrite=True)
    assert contents(tmp_path / "a.zarr") == before


FULL = """
import resource, signal, sys, cfagg
from tests.observations import builds
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    cfagg.create_observations(builds.recipe(rows_per_chunk=4000), sys.argv[1])
except cfagg.CfaggError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("most", [5_000, 30_000])
def test_a_disk_that_takes_no_more_is_told_and_leaves_no_store(tmp_path, most):
    # Files may not grow beyond a limit: first that of a run of sorted rows, then that of a chunk.
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "a.zarr", str(most)],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"TargetError {tmp_path / 'a.zarr'}")
    assert ".cfagg-" not in done.stdout
    assert "cannot be written: File too large" in done.stdout
    assert not (tmp_path / "a.zarr").exists()
    assert cfagg.create_observations(recipe(), tmp_path / "a.zarr", overwrite=True).rows == len(builds.expected())
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_full_disk_late_in_a_build_is_told_with_how_to_finish_it(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Place, "publish", full)
        with pytest.raises(TargetError, match=r"free some space .*finished work is kept, finish it with resume=True"):
            cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    assert cfagg.create_observations(recipe(), tmp_path / "a.zarr", resume=True).resumed


def test_options_that_exclude_each_other_are_refused(tmp_path):
    with pytest.raises(ConventionError, match="cannot be combined"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", overwrite=True, append=True)


# ---------------------------------------------------------------------------------------------------------------------
# Dask


@pytest.mark.full
def test_dask_workers_build_the_same_store(whole, tmp_path):
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", client=client)
        assert contents(tmp_path / "a.zarr") == contents(whole / "zarr2.zarr")
        cfagg.create_observations(from_file(tmp_path), tmp_path / "c.zarr", client=client)
        assert zarr.open_group(tmp_path / "c.zarr", mode="r")["data"][:].tobytes() == builds.expected().tobytes()
        with pytest.raises(UnsupportedError, match="functions that are defined in a module"):
            cfagg.create_observations(recipe(lambda a, b: builds.reports(a, b)), tmp_path / "b.zarr", client=client)
