"""Large files hold what was written, whatever the file system says of writes past the page cache."""

import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from cfagg.runtime import direct
from cfagg.runtime.publishing import opened

needs_direct = pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="the system cannot write past the page cache")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(direct, "_LARGE", 1 << 14)
    monkeypatch.setattr(direct, "_BLOCK", 1 << 13)
    monkeypatch.setattr(direct, "_kept", direct._Block())


def some(size):
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


def written(path, data):
    with opened(path, "wb") as file:
        direct.write_large(file, data)
        is_direct = fcntl.fcntl(file, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0)
    assert not is_direct  # whoever writes on with this file need not know of blocks
    return path.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 16383, 16384, 16385, 20480, 100_001])
@pytest.mark.parametrize("shift", [0, 1])
def test_all_bytes_are_written_wherever_they_lie(tmp_path, size, shift):
    lying = direct.aligned(size + shift)[shift:]
    lying[:] = some(size).tobytes()
    assert written(tmp_path / "a", lying) == some(size).tobytes()


def test_bytes_of_other_types_are_written_as_bytes(tmp_path):
    assert written(tmp_path / "a", memoryview(np.arange(9000.0))) == np.arange(9000.0).tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("memory", [lambda: direct.aligned(4), lambda: direct._own()[:4]], ids=["asked", "kept"])
def test_what_a_forked_process_writes_into_such_memory_is_not_seen_here(memory):
    here = memory()
    here[:] = b"here"
    child = os.fork()
    if child == 0:
        here[:] = b"away"
        os._exit(0)
    os.waitpid(child, 0)
    assert bytes(here) == b"here"


class Failing:
    """A file that refuses writes past the page cache, or takes a part of them."""

    def __init__(self, file, part, error):
        self.file, self.part, self.error = file, part, error

    def fileno(self):
        return self.file.fileno()

    def write(self, data):
        if fcntl.fcntl(self.file, fcntl.F_GETFL) & os.O_DIRECT:
            if self.part == 0:
                raise OSError(self.error, os.strerror(self.error))
            part, self.part = self.part, 0
            data = bytes(data[:part])
            if part % 4096:
                fcntl.fcntl(self.file, fcntl.F_SETFL, fcntl.fcntl(self.file, fcntl.F_GETFL) & ~os.O_DIRECT)
        return self.file.write(data)


@needs_direct
@pytest.mark.parametrize("part", [0, 100, 4096 + 512])
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSPC])
def test_what_is_refused_past_the_page_cache_is_written_through_it(tmp_path, part, error):
    data = some(50_000)
    with opened(tmp_path / "a", "wb") as file:
        direct.write_large(Failing(file, part, error), data)
    assert (tmp_path / "a").read_bytes() == data.tobytes()


@needs_direct
def test_a_file_that_takes_nothing_past_the_page_cache_is_asked_once(tmp_path):
    class Idle(Failing):
        def write(self, data):
            if not fcntl.fcntl(self.file, fcntl.F_GETFL) & os.O_DIRECT:
                return self.file.write(data)
            assert self.part == 0, "it is asked again and again"
            self.part = 1
            return None

    with opened(tmp_path / "a", "wb") as file:
        direct.write_large(Idle(file, 0, 0), some(50_000))
    assert (tmp_path / "a").read_bytes() == some(50_000).tobytes()


def test_without_the_flag_files_are_written_as_others(tmp_path, monkeypatch):
    monkeypatch.setattr(direct, "_FLAG", 0)
    assert written(tmp_path / "a", some(50_000)) == some(50_000).tobytes()


@needs_direct
def test_a_full_disk_is_told():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    with full.open("wb", buffering=0) as file, pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        direct.write_large(file, some(50_000))


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 16385, 20480, 100_001])
@pytest.mark.parametrize("limit", [None, 0, 1, 4096, 8192, 12288])
def test_a_copy_begins_as_its_source_and_ends_where_it_says(tmp_path, monkeypatch, size, limit):
    (tmp_path / "a").write_bytes(some(size).tobytes())
    real = os.preadv
    if limit is not None:  # a source that was cut, as it were, while it is copied
        monkeypatch.setattr(os, "preadv", lambda fd, parts, at: real(fd, parts, at) if at < limit else 0)
    with (tmp_path / "a").open("rb") as source, opened(tmp_path / "b", "wb") as file:
        done = direct.copy_large(source.fileno(), file, size)
        assert file.tell() in (done, 0)
    assert (tmp_path / "b").read_bytes() == some(size).tobytes()[:done]


def test_a_file_system_with_larger_blocks_writes_and_copies_by_its_own_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(direct, "ALIGNMENT", 512)
    monkeypatch.setattr(direct, "_SHARE", 0)
    assert written(tmp_path / "a", some(50_000)) == some(50_000).tobytes()
    with (tmp_path / "a").open("rb") as source, opened(tmp_path / "b", "wb") as file:
        assert direct.copy_large(source.fileno(), file, 50_000) == 0
