"""Builds that are killed, interrupted, run into a full disk, or whose array is written meanwhile."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import zarr

from cfagg.accumulation import building, freshness, partials, source
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.errors import NotAccumulatedError, StaleError, TargetError, TargetExistsError
from cfagg.formats.zarr import open_array
from tests.accumulation import reference
from tests.accumulation.comparing import chunks_read
from tests.durability import tracing

DIMS = ("time", "lat", "lon")

SCRIPT = """
import sys, time, json
from cfagg.accumulation.accumulating import accumulate
def slowly(done, total):
    print(done, flush=True)
    time.sleep(float(sys.argv[3]))
accumulate(sys.argv[1], "tas", workers=1, progress=slowly, **json.loads(sys.argv[2]))
"""


def values():
    return np.random.default_rng(3).normal(size=(40, 6, 8)).astype("f4")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.zarr"
    reference.write_source(path, "tas", values(), DIMS, (2, 6, 8), coordinates=False)
    return path


@pytest.fixture
def read(monkeypatch):
    """The chunks that are read from now on."""
    return chunks_read(monkeypatch)


def workshop(store):
    return store.parent / f".{store.name}.tas.cfagg-accumulation"


def killed(store, steps, sign=signal.SIGKILL, variable="tas", *, together=1, **options):
    """Start a build in a process of its own, and end it after some chunks."""
    steps_done, step_done = os.pipe()

    left = [steps]

    def slowly(_done, _total):
        os.write(step_done, b".")
        left[0] -= 1
        time.sleep(600 if left[0] < 0 else 0)

    def build():
        partials._TOGETHER = together  # bytes; by default one chunk at a time
        accumulate(store, variable, workers=1, progress=slowly, **options)

    process = tracing.forked(build)
    os.close(step_done)
    for _ in range(steps + 1):
        os.read(steps_done, 1)
    os.kill(process, sign)
    os.waitpid(process, 0)
    os.close(steps_done)


def right(store, raw=None):
    group = open_group(store, "tas")
    freshness.check(group)
    raw = zarr.open_array(store / "tas", mode="r")[:] if raw is None else raw
    for dims, arrays in group.sums.items():
        place = tuple(-1 if d in dims else slice(None) for d in DIMS)
        axes = tuple(DIMS.index(d) for d in dims)
        np.testing.assert_allclose(read_whole(arrays.data)[place], raw.sum(axes, "f8"), rtol=1e-9, atol=1e-9)
    assert not workshop(store).exists()
    return True


def test_a_killed_build_leaves_no_group_and_is_finished_by_resume(store, read):
    killed(store, 8)
    with pytest.raises(NotAccumulatedError):
        open_group(store, "tas")
    with pytest.raises(TargetExistsError, match=r"finish it with resume=True \(--resume\) or start again"):
        accumulate(store, "tas")
    assert not read
    report = accumulate(store, "tas", resume=True)
    assert report.resumed >= 8
    assert len(read) == 20 - report.resumed
    assert right(store)


def test_resume_trusts_chunks_that_were_summed_together_with_one_where_values_are_missing(tmp_path, read):
    raw = values()
    raw[4] = np.nan
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw, DIMS, (2, 6, 8), coordinates=False)
    killed(store, 2, together=4 << 20)
    assert accumulate(store, "tas", resume=True).resumed == 10
    assert len(read) == 10
    assert right(store, np.nan_to_num(raw))


def test_a_killed_replacement_leaves_the_old_group(store):
    accumulate(store, "tas", ["time"])
    identity = open_group(store, "tas").identity
    killed(store, 5, overwrite=True)
    assert open_group(store, "tas").identity == identity
    freshness.check(open_group(store, "tas"))
    assert accumulate(store, "tas", overwrite=True, resume=True).resumed >= 5
    assert right(store)


def test_resume_without_anything_to_resume_builds_and_then_does_nothing(store):
    assert accumulate(store, "tas", resume=True).action == "built"
    assert accumulate(store, "tas", resume=True).action == "up to date"
    with pytest.raises(TargetExistsError):
        accumulate(store, "tas", ["time"], resume=True)


def test_an_unfinished_build_is_given_up_on_request(store, read):
    killed(store, 5)
    assert accumulate(store, "tas", overwrite=True).resumed == 0
    assert len(read) == 20
    assert right(store)


def test_resume_refuses_other_options_and_other_arrays(store):
    killed(store, 5)
    with pytest.raises(TargetError, match="different settings \\(options\\)"):
        accumulate(store, "tas", ["time"], resume=True)
    with pytest.raises(TargetError, match="different settings \\(weights\\)"):
        accumulate(store, "tas", weights=np.arange(6.0)[:, None], resume=True)
    zarr.open_array(store / "tas", mode="r+").resize((44, 6, 8))
    with pytest.raises(TargetError, match="different settings \\(array\\)"):
        accumulate(store, "tas", resume=True)
    assert workshop(store).exists()


def test_resume_reads_chunks_again_that_were_written_since(store, read):
    killed(store, 8)
    zarr.open_array(store / "tas", mode="r+")[3, 0, 0] = 1000
    report = accumulate(store, "tas", resume=True)
    assert report.resumed >= 7
    assert (1, 0, 0) in read
    assert (0, 0, 0) not in read
    assert right(store)


def test_resume_trusts_neither_torn_records_nor_damaged_sums(store, read):
    killed(store, 8)
    folder = workshop(store)
    records = bytearray((folder / "records").read_bytes())
    records[5] ^= 1
    (folder / "records").write_bytes(records[: len(records) - 3])
    sums = folder / "scratch" / "sum-0"
    raw = bytearray(sums.read_bytes())
    raw[3 * 6 * 8 * 8] ^= 1
    sums.write_bytes(raw)
    accumulate(store, "tas", resume=True)
    assert {(t, 0, 0) for t in (0, 3, 7)} <= set(read)
    assert (1, 0, 0) not in read
    assert right(store)


def test_appending_and_refreshing_go_on_by_themselves(store, read):
    accumulate(store, "tas", ["time", "lat"])
    read.clear()
    array = zarr.open_array(store / "tas", mode="r+")
    array.resize((60, 6, 8))
    array[40:] = values()[:20]
    killed(store, 4, append=True)
    with pytest.raises(StaleError):
        freshness.check(open_group(store, "tas"))
    report = accumulate(store, "tas", append=True)
    assert (report.action, report.chunks) == ("appended", 10)
    assert report.resumed >= 4
    assert len(read) == 10 - report.resumed
    assert right(store)


def test_an_interrupt_is_one_sentence_and_what_is_done_is_kept(store, capfd):
    killed(store, 6, signal.SIGINT)
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("KeyboardInterrupt: interrupted: ")
    assert "resume=True" in last
    assert accumulate(store, "tas", resume=True).resumed >= 6
    assert right(store)


@pytest.mark.full
@pytest.mark.parametrize("limit", [900, 7000])
def test_a_full_disk_is_one_sentence_and_resume_finishes_later(store, limit):
    # A limit on the size of files stands in for the full disk: the system refuses the write in the same way.
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(store), "{}", "0"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    last = process.stderr.strip().splitlines()[-1]
    assert "TargetError" in last
    assert "tas_accumulation_group was not written: File too large" in last
    assert f"{store.name}.tas" not in last
    with pytest.raises(NotAccumulatedError):
        open_group(store, "tas")
    accumulate(store, "tas", resume=True)
    assert right(store)


@pytest.mark.parametrize("moment", ["chunk", "metadata", "finish"])
def test_an_array_that_is_written_meanwhile_is_refused(store, moment, monkeypatch):
    def write():
        if moment == "metadata":
            zarr.open_array(store / "tas", mode="r+").attrs["scale_factor"] = 2.0
        else:
            zarr.open_array(store / "tas", mode="r+")[0, 0, 0] = 5.0

    if moment == "finish":
        finish = building.finish
        monkeypatch.setattr(building, "finish", lambda *a: (finish(*a), write())[0])
    else:
        done = partials.compute
        monkeypatch.setattr(
            "cfagg.accumulation.partials.compute",
            lambda recipe, numbers, *more: (done(recipe, numbers, *more), write() if 9 in numbers else None)[0],
        )
    with pytest.raises(StaleError, match="written while it was accumulated"):
        accumulate(store, "tas", workers=1)
    with pytest.raises(NotAccumulatedError):
        open_group(store, "tas")
    monkeypatch.undo()
    if moment != "metadata":
        assert accumulate(store, "tas", resume=True).resumed >= 18
    else:
        accumulate(store, "tas", overwrite=True)
    freshness.check(open_group(store, "tas"))


def test_a_chunk_that_vanishes_before_it_is_read_is_no_fill_value(store, monkeypatch):
    time.sleep(0.05)
    real = source.stamps

    def seen(array, which=None):
        found = real(array, which)
        if array.name == "tas":
            (store / "tas" / "c" / "3" / "0" / "0").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(source, "stamps", seen)
    with pytest.raises(StaleError, match=r"chunk \(3, 0, 0\) has changed since the accumulation began"):
        accumulate(store, "tas", workers=1)


def test_a_chunk_written_a_moment_ago_is_waited_for(store):
    path = store / "tas" / "c" / "0" / "0" / "0"
    path.write_bytes(path.read_bytes())
    written = path.stat().st_mtime_ns
    found = source.settled(open_array(store, "tas"))
    assert found[0, 1] == written
    assert time.time_ns() - written >= source._TICK * 1e9


def test_an_array_that_is_written_all_the_time_is_refused(store, monkeypatch):
    # It was written within this time, however long one waits.
    monkeypatch.setattr(source, "_TICK", 3600)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(StaleError, match="array 'tas' is being written; run again when nothing writes to it"):
        source.settled(open_array(store, "tas"))


def test_two_builders_do_not_work_on_the_same_array(store):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(store), "{}", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    try:
        with pytest.raises(TargetError, match=r"another process is accumulating into .*tas_accumulation_group;"):
            accumulate(store, "tas", overwrite=True)
    finally:
        process.kill()
        process.communicate(timeout=300)


def test_threads_that_build_at_once_are_refused_or_right(store):
    outcomes = []

    def work():
        try:
            outcomes.append(accumulate(store, "tas", overwrite=True).action)
        except TargetError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(outcomes) == 4
    assert {"built", "rebuilt"} & set(outcomes)
    assert right(store)


def test_a_build_killed_after_its_group_is_in_place_is_tidied(store):
    accumulate(store, "tas")
    folder = workshop(store)
    folder.mkdir()
    state = (store / "tas_accumulation_group").stat()
    (folder / "done").write_text(f"{state.st_ino} {state.st_mtime_ns}")
    (folder / "identity").write_text("{}")
    (folder / "group").mkdir()
    assert accumulate(store, "tas", resume=True).action == "up to date"
    with pytest.raises(TargetExistsError):
        accumulate(store, "tas")
    accumulate(store, "tas", overwrite=True)
    assert right(store)


@pytest.mark.soak
def test_a_build_killed_between_two_renames_keeps_the_old_group(store, monkeypatch):
    accumulate(store, "tas", ["time"])
    folder = workshop(store)
    folder.mkdir()
    (store / "tas_accumulation_group").rename(folder / "old")
    monkeypatch.setattr("cfagg.runtime.publishing.exchange", lambda *_: False)
    with pytest.raises(TargetExistsError):
        accumulate(store, "tas", ["lat"])
    assert set(open_group(store, "tas").sums) == {("time",)}
    accumulate(store, "tas", ["lat"], overwrite=True)
    assert set(open_group(store, "tas").sums) == {("lat",)}
    assert right(store)


def test_a_directory_that_is_not_ours_is_in_the_way(store):
    workshop(store).mkdir()
    (workshop(store) / "thesis.tex").write_text("mine")
    with pytest.raises(TargetError, match="was not made by cfagg"):
        accumulate(store, "tas")
    assert (workshop(store) / "thesis.tex").exists()


def test_a_store_beside_which_nothing_can_be_made_is_refused_in_one_sentence(store, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, os.strerror(13), str(workshop(store)))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    # The name of the work directory says nothing to a user, and is left out.
    with pytest.raises(
        TargetError, match=r"tas_accumulation_group cannot be written: Permission denied; get permission [^.]*$"
    ):
        accumulate(store, "tas")


@pytest.mark.soak
def test_a_few_kills_while_a_reader_asks_leave_right_answers_or_none(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.accumulation.killing", tmp_path, "0", "6"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("one", "other"), [
    (("x", "a/b"), ("x", "a.b")), (("x", "a%2Fb"), ("x", "a/b")), (("x", "a%2Eb"), ("x", "a.b")),
    (("x", "y/b"), ("x.y", "b")), (("x", "y.b"), ("x.y", "b")), (("x", "a%b"), ("x", "a%25b")),
    (("x", "a." * 60 + "b"), ("x", "a." * 60 + "c")),
])  # fmt: skip
def test_no_two_arrays_share_a_work_directory(one, other, tmp_path):
    for store, _ in (one, other):
        (tmp_path / store).mkdir(exist_ok=True)
    made = [building.GroupStaging(tmp_path / s, v, tmp_path / s / "g").root for s, v in (one, other)]
    assert made[0] != made[1]


@pytest.mark.parametrize("name", ["a.b", "a/b"])
def test_a_build_of_a_former_version_is_finished_where_only_its_own_array_is_meant(tmp_path, name):
    store, other = tmp_path / "x.zarr", {"a.b": "a/b", "a/b": "a.b"}[name]
    for each in (name, other):
        reference.write_source(store, each, values(), DIMS, (2, 6, 8), coordinates=False)
    shop = building.GroupStaging(store, name, store / "g").root
    killed(store, 8, variable=name)
    former = tmp_path / ".x.zarr.a.b.cfagg-accumulation"
    shop.rename(former)
    assert accumulate(store, other).resumed == 0
    assert former.exists()
    assert accumulate(store, name, resume=True).resumed > 0
    assert not former.exists()
    freshness.check(open_group(store, name))


@pytest.mark.parametrize("name", ["a." * 60 + "b", "v" * 220])
def test_an_array_of_a_long_name_is_accumulated(name, tmp_path):
    zarr.create_array(tmp_path / "x", name=name, shape=(4,), chunks=(2,), dtype="f4", dimension_names=["t"])[:] = 1
    accumulate(tmp_path / "x", name)
    assert open_accumulated(tmp_path / "x", name).sum("t") == 4
