"""Repair of text that is nearly JSON, symbol by symbol, into strict JSON.

Only the misprints of the NCA document's examples are repaired: names in single quotes, a
missing opening quote (``{directions'``, ``lat'``), a comma for the colon before ``true`` or ``false``
(``{'time', true}``), and a byte order mark.  The text is never evaluated.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from cfagg.conventions import limits
from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, LimitError, RepairWarning

__all__ = ["MisprintWarning", "Repair", "place", "repair"]

_ESCAPE = r"""\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})"""
_TOKEN = re.compile(
    rf"""[ \t\n\r]*+(?:
      (?P<punctuation>[{{}}\[\],:])
    | (?P<double>"(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+")
    | (?P<single>'(?:[^'\\\x00-\x1f]++|\\'|{_ESCAPE})*+')
    | (?P<literal>(?:true|false|null|NaN|-?Infinity|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)
        (?=[ \t\n\r,:\]}}]|\Z))
    | (?P<bare>[^\s'"{{}}\[\],:\\\x00-\x1f]++['"])
    | (?P<end>\Z))""",
    re.VERBOSE,
).match

# What the grammar expects next.
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _AFTER, _END = range(7)
_EXPECTED = {
    _VALUE: "a value",
    _FIRST_VALUE: "a value or ]",
    _KEY: "a name in quotes",
    _FIRST_KEY: "a name in quotes or }",
    _COLON: ":",
    _AFTER: "a comma or a closing bracket",
    _END: "the end of the text",
}


class MisprintWarning(RepairWarning):
    """A text that was not strict JSON and was read after a repair."""


class Repair(NamedTuple):
    """A repair: its kind and a sentence that names the place."""

    kind: str
    message: str


def place(text: str, position: int) -> str:
    """Return the place of a character for messages."""
    line_start = text.rfind("\n", 0, position) + 1
    return f"line {text.count(chr(10), 0, position) + 1} column {position - line_start + 1}"


def repair(text: str) -> tuple[str, list[Repair]]:
    """Return strict JSON for text that is JSON except for the known misprints, and the repairs."""
    repairs: list[Repair] = []
    seen: Counter[str] = Counter()
    done: list[str] = []
    out: list[str] = []
    singles, first_single = 0, 0
    position = 0
    if text.startswith("\ufeff"):
        position = 1
        repairs.append(Repair("byte order mark", "the text starts with a byte order mark"))
    stack: list[str] = []
    state = _VALUE
    key = ""

    def note(kind: str, said: str, at: int) -> None:
        seen[kind] += 1
        # Only the first ones of a kind are shown, and counting lines takes longer the further on they are.
        where = f" ({place(text, at)})" if seen[kind] <= limits.MAX_REPAIR_WARNINGS else ""
        repairs.append(Repair(kind, f"{said}{where}"))

    while True:
        match = _TOKEN(text, position)
        if match is None:
            raise _broken(text, _skip(text, position), state)
        kind, start, position = match.lastgroup, match.start(match.lastgroup or 0), match.end()
        symbol = match[kind or 0]
        if kind == "end":
            if state != _END:
                raise _broken(text, start, state)
            break
        if kind == "single":
            singles += 1
            first_single = first_single if singles > 1 else start
            body = symbol[1:-1].replace("\\'", "'")
            symbol = '"' + re.sub(r'(\\.)|"', lambda m: m[1] or '\\"', body) + '"'
        elif kind == "bare":
            note("opening quote", f"the opening quote of {symbol[:-1]!r} is missing", start)
            symbol = f'"{symbol[:-1]}"'
        is_string = kind in ("single", "double", "bare")
        if state in (_VALUE, _FIRST_VALUE) and (is_string or kind == "literal"):
            state = _AFTER if stack else _END
        elif state in (_VALUE, _FIRST_VALUE) and symbol in "{[":
            stack.append(symbol)
            if len(stack) > limits.MAX_DEPTH:
                raise LimitError(f"lists and objects are nested deeper than {limits.MAX_DEPTH} ({place(text, start)})")
            state = _FIRST_KEY if symbol == "{" else _FIRST_VALUE
        elif state in (_KEY, _FIRST_KEY) and is_string:
            key = symbol
            state = _COLON
        elif state == _COLON and symbol == ":":
            state = _VALUE
        elif state == _COLON and symbol == "," and _is_boolean(text, position):
            note("colon", f"there is a comma instead of the colon after '{key[1:-1]}'", start)
            symbol, state = ":", _VALUE
        elif state == _AFTER and symbol == ",":
            state = _KEY if stack[-1] == "{" else _VALUE
        elif (
            symbol in "}]"
            and stack
            and stack[-1] + symbol in ("{}", "[]")
            and state in (_AFTER, _FIRST_KEY, _FIRST_VALUE)
        ):
            stack.pop()
            state = _AFTER if stack else _END
        else:
            raise _broken(text, start, state)
        out.append(symbol)
        if len(out) > 65536:  # few long symbols need less memory than millions of short ones
            done.append("".join(out))
            out.clear()
    if singles:
        number = f"{singles} string{'s' if singles > 1 else ''}"
        where = f"the first at {place(text, first_single)}"
        repairs.append(Repair("single quotes", f"there are single quotes instead of double quotes ({number}, {where})"))
    return "".join(done) + "".join(out), repairs


def _is_boolean(text: str, position: int) -> bool:
    """Return whether the next symbol is ``true`` or ``false``."""
    match = _TOKEN(text, position)
    return match is not None and match["literal"] in ("true", "false")


def _skip(text: str, position: int) -> int:
    """Return the next position that is not white space."""
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def _broken(text: str, position: int, state: int) -> ConventionError:
    """Return the error for text that cannot be repaired."""
    found = shorten(text[position : position + 20]) if position < len(text) else "the end of the text"
    return ConventionError(f"{place(text, position)}: expected {_EXPECTED[state]}, found {found}")
