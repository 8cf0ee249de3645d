"""The workflow for hosted machines says where and when checks run; what they are stands in the Makefile and .ci/run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
WHEN = WORKFLOW[True]  # YAML 1.1 takes the key "on" for a truth value
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
RUN = sorted({step["run"] for step in STEPS if "run" in step})


@pytest.mark.parametrize("line", RUN)
def test_a_step_runs_nothing_but_a_target_of_the_makefile_or_ci_run(line: str) -> None:
    if line == ".ci/run":
        assert os.access(ROOT / line, os.X_OK)
        return
    assert re.fullmatch(r"make [a-z]+( [A-Z]+=\w+)*", line)
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    dry = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert dry.returncode == 0, dry.stderr
    assert "-m pytest" in dry.stdout


def test_every_job_runs_a_check() -> None:
    assert all([s["run"] for s in job["steps"] if "run" in s] for job in WORKFLOW["jobs"].values())


def test_only_the_checkout_and_python_come_from_elsewhere() -> None:
    assert {step["uses"].split("@")[0] for step in STEPS if "uses" in step} == {
        "actions/checkout",
        "actions/setup-python",
    }


def test_the_tests_run_on_linux_and_macos_with_every_python_that_is_supported() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    matrix = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"system": ["ubuntu-latest", "macos-latest"], "python": supported}
    # The oldest of them, with which the lowest dependencies are tested, and the one that the Makefile prefers.
    (preferred,) = re.findall(r"for p in \$\(PYTHON\) python(3\.\d+) ", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert WORKFLOW["jobs"]["everything"]["steps"][1]["with"]["python-version"].split() == [supported[0], preferred]


def test_prereleases_are_tried_once_a_week_and_hold_up_no_change() -> None:
    ((schedule,),) = ([entry["cron"] for entry in WHEN["schedule"]],)
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule)
    assert {"pull_request", "push"} <= WHEN.keys()
    condition = WORKFLOW["jobs"]["prereleases"]["if"]
    assert set(re.findall(r"event_name == '(\w+)'", condition)) == {"schedule", "workflow_dispatch"}


def test_the_target_for_prereleases_installs_them_beside_the_pinned_versions() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nprereleases:")[1].split("\n\n")[0]
    assert "install --quiet --upgrade --pre xarray zarr dask distributed" in recipe
    assert "$(BIN)" not in recipe


def test_the_workflow_can_read_only() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not [name for name, job in WORKFLOW["jobs"].items() if "permissions" in job]


def test_every_file_of_tests_that_checks_name_is_there() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in (".ci/run", "Makefile"))
    named = set(re.findall(r"\btests/[\w/]+(?:\.py)?", text))
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]
