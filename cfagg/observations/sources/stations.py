"""Lists of stations: tables in text that give the place of each station, for tables that only have their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, model_validator

from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.errors import Problem, SourceError
from cfagg.errors.arguments import closest
from cfagg.observations.settings import ByName, Flag, Names, Path, Place, Text, wrong
from cfagg.observations.sources.text_format import TextFormat

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Stations"]

#: Bytes of a list that are read at once, and from which the types of its columns are inferred.
_BLOCK = 2**24


class Stations(TextFormat):
    """A list of stations; `column` has their names in the table of observations, and `id` in the list."""

    path: Path
    column: Text
    id: Text = ""
    latitude: Text = "latitude"
    longitude: Text = "longitude"
    columns: Names = ()
    numbers: Flag = False
    attributes: dict[str, ByName] = Field(default_factory=dict)
    options: ByName = Field(default_factory=dict)
    allow: Names = ()

    @model_validator(mode="after")
    def _of_the_list(self) -> Self:
        taken = [n for n in self.columns if n in (self.name_of_id, "date", "latitude", "longitude")]
        problems: list[tuple[Place, str]] = [(("columns",), f"{n} cannot be one of the data columns") for n in taken]
        strange = [n for n in self.attributes if n not in self.columns]
        problems += [(("attributes", n), f"is not among columns{closest(n, self.columns)}") for n in strange]
        for name, given in self.attributes.items():
            packed = [k for k in STORAGE_ATTRIBUTES if k in given]
            problems += [(("attributes", name, k), "is not for lists of stations, but for tables") for k in packed]
        if problems:
            raise wrong(*problems)
        return self

    @property
    def name_of_id(self) -> str:
        """The column of the list that has the names of stations."""
        return self.id or self.column

    def of(self, names: pd.Series[Any], where: str) -> Mapping[str, Any]:
        """Return the latitudes and longitudes of stations, and the other columns of the list, for each name."""
        names = names.str.strip()
        codes = self._list.index.get_indexer(self._alike(names))
        unknown = codes < 0
        if unknown.any():
            i = int(np.argmax(unknown))
            name = names.iloc[i]
            said = "has no station" if not isinstance(name, str) else f"has the station {name!r}, which is not"
            raise SourceError(
                f"{where}, row {names.index[i]}{_more(unknown)}: {said} in {self.path}; add it there, or leave "
                "such rows out of the file"
            )
        several = self._several[codes]
        if several.any():
            i = int(np.argmax(several))
            raise SourceError(
                f"{self.path}: the station {names.iloc[i]!r} is listed more than once, with different values; leave "
                "what does not apply out of the list"
            )
        return {name: self._list[name].to_numpy()[codes] for name in ("latitude", "longitude", *self.columns)}

    @cached_property
    def _list(self) -> pd.DataFrame:
        """The places and other columns of the stations, by their names."""
        return self._rows.groupby(level=0, sort=False).first()

    @cached_property
    def _several(self) -> Any:
        """Which stations are listed with different values."""
        return (self._rows.groupby(level=0, sort=False).nunique(dropna=False) > 1).any(axis=1).to_numpy()

    @cached_property
    def _rows(self) -> pd.DataFrame:
        import pyarrow as pa

        numbers = {"latitude": self.latitude, "longitude": self.longitude, **{n: n for n in self.columns}}
        wanted = [self.name_of_id, *numbers.values()]
        try:
            have = [str(n) for n in self.inferred(self.path, _BLOCK).names]
            problems = [Problem(n, f"is missing{closest(n, have)}") for n in wanted if n not in have]
            problems += [Problem(n, "names two columns") for n in dict.fromkeys(wanted) if have.count(n) > 1]
            if problems:
                raise SourceError(f"{self.path}: columns of stations are not as expected ({', '.join(have)})", problems)
            types = {name: pa.string() if name == self.name_of_id else pa.float64() for name in wanted}
            with self.open(self.path, types, _BLOCK) as reader:
                table = self.masked(reader.read_all())
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise SourceError(f"{self.path} is not a list of stations: {str(error).splitlines()[0]}") from error
        except FileNotFoundError:
            raise SourceError(f"{self.path}: no such file") from None
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error}") from error
        frame = table.to_pandas()
        found = frame[list(numbers.values())].set_axis(list(numbers), axis=1).astype("f8")
        return found.set_index(self._alike(frame[self.name_of_id].astype(object).str.strip()))

    def _alike(self, names: pd.Series[Any]) -> pd.Series[Any]:
        """Return names without zeros before numbers, if these are all that names are."""
        return names.str.replace(r"^0+(?=\d+$)", "", regex=True) if self.numbers else names


def _more(wrong: Any) -> str:
    count = int(np.count_nonzero(wrong)) - 1
    return f" and {count} more" if count else ""
