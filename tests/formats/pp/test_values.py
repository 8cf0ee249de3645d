"""Values of fields in each packing, against NumPy and against what umfive and iris read of the samples."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CfaggWarning, FragmentNotFoundError, LimitError, SourceError, UnsupportedError
from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.records import FORMS, scan_records
from cfagg.formats.pp.values import attributes_of, conformed, read_extra, read_stored, sizes_of, storage_of
from cfagg.storage.files import Borrowed, Context, open_regular
from tests.effort import examples
from tests.formats.pp.making import field, fields_file, runs

SAMPLES = Path(__file__).parents[3] / "sample_data" / "pp"
SIX = np.arange(6.0).reshape(2, 3)
LAND = np.array([[True, False, True], [False, False, True]])

#: Sample, field: checksum and sum of the values as umfive 0.4.0 reads them; iris 3.14.1 reads those that are not
#: packed alike.
FACTS = {
    ("air_temp.pp", 0): (2814475156, 1961855.734588623),
    ("extra_data.pp", 0): (3503492776, 87364.6828918457),
    ("umfile.pp", 0): (2700129411, 676849302.0),
    ("umfile.pp", 1): (3326595357, 676997797.0),
    ("umfile.pp", 2): (1890702604, 676767833.0),
    ("wgdos_73x96_le.pp", 0): (621059557, 1935337.7216796875),
    ("wind_speed_lake_victoria.pp", 0): (3043731417, 1.1162109375),
    ("wind_speed_lake_victoria.pp", 1): (935789799, -177.740234375),
}


def stored(data: bytes, land: Any = None, i: int = 0) -> np.ndarray:
    handle = Borrowed("a.pp", data)
    return read_stored(handle, scan_records(handle), i, land=land)


@pytest.mark.parametrize(("name", "number"), FACTS)
def test_samples_have_the_values_that_umfive_reads(name: str, number: int) -> None:
    with open_regular(str(SAMPLES / name)) as handle:
        values = read_stored(handle, scan_records(handle), number)
    assert values.dtype == np.float32
    assert (zlib.crc32(values.tobytes()), float(values.sum(dtype="f8"))) == FACTS[name, number]


@pytest.mark.parametrize("name", sorted({name for name, _ in FACTS}))
def test_samples_have_the_values_of_umfive_in_this_run(name: str) -> None:
    pytest.importorskip("umfive", reason="umfive, whose values are compared, is not installed")
    from umfive.core.data import read_record_array
    from umfive.core.filetype import detect_file_type
    from umfive.core.scanner import scan_pp_headers
    from umfive.io import LocalPosixReader

    reader = LocalPosixReader(str(SAMPLES / name))
    with open_regular(str(SAMPLES / name)) as handle:
        fields = scan_records(handle)
        for i, record in enumerate(scan_pp_headers(reader, detect_file_type(reader))):
            assert fields.integers[i].tolist() == record.int_hdr.tolist()
            assert fields.reals[i].tolist() == record.real_hdr.tolist()
            theirs = read_record_array(reader, record)
            assert np.array_equal(read_stored(handle, fields, i).ravel(), theirs)


@pytest.mark.parametrize("name", ["air_temp.pp", "extra_data.pp", "wind_speed_lake_victoria.pp"])
def test_samples_that_are_big_endian_have_the_values_of_iris_in_this_run(name: str) -> None:
    pp = pytest.importorskip("iris.fileformats.pp", reason="iris, whose values are compared, is not installed")
    with open_regular(str(SAMPLES / name)) as handle:
        fields = scan_records(handle)
        for i, theirs in enumerate(pp.load(str(SAMPLES / name))):
            assert np.array_equal(read_stored(handle, fields, i), np.asarray(theirs.data))


@settings(max_examples=examples(60))
@given(st.sampled_from([0, 1, 2, 4, 120]), st.integers(-2, 20), st.integers(-2, 20))
def test_sizes_of_all_fields_are_those_of_each(code: int, words: int, extra: int) -> None:
    data = field(LBPACK=code, LBLREC=words, LBEXT=extra) + field(range(9), LBPACK=code, LBLREC=words, LBEXT=extra)
    fields = scan_records(Borrowed("a.pp", data))
    assert sizes_of(fields).tolist() == [storage_of(fields, i).size for i in range(2)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("code", "kind"), [(1, "f"), (2, "i"), (3, "i"), (-1, "f"), (-2, "i"), (0, "f")])
def test_reals_integers_and_logical_values_are_told_by_lbuser1(form, code: int, kind: str) -> None:  # type: ignore[no-untyped-def]
    size, order = form.word_size, form.byteorder
    raw = SIX.astype(f"{order}{kind}{size}").tobytes()
    found = stored(field(raw, size, order, form.marker_size, LBUSER1=code))
    assert found.dtype == np.dtype(f"{kind}{size}")
    assert found.tolist() == SIX.tolist()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("code", "kind"), [(1, "f"), (2, "i")])
def test_packing_2_is_values_of_32_bits_whatever_the_words(form, code: int, kind: str) -> None:  # type: ignore[no-untyped-def]
    raw = SIX.astype(f"{form.byteorder}{kind}4").tobytes()
    found = stored(field(raw, form.word_size, form.byteorder, form.marker_size, LBPACK=2, LBUSER1=code))
    assert (found.dtype.str[1:], found.tolist()) == (f"{kind}4", SIX.tolist())


@pytest.mark.parametrize("form", FORMS)
def test_runs_of_missing_values_are_written_out(form) -> None:  # type: ignore[no-untyped-def]
    size, order = form.word_size, form.byteorder
    raw = np.array([-9, 2, 7, 8, -9, 1, -9, 1]).astype(f"{order}f{size}").tobytes()
    found = stored(field(raw, size, order, form.marker_size, LBPACK=4, BMDI=-9))
    assert found.tolist() == [[-9, -9, 7], [8, -9, -9]]
    assert found.dtype == np.dtype(f"f{size}")


@pytest.mark.parametrize(
    ("words", "missing", "expected"),
    [
        ([5, 5, 1], 5, [[5, 5, 5], [5, 5, 1]]),  # the number of a run equals the missing value
        ([5, 5, 5, 1], 5, [[5, 5, 5], [5, 5, 5]]),  # two runs
        ([1, 2, 3, 4, 5, 6, -9], -9, [[1, 2, 3], [4, 5, 6]]),  # behind the last value
        ([1, 2, 3, 4, 5, 6, 7], -9, [[1, 2, 3], [4, 5, 6]]),
        ([1, 2, 3, 4, 5, -9, 0, 6], -9, [[1, 2, 3], [4, 5, 6]]),
        ([1, 2, 3, 4, 5], -9, None),
        ([1, 2, 3, 4, 5, -9], -9, None),
        ([1, 2, 3, 4, 5, -9, 2], -9, None),
        ([1, 2, 3, 4, -9, 1.5], -9, None),
        ([-9, -1, 1, 2, 3, 4, 5, 6], -9, None),
        ([-9, np.nan, 1, 2, 3, 4, 5, 6], -9, None),
        ([-9, 1e30], -9, None),
        ([], -9, None),
    ],
)
def test_runs_that_do_not_come_out_are_refused(words: list[float], missing: float, expected: list[Any] | None) -> None:
    data = field(words, LBPACK=4, BMDI=missing)
    if expected is None:
        with pytest.raises(SourceError, match=r"field 0 of a\.pp has runs of missing values that decode to"):
            stored(data)
    else:
        assert stored(data).tolist() == expected


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([-9.0, 0.0, 1.0, 2.0, 3.5]), min_size=1, max_size=40), st.sampled_from([-9.0, 2.0]))
def test_what_is_packed_by_runs_comes_back(values: list[float], missing: float) -> None:
    assert stored(field(runs(values, missing), LBPACK=4, BMDI=missing, LBROW=1, LBNPT=len(values))).tolist() == [values]


def wgdos_words(bits: int = 4) -> list[int]:
    """Return two rows of three values, 1 + n/2 and 0.0625 everywhere; the first row may hold fewer than it says."""
    first = int("0001 0010 1111".replace(" ", "").ljust(32, "0"), 2)
    return [8, 2**32 - 1, 3 << 16 | 2, 0x41100000, bits << 16 | 1, first, 0x40100000, 0]


@pytest.mark.few(9)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("swapped", ["words", "4", "no"])
def test_wgdos_is_unpacked_in_every_order_of_bytes(form, swapped: str) -> None:  # type: ignore[no-untyped-def]
    words = np.array(wgdos_words(), ">u4")
    if form.byteorder == "<" and swapped != "no":
        width = form.word_size if swapped == "words" else 4
        words = words.view(f">u{width}").byteswap()
    found = stored(field(words.tobytes(), form.word_size, form.byteorder, form.marker_size, LBPACK=1))
    assert found.tolist() == [[1.5, 2, 8.5], [0.0625] * 3]
    assert found.dtype == np.dtype(f"f{form.word_size}")


def test_a_row_of_wgdos_may_lack_one_value_which_is_missing_with_a_warning() -> None:
    words = wgdos_words()
    words[6:] = [0x41100000, 12 << 16 | 1, 2**20 * 4095]
    words[0] = 9
    with pytest.warns(CfaggWarning, match=r"field 0 of a\.pp: row 1 of WGDOS packing holds one value less"):
        found = stored(field(np.array(words, ">u4").tobytes(), LBPACK=1, BMDI=-5))
    assert found.tolist() == [[1.5, 2, 8.5], [2048.5, 1, -5]]


def test_wgdos_whose_numbers_of_rows_and_columns_are_swapped_keeps_the_order_of_the_field() -> None:
    words = [10, 2**32 - 1, 2 << 16 | 3, 0x41100000, 4 << 16 | 1, 0x12000000, 0x41200000, 0, 0x41300000, 0]
    found = stored(field(np.array(words, ">u4").tobytes(), LBPACK=1))
    assert found.tolist() == [[1.5, 2, 2], [2, 3, 3]]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({7: 12 << 16 | 0}, "row 1 of WGDOS packing holds fewer values"),  # three values
        ({4: 31 << 16 | 1}, "row 0 of WGDOS packing holds fewer values"),  # two values
        ({7: 5}, "row 1 of WGDOS packing is damaged"),
        ({2: 2 << 16 | 3}, "row 2 of WGDOS packing is damaged"),  # the two rows as columns, of which there are three
        ({2: 6 << 16 | 1}, r"do not begin as WGDOS packing of shape \(2, 3\)"),
        ({0: 9}, "8 words of WGDOS packing, whose header gives 9"),
        ({0: 2}, "8 words of WGDOS packing, whose header gives 2"),
        ({0: 7}, "row 1 of WGDOS packing is damaged"),
    ],
)
def test_wgdos_that_cannot_be_is_refused(change: dict[int, int], text: str) -> None:
    words = wgdos_words()
    for place, word in change.items():
        words[place] = word
    with pytest.raises(SourceError, match=rf"field 0 of a\.pp has (data that )?{text}"):
        stored(field(np.array(words, ">u4").tobytes(), LBPACK=1))


@pytest.mark.parametrize(("code", "points"), [(120, LAND), (220, ~LAND), (122, LAND), (2220, ~LAND)])
@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("more", [0, 3])
def test_points_of_a_mask_are_put_in_their_places(code: int, points: np.ndarray, shaped: bool, more: int) -> None:
    shape = {} if shaped else {"LBROW": 0, "LBNPT": 0}
    found = stored(field([7, 8, 9, *[77] * more], LBPACK=code, BMDI=-9, **shape), LAND)
    expected = np.full((2, 3), -9.0)
    expected[points] = [7, 8, 9]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("code", [120, 220])
def test_more_points_than_the_mask_has_are_refused_unless_the_whole_grid_follows(code: int) -> None:
    with pytest.raises(SourceError, match=r"holds 5 values of (land|sea) points, and its land-sea mask has 3"):
        stored(field([7, 8, 9, 77, 77], LBPACK=code), LAND)


def test_integers_of_a_mask_are_missing_elsewhere_though_bmdi_is_no_integer() -> None:
    found = stored(field(np.array([7, 8, 9], ">i4").tobytes(), LBPACK=120, LBUSER1=2), LAND)
    assert found.tolist() == [[7, -(2**31), 8], [-(2**31), -(2**31), 9]]
    handle = Borrowed("a.pp", field(np.array([7, 8, 9], ">i4").tobytes(), LBPACK=120, LBUSER1=2))
    assert attributes_of(scan_records(handle), 0) == {"_FillValue": np.int32(-(2**31))}


def test_points_without_a_mask_or_with_another_one_are_refused() -> None:
    data = field([7, 8, 9], LBPACK=120)
    with pytest.raises(SourceError, match=r"holds land points only.*no land-sea mask \(STASH m01s00i030\)"):
        stored(data)
    with pytest.raises(SourceError, match=r"has shape \(2, 3\), and the land-sea mask \(3, 2\)"):
        stored(data, LAND.T)
    with pytest.raises(SourceError, match=r"8 bytes of data, expected 12 for 3 values"):
        stored(field([7, 8], LBPACK=220), LAND)
    handle = Borrowed("a.pp", data)
    with pytest.raises(FragmentNotFoundError, match=r"^partition 2: field 0 of a\.pp holds land points only"):
        read_stored(handle, scan_records(handle), 0, Context("partition 2"))


@pytest.mark.parametrize("code", [-1, 3, 5, 10, 20, 320, 121, 221, 130, 1000, 4000, 5002])
def test_a_packing_that_is_not_read_is_named(code: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"field 0 of a\.pp: .*LBPACK = {code}\b"):
        stored(field(LBPACK=code), LAND)


def test_run_length_packing_of_integers_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="run length packing of integers"):
        stored(field(LBPACK=4, LBUSER1=2))


def test_missing_value_and_packing_are_attributes_only_where_they_say_something() -> None:
    def found(**values: float) -> dict[str, Any]:
        return attributes_of(scan_records(Borrowed("a.pp", field(**values))), 0)

    assert found() == {"_FillValue": np.float32(-1e30)}
    assert found(BMKS=0, BDATUM=0) == {"_FillValue": np.float32(-1e30)}
    assert found(BMKS=0.5) == {"_FillValue": np.float32(-1e30), "scale_factor": np.float32(0.5)}
    assert found(BDATUM=273, BMKS=1) == {"_FillValue": np.float32(-1e30), "add_offset": np.float32(273)}
    assert found(LBUSER1=2) == {}
    assert found(LBUSER1=2, BMDI=-32768) == {"_FillValue": np.int32(-32768)}


def test_values_of_a_variable_are_scaled_and_have_its_missing_value() -> None:
    handle = Borrowed("a.pp", field([-9, 1, 2, 3, 4, 5], BMDI=-9, BMKS=0.5, BDATUM=10))
    fields = scan_records(handle)
    stored = read_stored(handle, fields, 0)
    found = conformed(stored, fields, 0, np.dtype("f8"), -1e30)
    assert found.tolist() == [[-1e30, 10.5, 11], [11.5, 12, 12.5]]
    assert conformed(stored, fields, 0, np.dtype("f4"), None)[0, 0] == 5.5


def test_values_that_are_stored_as_the_variable_has_them_stay() -> None:
    handle = Borrowed("a.pp", field(SIX))
    fields = scan_records(handle)
    fill = attributes_of(fields, 0)["_FillValue"]
    stored = read_stored(handle, fields, 0)
    assert conformed(stored, fields, 0, np.dtype("f4"), fill).tolist() == SIX.tolist()
    assert conformed(stored, fields, 0, np.dtype("f8"), fill).dtype == np.float64


@pytest.mark.parametrize("form", FORMS)
def test_extra_data_are_skipped_and_given_as_vectors(form) -> None:  # type: ignore[no-untyped-def]
    size, order = form.word_size, form.byteorder
    integer, real = f"{order}i{size}", f"{order}f{size}"
    text = np.frombuffer(b"Sea".ljust(size, b"\0"), f">i{size}").astype(integer).tobytes()
    extra = (
        np.array([2001], integer).tobytes() + np.array([10.5, 11.5], real).tobytes()
        + np.array([1011], integer).tobytes() + text + np.array([1011], integer).tobytes() + text
        + np.array([1001], integer).tobytes() + np.array([12.5], real).tobytes() + np.array([0], integer).tobytes()
    )  # fmt: skip
    raw = SIX.astype(real).tobytes() + extra
    handle = Borrowed("a.pp", field(raw, size, order, form.marker_size, LBEXT=len(extra) // size))
    fields = scan_records(handle)
    assert read_stored(handle, fields, 0).tolist() == SIX.tolist()
    found = read_extra(handle, fields, 0)
    assert found[1].tolist() == [10.5, 11.5, 12.5]
    assert found[11] == ["Sea", "Sea"]
    assert sorted(found) == [1, 11]


def test_the_extra_data_of_the_sample_are_those_that_umfive_reads() -> None:
    with open_regular(str(SAMPLES / "extra_data.pp")) as handle:
        found = read_extra(handle, scan_records(handle), 0)
    assert {code: len(v) for code, v in found.items()} == {1: 3, 2: 100, **dict.fromkeys([3, 4, 5, 6, 7, 8, 11], 3)}
    assert found[2][:3].tolist() == [824550, 824910, 825270]
    assert found[3].tolist() == [1.25, -91.25, -91.25]
    assert found[11] == ["Northern Hemisphere", "Southern Hemisphere", "Global"]


def test_fields_without_extra_data_have_none() -> None:
    handle = Borrowed("a.pp", field())
    assert read_extra(handle, scan_records(handle), 0) == {}


@pytest.mark.parametrize("word", [5001, -1, 1, 2**31 - 1])
def test_a_vector_of_extra_data_that_does_not_fit_is_refused(word: int) -> None:
    raw = SIX.astype(">f4").tobytes() + np.array([word, 0], ">i4").tobytes()
    handle = Borrowed("a.pp", field(raw, LBEXT=2))
    with pytest.raises(SourceError, match=r"extra data with .* where no vector begins"):
        read_extra(handle, scan_records(handle), 0)


def test_extra_data_of_no_whole_number_of_words_end_with_the_last_whole_one() -> None:
    handle = Borrowed(
        "a.pp", field(np.array([1001], ">i4").tobytes() + b"\x40\x80\0\0\0\0", LBLREC=9, LBEXT=9, LBPACK=1)
    )
    assert read_extra(handle, scan_records(handle), 0)[1].tolist() == [4]


@pytest.mark.parametrize("change", [{"LBROW": 3}, {"LBLREC": 5}, {"LBEXT": 1}])
def test_headers_that_speak_of_more_values_than_there_are_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(SourceError, match=r"field 0 of a\.pp has 2\d bytes of data, expected \d+ for \d values"):
        stored(field(**change))


@pytest.mark.parametrize("code", [0, 1, 2, 4])
def test_a_header_that_speaks_of_more_values_than_memory_holds_is_refused(code: int) -> None:
    with pytest.raises(LimitError, match=r"field 0 of a\.pp takes [\d,]+ bytes of memory at once"):
        stored(field(LBROW=2**30, LBNPT=2**30, LBPACK=code))


def test_a_field_without_a_shape_is_one_row_of_values() -> None:
    assert stored(field(LBROW=0, LBNPT=0)).tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(SourceError, match="do not begin as WGDOS packing"):
        stored(field(LBROW=0, LBNPT=0, LBPACK=1))


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["<", ">"])
def test_fields_of_every_packing_have_the_values_of_umfive_in_this_run(tmp_path: Path, size: int, order: str) -> None:
    pytest.importorskip("umfive", reason="umfive, whose values are compared, is not installed")
    from umfive.core.data import read_record_array
    from umfive.core.filetype import detect_file_type
    from umfive.core.scanner import scan_ff_headers, scan_pp_headers
    from umfive.io import LocalPosixReader

    real, integer = f"{order}f{size}", f"{order}i{size}"
    words = np.array([8, 2**32 - 3, 3 << 16 | 2, 0x41180000, 4 << 16 | 1, 0x1F300000, 0xC1200000, 0], ">u4")
    wgdos = words.tobytes() if order == ">" else words.view(f">u{size}").byteswap().tobytes()
    parts: list[tuple[dict[str, float], bytes]] = [
        ({}, SIX.astype(real).tobytes()),
        ({"LBUSER1": 2}, SIX.astype(integer).tobytes()),
        ({"LBPACK": 1}, wgdos),
        ({"LBPACK": 2}, SIX.astype(f"{order}f4").tobytes()),
        ({"LBPACK": 4, "BMDI": -9}, np.array([-9, 2, 7, 8, -9, 2]).astype(real).tobytes()),
    ]
    files = {
        "a.pp": b"".join(field(raw, size, order, **said) for said, raw in parts),
        "a.ff": fields_file(parts, size, order),
        "b.ff": fields_file(parts, size, order, placed=False),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        reader = LocalPosixReader(str(tmp_path / name))
        scan = scan_pp_headers if name.endswith("pp") else scan_ff_headers
        records = scan(reader, detect_file_type(reader))
        with open_regular(str(tmp_path / name)) as handle:
            fields = scan_fields(handle)
            assert len(records) == len(fields) == len(parts)
            for i, one in enumerate(records):
                assert (one.header_offset, one.data_offset) == (fields.header_offset[i], fields.data_offset[i])
                assert read_stored(handle, fields, i).ravel().tolist() == read_record_array(reader, one).tolist()
