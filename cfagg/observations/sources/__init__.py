"""Sources of observations: tables for ranges of dates."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Source"]


@runtime_checkable
class Source(Protocol):
    """A reader of observations for a recipe.

    A source is created once in each process of a build, with its configuration: a mapping with the keys of the recipe
    (a `cfagg.observations.settings.Config`, which also has its place in the recipe and the recipe's directory).  It
    should raise `cfagg.errors.ConventionError` for unknown keys, and open nothing yet.

    Two more methods are used if they exist: ``prepare(directory)`` is called once for each build, before any part is
    read, with a directory in which the source may keep data that it reads only once (a `pathlib.Path`; it survives a
    restart and is shared by all processes of the build); ``files()`` returns the paths that the source reads, for the
    record of provenance in a store.

    Source: "Support irregular observations datasets", "Sources".

    Examples
    --------
    >>> import pandas as pd
    >>> class Drifter:
    ...     def __init__(self, config):
    ...         self.speed = config.get("speed", 1.0)
    ...
    ...     def read(self, start, end):
    ...         dates = pd.date_range(start, end, freq="1h", inclusive="left")
    ...         return pd.DataFrame({"date": dates, "latitude": 0.0, "longitude": 5.0, "speed": self.speed})
    >>> isinstance(Drifter({}), Source)
    True
    """

    def __init__(self, config: Any) -> None: ...

    def read(self, start: datetime, end: datetime) -> pd.DataFrame | Iterable[pd.DataFrame]:
        """Return the observations of a range of dates.

        Parameters
        ----------
        start, end : datetime
            In UTC without a time zone; `end` is not included.

        Returns
        -------
        pandas.DataFrame, or an iterable of them
            One row per observation: ``date`` (datetime64), ``latitude`` and ``longitude`` (degrees) and any numeric
            columns.  Rows outside the range are removed afterwards.  ``frame.attrs["variables"]`` may give
            attributes of columns, such as units and standard_name.
        """
        ...
