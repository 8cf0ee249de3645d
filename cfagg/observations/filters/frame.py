"""A Python function as a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cfagg.observations.settings import Flag, Section, function, settings_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallableFilter"]


class _Function(Section):
    function: Annotated[Any, function("give one from Python")]
    whole: Flag = False


class CallableFilter:
    """A function that takes a frame and returns one."""

    # ``function``, and ``whole``: whether it must see all rows of a part at once (default: no).

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = settings_of(_Function, config)
        self.function, self.whole = settings.function, settings.whole

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return what the function returns."""
        changed: pd.DataFrame = self.function(frame)
        return changed
