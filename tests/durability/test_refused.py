"""Writers that are refused something on the way because it lies outside the places that may be read."""

from __future__ import annotations

import pytest

from cfagg.errors import AccessError
from cfagg.observations.sources.parquet import ParquetSource
from tests.durability import writers


def leave(folder, array):
    """Move the last chunk of an array out of its store, and put a link in its place."""
    chunk = max((folder / array).rglob("c/*/*/*"))
    outside = folder / "outside"
    chunk.rename(outside)
    chunk.symlink_to(outside)


def prepare(folder, name):
    """Make what a writer starts from, and return the path of the array that it reads."""
    if name == "accumulate":
        writers.prepare_array(folder, writers.STEPS, 3)
        return "out/a.zarr/tas"
    writers.prepare_array(folder, writers.STEPS, 3)
    (folder / "out" / "a.zarr").rename(folder / "sources" / "b.zarr")
    return "sources/b.zarr/tas"


def run(folder, name, *options):
    if name == "accumulate":
        return writers.accumulate(folder, *options)
    source, target = folder / "sources" / "b.zarr", folder / "out" / "a.zarr"
    return writers.command("convert", source, target, "--workers", 1, *options)


@pytest.mark.parametrize("name", ["accumulate", "convert"])
def test_a_writer_that_is_refused_a_chunk_leaves_nothing_that_needs_to_be_finished(tmp_path, capfd, name):
    leave(tmp_path, prepare(tmp_path, name))
    before = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert run(tmp_path, name) == 2
    assert "a link to" in capfd.readouterr().err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == before
    assert run(tmp_path, name, "--allow", tmp_path) == 0


@pytest.mark.parametrize("name", ["accumulate", "convert"])
def test_what_an_earlier_run_did_stays_where_the_one_that_resumes_it_is_refused(tmp_path, capfd, monkeypatch, name):
    array = prepare(tmp_path, name)
    with monkeypatch.context() as patch:
        patch.setattr("cfagg.runtime.staging.Staging.put_in_place", lambda _: 1 / 0)
        assert run(tmp_path, name) != 0
    leave(tmp_path, array)
    assert run(tmp_path, name, "--resume") == 2
    capfd.readouterr()
    assert run(tmp_path, name) == 2
    assert "finish it with --resume" in capfd.readouterr().err


def test_a_build_of_observations_that_is_refused_a_source_leaves_nothing_that_needs_to_be_finished(
    tmp_path, monkeypatch
):
    writers.write_reports(tmp_path)
    read, times = ParquetSource.read, []

    def refused(self, *arguments):
        times.append(1)
        if len(times) == 3:
            raise AccessError("it redirects to another server")
        return read(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSource, "read", refused)
        assert writers.build(tmp_path, "long") == 2
    assert list((tmp_path / "out").iterdir()) == []
    assert writers.build(tmp_path, "long") == 0
