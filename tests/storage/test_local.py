"""Stores in directories of this machine."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from cfagg.errors import CfaggError, FragmentReadError, LimitError, SourceError, StaleError
from cfagg.storage import local as module
from cfagg.storage.local import LocalSource
from cfagg.storage.places import make_source
from cfagg.storage.store import Source


def open_files() -> int:
    """Open files of this process, where the system lists them."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.exists() else 0


@pytest.fixture
def source(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.0").write_bytes(bytes(range(100)))
    return LocalSource(tmp_path)


def test_a_directory_is_a_source(source):
    assert isinstance(source, Source)
    assert not source.remote


def test_bytes_are_read_whole_and_in_ranges(source):
    assert source.read("data/0.0") == bytes(range(100))
    assert source.read_range("data/0.0", 90, 20) == bytes(range(90, 100))
    assert source.read_ranges("data/0.0", [(0, 2), (50, 1)]) == [b"\0\1", b"\x32"]
    assert source.size("data/0.0") == 100
    assert source.sizes("data", ["0.0", "1.0"]) == [100, None]


def test_what_is_not_there_is_none_or_told(source):
    assert source.read("data/1.0") is None
    assert source.read("data/0.0/x") is None
    assert source.size("data/1.0") is None
    with pytest.raises(FragmentReadError, match=r"data/1\.0"):
        source.read_range("data/1.0", 0, 1)


@pytest.mark.parametrize(
    "key", ["../x", "data/../x", "/etc/passwd", "", "data//0.0", "data/\0", "data\\0", "./x", "x/"]
)
def test_a_key_that_leads_elsewhere_is_refused(source, key):
    for read in (source.read, source.size, lambda k: source.read_range(k, 0, 1)):
        with pytest.raises(SourceError, match="not a key"):
            read(key)


@pytest.mark.parametrize("name", ["", "/no/such/place", "a.zarr"])
def test_a_directory_that_is_not_there_is_told(name):
    with pytest.raises(SourceError, match="no such directory"):
        make_source(name)


def test_a_file_is_no_store(tmp_path):
    path = tmp_path / "a.zarr"
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="it is a file"):
        make_source(path)


def test_a_directory_takes_no_options(tmp_path):
    with pytest.raises(SourceError, match=r"for which there are no options.*region"):
        make_source(tmp_path, {"region": "eu"})


@pytest.mark.parametrize("url", ["ftp://a.org/x.zarr", "gopher://a/x", "file:///data/x.zarr"])
def test_a_url_of_another_kind_is_told(url):
    with pytest.raises(SourceError, match="is not a URL of a store"):
        make_source(url)


def test_few_files_are_open_at_a_time(tmp_path):
    for i in range(200):
        (tmp_path / str(i)).write_bytes(b"x")
    source = LocalSource(tmp_path)
    before = open_files()
    for i in range(200):
        assert source.read_range(str(i), 0, 1) == b"x"
    after = open_files()
    assert after - before <= 64


def test_a_source_pickles(source):
    source.read_range("data/0.0", 0, 1)
    assert pickle.loads(pickle.dumps(source)).read_range("data/0.0", 5, 1) == b"\5"


def test_a_relative_path_stays_the_same_place(tmp_path, monkeypatch):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x").write_bytes(b"1")
    monkeypatch.chdir(tmp_path)
    source = make_source("s")
    monkeypatch.chdir("/")
    assert source.read("x") == b"1"


def test_a_document_that_is_too_large_is_told(source, monkeypatch):
    monkeypatch.setattr(module, "MAX_OBJECT", 99)
    with pytest.raises(LimitError, match="more than 99 bytes"):
        source.read("data/0.0")


def test_a_directory_in_place_of_a_file_is_told(source, tmp_path):
    (tmp_path / "data" / "1.0").mkdir()
    with pytest.raises(CfaggError, match=r"data/1\.0 cannot be read"):
        source.read("data/1.0")
    with pytest.raises(CfaggError, match=r"data/1\.0 cannot be read"):
        source.read_range("data/1.0", 0, 1)


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("read", [lambda s: s.read("data/1.0"), lambda s: s.read_range("data/1.0", 0, 1)])
def test_files_of_a_store_that_took_the_place_of_this_one_are_not_read(tmp_path, read, other):
    for name in ("a", "b"):
        (tmp_path / name / "data").mkdir(parents=True)
        for i in range(2):
            (tmp_path / name / "data" / f"{i}.0").write_bytes(b"x")
    source = LocalSource(tmp_path / "a")
    assert source.read_range("data/0.0", 0, 1) == b"x"
    shutil.rmtree(tmp_path / "a")
    if other:
        (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(StaleError, match="a has been replaced or removed since it was opened"):
        read(source)
    assert source.read_range("data/0.0", 0, 1) == b"x"


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_a_file_that_is_written_while_the_store_is_open_is_told(source, tmp_path, how):
    path = tmp_path / "data" / "0.0"
    source.read_range("data/0.0", 0, 10)
    if how == "in place":
        path.write_bytes(bytes(99))
    else:
        (tmp_path / "new").write_bytes(bytes(100))
        (tmp_path / "new").replace(path)
        # What was open is still there, whole, until it is closed because many others are read.
        assert source.read_range("data/0.0", 1, 1) == b"\1"
        for i in range(70):
            (tmp_path / str(i)).write_bytes(b"x")
            source.read_range(str(i), 0, 1)
    with pytest.raises(StaleError, match="written since the store was opened"):
        source.read_range("data/0.0", 0, 10)
