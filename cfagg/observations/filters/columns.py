"""Filters that choose and name columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, field_validator

from cfagg.errors import ConventionError, Problem
from cfagg.observations.frames import COMPULSORY
from cfagg.observations.registry import closest
from cfagg.observations.settings import ByName, Names, Section, columns_of, settings_of, wrong

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Drop", "Rename", "Select", "need"]

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


class Columns(Section):
    """Names of columns, at least one."""

    columns: Annotated[Names, AfterValidator(_some)] = Field((), validate_default=True)


class _Dropped(Columns):
    @field_validator("columns")
    @classmethod
    def _others(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in COMPULSORY:
            if name in names:
                raise ValueError(f"{name} must stay")
        return names


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


class Select:
    """Keep these columns, in this order; date, latitude and longitude stay."""

    # ``columns``: a list of names; the list alone will do.

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.columns = settings_of(Columns, config).columns

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the chosen columns."""
        need(frame, self.columns)
        return frame[[*COMPULSORY, *(c for c in self.columns if c not in COMPULSORY)]]


class Drop:
    """Leave these columns out."""

    # ``columns``: a list of names; the list alone will do.

    short = "columns"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.columns = settings_of(_Dropped, config).columns

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame without the columns."""
        need(frame, self.columns)
        return frame.drop(columns=list(self.columns))


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
