"""Filters: frames of observations in, frames out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Filter"]


@runtime_checkable
class Filter(Protocol):
    """What changes frames of observations on their way into a store.

    A filter is made once in each process of a build.  The frames it gets are some rows of a part, so what it does to a
    row should follow from that row alone; one that must see all rows of a part at once says so with a class attribute
    ``whole = True``.  It should not change the frame it is given.

    More is used where it is there: ``attributes(before)`` returns what becomes of the attributes of columns (units and
    the like), which stay as they are otherwise; ``check(period)`` returns messages on what does not fit the recipe's
    dates; ``short`` names the setting that a value alone stands for.

    Source: "Support irregular observations datasets", "Filters".

    Examples
    --------
    >>> class Celsius:
    ...     def __init__(self, config):
    ...         self.column = config["column"]
    ...
    ...     def transform(self, frame):
    ...         return frame.assign(**{self.column: frame[self.column] - 273.15})
    >>> isinstance(Celsius({"column": "t"}), Filter)
    True
    """

    def __init__(self, config: Any) -> None: ...

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with other rows, columns or values; ``date``, ``latitude`` and ``longitude`` must stay."""
        ...
