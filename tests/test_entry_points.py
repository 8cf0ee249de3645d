"""Every way into the library and the command, with what is no input: one clear error, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import cfagg
from cfagg.cli import main as cli
from cfagg.errors import CfaggError, SourceNotFoundError
from cfagg.observations.checking import check_store

RECIPE = {"dates": {"start": 2003, "end": 2003, "frequency": "1d"}, "output": {"layout": "tabular"}}

FILES: dict[str, Callable[[str], Any]] = {
    "read": cfagg.read,
    "show": cfagg.show,
    "check": cfagg.check,
    "convert": lambda name: cfagg.convert(name, "out.zarr"),
    "open_aggregation": lambda name: cfagg.open_aggregation(name, "tas"),
    "engine of xarray": lambda name: xr.open_dataset(name, engine="cfagg"),
    "input of a recipe": lambda name: cfagg.create_observations(
        {**RECIPE, "input": {"netcdf": {"path": name}}}, "out.zarr"
    ),
}
STORES: dict[str, Callable[[str], Any]] = {
    "accumulate": lambda name: cfagg.accumulate(name, "tas"),
    "open_accumulated": lambda name: cfagg.open_accumulated(name, "tas"),
    "open_observations": lambda name: cfagg.open_observations(name, 2000, 2001),
    "check of observations": check_store,
}
VERBS = {
    "show": ["show", "{}"],
    "show --references": ["show", "{}", "--references"],
    "convert": ["convert", "{}", "out.zarr"],
    "check": ["check", "{}"],
    "check --fix": ["check", "--fix", "{}"],
    "accumulate": ["accumulate", "{}", "tas"],
    "mean": ["mean", "{}", "tas"],
    "obs create": ["obs", "create", "{}", "out.zarr"],
    "obs show": ["obs", "show", "{}"],
    "obs window": ["obs", "window", "{}", "2000-01-01"],
    "obs check": ["obs", "check", "{}"],
    "obs index": ["obs", "index", "{}"],
}
#: Name of a file -> its first bytes, and what errors call it.
KINDS = {
    "a.pp": ((256).to_bytes(4, "big") + bytes(256) + (256).to_bytes(4, "big"), "PP"),
    "a.grib": (b"GRIB\0\0\0\2" + bytes(100), "GRIB"),
    "a.hdf": (b"\x0e\x03\x13\x01" + bytes(100), "HDF4"),
    "empty.nc": (b"", "empty"),
    "text.nc": (b"hello\n", "hello"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with these files and an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name, (content, _) in KINDS.items():
        Path(name).write_bytes(content)
    Path("folder").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_is_written(folder: Path) -> Any:
    yield
    assert {p.name for p in folder.iterdir()} == {*KINDS, "folder"}


@pytest.mark.parametrize("name", ["absent.nc", "folder/absent.nc", "a.pp/absent.nc"])
@pytest.mark.parametrize("function", [*FILES, *STORES])
def test_what_is_not_there_is_a_file_not_found_error(function: str, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="absent") as caught:
        (FILES | STORES)[function](name)
    assert isinstance(caught.value, SourceNotFoundError)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("function", FILES)
def test_files_of_other_formats_are_called_by_their_name(function: str, name: str) -> None:
    with pytest.raises(CfaggError, match=KINDS[name][1]) as caught:
        FILES[function](name)
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("function", [f for f in FILES if f != "check"])
def test_a_directory_is_called_one(function: str) -> None:
    with pytest.raises(CfaggError, match=r"folder(: a| is a) directory|folder is not a Zarr store") as caught:
        FILES[function]("folder")
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("function", STORES)
def test_a_file_in_the_place_of_a_store_is_called_a_file(function: str) -> None:
    with pytest.raises(CfaggError, match=r"a\.grib is not an? .* store: it is a file, .* cfagg") as caught:
        STORES[function]("a.grib")
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.few(30)
@pytest.mark.parametrize("name", ["absent.nc", "folder", *KINDS])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_answers_what_is_no_input_with_status_2_and_one_message(
    verb: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main([a.format(name) for a in VERBS[verb]])
    out, err = capsys.readouterr()
    if (verb, name) == ("check", "folder"):  # it holds no dataset to check
        assert status in (0, 2)
        return
    if (verb, name) == ("obs check", "folder"):  # a directory may be a damaged store: that is a finding
        assert status == 1
        return
    assert status == 2
    assert name in out + err
    assert "Traceback" not in err
    assert "bug" not in err
    # `check` puts what it could not open into its report.
    assert verb.startswith("check") or (out == "" and err.startswith("error: ") and err.count("\n") == 1)


@pytest.mark.parametrize("given", [["a.nc", "b.nc"], ("a.nc",), "*.nc", "data/model_[ab].nc", [Path("a.nc")]])
def test_several_files_given_to_read_that_are_not_there_are_an_error(folder: Path, given: Any) -> None:
    with pytest.raises(CfaggError, match=r"there is no file|no file matches|cannot be read"):
        cfagg.read(given)
