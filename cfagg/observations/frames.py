"""Requirements for frames of observations, attributes of their columns, and conversion to float32 rows.

A frame has a row for each observation and the columns ``date``, ``latitude`` and ``longitude`` besides its data.  Its
index labels the rows, also in messages: sources that read a file number the file's rows from 1, and name the file in
``frame.attrs["file"]``.  Attributes of columns are in ``frame.attrs["variables"]``, a mapping from columns to
attributes.

In rows, dates are rounded to the nearest second, halves to the even one, and split into days since 1970 and the second
of the day. Longitudes are wrapped into [0, 360) again as float32, since values just below 0 become 360.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from cfagg.cf.units import linear
from cfagg.errors import ConformError, ConventionError, Problem, UnitsError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COMPULSORY", "META", "add_attributes", "attributes_of", "check_frame", "check_rows", "conform", "dates_within",
    "encode_frame", "file_of", "with_attributes", "wrap_longitudes",
]  # fmt: skip

#: Columns that every frame has.
COMPULSORY = ("date", "latitude", "longitude")

#: The columns of a store before the variables; no data column may have such a name.
META = ("__date", "__time", "__latitude", "__longitude")


def attributes_of(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the attributes of a frame's columns."""
    found = frame.attrs.get("variables")
    if not isinstance(found, Mapping):
        return {}
    return {str(k): dict(v) for k, v in found.items() if isinstance(v, Mapping) and k in frame.columns}


def with_attributes(
    frame: pd.DataFrame, attributes: Mapping[str, Mapping[str, Any]], file: str | None = None
) -> pd.DataFrame:
    """Return the frame with these attributes on its columns, and with the file that its rows are from, if any."""
    frame.attrs = {"variables": {k: dict(v) for k, v in attributes.items() if k in frame.columns and v}}
    if file is not None:
        frame.attrs["file"] = file
    return frame


def file_of(frame: pd.DataFrame) -> str | None:
    """Return the file that the rows of a frame are from, if that is known."""
    found = frame.attrs.get("file")
    return found if isinstance(found, str) else None


def add_attributes(
    known: dict[str, dict[str, Any]], more: Mapping[str, Mapping[str, Any]], where: str
) -> dict[str, dict[str, Any]]:
    """Return the attributes of columns known so far after adding those of further rows, which must count alike."""
    problems = []
    for name, attributes in more.items():
        have = known.setdefault(name, dict(attributes))
        for key in ("units", "positive"):
            if (new := attributes.get(key)) is None:
                continue
            old = have.setdefault(key, new)
            if old != new and not (key == "units" and _same_units(str(old), str(new))):
                problems.append(Problem(name, f"has {key} {new!r}, but in other rows {old!r}"))
    if problems:
        raise ConventionError(
            f"{where} gave columns that count otherwise than those of other rows; convert them, such as by the filter "
            "convert_units",
            problems,
        )
    return known


def _same_units(one: str, other: str) -> bool:
    try:
        return linear(one, other) == (1.0, 0.0)
    except UnitsError:
        return False


def check_frame(frame: object, where: str, start: datetime | None = None, end: datetime | None = None) -> pd.DataFrame:
    """Check the columns and dates of a frame, and return its rows from `start` up to `end`, or all without these."""
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
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(kind, "tz", None) else dates
        dates = dates.astype(f"datetime64[{getattr(kind, 'unit', 's')}]")  # days have no unit
        table = table.assign(date=dates)
    values = dates.to_numpy()
    there = ~np.isnat(values)
    if not there.all():
        raise ConventionError(
            f"{where} gave rows without a date", [Problem(_row(table, ~there), "date is NaT; leave such rows out")]
        )
    if start is None or end is None:
        return cast("pd.DataFrame", table)
    inside = dates_within(values, start, end)
    found: pd.DataFrame = table if inside.all() else table[inside]
    return found


def dates_within(dates: npt.NDArray[np.datetime64], start: datetime, end: datetime) -> npt.NDArray[np.bool_]:
    """Return which dates are from `start` up to `end`."""
    # Compare in the unit of the ends, since nanoseconds cannot represent all of them.
    exact = dates.astype("M8[us]")
    return (exact >= np.datetime64(start, "us")) & (exact < np.datetime64(end, "us"))


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
        elif name in META:
            problems.append(Problem(name, "is a name that stores reserve; rename the column"))
    return problems


