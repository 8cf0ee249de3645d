"""A Python function as a source, or as a filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cfagg.observations.settings import Flag, Section, function, settings_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallableFilter", "CallableSource"]

_REMEDY = "give one from Python, or make it a source by name with an entry point of the group cfagg.sources"


class _Function(Section):
    function: Annotated[Any, function(_REMEDY)]


class CallableSource:
    """A function of two dates, the second not included, that returns a frame, or an iterable of frames."""

    # For more than one process it must be one that Python can pickle: defined in a module, not in a function.

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.function = settings_of(_Function, config).function

    def read(self, start: datetime, end: datetime) -> pd.DataFrame | Iterable[pd.DataFrame]:
        """Return what the function returns."""
        found: pd.DataFrame | Iterable[pd.DataFrame] = self.function(start, end)
        return found


class _Change(Section):
    function: Annotated[Any, function("give one from Python")]
    whole: Flag = False


class CallableFilter:
    """A function that takes a frame and returns one."""

    # ``function``, and ``whole``: whether it must see all rows of a part at once (default: no).

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = settings_of(_Change, config)
        self.function, self.whole = settings.function, settings.whole

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return what the function returns."""
        changed: pd.DataFrame = self.function(frame)
        return changed
