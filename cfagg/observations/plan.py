"""What a user asks of a store, worked out: which samples, and what of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cfagg.errors import OptionError
from cfagg.observations.dates import SampleDates, first_second, last_second, parse_frequency
from cfagg.observations.selection import Area, Columns, Thinning, parse_area, parse_thinning
from cfagg.observations.windows import Window

__all__ = ["DELTATIME", "KINDS", "Plan"]

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
