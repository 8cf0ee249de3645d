"""A Python function as a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cfagg.observations.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallableFilter"]


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
        settings = Settings(config)
        self.function = settings.take("function")
        self.whole = settings.flag("whole", False)
        if not callable(self.function):
            settings.wrong("function", f"{self.function!r} is not a function; give one from Python")
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return what the function returns."""
        changed: pd.DataFrame = self.function(frame)
        return changed
