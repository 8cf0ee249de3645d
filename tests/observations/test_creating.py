"""Building stores: what is in them, however they are built."""

import json
import os

import distributed
import numpy as np
import pandas as pd
import pytest
import zarr

import cfagg
from cfagg.errors import ConformError, ConventionError, SourceError, TargetError, TargetExistsError, UnsupportedError
from cfagg.observations import appending, building, chunk_tasks, creating
from cfagg.observations.indexes import open_index
from cfagg.observations.layouts import DataLayout
from cfagg.observations.place import Place
from cfagg.observations.store import open_store
from tests import oracles
from tests.observations import builds
from tests.observations.builds import contents, recipe


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One store of each layout, built in one part."""
    folder = tmp_path_factory.mktemp("whole")
    for form in ("zarr2", "cfagg"):
        cfagg.create_observations(recipe(group_by="all", format=form), folder / f"{form}.zarr", workers=1)
    return folder


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
def test_all_rows_are_there_sorted_rounded_and_once(whole, form):
    data = zarr.open_group(whole / f"{form}.zarr", mode="r")["data"]
    assert data[:].tobytes() == builds.expected().tobytes()


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


def test_statistics_are_those_of_all_rows(whole):
    rows, group = builds.expected(), zarr.open_group(whole / "zarr2.zarr", mode="r")
    for j in range(2):
        mean, low, high, variance, nan = oracles.column_statistics(rows[:, 4 + j])
        found = [group[k][j] for k in ("mean", "minimum", "maximum", "nan_count")]
        assert found == [mean, low, high, nan]
        assert group["stdev"][j] == pytest.approx(float(variance) ** 0.5, rel=1e-15)


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


def from_file(folder, **output):
    builds.ALL.to_csv(folder / "reports.csv", index=False)
    return recipe(**output) | {"input": {"csv": {"path": str(folder / "reports.csv")}}}


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
        return builds.reports(start, end).assign(station=72295123, level=3)

    assert cfagg.create_observations(recipe(read), tmp_path / "a.zarr").rounded == ("station",)


def test_columns_in_another_order_are_brought_into_that_of_the_first_part(tmp_path):
    def read(start, end):
        frame = builds.reports(start, end)
        return frame if start.day % 2 else frame[["wind", "date", "t", "longitude", "latitude"]]

    cfagg.create_observations(recipe(read), tmp_path / "a.zarr")
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["data"][:].tobytes() == builds.expected().tobytes()


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


def test_where_nothing_was_read_nothing_is_left(tmp_path):
    with pytest.raises(ConventionError):
        cfagg.create_observations(recipe(beyond_the_pole), tmp_path / "a.zarr")
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


def test_a_full_disk_is_told_and_leaves_no_store(tmp_path, monkeypatch):
    def full(self, rows):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(DataLayout, "encode", full)
    with pytest.raises(TargetError, match="No space left on device"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


def test_options_that_exclude_each_other_are_refused(tmp_path):
    with pytest.raises(ConventionError, match="excludes"):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", overwrite=True, append=True)


# ---------------------------------------------------------------------------------------------------------------------
# Resuming


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A build that failed on its fourth part."""
    (tmp_path / "fail").touch()
    monkeypatch.setenv("CFAGG_TEST_FAIL", str(tmp_path / "fail"))
    with pytest.raises(SourceError, match=r"2020-01-04.*the tape is broken"):
        cfagg.create_observations(recipe(builds.failing), tmp_path / "a.zarr", workers=1)
    (tmp_path / "fail").unlink()
    return tmp_path / "a.zarr"


def test_a_build_that_failed_is_finished_without_reading_again(broken):
    report = cfagg.create_observations(recipe(builds.failing), broken, resume=True)
    # Those before the one that failed, and perhaps one that was being read meanwhile.
    assert 3 <= report.resumed < 10
    assert zarr.open_group(broken, mode="r")["data"][:].tobytes() == builds.expected().tobytes()
    assert [p.name for p in broken.parent.iterdir()] == ["a.zarr"]


def test_an_unfinished_build_is_not_thrown_away_without_being_asked(broken):
    with pytest.raises(TargetExistsError, match="resume=True"):
        cfagg.create_observations(recipe(builds.failing), broken)
    assert cfagg.create_observations(recipe(builds.failing), broken, overwrite=True).resumed == 0


def test_an_unfinished_build_of_another_recipe_is_not_finished(broken):
    with pytest.raises(TargetError, match="differs from this one in its recipe and parts"):
        cfagg.create_observations(recipe(builds.failing, end="2020-01-09"), broken, resume=True)


