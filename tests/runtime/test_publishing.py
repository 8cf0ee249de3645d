"""The order in which things get to disk, and what happens where the system cannot do something."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cfagg.errors import LeftoverWarning, TargetError, TargetExistsError
from cfagg.runtime import publishing, staging
from cfagg.runtime.files import NewFolder, remove_dead, write_aside, written_aside
from cfagg.runtime.netcdf_files import failures_of_hdf5
from cfagg.runtime.publishing import refusals_of
from cfagg.runtime.staging import Staging, is_replaceable, renames_into
from tests.systems import needs_proc


def tree(path, text):
    (path / "c").mkdir(parents=True)
    (path / "c" / "0").write_text(text)
    return path


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_takes_the_place_of_another(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(publishing, "exchange", lambda one, other: False)
    new, target, old = tree(tmp_path / "new", "1"), tree(tmp_path / "target", "0"), tmp_path / "old"
    publishing.put(new, target, old)
    assert (target / "c" / "0").read_text() == "1"
    assert ((new if exchanges else old) / "c" / "0").read_text() == "0"


def test_what_appears_in_a_free_place_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    new, target = tree(tmp_path / "new", "1"), tmp_path / "target"
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    target.mkdir()
    with pytest.raises(FileExistsError):
        publishing.put(new, target, tmp_path / "old")


def test_where_two_renames_are_needed_and_the_second_fails_the_first_is_undone(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "exchange", lambda one, other: False)
    target = tree(tmp_path / "target", "0")
    with pytest.raises(FileNotFoundError):
        publishing.put(tmp_path / "absent", target, tmp_path / "old")
    assert (target / "c" / "0").read_text() == "0"


@needs_proc
def test_without_syncfs_every_file_and_directory_is_synced_once(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "sync_file_system", lambda _: False)
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda f: (seen.append(os.path.realpath(f"/proc/self/fd/{f}")), real(f)))
    tree(tmp_path / "a", "0")
    publishing.sync_tree(tmp_path / "a")
    assert seen == [str(tmp_path / "a" / "c" / "0"), str(tmp_path / "a" / "c"), str(tmp_path / "a")]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
def test_a_file_system_that_cannot_begin_to_write_writes_later(monkeypatch, code):
    monkeypatch.setattr(publishing, "_from_c_library", lambda _: lambda *_: ctypes.set_errno(code) or -1)
    publishing.begin_sync(0)
    monkeypatch.setattr(publishing, "_from_c_library", lambda _: None)
    publishing.begin_sync(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux begins to write when asked")
def test_a_file_that_the_disk_does_not_take_is_an_error(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        publishing.begin_sync(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        publishing.begin_sync(1 << 20)


@pytest.fixture
def disk(monkeypatch):
    """Return the list of what is forced to disk, with what is in its directories at that moment."""
    seen = []
    real = os.fsync

    def fsync(handle):
        path = Path(os.path.realpath(f"/proc/self/fd/{handle}"))
        seen.append((path.name, sorted(p.name for p in path.iterdir()) if path.is_dir() else None))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@needs_proc
def test_a_file_is_on_disk_before_its_name_and_both_directories_after_it(tmp_path, disk):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "new").write_text("1")
    publishing.replace_file(tmp_path / "from" / "new", tmp_path / "to" / "target")
    assert disk == [("new", None), ("to", ["target"]), ("from", [])]


@needs_proc
def test_the_directories_of_a_directory_that_was_put_in_its_place_are_on_disk_at_the_end(tmp_path, disk):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    new = tree(tmp_path / "from" / "new", "1")
    publishing.put(new, tmp_path / "to" / "target", tmp_path / "from" / "old")
    assert disk == [("to", ["target"]), ("from", [])]


@needs_proc
def test_where_two_renames_are_needed_the_first_is_on_disk_before_the_second(tmp_path, monkeypatch, disk):
    monkeypatch.setattr(publishing, "exchange", lambda one, other: False)
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    new, target = tree(tmp_path / "from" / "new", "1"), tree(tmp_path / "to" / "target", "0")
    publishing.put(new, target, tmp_path / "from" / "old")
    assert disk == [("from", ["new", "old"]), ("to", []), ("to", ["target"]), ("from", ["old"])]


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_in_its_place_but_not_surely_on_disk_is_said_to_be_that(tmp_path, monkeypatch, whole):
    def fails(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(publishing, "sync_directory", fails)
    (tmp_path / "a").write_text("old")
    if whole:
        tree(tmp_path / "new", "new")
        (tmp_path / "a").unlink()
    else:
        (tmp_path / "new").write_text("new")
    with (
        pytest.raises(TargetError, match=r"a is complete and in its place, but a power failure .*: Input/output error"),
        refusals_of(tmp_path / "a"),
    ):
        (publishing.put if whole else publishing.replace_file)(
            tmp_path / "new", tmp_path / "a", *([tmp_path / "former"] if whole else [])
        )
    assert (tmp_path / "a" / "c" / "0" if whole else tmp_path / "a").read_text() == "new"


@needs_proc
def test_a_directory_that_got_its_name_back_has_it_on_disk(tmp_path, disk):
    tree(tmp_path / "old", "0")
    publishing.put_back(tmp_path / "old", tmp_path / "target")
    assert disk == [(tmp_path.name, ["target"])]


@needs_proc
def test_the_mark_of_a_finished_job_goes_after_everything_else_has_gone_on_disk(tmp_path, disk):
    home = tree(tmp_path / "home", "0")
    (home / "done").touch()
    publishing.discard([home / "c", home / "gone", home / "done"], home, "it")
    assert disk == [("home", ["done"])]
    assert not home.exists()


def test_what_is_not_of_the_job_stays_and_is_a_warning(tmp_path):
    home = tree(tmp_path / "home", "0")
    with pytest.warns(LeftoverWarning, match=r"it is complete, but .*home could not be removed"):
        publishing.discard([], home, "it")
    assert (home / "c" / "0").exists()


def test_removing_a_link_leaves_what_it_leads_to(tmp_path):
    home = tree(tmp_path / "home", "0")
    (tmp_path / "link").symlink_to(home)
    publishing.remove(tmp_path / "link")
    publishing.remove(tmp_path / "gone")
    assert (home / "c" / "0").exists()
    publishing.remove(home / "c" / "0")
    publishing.remove(home)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole_and_keeps_nothing_beside_it(tmp_path):
    target = tmp_path / "report.json"
    write_aside(target, b"one")
    write_aside(target, b"two")
    assert target.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_file_that_is_not_finished_does_not_appear(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(RuntimeError), written_aside(tmp_path / "a.txt") as made:  # noqa: PT012
        made.write_text("half")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_killed_process_left_of_a_file_is_removed_by_the_next(tmp_path):
    code = (
        "import os, sys, pathlib\nfrom cfagg.runtime.files import written_aside\n"
        "with written_aside(pathlib.Path(sys.argv[1])) as made:\n    made.write_text('half')\n    os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.txt"])
    assert len(list(tmp_path.iterdir())) == 1
    write_aside(tmp_path / "a.txt", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("names", [["file.txt"], ["former"], []])
def test_a_directory_whose_lock_was_lost_with_the_power_is_removed(tmp_path, names):
    left = tmp_path / ".a.txt.cfagg-new-1-00000000"
    left.mkdir()
    for name in names:
        (left / name).write_text("half")
    (tmp_path / "a.txt").write_text("old")
    write_aside(tmp_path / "a.txt", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "whole"


def test_what_a_living_process_is_writing_is_left_alone(tmp_path):
    with written_aside(tmp_path / "a.txt") as made:
        made.write_text("first")
        write_aside(tmp_path / "a.txt", b"second")
        assert made.read_text() == "first"
    assert (tmp_path / "a.txt").read_text() == "first"


def test_a_directory_moved_away_by_a_killed_process_is_put_back(tmp_path):
    target = tree(tmp_path / "store", "0")
    folder = NewFolder(target)
    target.rename(folder.path / "former")
    folder._held.close()  # as the system does when the process is killed
    NewFolder(target).remove(done=False)
    assert (target / "c" / "0").read_text() == "0"
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_a_very_long_name_has_room_for_what_is_written_beside_it(tmp_path):
    target = tmp_path / ("é" * 120 + ".json")
    write_aside(target, b"{}")
    assert list(tmp_path.iterdir()) == [target]


def test_what_cannot_be_removed_after_the_work_is_a_warning(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(publishing, "remove", refuse)
    with pytest.warns(LeftoverWarning, match="is complete, but .* could not be removed"):
        publishing.discard([tmp_path / "old"], tmp_path, "store")


def staged(folder, text):
    """A work directory within its target, with a finished product."""
    stage = Staging(folder, folder / ".work", "store", frozenset(), "testing")
    stage.hold()
    stage.product.mkdir(exist_ok=True)
    (stage.product / "zarr.json").write_text(text)
    tree(stage.product / "zz", text)
    return stage


def test_within_a_target_that_cannot_be_renamed_contents_are_replaced(tmp_path):
    for text in ("one", "two"):
        stage = staged(tmp_path, text)
        stage.put_in_place()
        assert stage.in_place
        stage.remove_after()
        assert (tmp_path / "zarr.json").read_text() == (tmp_path / "zz" / "c" / "0").read_text() == text
        assert sorted(p.name for p in tmp_path.iterdir()) == ["zarr.json", "zz"]


@pytest.mark.parametrize("moves", range(5))
def test_a_replacement_of_contents_that_was_cut_short_has_no_store_or_a_whole_one_and_is_finished(
    tmp_path, monkeypatch, moves
):
    staged(tmp_path, "one").put_in_place()
    shutil.rmtree(tmp_path / ".work")
    stage = staged(tmp_path, "two")
    left = [moves]
    real = type(tmp_path).rename

    def rename(self, target):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            stage.put_in_place()
    stage.leave()
    document = tmp_path / "zarr.json"
    assert not document.exists() or document.read_text() == (tmp_path / "zz" / "c" / "0").read_text()
    after = Staging(tmp_path, tmp_path / ".work", "store", frozenset(), "testing")
    after.hold()
    assert after.in_place
    after.remove_after()
    assert document.read_text() == (tmp_path / "zz" / "c" / "0").read_text() == "two"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["zarr.json", "zz"]


@needs_proc
def test_within_a_target_contents_are_on_disk_before_the_document_that_makes_them_a_store(tmp_path, disk):
    staged(tmp_path, "one").put_in_place()
    assert [names for folder, names in disk if folder == tmp_path.name][-2:] == [
        [".work", "zz"],
        [".work", "zarr.json", "zz"],
    ]


@needs_proc
def test_a_product_is_on_disk_before_the_mark_by_which_the_next_run_moves_it_in(tmp_path, monkeypatch, disk):
    monkeypatch.setattr(publishing, "sync_file_system", lambda _: False)
    staged(tmp_path, "one").put_in_place()
    seen = [name for name, _ in disk]
    assert max(map(seen.index, ("0", "c", "zz", "zarr.json", "store"))) < seen.index("done")


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_whose_file_its_last_holder_removed_is_not_held(tmp_path, monkeypatch, again):
    def opened(path, mode):
        file = publishing.opened(path, mode)
        path.unlink()
        if again:
            path.touch()
        return file

    monkeypatch.setattr(staging, "opened", opened)
    file, held = staging.lock(tmp_path / "lock")
    file.close()
    assert held is False


@needs_proc
def test_a_mount_point_is_not_replaced_by_a_rename(tmp_path):
    assert is_replaceable(tmp_path / "new")
    assert not is_replaceable(type(tmp_path)("/proc"))
    assert renames_into(tmp_path, tmp_path)
    assert not renames_into(type(tmp_path)("/"), type(tmp_path)("/proc/self"))


def test_nothing_is_built_in_a_work_directory_that_cannot_be_locked(tmp_path, monkeypatch):
    def vanish(path, doing):
        # Another process has just finished.
        path.parent.rmdir()
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(staging, "locked", vanish)
    stage = Staging(tmp_path / "a.zarr", tmp_path / ".work", "store", frozenset(), "testing")
    with pytest.raises(TargetError, match="was removed by other processes every time; run again"):
        stage.hold()


def test_what_only_looks_like_a_work_directory_of_ours_is_left_alone(tmp_path):
    other, mine = tmp_path / ".a.nc.cfagg-new-1-aa", tmp_path / "mine"
    for folder, name in ((other, "thesis.tex"), (mine, "file.nc")):
        folder.mkdir()
        (folder / name).write_text("mine")
    (tmp_path / ".a.nc.cfagg-new-2-bb").symlink_to(mine)
    remove_dead(tmp_path / "a.nc")
    assert (other / "thesis.tex").read_text() == (mine / "file.nc").read_text() == "mine"


def beside(folder):
    return Staging(folder / "a.zarr", folder / ".work", "store", frozenset(), "testing")


def test_a_work_directory_is_held_by_one_at_a_time(tmp_path):
    first = beside(tmp_path)
    first.hold()
    with pytest.raises(TargetError, match=r"^another process is testing; wait for it, or stop it$"):
        beside(tmp_path).hold()
    first.leave()
    second = beside(tmp_path)
    second.hold()
    second.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [False, True])
def test_what_was_moved_away_by_a_killed_process_is_put_back_where_nothing_came(tmp_path, there):
    tree(tmp_path / ".work" / "old", "old")
    if there:
        tree(tmp_path / "a.zarr", "new")
    stage = beside(tmp_path)
    stage.hold()
    assert (tmp_path / "a.zarr" / "c" / "0").read_text() == ("new" if there else "old")
    assert not (tmp_path / ".work" / "old").exists()
    stage.remove()
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_product_takes_the_place_of_its_target_and_is_known_there(tmp_path):
    tree(tmp_path / "a.zarr", "old")
    stage = beside(tmp_path)
    stage.hold()
    tree(stage.product, "new")
    assert not stage.published
    stage.put_in_place()
    assert stage.published
    assert stage.in_place
    assert (tmp_path / "a.zarr" / "c" / "0").read_text() == "new"
    stage.remove_after()
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_product_that_was_changed_in_its_place_is_no_longer_known_there(tmp_path):
    stage = beside(tmp_path)
    stage.hold()
    tree(stage.product, "new")
    stage.put_in_place()
    assert stage.in_place
    (tmp_path / "a.zarr" / "later").touch()
    assert not stage.in_place
    stage.leave()


@needs_proc
def test_a_product_and_the_mark_that_names_it_are_on_disk_before_it_takes_its_place(tmp_path, monkeypatch, disk):
    monkeypatch.setattr(publishing, "sync_file_system", lambda _: False)
    stage = beside(tmp_path)
    stage.hold()
    tree(stage.product, "new")
    stage.put_in_place()
    places = [names for folder, names in disk if folder == tmp_path.name]
    assert places == [[".work"], [".work", "a.zarr"]]
    before = [name for name, _ in disk[: [name for name, _ in disk].index(tmp_path.name)]]
    assert {"done", "0", "c", stage.product.name, stage.root.name} <= set(before)
    stage.leave()


@needs_proc
def test_what_a_killed_process_replaced_is_removed_when_its_replacement_is_on_disk(tmp_path, disk):
    stage = beside(tmp_path)
    tree(stage.root / "old", "old")
    tree(tmp_path / "a.zarr", "new")
    stage.hold()
    assert disk[:2] == [(tmp_path.name, [".work", "a.zarr"]), (".work", ["lock", "old"])]
    assert not (stage.root / "old").exists()
    stage.leave()


def test_what_was_begun_is_taken_back_and_what_an_earlier_run_did_stays(tmp_path):
    for anew in (False, True):
        stage = beside(tmp_path)
        stage.hold()
        if anew:
            stage.start_anew()
        tree(stage.product, "begun")
        stage.take_back()
        assert stage.product.exists() != anew
        stage.leave()


@pytest.mark.parametrize(
    ("room", "said"), [(0, "No space left on device; free some space and run again"), (99, "Perm")]
)
@pytest.mark.parametrize("name", ["a.nc", ".a.nc.cfagg-new-1-2/file.nc"])
def test_a_library_that_takes_a_full_disk_for_a_lack_of_permission_is_not_believed(
    tmp_path, monkeypatch, room, said, name
):
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 100, room, room, 9, 9, 9, 0, 255)))
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / name))  # a removed directory, perhaps
    assert publishing.reason(error, tmp_path / "a.nc").startswith(said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
            "No space left on device; free some space and run again",
        ),
        (
            OSError("Can't write data (filename = 'x', errno = 27, error message = 'File too large')"),
            "File too large; raise the limit of the size of files (ulimit -f) and run again",
        ),
        (
            OSError("object store error: No space left on device (os error 28)"),
            "No space left on device; free some space and run again",
        ),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system; choose another place"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_what_the_system_says_comes_without_the_words_of_libraries_and_with_a_remedy(error, said):
    with pytest.raises(TargetError) as caught, refusals_of("a.nc"):
        raise error
    assert caught.value.message == f"a.nc cannot be written: {said}"


@pytest.mark.parametrize(("room", "code"), [(0, errno.ENOSPC), (1, errno.ENOSPC), (99, errno.EIO)])
def test_a_failure_of_hdf5_is_one_of_the_disk_and_no_other_error_is(tmp_path, monkeypatch, room, code):
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 100, room, room, 9, 9, 9, 0, 255)))
    with pytest.raises(OSError, match=r"disk full|No space") as caught, failures_of_hdf5(tmp_path / "a.nc"):
        raise RuntimeError("NetCDF: HDF error")
    assert (caught.value.errno, caught.value.filename) == (code, str(tmp_path / "a.nc"))
    with pytest.raises(NotImplementedError), failures_of_hdf5(tmp_path / "a.nc"):
        raise NotImplementedError


def test_what_the_system_refuses_is_an_error_that_names_the_target(tmp_path):
    with (
        pytest.raises(TargetError, match=r"a\.zarr cannot be written: No such file or directory .*none"),
        refusals_of(tmp_path / ".a.zarr.cfagg-partial" / "store"),
    ):
        (tmp_path / "none" / "file").write_bytes(b"")


def test_errors_of_cfagg_stay_as_they_are_though_some_are_also_those_of_the_system():
    error = TargetExistsError("a.zarr exists")
    with pytest.raises(TargetExistsError) as caught, refusals_of("b.zarr"):
        raise error
    assert caught.value is error
