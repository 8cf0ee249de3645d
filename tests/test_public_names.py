"""The names that `import cfagg` offers, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cfagg


@pytest.mark.parametrize("name", cfagg.__all__)
def test_a_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(cfagg, name) is not None
    assert name in dir(cfagg)


#: What `import cfagg` has offered so far.  A name that is to go first warns for one minor version.
PUBLIC = {
    "Aggregation", "CfaggError", "Grid", "Layout", "Partitions", "__version__", "accumulate", "aggregate", "append",
    "check", "concatenate", "convert", "create_observations", "index", "join_observations", "open_accumulated",
    "open_aggregation", "open_array", "open_observations", "open_rows", "read", "rebase", "show", "write", "write_rows",
}  # fmt: skip


def test_no_public_name_is_missing() -> None:
    assert set(cfagg.__all__) >= PUBLIC


@pytest.mark.parametrize("name", ["conventions", "demo", "errors", "kernels", "model"])
def test_a_public_module_is_an_attribute_of_the_package(name: str) -> None:
    program = f"import cfagg; print(cfagg.{name}.__name__, {name!r} in dir(cfagg))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [f"cfagg.{name}", "True"], done.stderr


#: Every function that takes the name of an input.
READERS = {
    "read": lambda name: cfagg.read(name),
    "show": lambda name: cfagg.show(name),
    "aggregate": lambda name: cfagg.aggregate(name),
    "check": lambda name: cfagg.check(name),
    "convert": lambda name: cfagg.convert(name, f"{name}.out"),
    "index": lambda name: cfagg.index(name),
    "append": lambda name: cfagg.append(name, {}, "time"),
    "accumulate": lambda name: cfagg.accumulate(name, "tas"),
    "open_accumulated": lambda name: cfagg.open_accumulated(name, "tas"),
    "open_aggregation": lambda name: cfagg.open_aggregation(name, "tas"),
    "open_array": lambda name: cfagg.open_array(name, "tas"),
    "open_observations": lambda name: cfagg.open_observations(name),
    "create_observations": lambda name: cfagg.create_observations(f"{name}.yaml", f"{name}.zarr"),
}


@pytest.mark.parametrize("reader", READERS)
def test_an_input_that_is_not_there_is_a_file_not_found_error_everywhere(reader: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing") as caught:
        READERS[reader](str(tmp_path / "nothing"))
    assert isinstance(caught.value, cfagg.errors.SourceNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_names_of_jobs_are_found_in_public_modules() -> None:
    from cfagg import findings, observations
    from cfagg.checking import rule
    from cfagg.observations import cache

    assert (findings.Rule, observations.set_cache_size) == (rule.Rule, cache.set_cache_size)
    assert all(hasattr(findings, name) for name in findings.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = observations.nothing


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cfagg.nothing


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "before",
    [
        "",
        "import cfagg.conversion",
        "import cfagg.cli.convert",
        "from cfagg.conversion import convert",
        "import cfagg.api.reading",
    ],
)
def test_convert_and_read_are_functions_whatever_was_imported_before(before: str) -> None:
    check = "import cfagg; print(callable(cfagg.convert), callable(cfagg.read))"
    done = subprocess.run([sys.executable, "-c", f"{before}\n{check}"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.parametrize("reader", READERS)
def test_a_tilde_is_the_home_directory_everywhere(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        READERS[reader]("~/nothing")
    assert f"{tmp_path}/nothing" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_path_is_named_for_what_it_is() -> None:
    for wrong in (None, 3, object()):
        with pytest.raises(cfagg.errors.OptionError, match=r"of type .* is not a path"):
            cfagg.read(wrong)  # type: ignore[arg-type]
    with pytest.raises(cfagg.errors.SourceError, match=r"ftp:// is not read; expected http://"):
        cfagg.read("ftp://example.org/a.nc")
    with pytest.raises(cfagg.errors.SourceError, match=r"is on this machine: give its path, such as /data/a\.nc"):
        cfagg.read("file:///data/a.nc")
    with pytest.raises(cfagg.errors.SourceError, match=r"^file://…@host/data/a\.nc is on .* such as /data/a\.nc$"):
        cfagg.read("file://me:secret@host/data/a.nc")
    with pytest.raises(cfagg.errors.SourceError, match=r"for 'anon' give skip_signature=True"):
        cfagg.read("s3://bucket/a.nc", storage_options={"anon": True})
    with pytest.raises(cfagg.errors.SourceError, match=r"s3:/bucket/a.nc is not a URL: there is one slash after s3:"):
        cfagg.read("s3:/bucket/a.nc")
    with pytest.raises(cfagg.errors.OptionError, match=r"cf_version=1\.8 is not text; write it in quotes"):
        cfagg.check(cfagg.demo.sample("test1.nc"), cf_version=1.8)


@pytest.mark.parametrize("function", [cfagg.read, cfagg.aggregate, cfagg.open_array, cfagg.convert])
def test_lines_of_an_open_file_are_not_taken_for_names(function: Any, tmp_path: Path) -> None:
    (tmp_path / "names").write_text(f"{cfagg.demo.sample('test1.nc')}\n")
    arguments = {cfagg.open_array: ("tas",), cfagg.convert: (tmp_path / "a.zarr",)}.get(function, ())
    with (tmp_path / "names").open() as file, pytest.raises(cfagg.errors.OptionError, match="of type TextIOWrapper"):
        function(file, *arguments)


def test_one_name_of_a_variable_is_not_taken_for_its_letters() -> None:
    path = cfagg.demo.sample("test1.nc")
    assert str(cfagg.show(path, variables="lat")) == str(cfagg.show(path, variables=["lat"]))


def test_chunks_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cfagg.errors.OptionError, match="chunks=5 is neither 'auto', 'partitions' nor a mapping"):
        cfagg.convert(cfagg.demo.sample("test1.nc"), tmp_path / "a.zarr", chunks=5)  # type: ignore[arg-type]


def test_an_error_about_text_for_chunks_names_mappings(tmp_path: Path) -> None:
    with pytest.raises(cfagg.errors.UnsupportedError, match=r"'time=5' is not known; .* mappings such as {'time'"):
        cfagg.convert(cfagg.demo.sample("test1.nc"), tmp_path / "a.zarr", chunks="time=5")
