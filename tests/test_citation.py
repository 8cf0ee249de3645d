"""CITATION.cff says how to cite the version that stands here."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

import cfagg

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def citation() -> dict[str, object]:
    """Return the citation file, parsed."""
    parsed = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert isinstance(parsed, dict)
    return parsed


def test_the_citation_names_the_version_of_the_package(citation: dict[str, object]) -> None:
    assert citation["version"] == cfagg.__version__


def test_the_citation_has_what_version_1_2_of_the_format_requires_and_nothing_unknown(
    citation: dict[str, object],
) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation.keys() >= {"message", "title", "authors"}
    known = {"abstract", "authors", "cff-version", "keywords", "license", "message", "title", "type", "version"}
    assert not citation.keys() - known


def test_the_authors_are_named_together_and_no_identifier_is_invented(citation: dict[str, object]) -> None:
    assert citation["authors"] == [{"name": "cfagg contributors"}]
    assert "doi" not in str(citation).lower()


def test_the_citation_names_the_package_and_the_licence_of_its_code(citation: dict[str, object]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"].split(" AND ")[0]
