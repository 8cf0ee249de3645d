"""Every rule has an example that it finds and one that it passes: those that `cfagg explain` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cfagg.checking.engine import run
from cfagg.checking.explaining import explanations
from cfagg.checking.options import Options
from cfagg.checking.registry import registered
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset, Group


def examples(kind: str) -> Iterator[Any]:
    for code, told in explanations().items():
        # Findings about the check itself have none.
        for number, text in enumerate([told[kind], *told.get(f"more_{kind}", [])] if kind in told else []):
            yield pytest.param(code, told, text, id=f"{code}-{number}")


def named(name: str) -> Dataset:
    """Return a dataset of which the name of the file is the example."""
    return Dataset(name, "netcdf", Group(attributes={"Conventions": "CF-1.13"}), path=name)


def findings(told: Any, text: str) -> list[Finding]:
    references = told.get("references", False)
    with parse_cdl(text) if "{" in text else named(text.strip()) as dataset:
        if references:
            dataset.path = "no_such_folder/example.nc"
        return run(dataset, Options(cf_version=told.get("version"), data=True, references=references)).findings


@pytest.mark.few(1000)
@pytest.mark.parametrize(("code", "told", "text"), list(examples("fails")))
def test_an_example_that_fails_is_found_and_nothing_else_is_an_error(code: str, told: Any, text: str) -> None:
    found = findings(told, text)
    assert code in {f.code for f in found}, found
    others = [f for f in found if f.severity == "error" and f.code not in {code, *told.get("also", ())}]
    assert not others


@pytest.mark.few(1000)
@pytest.mark.parametrize(("code", "told", "text"), list(examples("passes")))
def test_an_example_that_passes_has_no_error_and_no_finding_of_its_rule(code: str, told: Any, text: str) -> None:
    found = findings(told, text)
    assert not [f for f in found if f.severity == "error" or f.code == code]


def test_every_rule_is_explained() -> None:
    missing = [c for c, r in registered().items() if r.function is not None and c not in explanations()]
    assert not missing
