"""Conversions that are killed, interrupted, or run into a full or read-only disk."""

import ctypes
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.arrays.opening import open_any
from cfagg.conversion import convert, places
from cfagg.conversion.journal import Journal, Records, identity_of
from cfagg.conversion.verify import distrust
from cfagg.errors import TargetError, TargetExistsError
from cfagg.runtime import publishing
from cfagg.storage.access import Access
from tests import instruction_files, nca_files
from tests.conversion import killing
from tests.durability import tracing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A source, its values, and the store that an undisturbed run makes of it."""
    folder = tmp_path_factory.mktemp("made")
    path, values = killing.source(folder)
    convert(path, folder / "whole.zarr", chunks={"time": 1})
    return path, values, killing.contents(folder / "whole.zarr")


def test_a_killed_run_leaves_nothing_that_opens_and_is_finished_by_resume(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    assert killing.killed(path, target, 9)
    partial = tmp_path / ".out.zarr.cfagg-partial"
    assert not target.exists()
    assert not killing.opens(partial)
    assert not killing.opens(partial / "store")
    assert killing.killed(path, target, 7, resume=True)
    report = convert(path, target, chunks={"time": 1}, resume=True)
    assert 10 <= report.resumed < report.chunks
    assert killing.contents(target) == whole
    assert not partial.exists()


def test_what_was_begun_without_verifying_is_verified_as_a_whole_where_that_is_asked_for_later(made, tmp_path):
    path, _, whole = made
    assert killing.killed(path, tmp_path / "out.zarr", 9, verify=False)
    report = convert(path, tmp_path / "out.zarr", chunks={"time": 1}, resume=True, verify=True)
    assert (report.verified, report.resumed) == (True, 0)
    assert killing.contents(tmp_path / "out.zarr") == whole


@pytest.mark.soak
def test_an_old_store_stays_until_the_new_one_is_complete(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    zarr.create_group(target, attributes={"old": True})
    assert killing.killed(path, target, 5, overwrite=True)
    assert zarr.open_group(target, mode="r").attrs["old"] is True
    convert(path, target, chunks={"time": 1}, overwrite=True, resume=True)
    assert killing.contents(target) == whole


def test_an_unfinished_conversion_is_not_thrown_away_unasked(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    assert killing.killed(path, target, 5)
    with pytest.raises(TargetExistsError, match="finish it with resume=True"):
        convert(path, target, chunks={"time": 1})
    assert convert(path, target, chunks={"time": 1}, overwrite=True).resumed == 0
    assert killing.contents(target) == whole


def test_resume_refuses_another_source_other_options_and_another_version(made, tmp_path):
    path, _, _ = made
    target = tmp_path / "out.zarr"
    assert killing.killed(path, target, 5)
    with pytest.raises(TargetError, match="settings \\(options\\)"):
        convert(path, target, chunks={"time": 2}, resume=True)
    part = path.parent / "part3.nc"
    before = part.stat()
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(TargetError, match="settings \\(source\\)"):
        convert(path, target, chunks={"time": 1}, resume=True)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    journal = tmp_path / ".out.zarr.cfagg-partial" / "journal"
    lines = journal.read_text().splitlines(keepends=True)
    head = json.loads(lines[0])
    assert head["identity"]["version"] == cfagg.__version__
    head["identity"]["version"] = "0.0.1"
    journal.write_text("".join([json.dumps(head) + "\n", *lines[1:]]))
    with pytest.raises(TargetError, match="settings \\(version\\)"):
        convert(path, target, chunks={"time": 1}, resume=True)
    assert journal.exists()


def test_resume_does_not_trust_damaged_chunks_nor_a_torn_journal(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    assert killing.killed(path, target, 12)
    partial = tmp_path / ".out.zarr.cfagg-partial"
    chunks = sorted(p for p in (partial / "store" / "tas").rglob("*") if p.is_file())
    chunks[0].write_bytes(b"")
    chunks[1].write_bytes(chunks[1].read_bytes()[:-1] + b"?")
    chunks[2].unlink()
    with (partial / "journal").open("ab") as file:
        file.write(b"[4,[[39,10,")
    convert(path, target, chunks={"time": 1}, resume=True)
    assert killing.contents(target) == whole


def test_resume_without_anything_to_resume_starts(made, tmp_path):
    path, _, whole = made
    assert convert(path, tmp_path / "out.zarr", chunks={"time": 1}, resume=True).resumed == 0
    assert killing.contents(tmp_path / "out.zarr") == whole


@pytest.mark.soak
def test_a_run_killed_between_the_two_renames_keeps_the_old_store(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    assert killing.killed(path, target, 5)
    old = tmp_path / ".out.zarr.cfagg-partial" / "old"
    zarr.create_group(old, attributes={"old": True})
    with pytest.raises(TargetExistsError):
        convert(path, target, chunks={"time": 1}, resume=True)
    assert zarr.open_group(target, mode="r").attrs["old"] is True
    convert(path, target, chunks={"time": 1}, resume=True, overwrite=True)
    assert killing.contents(target) == whole


def test_a_run_killed_after_its_store_is_in_place_is_tidied_by_resume(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    convert(path, target, chunks={"time": 1})
    assert killing.killed(path, tmp_path / "b.zarr", 5)
    partial = tmp_path / ".b.zarr.cfagg-partial"
    with (partial / "journal").open("a") as file:
        file.write('"commit"\n')
    import shutil

    shutil.rmtree(partial / "store")
    state = target.stat()
    (partial / "done").write_text(f"{state.st_ino} {state.st_mtime_ns}")
    target.rename(tmp_path / "b.zarr")
    report = convert(path, tmp_path / "b.zarr", chunks={"time": 1}, resume=True)
    assert report.resumed == report.chunks
    assert killing.contents(tmp_path / "b.zarr") == whole
    assert not partial.exists()


def test_two_processes_do_not_write_the_same_target(made, tmp_path):
    path, _, _ = made
    run = killing.start(path, tmp_path / "out.zarr", 600)
    run.wait(1)
    try:
        with pytest.raises(TargetError, match="another process"):
            convert(path, tmp_path / "out.zarr", overwrite=True)
    finally:
        run.end()


@pytest.mark.soak
def test_an_interrupt_is_one_sentence_and_leaves_no_store(made, tmp_path, capfd):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    run = killing.start(path, target, 0.3)
    run.wait(6)
    assert run.end(signal.SIGINT) == 3
    err = capfd.readouterr().err
    assert err.splitlines()[-1].startswith(
        f"KeyboardInterrupt: interrupted: {target} was not written; finished work is"
    )
    assert not target.exists()
    assert convert(path, target, chunks={"time": 1}, resume=True).resumed > 0
    assert killing.contents(target) == whole


def test_resuming_what_is_finished_says_so_and_does_nothing(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    first = convert(path, target, chunks={"time": 1})
    state = target.stat()
    again = convert(path, target, chunks={"time": 1}, resume=True)
    assert (again.resumed, again.stored) == (again.chunks, first.stored)
    assert (target.stat().st_ino, target.stat().st_mtime_ns) == (state.st_ino, state.st_mtime_ns)
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]
    # Other options are another store.
    with pytest.raises(TargetExistsError):
        convert(path, target, chunks={"time": 2}, resume=True)
    assert killing.contents(target) == whole
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]


def test_the_command_that_is_interrupted_ends_with_130_and_can_be_resumed(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    code = "import sys\nfrom cfagg.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    command = ["convert", path, target, "--chunks", "time=1", "--workers", "1"]
    slow = "import cfagg.conversion.slab_writer as w, time\nreal, n = w.SlabWriter.write, iter(range(99))\n"
    slow += "w.SlabWriter.write = lambda *a: (time.sleep(0.1 if next(n) < 9 else 3), real(*a))[1]\n"
    process = subprocess.Popen([sys.executable, "-c", slow + code, *command], stderr=subprocess.PIPE, text=True)
    journal = tmp_path / ".out.zarr.cfagg-partial" / "journal"
    while not journal.exists() or journal.read_text().count("\n") < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "finished work is kept, finish it with --resume" in said
    assert convert(path, target, chunks={"time": 1}, resume=True).resumed > 0
    assert killing.contents(target) == whole


def test_a_full_disk_is_one_sentence_and_resume_finishes_later(made, tmp_path):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    # A limit on the size of files stands in for the full disk: the system refuses the write in the same way.
    limit = 16_000
    process = subprocess.run(
        [sys.executable, "-m", "cfagg", "convert", path, target, "--chunks", "time=1"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    lines = [line for line in process.stderr.splitlines() if not line.startswith("note")]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: {target} was not written: File too large")
    assert not target.exists()
    convert(path, target, chunks={"time": 1}, resume=True)
    assert killing.contents(target) == whole


@pytest.mark.soak
@pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize(("answer", "status"), [("EIO", 2), ("ENOSPC", 2), ("ENOSYS", 0)])
def test_a_large_chunk_that_the_disk_refuses_is_an_error_where_the_system_can_tell(tmp_path, answer, status):
    path, target, log = tmp_path / "a.zarr", tmp_path / "b.zarr", tmp_path / "log"
    values = large(path)
    fault = ["-e", "trace=sync_file_range", "-e", f"inject=sync_file_range:error={answer}"]
    command = [sys.executable, "-m", "cfagg", "convert", path, target]
    assert subprocess.run([tracing.STRACE, "-f", "-o", log, *fault, *command]).returncode == status
    assert tracing.counts(log)["sync_file_range"] == 1
    assert target.exists() == (status == 0)
    convert(path, target, resume=True)
    np.testing.assert_array_equal(zarr.open_group(target, mode="r")["v"][:], values)


def test_a_large_chunk_that_the_disk_refuses_ends_a_conversion_which_can_be_finished(tmp_path, monkeypatch):
    path, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    values = large(path)

    def refuse(*_):
        ctypes.set_errno(errno.EIO)
        return -1

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_from_c_library", {"sync_file_range": refuse}.get)
        with pytest.raises(TargetError, match="was not written: Input/output error"):
            convert(path, target)
    assert not target.exists()
    convert(path, target, resume=True)
    np.testing.assert_array_equal(zarr.open_group(target, mode="r")["v"][:], values)


def large(path):
    """Write a store with one large chunk, and return its values."""
    values = np.random.default_rng(1).random(1 << 16)
    zarr.create_array(path, name="v", data=values, dimension_names=("x",))
    return values


def test_a_target_that_cannot_be_written_is_one_sentence(made):
    path, _, _ = made
    with pytest.raises(TargetError, match="cannot be written"):
        convert(path, "/proc/out.zarr")


def test_verify_finds_a_chunk_that_changed_on_disk(made, tmp_path, monkeypatch):
    from cfagg.conversion import converting, local_target, metadata

    path, _, _ = made
    target = tmp_path / "out.zarr"
    real = metadata.write_metadata

    def damage(documents, root):
        real(documents, root)
        first = root / "lat" / "c" / "0"
        raw = bytearray(first.read_bytes())
        raw[-3] ^= 1
        first.write_bytes(raw)

    monkeypatch.setattr(local_target, "write_metadata", damage)
    zarr.create_group(target, attributes={"old": True})
    with pytest.raises(TargetError, match="variable 'lat', chunk"):
        convert(path, target, chunks={"time": 1}, codec="none", verify=True, overwrite=True)
    assert zarr.open_group(target, mode="r").attrs["old"] is True
    monkeypatch.setattr(local_target, "write_metadata", real)
    again = {"chunks": {"time": 1}, "codec": "none", "overwrite": True, "resume": True}
    assert converting.convert(path, target, verify=True, **again).verified
    np.testing.assert_array_equal(zarr.open_group(target, mode="r")["lat"][:], np.linspace(-90, 90, killing.LAT))


def test_looking_for_what_a_killed_run_wrote_needs_no_memory_for_each_chunk(tmp_path):
    records = Records([20_000])
    records.done[0].written[:] = True
    tracemalloc.start()
    try:
        kept = distrust([None], records, tmp_path, 3, 2, check=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept == 0
    assert not records.done[0].written.any()
    assert most < 8e6


def test_folders_that_were_made_are_not_all_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "_MOST_FOLDERS", 3)
    files = places.Files(tmp_path)
    for k in [*range(10), *range(10)]:
        files(f"v/c/{k}/0", b"chunk")
    assert len(files._made) <= 3
    assert sorted(tmp_path.glob("v/c/*/0")) == sorted(tmp_path / f"v/c/{k}/0" for k in range(10))


def test_a_source_is_another_one_where_another_version_of_a_fragment_changed(tmp_path):
    nca_files.fragment(tmp_path / "second.nc", "tas", np.arange(3.0), ["x"], {})
    names = [["gone.nc", "second.nc"]]
    path = instruction_files.cfa(tmp_path / "a.nc", "tas", "f8", {"x": 3}, [[3]], names)
    before = identity_of(open_any(path), Access(str(path)), {})
    assert identity_of(open_any(path), Access(str(path)), {}) == before
    os.utime(tmp_path / "second.nc", ns=(0, 1))
    assert identity_of(open_any(path), Access(str(path)), {}) != before


def test_a_record_without_its_line_feed_does_not_count_and_is_replaced_by_the_next(tmp_path):
    path = tmp_path / "journal"
    journal = Journal.create(path, {}, [3])
    journal.add(0, [(0, 8, 8, 1)])
    journal.close()
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal.resume(path, {}, [3])
    assert not journal.done[0].written.any()
    journal.add(0, [(1, 8, 8, 1)])
    journal.close()
    journal = Journal.resume(path, {}, [3])
    assert journal.done[0].written.tolist() == [False, True, False]
    journal.close()
