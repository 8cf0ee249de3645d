"""The documentation is whole: pages exist, links lead somewhere, examples and commands run."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cfagg
from cfagg.cli import main as cli
from docs.making import pages

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXTS = [*PAGES, *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "sample_data/SOURCES.md"))]
NAV = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / ".mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)

#: Paths of one machine, installers' hosts, and unfinished text.
FORBIDDEN = r"/(root|work|tmp|Users)/\w|pypi\.org|pythonhosted|\b(TODO|FIXME|XXX|TBD)\b|[Ll]orem ipsum"

page = pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


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


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection: examples read the samples and nothing else."""

    def refuse(_: socket.socket, address: object) -> None:
        raise OSError(f"an example connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_the_examples_import_what_the_installation_page_says_and_nothing_else() -> None:
    # The page names the extras dask, icechunk and plot; the others are what cfagg itself needs.
    allowed = {"cfagg", "numpy", "pandas", "xarray", "dask", "icechunk", "matplotlib", "zarr"}
    found = {}
    for p in TEXTS:
        code = "\n".join(b.text for b in pages.blocks(p.read_text(encoding="utf-8")) if b.language == "python")
        names = set(re.findall(r"^(?:>>> |\.\.\. )? *(?:import|from) ([a-z]\w*)", code, flags=re.MULTILINE))
        if other := names - allowed - sys.stdlib_module_names:
            found[p.name] = other
    assert found == {"unequal.md": {"scipy"}}


@pytest.mark.few(15)
@page
@pytest.mark.usefixtures("offline")
def test_the_examples_of_a_page_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    drawn = pages.run(text, tmp_path)
    wanted = set(re.findall(r"^\$ cfagg .*--plot (\S+)", text, flags=re.MULTILINE))
    assert wanted == set(drawn)
    for name, content in drawn.items():
        assert content[:4] == b"\x89PNG", name
        assert 5_000 < len(content) < 400_000, name


def test_few_examples_are_exempt_from_running() -> None:
    exempt = [
        line
        for p in TEXTS
        for line in re.findall(r"^<!-- not run: .+ -->$", p.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(exempt) <= 1


def test_blocks_that_are_not_run_are_diagrams_commands_and_one_example_of_urls() -> None:
    # A block in a language that is not listed would be run by nobody, unnoticed.
    found = [(p.name, b.language) for p in TEXTS for b in pages.blocks(p.read_text(encoding="utf-8")) if not b.title]
    assert {language for _, language in found} == {"python", "console", "toml", "json", "text", "sh", "pycon"}
    assert [name for name, language in found if language == "pycon"] == ["remote.md"]
    for _, block in ((p, b) for p in TEXTS for b in pages.blocks(p.read_text(encoding="utf-8"))):
        if block.language == "pycon":
            for call in ast.walk(ast.parse(re.sub(r"^>>> ", "", block.text, flags=re.MULTILINE))):
                if isinstance(call, ast.Call):
                    own = getattr(cfagg, ast.unparse(call.func).removeprefix("cfagg."))
                    inspect.signature(own).bind(*call.args, **{str(k.arg): k.value for k in call.keywords})


def _commands(text: str) -> list[str]:
    """Return the commands that a page names without running them: in text, and in blocks of text."""
    inline = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    blocks = [line for b in pages.blocks(text) if b.language in ("text", "sh") for line in b.text.splitlines()]
    indented = re.findall(r"^    (cfagg .*)$", text, flags=re.MULTILINE)
    return [line.removeprefix("$ ") for line in (*inline, *blocks, *indented)]


@page
def test_commands_and_options_that_a_page_names_are_there(page: Path) -> None:
    parser, every = cli._parser([], every=True), set()

    def inner(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
        """Return the parsers of the commands below a parser; note the options of all."""
        every.update(option for a in of._actions for option in a.option_strings)
        return next((dict(a.choices) for a in of._actions if isinstance(a, argparse._SubParsersAction)), {})

    todo = [parser]
    while todo:
        todo += inner(todo.pop()).values()
    # What follows a number sign is a comment; options of pytest and of our own scripts are no business of the command.
    elsewhere = {"--guards", "--again", "--tests"} if page.name == "CONTRIBUTING.md" else set()
    unknown = []
    for text in _commands(page.read_text(encoding="utf-8")):
        words = text.partition(" #")[0].split()
        if re.match("cfagg [a-z]", text):
            of, words = parser, words[1:]
            while words and words[0] in inner(of):
                of = inner(of)[words.pop(0)]
            own = {option for a in of._actions for option in a.option_strings}
            wrong = [w for w in words if w.startswith("--") and w.partition("=")[0] not in own]
            unknown += [text] if wrong or (words and inner(of)) else []
        elif words and words[0].startswith("--"):
            unknown += [text] if words[0].partition("=")[0] not in every | elsewhere else []
    assert unknown == []


def test_an_example_that_prints_something_else_fails(tmp_path: Path) -> None:
    for number, text in enumerate(("```python\n>>> 1 + 1\n3\n```", "```console\n$ cfagg --version\ncfagg 0\n```")):
        with pytest.raises(RuntimeError):
            pages.run(text, tmp_path / str(number))


def test_the_way_to_the_samples_is_the_same_in_readme_and_docs_and_works(tmp_path: Path) -> None:
    found = {
        re.search(r"^ *python -c \"(.+)\"\n *cd samples$", p.read_text(encoding="utf-8"), re.MULTILINE)[1]
        for p in (ROOT / "README.md", ROOT / "docs/install.md")
    }
    (code,) = found
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "samples/sst.nca").is_file()


def test_the_page_on_installing_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = re.findall(r"^\| (`.+?`) \|", (ROOT / "docs/install.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {name.strip("`") for row in table for name in row.split(", ")} == set(extras)


def test_the_picture_is_small() -> None:
    assert 5_000 < (ROOT / "docs/partitions.png").stat().st_size < 200_000


def test_the_adapter_for_pytorch_is_the_one_that_is_tested() -> None:
    code = (ROOT / "tests/observations/torch_dataset.py").read_text(encoding="utf-8")
    shown = (ROOT / "docs/observations.md").read_text(encoding="utf-8")
    assert code.split('"""\n\n', 1)[1].rstrip() in shown
