"""Observations from a Python function, or from one frame at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cfagg.observations.settings import Section, function, settings_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallableSource"]


_REMEDY = "give one from Python, or make it a source by name with an entry point of the group cfagg.sources"


class _Function(Section):
    function: Annotated[Any, function(_REMEDY)]


class CallableSource:
    """A function of two dates that returns a frame, or an iterable of frames.

    Parameters
    ----------
    config : mapping
        ``function``: called as ``function(start, end)``, the end not included.  For more than one process it must be
        one that Python can pickle: defined in a module, not in a function.

    Examples
    --------
    >>> import pandas as pd
    >>> def buoy(start, end):
    ...     dates = pd.date_range(start, end, freq="6h", inclusive="left")
    ...     return pd.DataFrame({"date": dates, "latitude": 45.0, "longitude": -20.0, "sst": 288.0})
    >>> from datetime import datetime
    >>> len(CallableSource({"function": buoy}).read(datetime(2020, 1, 1), datetime(2020, 1, 2)))
    4
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.function = settings_of(_Function, config).function

    def read(self, start: datetime, end: datetime) -> pd.DataFrame | Iterable[pd.DataFrame]:
        """Return what the function returns."""
        found: pd.DataFrame | Iterable[pd.DataFrame] = self.function(start, end)
        return found
