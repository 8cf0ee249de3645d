"""Filters that choose columns or rows, or that are a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, field_validator, model_validator

from cfagg.errors import ConventionError, Problem
from cfagg.observations.frames import COMPULSORY
from cfagg.observations.registry import closest
from cfagg.observations.settings import (
    ByName,
    Flag,
    Made,
    Names,
    Number,
    Section,
    Text,
    columns_of,
    function,
    refused,
    settings_of,
    wrong,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Area", "CallableFilter", "Drop", "DropDuplicates", "DropNans", "Rename", "Select", "SortBy", "need"]

Attributes = dict[str, dict[str, Any]]


def need(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """See that a frame has these columns."""
    have = [str(c) for c in frame.columns]
    missing = [Problem(c, f"is not a column{closest(c, have)}") for c in columns if c not in have]
    if missing:
        raise ConventionError(f"columns do not exist; the columns are {', '.join(have)}", missing)


def _some(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("has no names")
    return names


class Columns(Made):
    """A filter of some columns, at least one."""

    short: ClassVar[str] = "columns"

    columns: Annotated[Names, AfterValidator(_some)] = Field((), validate_default=True)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _new_names(names: dict[str, Any]) -> dict[str, str]:
    if not names:
        raise ValueError("has no names")
    problems = [((old,), f"{new!r} is not a name") for old, new in names.items() if not isinstance(new, str) or not new]
    if problems:
        raise wrong(*problems)
    return names


class _Renamed(Section):
    columns: Annotated[ByName, AfterValidator(_new_names)] = Field(default_factory=dict, validate_default=True)


class Select(Columns):
    """Keep these columns, in this order; date, latitude and longitude stay."""

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the chosen columns."""
        need(frame, self.columns)
        return frame[[*COMPULSORY, *(c for c in self.columns if c not in COMPULSORY)]]


class Drop(Columns):
    """Leave these columns out."""

    @field_validator("columns")
    @classmethod
    def _others(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in COMPULSORY:
            if name in names:
                raise ValueError(f"{name} must stay")
        return names

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame without the columns."""
        need(frame, self.columns)
        return frame.drop(columns=list(self.columns))


class SortBy(Columns):
    """Sort the rows of a part.  A store has its own order; this decides which of duplicates is the first."""

    whole: ClassVar[bool] = True

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows sorted, by the first column first; equal ones stay in their order."""
        need(frame, self.columns)
        return frame.sort_values(list(self.columns), kind="stable")


class Rename:
    """Give columns other names."""

    # ``columns``: a mapping from names to new names; the mapping alone will do.

    def __init__(self, config: Mapping[str, Any]) -> None:
        inside = not config or isinstance(config.get("columns"), Mapping)
        name = Annotated[str, PlainValidator(_name)]
        self.names = settings_of(_Renamed, config).columns if inside else columns_of(name, config)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the new names."""
        need(frame, self.names)
        return frame.rename(columns=self.names)

    def attributes(self, before: Attributes) -> Attributes:
        """Return the attributes of columns under their new names."""
        return {self.names.get(name, name): values for name, values in before.items()}


def _box(value: Any) -> tuple[float, float, float, float]:
    """Return north, west, south and east."""
    try:
        north, west, south, east = TypeAdapter(tuple[Number, Number, Number, Number]).validate_python(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a list of north, west, south and east") from None
    if not -90 <= south <= north <= 90:
        raise ValueError(f"south, {value[2]}, and north, {value[0]}, are not in order between -90 and 90")
    return north, west, south, east


class Area(Made):
    """Keep observations in a box of north, west, south and east in degrees, its edges included.

    It may lie across any meridian: longitudes from west to east, whole turns aside.
    """

    short: ClassVar[str] = "area"

    area: Annotated[tuple[float, float, float, float], PlainValidator(_box)]

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows in the box."""
        north, west, south, east = self.area
        width = 360.0 if abs(east - west) >= 360 else (east - west) % 360
        latitude = frame["latitude"].to_numpy(np.float64)
        east_of = (frame["longitude"].to_numpy(np.float64) - west) % 360.0
        return frame[(latitude >= south) & (latitude <= north) & (east_of <= width)]


class DropDuplicates(Made):
    """Keep the first of rows that agree in some columns; those that agree in all are stored once anyway."""

    short: ClassVar[str] = "columns"

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

    @property
    def whole(self) -> bool:
        """Whether rows agree in a few columns only: they must be seen together for the first to be kept."""
        return bool(self.columns)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without later ones that agree with them."""
        need(frame, self.columns or ())
        return frame.drop_duplicates(subset=list(self.columns) if self.columns else None)


class DropNans(Made):
    """Leave rows out in which any or all values are missing, of all columns or of those that are named."""

    short: ClassVar[str] = "columns"

    columns: Names | None = None
    column_prefix: Text = ""
    how: Literal["any", "all"] = "any"

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.columns and self.column_prefix:
            raise wrong((("column_prefix",), "excludes columns; give one of them"))
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that have their values."""
        columns = list(self.columns or ())
        if self.column_prefix:
            columns = [c for c in frame.columns if c.startswith(self.column_prefix)] or [self.column_prefix]
        need(frame, columns)
        gone = (frame[columns] if columns else frame).isna().to_numpy()
        return frame[~(gone.any(1) if self.how == "any" else gone.all(1))]


class CallableFilter(Made):
    """A function that takes a frame and returns one; `whole` says whether it must see all rows of a part at once."""

    function: Annotated[Any, function("give one from Python")]
    whole: Flag = False

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return what the function returns."""
        changed: pd.DataFrame = self.function(frame)
        return changed
