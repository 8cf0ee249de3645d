"""Missing times in calendars that NumPy lacks, and missing numbers of days or hours, are NaN; so are unwritten reals.

xarray alone reads the former as the date in their units.  It fills gaps among dates of cftime by NaN itself, and takes
them for missing in Dask arrays, too, unlike `None`.  It gives missing integers in units of time the number that would
mean a missing duration (-9223372036854775808), but leaves them numbers.  NetCDF's default fill value, which fills what
was never written, is no time; if reals do not declare it, xarray fails, often only when values are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray
from xarray import Dataset, Variable
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder
from xarray.coding.common import lazy_elemwise_func
from xarray.coding.times import decode_cf_datetime

from cfagg.cf.missing import default_fill
from cfagg.errors import CalendarError

__all__ = ["decoded_by_cf", "no_time", "with_missing_times"]

#: What xarray makes of missing integers along the way.
_NAT = np.iinfo(np.int64).min


def with_missing_times(decoding: Mapping[str, Any], variables: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return options of decoding by which missing times in `variables` stay missing; other options are as given.

    `variables` are names and attributes.
    """
    found, use_cftime = dict(decoding), decoding.get("use_cftime")
    given = decoding.get("decode_times", True)
    if isinstance(given, CFDatetimeCoder):
        if use_cftime is None:
            found["decode_times"] = _Coder(use_cftime=given.use_cftime, time_unit=given.time_unit)
    elif not isinstance(given, Mapping) and given is not False:
        if found.get("decode_timedelta") is None:
            # xarray gives durations the unit of a coder of times, but stored ones their own where it is given none.
            found["decode_timedelta"] = CFTimedeltaCoder()
        found |= {"decode_times": _Coder(use_cftime=use_cftime, time_unit="ns"), "use_cftime": None}
    coder = found.get("decode_timedelta")
    if coder is None or (isinstance(coder, CFTimedeltaCoder) and not coder.decode_via_units):
        found["decode_timedelta"] = {name: coder if _is_duration(said) else False for name, said in variables}
    return found


def decoded_by_cf(dataset: Dataset) -> Dataset:
    """Return a dataset decoded as `cfagg.read` decodes files."""
    return xarray.decode_cf(dataset, **with_missing_times({}, ((n, v.attrs) for n, v in dataset.variables.items())))


def no_time(value: Any, units: str, calendar: str | None) -> str:
    """Say that a value is no time, and what to do."""
    return (
        f"the value {value} is no time in units {units!r} in calendar {calendar or 'standard'!r}; declare it with "
        "_FillValue if it stands for none"
    )


def _is_duration(attributes: Mapping[str, Any]) -> bool:
    """Return whether attributes say that numbers are durations of NumPy's type, which units alone do not."""
    return str(attributes.get("dtype", "")).startswith("timedelta64")


class _Coder(CFDatetimeCoder):
    """Decodes times like xarray, except for missing ones in calendars that NumPy lacks and unwritten ones."""

    def decode(self, variable: Variable, name: Any = None) -> Variable:
        """Return the decoded variable, or the variable itself if it has no times."""
        fill, given = _unwritten(variable), variable
        variable = _without_large(variable)
        made = self._typed(variable, name, fill)
        if made is variable:
            return given
        units, calendar = made.encoding["units"], made.encoding.get("calendar")
        decode = partial(
            _decoded,
            dtype=made.dtype,
            whole=variable.shape,
            fill=fill,
            where=f"{variable.encoding.get('source', 'dataset')}: variable {name!r}",
            units=units,
            calendar=calendar,
            use_cftime=made.dtype.kind == "O" or self.use_cftime,
            time_unit=self.time_unit,
        )
        return Variable(made.dims, _lazily(variable, decode, made.dtype), made.attrs, made.encoding, fastpath=True)

    def _typed(self, variable: Variable, name: Any, fill: Any) -> Variable:
        """Return the variable decoded by xarray, which has the right type, but may lack some values."""
        given = variable
        for change, dtype in ((_blank, np.dtype("f8")), (_known, variable.dtype), (None, variable.dtype)):
            try:
                return super().decode(given, name)
            except (OverflowError, ValueError) as found:
                error = found
            if change is not None:
                data = _lazily(variable, partial(change, fill=fill), dtype)
                given = Variable(variable.dims, data, variable.attrs, variable.encoding)
        raise error


