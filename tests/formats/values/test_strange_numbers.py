"""What crashes the netCDF library: numbers of a type that netCDF lacks, some fill values, texts in compounds."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, UnreadableAggregationError, UnsupportedError
from cfagg.formats.values.netcdf import opened

VALUES = np.array([0, 1.5, -2, 65504])


@pytest.fixture(params=["f2", ">f2", "g"])
def path(tmp_path, request):
    """A file with them, one dataset with a fill value of its own, and an ordinary dataset beside."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("filled", data=VALUES.astype(request.param), fillvalue=1.5)
        file.create_dataset("packed", data=VALUES.astype(request.param), chunks=(2,), compression="gzip")
        file["plain"] = VALUES.astype("f4")
    return tmp_path / "a.h5"


def test_they_are_read_as_the_hdf5_library_reads_them(path):
    found = cfagg.read(path)
    with h5py.File(path) as file:
        for name in ("filled", "packed", "plain"):
            assert found[name].dtype == file[name].dtype.newbyteorder("=")
            np.testing.assert_array_equal(found[name].values, file[name][...])


@pytest.mark.full
@pytest.mark.parametrize("words", ["show", "check --data", "convert -o out.zarr"])
def test_the_command_survives_them(path, tmp_path, words):
    verb, *rest = words.split()
    done = subprocess.run(
        [sys.executable, "-m", "cfagg", verb, str(path), *rest],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    # Zarr has no long doubles.
    assert done.returncode in (0, 1, 2), done.stderr
    assert "unexpected" not in done.stderr


def test_the_netcdf_library_does_not_get_the_file(path):
    with pytest.raises(UnsupportedError, match="numbers of a type that netCDF lacks"), opened(str(path)):
        pass


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["S5", h5py.string_dtype("utf-8", 6)])
def test_strings_of_fixed_length_with_a_fill_value_do_not_crash_the_library(tmp_path, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", (2,), kind, fillvalue=b"xyz")
        file["plain"] = np.arange(3.0)
    code = f"""
import cfagg
with cfagg.read({str(tmp_path / "a.h5")!r}) as found:
    print(found["text"].values.tolist(), found["plain"].values.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "['xyz', 'xyz'] [0.0, 1.0, 2.0]\n", done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("kind", ["S1", "S5"])
def test_strings_that_the_netcdf_library_frees_rightly_are_read(tmp_path, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", data=np.array([b"a", b"b"], kind), fillvalue=b"x" if kind == "S1" else None)
    with cfagg.read(tmp_path / "a.h5") as found:
        assert b"".join(np.ravel(found["text"].values).astype("S2").tolist()) == b"ab"


@pytest.mark.parametrize("where", ["values", "array", "attribute"])
def test_compounds_with_texts_are_refused_and_the_rest_of_the_file_is_read(tmp_path, where):
    text = ("s", "S300", (2,)) if where == "array" else ("s", "S300")
    records = np.zeros(100, [text, ("n", "i4")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["plain"] = np.arange(3.0)
        if where == "attribute":
            file["type"] = records.dtype
            file["record"] = np.arange(3)
            file["record"].attrs.create("notes", records, dtype=file["type"])
        else:
            file["record"] = records
    code = f"""
import cfagg
path = {str(tmp_path / "a.h5")!r}
try:
    cfagg.read(path)
except cfagg.errors.UnreadableAggregationError as error:
    print("'record'" in str(error) and "texts in compounds" in str(error))
with cfagg.read(path, variables="plain") as found:
    print(found["plain"].values.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == ["True", "[0.0, 1.0, 2.0]"], done.stderr
    assert done.returncode == 0


def test_compounds_of_single_characters_are_read(tmp_path):
    records = np.array([(b"a", 1), (b"b", 2)], [("s", "S1"), ("n", "i4")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["record"] = records
    assert cfagg.read(tmp_path / "a.h5")["record"].values.tolist() == records.tolist()


def test_what_only_the_netcdf_library_decodes_is_left_out_of_a_file_that_it_does_not_get(path, tmp_path):
    with h5py.File(path, "a") as file:
        file.create_dataset("rounded", data=np.arange(8), chunks=(4,), scaleoffset=0)
        file.create_dataset("outside", (3,), "f4", external=[("/elsewhere", 0, 12)])
    with pytest.raises(UnreadableAggregationError, match="variable 'rounded' cannot be read: only the netCDF library"):
        cfagg.read(path)
    found = cfagg.read(path, variables=["plain", "outside"])
    assert found["plain"].values.tolist() == VALUES.tolist()
    with pytest.raises(AccessError, match="external storage"):
        found["outside"].load()
    if h5py.File(path)["filled"].dtype.itemsize < 8:  # Zarr has no long doubles
        report = cfagg.convert(
            path, tmp_path / "a.zarr", variables=["plain", "filled", "packed", "rounded"], on_loss="drop"
        )
        assert [loss.variable for loss in report.losses] == ["rounded"]
