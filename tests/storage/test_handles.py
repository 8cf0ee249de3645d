"""The pool of open files: bounded, shared by threads, safe under fork, and modest where the process may open few."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfagg.errors import SourceError
from cfagg.storage import counters
from cfagg.storage.files import look
from cfagg.storage.handles import Handles, share_of_open_files
from tests import nca_files


@pytest.fixture
def paths(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.nc").write_bytes(bytes([i]))
    return [str(tmp_path / f"{i}.nc") for i in range(10)]


def test_a_file_is_opened_once(paths):
    pool = Handles(4)
    before = counters.snapshot()
    assert {id(pool.get(paths[0])) for _ in range(5)} == {id(pool.get(paths[0]))}
    assert (counters.snapshot() - before).files == 1


def test_the_least_recently_used_file_is_closed_first(paths):
    pool = Handles(2)
    first, second = pool.get(paths[0]).fd, pool.get(paths[1]).fd
    pool.get(paths[0])
    pool.get(paths[2])
    assert len(pool) == 2
    assert pool.get(paths[0]).fd == first
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(second)


def test_a_file_in_use_stays_open_when_the_pool_drops_it(paths):
    pool = Handles(1)
    mine = pool.get(paths[3])
    for path in paths:
        pool.get(path)
    pool.shrink(0)
    assert mine.some(1, 0) == b"\3"


def test_a_file_that_was_replaced_is_opened_anew(paths):
    pool = Handles(4)
    old = pool.get(paths[0])
    os.replace(paths[1], paths[0])  # noqa: PTH105
    assert pool.get(paths[0]).some(1, 0) == b"\1"
    assert old.some(1, 0) == b"\0"


def test_what_was_found_of_a_file_does_not_hold_for_the_one_that_took_its_place(paths):
    pool = Handles(4)
    key = look(paths[0])
    assert pool.of(key).some(1, 0) == b"\0"
    pool.shrink(0)
    assert pool.of(key).some(1, 0) == b"\0"
    pool.shrink(0)
    os.replace(paths[1], paths[0])  # noqa: PTH105
    with pytest.raises(SourceError, match="written or replaced while it was read"):
        pool.of(key)


def test_a_file_that_was_written_in_place_is_another_though_its_size_is_the_same(paths):
    pool = Handles(4)
    key = look(paths[0])
    os.utime(paths[0], ns=(0, key.modified + 1))
    with pytest.raises(SourceError, match="written or replaced while it was read"):
        pool.of(key)


@pytest.mark.parametrize("field", ["", "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_any_difference_in_its_identity_makes_a_file_another(paths, monkeypatch, field):
    """Clocks tick slowly: that one of them differs is all that may be seen of a change."""
    pool = Handles(4)
    old = pool.get(paths[0])
    found = os.stat(paths[0])  # noqa: PTH116
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    changed = SimpleNamespace(**fields | ({field: fields[field] + 1} if field else {}))
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda path: changed)
        new = pool.get(paths[0])
    assert (new is old) == (not field)


def test_the_content_of_a_file_is_another_where_its_place_size_or_time_is(paths):
    key = look(paths[0])
    for field in ("device", "inode", "size", "modified"):
        assert not key.is_same_content(key._replace(**{field: getattr(key, field) + 1}))
    assert key.is_same_content(key._replace(path="another name", changed=key.changed + 1))


def test_the_file_that_took_the_place_of_one_that_is_open_is_opened(paths):
    pool = Handles(4)
    pool.get(paths[0])
    os.replace(paths[1], paths[0])  # noqa: PTH105
    assert pool.of(look(paths[0])).some(1, 0) == b"\1"


def test_a_file_that_is_asked_for_by_its_identity_is_the_last_to_be_closed(paths):
    pool = Handles(2)
    mine, key = pool.get(paths[0]), look(paths[0])
    pool.get(paths[1])
    assert pool.of(key) is mine
    pool.get(paths[2])
    assert pool.get(paths[0]) is mine


def test_a_file_that_is_not_the_one_meant_is_closed_and_not_kept(paths):
    pool = Handles(4)
    key = look(paths[0])
    os.replace(paths[1], paths[0])  # noqa: PTH105
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(SourceError, match="written or replaced"):
        pool.of(key)
    assert len(list(Path("/dev/fd").iterdir())) <= before
    assert len(pool) == 0


def test_a_file_that_is_gone_is_missing_though_it_is_open(paths):
    pool = Handles(4)
    pool.get(paths[0])
    Path(paths[0]).unlink()
    with pytest.raises(SourceError, match="there is no file"):
        pool.get(paths[0])


def test_a_smaller_limit_closes_files_and_none_is_below_one(paths):
    pool = Handles(8)
    for path in paths[:6]:
        pool.get(path)
    pool.limit = 4
    assert (pool.limit, len(pool)) == (4, 4)
    for least in (0, -3):
        pool.limit = least
        assert (pool.limit, len(pool)) == (1, 1)
    assert pool.get(paths[5]) is pool.get(paths[5])


def test_shrinking_says_whether_it_closed_any(paths):
    pool = Handles(8)
    for path in paths[:3]:
        pool.get(path)
    assert not pool.shrink(3)
    assert pool.shrink(2)
    assert len(pool) == 2
    assert pool.shrink(-1)
    assert (len(pool), pool.shrink(0)) == (0, False)


def test_under_pressure_half_of_the_files_are_kept_from_now_on(paths):
    pool = Handles(8)
    for path in paths[:5]:
        pool.get(path)
    assert pool._halve()
    assert (len(pool), pool.limit) == (2, 2)
    assert pool._halve()
    assert (len(pool), pool.limit) == (1, 1)
    assert pool._halve()
    assert (len(pool), pool.limit) == (0, 1)
    assert not pool._halve()
    assert pool.limit == 1


def test_without_open_files_pressure_leaves_the_limit_alone():
    pool = Handles(8)
    assert not pool._halve()
    assert pool.limit == 8


@pytest.mark.parametrize(
    ("most", "kept"), [(-1, 128), (2**20, 128), (1032, 128), (1023, 127), (40, 5), (32, 4), (31, 4), (8, 4)]
)
def test_an_eighth_of_what_the_process_may_open_is_kept_but_4_to_128(monkeypatch, most, kept):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, 99))
    assert share_of_open_files() == kept
    assert Handles().limit == kept


def test_a_file_whose_time_was_set_back_after_writing_is_opened_anew(paths):
    pool = Handles(4)
    old = pool.get(paths[0])
    os.utime(paths[0], ns=(0, old.key.modified))
    assert pool.get(paths[0]) is not old


def test_renaming_or_linking_a_file_is_no_change_of_it(paths):
    pool = Handles(4)
    key = look(paths[0])
    os.link(paths[0], paths[0] + ".link")
    assert look(paths[0]) != key
    assert pool.of(key).some(1, 0) == b"\0"


def test_threads_that_share_a_small_pool_read_what_they_asked_for(paths):
    pool = Handles(2)
    wrong = []

    def reads(seed):
        order = np.random.default_rng(seed).integers(0, 10, 2000)
        wrong.extend(i for i in order.tolist() if pool.get(paths[i]).some(1, 0) != bytes([i]))

    threads = [threading.Thread(target=reads, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(pool) <= 2


def test_a_child_process_goes_on_with_the_files_while_another_thread_held_the_lock(paths):
    code = f"""
