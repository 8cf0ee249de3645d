"""The examples of a page, run from top to bottom in one folder, as a reader would."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A fenced block, with the file name that it may have, and the comment that may exempt it.
_BLOCK = re.compile(
    r'^(?P<exempt><!-- not run: .+ -->\n\n?)?```(?P<language>\w+)(?: title="(?P<title>[\w.-]+)")?\n(?P<text>.*?)^```$',
    flags=re.MULTILINE | re.DOTALL,
)

#: How printed output is compared: ``...`` stands for anything.
_LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

#: Sizes, of which those of compressed data differ a little between versions of the compressors.
_SIZE = re.compile(r"\d[\d,.]* (?=B\b|[KMG]iB\b)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, the file that it shows if it has a name, and its line."""

    language: str
    text: str
    title: str | None
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page that can be run or parsed, from top to bottom.

    >>> [b.text for b in blocks("```console\\n$ cfagg show a.nc\\n```\\n<!-- not run: long -->\\n```toml\\n[a\\n```")]
    ['$ cfagg show a.nc\\n']
    """
    for found in _BLOCK.finditer(page):
        if not found["exempt"]:
            line = page.count("\n", 0, found.start("text")) + 1
            yield Block(found["language"], found["text"], found["title"], line)


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    r"""Yield the arguments of each ``$ cfagg ...`` of a block, and what the page says that it prints.

    >>> list(commands("$ cfagg show a.nc\na.nc (NETCDF4)\n$ cfagg check a.nc\n"))
    [(['show', 'a.nc'], 'a.nc (NETCDF4)\n'), (['check', 'a.nc'], '')]
    """
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, printed = part.partition("\n")
        words = shlex.split(line)
        if words[0] != "cfagg":
            raise RuntimeError(f"a block of commands has {line!r}, which is not a command of cfagg")
        yield words[1:], printed


def run(page: str, folder: Path) -> dict[str, bytes]:
    """Run the examples of a page beside copies of the samples; return the pictures that they draw, by name.

    Python blocks share their names.  A block that begins with ``>>>`` is compared with what it prints, wherever its
    lines are broken, and so is a command that is followed by output, but for sizes.  TOML and JSON are parsed, and
    blocks with a title are written to that file.

    Raises
    ------
    RuntimeError
        An example fails or prints something else.
    """
    from cfagg.demo import sample

    beside = folder / "samples"
    shutil.copytree(sample(), beside)
    there = set(beside.rglob("*"))
    names: dict[str, Any] = {"__name__": "page"}
    handlers: dict[str, Callable[[Block], None]] = {
        "python": lambda b: _run_python(b, names),
        "console": _run_commands,
        "toml": lambda b: _parse(b, tomllib.loads),
        "json": lambda b: _parse(b, json.loads),
    }
    with contextlib.chdir(beside):
        for block in blocks(page):
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            else:
                handlers.get(block.language, lambda _: None)(block)
    drawn = (p for p in beside.iterdir() if p not in there and p.suffix in (".png", ".svg"))
    return {p.name: p.read_bytes() for p in sorted(drawn)}


def _run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a Python block, with what it prints compared if it is a session."""
    if not block.text.startswith(">>>"):
        exec(compile(block.text, f"line {block.line}", "exec"), names)
        return
    said = io.StringIO()
    session = doctest.DocTestParser().get_doctest(block.text, names, "page", None, block.line - 1)
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(session, out=said.write, clear_globs=False)
    names.update(session.globs)
    if said.getvalue():
        raise RuntimeError(said.getvalue())


def _run_commands(block: Block) -> None:
    """Run the commands of a block in this process, and compare what they print with what the page shows."""
    from cfagg.cli.main import main

    for arguments, expected in commands(block.text):
        printed, messages = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
            status = main(arguments)
        command = f"line {block.line}: cfagg {shlex.join(arguments)}"
        if status:
            raise RuntimeError(f"{command} ended with {status}: {printed.getvalue()}{messages.getvalue()}")
        shown, found = (_SIZE.sub("", text) for text in (expected, printed.getvalue()))
        if shown and not doctest.OutputChecker().check_output(shown, found, _LOOSE):
            raise RuntimeError(f"{command} printed{os.linesep}{printed.getvalue()}")


def _parse(block: Block, parser: Callable[[str], object]) -> None:
    """Parse a block that shows data."""
    try:
        parser(block.text)
    except ValueError as error:
        raise RuntimeError(f"line {block.line}: {error}") from error
