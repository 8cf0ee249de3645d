"""What frames of observations must look like, and the attributes of their columns.

A frame has a row for each observation and the columns ``date``, ``latitude`` and ``longitude`` besides its data.  Its
index labels the rows, in messages too: sources that read a file number the file's rows from 1.  Attributes of columns
stand in ``frame.attrs["variables"]``, a mapping from columns to attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import ConventionError, Problem

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMPULSORY", "attributes_of", "check_frame", "check_rows", "conform", "with_attributes"]

#: Columns that every frame has.
COMPULSORY = ("date", "latitude", "longitude")

#: Names of the first columns of a store, which no data column may have.
_RESERVED = ("__date", "__time", "__latitude", "__longitude")


def attributes_of(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the attributes of a frame's columns."""
    found = frame.attrs.get("variables")
    if not isinstance(found, Mapping):
        return {}
    return {str(k): dict(v) for k, v in found.items() if isinstance(v, Mapping) and k in frame.columns}


def with_attributes(frame: pd.DataFrame, attributes: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return the frame with these attributes for those of its columns that have some."""
    frame.attrs = {"variables": {k: dict(v) for k, v in attributes.items() if k in frame.columns and v}}
    return frame


def check_frame(frame: object, where: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Return the rows of a frame from `start` up to `end`, after a look at its columns and dates."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise ConventionError(
            f"{where} gave {type(frame).__name__}, expected a pandas DataFrame; give a frame without rows where there "
            "are not observations"
        )
    table: Any = frame
    problems = _columns(table)
    dates: Any = table["date"] if not problems else None
    if dates is not None and not pd.api.types.is_datetime64_any_dtype(dates.dtype):
        problems.append(Problem("date", f"has type {dates.dtype}, expected datetime64; convert it with to_datetime"))
    if dates is None or problems:
        raise ConventionError(f"{where} gave a frame that is not a table of observations", problems)
    if isinstance(dates.dtype, pd.DatetimeTZDtype):
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        table = table.assign(date=dates)
    elif not isinstance(dates.dtype, np.dtype):  # Arrow's
        kind = dates.dtype.pyarrow_dtype
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None) if kind.tz else dates
        dates = dates.astype(f"datetime64[{kind.unit}]")
        table = table.assign(date=dates)
    values = dates.to_numpy()
    there = ~np.isnat(values)
    if not there.all():
        raise ConventionError(
            f"{where} gave rows without a date", [Problem(_row(table, ~there), "date is NaT; leave such rows out")]
        )
    # In the unit of the ends: nanoseconds cannot hold all of them, and would wrap around.
    exact = values.astype("datetime64[us]")
    inside = (exact >= np.datetime64(start, "us")) & (exact < np.datetime64(end, "us"))
    found: pd.DataFrame = table if inside.all() else table[inside]
    return found


def _columns(frame: pd.DataFrame) -> list[Problem]:
    problems = [
        Problem(name, f"is missing; the columns are {', '.join(map(str, frame.columns))}")
        for name in COMPULSORY
        if name not in frame.columns
    ]
    problems += [Problem(str(name), "names two columns") for name in frame.columns[frame.columns.duplicated()].unique()]
    for name in frame.columns:
        if not isinstance(name, str) or not name:
            problems.append(Problem(repr(name), "is not a name for a column; give it one, or choose other columns"))
        elif name in _RESERVED:
            problems.append(Problem(name, "is a name that stores reserve; rename the column"))
    return problems


def check_rows(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """See that the rows of a frame can be stored; return it with columns of NumPy's numbers only."""
    # Columns without any value are NaN, whatever their type.
    problems, changed = [], {}
    for name in frame.columns:
        if name == "date":
            continue
        column = frame[name]
        values = _numbers(column)
        if values is None:
            problems.append(_not_numeric(frame, name))
            continue
        if values is not column:
            changed[name] = values
        limit = {"latitude": 90.0, "longitude": 360.0}.get(name)
        if limit is not None:
            wrong = ~(np.abs(np.asarray(values, np.float64)) <= limit)
            if wrong.any():
                problems.append(
                    Problem(
                        _row(frame, wrong),
                        f"{name} is {np.asarray(values)[int(np.argmax(wrong))]}, expected -{limit:g} to {limit:g} "
                        "degrees; correct it, or leave such rows out with the filter drop_nans or area",
                    )
                )
    if problems:
        raise ConventionError(f"{where} gave rows that cannot be stored", problems)
    return with_attributes(frame.assign(**changed), attributes_of(frame)) if changed else frame


def _numbers(column: Any) -> Any:
    """Return a column as it is if it has NumPy's real numbers, else as float64; `None` if it is not numeric."""
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return column
    if not isinstance(column.dtype, np.dtype) and pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return None if column.notna().any() else np.full(len(column), np.nan)


def _not_numeric(frame: pd.DataFrame, name: str) -> Problem:
    """Return what to say of a column that is not numeric, with the first value that is not a number."""
    import pandas as pd

    column = frame[name]
    there = column.notna().to_numpy()
    if column.dtype == object:
        text = there & pd.to_numeric(column, errors="coerce").isna().to_numpy()
        there = text if text.any() else there
    value = column.iloc[int(np.argmax(there))]
    return Problem(
        _row(frame, there),
        f"{name} is {value!r} ({column.dtype}), expected a number; convert the column or leave it out with the filter "
        "drop or select",
    )


def _row(frame: pd.DataFrame, wrong: Any) -> str:
    """Return the label of the first row of a mask and how many more there are."""
    count = int(np.count_nonzero(wrong))
    label = frame.index[int(np.argmax(wrong))]
    return f"row {label}" + (f" and {count - 1} more" if count > 1 else "")


def conform(frame: pd.DataFrame, variables: Sequence[str], where: str) -> pd.DataFrame:
    """Return the frame with its data columns in a given order."""
    have = [str(c) for c in frame.columns if c not in COMPULSORY]
    missing, extra = [v for v in variables if v not in have], [c for c in have if c not in variables]
    if missing or extra:
        said = [f"lack {', '.join(missing)}"] * bool(missing) + [f"have {', '.join(extra)} too"] * bool(extra)
        raise ConventionError(
            f"{where}: the columns {' and '.join(said)}, unlike those of other parts ({', '.join(variables)}); give "
            "all parts the same columns, with the filter select"
        )
    attributes = attributes_of(frame)
    return with_attributes(frame[[*COMPULSORY, *variables]], attributes)