def test_a_damaged_run_is_read_again(broken):
    run = next((broken.parent / ".a.zarr.cfagg-partial" / "work").glob("run-000001-*"))
    raw = bytearray(run.read_bytes())
    raw[100] ^= 1
    run.write_bytes(raw)
    whole_runs = len({p.name[4:10] for p in run.parent.glob("run-*")}) - 1
    assert cfagg.create_observations(recipe(builds.failing), broken, resume=True).resumed == whole_runs
    assert zarr.open_group(broken, mode="r")["data"][:].tobytes() == builds.expected().tobytes()


def test_resuming_where_nothing_was_begun_starts(tmp_path):
    assert cfagg.create_observations(recipe(), tmp_path / "a.zarr", resume=True).rows == len(builds.expected())


def test_a_build_killed_while_writing_chunks_writes_only_the_others(tmp_path, whole, monkeypatch):
    encode, written = DataLayout.encode, []

    def stop_early(self, rows):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(1)
        return encode(self, rows)

    monkeypatch.setattr(chunk_tasks.DataLayout, "encode", stop_early)
    with pytest.raises(KeyboardInterrupt):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", workers=1)
    assert not (tmp_path / "a.zarr").exists()
    again = []
    monkeypatch.setattr(chunk_tasks.DataLayout, "encode", lambda self, rows: again.append(1) or encode(self, rows))
    cfagg.create_observations(recipe(), tmp_path / "a.zarr", resume=True)
    count = len(list((whole / "zarr2.zarr" / "data").glob("*.0")))
    assert len(written) + len(again) == count
    assert contents(tmp_path / "a.zarr") == contents(whole / "zarr2.zarr")


def kill_after_publishing(monkeypatch, *arguments, **options):
    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Place, "remove", stop)
        with pytest.raises(KeyboardInterrupt):
            cfagg.create_observations(*arguments, **options)


def test_a_build_killed_after_its_store_is_in_place_is_finished(tmp_path, monkeypatch):
    kill_after_publishing(monkeypatch, recipe(), tmp_path / "a.zarr")
    rows = len(builds.expected())
    assert open_store(tmp_path / "a.zarr").rows == rows
    with pytest.raises(TargetExistsError):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr")
    with pytest.raises(TargetExistsError):
        cfagg.create_observations(recipe(end="2020-01-03"), tmp_path / "a.zarr", resume=True)
    report = cfagg.create_observations(recipe(), tmp_path / "a.zarr", resume=True)
    assert (report.rows, report.resumed) == (rows, 10)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_growth_that_was_killed_after_its_store_is_in_place_goes_on(tmp_path, monkeypatch):
    cfagg.create_observations(recipe(end="2020-01-03"), tmp_path / "a.zarr")
    kill_after_publishing(monkeypatch, recipe(end="2020-01-05"), tmp_path / "a.zarr", append=True)
    assert len(cfagg.create_observations(recipe(), tmp_path / "a.zarr", append=True).parts) == 5
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["data"][:].tobytes() == builds.expected().tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_files_that_were_read_are_not_read_again(tmp_path, monkeypatch):
    from cfagg.observations.sources import csv

    def stop(*arguments):
        raise KeyboardInterrupt

    made, read = from_file(tmp_path), []
    with monkeypatch.context() as patch:
        patch.setattr(building, "read_part", stop)
        patch.setattr(creating, "_leave", lambda place: place.leave())
        with pytest.raises(KeyboardInterrupt):
            cfagg.create_observations(made, tmp_path / "a.zarr")
    blocks = csv._blocks

    def counted(*arguments):
        for block in blocks(*arguments):
            read.append(len(block))
            yield block

    monkeypatch.setattr(csv, "_blocks", counted)
    assert cfagg.create_observations(made, tmp_path / "a.zarr", resume=True).rows == len(builds.expected())
    assert read == []


def test_a_build_of_files_that_changed_is_not_finished(tmp_path, monkeypatch):
    made = from_file(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(building, "plan_merge", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cfagg.create_observations(made, tmp_path / "a.zarr")
    os.utime(tmp_path / "reports.csv", (1, 1))
    with pytest.raises(TargetError, match="differs from this one in its sources"):
        cfagg.create_observations(made, tmp_path / "a.zarr", resume=True)


# ---------------------------------------------------------------------------------------------------------------------
# Appending


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
    found = {d for a, b in appending.new_parts(parts, covered) for d in days if a <= d < b}
    assert found == {d for d in days[:15] if not any(a <= d < b for a, b in covered)}


# ---------------------------------------------------------------------------------------------------------------------
# Dask


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
