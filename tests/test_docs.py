"""The documentation is whole: pages exist, links lead somewhere, examples and commands run."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cfagg.demo import sample

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXTS = [*PAGES, *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "sample_data/SOURCES.md"))]
NAV = re.findall(r"^  - [^:]+: (\S+\.md)$", (ROOT / ".mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)

#: Paths of one machine, installers' hosts, and unfinished text.
FORBIDDEN = r"/(root|work|tmp|Users)/\w|pypi\.org|pythonhosted|\b(TODO|FIXME|XXX|TBD)\b|[Ll]orem ipsum"

page = pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the samples, which is the working directory."""
    folder = tmp_path / "samples"
    shutil.copytree(sample(), folder)
    monkeypatch.chdir(folder)
    return folder


def test_the_navigation_names_every_page_once() -> None:
    assert sorted(NAV) == [p.name for p in PAGES]


@page
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if file.startswith("made/"):  # a picture that the docs build draws; tests/test_docs_made.py knows them
            continue
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(target)
    assert not wrong


@page
def test_a_page_speaks_of_the_project_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(FORBIDDEN, text)
    # What the site is told of a page may stand before its heading.
    assert re.match(r"(---\n(\w+: .*\n)+---\n\n)?# ", text)
    assert text.endswith("\n")


@page
def test_examples_on_a_page_run(page: Path, samples: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, content in re.findall(r'^```\w+ title="([\w.-]+)"\n(.*?)^```', text, flags=re.MULTILINE | re.DOTALL):
        (samples / name).write_text(content, encoding="utf-8")
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.failed == 0


def test_the_commands_of_the_readme_run(samples: Path) -> None:
    commands = re.findall(r"^\$ cfagg (.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(commands) >= 3
    # Some are about stores that the examples before them make.
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8").failed == 0
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "cfagg", *command.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"cfagg {command}\n{done.stderr}"
    assert (samples / "sst.zarr" / "zarr.json").is_file()
    assert (samples / "partitions.png").read_bytes()[:4] == b"\x89PNG"


def test_the_picture_is_small() -> None:
    assert 5_000 < (ROOT / "docs/partitions.png").stat().st_size < 200_000


def test_the_adapter_for_pytorch_is_the_one_that_is_tested() -> None:
    code = (ROOT / "tests/observations/torch_dataset.py").read_text(encoding="utf-8")
    shown = (ROOT / "docs/observations.md").read_text(encoding="utf-8")
    assert code.split('"""\n\n', 1)[1].rstrip() in shown
