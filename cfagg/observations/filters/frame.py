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
    """A function that takes a frame and returns one.

    Parameters
    ----------
    config : mapping
        ``function``, and ``whole``: whether it must see all rows of a part at once (default: no).

    Examples
    --------
    >>> import pandas as pd
    >>> CallableFilter({"function": lambda frame: frame.head(1)}).transform(pd.DataFrame({"a": [1, 2]}))
       a
    0  1
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = settings_of(_Function, config)
        self.function, self.whole = settings.function, settings.whole

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return what the function returns."""
        changed: pd.DataFrame = self.function(frame)
        return changed
