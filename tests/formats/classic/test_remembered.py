"""Headers of classic netCDF like earlier ones are read as if they were the first."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from cfagg.errors import CfaggError
from cfagg.formats.classic import dataset, header
from cfagg.formats.classic.dataset import open_classic
from cfagg.storage.files import Borrowed, open_regular
from tests.effort import examples
from tests.formats.metadata.seen import seen

FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]


def forget() -> None:
    for memory in (dataset._known, header._known, header._lengths, header._numbers):
        memory.clear()


def write(path: Path, format_: Any, step: int = 0) -> bytes:
    with netCDF4.Dataset(path, "w", format=format_) as d:
        d.history = "x" * (step % 3)
        d.createDimension("time", None)
        d.createDimension("x", 3)
        for name, dims, type_ in (("time", ("time",), "f8"), ("tas", ("time", "x"), "f4"), ("x", ("x",), "i2")):
            v = d.createVariable(name, type_, dims)
            v.units, v.valid_range = "K", np.array([0, 400], type_)
            v[:] = np.arange(3 if dims == ("x",) else 2) + step if len(dims) == 1 else np.full((2, 3), step)
    return path.read_bytes()


def outcome(data: bytes) -> Any:
    try:
        with open_classic(Borrowed("a.nc", data)) as opened:
            return seen(opened), opened.damage
    except CfaggError as error:
        return repr(error)


@pytest.mark.parametrize("format_", FORMATS)
def test_files_of_one_program_are_read_as_if_each_were_the_first(tmp_path: Path, format_: str) -> None:
    files = [write(tmp_path / f"{i}.nc", format_, i) for i in range(4)]
    cold = []
    for data in files:
        forget()
        cold.append(outcome(data))
    forget()
    assert [outcome(data) for data in files * 2] == cold * 2
    before = len(header._known), len(dataset._known)
    assert outcome(files[0]) == cold[0]
    assert (len(header._known), len(dataset._known)) == before


@pytest.mark.parametrize("format_", FORMATS)
def test_changed_bytes_are_read_as_if_no_file_had_been_read_before(tmp_path: Path, format_: str) -> None:
    sound = write(tmp_path / "a.nc", format_)
    chosen = random.Random(format_)
    for _ in range(examples(200)):
        changed = bytearray(sound)
        for _ in range(chosen.choice((1, 1, 2))):
            at = chosen.randrange(len(changed))
            changed[at] = chosen.choice((changed[at] ^ 1 << chosen.randrange(8), 0, 1, 255))
        data = bytes(changed[: chosen.choice((len(changed), chosen.randrange(len(changed))))])
        forget()
        cold = outcome(data)
        forget()
        outcome(sound)
        assert outcome(data) == cold


def test_equal_attributes_of_files_are_the_same_object_and_cannot_be_changed(tmp_path: Path) -> None:
    for i in range(2):
        write(tmp_path / f"{i}.nc", FORMATS[0], i)
    one, other = (open_classic(open_regular(str(tmp_path / f"{i}.nc"))) for i in range(2))
    with one, other:
        for a, b in zip(one.variables, other.variables, strict=True):
            assert a.attributes is b.attributes
            with pytest.raises(TypeError, match="shared"):
                a.attributes["units"] = "1"
            with pytest.raises(ValueError, match="read-only"):
                a.attributes["valid_range"][:] = 0
        assert other.root.attributes == {"history": "x"}


def test_dimensions_of_very_long_names_are_not_remembered() -> None:
    forget()
    for size in (10, 5000):
        words = [b"CDF\1", 0, 10, 1, size, b"x" * size + bytes(-size % 4), 3, 0, 0, 0, 0]
        assert outcome(b"".join(w if isinstance(w, bytes) else w.to_bytes(4, "big") for w in words))
    assert [len(dims[1][0]) for dims in header._numbers] == [10]


def test_no_more_than_some_variables_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(header, "_MOST", 2)
    monkeypatch.setattr(dataset, "_MOST", 1000)
    for i in range(4):
        outcome(write(tmp_path / f"{i}.nc", FORMATS[0], i))
        assert len(header._known) <= 2
        assert dataset._Remembered.bytes <= 1000


@pytest.mark.parametrize("format_", FORMATS)
def test_whole_arrays_and_parts_are_those_of_the_library(tmp_path: Path, format_: str) -> None:
    path = tmp_path / "a.nc"
    write(path, format_, 5)
    with open_classic(open_regular(str(path))) as opened, netCDF4.Dataset(path) as by_library:
        for v in opened.variables:
            expected = np.asarray(by_library[v.name][...])
            np.testing.assert_array_equal(v.values(), expected)
            assert v.values().dtype.isnative
            assert v.read is not None
            part = tuple(slice(0, n, 2) for n in v.shape)
            np.testing.assert_array_equal(v.read(part), expected[part])
