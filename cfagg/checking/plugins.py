"""Rules that other packages provide under the entry point group ``cfagg.rules``.

In the ``pyproject.toml`` of such a package::

    [project.entry-points."cfagg.rules"]
    acdd = "acdd_rules:rules"

The object is a function without arguments that returns `Rule` objects, or a module with a list ``RULES`` of them.  A
package that fails is reported as a finding ``INT002`` of every dataset, and the other rules still run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, get_args

from cfagg.findings.rule import Need, Rule
from cfagg.runtime.entry_points import loaders

__all__ = ["GROUP", "PluginRules", "collected", "from_packages"]

#: The group of entry points.
GROUP = "cfagg.rules"

_CODE = re.compile(r"[A-Z][A-Z0-9]{1,11}[0-9]{3}")


class PluginRules(NamedTuple):
    """The rules of other packages by their codes, and the errors of packages or rules that are left out."""

    rules: dict[str, Rule]
    problems: tuple[str, ...]


def from_packages(known: Collection[str]) -> PluginRules:
    """Return the rules of all installed packages, which must not use `known` codes."""
    return collected(loaders(GROUP), known)


def collected(entries: Iterable[tuple[str, Any]], known: Collection[str]) -> PluginRules:
    """Return the rules of entry points, given as names and loaders, which must not use `known` codes."""
    rules: dict[str, Rule] = {}
    problems = []
    for name, load in entries:
        try:
            given = list(_rules(load()))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever another package does must not end a check
            problems.append(f"the rules of the plug-in {name!r} cannot be loaded: {type(error).__name__}: {error}")
            continue
        for one in given:
            wrong = _wrong(one, known, rules)
            if wrong:
                problems.append(f"a rule of the plug-in {name!r} is ignored: {wrong}")
            else:
                rules[one.code] = one
    return PluginRules(rules, tuple(problems))


def _rules(given: Any) -> Iterator[Any]:
    if isinstance(given, ModuleType):
        yield from given.RULES
    else:
        yield from given() if callable(given) else given


def _wrong(one: Any, known: Collection[str], others: Collection[str]) -> str | None:
    """Return the error in a rule, or `None`."""
    if not isinstance(one, Rule):
        return f"{type(one).__name__} where a Rule is expected"
    if _CODE.fullmatch(str(one.code)) is None or one.code.startswith("INT"):
        return f"the code {one.code!r} does not consist of capital letters and three digits"
    if one.code in known or one.code in others:
        return f"the code {one.code} is taken"
    if not callable(one.function):
        return f"{one.code} has no function"
    if one.severity not in ("error", "warning", "info") or one.needs not in get_args(Need):
        return f"{one.code} has the severity {one.severity!r} and needs {one.needs!r}"
    if not all((one.section, one.title, one.summary)):
        return f"{one.code} lacks section, title or summary"
    return None
