"""Headers like others that were parsed before are read as if they were the first."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.errors import CfaggError
from cfagg.formats.hdf5 import attributes, headers, small
from cfagg.formats.hdf5.dataset import open_fast, parsed
from cfagg.formats.hdf5.headers import Alike, Headers
from cfagg.formats.hdf5.objects import Object, Objects
from cfagg.formats.hdf5.space import ERRORS, OverlapError, Space
from cfagg.storage.files import Borrowed, open_regular
from tests.effort import examples
from tests.formats.metadata.seen import seen


def forget() -> None:
    headers.forget()
    attributes.forget()


def by_netcdf(path: Path, step: int = 0) -> Path:
    """Write a file with few and many attributes, long and short texts, groups, and dimensions that grow."""
    with netCDF4.Dataset(path, "w") as d:
        d.history = f"step {step} " + "x" * step
        d.places = ["Zürich", "Genève"]
        d.createDimension("time", None)
        d.createDimension("x", 3)
        time = d.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = [step, step + 1]
        for name in ("tas", "pr"):
            v = d.createVariable(name, "f4", ("time", "x"), zlib=True, fill_value=1e20)
            v.units, v.valid_range, v.comment = "K", np.array([0, 400], "f4"), "Bø"
            v[:] = np.random.default_rng(step).normal(size=(2, 3))
        many = d.createGroup("g").createVariable("many", "i2", ("x",))
        many.setncatts({f"a{i}": f"value {i}" for i in range(12)})
        many[:] = [1, 2, 3]
    return path


def by_h5py(path: Path, step: int = 0) -> Path:
    """Write a file of the newest version of the format."""
    with h5py.File(path, "w", libver="latest", track_order=True) as file:
        file.attrs["step"] = step
        for name, chunks, most in (("one", (2, 3), None), ("fixed", (1, 3), None), ("grows", (1, 3), (None, 3))):
            one = file.create_dataset(name, (2, 3), "f4", chunks=chunks, maxshape=most, track_times=True)
            one[...] = step
            one.attrs["units"] = "K"
        file["contiguous"], file["scalar"] = np.arange(3.0) + step, np.float32(step)
        file["type"] = np.dtype("f8")
        file.create_dataset("typed", data=np.arange(2.0), dtype=file["type"])
    return path


WRITERS = {"netCDF": by_netcdf, "HDF5": by_h5py}


def outcome(data: bytes) -> Any:
    """Return all that is said of a file, and the structures of which checksums are still to be compared."""
    try:
        found = parsed(data, Borrowed("a.nc", data))
    except CfaggError as error:
        return repr(error)
    return None if found is None else (seen(found[0]), set(found[1]))


def objects(data: bytes, places: list[int], read: Any) -> list[Any]:
    """Return the object headers at some places."""
    found = []
    for at in places:
        try:
            one = read(Objects(Space(data)), at)
        except (OverlapError, *ERRORS) as error:
            found.append(repr(error))
            continue
        one = one.object() if isinstance(one, Alike) else one
        found.append((one.messages, one.attributes, one.links, one.ordered))
    return found


def remembering(reader: Objects, at: int) -> Object | Alike:
    return Headers(reader).read(at)


def places(data: bytes) -> list[int]:
    """Return where object headers stand."""
    return [at for at in range(len(data)) if data[at : at + 5] == b"OHDR\2"]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_like_an_earlier_one_is_read_from_what_is_remembered(tmp_path: Path, writer: str) -> None:
    forget()
    first, second = (WRITERS[writer](tmp_path / f"{i}.nc", i).read_bytes() for i in (1, 1))
    cold = outcome(first)
    assert outcome(second) == cold
    objects(first, places(first), remembering)
    reader = Headers(Objects(Space(second)))
    alike = [isinstance(reader.read(at), Alike) for at in places(second)]
    # One dataset of the newer file has a type that stands elsewhere, which is looked up again.
    assert alike.count(False) == (1 if writer == "HDF5" else 0)


@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_one_program_are_read_as_if_each_were_the_first(tmp_path: Path, writer: str) -> None:
    files = [WRITERS[writer](tmp_path / f"{i}.nc", i).read_bytes() for i in range(4)]
    cold = []
    for data in files:
        forget()
        cold.append(outcome(data))
    forget()
    assert [outcome(data) for data in files * 2] == cold * 2


def test_equal_attributes_of_files_are_the_same_object(tmp_path: Path) -> None:
    one, other = (open_fast(open_regular(str(by_netcdf(tmp_path / f"{i}.nc", i)))) for i in range(2))
    assert one is not None
    assert other is not None
    with one, other:
        for a, b in zip(one.variables, other.variables, strict=True):
            assert a.attributes is b.attributes
        assert one.root.attributes["history"] == "step 0 "
        assert other.root.attributes["history"] == "step 1 x"


def test_dimensions_are_known_where_an_earlier_header_had_another_attribute_of_that_length(tmp_path: Path) -> None:
    def dims(size: int) -> tuple[str, ...]:
        path = tmp_path / f"{size}.nc"
        with h5py.File(path, "w", libver="latest") as file:
            file["x"], file["v"] = np.arange(4), np.arange(4)
            file["x"].make_scale()
            if size:
                file["v"].attrs["a"] = np.bytes_(b"x" * size)
            else:
                file["v"].dims[0].attach_scale(file["x"])
        opened = open_fast(open_regular(str(path)))
        assert opened is not None
        with opened:
            return opened.root.variables["v"].dims

    forget()
    assert {dims(size) for size in range(40, 60)} == {("phony_dim_0",)}
    assert dims(0) == ("x",)


def test_small_attributes_count_with_the_objects_that_hold_them(tmp_path: Path) -> None:
    forget()
    with h5py.File(tmp_path / "a.nc", "w", libver="latest") as file:
        file.attrs.update(dict.fromkeys("abcdefgh", 1))
    assert outcome((tmp_path / "a.nc").read_bytes())
    assert attributes._memory.bytes > 8 * 256


def test_texts_that_are_not_utf_8_count_among_what_is_remembered(tmp_path: Path) -> None:
    forget()
    with h5py.File(tmp_path / "a.nc", "w", libver="latest") as file:
        file.attrs.create("a", b"\xb0" * 10_000, dtype=h5py.string_dtype())
    assert outcome((tmp_path / "a.nc").read_bytes())
    assert attributes._memory.bytes > 10_000


def test_attributes_that_files_share_cannot_be_changed(tmp_path: Path) -> None:
    opened = open_fast(open_regular(str(by_netcdf(tmp_path / "a.nc"))))
    assert opened is not None
    with opened:
        found = opened.root.variables["tas"].attributes
        for change in (
            lambda: found.update(units="1"),
            lambda: found.__setitem__("units", "1"),
            lambda: found.pop("units"),
            lambda: found.__ior__({"units": "1"}),
        ):
            with pytest.raises(TypeError, match="shared"):
                change()
        for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), found.copy()):
            assert type(again) is dict
            assert list(again) == list(found)


@pytest.mark.parametrize("writer", WRITERS)
def test_changed_bytes_are_read_as_if_no_file_had_been_read_before(tmp_path: Path, writer: str) -> None:
    sound = WRITERS[writer](tmp_path / "a.nc").read_bytes()
    # What comes behind the last structure are values.
    heads = places(sound)
    chosen = random.Random(writer)
    for _ in range(examples(40)):
        changed = bytearray(sound)
        for _ in range(chosen.choice((1, 1, 2))):
            at = chosen.choice(heads) + chosen.randrange(300)
            if at < len(changed):
                changed[at] = chosen.choice((changed[at] ^ 1 << chosen.randrange(8), chosen.randrange(256), 0, 255))
        data = bytes(changed)
        forget()
        cold = outcome(data), objects(data, heads, Objects.read)
        forget()
        outcome(sound)
        objects(sound, heads, remembering)
        assert (outcome(data), objects(data, heads, remembering)) == cold
        # Nor does what was damaged change what is read of a sound file.
        assert objects(sound, heads, remembering) == objects(sound, heads, Objects.read)


def test_no_more_than_some_headers_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "_MOST", 3)
    monkeypatch.setattr(attributes, "_BYTES", 2000)
    forget()
    for i in range(3):
        data = by_netcdf(tmp_path / f"{i}.nc", i).read_bytes()
        assert outcome(data) is not None
        assert headers._memory.headers <= 3
        assert attributes._memory.bytes <= 2000


def write_small(path: Path, step: int, **kwargs: Any) -> Path:
    with netCDF4.Dataset(path, "w") as d:
        d.createDimension("time", None)
        d.createDimension("x", 3)
        d.createDimension("steps", None)
        for name, dims, type_, own in (
            ("time", ("time",), ">f8", kwargs),
            ("bounds", ("time", "x"), "i2", {"chunksizes": (4, 3), **kwargs}),
            ("x", ("x",), "f4", {"contiguous": True}),
            ("letters", ("x",), "S1", {"contiguous": True}),
            ("scalar", (), "i8", {}),
            ("several", ("x",), "f8", {"chunksizes": (1,), **kwargs}),
            ("steps", ("steps",), "i4", {"chunksizes": (1,), **kwargs}),
            ("ends", ("steps", "x"), "f8", {"chunksizes": (3, 3), **kwargs}),
            ("empty", ("time", "x"), "f8", {}),
        ):
            with warnings.catch_warnings():  # netCDF4 warns of its own choice of byte orders
                warnings.simplefilter("ignore")
                v = d.createVariable(name, type_, dims, **own)
            if name == "letters":
                v[:] = np.array([b"a", b"b", b"c"])
            elif name != "empty":
                shape = tuple({"time": 2, "x": 3, "steps": 80}[d] for d in dims)
                v[...] = np.arange(np.prod(shape, dtype=int)).reshape(shape) + step
    return path


@pytest.mark.parametrize("filters", [{}, {"zlib": True, "shuffle": True}, {"fletcher32": True}], ids=str)
def test_small_values_of_a_file_like_an_earlier_one_are_those_of_the_library(
    tmp_path: Path, filters: dict[str, Any]
) -> None:
    forget()
    for step in range(3):
        path = write_small(tmp_path / f"{step}.nc", step, **filters)
        opened = open_fast(open_regular(str(path)))
        assert opened is not None
        with opened, netCDF4.Dataset(path) as by_library:
            by_library.set_auto_mask(False)
            for v in opened.variables:
                found = v.values()
                expected = np.asarray(by_library[v.name][...])
                assert found.dtype == expected.dtype.newbyteorder("=")
                assert found.dtype.isnative
                np.testing.assert_array_equal(found, expected)
                found[...] = found  # it is the caller's own


@pytest.mark.parametrize("length", [1, 2, 700])
@pytest.mark.parametrize("masked", [None, 1])
def test_small_values_in_several_chunks_are_those_of_the_library(
    tmp_path: Path, length: int, masked: int | None
) -> None:
    values = np.linspace(0, 1, 5 * length - length // 2)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset("x", data=values, chunks=(length,), shuffle=True, compression="gzip")
        made.make_scale("x")
        if masked is not None:  # one chunk is stored without its filters
            whole = np.zeros(5 * length)
            whole[: len(values)] = values
            raw = whole[masked * length : (masked + 1) * length].tobytes()
            made.id.write_direct_chunk((masked * length,), raw, filter_mask=0b11)
    opened = open_fast(open_regular(str(tmp_path / "a.nc")))
    assert opened is not None
    with opened:
        np.testing.assert_array_equal(opened.root.variables["x"].values(), values)


@pytest.mark.few(1)
@pytest.mark.parametrize("filters", [{}, {"zlib": True}, {"fletcher32": True}], ids=str)
def test_small_values_of_damaged_files_are_those_of_the_usual_reader(
    tmp_path: Path, filters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = write_small(tmp_path / "a.nc", 1, **filters).read_bytes()
    chosen = random.Random(str(filters))
    trees = [at for at in range(len(sound)) if sound[at : at + 4] == b"TREE"]
    for i in range(examples(40)):
        changed = bytearray(sound)
        at = chosen.choice(trees) + chosen.randrange(64)
        changed[at] = chosen.choice((changed[at] ^ 1 << chosen.randrange(8), 0, 255))
        path = tmp_path / f"{i}.nc"
        path.write_bytes(changed)
        found = []
        for usual in (False, True):
            forget()
            read_values(tmp_path / "a.nc")
            with monkeypatch.context() as patched:
                if usual:
                    patched.setattr(small, "_plan", lambda *_: None)
                    forget()
                found.append(read_values(path))
        # What no value depends on, as the keys above the places of chunks, is not looked at.
        expected = read_values(tmp_path / "a.nc")
        assert all(a in (b, c) for a, b, c in zip(*found, expected, strict=True))


def read_values(path: Path) -> list[str]:
    """Return the values of all variables of a file, or what is said of them."""
    opened = open_fast(open_regular(str(path)))
    assert opened is not None
    said = []
    with opened:
        for v in opened.variables:
            try:
                said.append(f"{v.name} {v.dtype} {v.values().tolist()}")
            except CfaggError as error:
                said.append(repr(error))
    return said


def test_a_file_of_many_variables_of_other_lengths_is_remembered(tmp_path: Path) -> None:
    forget()
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as d:
        d.createDimension("x", 2)
        for i in range(30):
            d.createVariable(f"v{i}", "f4", ("x",)).long_name = "x" * i
    data = path.read_bytes()
    cold = outcome(data)
    before = headers._memory.headers
    assert outcome(data) == cold
    assert headers._memory.headers == before


@pytest.mark.parametrize("name", [b"DIMENSION_LIST", b"REFERENCE_LIST", b"CLASS", b"units", b"_Netcdf4Dimid"])
def test_attributes_of_other_names_are_not_taken_for_those_of_earlier_files(tmp_path: Path, name: bytes) -> None:
    sound = by_netcdf(tmp_path / "a.nc").read_bytes()
    forget()
    before = outcome(sound)
    changed = sound.replace(name + b"\0", name[:-1] + b"X\0")
    warm = outcome(changed)
    forget()
    assert warm == outcome(changed) != before


def test_a_file_that_consists_of_long_texts_is_read_without_the_library(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for i in range(300):
            file.create_dataset(f"v{i}", data=1.0).attrs["text"] = str(i).ljust(10_000, "x")
    found = open_fast(open_regular(str(tmp_path / "a.nc")))
    assert found is not None
    assert {v.attributes["text"].rstrip("x") for v in found.root.variables.values()} == set(map(str, range(300)))
