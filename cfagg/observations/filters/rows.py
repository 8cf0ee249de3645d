"""Filters that choose rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import PlainValidator, TypeAdapter, field_validator, model_validator

from cfagg.observations.filters.columns import need
from cfagg.observations.settings import Names, Number, Section, Text, refused, settings_of, wrong

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Area", "DropDuplicates", "DropNans"]


def _box(value: Any) -> tuple[float, float, float, float]:
    """Return north, west, south and east."""
    try:
        north, west, south, east = TypeAdapter(tuple[Number, Number, Number, Number]).validate_python(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a list of north, west, south and east") from None
    if not -90 <= south <= north <= 90:
        raise ValueError(f"south, {value[2]}, and north, {value[0]}, are not in order between -90 and 90")
    return north, west, south, east


class _Area(Section):
    area: Annotated[tuple[float, float, float, float], PlainValidator(_box)]


class Area:
    """Keep observations in a box of latitude and longitude, its edges included."""

    # ``area``: north, west, south and east in degrees; the list alone will do.  A box may lie across any meridian:
    # longitudes from west to east, whole turns aside.

    short = "area"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.north, self.west, self.south, self.east = settings_of(_Area, config).area
        width = self.east - self.west
        self.width = 360.0 if abs(width) >= 360 else width % 360

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows in the box."""
        latitude = frame["latitude"].to_numpy(np.float64)
        east_of = (frame["longitude"].to_numpy(np.float64) - self.west) % 360.0
        inside = (latitude >= self.south) & (latitude <= self.north) & (east_of <= self.width)
        return frame[inside]


_NO_PREFIX = refused("is not understood; give columns, with date among them", even_empty=True)


class _Alike(Section):
    columns: Names | None = None
    column_prefix: Annotated[Any, refused("is not understood; give columns, with date among them", even_empty=True)] = (
        None
    )

    @field_validator("columns")
    @classmethod
    def _dated(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if columns and "date" not in columns:
            raise ValueError("must have date: rows of other dates may be in another part of the build")
        return columns


class DropDuplicates:
    """Keep the first of rows that agree in some columns; those that agree in all are stored once anyway."""

    # ``columns``: names, with ``date`` among them: rows of other dates may be in another part of a build, and what is
    # stored must not depend on the parts.

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.columns = settings_of(_Alike, config).columns
        #: Rows that agree in a few columns only must be seen together for the first to be kept.
        self.whole = bool(self.columns)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without later ones that agree with them."""
        need(frame, self.columns or ())
        return frame.drop_duplicates(subset=list(self.columns) if self.columns else None)


class _Looked(Section):
    columns: Names | None = None
    column_prefix: Text = ""
    how: Literal["any", "all"] = "any"

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.columns and self.column_prefix:
            raise wrong((("column_prefix",), "excludes columns; give one of them"))
        return self


class DropNans:
    """Leave rows out in which values are missing."""

    # ``columns`` or ``column_prefix``: those that are looked at, all if not given.  ``how``: ``any`` or ``all`` of
    # them.

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        looked = settings_of(_Looked, config)
        self.columns, self.prefix, self.how = looked.columns, looked.column_prefix, looked.how

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that have their values."""
        columns = list(self.columns or ())
        if self.prefix:
            columns = [c for c in frame.columns if c.startswith(self.prefix)] or [self.prefix]
        need(frame, columns)
        gone = (frame[columns] if columns else frame).isna().to_numpy()
        return frame[~(gone.any(1) if self.how == "any" else gone.all(1))]
