"""Filters that keep values within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator, TypeAdapter

from cfagg.observations.filters.columns import need
from cfagg.observations.settings import Number, columns_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Clip", "MaskOutsideRange"]


class Clip:
    """Bring values beyond a limit to the limit; missing values stay missing."""

    # From columns to a pair of smallest and largest value; null for no limit.

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.limits = _limits(config)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with values within the limits."""
        need(frame, self.limits)
        return frame.assign(**{name: frame[name].clip(low, high) for name, (low, high) in self.limits.items()})


class MaskOutsideRange:
    """Make values beyond a limit missing."""

    # From columns to a pair of smallest and largest value; null for no limit.

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.limits = _limits(config)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with NaN for values beyond a limit."""
        need(frame, self.limits)
        columns = {}
        for name, (low, high) in self.limits.items():
            beyond = (frame[name] < low) if low is not None else False
            beyond = beyond | ((frame[name] > high) if high is not None else False)
            columns[name] = frame[name].mask(beyond)
        return frame.assign(**columns)


def _limits(config: Mapping[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    places = "is not changed by this filter; choose rows with the filter area, or dates"
    return columns_of(Annotated[Any, PlainValidator(_pair)], config, places=places)


def _pair(value: Any) -> tuple[float | None, float | None]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{value!r} is not a pair of smallest and largest value")
    try:
        TypeAdapter(tuple[Number | None, Number | None]).validate_python(value)
    except ValueError:
        raise ValueError(f"{value!r} has limits that are neither numbers nor null") from None
    low, high = value
    if low is not None and high is not None and low > high:
        raise ValueError(f"the smallest value, {low}, is above the largest, {high}")
    return low, high
