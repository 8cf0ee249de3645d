"""The header of classic files: as the netCDF library has it, and nothing that the file has no room for."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.arrays.netcdf_source import open_source
from cfagg.errors import SourceError
from cfagg.formats.classic.header import CutError, DamagedError, Header, ShortError, parse

FORMATS = {"NETCDF3_CLASSIC": 1, "NETCDF3_64BIT_OFFSET": 2, "NETCDF3_64BIT_DATA": 5}


def written(path: Path, format_: str, records: int = 3, *, fill: bool = True) -> bytes:
    with netCDF4.Dataset(path, "w", format=format_) as file:
        file.title = "odd"
        if not fill:
            file.set_fill_off()
        file.createDimension("time", None)
        file.createDimension("x", 5)
        file.createVariable("x", "i2", ("x",)).setncattr("n", np.arange(3))
        for name in ("a", "b"):
            file.createVariable(name, "i2", ("time", "x")).units = "K"
        if fill:
            file["x"][:] = np.arange(5)
        if records:
            file["b"][:] = np.ones((records, 5))
    return path.read_bytes()


def complaints(path: Path) -> list[str]:
    try:
        return [f.message for f in cfagg.check(path).findings if f.code.startswith("INT")]
    except SourceError as error:
        return [str(error)]


def header(data: bytes) -> Header:
    return parse(data, len(data))


@pytest.mark.parametrize("format_", FORMATS)
def test_records_of_a_single_variable_follow_each_other_without_padding(tmp_path: Path, format_: str) -> None:
    values = np.arange(9, dtype="i1").reshape(3, 3)
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=format_) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("a", "i1", ("time", "x"))[:] = values
    assert header((tmp_path / "a.nc").read_bytes()).record == 3
    np.testing.assert_array_equal(cfagg.open_array(tmp_path / "a.nc", "a")[...], values)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("records", [0, 1, 3])
@pytest.mark.parametrize("fill", [True, False])
def test_a_file_of_the_netcdf_library_is_never_shorter_than_its_header_says(
    tmp_path: Path, format_: str, records: int, fill: bool
) -> None:
    data = written(tmp_path / "a.nc", format_, records, fill=fill)
    found = header(data)
    assert len(data) - 4 < found.end <= len(data) or (not records and not fill)
    assert found.end <= len(data)
    assert found.records == records
    assert complaints(tmp_path / "a.nc") == []


@pytest.mark.few(1)
@pytest.mark.parametrize("format_", FORMATS)
def test_wherever_a_file_is_cut_off_the_check_says_so(tmp_path: Path, format_: str) -> None:
    whole = written(tmp_path / "a.nc", format_)
    short = tmp_path / "short.nc"
    end = header(whole).end
    for size in range(8, end):
        short.write_bytes(whole[:size])
        (found,) = complaints(short)
        assert "truncated" in found, size


@pytest.mark.parametrize("format_", FORMATS)
def test_a_header_that_goes_on_behind_the_bytes_at_hand_is_told_from_one_that_is_cut_off(
    tmp_path: Path, format_: str
) -> None:
    whole = written(tmp_path / "a.nc", format_)
    for size in range(4, 200):
        with pytest.raises(ShortError) as short:
            parse(whole[:size], len(whole))
        assert not isinstance(short.value, CutError)
        with pytest.raises(CutError):
            parse(whole[:size], size)


def made(version: int, dims: Any = (), variables: Any = (), records: int = 0, room: int = 200) -> bytes:
    """A header with dimensions (name, length), and variables (name, ids, type, begin)."""
    count, offset = (">Q" if version == 5 else ">I"), (">I" if version == 1 else ">Q")

    def name(text: str) -> bytes:
        return struct.pack(count, len(text)) + text.encode() + bytes(-len(text) % 4)

    def listed(tag: int, items: list[bytes]) -> bytes:
        return struct.pack(">I", tag if items else 0) + struct.pack(count, len(items)) + b"".join(items)

    found = b"CDF" + bytes([version]) + struct.pack(count, records)
    found += listed(10, [name(n) + struct.pack(count, length) for n, length in dims]) + listed(12, [])
    rows = [
        name(n)
        + struct.pack(count, len(ids))
        + b"".join(struct.pack(count, i) for i in ids)
        + listed(12, [])
        + struct.pack(">I", type_)
        + struct.pack(count, 0)
        + struct.pack(offset, begin)
        for n, ids, type_, begin in variables
    ]
    return found + listed(11, rows) + bytes(room)


WRONG: dict[str, tuple[bytes, str]] = {
    "another version": (b"CDF\3" + made(1)[4:], "does not begin as classic"),
    "more dimensions than fit": (made(1)[:8] + struct.pack(">II", 10, 2**31) + bytes(100), "a list of 2,147,483,648"),
    "more attributes than fit": (made(1)[:16] + struct.pack(">II", 12, 2**30) + bytes(100), "a list of 1,073,741,824"),
    "another tag": (made(1)[:8] + struct.pack(">II", 99, 1) + bytes(100), "found tag 99, expected 10"),
    "another tag of nothing": (made(1)[:8] + struct.pack(">II", 99, 0) + bytes(100), "found tag 99, expected 10"),
    "no tag of something": (made(1)[:8] + struct.pack(">II", 0, 1) + bytes(100), "found tag 0, expected 10"),
    "no name": (made(1, [("", 3)]), "an empty name"),
    "two dimensions that grow": (made(1, [("a", 0), ("b", 0)]), "'b' is a second record dimension"),
    "a length of 2**31": (made(1, [("a", 2**31)]), "'a' has the length 2,147,483,648"),
    "a length of 2**63": (made(5, [("a", 2**63)]), "'a' has the length 9,223,372,036,854,775,808"),
    "a dimension that is not there": (made(1, [("a", 2)], [("v", (7,), 4, 160)]), "'v' has dimension 7, of 1"),
    "too many dimensions": (made(1, [("a", 1)], [("v", (0,) * 1025, 4, 5000)], room=5000), "'v' has 1,025 dimensions"),
    "the record dimension after another": (made(1, [("a", 0), ("b", 2)], [("v", (1, 0), 4, 160)]), "after another one"),
    "an impossible number of values": (
        made(5, [("a", 2**62), ("b", 2**40)], [("v", (0, 1), 6, 300)]), "'v' has an impossible number of values"
    ),
    "values behind every file": (made(5, [("a", 2)], [("v", (0,), 6, 2**63)]), "'v' has an impossible number"),
    "values within the header": (made(1, [("a", 2)], [("v", (0,), 4, 20)]), "begin within the header"),
    "a type of CDF-5 in CDF-1": (made(1, [("a", 2)], [("v", (0,), 9, 160)]), "type number 9, expected 1 to 6"),
    "more records than can be": (made(5, [("a", 0)], [("v", (0,), 6, 300)], records=2**63), "records of 8 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_damaged_header_is_refused_by_every_reader(tmp_path: Path, what: str) -> None:
    data, said = WRONG[what]
    with pytest.raises(DamagedError, match=said) as caught:
        header(data)
    if data[:4] != b"CDF\3":
        assert "at byte" in str(caught.value)
    path = tmp_path / "a.nc"
    path.write_bytes(data)
    with pytest.raises(SourceError, match="damaged" if data[:4] != b"CDF\3" else "a.nc"):
        open_source(path)
    (found,) = complaints(path)
    assert "damaged header" in found or data[:4] == b"CDF\3"


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("padding", [0, 3])
def test_the_records_of_a_file_that_was_streamed_follow_from_its_size(
    tmp_path: Path, format_: str, padding: int
) -> None:
    whole = written(tmp_path / "a.nc", format_)
    count = b"\xff" * (8 if FORMATS[format_] == 5 else 4)
    streamed = whole[:4] + count + whole[4 + len(count) :] + bytes(padding)
    assert header(streamed) == header(whole)
    with netCDF4.Dataset(tmp_path / "b.nc", "w", format=format_) as file:
        file.createDimension("x", 5)
        file.createVariable("x", "i2", ("x",))[:] = 1
    bare = (tmp_path / "b.nc").read_bytes()
    assert header(bare[:4] + count + bare[4 + len(count) :]).records == 0


def test_what_was_made_to_be_wrong_is_right_without_its_fault() -> None:
    assert header(made(1, [("a", 2)], [("v", (0,), 4, 160)])).end == 168
    assert header(made(5, [("a", 2), ("b", 0)], [("v", (1, 0), 6, 300)], records=2)).end == 332


def test_names_end_at_a_null_character_as_in_the_netcdf_library(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("row", 3)
        file.createVariable("tas", "f4", ("row",))[:] = [1, 2, 3]
        file["tas"].units = "K"
    data = (tmp_path / "a.nc").read_bytes()
    for old in (b"row", b"tas", b"units"):
        data = data.replace(old, old[:-1] + b"\0")
    (tmp_path / "b.nc").write_bytes(data)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert (file["ta"].dimensions, file["ta"].ncattrs()) == (("ro",), ["unit"])
    found = cfagg.read(tmp_path / "b.nc")["ta"]
    assert (found.dims, found.attrs, found.values.tolist()) == (("ro",), {"unit": "K"}, [1, 2, 3])
    assert cfagg.open_array(tmp_path / "b.nc", "ta")[...].tolist() == [1, 2, 3]
