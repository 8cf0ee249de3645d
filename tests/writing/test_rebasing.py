"""Moved references: other names of files in every dialect that is written, and nothing else."""

from __future__ import annotations

import shutil
import stat

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, OptionError, TargetError, TargetExistsError, UnsupportedError
from cfagg.runtime.targets import DIALECTS
from tests import nca_files

VALUES = np.arange(12, dtype="f4").reshape(4, 3)


@pytest.fixture(params=DIALECTS)
def path(request, tmp_path):
    """An aggregation in each dialect, with its fragments in ``parts``."""
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})
    if request.param == "NCA-0.1":
        return made
    cfagg.convert(made, tmp_path / "agg.nc", to=request.param)
    return tmp_path / "agg.nc"


def files(path):
    return list(cfagg.open_aggregation(path, "tas").partitions.files)


def test_references_are_moved_in_place_as_they_are_written(path):
    dialect = cfagg.open_aggregation(path, "tas").dialect
    (path.parent / "parts").rename(path.parent / "other parts")
    report = cfagg.rebase(path, "parts", "other parts")
    assert "2 file names moved from parts to other parts" in report.notes
    assert files(path) == ["other parts/0_0.nc", "other parts/1_0.nc"]
    assert cfagg.open_aggregation(path, "tas").dialect == dialect
    np.testing.assert_array_equal(cfagg.read(path)["tas"], VALUES)
    assert not list(path.parent.glob(".*"))


@pytest.mark.few(1)
def test_a_file_that_is_replaced_keeps_its_mode(path):
    path.chmod(0o640)
    cfagg.rebase(path, "parts", "other")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.few(1)
def test_a_file_that_is_written_to_while_it_is_copied_stays_as_it_is_then(path, monkeypatch):
    copied = shutil.copymode

    def meanwhile(*names):
        copied(*names)
        with path.open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(shutil, "copymode", meanwhile)
    before = path.read_bytes()
    with pytest.raises(TargetError, match="changed while it was copied"):
        cfagg.rebase(path, "parts", "other")
    assert path.read_bytes() == before + b"more"
    assert not list(path.parent.glob(".*"))


@pytest.mark.few(1)
def test_what_a_file_may_not_read_is_not_made_readable_by_moving_other_references(path):
    (path.parent / "foreign").mkdir()
    cfagg.rebase(
        path, path.parent / "parts/1_0.nc", path.parent / "foreign/1_0.nc", output=path.parent / "foreign/a.nc"
    )
    source, target = path.parent / "foreign/a.nc", path.parent / "new.nc"
    with pytest.raises(AccessError, match=r"parts/0_0\.nc'.*new\.nc was not written"):
        cfagg.rebase(source, path.parent / "foreign", path.parent / "data", output=target)
    link = path.parent / "data/0_0.nc"
    link.parent.mkdir()
    link.symlink_to(path.parent / "secret.nc")
    with pytest.raises(AccessError, match=r"secret\.nc.*new\.nc was not written"):
        cfagg.rebase(source, path.parent / "parts", path.parent / "data", output=target)
    assert not target.exists()
    link.unlink()
    for old, new in ((path.parent / "parts", path.parent / "data"), ("../parts", "data")):
        cfagg.rebase(source, old, new, output=target, overwrite=True)
        assert sorted(files(target)) == ["data/0_0.nc", "foreign/1_0.nc"]


def test_references_into_a_directory_stay_relative(path):
    cfagg.rebase(path, path.parent / "parts", path.parent / "archive/2000")
    assert files(path) == ["archive/2000/0_0.nc", "archive/2000/1_0.nc"]


def test_whole_components_of_paths_are_compared(path):
    with pytest.raises(OptionError, match=r"no reference begins with 'par' or lies in it; one is 'parts/0_0.nc'"):
        cfagg.rebase(path, "par", "x")


@pytest.mark.few(1)
@pytest.mark.parametrize("names", [("", "x"), ("parts", "")])
def test_an_empty_name_is_not_taken_for_the_root(path, names):
    with pytest.raises(OptionError, match=r"'' is not the name of a directory; '\.' is this one"):
        cfagg.rebase(path, *names)


@pytest.mark.few(2)
def test_references_become_urls(path):
    cfagg.rebase(path, "parts", "https://host/data")
    assert files(path) == ["https://host/data/0_0.nc", "https://host/data/1_0.nc"]
    cfagg.rebase(path, "https://host/data", "parts")
    np.testing.assert_array_equal(cfagg.read(path)["tas"], VALUES)


def test_another_file_is_written_with_the_same_meaning_elsewhere(path, tmp_path):
    (tmp_path / "deep").mkdir()
    shutil.copytree(tmp_path / "parts", tmp_path / "moved/parts")
    before = path.read_bytes()
    cfagg.rebase(path, tmp_path / "parts", tmp_path / "moved/parts", output=tmp_path / "deep/b.nc")
    assert files(tmp_path / "deep/b.nc") == ["../moved/parts/0_0.nc", "../moved/parts/1_0.nc"]
    assert path.read_bytes() == before
    np.testing.assert_array_equal(cfagg.read(tmp_path / "deep/b.nc", allow=[tmp_path])["tas"], VALUES)
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.rebase(path, "parts", "x", output=tmp_path / "deep/b.nc")


def test_a_file_to_which_the_references_refer_is_not_replaced(path, tmp_path):
    shutil.copytree(tmp_path / "parts", tmp_path / "moved/parts")
    for folder in ("parts", "moved/parts"):
        with pytest.raises(TargetError, match="its values would be lost"):
            cfagg.rebase(
                path, tmp_path / "parts", tmp_path / "moved/parts", output=tmp_path / folder / "0_0.nc", overwrite=True
            )
    np.testing.assert_array_equal(cfagg.read(path)["tas"], VALUES)


def test_everything_else_in_the_file_stays(path):
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("more", "f8", ("t",), zlib=True)[:] = [1, 2, 3, 4]
        file.history = "kept"
    cfagg.rebase(path, "parts", "q")
    with netCDF4.Dataset(path) as file:
        assert file["more"][:].tolist() == [1, 2, 3, 4]
        assert file["more"].filters()["zlib"]
        assert (file.history, file["tas"].units) == ("kept", "K")


@pytest.mark.filterwarnings("ignore::cfagg.errors.RepairWarning")
def test_dialects_that_are_not_written_are_refused(tmp_path):
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 4], [0, 3]], "tas", {"units": "K"})
    cfagg.convert(made, tmp_path / "b.nc", to="CFA-0.4")
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as file:
        file.Conventions = "CF-1.6 CFA-0.3"
    with pytest.raises(UnsupportedError, match=r"CFA-0.3, which can be read but not written: convert the file first"):
        cfagg.rebase(tmp_path / "b.nc", "parts", "x")


def test_a_file_without_aggregations_has_nothing_to_move(tmp_path):
    nca_files.fragment(tmp_path / "p.nc", "tas", VALUES, ["t", "x"])
    with pytest.raises(OptionError, match="no aggregations"):
        cfagg.rebase(tmp_path / "p.nc", "a", "b")
