"""Filters that choose and name columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cfagg.errors import ConventionError, Problem
from cfagg.observations.frames import COMPULSORY
from cfagg.observations.settings import Settings, closest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Drop", "Rename", "Select", "need"]

Attributes = dict[str, dict[str, Any]]


def need(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """See that a frame has these columns.

    Raises
    ------
    ConventionError
        It does not; all that are missing are named.
    """
    have = [str(c) for c in frame.columns]
    missing = [Problem(c, f"is not a column{closest(c, have)}") for c in columns if c not in have]
    if missing:
        raise ConventionError(f"columns do not exist; the columns are {', '.join(have)}", missing)


class Select:
    """Keep these columns, in this order; date, latitude and longitude stay.

    Parameters
    ----------
    config : mapping
        ``columns``: a list of names; the list alone will do.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"date": [], "latitude": [], "longitude": [], "t": [], "q": [], "p": []})
    >>> list(Select({"columns": ["p", "t"]}).transform(frame))
    ['date', 'latitude', 'longitude', 'p', 't']
    """

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.columns = _columns(config)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the chosen columns."""
        need(frame, self.columns)
        return frame[[*COMPULSORY, *(c for c in self.columns if c not in COMPULSORY)]]


class Drop:
    """Leave these columns out.

    Parameters
    ----------
    config : mapping
        ``columns``: a list of names; the list alone will do.

    Examples
    --------
    >>> import pandas as pd
    >>> list(Drop({"columns": ["station"]}).transform(pd.DataFrame({"t": [], "station": []})))
    ['t']
    """

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.columns = _columns(config)
        for name in COMPULSORY:
            if name in self.columns:
                settings.wrong("columns", f"{name} must stay")
        settings.finish(("columns",))

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame without the columns."""
        need(frame, self.columns)
        return frame.drop(columns=list(self.columns))


class Rename:
    """Give columns other names.

    Parameters
    ----------
    config : mapping
        ``columns``: a mapping from names to new names; the mapping alone will do.

    Examples
    --------
    >>> import pandas as pd
    >>> list(Rename({"tas": "temperature"}).transform(pd.DataFrame({"tas": [], "p": []})))
    ['temperature', 'p']
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        names = settings.mapping("columns") if isinstance(config.get("columns"), Mapping) else settings.rest()
        if not names:
            settings.wrong("columns", "has no names")
        for old, new in names.items():
            if not isinstance(new, str) or not new:
                settings.wrong(old, f"{new!r} is not a name")
        settings.finish()
        self.names: dict[str, str] = names

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the new names."""
        need(frame, self.names)
        return frame.rename(columns=self.names)

    def attributes(self, before: Attributes) -> Attributes:
        """Return the attributes of columns under their new names."""
        return {self.names.get(name, name): values for name, values in before.items()}


def _columns(config: Mapping[str, Any]) -> tuple[str, ...]:
    settings = Settings(config)
    columns = settings.names("columns")
    if not columns and not settings.problems:
        settings.wrong("columns", "has no names")
    settings.finish()
    return columns or ()
