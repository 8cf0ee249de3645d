"""Filters: frames of observations in, frames out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Filter"]


@runtime_checkable
class Filter(Protocol):
    """Changes frames of observations before they are stored.

    A filter is created once in each process of a build.  It receives frames with some rows of a part, so the result for
    a row should depend on that row alone; a filter that must see all rows of a part at once has the class attribute
    ``whole = True``.  It should not modify the frame that it is given.

    Optional members: ``attributes(before)`` returns the new attributes of columns (units and the like), which otherwise
    stay the same; ``check(period)`` returns messages about conflicts with the dates of the recipe; ``short`` is the
    name of the setting for a value that is given without a name.

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
        """Return the frame with other rows, columns or values; ``date``, ``latitude`` and ``longitude`` must remain."""
        ...
