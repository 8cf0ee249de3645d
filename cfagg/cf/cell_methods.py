"""The grammar of ``cell_methods``.

An attribute is a list of entries::

    name: [name: ...] method [where type [over type]] [within|over days|years] [(comment)]
    name: [name: ...] anomaly_wrt norm [(comment)]

and a comment is ``[interval: value unit [interval: ...] comment:] remainder``.

Sources: CF sections 7.3, 7.4 and 7.5; Appendix E.

*cell method*: how a value represents its cell along a dimension, such as the mean over a month.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["METHODS", "CellMethods", "Entry", "Interval", "parse"]

#: Methods of Appendix E with the minor version of CF that introduced them.
METHODS = {
    "point": 0,
    "sum": 0,
    "maximum": 0,
    "median": 0,
    "mid_range": 0,
    "minimum": 0,
    "mean": 0,
    "mode": 0,
    "standard_deviation": 0,
    "variance": 0,
    "maximum_absolute_value": 7,
    "minimum_absolute_value": 7,
    "mean_absolute_value": 7,
    "mean_of_upper_decile": 7,
    "range": 7,
    "root_mean_square": 7,
    "sum_of_squares": 7,
    "anomaly_wrt": 13,
}

#: Maximum number of characters of an attribute that are parsed.
_LONGEST = 1 << 16

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")


class Interval(NamedTuple):
    """A spacing of the original data, with value and unit as written; the value is checked, but the unit is not."""

    value: str
    unit: str


class Entry(NamedTuple):
    """One entry of ``cell_methods``: its names and words as written.

    `where` and `over` are area types or variables that contain them, `norm` follows ``anomaly_wrt``; `comment` is the
    rest of the comment without intervals, or `None` if there is no comment.
    """

    names: tuple[str, ...]
    method: str
    where: str | None = None
    over: str | None = None
    within: str | None = None
    period: str | None = None
    norm: str | None = None
    intervals: tuple[Interval, ...] = ()
    comment: str | None = None

    @property
    def is_anomaly(self) -> bool:
        """Whether the data are anomalies."""
        return self.method.lower() == "anomaly_wrt"

    @property
    def is_point(self) -> bool:
        """Whether the method is point."""
        return self.method.lower() == "point"


class CellMethods(NamedTuple):
    """A parsed ``cell_methods`` attribute: its entries, and where words and comments violate the grammar.

    `comment_doubts` are about comments that look like intervals but may also be free text.
    """

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]
    comment_problems: tuple[str, ...]
    comment_doubts: tuple[str, ...] = ()


def parse(text: str) -> CellMethods:
    """Return a parsed ``cell_methods`` attribute, as far as it conforms to the grammar."""
    return _parse(text[:_LONGEST])


@lru_cache(maxsize=256)
def _parse(text: str) -> CellMethods:
    return _Parser(text).parsed()


def _tokens(text: str) -> tuple[list[str], str]:
    """Return the words, with each comment as one token starting with a parenthesis, and unbalanced parentheses."""
    found: list[str] = []
    depth, start = 0, 0
    plain = 0
    for at, char in enumerate(text):
        if char == "(":
            if depth == 0:
                found.extend(text[plain:at].split())
                start = at
            depth += 1
        elif char == ")":
            if depth == 0:
                return found, "a parenthesis is closed that was not opened"
            depth -= 1
            if depth == 0:
                found.append(text[start : at + 1])
                plain = at + 1
    if depth:
        return found, "a parenthesis is not closed"
    found.extend(text[plain:].split())
    return found, ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._words, unbalanced = _tokens(text)
        self._at = 0
        self._problems: list[str] = []
        self._comment_problems: list[str] = [unbalanced] if unbalanced else []
        self._comment_doubts: list[str] = []

    def parsed(self) -> CellMethods:
        entries: list[Entry] = []
        if not self._words and not self._comment_problems:
            self._problems.append("it is empty")
        while self._at < len(self._words) and len(self._problems) < 20 and len(entries) < 1000:
            entry = self._entry()
            if entry is not None:
                entries.append(entry)
            else:
                self._skip()
        return CellMethods(
            tuple(entries), tuple(self._problems), tuple(self._comment_problems), tuple(self._comment_doubts)
        )

    @property
    def _ahead(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    @property
    def _after(self) -> str:
        return self._words[self._at + 1] if self._at + 1 < len(self._words) else ""

    def _next(self) -> str:
        word = self._ahead
        self._at += 1
        return word

    def _skip(self) -> None:
        """Skip to the next word that is a name with a colon."""
        while self._ahead and not _is_name(self._ahead):
            self._at += 1

    def _entry(self) -> Entry | None:
        names = []
        while _is_name(self._ahead):
            names.append(self._next()[:-1])
        word = self._ahead
        if not names:
            self._problems.append(_unexpected(word))
            self._at += 1
            return None
        if not word or word.startswith("("):
            self._problems.append(f"no method follows '{names[-1]}:'")
            return None
        if ":" in word:
            self._problems.append(f"{word!r} where a method is expected; is a blank missing after the colon?")
            self._at += 1
            return None
        method = self._next()
        norm = where = over = within = period = None
        if method.lower() == "anomaly_wrt":
            if self._ahead and not self._ahead.startswith("(") and not _is_name(self._ahead):
                norm = self._next()
        else:
            where, over = self._areas()
            within, period = self._climatology()
        intervals: tuple[Interval, ...] = ()
        comment = None
        if self._ahead.startswith("("):
            intervals, comment = self._comment(self._next(), names)
        elif self._ahead == "interval:" and _NUMBER.fullmatch(self._after):
            self._comment_problems.append(f"'interval: {self._after}' is outside the parentheses; put it inside")
            while self._ahead and (not _is_name(self._ahead) or self._ahead in ("interval:", "comment:")):
                self._at += 1
            return Entry(tuple(names), method, where, over, within, period, norm)
        if self._ahead and not _is_name(self._ahead):
            self._problems.append(_unexpected(self._ahead, method))
            self._skip()
        return Entry(tuple(names), method, where, over, within, period, norm, intervals, comment)

    def _type(self, keyword: str) -> str | None:
        """Return the area type after ``where`` or ``over``."""
        word = self._ahead
        if not word or word.startswith("(") or _is_name(word):
            self._problems.append(f"no area type follows {keyword!r}")
            return None
        return self._next()

    def _areas(self) -> tuple[str | None, str | None]:
        if self._ahead != "where":
            return None, None
        self._next()
        where = self._type("where")
        over = None
        if self._ahead == "over" and not self._period_follows():
            self._next()
            over = self._type("over")
        return where, over

    def _period_follows(self) -> bool:
        return self._after in ("days", "years")

    def _climatology(self) -> tuple[str | None, str | None]:
        if self._ahead not in ("within", "over"):
            return None, None
        word = self._next()
        if self._ahead in ("days", "years"):
            return word, self._next()
        found = repr(self._ahead) if self._ahead else "nothing"
        self._problems.append(f"{found} follows {word!r}; expected days or years" + _hint(word))
        if self._ahead and not self._ahead.startswith("(") and not _is_name(self._ahead):
            self._at += 1
        return None, None

    def _comment(self, text: str, names: Sequence[str]) -> tuple[tuple[Interval, ...], str]:
        words = text[1:-1].split()
        if not words or words[0] != "interval:":
            self._doubt(words)
            return (), " ".join(words)
        intervals = []
        at = 0
        while at < len(words) and words[at] == "interval:":
            value = words[at + 1] if at + 1 < len(words) else ""
            at += 2
            start = at
            while at < len(words) and words[at] not in ("interval:", "comment:"):
                at += 1
            unit = " ".join(words[start:at])
            if not _NUMBER.fullmatch(value):
                self._comment_problems.append(f"{value!r} follows 'interval:'; expected a number")
            elif not unit:
                self._comment_problems.append(f"the interval {value} has no unit")
            else:
                intervals.append(Interval(value, unit))
        count = sum(word == "interval:" for word in words[:at])
        if count not in (1, len(names)):
            self._comment_problems.append(
                f"there are {count} intervals for {len(names)} name(s); expected one, or one for each name"
            )
        return tuple(intervals), " ".join(words[at + 1 :])

    def _doubt(self, words: list[str]) -> None:
        """Record the parts of a free comment that use the words of the grammar."""
        if words and words[0] == "comment:":
            self._comment_doubts.append("a comment without intervals begins with 'comment:'; leave that word out")
        near = next((w for w in words if w.lower().startswith("interval:")), None)
        if near is not None:
            self._comment_doubts.append(
                f"{near!r} is read as free text; intervals come first in the parentheses, as in '(interval: 1 day)'"
            )


def _hint(word: str) -> str:
    return ", or 'where' and an area type before 'over'" if word == "over" else ""


def _is_name(word: str) -> bool:
    """Return whether a word is a name and a colon; ``interval:`` occurs in comments only."""
    return len(word) > 1 and word.endswith(":") and ":" not in word[:-1] and not word.startswith("(")


def _unexpected(word: str, method: str = "") -> str:
    if word.startswith("("):
        return "there is a comment where a name and a colon are expected"
    if ":" in word[:-1]:
        return f"{word!r} where a name and a colon are expected; is a blank missing after the colon?"
    after = f" after the method {method!r}" if method else ""
    return f"{word!r}{after} where a name and a colon are expected"