def check_rows(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Check that the rows of a frame can be stored, and return it with columns of NumPy's numbers only."""
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
    return with_attributes(frame.assign(**changed), attributes_of(frame), file_of(frame)) if changed else frame


def _numbers(column: Any) -> Any:
    """Return a column unchanged if it has NumPy's real numbers, else as float64, or `None` if it is not numeric."""
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return column
    if not isinstance(column.dtype, np.dtype) and pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return None if column.notna().any() else np.full(len(column), np.nan)


def _not_numeric(frame: pd.DataFrame, name: str) -> Problem:
    """Return the problem of a column that is not numeric, with the first value that is not a number."""
    import pandas as pd

    column = frame[name]
    there = column.notna().to_numpy()
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        text = there & pd.to_numeric(column, errors="coerce").isna().to_numpy()
        there = text if text.any() else there
    value = column.iloc[int(np.argmax(there))]
    words = ", or name words for missing values in missing of a source csv" if isinstance(value, str) else ""
    return Problem(
        _row(frame, there),
        f"{name} is {value!r} ({column.dtype}), expected a number; convert the column or leave it out with the filter "
        f"drop or select{words}",
    )


def _row(frame: pd.DataFrame, wrong: Any) -> str:
    """Return the label of the first row of a mask and the number of further ones."""
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
            f"{where}: the columns {' and '.join(said)}, unlike those of other rows ({', '.join(variables)}); give all "
            "the same columns, with the filter select, or join sources of other columns, which are then missing"
        )
    return with_attributes(frame[[*COMPULSORY, *variables]], attributes_of(frame), file_of(frame))


type Rows = npt.NDArray[np.float32]

#: Number of rows that are filled column by column at a time, which fit into the processor's cache.
_BLOCK = 4096
#: Days since 1970 up to this number are exact in float32.
_MOST_DAYS = 2**24

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def encode_frame(
    frame: pd.DataFrame, variables: Sequence[str], out: Rows, where: str, no_nans: Sequence[str] = ()
) -> None:
    """Write a frame that was checked as rows of a store, float32 (n, 4 + variables); `no_nans` must not have NaN."""
    days, of_day = np.divmod(whole_seconds(frame["date"].to_numpy()), 86400)
    far = np.abs(days) >= _MOST_DAYS
    if far.any():
        problem = Problem(_row(frame, far), "date is too far from 1970 for a store")
        raise ConventionError(f"{where} gave rows that cannot be stored", [problem])
    latitude, longitude, *others = (frame[name].to_numpy() for name in ("latitude", "longitude", *variables))
    columns: list[npt.NDArray[Any]] = [days, of_day, latitude, wrap_longitudes(longitude), *others]
    with np.errstate(over="ignore"):
        for start in range(0, len(out), _BLOCK):
            stop = min(start + _BLOCK, len(out))
            for j, values in enumerate(columns):
                out[start:stop, j] = values[start:stop]
    _check_values(frame, variables, columns[len(META) :], out, where, no_nans)


def whole_seconds(dates: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """Return seconds since 1970, rounded to the nearest, halves to the even one."""
    unit, step = np.datetime_data(dates.dtype)
    if unit not in _UNITS or step != 1:
        dates = dates.astype("M8[us]")
        unit = "us"
    parts = _UNITS[unit]
    ticks = dates.astype(np.int64)
    if parts == 1:
        return ticks
    seconds, rest = np.divmod(ticks, parts)
    half = parts // 2
    seconds += (rest > half) | ((rest == half) & (seconds & 1 == 1))
    return seconds


def wrap_longitudes(longitude: npt.NDArray[Any]) -> Rows:
    """Return finite longitudes as float32 in [0, 360)."""
    values = longitude
    if not (values >= 0).all() or not (values < 360).all():
        values = np.mod(longitude.astype(np.float64), 360)
    single = values.astype(np.float32)
    single[single >= 360] = 0
    return single


def _check_values(
    frame: pd.DataFrame,
    variables: Sequence[str],
    columns: Sequence[npt.NDArray[Any]],
    out: Rows,
    where: str,
    no_nans: Sequence[str],
) -> None:
    """Raise if a value became infinite, or is NaN in a column that does not allow it."""
    # A single sum shows whether there is anything to search for.
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(out[:, len(META) :].sum(dtype=np.float64)) if len(variables) else 0.0
    if np.isfinite(total):
        return
    problems = []
    for j, (name, values) in enumerate(zip(variables, columns, strict=True)):
        stored = out[:, len(META) + j]
        if values.dtype.kind == "f" and values.dtype.itemsize > 4:
            lost = np.isinf(stored) & np.isfinite(values)
            if lost.any():
                found = values[int(np.argmax(lost))]
                problems.append(Problem(_row(frame, lost), f"{name} is {found}, more than float32 holds"))
    if problems:
        raise ConformError(f"{where} gave numbers that a store cannot hold; convert their units or clip them", problems)
    for name in no_nans:
        missing = np.isnan(out[:, len(META) + variables.index(name)])
        if missing.any():
            problems.append(Problem(_row(frame, missing), f"{name} is NaN, which build.allow_nans excludes"))
    if problems:
        raise ConventionError(f"{where} gave values that the recipe does not allow", problems)