def _lazily(variable: Variable, function: Any, dtype: np.dtype[Any]) -> Any:
    return lazy_elemwise_func(variable._data, function, dtype)


def _unwritten(variable: Variable) -> float | None:
    """Return the default fill value of netCDF if values may be it.

    Integers with it are refused: where they are missing, and nothing says how to store that, xarray writes 0.
    """
    dtype = np.dtype(variable.encoding.get("dtype", variable.dtype))
    said = {"_FillValue", "scale_factor", "add_offset"} & (variable.attrs.keys() | variable.encoding.keys())
    return None if said or dtype.kind != "f" else default_fill(dtype)


def _without_large(variable: Variable) -> Variable:
    """Return times in which unsigned fill values that no signed integer equals are missing; xarray makes dates of them.

    It takes integers for signed ones before it looks for missing ones.
    """
    said = variable.encoding
    # In Zarr, the fill value of the array has the type as stored.
    types = [said.get("dtype"), *(getattr(said.get(key), "dtype", None) for key in ("fill_value", "_FillValue"))]
    stored = next((one for one in types if one is not None), None)
    if variable.dtype != np.int64 or not isinstance(stored, np.dtype) or stored != np.uint64:
        return variable
    given = [np.ravel(said[key]) for key in ("_FillValue", "missing_value") if key in said]
    large = [int(v) - 2**64 for own in given for v in own.tolist() if isinstance(v, int) and v >= 2**63]
    if not large:
        return variable
    data = _lazily(variable, partial(_replaced, large=large), variable.dtype)
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)


def _replaced(values: Any, *, large: list[int]) -> npt.NDArray[Any]:
    """Return integers with what xarray takes for missing in place of some."""
    given = np.asarray(values)
    return np.where(np.isin(given, large), _NAT, given)


def _missing(values: npt.NDArray[Any], fill: Any = None) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values == _NAT
    return found if fill is None else found | (values == fill)


def _blank(values: Any, *, fill: Any) -> npt.NDArray[Any]:
    """Return numbers with NaN where they are missing."""
    given = np.asarray(values)
    return np.where(_missing(given, fill), np.nan, given)


def _known(values: Any, *, fill: Any) -> npt.NDArray[Any]:
    """Return numbers without missing ones, which are the date in the units instead."""
    given = np.asarray(values)
    return np.where(_missing(given, fill), given.dtype.type(0), given)


def _decoded(
    values: Any, *, dtype: np.dtype[Any], whole: tuple[int, ...], fill: Any, where: str, **decoding: Any
) -> npt.NDArray[Any]:
    """Return dates, NaN or NaT where they are missing or, if there is no other way, unwritten.

    Of a variable that xarray took for dates of NumPy, because the first and the last are, others may be out of their
    range.  Only all of them are given as dates of cftime: Dask would turn parts of both types into other dates.
    """
    given = np.asarray(values)
    # xarray knows NaT, but beside it takes times that nanoseconds do not reach for others.
    for missing in (_missing(given), _missing(given, fill)):
        known = given[~missing]
        if given.size and not known.size:
            return np.full(given.shape, _no_date(dtype))
        # In place of missing values stands one that decodes if any does.
        numbers = np.where(missing, known[0], given) if missing.any() else given
        try:
            found: npt.NDArray[Any] = np.asarray(decode_cf_datetime(numbers, **decoding))
        except (OverflowError, ValueError) as raised:
            error, far = raised, known[np.abs(known.astype("f8")).argmax()]
            continue
        if found.dtype.kind == "O" and dtype.kind == "M" and given.shape != whole:
            date, unit = max(found.flat, key=lambda one: abs(one.year - 1970)), np.datetime_data(dtype)[0]
            raise CalendarError(
                f"{where}: the date {date} is out of the range of datetime64[{unit}], the type that its first and last "
                "dates have; pass decode_times=xarray.coders.CFDatetimeCoder(time_unit='s'), or use_cftime=True there"
            )
        if missing.any():
            found[missing] = _no_date(found.dtype)
        return found
    why = no_time(far, decoding["units"], decoding["calendar"])
    raise CalendarError(f"{where}: {why}; decode_times=False leaves times undecoded") from error


def _no_date(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return NaN among dates of cftime, else NaT."""
    return np.array(np.nan if dtype.kind == "O" else "NaT", dtype)
