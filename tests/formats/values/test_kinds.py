"""What is taken for netCDF by mistake."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile

import numcodecs
import pytest

from cfagg.formats.values.kinds import kind


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a", "b")
    return file.getvalue()


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (gzip.compress(b"x", mtime=0), "compressed with gzip"),
        (bz2.compress(b"x"), "compressed with bzip2"),
        (lzma.compress(b"x"), "compressed with xz"),
        (bytes(numcodecs.Zstd().encode(b"x")), "compressed with Zstandard"),
        (zipped(), "a ZIP archive"),
        (b"GRIB", "GRIB"),
        (b"BUFR", "BUFR"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS: fetch the file itself"),
    ],
)
def test_files_of_other_kinds_are_known_by_their_first_bytes(head, name):
    assert kind(head) == name
    assert kind(head[:8]) == (name if len(name) < 40 else None)


@pytest.mark.parametrize(("order", "name"), [(">", "big"), ("<", "little")])
@pytest.mark.parametrize(("marker", "word"), [(256, 4), (512, 8)])
@pytest.mark.parametrize(
    ("year", "known"),
    [(2000, True), (0, True), (9999, True), (10_000, False), (-1, True), (-32768, True), (-32769, False)],
)
def test_pp_is_a_record_of_64_words_that_begins_with_a_year(order, name, marker, word, year, known):
    head = struct.pack(f"{order}Ii", marker, year)
    assert kind(head) == (f"PP, {name}-endian with words of {word} bytes" if known else None)
    assert kind(head + b"\xff" * 8) == kind(head)
    assert kind(head[:7]) is None


@pytest.mark.parametrize("marker", [0, 4, 255, 257, 511, 1024])
def test_records_of_other_lengths_are_no_pp(marker):
    assert kind(struct.pack(">Ii", marker, 2000)) is None


@pytest.mark.parametrize("head", [b"", b"CDF\1", b"\x89HDF\r\n\x1a\n", b"PK", b"GRI"])
def test_of_others_nothing_is_said(head):
    assert kind(head) is None
