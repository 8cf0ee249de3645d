"""Fields by their addresses: the order in which they are understood, and nothing that structure does not prove."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cfagg.errors import FragmentNotFoundError, OptionError, SourceNotFoundError
from cfagg.formats.pp.addresses import FieldAt, find_field, scan_fields
from cfagg.formats.pp.records import FORMS
from cfagg.formats.pp.values import read_stored
from cfagg.storage.files import Borrowed, Context
from tests.formats.pp.making import field, fields_file


def at(data: bytes, address: int, word_size: int | None = None) -> FieldAt:
    return find_field(Borrowed("a.pp", data), address, word_size=word_size)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", [1, 4, 8])
def test_headers_and_data_are_found_by_bytes_and_by_words(form, unit: int) -> None:  # type: ignore[no-untyped-def]
    size, order, marker = form.word_size, form.byteorder, form.marker_size
    data = b"".join(field(np.arange(6) + n, size, order, marker, LBYR=1900 + n) for n in range(4))
    one, header = len(data) // 4, 64 * size
    counted = "bytes" if unit == 1 else f"words of {unit} bytes"
    tried = 0
    for n in range(4):
        for begin, name in (
            (n * one, "the record of its header"),
            (n * one + 3 * marker + header, "its data"),
            (n * one + marker, "its header"),
        ):
            if begin % unit:
                continue
            tried += 1
            found = at(data, begin // unit, word_size=unit)
            assert found.fields["LBYR"].tolist() == [1900 + n]
            assert found.rule == f"address of {name} in {counted}"
            assert found.fields.data_offset[0] == n * one + 3 * marker + header
            if unit == 1:
                assert at(data, begin).rule == found.rule
    assert tried >= 4


@pytest.mark.parametrize("form", FORMS)
def test_no_other_address_is_that_of_a_field(form) -> None:  # type: ignore[no-untyped-def]
    data = field(size=form.word_size, order=form.byteorder, marker=form.marker_size)
    header, marker = form.header_size, form.marker_size
    places = {0, marker, header + 3 * marker}
    places |= {p // unit for p in places for unit in (4, 8) if p % unit == 0}
    for address in (*range(len(data) + 9), -1, 2**62, 2**63 - 1):
        if address in places:
            continue
        with pytest.raises(SourceNotFoundError, match=r"no field of a\.pp begins at the address"):
            at(data, address)


def test_bytes_are_tried_before_words_and_the_user_may_decide() -> None:
    # Byte 74 * 4 = 296 begins the second field, and words 74 * 8 = 592 the third.
    data = b"".join(field(LBYR=1900 + n) for n in range(4))
    assert at(data, 74).fields["LBYR"][0] == 1901
    assert at(data, 74).rule.endswith("in words of 4 bytes")
    assert at(data, 74, word_size=8).fields["LBYR"][0] == 1902
    assert at(data, 296).fields["LBYR"][0] == 1901
    with pytest.raises(SourceNotFoundError, match=r"the address 74, counted in 1 bytes; correct it or word_size="):
        at(data, 74, word_size=1)


def test_a_control_word_in_the_data_is_no_header() -> None:
    fake = struct.pack(">I", 256) + bytes(252)
    data = field(fake)
    with pytest.raises(SourceNotFoundError):
        at(data, 268 + 0 * len(fake) + 1)
    assert at(data, 268).rule == "address of its data in bytes"


def test_a_word_size_that_there_is_not_is_refused() -> None:
    with pytest.raises(OptionError, match="word_size=2: expected 1, 4 or 8"):
        at(field(), 0, word_size=2)


def test_the_error_is_that_of_the_partition() -> None:
    with pytest.raises(
        FragmentNotFoundError,
        match=r"^partition 3: no field of a\.pp begins at the address 17, counted in 1 or 4 or 8 bytes",
    ):
        find_field(Borrowed("a.pp", field()), 17, Context("partition 3"))


def test_fields_of_fields_files_are_found_by_their_entry_or_their_data() -> None:
    raw = [(np.arange(6.0) + n).astype(">f8").tobytes() for n in range(3)]
    handle = Borrowed("a.ff", fields_file([({}, r) for r in raw]))
    fields = scan_fields(handle)
    for n in range(3):
        for column, name in ((fields.header_offset, "its header"), (fields.data_offset, "its data")):
            for unit, counted in ((1, "bytes"), (8, "words of 8 bytes")):
                found = find_field(handle, int(column[n]) // unit)
                assert found.rule == f"address of {name} in {counted}"
                assert read_stored(handle, found.fields, 0)[0, 0] == n
    for address in (0, 1, 2049, 2**63 - 1):
        with pytest.raises(SourceNotFoundError, match=r"no field of a\.ff"):
            find_field(handle, address)
