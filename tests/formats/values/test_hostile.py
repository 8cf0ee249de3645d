"""No file makes cfagg read another one: whatever HDF5 knows to name other files by, and whoever reads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.stored import NetcdfReader
from cfagg.errors import AccessError, CfaggError, UnsupportedError
from cfagg.formats.hdf5 import library_variables as hdf5
from cfagg.formats.hdf5 import links as hdf5_links
from cfagg.formats.hdf5 import variables as hdf5_header
from cfagg.formats.values import locate, netcdf, read
from cfagg.storage import files
from cfagg.storage.access import Access
from cfagg.storage.files import CONTEXT_SOURCE
from cfagg.storage.handles import handles
from tests import nca_files
from tests.formats.values import hostile

WHOLE = [slice(0, 4, 1)]


def test_no_entry_point_gives_away_what_a_file_names_nor_waits_for_it(tmp_path):
    names = list(hostile.FILES)
    hostile.build(tmp_path, names)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.formats.values.hostile", str(tmp_path), *names],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    lines = [line.split("\t") for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, f"{lines[-1:]}: {ran.stderr[-2000:]}"
    assert {line[0] for line in lines} == set(names)
    assert [line for line in lines if line[2] not in ("refused", "done")] == []


HARMLESS = ["unrelated", "coordinate", "virtual_coordinate"]
CIRCLES = ["circle", "soft_circle"]
REFUSED = [n for n in hostile.FILES if n not in (*HARMLESS, *CIRCLES)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    hostile.build(folder)
    return folder / "home"


@pytest.mark.parametrize("name", REFUSED)
def test_the_variable_that_leads_out_of_its_file_is_refused_for_that_reason(home, name):
    group = "/g" if name in ("group", "in_group") else "/"
    variable = "x"
    with pytest.raises(
        AccessError, match=r"its values from another file \((external storage|an external link|a virtual)"
    ):
        NetcdfReader(home / f"{name}.nc", group, variable)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_variables_beside_those_that_lead_out_of_a_file_are_read(home, name):
    assert NetcdfReader(home / f"{name}.nc", "/", "x").read([slice(None)]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("block", [0, 512])
def test_a_file_that_only_stores_other_variables_outside_is_opened(tmp_path, block):
    hostile.secrets(tmp_path / "outside")
    with h5py.File(tmp_path / "a.nc", "w", userblock_size=block) as file:
        hostile.stored(file, tmp_path / "outside")
        file["y"] = np.arange(4.0)
        file["kind"] = np.array([1, 0], h5py.enum_dtype({"a": 0, "b": 1}, "i1"))
    with cfagg.read(tmp_path / "a.nc") as ds:
        assert ds.y.values.tolist() == [0, 1, 2, 3]
        assert ds.kind.values.tolist() == [1, 0]
        assert ds.x.shape == (4,)
        with pytest.raises(AccessError, match="external storage to"):
            _ = ds.x.values


# legal files that look unusual


def odd_names():
    yield np.full((2, 2), hostile.BARE, "S70"), None
    yield 7, None
    yield [1.5, 2.5], None
    yield "temperature", None
    yield np.array("temperature", "S20"), "DIMENSION_SCALE"
    yield hostile.BARE, None  # without a class it is the variable's own attribute


@pytest.mark.parametrize(("name", "kind"), list(odd_names()))
def test_a_variable_with_an_odd_name_attribute_is_read(tmp_path, name, kind):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"] = np.arange(4.0)
        file["x"].attrs["NAME"] = name
        if kind is not None:
            file["x"].attrs["CLASS"] = np.bytes_(kind)
    located = locate(str(tmp_path / "a.nc"), "x", CONTEXT_SOURCE)
    assert read(located, WHOLE, CONTEXT_SOURCE).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("block", [512, 1024, 2**21])
def test_a_file_with_a_user_block_is_read_as_any_other(tmp_path, block):
    with h5py.File(tmp_path / "a.nc", "w", userblock_size=block) as file:
        file.create_dataset("x", data=np.arange(4.0), chunks=(2,), compression="gzip")
        file["text"] = np.array(["a", "bc"], object)
    with cfagg.read(tmp_path / "a.nc") as ds:
        assert ds.x.values.tolist() == [0, 1, 2, 3]
        assert ds.text.values.tolist() == ["a", "bc"]


def test_types_that_only_the_library_reads_pass_the_gate(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 3)
        kind = ds.createEnumType(np.uint8, "kind", {"no": 0, "yes": 1})
        ds.createVariable("e", kind, ("x",))[:] = [0, 1, 0]
        ragged = ds.createVLType("i4", "ragged")
        ds.createGroup("g").createVariable("v", ragged, ("x",))[0] = np.arange(3, dtype="i4")
        ds.createVariable("s", str, ("x",))[:] = np.array(["a", "", "ccc"], object)
    path = tmp_path / "a.nc"
    assert NetcdfReader(path, "/", "e").read([slice(None)]).tolist() == [0, 1, 0]
    assert NetcdfReader(path, "/g", "v").read([slice(0, 1)])[0].tolist() == [0, 1, 2]
    assert NetcdfReader(path, "/", "s").read([slice(None)]).tolist() == ["a", "", "ccc"]


def test_links_within_a_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["g/deep/x"] = np.arange(4.0)
        file["soft"] = h5py.SoftLink("/g/deep/x")
        file["chain"] = h5py.SoftLink("soft")
        file["folder"] = h5py.SoftLink("g/deep")
        file["hard"] = file["g/deep/x"]
    for name in ("soft", "chain", "folder/x", "hard"):
        assert NetcdfReader(tmp_path / "a.nc", "/", name).read([slice(None)]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("NAME", np.full(1000, "x" * 60, "S60")),
        ("CLASS", np.full(1000, "DIMENSION_SCALE", "S16")),
        ("_Netcdf4Dimid", np.arange(8000)),
        ("_Netcdf4Coordinates", np.arange(8000, dtype="i4")),
        ("_Netcdf4Coordinates", np.arange(1, dtype="i8")),
        ("DIMENSION_LIST", np.full(1, "x" * 1000, "S1000")),
        ("_NCProperties", np.full(1000, "version=2", "S10")),
    ],
)
def test_attributes_that_the_netcdf_library_would_read_beyond_its_memory_are_refused(tmp_path, attribute, value):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"] = np.arange(4.0)
        if attribute != "CLASS":
            file["x"].make_scale("x")
        owner = file if attribute == "_NCProperties" else file["x"]
        owner.attrs.create(attribute, value)
    with pytest.raises(CfaggError, match=f"attribute '{attribute}'.* expected at most"):
        cfagg.read(tmp_path / "a.nc")


# what is opened


def test_a_partition_that_becomes_a_link_between_check_and_opening_is_refused(tmp_path, monkeypatch):
    path, secret = aggregation(tmp_path)
    part = tmp_path / "home" / "a.nc"
    opened = files._open

    def swaps(name, context):
        if name == str(part) and not part.is_symlink():
            part.unlink()
            part.symlink_to(secret)
        return opened(name, context)

    monkeypatch.setattr(files, "_open", swaps)
    reader = AggregationReader(cfagg.open_aggregation(path, "tas"), Access(path))
    with pytest.raises(AccessError, match=r"partition \(0,\): .*secret\.nc and lies outside"):
        reader.read([slice(None)])
    assert part.is_symlink()
    allowed = AggregationReader(cfagg.open_aggregation(path, "tas"), Access(path, [secret.parent]))
    assert allowed.read([slice(None)]).tolist() == hostile.SECRET.tolist()


def test_a_folder_that_becomes_a_link_between_check_and_opening_is_refused(tmp_path, monkeypatch):
    path, secret = aggregation(tmp_path, "parts/secret.nc")
    folder = tmp_path / "home" / "parts"
    opened = files._open

    def swaps(name, context):
        if name.startswith(str(folder)) and not folder.is_symlink():
            folder.rename(tmp_path / "moved")
            folder.symlink_to(secret.parent)
        return opened(name, context)

    monkeypatch.setattr(files, "_open", swaps)
    reader = AggregationReader(cfagg.open_aggregation(path, "tas"), Access(path))
    with pytest.raises(AccessError, match=r"secret\.nc and lies outside"):
        reader.read([slice(None)])


def test_what_was_found_is_not_read_from_the_file_that_took_its_place(tmp_path):
    _, secret = aggregation(tmp_path)
    part = tmp_path / "home" / "a.nc"
    located = locate(str(part), "x", CONTEXT_SOURCE)
    handles.shrink(0)
    part.unlink()
    part.symlink_to(secret)
    with pytest.raises(CfaggError, match="written or replaced while it was read"):
        read(located, WHOLE, CONTEXT_SOURCE)


def aggregation(folder, name="a.nc"):
    """Return an aggregation of one file, and a secret of the same form outside its folder."""
    hostile.secrets(folder / "outside")
    (folder / "home" / name).parent.mkdir(parents=True)
    nca_files.fragment(folder / "home" / name, "x", np.arange(4.0), ["t"])
    content = nca_files.array(["t"], [[0, 4]], lambda *_: {"data": {"file": name, "ncvar": "x", "shape": [4]}})
    path = nca_files.aggregation(folder / "home" / "agg.nca", "tas", "f8", {"t": 4}, content)
    return path, folder / "outside" / "secret.nc"


def test_no_read_goes_outside_while_another_process_swaps_a_partition_for_a_link(tmp_path):
    path, secret = aggregation(tmp_path)
    code = f"""
