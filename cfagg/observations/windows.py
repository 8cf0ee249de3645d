"""Windows: which observations around a sample's date belong to the sample.

Text such as ``"(-3,+3]"``: a round bracket leaves its end out, a square one keeps it in.  Observations have dates of
whole seconds, so every window means a half-open range of them; nothing else of cfagg knows about brackets.

*window*: a range of time around a date, such as six hours before it to three hours after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.errors import OptionError

__all__ = ["Window", "parse_window"]

#: Longer text of an offset is a mistake.
_MOST_TEXT = 100
_WINDOW = re.compile(r"\s*([\[(])([^,\[\]()]*),([^,\[\]()]*)([\])])\s*")


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time relative to a sample's date: offsets in seconds, and whether each end belongs to it."""

    start: Fraction
    end: Fraction
    closed_start: bool = False
    closed_end: bool = True

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise OptionError(f"the window {self} is reversed: its start is after its end")
        lo, hi = self.offsets
        if lo >= hi:
            why = "observations have dates of whole seconds, and none lies in it"
            raise OptionError(f'the window {self} is empty: {why}; "[0,0]" keeps the sample\'s own second')

    @property
    def offsets(self) -> tuple[int, int]:
        """First second of the window and the second after its last, relative to the sample's date."""
        lo = -(-self.start // 1) if self.closed_start else self.start // 1 + 1
        hi = self.end // 1 + 1 if self.closed_end else -(-self.end // 1)
        return int(lo), int(hi)

    def epochs(self, date: int) -> tuple[int, int]:
        """Return the seconds of the window as a half-open range: an observation at t is in it where lo <= t < hi."""
        lo, hi = self.offsets
        return date + lo, date + hi

    @classmethod
    def of(cls, value: str | Self) -> Window:
        """Return `value` itself where it is a window, else the window that its text describes."""
        return value if isinstance(value, Window) else parse_window(value)

    def __str__(self) -> str:
        left, right = "[" if self.closed_start else "(", "]" if self.closed_end else ")"
        return f"{left}{format_duration(self.start)},{format_duration(self.end)}{right}"


def parse_window(text: Any) -> Window:
    """Return the window that a text describes: ``(-3,+3]`` in hours, ``(-1d,0]``, ``[-PT90M,06:00)``."""
    wrong = f'{text!r} is not a window such as "(-3,+3]" or "[-1d,0]"'
    if not isinstance(text, str) or len(text) > 2 * _MOST_TEXT:
        raise OptionError(wrong[: 4 * _MOST_TEXT])
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise OptionError(f"{wrong}: two spans of time with a comma between, in round or square brackets")
    left, start, end, right = match.groups()
    try:
        ends = parse_duration(start), parse_duration(end)
    except OptionError as error:
        raise OptionError(f"{wrong}: {error.message}") from None
    return Window(*ends, left == "[", right == "]")
