"""Conversion of units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.cf.units import linear
from cfagg.errors import ConventionError, Problem, UnitsError
from cfagg.observations.filters.columns import need
from cfagg.observations.frames import attributes_of
from cfagg.observations.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConvertUnits"]


class ConvertUnits:
    """Convert columns to other units, in the syntax of UDUNITS.

    Parameters
    ----------
    config : mapping
        From columns to new units, where the source knows the old ones, or to ``{from: ..., to: ...}``.

    Raises
    ------
    ConventionError
        Settings that are not understood, units that do not exist or do not convert.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"p": [1013.25]})
    >>> ConvertUnits({"p": {"from": "hPa", "to": "Pa"}}).transform(frame)["p"].tolist()
    [101325.0]
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        self.units: dict[str, tuple[str | None, str]] = {}
        for name, value in settings.rest().items():
            inner = Settings(value if isinstance(value, Mapping) else {"to": value}, f"{settings.where}.{name}")
            old, new = inner.text("from") or None, inner.text("to", required=True)
            inner.unknown()
            settings.problems += inner.problems
            if old is not None and new:
                try:
                    linear(old, new)
                except UnitsError as error:
                    settings.wrong(name, error.message)
            self.units[name] = (old, new)
        if not self.units and not settings.problems:
            settings.wrong("", "has no columns")
        settings.finish()

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
