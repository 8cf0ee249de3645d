"""Well-known text of coordinate reference systems: whether it can be parsed, regardless of its meaning.

Both the form of ISO 19162 (``GEODCRS[...]``) and the older one (``GEOGCS[...]``) are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["problems"]

#: Deeper nesting or longer text is not a description of a coordinate reference system.
_DEEPEST, _LONGEST = 40, 1 << 20

_LEXEMES = r"""
    (?P<space>\s+)
  | (?P<text>"[^"]*"(?:"[^"]*")*|\u201c[^\u201d]*\u201d)
  | (?P<date>\d{4}-[-\d:.TZ+]{2,40}(?![\w.]))
  | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<open>[\[(])
  | (?P<close>[\])])
  | (?P<comma>,)
"""

#: Keywords that a complete text may begin with -> required content, one word of each tuple.
_WHOLE: Mapping[str, tuple[tuple[str, ...], ...]] = (
    dict.fromkeys(
        ("GEODCRS", "GEODETICCRS", "GEOGCRS", "GEOGRAPHICCRS"),
        (("DATUM", "ENSEMBLE", "GEODETICDATUM", "TRF", "BASEGEOGCRS", "BASEGEODCRS"), ("CS",)),
    )
    | dict.fromkeys(("PROJCRS", "PROJECTEDCRS"), (("BASEGEODCRS", "BASEGEOGCRS"), ("CONVERSION",), ("CS",)))
    | dict.fromkeys(
        ("VERTCRS", "VERTICALCRS"), (("VDATUM", "VERTICALDATUM", "VRF", "ENSEMBLE", "BASEVERTCRS"), ("CS",))
    )
    | {
        "GEOGCS": (("DATUM",), ("PRIMEM",), ("UNIT",)),
        "GEOCCS": (("DATUM",), ("PRIMEM",), ("UNIT",)),
        "PROJCS": (("GEOGCS",), ("PROJECTION",), ("UNIT",)),
        "VERT_CS": (("VERT_DATUM",), ("UNIT",)),
        "BOUNDCRS": (("SOURCECRS",), ("TARGETCRS",), ("ABRIDGEDTRANSFORMATION",)),
        "DERIVEDPROJCRS": (("BASEPROJCRS",), ("DERIVINGCONVERSION",), ("CS",)),
    }
    | dict.fromkeys(
        (
            "COMPOUNDCRS", "ENGCRS", "ENGINEERINGCRS", "TIMECRS", "PARAMETRICCRS", "IMAGECRS", "COORDINATEMETADATA",
            "VERTCS", "COMPD_CS", "LOCAL_CS", "FITTED_CS",
        ),
        (),
    )
)  # fmt: skip

#: Those of them that do not begin with a name.
_NAMELESS = ("BOUNDCRS", "COORDINATEMETADATA")

#: The minimum number of members of keywords; 1 for all others.
_PARTS: dict[str, int] = {
    "ELLIPSOID": 3, "SPHEROID": 3, "PRIMEM": 2, "PRIMEMERIDIAN": 2, "DATUM": 2, "GEODETICDATUM": 2, "UNIT": 2,
    "PARAMETER": 2, "CS": 2, "COMPOUNDCRS": 3, "COMPD_CS": 3, "AXIS": 2, "ID": 2, "AUTHORITY": 2, "LENGTHUNIT": 2,
    "ANGLEUNIT": 2, "SCALEUNIT": 2,
}  # fmt: skip

#: The members that must be numbers, counted from 0.
_NUMBERS: dict[str, tuple[int, ...]] = {
    "ELLIPSOID": (1, 2), "SPHEROID": (1, 2), "PRIMEM": (1,), "PRIMEMERIDIAN": (1,), "PARAMETER": (1,), "UNIT": (1,),
    "LENGTHUNIT": (1,), "ANGLEUNIT": (1,), "SCALEUNIT": (1,), "CS": (1,),
}  # fmt: skip


class _Node:
    """A keyword with its members as kinds: ``"text"``, ``"number"``, ``"word"`` or the keyword of a node."""

    __slots__ = ("closing", "keyword", "members")

    def __init__(self, keyword: str, closing: str) -> None:
        self.keyword, self.closing = keyword, closing
        self.members: list[str] = []


def problems(text: str) -> list[str]:
    """Return the first problem of a text as well-known text of a coordinate reference system."""
    if len(text) > _LONGEST:
        return [f"it has {len(text):,} characters"]
    problem = _read(text)
    return [problem] if problem else []


def _read(text: str) -> str | None:
    """Return the first problem, or `None` if there is none."""
    open_: list[_Node] = []
    word: tuple[str, int] | None = None  # a keyword that an opening bracket must or may follow
    expect = "a keyword"
    token = re.compile(_LEXEMES, re.VERBOSE)
    at = 0
    while at < len(text):
        match = token.match(text, at)
        kind = match.lastgroup if match else None
        found = match[0] if match else text[at]
        here = at + 1
        at = match.end() if match else at + 1
        if kind == "space":
            continue
        if expect == "the end":
            return f"at character {here}: {found[:20]!r} after the end"
        if word is not None and kind == "open":
            if len(open_) >= _DEEPEST:
                return f"it is nested more than {_DEEPEST} deep"
            if not open_ and word[0].upper() not in _WHOLE:
                return f"{word[0]!r} is not a kind of coordinate reference system"
            open_.append(_Node(word[0].upper(), "]" if found == "[" else ")"))
            word, expect = None, "a value"
            continue
        if word is not None:
            if not open_:
                return f"at character {here}: {found[:20]!r} where '[' is expected"
            open_[-1].members.append("word")
            word, expect = None, "',' or a closing bracket"
        if expect in ("a keyword", "a value") and kind == "word":
            word = (found, here)
        elif expect == "a value" and kind in ("text", "number", "date"):
            open_[-1].members.append(kind or "")
            expect = "',' or a closing bracket"
        elif expect.startswith("','") and kind == "comma":
            expect = "a value"
        elif expect.startswith("','") and kind == "close" and found == open_[-1].closing:
            problem = _judged(node := open_.pop())
            if problem:
                return problem
            if open_:
                open_[-1].members.append(node.keyword)
            else:
                expect = "the end"
        else:
            return f"at character {here}: {found[:20]!r} where {expect} is expected"
    if open_:
        return f"it ends before {open_[-1].keyword} is closed"
    if expect == "the end":
        return None
    return "it is empty" if word is None else f"{word[0]!r} has no brackets after it"


def _judged(node: _Node) -> str | None:
    """Return the problem of one node, whose members are known, or `None`."""
    at_least = _PARTS.get(node.keyword, 1)
    if len(node.members) < at_least:
        return f"{node.keyword} has {len(node.members)} members; expected {at_least} or more"
    for index in _NUMBERS.get(node.keyword, ()):
        if node.members[index] != "number":
            return f"member {index + 1} of {node.keyword} is not a number"
    if node.keyword in _WHOLE and node.keyword not in _NAMELESS and node.members[0] != "text":
        return f"{node.keyword} does not begin with a name in quotes"
    for choice in _WHOLE.get(node.keyword, ()):
        if not set(choice) & set(node.members):
            return f"{node.keyword} has no {' or '.join(choice[:2])}"
    return None
