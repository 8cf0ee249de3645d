"""What an interrupted writer says of how it is finished, and that this finishes it."""

from __future__ import annotations

import os

import pytest

from cfagg.runtime.staging import Staging
from tests.durability import tracing, writers

#: What is said last, and the options that it names.
SAID = {
    "convert": ("finish it with --resume", "--resume"),
    "convert --overwrite": ("finish it with --resume and --overwrite", "--resume --overwrite"),
    "accumulate": ("finish it with --resume", "--resume"),
    "accumulate --append": ("finish it with --refresh", "--refresh"),
    "obs create": ("finish it with --resume", "--resume"),
    "obs create --overwrite": ("finish it with --resume and --overwrite", "--resume --overwrite"),
    "obs append": ("finish it by the same call", "--append"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SAID)
def test_an_interrupted_writer_says_how_it_is_finished(tmp_path, monkeypatch, capfd, name):
    writer, (said, options) = writers.WRITERS[name], SAID[name]
    writer.prepare(tmp_path)
    capfd.readouterr()

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staging, "put_in_place", interrupt)
        assert writer.run(tmp_path) == 130
    told = capfd.readouterr().err.splitlines()[-1]
    assert told.startswith("interrupted: ")
    assert told.endswith(f"finished work is kept, {said}")
    again = {"convert": writers.convert, "accumulate": writers.accumulate}.get(name.split()[0])
    status = (
        again(tmp_path, *options.split()) if again is not None else writers.build(tmp_path, "long", *options.split())
    )
    assert status == 0
    assert writer.state(tmp_path) == "new"
    assert not writer.litter(tmp_path)


@pytest.mark.parametrize("name", ["convert", "accumulate", "obs create"])
def test_a_writer_says_that_an_unfinished_run_is_there_and_how_it_is_finished(tmp_path, monkeypatch, capfd, name):
    writer = writers.WRITERS[name]
    writer.prepare(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "put_in_place", lambda _: 1 / 0)
        assert writer.run(tmp_path) != 0
    capfd.readouterr()
    assert writer.run(tmp_path) == 2
    said = capfd.readouterr().err
    assert "finish it with --resume or start" in said
    assert ".cfagg-" not in said


@pytest.mark.parametrize("option", ["--adopt", "--refresh"])
def test_consolidated_metadata_are_those_of_a_copy_that_was_adopted_by_a_run_that_was_killed(
    tmp_path, monkeypatch, option
):
    writers.prepare_adoption(tmp_path)
    with monkeypatch.context() as patch:
        # As a kill: nothing is tidied.
        patch.setattr("cfagg.accumulation.building.renew_consolidated", lambda *_: os.kill(os.getpid(), 9))
        assert tracing.plain(lambda: writers.adopt(tmp_path)).status == -9
    with pytest.raises(AssertionError, match="consolidated metadata of another group"):
        writers.consolidated(tmp_path)
    assert writers.command("accumulate", option, tmp_path / "out" / "a.zarr", "tas") == 0
    writers.consolidated(tmp_path)
    assert writers.WRITERS["accumulate --adopt"].litter(tmp_path) == []


def test_an_adoption_that_cannot_be_written_is_an_error_of_the_target(tmp_path, monkeypatch, capfd):
    writers.prepare_adoption(tmp_path)

    def full(path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("cfagg.accumulation.adopting.sync_tree", full)
    assert writers.adopt(tmp_path) == 2
    said = capfd.readouterr().err
    assert "tas_accumulation_group cannot be written: No space left on device" in said
    assert ".cfagg-" not in said
    assert [p.name for p in tmp_path.rglob("chunk_stamps*")] == ["chunk_stamps"]