import os
os.chdir({str(tmp_path / "home")!r})
os.link("a.nc", "kept")
while os.getppid() == {os.getpid()}:
    os.symlink({str(secret)!r}, "next"); os.replace("next", "a.nc")
    os.link("kept", "next"); os.replace("next", "a.nc")
"""
    with subprocess.Popen([sys.executable, "-c", code]) as swapper:
        try:
            reader = AggregationReader(cfagg.open_aggregation(path, "tas"), Access(path))
            right = refused = 0
            # On a busy machine the other process may come late.
            end = time.monotonic() + 60
            while right + refused < 3000 or (not (right and refused) and time.monotonic() < end):
                try:
                    found = reader.read([slice(None)]).tolist()
                except CfaggError:
                    refused += 1
                else:
                    assert found == [0, 1, 2, 3]
                    right += 1
        finally:
            swapper.kill()
    assert right
    assert refused


# mutants: each check alone keeps the secret


def test_the_check_of_the_gate_is_what_refuses(tmp_path, monkeypatch):
    """Without the list of what a dataset refers to, the secret comes out: the files are what they are meant to be."""
    monkeypatch.setattr(hdf5, "outside", lambda dataset: [])
    names = ("storage_block_512", "storage_block_4096", "virtual", "virtual_block")
    hostile.build(tmp_path, names)
    for name in names:
        found = NetcdfReader(tmp_path / "home" / f"{name}.nc", "/", "x").read([slice(None)])
        assert found.tolist() == hostile.SECRET.tolist()


def test_a_variable_of_which_nothing_is_known_is_refused(home, monkeypatch, tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 3)
        kind = ds.createEnumType(np.uint8, "kind", {"no": 0, "yes": 1})
        ds.createVariable("e", kind, ("x",))[:] = [0, 1, 0]
    monkeypatch.setattr(hdf5, "reach", lambda *_: None)
    with pytest.raises(AccessError, match="it is unclear whether"):
        locate(str(tmp_path / "a.nc"), "e", CONTEXT_SOURCE)


def test_what_the_library_understands_otherwise_than_our_parser_is_checked_again(tmp_path, monkeypatch):
    hostile.secrets(tmp_path / "outside")
    with h5py.File(tmp_path / "a.nc", "w", libver="v110") as file:
        file.create_dataset("x", data=np.arange(4.0), chunks=(4,), compression="gzip")
    located = locate(str(tmp_path / "a.nc"), "x", CONTEXT_SOURCE)
    with h5py.File(tmp_path / "other.nc", "w") as file:
        hostile.stored(file, tmp_path / "outside")
    other = handles.get(str(tmp_path / "other.nc"))
    checked = files_checked(other)
    with pytest.raises(AccessError, match="external storage"):
        hdf5.dataset(checked, CONTEXT_SOURCE)
    assert read(located, WHOLE, CONTEXT_SOURCE).tolist() == [0, 1, 2, 3]


def files_checked(handle):
    from cfagg.storage.gate import admit

    return admit(handle, "x", ())


def test_our_parser_finds_no_variable_that_leads_out_of_its_file(home):
    for name in hostile.FILES:
        with files.open_regular(str(home / f"{name}.nc")) as handle:
            located = hdf5_header.find(handle, handle.some(2**13, 0), "x")
            assert located is None or name in (*HARMLESS, *CIRCLES)


def test_the_netcdf_library_never_gets_a_file_that_it_would_follow_out_of(home):
    for name in ("link", "link_fifo", "soft", "group", "unlimited_fifo", "printf_fifo", "unrelated", "link_block"):
        with pytest.raises(AccessError):
            netcdf.check_file(handles.get(str(home / f"{name}.nc")), CONTEXT_SOURCE)
    for name in CIRCLES:
        handle = handles.get(str(home / f"{name}.nc"))
        if name == "soft_circle":
            with pytest.raises(UnsupportedError, match="leads to nothing"):
                hdf5_links.followed(handle, CONTEXT_SOURCE)
        else:
            assert hdf5_links.followed(handle, CONTEXT_SOURCE) is None


def test_a_polyglot_of_classic_netcdf_and_hdf5_is_what_its_first_bytes_say(tmp_path):
    path = nca_files.fragment(tmp_path / "classic.nc", "x", np.arange(4.0), ["t"], format="NETCDF3_CLASSIC")
    head = path.read_bytes()
    hostile.secrets(tmp_path / "outside")
    with h5py.File(tmp_path / "a.nc", "w", userblock_size=1024) as file:
        hostile.stored(file, tmp_path / "outside")
    data = bytearray((tmp_path / "a.nc").read_bytes())
    data[: len(head)] = head
    (tmp_path / "a.nc").write_bytes(data)
    assert len(head) <= 1024
    assert NetcdfReader(tmp_path / "a.nc", "/", "x").read([slice(None)]).tolist() == [0, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cfagg.read(tmp_path / "a.nc").x.values.tolist() == [0, 1, 2, 3]
