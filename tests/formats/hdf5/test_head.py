"""Headers that are remembered for files with the same bytes: never what another file says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.formats.hdf5 import attributes
from cfagg.formats.hdf5 import head as module
from cfagg.formats.hdf5 import variables as hdf5_header
from cfagg.formats.hdf5.space import BrokenError, TooManyError
from cfagg.formats.values import locate, read
from cfagg.storage.files import CONTEXT_SOURCE, Borrowed, open_regular


def _write(path, attributes, value=1.0, **storage):
    with netCDF4.Dataset(path, "w") as d:
        d.history = attributes.get("history", "")
        for name, n in (("time", 1), ("lat", 16), ("lon", 32)):
            d.createDimension(name, n)
        v = d.createVariable("tas", "f4", ("time", "lat", "lon"), **storage)
        v.setncatts({"units": "K", **attributes})
        v[:] = value + np.arange(512, dtype="f4").reshape(1, 16, 32)
    return str(path)


def _found(path, first=2**13):
    with open_regular(path) as handle:
        return hdf5_header.find(handle, handle.some(first, 0), "tas")


def test_a_copy_under_another_name_has_the_same_header_but_its_own_name(tmp_path):
    first = _write(tmp_path / "a.nc", {})
    second = str(shutil.copy(first, tmp_path / "b.nc"))
    one, other = _found(first), _found(second)
    # It was remembered, and still is about the file that was asked for.
    assert other.header.attributes is one.header.attributes
    assert other.header.file == other.key.path == second


@pytest.mark.parametrize("first", [2**13, 2**7])
@pytest.mark.parametrize("storage", [{}, {"compression": "zlib", "chunksizes": (1, 16, 32)}])
def test_files_of_a_series_are_parsed_once_whatever_their_lengths(tmp_path, storage, first, monkeypatch):
    module.forget()
    parsed = []
    variable = hdf5_header._File.variable
    monkeypatch.setattr(hdf5_header._File, "variable", lambda *args: (parsed.append(1), variable(*args))[1])
    # Values of more digits deflate to more bytes.
    paths = [_write(tmp_path / f"{n}.nc", {}, value=n * 1.1, **storage) for n in range(5)]
    assert all(_found(path, first) is not None for path in paths)
    assert (len({Path(path).stat().st_size for path in paths}) > 1) is bool(storage)
    assert len(parsed) == 1
    module.forget()


def test_what_was_forgotten_is_parsed_anew(tmp_path):
    path = _write(tmp_path / "a.nc", {})
    one = _found(path)
    assert _found(path).header.attributes is one.header.attributes
    module.forget()
    attributes.forget()
    again = _found(path)
    assert again.header.attributes is not one.header.attributes
    assert _found(path).header.attributes is again.header.attributes


class Counted:
    """A file of some bytes, of which parsers take the first."""

    def __init__(self, head, places=(slice(0, 1),)):
        self.head, self.places, self.noting = head, places, False

    def record(self):
        self.noting = True

    def take(self, places):
        assert list(places) == list(self.places)

    def recorded(self, before):
        assert before is None
        assert self.noting
        self.noting = False
        return self.places


def test_a_few_answers_to_a_question_and_so_many_questions_are_remembered(monkeypatch):
    module.forget()
    monkeypatch.setattr(module, "_QUESTIONS", 3)
    parsed = []

    def ask(question, head, places=(slice(0, 1),)):
        return module.remembered(question, Counted(head, places), lambda: (parsed.append(head), head)[1])

    for head in (b"a", b"b", b"c", b"d", b"a", b"d"):
        assert ask("q", head) == head
    assert parsed == [b"a", b"b", b"c", b"d"]
    assert ask("q", b"e") == b"e"
    assert ask("q", b"b") == b"b"
    # The oldest answer went, and then came back.
    assert ask("q", b"a") == b"a"
    assert parsed == [b"a", b"b", b"c", b"d", b"e", b"a"]
    for question in "rst":
        ask(question, b"x")
    assert len(module._known) == 3
    assert "q" not in module._known
    module.forget()


def test_every_byte_that_was_taken_has_to_be_the_same():
    module.forget()
    places = (slice(0, 2), slice(4, 6))
    parsed = []
    for head in (b"abcdef", b"abXXef", b"Xbcdef", b"abcdXf", b"abcdef"):
        module.remembered("q", Counted(head, places), lambda head=head: parsed.append(head))
    assert parsed == [b"abcdef", b"Xbcdef", b"abcdXf"]
    module.forget()


@pytest.mark.parametrize("first", [100, 15, 1])
@pytest.mark.parametrize("changed", [0, 10, 20])
def test_what_a_question_within_a_question_took_is_taken_by_both(tmp_path, changed, first):
    module.forget()

    def ask(raw):
        file = module.Head(Borrowed("a", raw), raw[:first])

        def outer():
            return file[0:2], module.remembered("inner", file, lambda: file[10:12]), file[20:22]

        return module.remembered("outer", file, outer)

    raw = bytes(range(100))
    other = raw[:changed] + b"X" + raw[changed + 1 :]
    # Of a third file with other bytes in front, only the question within is answered from memory.
    for one in (raw, other, raw, b"Y" + raw[1:], b"Y" + other[1:]):
        assert ask(one) == (one[0:2], one[10:12], one[20:22])
    module.forget()


@pytest.mark.parametrize(("size", "times"), [(100, 1), (2**14, 1), (2**14 + 1, 2)])
def test_what_depends_on_many_bytes_further_behind_is_not_remembered(size, times):
    module.forget()
    parsed, raw = [], bytes(2**15)
    for _ in range(2):
        file = module.Head(Borrowed("a", raw), raw[:10])
        module.remembered("q", file, lambda file=file: parsed.append(file[20 : 20 + size]))
    assert parsed == [bytes(size)] * times
    module.forget()


def test_bytes_where_an_earlier_file_ended_are_taken_too():
    module.forget()
    for raw in (bytes(30), bytes(40), bytes(25), bytes(40)):
        file = module.Head(Borrowed("a", raw), raw[:10])
        assert module.remembered("q", file, lambda file=file: (file[20:36], file[33:36])) == (raw[20:36], raw[33:36])
    module.forget()


@pytest.mark.parametrize("attributes", [{"units": "C"}, {"units": "mm"}, {"scale_factor": 2.0}, {"history": "other"}])
def test_a_file_with_other_attributes_is_read_anew(tmp_path, attributes):
    _found(_write(tmp_path / "a.nc", {}))
    path = _write(tmp_path / "b.nc", attributes)
    with netCDF4.Dataset(path) as d:
        expected = {k: d["tas"].getncattr(k) for k in d["tas"].ncattrs()}
    assert dict(_found(path).header.attributes) == expected


@pytest.mark.parametrize("first", [2**13, 2**7])
def test_any_changed_byte_gives_what_is_found_without_memory(tmp_path, first):
    path = _write(tmp_path / "a.nc", {"long_name": "temperature"}, zlib=True)
    whole = bytearray((tmp_path / "a.nc").read_bytes())
    broken = tmp_path / "b.nc"
    for at in range(0, min(len(whole), 2**13), 31):
        changed = whole.copy()
        changed[at] ^= 0x55
        broken.write_bytes(changed)
        _found(path, first)
        remembered = repr(_found(str(broken), first))
        module.forget()
        # The two openings are at different times.
        assert remembered == repr(_found(str(broken), first)), at


def test_a_file_that_ends_before_its_header_says_is_left_to_the_library(tmp_path):
    path = _write(tmp_path / "a.nc", {})
    assert _found(path) is not None
    whole = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "b.nc").write_bytes(whole[:-1])
    assert _found(str(tmp_path / "b.nc")) is None


@pytest.mark.parametrize(
    "storage", [{"zlib": True}, {"zlib": True, "fletcher32": True}, {"zlib": True, "endian": "big"}]
)
@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_few_elements_of_a_shuffled_chunk_are_those_of_h5py(tmp_path, storage, step):
    path = _write(tmp_path / "a.nc", {}, value=np.pi, shuffle=True, **storage)
    slices = (slice(0, 1, 1), slice(3, 9, step), slice(7, 11, step))
    values = read(locate(path, "tas", CONTEXT_SOURCE), slices, CONTEXT_SOURCE)
    with h5py.File(path) as f:
        assert values.tolist() == f["tas"][slices].tolist()


@pytest.fixture
def numbered(tmp_path):
    """An open file of 2**16 bytes, of which no two blocks are alike."""
    (tmp_path / "a").write_bytes(np.arange(2**14, dtype="<u4").tobytes())
    with open_regular(str(tmp_path / "a")) as handle:
        yield handle, (tmp_path / "a").read_bytes()


@pytest.mark.parametrize("remote", [False, True])
def test_bytes_are_those_of_the_file_wherever_they_come_from(numbered, remote):
    handle, raw = numbered
    file = module.Head(Borrowed("a", raw) if remote else handle, raw[:100])
    assert len(file) == 2**16
    for at, end in ((0, 8), (90, 100), (96, 104), (5000, 5004), (5004, 9000), (65530, 65536), (65530, 70000), (40, 30)):
        assert file[at:end] == raw[at:end]
    assert file[2**16 : 2**17] == file[2**64 - 1 : 2**64 + 7] == b""


def test_no_more_bytes_and_requests_are_spent_on_a_header_than_a_bounded_number(numbered, monkeypatch):
    handle, raw = numbered
    monkeypatch.setattr(module, "_LONGEST", 100)
    with pytest.raises(TooManyError):
        module.Head(handle)[0:101]
    for limit, most in (("_REQUESTS", 5), ("_BYTES", 5 * 2**10)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, most)
            file = module.Head(handle)
            for k in [*range(5), 3, 0]:  # what was read is not asked for again
                assert file[2**11 * k : 2**11 * k + 100] == raw[2**11 * k : 2**11 * k + 100]
            with pytest.raises(TooManyError):
                file[2**11 * 5 : 2**11 * 5 + 100]


def test_a_file_that_was_cut_off_since_is_broken(numbered, tmp_path):
    handle, _ = numbered
    os.truncate(tmp_path / "a", 2**15)
    with pytest.raises(BrokenError):
        module.Head(handle)[2**15 : 2**15 + 8]
