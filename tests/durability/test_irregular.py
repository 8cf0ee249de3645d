"""FIFOs and links that stand where a writer keeps its own files: refused, never waited for, never followed."""

from __future__ import annotations

import contextlib
import os
import signal

import numpy as np
import pytest

from cfagg.accumulation import scratch
from cfagg.accumulation.writing import read_documents
from cfagg.checking import explaining, fixing_zarr
from cfagg.checking.changes import Change
from cfagg.conversion.journal import Journal
from cfagg.errors import CfaggError, SourceError, TargetError
from cfagg.observations.merging import read_record
from cfagg.runtime import entry_points
from cfagg.runtime.files import written_aside
from cfagg.runtime.publishing import opened, read_own, write_synced
from cfagg.runtime.workplace import Workplace
from tests.durability import writers


@contextlib.contextmanager
def at_once():
    """Raise where what is done waits for the other end of a FIFO."""

    def stop(*_):
        raise TimeoutError("it waited for a FIFO")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 20)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


READ = {
    "a journal of a conversion": (OSError, lambda p: Journal.resume(p, {}, [1])),
    "a journal of a conversion that is counted": (OSError, lambda p: unfinished(p)),
    "the identity of an accumulation": (
        OSError,
        lambda p: scratch.Journal.resume(p.rename(p.with_name("identity")).parent, {}, 1, np.dtype("i4")),
    ),
    "the identity of an accumulation that is compared": (
        OSError,
        lambda p: scratch.Journal.belongs(p.rename(p.with_name("identity")).parent, {}, 1),
    ),
    "a record of a build of observations": (TargetError, read_record),
    "any file of a work directory": (OSError, read_own),
    "a document of an accumulation group": (
        SourceError,
        lambda p: read_documents(p.rename(p.with_name("zarr.json")).parent, 3),
    ),
    "a document of a store that is fixed": (
        TargetError,
        lambda p: fixing_zarr.change(
            str(p.rename(p.with_name("zarr.json")).parent), [Change(None, "a", "b", "a", "c", "TIM011")]
        ),
    ),
}


def unfinished(path):
    place = Workplace(path.with_name("a.zarr"), overwrite=True)
    place.store.mkdir(parents=True)
    path.rename(place.journal)
    return place.unfinished


@pytest.mark.parametrize("file", READ)
def test_a_fifo_is_not_waited_for_where_a_file_is_read(tmp_path, file):
    error, read = READ[file]
    os.mkfifo(tmp_path / "file")
    with at_once(), pytest.raises(error):
        read(tmp_path / "file")


def test_a_fifo_among_the_explanations_of_rules_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "explanations").mkdir()
    os.mkfifo(tmp_path / "explanations" / "a.toml")
    monkeypatch.setattr(explaining.resources, "files", lambda _: tmp_path)
    monkeypatch.setattr(explaining, "registered", dict)
    with at_once():
        assert explaining.explanations.__wrapped__() == {}


def test_a_fifo_among_the_entry_points_of_packages_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "a.dist-info").mkdir()
    os.mkfifo(tmp_path / "a.dist-info" / "entry_points.txt")
    monkeypatch.setattr(entry_points.sys, "path", [str(tmp_path)])
    with at_once():
        assert not entry_points.any_package("cfagg.rules")


@pytest.mark.parametrize("mode", ["rb", "wb", "ab", "r+b"])
@pytest.mark.parametrize("kind", ["fifo", "link", "device"])
def test_only_regular_files_are_opened_in_a_work_directory(tmp_path, kind, mode):
    path, other = tmp_path / "journal", tmp_path / "other"
    other.write_bytes(b"of somebody else")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(other)
    else:
        path = "/dev/null"
    with at_once(), pytest.raises(OSError, match="not a regular file"):
        opened(path, mode)
    assert other.read_bytes() == b"of somebody else"


def test_a_document_is_not_written_through_a_link(tmp_path):
    (tmp_path / "other").write_bytes(b"of somebody else")
    (tmp_path / ".journal.part").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="a link, not a regular file"):
        write_synced(tmp_path / "journal", b"mine")
    assert (tmp_path / "other").read_bytes() == b"of somebody else"


