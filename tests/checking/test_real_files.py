"""Real files: every error that is told is one by the text of the conventions, and here stands why."""

from __future__ import annotations

from pathlib import Path

import pytest

import cfagg
from cfagg.checking.engine import run
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.demo import sample
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.real.packages import PACKAGES, files, install

HEADERS = sorted(Path(__file__).parent.joinpath("real").glob("*.cdl"))

#: (start of the file's name, rule, variable): why it is an error.  All other files have none.
JUDGED = {
    ("hybrid_height", "COO005", "air_potential_temperature"): (
        "model_level_number and level_height, an auxiliary coordinate, both have axis Z: CF-1.5 allows none on the "
        "latter, chapter 5 of CF-1.6 and later not the same twice"
    ),
    ("mesh_C4_synthetic_float", "DOC010", None): "there is no attribute Conventions (section 2.6.1)",
    ("vlstr_type", "DOC010", None): "there is no attribute Conventions (section 2.6.1)",
    ("nemo", "UNI001", "time_counter"): (
        "time_counter is a coordinate variable with axis T and has no units; reference times have no default "
        "(sections 3.1 and 4.4)"
    ),
    ("nemo", "CEL001", "tos"): (
        "cell_measures names 'area', which is not in the file; external variables there are since CF-1.7, it says 1.5"
    ),
    ("ostia_monthly", "CEL003", "surface_temperature"): (
        "'month: year: mean': neither is a dimension or a scalar coordinate, a standard name, or 'area' (section 7.3)"
    ),
}


def judged(name: str, found: list[Finding]) -> list[str]:
    """Return the errors for which there is no judgement."""
    known = {(code, variable) for start, code, variable in JUDGED if name.startswith(start)}
    return [str(f) for f in found if f.severity == "error" and (f.code, f.variable) not in known]


@pytest.mark.parametrize("path", HEADERS, ids=lambda p: p.stem)
def test_errors_of_a_real_header_are_judged(path: Path) -> None:
    with parse_cdl(path.read_text(encoding="utf-8"), path.name) as dataset:
        found = run(dataset, Options()).findings
    assert judged(path.stem, found) == []


@pytest.mark.parametrize(("start", "code", "variable"), JUDGED)
def test_every_judged_error_is_found(start: str, code: str, variable: str | None) -> None:
    path = next(p for p in HEADERS if p.stem == start)
    with parse_cdl(path.read_text(encoding="utf-8"), path.name) as dataset:
        assert (code, variable) in {(f.code, f.variable) for f in run(dataset, Options()).findings}


@pytest.mark.parametrize("name", ["test1.nc", "test2.nc", "profiles.nc", "storms.nc", "figure1_boxes.nc"])
def test_the_samples_have_no_error(name: str) -> None:
    report = cfagg.check(str(sample(name)), data=True)
    assert [str(f) for f in report.findings if f.severity == "error"] == []


@pytest.mark.soak
@pytest.mark.parametrize("package", PACKAGES)
def test_errors_of_whole_real_files_are_judged(package: str) -> None:
    install()
    found = files(package)
    assert len(found) >= 15
    wrong = []
    for path in found:
        with open_dataset(str(path), options=Options(data=True)) as dataset:
            result = run(dataset, Options(data=True))
        wrong += [(path.name, text) for text in judged(path.stem, result.findings)]
    assert wrong == []
