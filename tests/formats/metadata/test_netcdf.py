"""Both readers of HDF5 and the one of classic files see what the netCDF library sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.checking.engine import run
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.errors import AccessError, CfaggError, FragmentReadError, SourceError
from cfagg.formats.classic.dataset import open_classic
from cfagg.formats.hdf5.dataset import open_fast, parsed
from cfagg.formats.hdf5.library_dataset import open_hdf5
from cfagg.formats.metadata.foreign import Foreign
from cfagg.formats.metadata.netcdf4 import open_netcdf4
from cfagg.formats.opening import built_in
from cfagg.storage.files import Borrowed, open_regular
from tests.checking.writing import write_cdl
from tests.formats.metadata.seen import seen
from tests.systems import needs_proc

SAMPLES = Path(__file__).parents[3] / "sample_data"

CLASSIC = """netcdf a {
dimensions: x = 2 ; n = 4 ; t = UNLIMITED ;
variables:
  float t(t) ; t:units = "days since 2000-01-01" ;
  float v(t, x) ; v:units = "K" ; v:_FillValue = -1.f ; v:valid_range = 0.f, 400.f ;
  char c(x, n) ;
  byte b(t) ;
  short odd(t, x) ; odd:flag_values = 1s, 2s, 3s ;
  int sc ;
  double w(x) ;
:Conventions = "CF-1.13" ;
:empty = "" ;
data: t = 1, 2, 3 ; v = 1, 2, 3, 4, _, 6 ; c = "ab", "cdef" ; b = 1, 2, 3 ; odd = 1, 2, 3, 4, 5, 6 ; sc = 3 ; w = 1, 2 ;
}"""


def library(path: Any, *, values: bool = False) -> list[str]:
    with netCDF4.Dataset(path) as opened:
        return seen(open_netcdf4(opened), values=values)


def fast(path: Any) -> list[str]:
    dataset = open_fast(open_regular(str(path)))
    assert dataset is not None
    with dataset:
        return seen(dataset)


def slow(path: Any) -> list[str]:
    with open_hdf5(open_regular(str(path))) as dataset:
        return seen(dataset)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.iterdir() if p.suffix in (".nc", ".nca")))
def test_the_samples_are_seen_as_the_library_sees_them(name: str) -> None:
    handle = open_regular(str(SAMPLES / name))
    form = built_in(handle)
    assert form is not None
    with form.open(handle) as dataset:
        assert seen(dataset, values=True) == library(SAMPLES / name, values=True)


@pytest.mark.parametrize(
    "format_", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC", "NETCDF4"]
)
def test_every_format_is_seen_as_the_library_sees_it(tmp_path: Path, format_: Any) -> None:
    path = write_cdl(CLASSIC, tmp_path / "a.nc", format_)
    with open_dataset(path) as dataset:
        assert dataset.format == "netcdf"
        assert dataset.typed
        assert seen(dataset, values=True) == library(path, values=True)


@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_hyperslabs_are_those_of_the_library(tmp_path: Path, format_: Any) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=format_) as file:
        for name, size in (("t", None), ("y", 3), ("x", 4)):
            file.createDimension(name, size)
        for name, dims in (("a", "tyx"), ("b", "yx"), ("c", "t")):
            made = file.createVariable(name, "i4", tuple(dims))
            shape = tuple({"t": 5, "y": 3, "x": 4}[d] for d in dims)
            made[:] = np.arange(np.prod(shape)).reshape(shape)
    with open_dataset(path) as dataset, netCDF4.Dataset(path) as file:
        for v in dataset.variables:
            assert v.read is not None
            for start, stop, step in ((0, 3, 1), (1, 3, 2), (2, 3, 1), (0, 0, 1)):
                for cut in range(len(v.shape) + 1):
                    slices = tuple(
                        slice(start, stop, step) if d == cut else slice(0, n, 1) for d, n in enumerate(v.shape)
                    )
                    np.testing.assert_array_equal(v.read(slices), file[v.name][slices].filled())
            np.testing.assert_array_equal(np.concatenate([b.ravel() for b in v.blocks(5)]), file[v.name][:].ravel())


def everything(path: Path) -> Path:
    """Write groups, every type, user-defined types, and attributes of every kind."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createDimension("unused", 7)
        file.createDimension("t", None)
        for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1", str):
            v = file.createVariable(f"v_{code}", code, ("t", "x"))
            if code not in (str, "S1"):
                v.setncattr("one", np.array(3, code))
                v.setncattr("many", np.array([1, 2, 3], code))
                v.setncattr("none", np.array([], code))
        v = file.createVariable("big", ">f4", ("x",), endian="big", zlib=True, chunksizes=(2,))
        v.setncattr_string("texts", ["a", "bü", ""])
        v.setncattr_string("text", "only one")
        v.setncattr("char", "ünits")
        v.setncattr("nothing", "")
        for i in range(20):
            v.setncattr(f"many{i}", f"text {i}")
        file.setncattr("long", "x" * 70_000)
        file.setncattr("longer", np.arange(20_000))
        file.createVariable("x", "f8", ("x",))
        file.createVariable("t", "f8", ("t", "x"))
        group = file.createGroup("one").createGroup("two")
        group.createDimension("x", 5)
        group.createDimension("t2", None)
        group.createVariable("near", "i4", ("x", "t"))
        group.createVariable("far", "i4", ("t2",))[:] = [1, 2]
        group.title = "inner"
        file.createGroup("empty")
        enum = file.createEnumType("u1", "cloud_type", {"clear": 0, "cloudy": 1})
        file.createVariable("enum", enum, ("x",))
        compound = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f4")]), "pair_type")
        file.createVariable("pair", compound, ("x",))
        file.createVariable("ragged", file.createVLType("i4", "ragged_type"), ("x",))
        file["t"][:2] = np.ones((2, 3))
    return path


