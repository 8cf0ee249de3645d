"""The table of terms: each is defined in the docstring of the module that is about it, and collected from there.

A definition is a paragraph of its own: ``*term*: what it is.``
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Term -> module whose docstring defines it, in the order of the page.
TERMS = {
    "aggregation": "cfagg.model.aggregation",
    "master array": "cfagg.model.aggregation",
    "partition": "cfagg.model.partitions",
    "fragment": "cfagg.arrays.fragments",
    "sub-array": "cfagg.arrays.subarray",
    "edge": "cfagg.model.grid",
    "extent": "cfagg.model.grid",
    "selection": "cfagg.arrays.plan",
    "conform": "cfagg.cf.conform",
    "chunk": "cfagg.formats.zarr.chunks",
    "shard": "cfagg.formats.zarr.shards",
    "chunk table": "cfagg.model.chunks",
    "byte-offset index": "cfagg.arrays.index.table",
    "staging": "cfagg.runtime.staging",
    "journal": "cfagg.conversion.journal",
    "accumulation": "cfagg.accumulation",
    "sample of sums": "cfagg.accumulation",
    "window": "cfagg.observations.dates",
    "sample": "cfagg.observations.sample",
    "index": "cfagg.observations.indexes",
    "rule": "cfagg.findings.rule",
    "finding": "cfagg.findings.finding",
    "cell method": "cfagg.cf.cell_methods",
    "bounds": "cfagg.checking.rules.bounds",
}

_DEFINITION = re.compile(r"\*([a-z][a-z -]+)\*: (.+)", re.DOTALL)


def defined_in(path: Path) -> dict[str, str]:
    """Return the terms that the docstring of a module defines, on one line each."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = (_DEFINITION.fullmatch(paragraph) for paragraph in text.split("\n\n"))
    return {f[1]: " ".join(f[2].split()) for f in found if f}


def path_of(module: str) -> Path:
    """Return the file of a module."""
    base = ROOT.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def table() -> str:
    """Return the table as Markdown."""
    rows = [f"| *{term}* | {defined_in(path_of(m))[term]} | `{m}` |" for term, m in TERMS.items()]
    return "\n".join(["| term | meaning | module |", "|---|---|---|", *rows])
