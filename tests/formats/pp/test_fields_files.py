"""Fields files: the table of headers, where data are, and nothing beyond the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfagg.errors import CfaggError, LimitError, SourceError
from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.fields_files import lookup_form, scan_lookup
from cfagg.formats.pp.values import read_stored
from cfagg.storage.files import Borrowed
from tests.formats.pp.making import field, fields_file

SIX = np.arange(6.0)


def values(data: bytes) -> list[Any]:
    handle = Borrowed("a.ff", data)
    fields = scan_fields(handle)
    return [read_stored(handle, fields, i).ravel().tolist() for i in range(len(fields))]


def raw(n: int, size: int, order: str) -> bytes:
    return (SIX + n).astype(f"{order}f{size}").tobytes()


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("entry", [64, 128])
@pytest.mark.parametrize("placed", [True, False])
def test_words_of_either_width_and_order(size: int, order: str, entry: int, placed: bool) -> None:
    data = fields_file(
        [({"LBYR": 1900 + n}, raw(n, size, order)) for n in range(3)], size, order, entry=entry, placed=placed
    )
    fields = scan_fields(Borrowed("a.ff", data))
    assert (fields.word_size, fields.byteorder, fields.marker_size) == (size, order, 0)
    assert fields["LBYR"].tolist() == [1900, 1901, 1902]
    assert fields.header_offset.tolist() == [(256 + n * entry) * size for n in range(3)]
    assert values(data) == [(SIX + n).tolist() for n in range(3)]


@pytest.mark.few(2)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("placed", [True, False])
def test_packed_fields_take_as_many_bytes_as_they_are_stored_in(order: str, placed: bool) -> None:
    short = SIX.astype(f"{order}f4").tobytes()
    wgdos = np.array([8, 0, 3 << 16 | 2, 0x41100000, 0, 0x41200000, 0, 0], ">u4")
    stored = wgdos.tobytes() if order == ">" else wgdos.view(">u8").byteswap().tobytes()
    data = fields_file(
        [({"LBPACK": 2}, short), ({"LBPACK": 1}, stored), ({}, raw(0, 8, order))], 8, order, placed=placed
    )
    assert values(data) == [SIX.tolist(), [1, 1, 1, 2, 2, 2], SIX.tolist()]


def test_integers_and_points_of_a_mask_are_read_as_in_pp_files() -> None:
    land = np.array([[True, False, True], [False, False, True]])
    data = fields_file(
        [({"LBUSER1": 3}, land.astype(">i8").tobytes()), ({"LBPACK": 120}, np.array([7, 8, 9.0], ">f8").tobytes())]
    )
    handle = Borrowed("a.ff", data)
    fields = scan_fields(handle)
    mask = read_stored(handle, fields, 0)
    assert mask.dtype == np.int64
    found = read_stored(handle, fields, 1, land=mask != 0)
    assert found[land].tolist() == [7, 8, 9]
    assert (found[~land] == -1e30).all()


def test_entries_that_are_not_used_are_no_fields() -> None:
    assert values(fields_file([({}, raw(0, 8, ">"))], entries=50)) == [SIX.tolist()]
    assert values(fields_file([], entries=5)) == []
    assert values(fields_file([], entries=0)) == []


def test_the_last_sector_of_packed_data_may_end_with_the_file() -> None:
    short = SIX.astype(">f4").tobytes()
    assert values(fields_file([({"LBPACK": 2, "LBNREC": 512}, short)])) == [SIX.tolist()]


def test_neither_pp_nor_netcdf_is_a_fields_file() -> None:
    for size in (4, 8):
        for order in "<>":
            assert lookup_form(field(np.arange(600), size, order)) is None
    assert lookup_form(b"CDF\x01" + bytes(4092)) is None
    assert lookup_form(b"\x89HDF\r\n\x1a\n" + bytes(4088)) is None
    assert lookup_form(fields_file([])[:1000]) is None


def test_another_file_has_no_table() -> None:
    with pytest.raises(SourceError, match=r"a\.pp is not a fields file"):
        scan_lookup(Borrowed("a.pp", field()))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"LBEGIN": 2**40}, "field 1 with 48 bytes at byte 8,796,093,022,208"),
        ({"LBEGIN": -1}, "field 1 with 48 bytes at byte -8"),
        ({"LBLREC": 7}, "field 1 with 56 bytes at byte"),
        ({"LBLREC": -1}, "field 1 with -1 bytes"),
        ({"LBLREC": 2**62}, "field 1 with 2,251,799,813,685,248|field 1 with 4,398,046,511,104 bytes"),
        ({"LBEGIN": 2**62, "LBLREC": 2**62, "LBPACK": 1, "LBNREC": 2**62}, "field 1 with 4,398,046,511,104 bytes"),
    ],
)
def test_data_outside_the_file_are_an_error(change: dict[str, int], text: str) -> None:
    data = fields_file([({}, raw(0, 8, ">")), (change, raw(1, 8, ">"))])
    with pytest.raises(SourceError, match=f"a.ff is a damaged or truncated fields file: it has ({text})"):
        scan_fields(Borrowed("a.ff", data))


def test_a_table_that_ends_behind_the_file_is_an_error() -> None:
    data = fields_file([({}, raw(0, 8, ">"))])
    with pytest.raises(SourceError, match="a table of 2 fields at byte 2,048, beyond the end of the file"):
        scan_fields(Borrowed("a.ff", data[:3000]))


def test_a_table_of_too_many_fields_is_refused(tmp_path: Path) -> None:
    from cfagg.storage.files import open_regular

    path = tmp_path / "sparse.ff"
    head = np.frombuffer(fields_file([]), ">i8", 256).copy()
    head[151] = 2**24
    with path.open("wb") as file:
        file.write(head.tobytes())
        file.truncate(2**34)
    with open_regular(str(path)) as handle, pytest.raises(LimitError, match="has more than 1,048,576 fields"):
        scan_fields(handle)


@pytest.mark.parametrize("size", [4, 8])
def test_wherever_the_header_is_damaged_an_error_of_ours_says_so(size: int) -> None:
    whole = fields_file([({}, raw(n, size, "<")) for n in range(2)], size, "<")
    refused = 0
    for at in (1, 4, 149, 150, 151, 159):
        for number in (0, 1, -1, 2**31 - 1, -(2**31), 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1))):
            data = bytearray(whole)
            data[at * size : (at + 1) * size] = np.array([number], f"<i{size}").tobytes()
            try:
                values(bytes(data))
            except CfaggError:
                refused += 1
    assert refused > 20
