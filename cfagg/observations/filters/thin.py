"""Thinning: fewer observations, chosen so that the choice does not depend on how a build is cut into parts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from cfagg.observations.selection import mixed
from cfagg.observations.settings import Duration, Made, Number, Whole, wrong

if TYPE_CHECKING:
    import pandas as pd

    from cfagg.observations.dates import Period

__all__ = ["Thin"]

_EPOCH = datetime(1970, 1, 1)


class Thin(Made):
    """Keep some of the observations.

    Parameters
    ----------
    config : mapping
        Either ``fraction``: the share of observations to keep, drawn from their date and place, so that rows of the
        same date and place (the levels of a profile) stay or go together; ``seed`` gives another draw.
        Or ``grid``: the size of cells in degrees of which only the earliest observation is kept, in each time of
        length ``every`` (default: an hour, counted from the start of 1970).

    Raises
    ------
    ConventionError
        Neither or both of them, or values that are not possible.

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
            problems.append((("fraction",), "or grid is needed, one of them"))
        if self.fraction is not None and not 0 < self.fraction <= 1:
            problems.append((("fraction",), f"{self.fraction:g} is not a share, expected above 0 and up to 1"))
        if self.grid is not None and not 0 < self.grid <= 180:
            said = f"{self.grid:g} is not a size of cells, expected degrees above 0 and up to 180"
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
        """Return what is wrong with the filter for the dates of a recipe."""
        every = self._time
        if self.grid is None or not ((period.start - _EPOCH) % every or period.frequency % every):
            return []
        dates = f"from {period.start} every {period.frequency}"
        remedy = "a part of the build could end within such a time; use one that divides both"
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
        """Return which rows are the earliest of their cell and time; of equal dates the first row."""
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
    """Return a number from 0 up to 1 for each row, which follows from its date and place alone."""
    state = np.full(len(micros), seed % 2**64, np.uint64)
    for part in (micros.view(np.uint64), *(_bits(p) for p in places)):
        state = mixed(state ^ part)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bits(place: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return degrees as bits, 0.0 and -0.0 alike."""
    return (place.astype(np.float32).astype(np.float64) + 0.0).view(np.uint64)
