"""File names, Conventions, descriptions and external variables: sections 2.1 and 2.6."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.findings.finding import Edit
from cfagg.model.dataset import Dataset, Group
from tests.checking.rules.asking import codes, findings


def dataset(**attributes: object) -> Dataset:
    return Dataset("test", "cdl", Group(attributes=dict(attributes)))


@pytest.mark.parametrize(("path", "expected"), [("a/b.nc", []), ("a.nc/b.dat", ["DOC001"]), ("b.nc4", ["DOC001"])])
def test_netcdf_files_end_in_nc(path: str, expected: list[str]) -> None:
    assert codes(Dataset(path, "netcdf", Group(), path=path), "DOC001") == expected


@pytest.mark.parametrize("format_", ["zarr", "nczarr", "xarray", "cdl"])
def test_what_is_no_netcdf_file_has_no_name_to_be_checked(format_: str) -> None:
    result = run(Dataset("a", format_, Group(), path="a"), Options(select=("DOC001",)))  # type: ignore[arg-type]
    assert result.findings == []
    assert "DOC001" in result.skipped


@pytest.mark.parametrize(
    "value", ["CF-1.13", "CF-1.0", "CF-1.8 ACDD-1.3", "ACDD-1.3,CF-1.8", "My own, CF-1.8", " CF-1.8 ", "CF-1.14-draft"]
)
def test_conventions_that_name_a_version(value: str) -> None:
    assert codes(dataset(Conventions=value), "DOC01") == []


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ACDD-1.3",
        "CF1.8",
        "cf-1.8",
        "CF-1",
        "CF 1.8",
        "CF-1.8/ACDD-1.3",
        np.array([1.8]),
        None,
        {"CF": "1.8"},
        True,
    ],
)
def test_conventions_that_name_none(value: object) -> None:
    assert codes(dataset(Conventions=value), "DOC01") == ["DOC010"]


def test_a_dataset_without_conventions() -> None:
    assert codes(dataset(), "DOC01") == ["DOC010"]
    assert codes(dataset(), "DOC01", cf_version="1.6") == ["DOC011"]


def test_a_small_letter_is_put_right() -> None:
    (found,) = findings(dataset(conventions="CF-1.8"), "DOC01")
    assert found.fix == (Edit(None, "conventions", rename="Conventions"),)


def test_text_that_is_not_utf8_is_told_once() -> None:
    assert codes(dataset(Conventions=b"CF-1.8 \xff")) == ["DOC002"]


def test_an_array_of_conventions_is_told_once() -> None:
    assert codes(dataset(Conventions=("CF-1.13", "ACDD-1.3"))) == ["DOC003"]


@pytest.mark.parametrize("value", ["CF-1.99", "CF-2.0", "ACDD-1.3 CF-1.99", "CF-1.13-draft"])
def test_an_unknown_version_is_an_error_that_tells_what_was_used_instead(value: str) -> None:
    (found,) = findings(dataset(Conventions=value), "DOC01")
    assert (found.code, found.severity) == ("DOC011", "error")
    assert "CF-1.13 were used" in found.message


def test_a_version_that_is_not_published_yet_is_a_warning() -> None:
    (found,) = findings(dataset(Conventions="CF-1.14"), "DOC011")
    assert (found.severity, "draft" in found.message) == ("warning", True)


def test_several_versions_are_a_warning() -> None:
    result = run(dataset(Conventions="CF-1.6 CF-1.8"), Options(select=("DOC01",)))
    assert [(f.code, f.severity) for f in result.findings] == [("DOC011", "warning")]
    assert str(result.version) == "CF-1.8"


def test_the_same_version_twice_is_nothing() -> None:
    assert codes(dataset(Conventions="CF-1.8 CF-1.8"), "DOC01") == []


def test_another_version_that_was_asked_for_is_mentioned() -> None:
    (found,) = findings(dataset(Conventions="CF-1.6"), "DOC01", cf_version="1.13")
    assert (found.code, found.severity) == ("DOC011", "info")


@pytest.mark.parametrize("name", ["title", "history", "institution", "source", "references", "comment"])
def test_descriptions_are_text(name: str) -> None:
    assert codes(dataset(**{name: np.array([1, 2])}), "DOC012") == ["DOC012"]
    assert codes(dataset(**{name: "x"}), "DOC012") == []


def test_descriptions_of_groups_and_variables() -> None:
    text = "netcdf n { variables: int a ; a:source = 1 ; a:title = 1 ; group: g { :comment = 1 ; } }"
    assert [f.where for f in findings(text, "DOC012")] == ["/g/:comment", "a:source"]


def test_neither_title_nor_history_is_demanded() -> None:
    assert codes(dataset(Conventions="CF-1.13")) == []


def test_history_of_a_variable_is_only_mentioned() -> None:
    found = findings('netcdf n { variables: int a ; a:history = "x" ; a:source = "y" ; }', "DOC013")
    assert [(f.attribute, f.severity) for f in found] == [("history", "info")]


@pytest.mark.parametrize("value", ["", "areacella", " areacella  volcello "])
def test_external_variables_are_names_and_blanks(value: str) -> None:
    assert codes(dataset(external_variables=value), "DOC014") == []


@pytest.mark.parametrize("value", ["areacella, volcello", "area: areacella", "/g/areacella", np.array([1]), None])
def test_external_variables_are_nothing_else(value: object) -> None:
    assert codes(dataset(external_variables=value), "DOC014") == ["DOC014"]


def test_external_variables_are_not_in_the_dataset() -> None:
    text = 'netcdf n { variables: int a ; int b ; :external_variables = "a c" ; :Conventions = "CF-1.13" ; }'
    assert codes(text, "DOC015") == ["DOC015"]
    assert codes(text.replace("1.13", "1.6"), "DOC015") == []
