"""Rules that other packages bring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cfagg.checking import registry
from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.checking.plugins import collected
from cfagg.checking.registry import jobs
from cfagg.findings.finding import Hit
from cfagg.findings.rule import Rule
from cfagg.findings.versions import Version
from cfagg.formats.cdl.parsing import parse_cdl

EXAMPLE = Path(__file__).parents[2] / "docs/plugins/acdd"


def rule(code: str = "ACDD001", **changes: object) -> Rule:
    given = {
        "code": code,
        "section": "ACDD 1.3",
        "title": "Global attributes",
        "severity": "warning",
        "since": Version(1, 0),
        "summary": "there is a title",
        "function": lambda c: [Hit(None, "title", "there is none")],
        **changes,
    }
    return Rule(**given)


def failing() -> list[Rule]:
    raise RuntimeError("broken")


def leaving() -> list[Rule]:
    raise SystemExit(3)


def test_a_function_may_return_rules():
    assert list(collected([("a", lambda: lambda: [rule()])], ()).rules) == ["ACDD001"]


def test_a_module_may_list_rules():
    module = ModuleType("rules")
    module.RULES = [rule(), rule("ACDD002")]
    assert list(collected([("a", lambda: module)], ()).rules) == ["ACDD001", "ACDD002"]


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (lambda: failing, "RuntimeError: broken"),
        (lambda: leaving, "SystemExit: 3"),
        (failing, "RuntimeError: broken"),
        (lambda: ModuleType("empty"), "RULES"),
        (lambda: lambda: 5, "not iterable"),
        (lambda: lambda: ["ACDD001"], "str where a Rule is expected"),
        (lambda: lambda: [rule("acdd1")], "capital letters and three digits"),
        (lambda: lambda: [rule("INT009")], "'INT009'"),
        (lambda: lambda: [rule("UNI001")], "UNI001 is taken"),
        (lambda: lambda: [rule(), rule()], "ACDD001 is taken"),
        (lambda: lambda: [rule(function=None)], "has no function"),
        (lambda: lambda: [rule(severity="fatal")], "the severity 'fatal'"),
        (lambda: lambda: [rule(summary="")], "lacks section, title or summary"),
    ],
)
def test_what_is_broken_is_told_and_the_next_one_is_taken(load, told):
    found = collected([("bad", load), ("good", lambda: lambda: [rule("GOOD001")])], {"UNI001"})
    assert "GOOD001" in found.rules
    (problem,) = found.problems
    assert "'bad'" in problem
    assert told in problem


def installed(folder: Path, name: str, entry: str) -> None:
    """Put what pip leaves of a package into a folder of the path."""
    info = folder / f"{name}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[cfagg.rules]\n{entry}\n")


def cfagg(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    """Run the command with `folder` in the path."""
    return subprocess.run(
        [sys.executable, "-m", "cfagg", *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])])},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.fixture
def acdd(tmp_path):
    shutil.copy(EXAMPLE / "acdd_rules.py", tmp_path)
    installed(tmp_path, "cfagg_acdd", "acdd = acdd_rules:rules")
    return tmp_path


def test_the_example_of_the_documentation_is_run_beside_the_rules_of_cf(acdd):
    explained = json.loads(cfagg(acdd, "explain", "ACDD", "--json").stdout)
    assert [r["code"] for r in explained] == ["ACDD001", "ACDD002", "ACDD003"]
    names = []
    for told in explained:
        for example in ("fails", "passes"):
            names.append(f"{told['code']}_{example}.cdl")
            (acdd / names[-1]).write_text(told[example])
    done = cfagg(acdd, "check", *names, "--format", "json")
    found = [[f["code"] for f in report["findings"]] for report in json.loads(done.stdout)]
    assert found == [["ACDD001"], [], ["ACDD002"], [], ["ACDD003"], []]
    assert done.returncode == 1


@pytest.mark.full
def test_rules_of_a_plug_in_can_be_selected_and_link_to_their_own_document(acdd):
    assert "wiki.esipfed.org" in cfagg(acdd, "explain", "ACDD001").stdout
    (acdd / "a.cdl").write_text('netcdf a {\n:Conventions = "CF-1.13 ACDD-1.3" ;\n}\n')
    found = json.loads(cfagg(acdd, "check", "a.cdl", "--select", "ACDD", "--format", "json").stdout)
    assert {f["code"] for f in found[0]["findings"]} == {"ACDD001", "ACDD002", "ACDD003"}


def test_a_dataset_that_claims_nothing_of_it_is_left_alone(acdd):
    (acdd / "a.cdl").write_text('netcdf a {\n:Conventions = "CF-1.13" ;\n}\n')
    done = cfagg(acdd, "check", "a.cdl", "--show-skipped")
    assert "ACDD001 the dataset does not claim to follow ACDD" in done.stdout
    assert done.returncode == 0


def test_a_package_that_cannot_be_imported_is_a_finding_of_the_check(tmp_path):
    installed(tmp_path, "lost", "lost = lost_rules:rules")
    (tmp_path / "a.cdl").write_text('netcdf a {\n:Conventions = "CF-1.13" ;\n}\n')
    done = cfagg(tmp_path, "check", "a.cdl", "--format", "json")
    (finding,) = json.loads(done.stdout)[0]["findings"]
    assert finding["code"] == "INT002"
    assert "'lost'" in finding["message"]
    assert done.returncode == 2
    assert done.stderr == ""


CRASHING = """
from cfagg.findings.rule import Rule
from cfagg.findings.versions import Version
from cfagg.formats.cdl.parsing import parse_cdl

def crashes(c):
    raise KeyError("gone")

def answers_nonsense(c):
    return ["a breach"]

def rules():
    common = {"section": "X", "title": "X", "severity": "error", "since": Version(1, 0), "summary": "x"}
    return [Rule(code="BAD001", function=crashes, **common), Rule(code="BAD002", function=answers_nonsense, **common)]
"""


def test_rules_that_fail_are_findings_about_themselves_and_the_run_goes_on(tmp_path):
    (tmp_path / "bad_rules.py").write_text(CRASHING)
    installed(tmp_path, "bad", "bad = bad_rules:rules")
    (tmp_path / "a.cdl").write_text('netcdf a {\nvariables:\n float 2m ;\n:Conventions = "CF-1.13" ;\n}\n')
    done = cfagg(tmp_path, "check", "a.cdl", "--format", "json", "--select", "BAD,DOC004")
    findings = json.loads(done.stdout)[0]["findings"]
    assert sorted(f["code"] for f in findings) == ["DOC004", "INT001", "INT001"]
    assert any("rule BAD001 failed on this dataset: KeyError: 'gone'" in f["message"] for f in findings)
    assert any("rule BAD002 failed" in f["message"] for f in findings)
    assert done.returncode == 2


def test_rules_of_jobs_are_rules_like_those_of_packages() -> None:
    found = jobs()
    assert not found.problems
    assert {code[:3] for code in found.rules} == {"ACC", "OBS"}
    assert all(rule.explanation and rule.explanation["why"] for rule in found.rules.values())


def test_a_job_whose_rules_cannot_be_loaded_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_JOBS", ("nothing",))
    jobs.cache_clear()
    try:
        with parse_cdl('netcdf a { :Conventions = "CF-1.13" ; }') as dataset:
            [finding] = [f for f in run(dataset, Options()).findings if f.code == "INT002"]
        assert "'nothing' cannot be loaded" in finding.message
    finally:
        jobs.cache_clear()
