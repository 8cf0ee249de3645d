"""Builds that were cut short, and are finished."""

import os

import pytest
import zarr

import cfagg
from cfagg.errors import SourceError, TargetError, TargetExistsError
from cfagg.observations import building, creating, writing
from cfagg.observations.store import open_store
from cfagg.observations.writing import Place
from tests.observations import builds
from tests.observations.builds import contents, from_file, recipe


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


def test_an_unfinished_build_that_allowed_missing_values_is_not_finished_without_them(broken):
    strict = recipe(builds.failing)
    strict["build"] = {**strict["build"], "allow_nans": ["wind"]}
    with pytest.raises(TargetError, match="differs from this one in its recipe,"):
        cfagg.create_observations(strict, broken, resume=True)


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
    write, written = writing.write_bytes, []

    def stop_early(path, data):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, data)

    monkeypatch.setattr(writing, "write_bytes", stop_early)
    with pytest.raises(KeyboardInterrupt):
        cfagg.create_observations(recipe(), tmp_path / "a.zarr", workers=1)
    assert not (tmp_path / "a.zarr").exists()
    # A machine that goes down may lose the end of a file whose name is there.
    lost = tmp_path / ".a.zarr.cfagg-partial" / "store" / "data" / written.pop()
    lost.write_bytes(lost.read_bytes()[:10])
    lost.with_name(".9.0.1234.part").write_bytes(b"half")
    paths = []
    monkeypatch.setattr(writing, "write_bytes", lambda p, data: paths.append(p) or write(p, data))
    cfagg.create_observations(recipe(), tmp_path / "a.zarr", resume=True)
    again = [p.name for p in paths if p.parent.name == "data" and p.suffix == ".0"]
    count = len(list((whole / "zarr2.zarr" / "data").glob("*.0")))
    assert len(written) + len(again) == count
    assert not {*written} & {*again}
    assert contents(tmp_path / "a.zarr") == contents(whole / "zarr2.zarr")


def kill_after_publishing(monkeypatch, *arguments, **options):
    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Place, "remove_after", stop)
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
        patch.setattr(creating.Place, "abandon_if_useless", lambda place: place.leave())
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
