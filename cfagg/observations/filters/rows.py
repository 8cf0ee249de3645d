"""Filters that choose rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.observations.filters.columns import need
from cfagg.observations.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Area", "DropDuplicates", "DropNans"]


class Area:
    """Keep observations in a box of latitude and longitude, its edges included.

    Parameters
    ----------
    config : mapping
        ``area``: north, west, south and east in degrees; the list alone will do.  A box may lie across any meridian:
        longitudes from west to east, whole turns aside.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"latitude": [50.0, 50.0, 0.0], "longitude": [359.0, 11.0, 0.0]})
    >>> Area({"area": [60, -10, 40, 10]}).transform(frame)
       latitude  longitude
    0      50.0      359.0
    """

    short = "area"

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        box = settings.take("area")
        if not isinstance(box, list | tuple) or len(box) != 4 or not all(Settings.is_number(v) for v in box):
            settings.wrong("area", f"{box!r} is not a list of north, west, south and east")
            box = (90, 0, -90, 360)
        self.north, self.west, self.south, self.east = (float(v) for v in box)
        if not -90 <= self.south <= self.north <= 90:
            settings.wrong("area", f"south, {box[2]}, and north, {box[0]}, are not in order between -90 and 90")
        width = self.east - self.west
        self.width = 360.0 if abs(width) >= 360 else width % 360
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows in the box."""
        latitude = frame["latitude"].to_numpy(np.float64)
        east_of = (frame["longitude"].to_numpy(np.float64) - self.west) % 360.0
        inside = (latitude >= self.south) & (latitude <= self.north) & (east_of <= self.width)
        return frame[inside]


class DropDuplicates:
    """Keep the first of rows that agree in some columns.

    Rows that agree in all columns are stored once anyway.

    Parameters
    ----------
    config : mapping
        ``columns``: names, with ``date`` among them: rows of other dates may be in another part of a build, and what
        is stored must not depend on the parts.  All columns if not given.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"date": [1, 1, 2], "station": [7, 7, 7], "t": [1.0, 1.5, 2.0]})
    >>> DropDuplicates({"columns": ["date", "station"]}).transform(frame)["t"].tolist()
    [1.0, 2.0]
    """

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.columns = settings.names("columns")
        if settings.take("column_prefix") is not None:
            settings.wrong("column_prefix", "is not understood; give columns, with date among them")
        if self.columns and "date" not in self.columns:
            settings.wrong("columns", "must have date: rows of other dates may be in another part of the build")
        settings.finish()
        #: Rows that agree in a few columns only must be seen together for the first to be kept.
        self.whole = bool(self.columns)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without later ones that agree with them."""
        need(frame, self.columns or ())
        return frame.drop_duplicates(subset=list(self.columns) if self.columns else None)


class DropNans:
    """Leave rows out in which values are missing.

    Parameters
    ----------
    config : mapping
        ``columns``: those that are looked at, all if not given.  ``how``: ``any`` (default) or ``all`` of them.

    Examples
    --------
    >>> import pandas as pd
    >>> DropNans({"columns": ["t"]}).transform(pd.DataFrame({"t": [1.0, None], "q": [None, 0.5]}))
         t   q
    0  1.0 NaN
    """

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.columns = settings.names("columns")
        self.prefix = settings.text("column_prefix")
        self.how = settings.one_of("how", ("any", "all"), "any")
        if self.columns and self.prefix:
            settings.wrong("column_prefix", "excludes columns; give one of them")
        settings.finish()

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that have their values."""
        columns = list(self.columns or ())
        if self.prefix:
            columns = [c for c in frame.columns if c.startswith(self.prefix)] or [self.prefix]
        need(frame, columns)
        gone = (frame[columns] if columns else frame).isna().to_numpy()
        return frame[~(gone.any(1) if self.how == "any" else gone.all(1))]