import os, threading
from cfagg.storage.handles import handles
handles.get({paths[5]!r})
held, done = threading.Event(), threading.Event()
def hold():
    with handles._lock:
        held.set(); done.wait(600)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0 if handles.get({paths[5]!r}).some(1, 0) == b"\\5" else 1)
status = os.waitpid(child, 0)[1]
done.set()
assert status == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


@pytest.mark.full
def test_few_files_are_kept_where_the_process_may_open_few(tmp_path):
    code = "from cfagg.storage.handles import handles; print(handles.limit)"
    for most, kept in ((64, 8), (256, 32), (16, 4), (1024, 128)):
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most})); {code}"
        ran = subprocess.run([sys.executable, "-c", limited], check=True, capture_output=True, text=True, cwd=tmp_path)
        assert int(ran.stdout) == kept


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """An aggregation of 2,000 small files; every fourth only the HDF5 library, or netCDF-C, reads."""
    folder = tmp_path_factory.mktemp("many")
    kinds = [{}, {"zlib": True}, {"dtype": "compound"}, {"format": "NETCDF3_CLASSIC"}]
    first = {}
    for i in range(2000):
        target = folder / f"{i}.nc"
        kind = kinds[i % 4]
        if i >= 4:
            target.write_bytes(first[i % 4])
            continue
        if kind == {"dtype": "compound"}:
            write_enumeration(target)
        else:
            nca_files.fragment(target, "v", np.array([i], "i4"), ["t"], **kind)
        first[i] = target.read_bytes()
    return folder


def write_enumeration(path):
    """Write a file of which only the netCDF library reads the variable: an enumeration."""
    import netCDF4

    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("t", 1)
        kind = ds.createEnumType(np.int32, "kind", {"two": 2})
        ds.createVariable("v", kind, ("t",))[:] = 2


@pytest.mark.parametrize(
    ("files", "threads"),
    [(300, 8), pytest.param(2000, 1, marks=pytest.mark.soak), pytest.param(2000, 8, marks=pytest.mark.soak)],
)
def test_many_files_are_read_by_a_process_that_may_open_sixty_four(many, files, threads):
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from concurrent.futures import ThreadPoolExecutor
from cfagg.formats.values import locate, read
from cfagg.formats.values.netcdf import attribute_names
from cfagg.storage.files import CONTEXT_SOURCE
def one(i):
    path = {str(many)!r} + f"/{{i}}.nc"
    if i % 97 == 0:
        attribute_names(path)
    return int(read(locate(path, "v", CONTEXT_SOURCE), [slice(0, 1, 1)], CONTEXT_SOURCE)[0])
with ThreadPoolExecutor({threads}) as pool:
    found = list(pool.map(one, range({files})))
assert found == [i % 4 for i in range({files})], [(i, v) for i, v in enumerate(found) if v != i % 4][:9]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.full
def test_where_others_hold_almost_all_files_the_pool_gives_its_own_back(many):
    code = f"""
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from cfagg.formats.values import locate, read
from cfagg.storage.files import CONTEXT_SOURCE
def one(i):
    path = {str(many)!r} + f"/{{i}}.nc"
    return int(read(locate(path, "v", CONTEXT_SOURCE), [slice(0, 1, 1)], CONTEXT_SOURCE)[0])
found = [one(i) for i in range(40)]
others = []
try:
    while True:
        others.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for fd in others[-4:]:
    os.close(fd)
found += [one(i) for i in range(40, 120)]
assert found == [i % 4 for i in range(120)]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
