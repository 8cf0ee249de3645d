"""Datasets with one defect each: the rule that it breaks finds it, and no other rule tells of an error."""

from __future__ import annotations

import pytest

from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.corpus import defects2, defects3, defects5, defects7
from tests.checking.corpus.allowed import ALLOWED
from tests.checking.corpus.defect import Defect

DEFECTS: list[Defect] = [*defects2.DEFECTS, *defects3.DEFECTS, *defects5.DEFECTS, *defects7.DEFECTS]


def findings(defect: Defect) -> list[Finding]:
    with parse_cdl(defect.text(), defect.name) as dataset:
        return run(dataset, Options(cf_version=defect.version, data=True)).findings


@pytest.mark.few(1000)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_a_defect_is_found_by_its_rule_and_is_no_other_error(defect: Defect) -> None:
    found = findings(defect)
    assert defect.code in {f.code for f in found}, [str(f) for f in found]
    others = [str(f) for f in found if f.severity == "error" and f.code not in (defect.code, *defect.also)]
    assert others == []


@pytest.mark.few(1000)
@pytest.mark.parametrize("allowed", ALLOWED, ids=lambda d: d.name)
def test_what_the_conventions_allow_is_no_error(allowed: Defect) -> None:
    assert [str(f) for f in findings(allowed) if f.severity == "error"] == []
