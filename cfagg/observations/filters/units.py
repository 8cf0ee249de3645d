"""Conversion of units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, model_validator

from cfagg.cf.units import linear
from cfagg.errors import ConventionError, Problem, UnitsError
from cfagg.observations.config import Config
from cfagg.observations.filters.columns import need
from cfagg.observations.frames import attributes_of
from cfagg.observations.settings import Section, Text, columns_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConvertUnits"]


class _Change(Section):
    old: Text | None = Field(None, alias="from")
    new: Text = Field(alias="to")

    @model_validator(mode="after")
    def _converts(self) -> Self:
        if self.old is not None:
            linear(self.old, self.new)
        return self


class ConvertUnits:
    """Convert columns to other units, in the syntax of UDUNITS."""

    # From columns to new units, where the source knows the old ones, or to ``{from: ..., to: ...}``.

    def __init__(self, config: Mapping[str, Any]) -> None:
        given = {name: value if isinstance(value, Mapping) else {"to": value} for name, value in config.items()}
        changes = columns_of(_Change, Config(given, getattr(config, "where", "")))
        self.units = {name: (change.old, change.new) for name, change in changes.items()}

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with converted columns, computed in double precision."""
        need(frame, self.units)
        known, problems, columns = attributes_of(frame), [], {}
        for name, (said, new) in self.units.items():
            there = known.get(name, {}).get("units")
            old = said or there
            if old is None:
                problems.append(Problem(name, f"has no units to convert to {new!r}; give from and to"))
                continue
            if said is not None and there is not None and linear(said, str(there)) != (1.0, 0.0):
                problems.append(Problem(name, f"is in {there!r}, as its source says, not in {said!r}"))
                continue
            try:
                scale, offset = linear(str(old), new)
                columns[name] = frame[name].to_numpy(np.float64, na_value=np.nan) * scale + offset
            except (UnitsError, ValueError, TypeError) as error:
                problems.append(Problem(name, getattr(error, "message", f"is not numeric: {error}")))
        if problems:
            raise ConventionError("units cannot be converted", problems)
        return frame.assign(**columns)

    def attributes(self, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the attributes of columns with their new units."""
        return {**before, **{name: {**before.get(name, {}), "units": new} for name, (_, new) in self.units.items()}}
