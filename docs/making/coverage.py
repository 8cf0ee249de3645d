"""The table of all rules of a check: where each comes from, and by what it is tested."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from cfagg.checking.explaining import explanations
from cfagg.checking.links import older_sections
from cfagg.checking.registry import about, registered
from cfagg.findings.rule import Rule
from tests.checking.test_corpus import DEFECTS

TESTS = Path(__file__).resolve().parents[2] / "tests"

#: What is said of the rules that have no function.
WITHOUT = "a note in the text, nothing to check"


def mentions() -> dict[str, list[str]]:
    """Return the test modules that name each code, without those of the corpus."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "checking" not in path.parts and "cfagg.checking" not in text and "check" not in path.stem:
            continue
        for code in sorted(set(re.findall(r"\b[A-Z]{3}\d{3}\b", text))):
            found.setdefault(code, []).append(path.stem.removeprefix("test_"))
    return found


def table() -> str:
    """Return the table as Markdown, with a line of totals above it.

    >>> table().splitlines()[2]
    '| rule | section | since | severity | what holds | tested by |'
    """
    defects = Counter(d.code for d in DEFECTS)
    named = mentions()
    told = explanations()
    rows = []
    counts: Counter[str] = Counter()
    ours = about()
    # Rules of other packages that happen to be installed are not ours to list.
    for code, rule in ((c, r) for c, r in registered().items() if c in ours):
        works = rule.function is not None or code.startswith("INT")
        counts[rule.severity if works else "none"] += 1
        tested = []
        if code in told:
            tested.append(_plural(sum(len(_list(told[code], k)) for k in ("fails", "passes")), "example"))
        if defects[code]:
            tested.append(_plural(defects[code], "defect"))
        tested += named.get(code, [])
        cells = (
            f"`{code}`",
            _section(rule),
            str(rule.since).removeprefix("CF-"),
            rule.severity,
            rule.summary.replace("|", "\\|"),
            ", ".join(tested) if works else WITHOUT,
        )
        rows.append(f"| {' | '.join(cells)} |")
    total = (
        f"{counts['error'] + counts['warning'] + counts['info']} rules: {counts['error']} requirements, "
        f"{counts['warning']} recommendations, {counts['info']} for information."
    )
    head = ["| rule | section | since | severity | what holds | tested by |", "|---|---|---|---|---|---|"]
    return "\n".join([total, "", *head, *rows])


def _section(rule: Rule) -> str:
    now = f"{rule.section} {rule.title}" if not rule.title.startswith(rule.section) else rule.title
    other = [f"{section} to {until.major}.{until.minor}" for until, section, _ in older_sections().get(rule.code, ())]
    other = [text for text in other if text.split()[0] != rule.section]
    return f"{now} ({', '.join(other)})" if other else now


def _list(told: object, kind: str) -> list[str]:
    assert isinstance(told, dict)
    return [told[kind], *told.get(f"more_{kind}", [])] if kind in told else []


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")
