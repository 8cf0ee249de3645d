"""Rules and their registration.

A rule is a function that takes the `Context` of one dataset and yields a `Hit` for each breach::

    @rule("DOC006")
    def dimensions_are_distinct(c: Context) -> Iterator[Hit]:
        for v in c.dataset.variables:
            if len(set(v.dimensions)) < len(v.dimensions):
                yield Hit(v, None, f"a dimension of {', '.join(v.dims)} occurs twice")

The properties of a rule other than its function (section, first version, kind, summary) are in ``tables/rules.csv``.

*rule*: one requirement or recommendation of a convention, with a code, a severity and the versions that it applies to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from cfagg.findings.finding import Hit, Severity
from cfagg.findings.versions import Version

__all__ = ["FUNCTIONS", "Explanation", "Need", "Rule", "RuleFunction", "rule", "shared"]

#: It is called with a `cfagg.findings.context.Context`; some rules need more of it than the protocol defines.
RuleFunction = Callable[[Any], Iterable[Hit]]

F = TypeVar("F", bound=Callable[..., Iterable[Any]])

#: The data that a rule reads.  Values of variables (``data``) and the files that an aggregation refers to
#: (``references``) are read only if a rule needs them.
Need = Literal["metadata", "data", "references", "data of references"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its description.

    Parameters
    ----------
    code : str
        Three letters and three digits.
    section : str
        Section of the CF conventions in its newest version, or the name of another document.
    title : str
        Title of that section.
    severity : {"error", "warning", "info"}
        error for a requirement, warning for a recommendation.
    since : Version
        The first version of CF that contains it.
    summary : str
        The check in one line.
    needs : {"metadata", "data", "references", "data of references"}
        The data that it reads.
    function : callable, optional
        `None` if there is nothing to check: a note in the text, or a rule repeated by another one.
    until : Version, optional
        The last version of CF that contains it.
    back_to : Version, optional
        The first version that it is checked for, if a newer text also covers older versions.
    explanation : mapping, optional
        For a rule of a job or a plug-in: the explanation described in `cfagg.checking.explaining`.
    link : str
        For a rule of a plug-in: the URL of the document that it comes from.
    """

    code: str
    section: str
    title: str
    severity: Severity
    since: Version
    summary: str
    needs: Need = "metadata"
    function: RuleFunction | None = None
    until: Version | None = None
    back_to: Version | None = None
    explanation: Mapping[str, Any] | None = None
    link: str = ""

    def holds_in(self, version: Version) -> bool:
        """Return whether the rule applies to this version of CF."""
        return (self.back_to or self.since) <= version and (self.until is None or version <= self.until)


class Explanation(Mapping[str, Any]):
    """The explanation of a rule: the table of its code in a TOML file, which is read when first needed."""

    def __init__(self, path: Path, code: str) -> None:
        self._place = path, code

    @cached_property
    def _texts(self) -> Mapping[str, Any]:
        path, code = self._place
        texts: Mapping[str, Any] = _explanations(path)[code]
        return texts

    def __getitem__(self, key: str) -> Any:
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@lru_cache(maxsize=16)
def _explanations(path: Path) -> Mapping[str, Any]:
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


#: Rules registered by `rule`: function, data that it reads, last version, first version that is checked.
FUNCTIONS: dict[str, tuple[RuleFunction, Need, Version | None, Version | None]] = {}


def rule(
    code: str,
    *,
    each: str | Callable[[Any], Iterable[Any]] | None = None,
    needs: Need = "metadata",
    until: Version | None = None,
    back_to: Version | None = None,
) -> Callable[[F], F]:
    """Register the function of a rule in ``tables/rules.csv``.

    If `each` is the name of an attribute, the function is called for every variable with that attribute, and may yield
    only a message.  If `each` is a function of the context that returns a list, it is called for every member of the
    list, with the members of a tuple as arguments.
    """

    def register(function: F) -> F:
        if code in FUNCTIONS and FUNCTIONS[code][0].__module__ != function.__module__:
            raise ValueError(f"rule {code} is registered twice")
        whole: RuleFunction = function
        if each is not None:
            whole = _having(function, each) if isinstance(each, str) else _over(function, each)
        whole.__module__ = function.__module__
        FUNCTIONS[code] = (whole, needs, until, back_to)
        return function

    return register


def _having(function: Callable[..., Iterable[Hit | str]], attribute: str) -> RuleFunction:
    def found(c: Any) -> Iterator[Hit]:
        for v in c.with_attribute(attribute):
            for hit in function(c, v):
                yield Hit(v, attribute, hit) if isinstance(hit, str) else hit

    return found


def _over(function: Callable[..., Iterable[Hit]], each: Callable[[Any], Iterable[Any]]) -> RuleFunction:
    def found(c: Any) -> Iterator[Hit]:
        for one in each(c):
            yield from function(c, *one) if type(one) is tuple else function(c, one)

    return found


def shared(function: Callable[..., Iterable[Hit]], *, needs: Need = "metadata", **cases: Any) -> None:
    """Register one function for several rules, given by their codes with further arguments."""
    for code, given in cases.items():
        arguments = given if isinstance(given, tuple) else (given,)
        rule(code, needs=needs)(_with(function, arguments))


def _with(function: Callable[..., Iterable[Hit]], arguments: tuple[Any, ...]) -> RuleFunction:
    return lambda c: function(c, *arguments)
