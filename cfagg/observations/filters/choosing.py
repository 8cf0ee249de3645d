"""Filters that choose columns or rows, or call a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, field_validator, model_validator

from cfagg.errors import ConventionError, Problem
from cfagg.errors.arguments import closest
from cfagg.observations.frames import COMPULSORY
from cfagg.observations.selection import in_box, mixed
from cfagg.observations.settings import (
    ByName,
    Duration,
    Flag,
    Made,
    Names,
    Number,
    Section,
    Text,
    Whole,
    columns_of,
    function,
    refused,
    settings_of,
    wrong,
)

if TYPE_CHECKING:
    import pandas as pd

    from cfagg.observations.dates import Period

__all__ = ["Area", "CallableFilter", "Drop", "DropDuplicates", "DropNans", "Rename", "Select", "SortBy", "Thin", "need"]

Attributes = dict[str, dict[str, Any]]


def need(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """Refuse a frame without these columns."""
    have = [str(c) for c in frame.columns]
    missing = [Problem(c, f"is not a column{closest(c, have)}") for c in columns if c not in have]
    if missing:
        raise ConventionError(f"some columns do not exist; the columns are {', '.join(have)}", missing)


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
    """Keep these columns in this order, and date, latitude and longitude."""

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the chosen columns."""
        need(frame, self.columns)
        return frame[[*COMPULSORY, *(c for c in self.columns if c not in COMPULSORY)]]


class Drop(Columns):
    """Remove these columns."""

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
    """Sort the rows of a part.  A store has its own order, so this only decides which duplicate comes first."""

    whole: ClassVar[bool] = True

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows sorted, by the first column first; equal ones keep their order."""
        need(frame, self.columns)
        return frame.sort_values(list(self.columns), kind="stable")


class Rename:
    """Rename columns."""

    # ``columns``: a mapping from names to new names, which may also be given directly.

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

    It may cross any meridian: longitudes from west to east are compared modulo 360.
    """

    short: ClassVar[str] = "area"

    area: Annotated[tuple[float, float, float, float], PlainValidator(_box)]

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows in the box."""
        north, west, south, east = self.area
        latitudes, longitudes = (frame[name].to_numpy(np.float64) for name in ("latitude", "longitude"))
        return frame[in_box(north, west, south, east, latitudes, longitudes)]


class DropDuplicates(Made):
    """Keep the first of rows that agree in some columns; rows that agree in all are always stored once."""

    short: ClassVar[str] = "columns"

    columns: Names | None = None
    column_prefix: Annotated[Any, refused("is not understood; give columns, with date among them", even_empty=True)] = (
        None
    )

    @field_validator("columns")
    @classmethod
    def _dated(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if columns and "date" not in columns:
            raise ValueError("must include date: rows of other dates may be in another part of the build")
        return columns

    @property
    def whole(self) -> bool:
        """Whether all rows of a part must be seen at once, to find those that agree in a few columns."""
        return bool(self.columns)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without later ones that agree with them."""
        need(frame, self.columns or ())
        return frame.drop_duplicates(subset=list(self.columns) if self.columns else None)


class DropNans(Made):
    """Remove rows in which any or all values are missing, in all columns or in the named ones.

    With ``how: all``, date and place do not count unless they are named, since no row lacks them all.
    """

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
        """Return the rows without missing values."""
        columns = list(self.columns or ())
        if self.column_prefix:
            columns = [c for c in frame.columns if c.startswith(self.column_prefix)] or [self.column_prefix]
        if self.how == "all" and not columns:
            columns = [c for c in frame.columns if c not in COMPULSORY]
        need(frame, columns)
        gone = (frame[columns] if columns else frame).isna().to_numpy()
        return frame[~(gone.any(1) if self.how == "any" else gone.all(1))]


