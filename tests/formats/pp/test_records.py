"""Fields of PP files: every way of storing words, and nothing that the records do not prove."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from cfagg.errors import FragmentReadError, LimitError, ModelError, SourceError
from cfagg.formats.pp import records
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.records import FORMS, form_of, scan_records
from cfagg.storage.files import CONTEXT_SOURCE, Borrowed, Context, open_regular
from tests.formats.pp.making import field, words

SAMPLES = Path(__file__).parents[3] / "sample_data" / "pp"


def scanned(data: bytes) -> Fields:
    return scan_records(Borrowed("a.pp", data))


@pytest.mark.parametrize("form", FORMS)
def test_words_of_either_width_and_order_are_found_by_the_first_record(form) -> None:  # type: ignore[no-untyped-def]
    size, order, marker = form.word_size, form.byteorder, form.marker_size
    data = field(size=size, order=order, marker=marker) + field(np.arange(6) * 1.5, size, order, marker, LBYR=1850)
    found = scanned(data)
    assert (found.word_size, found.byteorder, found.marker_size) == (size, order, marker)
    assert found["LBYR"].tolist() == [2001, 1850]
    assert found["BDX"].tolist() == [120, 120]
    for n in range(2):
        begin, length = int(found.data_offset[n]), int(found.data_length[n])
        stored = np.frombuffer(data[begin : begin + length], f"{order}f{size}")
        assert stored.tolist() == ([1, 2, 3, 4, 5, 6] if n == 0 else [0, 1.5, 3, 4.5, 6, 7.5])
        at = int(found.header_offset[n])
        assert struct.unpack_from(f"{order}{'i' if size == 4 else 'q'}", data, at)[0] == found["LBYR"][n]


@pytest.mark.parametrize(
    ("name", "fields", "order", "words_of_data"),
    [
        ("air_temp.pp", 1, ">", 7008),
        ("extra_data.pp", 1, ">", 444),
        ("umfile.pp", 3, "<", 7008),
        ("wgdos_73x96_le.pp", 1, "<", 3294),
        ("wind_speed_lake_victoria.pp", 2, ">", 238),
    ],
)
def test_the_samples_have_the_fields_that_their_makers_say(
    name: str, fields: int, order: str, words_of_data: int
) -> None:
    with open_regular(str(SAMPLES / name)) as handle:
        found = scan_records(handle)
    assert (len(found), found.byteorder, found.word_size, found.marker_size) == (fields, order, 4, 4)
    assert found["LBLREC"].tolist() == [words_of_data] * fields
    assert (found.data_length == 4 * found["LBLREC"]).all()


@pytest.mark.parametrize("form", FORMS)
def test_wherever_a_file_is_cut_off_an_error_of_ours_says_so(form) -> None:  # type: ignore[no-untyped-def]
    one = field(size=form.word_size, order=form.byteorder, marker=form.marker_size)
    for size in range(len(one) * 2):
        if size == len(one):
            continue
        with pytest.raises(SourceError, match=r"is not a PP file|damaged or truncated"):
            scanned((one + one)[:size])


@pytest.mark.parametrize("at", [0, 260, 264, 292, 296, 556, 560, 588])
def test_a_marker_that_does_not_agree_is_an_error(at: int) -> None:
    data = bytearray(field() * 2)
    for value in (0, 1, 23, 25, 255, 2**31, 2**32 - 1):
        struct.pack_into(">I", data, at, value)
        with pytest.raises(SourceError, match=r"is not a PP file|damaged or truncated"):
            scanned(bytes(data))


def test_the_error_names_file_field_and_byte_and_is_of_the_context() -> None:
    with pytest.raises(
        FragmentReadError, match=r"^partition 3: a\.pp is damaged or truncated PP: field 1 at byte 296 has "
    ):
        scan_records(Borrowed("a.pp", field() + field()[:-1]), Context("partition 3"))


def test_bytes_after_the_last_field_are_refused_with_how_to_cut_them_off() -> None:
    two = field() + field()
    with pytest.raises(SourceError, match=rf"the last 1 bytes after its 2 whole fields, .* truncate -s {len(two)}$"):
        scanned(two + b"\n")


def test_each_field_takes_one_request_and_no_byte_of_data_is_read() -> None:
    class Counted(Borrowed):
        __slots__ = ("asked",)

        def some(self, size: int, offset: int, context: Context = CONTEXT_SOURCE) -> bytes:
            self.asked.append(size)
            return super().some(size, offset, context)

    one = field(np.zeros(1000))
    for n in (50, 100):
        handle = Counted("a.pp", one * n)
        handle.asked = []
        assert len(scan_records(handle)) == n
        assert len(handle.asked) == n + 2
        assert sum(handle.asked) < 280 * (n + 4)


def test_a_file_of_too_many_fields_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_FIELDS", 2)
    assert len(scanned(field() * 2)) == 2
    with pytest.raises(LimitError, match=r"a\.pp has more than 2 fields"):
        scanned(field() * 3)


def test_a_record_of_no_data_is_a_field() -> None:
    assert scanned(field(b"") + field()).data_length.tolist() == [0, 24]


def test_a_header_is_no_form_without_its_second_marker() -> None:
    assert form_of(struct.pack(">I", 256) + words()) is None


def test_columns_of_other_lengths_are_no_fields() -> None:
    whole = scanned(field() * 2)
    columns = [getattr(whole, n) for n in ("integers", "reals", "header_offset", "data_offset")]
    with pytest.raises(ModelError, match=r"data_length.*\(1,\), expected \(2,\)"):
        Fields(*columns, whole.data_length[:1], 4, ">", 4)


def test_some_of_the_fields_can_be_taken() -> None:
    whole = scanned(b"".join(field(LBYR=1900 + n) for n in range(4)))
    assert whole.take(slice(1, 3))["LBYR"].tolist() == [1901, 1902]
    assert whole.take(whole["LBYR"] > 1902).header_offset.tolist() == [3 * 296 + 4]
