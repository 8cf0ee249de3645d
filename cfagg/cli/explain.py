"""``cfagg explain``: what a rule checks, why, and failing and passing examples."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from textwrap import dedent, wrap
from typing import TYPE_CHECKING, Any

from cfagg.cli import output
from cfagg.cli.options import JSON, Arguments, flag, option

if TYPE_CHECKING:
    from cfagg.findings.rule import Rule

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Explain rules of cfagg check: what they check, why, and failing and passing examples."

EPILOG = """\
examples:
  cfagg explain
  cfagg explain AGG004
  cfagg explain UNI TIM013
  cfagg explain AGG004 --json

Without a code, all rules are listed. The beginning of a code selects all codes that begin with it.
"""

_WIDTH = 100


OPTIONS = (
    option("codes", "CODE", "code of a rule, or the beginning of several codes", nargs="*"),
    flag("--list", "print only one line per rule"),
    JSON,
)


def run(args: Arguments) -> int:
    """Explain rules; the exit status is 2 if no rule has a given code."""
    from cfagg.checking.registry import registered

    known = registered()
    wanted = [code.upper() for code in args.codes]
    unknown = [w for w in wanted if not any(code.startswith(w) for code in known)]
    if unknown:
        families = ", ".join(dict.fromkeys(code.rstrip("0123456789") for code in known))
        print(f"error: no rule has a code that begins with {', '.join(unknown)}; there are {families}", file=sys.stderr)
        return 2
    rules = [r for code, r in known.items() if not wanted or code.startswith(tuple(wanted))]
    if args.json:
        from cfagg.display.as_json import forms_json

        print(forms_json("explain", (_as_dict(r) for r in rules)))
    elif args.list or not wanted:
        from cfagg.checking.links import place

        for r in rules:
            print(f"{r.code}  {r.severity:<7}  {place(r):<10}  {r.summary}")
    else:
        width = min(_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
        print("\n\n".join("\n".join(_explained(r, width, output.in_colour())) for r in rules))
    return 0


def _explanation(rule: Rule) -> Any:
    from cfagg.checking.explaining import explanations

    return explanations().get(rule.code, {})


def _explained(rule: Rule, width: int, colour: bool) -> Iterator[str]:
    """Yield the lines about one rule."""
    from cfagg.checking.links import link, older_sections, place

    explanation = _explanation(rule)
    yield _bold(f"{rule.code}: {rule.summary}", colour)
    since = f", since {rule.since}" if rule.since > (1, 0) else ""
    until = f", until {rule.until}" if rule.until is not None else ""
    yield f"{rule.severity}, {place(rule)} {rule.title}{since}{until}"
    older = [f"{number} to {last}" for last, number, _ in older_sections().get(rule.code, ())]
    if older:
        yield f"in older versions: {', '.join(older)}"
    address = link(rule)
    if address:
        yield address
    asked = {
        "data": "--data",
        "references": "--references",
        "data of references": "--data and --references",
    }.get(rule.needs)
    needs = None if asked is None else f"Checked only with {asked}."
    if rule.function is None and not rule.code.startswith("INT"):
        needs = "Nothing is checked: the text is only a note, or repeats another rule."
    for text in filter(None, (explanation.get("why"), needs)):
        yield ""
        yield from wrap(" ".join(text.split()), width, break_on_hyphens=False)
    for example, title in (
        (explanation.get("fails", explanation.get("wrong")), "An example that fails:"),
        (explanation.get("passes", explanation.get("right")), "An example that passes:"),
    ):
        if example is not None:
            yield ""
            yield _bold(title, colour)
            yield from (f"    {line}".rstrip() for line in dedent(example).strip().splitlines())


def _bold(text: str, colour: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if colour else text


def _as_dict(rule: Rule) -> dict[str, Any]:
    from cfagg.checking.links import link, older_sections

    explanation = _explanation(rule)
    return {
        "code": rule.code,
        "severity": rule.severity,
        "section": rule.section,
        "title": rule.title,
        "older_sections": {str(last): number for last, number, _ in older_sections().get(rule.code, ())},
        "since": str(rule.since),
        "until": None if rule.until is None else str(rule.until),
        "needs": rule.needs,
        "checked": rule.function is not None,
        "summary": rule.summary,
        "link": link(rule) or None,
        "why": " ".join(explanation["why"].split()) if "why" in explanation else None,
        "fails": explanation.get("fails", explanation.get("wrong")),
        "passes": explanation.get("passes", explanation.get("right")),
    }