class CallableFilter(Made):
    """A function that takes a frame and returns one; `whole` is true if it must see all rows of a part at once."""

    function: Annotated[Any, function("give one from Python")]
    whole: Flag = False

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the result of the function."""
        changed: pd.DataFrame = self.function(frame)
        return changed


_EPOCH = datetime(1970, 1, 1)


class Thin(Made):
    """Keep some of the observations.

    Parameters
    ----------
    config : mapping
        Either ``fraction``: the share of observations to keep, chosen by a hash of their date and place, so that rows
        of the same date and place (the levels of a profile) are kept or removed together; ``seed`` gives another
        choice. Or ``grid``: the size in degrees of cells in which only the earliest observation is kept for each
        interval of length ``every`` (default: an hour, counted from the start of 1970).

    Raises
    ------
    ConventionError
        Neither or both of them are given, or values are out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> dates = pd.to_datetime(["2020-01-01T00:10", "2020-01-01T00:05", "2020-01-01T01:00"])
    >>> frame = pd.DataFrame({"date": dates, "latitude": 50.2, "longitude": [0.1, 0.4, 0.4]})
    >>> Thin({"grid": 1.0, "every": "1h"}).transform(frame).index.tolist()
    [1, 2]
    """

    fraction: Number | None = None
    seed: Whole | None = None
    grid: Number | None = None
    every: Duration | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        problems = []
        if (self.fraction is None) == (self.grid is None):
            problems.append((("fraction",), "or grid is required, but not both"))
        if self.fraction is not None and not 0 < self.fraction <= 1:
            problems.append((("fraction",), f"{self.fraction:g} is not a share, expected above 0 and up to 1"))
        # Smaller cells have numbers that integers do not hold.
        if self.grid is not None and not 1e-9 <= self.grid <= 180:
            said = f"{self.grid:g} is not a size of cells, expected degrees from 1e-9 to 180"
            problems.append((("grid",), said))
        for key, other in (("seed", "grid"), ("every", "fraction")):
            if getattr(self, key) is not None and getattr(self, other) is not None:
                problems.append(((key,), f"has no meaning with {other}"))
        if problems:
            raise wrong(*problems)
        return self

    @property
    def whole(self) -> bool:
        """Whether it must see all rows of a part at once."""
        return self.grid is not None

    @property
    def _time(self) -> timedelta:
        return self.every or timedelta(hours=1)

    def check(self, period: Period) -> list[str]:
        """Return the conflicts between the filter and the dates of a recipe."""
        every = self._time
        if self.grid is None or not ((period.start - _EPOCH) % every or period.frequency % every):
            return []
        dates = f"from {period.start} every {period.frequency}"
        remedy = "a part of the build could end within such an interval; use one that divides both"
        return [f"every {every} does not fit the dates, {dates}: {remedy}"]

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that are kept."""
        if not len(frame):
            return frame
        micros = frame["date"].to_numpy().astype("M8[us]").astype(np.int64)
        places = [frame[c].to_numpy(np.float64) for c in ("latitude", "longitude")]
        if self.grid is None:
            return frame[_draw(micros, places, self.seed or 0) < (self.fraction or 0.0)]
        return frame[self._first(micros, *places)]

    def _first(
        self, micros: npt.NDArray[np.int64], latitude: npt.NDArray[np.float64], longitude: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Return which rows are the earliest of their cell and time; for equal dates, the first row."""
        size = self.grid or 1.0
        cells = np.column_stack(
            [
                micros // (self._time // timedelta(microseconds=1)),
                np.floor((latitude + 90.0) / size).astype(np.int64),
                np.floor(longitude % 360.0 / size).astype(np.int64),
            ]
        )
        order = np.argsort(micros, kind="stable")
        _, first = np.unique(cells[order], axis=0, return_index=True)
        keep = np.zeros(len(micros), bool)
        keep[order[first]] = True
        return keep


def _draw(micros: npt.NDArray[np.int64], places: list[npt.NDArray[np.float64]], seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each row, which depends only on its date and place."""
    state = np.full(len(micros), seed % 2**64, np.uint64)
    for part in (micros.view(np.uint64), *(_bits(p) for p in places)):
        state = mixed(state ^ part)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bits(place: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return degrees as bits, with -0.0 as 0.0."""
    return (place.astype(np.float32).astype(np.float64) + 0.0).view(np.uint64)
