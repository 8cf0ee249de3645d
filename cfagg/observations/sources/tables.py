"""Tables of Arrow as frames of observations: which columns are wanted, and how they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from cfagg.errors import Problem, SourceError
from cfagg.observations.frames import with_attributes
from cfagg.observations.registry import closest
from cfagg.observations.settings import ByName, Names, Paths, Section, Text
from cfagg.observations.sources.times import dates_of_numbers, dates_of_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Table"]


class Flavour(Section):
    """Names of the columns of dates and places."""

    date: Text = "date"
    latitude: Text = "latitude"
    longitude: Text = "longitude"


class Columns(Section):
    """The settings of a source of tables."""

    path: Paths
    columns: Names | None = None
    flavour: Flavour = Flavour()
    date_units: Text = ""
    attributes: ByName = Field(default_factory=dict)
    options: ByName = Field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """Names of the columns by what they hold."""
        return dict(self.flavour)


class Table:
    """A file's columns, as they become those of frames."""

    def __init__(self, columns: Columns, path: str, schema: Any) -> None:
        self.columns, self.path = columns, path
        try:
            have, places = list(schema.names), list(columns.places.values())
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: names of columns are not text ({error}); is the file damaged?") from error
        data = [n for n in have if not n.startswith("__index_level_")] if columns.columns is None else columns.columns
        self.wanted = list(dict.fromkeys([*places, *data]))
        problems = [Problem(n, f"is missing{closest(n, have)}") for n in self.wanted if n not in have]
        problems += [Problem(n, "names two columns") for n in self.wanted if have.count(n) > 1]
        clash = [n for n in columns.places if n not in places and n in data]
        problems += [Problem(n, "is a column in addition to the one that flavour names") for n in clash]
        if problems:
            raise SourceError(f"{path}: columns are not as expected; the columns are {', '.join(have)}", problems)
        self.attributes = {n: _attributes(schema.field(n).metadata) for n in self.wanted if n not in places}
        self.attributes.update({k: {**self.attributes.get(k, {}), **v} for k, v in columns.attributes.items()})

    def frame(self, table: Any, number: int) -> pd.DataFrame:
        """Return rows as a frame; `number` labels the first of them."""
        import pandas as pd

        try:
            frame = _plain(table.select(self.wanted)).to_pandas(date_as_object=False)
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.path}: a column of text has none ({error}); choose other columns") from error
        frame.index = range(number, number + len(frame))
        places = self.columns.places
        dates = self._dates(frame[places["date"]])
        found = {"date": dates, "latitude": frame[places["latitude"]], "longitude": frame[places["longitude"]]}
        found.update({n: frame[n] for n in self.wanted if n not in places.values()})
        return with_attributes(pd.DataFrame(found, copy=False), self.attributes)

    def _dates(self, dates: Any) -> Any:
        import pandas as pd

        where = f"{self.path}, column {self.columns.places['date']}"
        if pd.api.types.is_numeric_dtype(dates.dtype):
            if not self.columns.date_units:
                raise SourceError(f"{where}: dates are numbers; give date_units, such as seconds since 1970-01-01")
            dates = pd.Series(dates_of_numbers(dates.to_numpy(), self.columns.date_units, None, where), dates.index)
        elif not pd.api.types.is_datetime64_any_dtype(dates.dtype):
            dates = dates_of_text(dates.astype(object), None, where)
        elif dates.dt.tz is not None:
            dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        missing = dates.isna().to_numpy()
        if missing.any():
            raise SourceError(f"{where}, row {dates.index[int(np.argmax(missing))]}: there is no date; correct the row")
        return dates


def _plain(table: Any) -> Any:
    """Return a table whose columns pandas has as numbers where they are: no truth values, no dictionaries."""
    import pyarrow as pa

    table = table.replace_schema_metadata(None)
    for i, field in enumerate(table.schema):
        if pa.types.is_boolean(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.uint8()))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _attributes(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return the attributes of a column that a file has as metadata."""
    found = {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in (metadata or {}).items()}
    return {k: v for k, v in found.items() if not k.startswith(("PARQUET:", "ARROW:"))}
