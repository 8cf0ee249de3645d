"""A check in the XML of JUnit, which build servers show: a suite for each source, a case for each rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from cfagg.checking.formats import Style, not_listed
from cfagg.checking.outcome import Outcome
from cfagg.checking.registry import registered
from cfagg.findings.finding import Finding

__all__ = ["render"]


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield the suites.

    Errors are failures; with ``strict`` warnings are too, else they are in the output of their case, which passes.
    A source that could not be checked is an error in the sense of JUnit.
    """
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
    for number, result in enumerate(results):
        yield from _suite(number, result, style)
    yield "</testsuites>\n"


def _suite(number: int, result: Outcome, style: Style) -> Iterator[str]:
    by_code: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_code.setdefault(finding.code, []).append(finding)
    codes = [*result.ran, *(code for code in by_code if code not in set(result.ran))]
    broken = [code for code in codes if any(f.is_failure for f in by_code.get(code, ()))]
    fails = {"error", "warning"} if style.strict else {"error"}
    failing = [c for c in codes if c not in broken and any(f.severity in fails for f in by_code.get(c, ()))]
    name = _attribute(result.source)
    yield (
        f'<testsuite id="{number}" package="cfagg.check" name="{name}" hostname="localhost" '
        f'timestamp="{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}" time="0" tests="{len(codes) + len(result.skipped)}" '
        f'failures="{len(failing)}" errors="{len(broken)}" skipped="{len(result.skipped)}">\n'
    )
    version = f'<property name="cf_version" value="{_attribute(result.cf_version or "")}"/>'
    yield f"<properties>{version}</properties>\n"
    quiet: list[Finding] = []
    for code in codes:
        found = by_code.get(code, [])
        head = f'<testcase name="{_attribute(_title(code))}" classname="{name}" time="0"'
        if code in broken:
            yield f"{head}>{_outcome('error', code, found, result)}</testcase>\n"
        elif code in failing:
            yield f"{head}>{_outcome('failure', code, found, result)}</testcase>\n"
        else:
            yield f"{head}/>\n"
            quiet += found
    for code, why in result.skipped.items():
        head = f'<testcase name="{_attribute(_title(code))}" classname="{name}" time="0">'
        yield f'{head}<skipped message="{_attribute(why)}"/></testcase>\n'
    more = "".join(f"\n{code}: {said}" for code, said in not_listed(result))
    yield f"<system-out>{_text(_lines(quiet) + more)}</system-out>\n<system-err/>\n</testsuite>\n"


def _title(code: str) -> str:
    rule = registered().get(code)
    return f"{code} {rule.summary}" if rule is not None else code


def _outcome(tag: str, code: str, found: Sequence[Finding], result: Outcome) -> str:
    first = found[0]
    head = f"{first.where}: {first.message}" if first.where else first.message
    others = len(found) - 1 + result.dropped.get(code, 0)
    more = f" (and {others:,} more)" if others else ""
    return f'<{tag} type="{code}" message="{_attribute(head + more)}">{_text(_lines(found))}</{tag}>'


def _lines(found: Iterable[Finding]) -> str:
    return "\n".join(str(f) for f in found)


def _text(text: str) -> str:
    r"""Return text for XML, with Python escapes for what XML 1.0 does not allow or would change a terminal."""
    legal = "".join(c if c.isprintable() or c in "\t\n" else c.encode("unicode_escape").decode("ascii") for c in text)
    return legal.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return _text(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;")