def test_whatever_netcdf4_can_hold_is_seen_by_both_readers(tmp_path: Path) -> None:
    path = everything(tmp_path / "a.nc")
    assert slow(path) == library(path)
    assert fast(path) == library(path)


def test_renamed_dimensions_and_variables_are_seen_as_the_library_sees_them(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name in "ab":
            file.createDimension(name, 2)
        file.createVariable("a", "f4", ("a",))
        file.createVariable("c", "f4", ("b", "a"))
    with netCDF4.Dataset(path, "a") as file:
        file.renameVariable("a", "e")
        file.renameDimension("b", "c")
    with netCDF4.Dataset(path, "a") as file:
        file.renameVariable("c", "d")
    assert fast(path) == slow(path) == library(path)


def test_a_dimension_that_two_variables_fill_differently_is_as_long_as_the_longer(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createVariable("a", "i4", ("t",))[:] = [1, 2, 3]
        file.createVariable("b", "i4", ("t",))[:1] = [1]
    assert fast(path) == slow(path) == library(path)
    with open_dataset(path) as dataset:
        assert dataset.root.variables["b"].values().tolist() == [1, -2147483647, -2147483647]


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("libver", ["earliest", "latest", "v108"])
def test_plain_hdf5_has_dimensions_without_names(tmp_path: Path, order: bool, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", track_order=order, libver=libver) as file:
        file["z"] = np.zeros((2, 3, 2), "f4")
        file["a"] = np.zeros((3,), "i2")
        file["a"].attrs["units"] = "m"
        file["a"].attrs["flag"] = np.int8(1)
        file.create_group("g")["s"] = 1.0
        for i in range(300):
            file[f"g/many{i}"] = i
            file["g/s"].attrs[f"a{i * 7 % 300}"] = "text" * i
    assert slow(path) == library(path)
    assert fast(path) == library(path)


def test_many_variables_with_many_attributes_are_seen_by_both_readers(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        for i in range(200):
            v = file.createVariable(f"variable_{i}", "f4", ("x",))
            for k in range(i % 13):
                v.setncattr(f"attribute_{k}", f"text {i} {k}")
        for k in range(200):
            file.setncattr(f"global_{k}", k)
    assert fast(path) == library(path)
    assert slow(path) == library(path)


def test_text_that_is_not_utf8_stays_bytes(tmp_path: Path) -> None:
    path = write_cdl(
        'netcdf a { dimensions: x = 1 ; variables: int v(x) ; v:units = "QQC" ; }', tmp_path / "a.nc", "NETCDF3_CLASSIC"
    )
    path.write_bytes(path.read_bytes().replace(b"QQC", b"\xb0QC"))
    with open_dataset(path) as dataset:
        assert dataset.variables[0].attributes["units"] == b"\xb0QC"
    with h5py.File(tmp_path / "b.h5", "w", track_order=True) as file:
        file["v"] = 1
        file["v"].attrs["units"] = np.bytes_(b"\xb0C")
    with open_dataset(tmp_path / "b.h5") as dataset:
        assert dataset.variables[0].attributes["units"] == b"\xb0C"


def test_names_that_are_not_utf8_are_shown_by_their_numbers(tmp_path: Path) -> None:
    path = write_cdl("netcdf a { variables: int vQQ ; }", tmp_path / "a.nc", "NETCDF3_CLASSIC")
    path.write_bytes(path.read_bytes().replace(b"vQQ", b"v\xe9Q"))
    with open_dataset(path) as dataset:
        assert [v.name for v in dataset.variables] == ["v\\xe9Q"]


@pytest.mark.few(1)
@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4"])
def test_a_file_cut_off_anywhere_is_an_error_or_seen_as_before(tmp_path: Path, format_: Any) -> None:
    path = write_cdl(CLASSIC, tmp_path / "a.nc", format_)
    whole = path.read_bytes()
    with open_dataset(path) as dataset:
        before = seen(dataset)
    cut = tmp_path / "cut.nc"
    errors = 0
    for size in range(0, len(whole), max(1, len(whole) // 150)):
        cut.write_bytes(whole[:size])
        try:
            dataset = open_dataset(cut)
        except CfaggError as error:
            errors += "cut.nc" in str(error)
            continue
        with dataset:
            assert seen(dataset) == before
    assert errors > 20


@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_values_that_are_cut_off_are_an_error_when_they_are_read(tmp_path: Path, format_: Any) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=format_) as file:
        file.createDimension("x", 10_000)
        file.createVariable("v", "f8", ("x",))[:] = 1
    raw = path.read_bytes()
    path.write_bytes(raw[:-4000])
    with pytest.raises((FragmentReadError, SourceError), match=r"cut off|truncated"), open_dataset(path) as dataset:
        dataset.variables[0].values()


def test_damaged_bytes_of_a_header_do_not_pass_unnoticed_in_netcdf4(tmp_path: Path) -> None:
    path = write_cdl(CLASSIC, tmp_path / "a.nc")
    raw = path.read_bytes()
    at = raw.index(b"days since")
    path.write_bytes(raw[:at] + b"dayz" + raw[at + 4 :])
    with pytest.raises(SourceError, match=r"a\.nc.*copy or write it again"), open_dataset(path):
        pass


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_changed_bytes_end_in_a_dataset_or_an_error(tmp_path: Path, format_: Any, seed: int) -> None:
    raw = write_cdl(CLASSIC, tmp_path / "a.nc", format_).read_bytes()
    random = np.random.default_rng(seed)
    path = tmp_path / "b.nc"
    ends = []
    for _ in range(60):
        data = bytearray(raw)
        for at in random.integers(4, min(len(data), 2000), 3):
            data[at] = random.integers(256)
        path.write_bytes(data)
        ends.append(end_of(path, format_))
    assert set(ends) <= {"dataset", "error", "left to the library"}
    assert len(set(ends)) > 1


def end_of(path: Path, format_: str) -> str:
    """Open a file by the readers of our own and tell what comes of it."""
    handle = open_regular(str(path))
    try:
        if format_ == "NETCDF4":
            # As if the checksums were right.
            read = parsed(path.read_bytes(), handle)
            if read is None:
                return "left to the library"
            dataset = read[0]
        else:
            dataset = open_classic(handle)
    except CfaggError:
        return "error"
    with dataset:
        assert seen(dataset)
    return "dataset"


def test_external_links_and_external_values_are_not_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["hidden"] = np.arange(3.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["own"] = 1.0
        file["out"] = h5py.ExternalLink("secret.h5", "/hidden")
        file["alias"] = h5py.SoftLink("/own")
        file["through"] = h5py.SoftLink("/out")
        file["nowhere"] = h5py.SoftLink("/absent")
        file["round"] = h5py.SoftLink("/round")
        (tmp_path / "raw.bin").write_bytes(bytes(80))
        file.create_dataset("ext", (10,), "f8", external=[(str(tmp_path / "raw.bin"), 0, 80)])
    with open_dataset(tmp_path / "a.h5") as dataset:
        assert {v.name for v in dataset.variables} == {"own", "alias", "ext"}
        with pytest.raises(AccessError, match="takes its values from another file"):
            dataset.root.variables["ext"].values()


@pytest.mark.parametrize("way", ["name", "library", "h5py"])
@pytest.mark.parametrize("kind", ["external storage", "a virtual dataset"])
def test_values_from_other_files_are_refused_however_the_file_is_opened(tmp_path: Path, kind: str, way: str) -> None:
    path = tmp_path / "a.h5"
    (tmp_path / "raw.bin").write_bytes(bytes(80))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["v"] = np.zeros(10)
    with h5py.File(path, "w") as file:
        if kind == "external storage":
            file.create_dataset("v", (10,), "f8", external=[(str(tmp_path / "raw.bin"), 0, 80)])
        else:
            layout = h5py.VirtualLayout((10,), "f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "v", (10,))
            file.create_virtual_dataset("v", layout)
    with h5py.File(path) as file:
        opened = {
            "name": lambda: open_dataset(path),
            "library": lambda: open_hdf5(open_regular(str(path))),
            "h5py": lambda: open_dataset(file),
        }[way]()
        with opened as dataset, pytest.raises(AccessError, match=f"'/v' of .*takes its values from .*{kind} to"):
            dataset.root.variables["v"].values()


@pytest.mark.parametrize("format_", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_values_are_of_the_file_that_was_opened_whatever_has_its_name_later(tmp_path: Path, format_: str) -> None:
    path, other = tmp_path / "a.nc", tmp_path / "b.nc"
    for name, value in ((path, 1.0), (other, 2.0)):
        with netCDF4.Dataset(name, "w", format=format_) as file:
            file.createDimension("x", 3)
            file.createVariable("v", "f8", ("x",))[:] = value
    with open_dataset(path) as dataset:
        path.rename(tmp_path / "moved.nc")
        other.rename(path)
        assert dataset.root.variables["v"].values().tolist() == [1.0] * 3


def test_an_open_h5py_file_is_looked_at_whatever_has_its_name_later(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file[f"of_{name}"] = 1.0
            file[f"of_{name}"].attrs["of"] = name * 300
    with h5py.File(tmp_path / "a.h5") as file:
        (tmp_path / "b.h5").replace(tmp_path / "a.h5")
        with open_dataset(file) as dataset:
            assert dataset.root.variables["of_a"].attributes["of"] == "a" * 300


def test_no_value_is_read_once_a_dataset_is_closed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = 1.0
    with open_dataset(tmp_path / "a.h5") as dataset:
        pass
    with pytest.raises((AccessError, FragmentReadError)):
        dataset.root.variables["v"].values()


def test_groups_that_link_to_each_other_are_read_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        a, b = file.create_group("a"), file.create_group("a/b")
        b["up"] = a
        b["top"] = file["/"]
        b["v"] = 1
    with open_dataset(tmp_path / "a.h5") as dataset:
        assert [g.path for g in dataset.groups] == ["/", "/a", "/a/b"]


@pytest.mark.parametrize("order", [True, False])
def test_a_thousand_nested_groups_are_seen(tmp_path: Path, order: bool) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=order) as file:
        at = file
        for _ in range(1000):
            at = at.create_group("g", track_order=order)
        at["v"] = 1
    with open_dataset(tmp_path / "a.h5") as dataset:
        assert len(dataset.groups) == 1001
        assert dataset.variables[0].path.endswith("/g/v")


@pytest.mark.soak
def test_an_attribute_of_a_hundred_megabytes_is_told_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createVariable("v", "i4", ())
        file.history = "x" * 100_000_000
        file.title = "short"
    with open_dataset(path) as dataset:
        assert isinstance(dataset.root.attributes["history"], Foreign)
        assert dataset.root.attributes["title"] == "short"


@pytest.mark.soak
@pytest.mark.few(1)
@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_a_hundred_thousand_attributes_take_less_than_ten_seconds(tmp_path: Path, format_: Any) -> None:
    count = 20_000 if format_ == "NETCDF4" else 100_000
    text = "".join(f":a{i} = {i} ;\n" for i in range(10))
    path = write_cdl(f"netcdf a {{ {text} }}", tmp_path / "a.nc", format_)
    if format_ == "NETCDF4":
        with h5py.File(path, "w", track_order=True) as file:
            for i in range(count):
                file.attrs[f"a{i}"] = i
    else:
        body = b"".join(
            len(n).to_bytes(4) + n + bytes(-len(n) % 4) + b"\0\0\0\4\0\0\0\1" + i.to_bytes(4)
            for i, n in ((i, b"a%d" % i) for i in range(count))
        )
        path.write_bytes(b"CDF\1" + bytes(12) + b"\0\0\0\x0c" + count.to_bytes(4) + body + bytes(8))
    before = os.times().user
    with open_dataset(path) as dataset:
        assert len(dataset.root.attributes) == count
    assert os.times().user - before < 10


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"GRIB\0\0\0\2", "it is GRIB"),
        (b"\x1f\x8b\x08abc", "gzip"),
        (b"CDF\x09", "unknown version"),
        (b"hello there", "it starts with b'hello th'"),
    ],
)
def test_what_is_no_netcdf_is_told_with_what_it_is(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "a.nc").write_bytes(content)
    with pytest.raises(SourceError, match=told):
        open_dataset(tmp_path / "a.nc")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file .*absent\.nc; check the path"):
        open_dataset(tmp_path / "absent.nc")
    os.mkfifo(tmp_path / "pipe.nc")
    with pytest.raises(SourceError, match="is a FIFO; only regular files are read"):
        open_dataset(tmp_path / "pipe.nc")


def test_a_huge_declared_size_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2**40)
        file.createVariable("v", "f8", ("x",), chunksizes=(1000,))
    with open_dataset(path) as dataset:
        assert dataset.variables[0].shape == (2**40,)


def test_cdl_is_told_by_its_name_or_its_first_word(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text("// a comment\nnetcdf a { variables: int v ; }")
    (tmp_path / "b.txt").write_text("\n netcdf a { variables: int v ; }")
    for name in ("a.cdl", "b.txt"):
        with open_dataset(tmp_path / name) as dataset:
            assert dataset.format == "cdl"
            assert [v.name for v in dataset.variables] == ["v"]


def test_values_that_cannot_be_read_are_told_once_and_are_no_fault_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.Conventions = "CF-1.13"
        file.createDimension("time", 1000)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.standard_name, time.axis = "days since 2000-01-01", "time", "T"
        time[:] = np.arange(1000)
    path.write_bytes(path.read_bytes()[:-4000])
    with open_dataset(path) as dataset:
        result = run(dataset, Options(data=True))
    codes = [f.code for f in result.findings if f.severity == "error"]
    # One is of the file, which is cut off, and one of the variable, however many rules read it.
    assert codes == ["INT003", "INT003"]
    assert "truncated" in result.findings[[f.code for f in result.findings].index("INT003")].message


def test_a_long_text_that_a_small_file_repeats_without_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        for i in range(40):
            v = file.createVariable(f"v{i}", "i4", ())
            v.setncattr_string("texts", ["x" * 1_000_003 if i == 0 else "yy", "zz"])
    raw = bytearray(path.read_bytes())
    entry = raw.index((1_000_003).to_bytes(4, "little"))
    long = raw[entry : entry + 16]
    at = raw.find(b"\2\0\0\0", 0)
    changed = 0
    while at >= 0:
        # Whatever looks like a text of two bytes in the same form: length, place of a heap, number in it.
        if (
            raw[at + 10 : at + 12] == b"\0\0"
            and raw[at + 4 : at + 8] != b"\0\0\0\0"
            and raw[at + 12 : at + 16] != bytes(4)
        ):
            raw[at : at + 16] = long
            changed += 1
        at = raw.find(b"\2\0\0\0", at + 16)
    assert changed > 20
    path.write_bytes(raw)
    with pytest.raises(SourceError, match=r"a\.nc.*copy or write it again"):
        open_dataset(path)


def test_a_dataset_of_many_names_is_read_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["v"] = 1
        group = file.create_group("g", track_order=True)
        for i in range(200):
            file["v"].attrs[f"a{i}"] = i
        for i in range(3000):
            file[f"v{i}"] = file["v"]
            file[f"g{i}"] = group
    before = os.times().user
    with open_dataset(tmp_path / "a.h5") as dataset:
        assert len(dataset.variables) == 3001
        assert len(dataset.groups) == 2
    assert os.times().user - before < 5


def open_files() -> set[str]:
    return {os.path.realpath(n) for n in Path("/proc/self/fd").iterdir()}


@needs_proc
def test_a_closed_dataset_lets_go_of_its_file(tmp_path: Path) -> None:
    for name, options in (("a.h5", {}), ("b.h5", {"track_order": True, "libver": "latest"})):
        with h5py.File(tmp_path / name, "w", **options) as file:
            file["v"] = np.arange(3)
            file["link"] = h5py.SoftLink("/v")  # for the library to follow
        with open_dataset(tmp_path / name) as dataset:
            assert dataset.variables[0].values().tolist() == [0, 1, 2]
            assert str(tmp_path / name) in open_files()
        assert str(tmp_path / name) not in open_files()


def test_a_file_that_the_process_has_open_can_be_checked(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = 1
        file["link"] = h5py.SoftLink("/v")
    with h5py.File(tmp_path / "a.h5"), open_dataset(tmp_path / "a.h5") as dataset:
        assert dataset.variables[0].values() == 1


def test_odd_datasets_of_hdf5_can_be_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["nothing"] = h5py.Empty("f4")
        file["half"] = np.ones(2, "f2")
        file["flag"] = np.array([True, False])
        file["complex"] = np.ones(2, "c8")
        file["fixed"] = np.array([b"abc", b"d"])
        file["letters"] = np.array([b"a", b"b"], "S1")
        file["texts"] = ["x", "\u00fc"]
        file["empty"] = np.zeros((0, 3))
        file["half"].attrs["flag"] = True
        file["half"].attrs["many"] = np.array([[1, 2], [3, 4]], ">i2")
        file["half"].attrs["nothing"] = h5py.Empty("S1")
        file["half"].attrs["texts"] = np.array([b"a", b"bc"])
    with open_dataset(tmp_path / "a.h5") as dataset:
        variables = dataset.root.variables
        kinds = {n: v.kind for n, v in variables.items()}
        assert kinds == {
            "nothing": "other", "half": "float", "flag": "other", "complex": "other", "fixed": "string",
            "letters": "char", "texts": "string", "empty": "float",
        }  # fmt: skip
        assert variables["nothing"].values().shape == ()
        assert variables["half"].values().tolist() == [1, 1]
        assert variables["fixed"].texts().tolist() == ["abc", "d"]
        assert variables["texts"].texts().tolist() == ["x", "\u00fc"]
        assert variables["letters"].texts().tolist() == "ab"
        assert variables["empty"].values().shape == (0, 3)
        assert next(iter(variables["flag"].blocks())).size == 2
        half = variables["half"].attributes
        assert isinstance(half["flag"], Foreign)
        assert isinstance(half["many"], Foreign)
        assert (half["nothing"], half["texts"]) == ("", ("a", "bc"))


def test_integers_that_numpy_lacks_do_not_keep_the_rest_of_a_file_from_being_checked(tmp_path: Path) -> None:
    wide = h5py.h5t.STD_U64BE.copy()
    wide.set_size(16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        h5py.h5d.create(file.id, b"wide", wide, h5py.h5s.create_simple((2,)))
        h5py.h5a.create(file["x"].id, b"start", wide, h5py.h5s.create(h5py.h5s.SCALAR))
    with open_dataset(tmp_path / "a.h5") as dataset:
        variables = dataset.root.variables
        assert {n: v.kind for n, v in variables.items()} == {"x": "float", "wide": "other"}
        assert variables["x"].values().tolist() == [0, 1, 2]
        assert isinstance(variables["x"].attributes["start"], Foreign)
    assert "TYP001" in {f.code for f in cfagg.check(tmp_path / "a.h5").findings if f.variable == "wide"}


def test_dimensions_come_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 3)
        file.createVariable("bounds", "f8", ("time",))
        for name in ("z", "b", "lat"):
            file.createDimension(name, 2)
        file.createVariable("lat", "f8", ("lat",))
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("z", "f8", ("z",))
        file.createDimension("a", 4)
        file.createVariable("time", "f8", ("time",))
    assert fast(path) == slow(path) == library(path)
    with open_dataset(path) as dataset:
        assert list(dataset.root.dimensions) == ["time", "z", "b", "lat", "a"]


def test_many_variables_of_one_named_type_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        names = {f"a long name of a member that takes room {i}": i for i in range(200)}
        cloud = file.createEnumType("u1", "cloud", names)
        for i in range(100):
            file.createVariable(f"v{i}", cloud, ("x",))
    assert fast(path) == slow(path) == library(path)


def test_a_named_type_that_refers_to_itself_is_left_to_the_library(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["kind"] = np.dtype("i4")
        file.create_dataset("v", (1,), file["kind"])
        at = h5py.h5o.get_info(file["kind"].id).addr
    raw = path.read_bytes()
    place = at.to_bytes(8, "little")
    # A message of a type: its number, size and flags; then version and kind of a reference, and the place.
    reference = raw.index(place, raw.index(b"\3\x0a\0\3")) - 2
    own = raw.index(b"\3\x0c\0")
    changed = bytearray(raw)
    changed[own + 3] |= 2
    changed[own + 4 : own + 14] = raw[reference : reference + 10]
    assert parsed(bytes(changed), Borrowed("a.h5")) is None
    assert parsed(raw, Borrowed("a.h5")) is not None


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["test1.nc", "sst.nca"])
def test_opening_netcdf_loads_no_other_library(name: str) -> None:
    code = (
        "import sys; from cfagg.checking.opening import open_dataset\n"
        f"open_dataset({str(SAMPLES / name)!r})\n"
        "heavy = ('numba', 'zarr', 'pandas', 'xarray', 'dask', 'netCDF4', 'h5py')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
