"""Windows of time around dates, and what of a store is taken for the samples of a dataset: their dates and windows.

*window*: a range of time around a date, such as six hours before it to three hours after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.errors import OptionError
from cfagg.observations.dates import SampleDates, first_second, last_second, parse_frequency
from cfagg.observations.selection import Area, Columns, Thinning, parse_area, parse_thinning

__all__ = ["DELTATIME", "KINDS", "Plan", "Window", "parse_window"]

#: The columns that come before the variables in samples of the kind "deltatime".
DELTATIME = ("deltatime", "latitude", "longitude")

#: What ``sample=`` may be.
KINDS = ("data", "deltatime")

#: Seconds that single precision holds exactly; more do not fit into a column "deltatime".
_EXACT = 2**24


@dataclass(frozen=True, slots=True)
class Plan:
    """Which samples a store is cut into, and what of their rows is given out."""

    dates: SampleDates
    window: Window
    columns: Columns
    area: Area | None = None
    thin: Thinning | None = None
    #: ``data``, or ``deltatime`` with seconds from the sample's date, latitude and longitude before the variables.
    kind: str = "data"
    #: By the names of variables in the store, where they are not the store's own.
    statistics: Mapping[str, Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"sample={self.kind!r} is not a kind of sample: it must be {' or '.join(KINDS)}")
        if self.kind != "deltatime":
            return
        if taken := sorted(set(DELTATIME) & set(self.columns.names)):
            raise OptionError(
                f"sample='deltatime' has columns of its own named {', '.join(taken)}: rename these variables (rename=)"
            )
        lo, hi = self.window.offsets
        if max(abs(lo), abs(hi - 1)) > _EXACT:
            raise OptionError(
                f"the window {self.window} reaches more than 2**24 seconds (194 days) from the sample's date: a column "
                "'deltatime' of float32 cannot hold that exactly; use sample='data' and ds.details(i).timedeltas"
            )

    def changed(self, changes: dict[str, Any]) -> Plan:
        """Return a plan with some parts replaced, as `Observations.subset` takes them."""
        given = {k: v for k, v in changes.items() if v is not None}
        now = self.dates
        dates = SampleDates(
            first_second(given["start"]) if "start" in given else now.start,
            last_second(given["end"]) if "end" in given else now.end,
            parse_frequency(given["frequency"]) if "frequency" in given else now.frequency,
        )
        names = {k: given.get(k) for k in ("select", "drop", "reorder", "rename")}
        return Plan(
            dates,
            Window.of(given["window"]) if "window" in given else self.window,
            self.columns.choose(**names),
            parse_area(given["area"]) if "area" in given else self.area,
            parse_thinning(given["thin"]) if "thin" in given else self.thin,
            given.get("sample", self.kind),
            self.statistics,
        )


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
