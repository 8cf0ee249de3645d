"""Every term is defined once, in the module that is about it, and the words to avoid are in no further name."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from making import vocabulary  # noqa: E402

sys.path.remove(str(ROOT / "docs"))

SOURCES = {
    path: path.read_text(encoding="utf-8")
    for folder in ("cfagg", "kernels", "conventions")
    for path in sorted((ROOT / folder).rglob("*.py"))
}

#: Words that other words of the list mean better, and participles in the place of nouns.
AVOIDED = re.compile(r"(lane|spool|piece|(?<!dis)cover(?!age)|gift)s?$|^_?(Asked|Found|Kept|Located)$", re.IGNORECASE)
#: How many modules and classes still have these names.
STILL = Counter(
    [
        "Cover",
        "Kept",
        "Kept",
        "Lane",
        "Piece",
        "Piece",
        "Piece",
        "Spool",
        "cover",
        "kept",
        "lanes",
        "pieces",
        "spool",
    ]
)


@pytest.mark.parametrize(("term", "module"), vocabulary.TERMS.items())
def test_a_term_is_defined_by_one_sentence_in_its_module(term: str, module: str) -> None:
    definition = vocabulary.defined_in(vocabulary.path_of(module))[term]
    assert definition.endswith(".")
    assert "|" not in definition


def test_no_definition_is_left_out_of_the_page_and_no_term_is_defined_twice() -> None:
    marked = re.compile(r'^(?:""")?\*([a-z][a-z -]+)\*: ', re.MULTILINE)
    found = [term for text in SOURCES.values() for term in marked.findall(text)]
    assert sorted(found) == sorted(vocabulary.TERMS)


def test_the_table_has_a_row_for_each_term() -> None:
    rows = vocabulary.table().splitlines()[2:]
    assert [row.split("*")[1] for row in rows] == list(vocabulary.TERMS)


def test_no_further_module_or_class_has_a_name_that_is_avoided() -> None:
    classes = re.compile(r"^class (\w+)", re.MULTILINE)
    names = [p.stem for p in SOURCES] + [name for text in SOURCES.values() for name in classes.findall(text)]
    assert not Counter(filter(AVOIDED.search, names)) - STILL
