"""Reading many files by compiled code: what Python's own reading says."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numcodecs import Zstd

from cfagg.formats import fastzlib, fastzstd
from cfagg.formats.zarr import batches
from cfagg.formats.zarr.codecs import decoder
from cfagg.kernels import files
from cfagg.kernels.files import MISSING, ODD, READ, can_read_files, read_files

pytestmark = pytest.mark.skipif(not can_read_files(), reason="files can be read this way on Linux only")


@pytest.fixture
def within(tmp_path: Path) -> Iterator[int]:
    folder = os.open(tmp_path, os.O_RDONLY)
    yield folder
    os.close(folder)


def places(sizes: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return memory for files of these sizes, and their places in it."""
    starts = np.cumsum([0, *sizes])
    return np.full(starts[-1], 255, np.uint8), starts[:-1], np.array(sizes)


def test_files_go_to_their_places_and_all_else_is_told(tmp_path: Path, within: int) -> None:
    contents = {"a": b"abc", "ö": b"defg", "long": b"too long", "short": b"s", "empty": b""}
    for name, raw in contents.items():
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("a")
    expected = {"a": READ, "none": MISSING, "ö": READ, "long": ODD, "short": ODD, "empty": ODD,
                "folder": ODD, "fifo": ODD, "link": ODD}  # fmt: skip
    memory, starts, sizes = places([4 if name == "ö" else 3 for name in expected])
    assert read_files(within, list(expected), memory, starts, sizes).tolist() == list(expected.values())
    assert bytes(memory[:3]) == b"abc"
    assert bytes(memory[6:10]) == b"defg"
    assert read_files(within, ["a/x", "folder/x"], memory, starts[:2], sizes[:2]).tolist() == [ODD, MISSING]


def test_no_file_stays_open(tmp_path: Path, within: int) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"other")
    memory, starts, sizes = places([3] * 3)
    before = len(list(Path("/dev/fd").iterdir()))
    read_files(within, ["a", "b", "c"], memory, starts, sizes)
    assert len(list(Path("/dev/fd").iterdir())) <= before


def test_files_are_unpacked_by_the_function_given(tmp_path: Path, within: int) -> None:
    unpack = fastzstd.addresses()
    if unpack is None:
        pytest.skip("numcodecs was built in another way")
    raw = bytes(range(200)) * 5
    for name, stored in {"good": raw, "longer": raw + b"x", "shorter": raw[:-1]}.items():
        (tmp_path / name).write_bytes(Zstd().encode(stored))
    (tmp_path / "cut").write_bytes(bytes(Zstd().encode(raw))[:-3])
    (tmp_path / "large").write_bytes(bytes(Zstd().encode(raw)) + b"\x50\x2a\x4d\x18\x00\x10\x00\x00" + bytes(4096))
    names = ["good", "longer", "shorter", "cut", "large", "none"]
    memory, starts, sizes = places([1000] * 6)
    found = read_files(within, names, memory, starts, sizes, unpack, largest=2000)
    assert found.tolist() == [READ, ODD, ODD, ODD, ODD, MISSING]
    assert bytes(memory[:1000]) == raw
    assert read_files(within, names, memory, starts, sizes, unpack, largest=9000)[4] == READ


def test_files_are_inflated_as_python_does(tmp_path: Path, within: int) -> None:
    unpack = fastzlib.addresses()
    if unpack is None:
        pytest.skip("needs libdeflate")
    raw = bytes(range(200)) * 5
    packed, zipped = zlib.compress(raw), gzip.compress(raw)
    head = zipped[:3] + b"\x02" + zipped[4:10]
    with_checksum = head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + zipped[10:]
    assert gzip.decompress(with_checksum) == raw
    files = {
        "zlib": (packed, READ),
        "gzip": (zipped, READ),
        "wrong, of the same size": (zipped[:-5] + bytes([zipped[-5] ^ 1]) + zipped[-4:], ODD),
        "longer": (zlib.compress(raw + b"x"), ODD),
        "shorter": (zlib.compress(raw[:-1]), ODD),
        "cut": (packed[:-1], ODD),
        "wrong": (packed[:-1] + b"\0", ODD),
        "followed": (packed + b"x", ODD),
        "members": (gzip.compress(raw[:500]) + gzip.compress(raw[500:]), ODD),
        "checksum": (with_checksum, ODD),
        "head": (zipped[:3], ODD),
        "large": (packed + bytes(4096), ODD),
        "empty": (b"", ODD),
    }
    for name, (stored, _) in files.items():
        (tmp_path / name).write_bytes(stored)
    memory, starts, sizes = places([1000] * len(files))
    found = read_files(within, list(files), memory, starts, sizes, unpack, largest=2000)
    assert found.tolist() == [expected for _, expected in files.values()]
    assert bytes(memory[:2000]) == raw * 2
    assert read_files(within, ["zlib"], memory, starts[:1], sizes[:1] * 0, unpack, largest=2000).tolist() == [ODD]


def test_nothing_is_written_beyond_the_memory(tmp_path: Path, within: int) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    memory, starts, sizes = places([3, 3])
    with pytest.raises(ValueError, match="the memory must hold"):
        read_files(within, ["a", "a"], memory[:5], starts, sizes)
    with pytest.raises(ValueError, match="NUL"):
        read_files(within, ["a\0b", "a"], memory, starts, sizes)
    assert read_files(within, [], memory, starts[:0], sizes[:0]).tolist() == []


@pytest.mark.parametrize(
    ("starts", "sizes"), [([-4], [4]), ([4], [-4]), ([0, 4], [4]), ([0], [4, 4]), ([2**63 - 4], [8])]
)
def test_places_that_are_none_are_refused(within: int, starts: list[int], sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="the memory must hold"):
        read_files(within, ["a"], np.zeros(8, np.uint8), np.array(starts), np.array(sizes))


def test_results_are_called_the_same_where_they_are_used() -> None:
    assert (batches.READ, batches.MISSING, batches.ODD) == (READ, MISSING, ODD)


def test_machines_on_which_functions_of_c_are_called_in_other_ways_read_by_python(monkeypatch) -> None:
    assert files._system.__wrapped__() is not None
    monkeypatch.setattr("platform.machine", lambda: "ppc64le")
    assert files._system.__wrapped__() is None


@pytest.mark.parametrize(
    ("codecs", "expected"),
    [
        ([], True),
        (["zstd"], True),
        (["gzip"], fastzlib.addresses() is not None),
        (["zstd"] * 2, False),
        (["lz4"], False),
    ],
)
def test_compiled_code_is_loaded_for_chunks_alone_that_it_unpacks(codecs: list[str], expected: bool) -> None:
    made = decoder(
        {"shape": [1], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *codecs]}, 3, np.dtype("f4")
    )
    assert batches.worth_compiling(made, 10**6) is expected