#: Writers, how they are run, and the files of their work directories.
WORK = {
    "convert": (".a.zarr.cfagg-partial", ["lock", "journal", "done"]),
    "obs create": (".a.zarr.cfagg-partial", ["lock", "journal", "done", "work/part-000000.json"]),
    "accumulate": (".a.zarr.tas.cfagg-accumulation", ["lock", "identity", "records", "done", "scratch/sum-0"]),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", ["fifo", "link"])
@pytest.mark.parametrize(("writer", "file"), [(w, f) for w, (_, files) in WORK.items() for f in files])
def test_a_work_directory_with_a_fifo_or_a_link_is_refused(tmp_path, capfd, writer, file, kind):
    (tmp_path / "out").mkdir()
    (tmp_path / "sources").mkdir()
    if writer == "convert":
        writers.write_netcdf(tmp_path / "sources" / "new.nc", 2)
    elif writer == "obs create":
        (tmp_path / "out").rmdir()
        (tmp_path / "sources").rmdir()
        writers.write_reports(tmp_path)
    else:
        (tmp_path / "out").rmdir()
        (tmp_path / "sources").rmdir()
        writers.prepare_array(tmp_path, 4, 3)
    path = tmp_path / "out" / WORK[writer][0] / file
    path.parent.mkdir(parents=True)
    other = tmp_path / "other"
    other.write_bytes(b"of somebody else")
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(other)
    with at_once():
        assert writers.WRITERS[writer].run(tmp_path) == 2
    assert "is in the way and was not made by cfagg; remove it" in capfd.readouterr().err
    assert other.read_bytes() == b"of somebody else"


def test_what_others_left_beside_a_report_is_not_waited_for(tmp_path):
    left = tmp_path / ".report.json.cfagg-new-1-00"
    left.mkdir()
    os.mkfifo(left / "lock")
    with at_once(), written_aside(tmp_path / "report.json") as made:
        made.write_text("{}")
    assert (tmp_path / "report.json").read_text() == "{}"


def test_a_chunk_of_an_unfinished_store_that_became_a_fifo_is_refused(tmp_path, capfd, monkeypatch):
    writers.prepare_conversion(tmp_path, old=False)
    from cfagg.conversion import local_target

    with monkeypatch.context() as patch:
        patch.setattr(local_target, "write_metadata", lambda *_: 1 / 0)
        with contextlib.suppress(ZeroDivisionError):
            writers.convert(tmp_path)
    chunk = tmp_path / "out" / ".a.zarr.cfagg-partial" / "store" / "tas" / "c" / "0" / "0" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    capfd.readouterr()
    with at_once():
        assert writers.convert(tmp_path, "--resume") == 2
    said = capfd.readouterr().err
    assert "a.zarr/tas/c/0/0/0" in said
    assert ".cfagg-partial" not in said


def test_a_link_out_of_a_store_that_is_fixed_is_not_written_through(tmp_path):
    (tmp_path / "other.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {"a": "b"}}')
    store = tmp_path / "a.zarr"
    store.mkdir()
    (store / "zarr.json").symlink_to(tmp_path / "other.json")
    with pytest.raises(CfaggError, match="a link that leaves the store"):
        fixing_zarr.change(str(store), [Change(None, "a", "b", "a", "c", "TIM011")])
    assert '"b"' in (tmp_path / "other.json").read_text()


@pytest.mark.skipif(os.name != "posix", reason="other systems have no sticky bit")
def test_a_work_directory_of_another_user_is_not_used_where_all_may_write(tmp_path, monkeypatch):
    # Its owner could replace what is in it by links while it is written to.
    planted = tmp_path / ".out.zarr.cfagg-partial"
    planted.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: planted.stat().st_uid + 1)
    tmp_path.chmod(0o1777)
    with pytest.raises(TargetError, match=r"\.out\.zarr\.cfagg-partial was made by another user"):
        Workplace(tmp_path / "out.zarr", overwrite=False).enter()
    assert list(planted.iterdir()) == []
    for mode in (0o1770, 0o777):
        tmp_path.chmod(mode)
        planted.mkdir(exist_ok=True)
        place = Workplace(tmp_path / "out.zarr", overwrite=False)
        place.enter()
        place.abandon_if_useless()


def test_directories_nested_deeper_than_calls_in_place_of_a_journal_are_looked_through(tmp_path):
    folder = tmp_path / ".out.zarr.cfagg-partial/parts"
    folder.mkdir(parents=True)
    for _ in range(1200):
        folder /= "a"
        folder.mkdir()
    link = folder / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(TargetError, match=r"cfagg-partial is in the way"):
        Workplace(tmp_path / "out.zarr", overwrite=False).enter()
    # Python 3.12 removes directories recursively, which ends at a depth of 1000, and with it the tests.
    link.unlink()
    for _ in range(1200):
        folder.rmdir()
        folder = folder.parent
