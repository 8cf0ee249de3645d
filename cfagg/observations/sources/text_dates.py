"""Dates as text, or in parts such as a day and a time of day, as dates in UTC."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import SourceError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["dates_of_text", "joined", "words_of"]

#: The format that is also used if none is given.
_ISO = "ISO8601"


def joined(parts: Sequence[pd.Series[Any]], form: str | None, where: str) -> pd.Series[Any]:
    """Return the columns that make up dates as one of text, whose parts are separated by spaces."""
    found = words_of(parts[0])
    for part in parts[1:-1]:
        found = found + " " + words_of(part)
    return found if len(parts) == 1 else found + " " + _clocks(words_of(parts[-1]), form, where)


def words_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return parts of dates or names of stations as text: whole numbers without a fraction, days without a time."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = column.dt.tz is None and (column.isna() | (column == column.dt.normalize())).all()
        return column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S.%f%z").astype(object)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        found = column.astype(object).map(lambda value: value if isinstance(value, str) else str(value), "ignore")
    else:
        found = column.astype(object).map(lambda value: str(int(value) if value % 1 == 0 else value), "ignore")
    return found.astype(object)


#: The largest number that is a time of day in hours and minutes.
_LATEST = 2400


def _clocks(times: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return times of day in which those that were numbers, such as 60000, have all their digits, such as 060000."""
    iso = form is None or form == _ISO
    width = 6 if iso or "%H%M%S" in str(form) else 4 if "%H%M" in str(form) else 0
    digits = times.map(lambda value: value.strip().removesuffix(".0") if isinstance(value, str) else "")
    numbers = digits.map(str.isdecimal)
    short = numbers & digits.map(lambda text: text != "0" and text.startswith("0") and len(text) < width)
    if short.any():
        i = int(np.argmax(short))
        raise SourceError(
            f"{where}, row {times.index[i]}: the time {times.iloc[i]!r} has leading zeros, but not {width} digits; "
            "give date_format, such as '%Y%m%d %H%M' for hours and minutes"
        )
    few = numbers & digits.map(lambda text: text != "0" and len(text) < width)
    if iso and few.any() and all(int(text) <= _LATEST for text in digits[numbers]):
        raise SourceError(
            f"{where}, row {times.index[int(np.argmax(few))]}: the time {times[few].iloc[0]!r} may be hours, hours and "
            "minutes, or seconds of the first minutes of a day; give date_format: %H, %H%M or %H%M%S after the day, "
            "such as '%Y%m%d %H%M'"
        )
    return times.mask(numbers, digits.map(lambda text: text.zfill(width)))


#: A number of years that pandas takes for a month: 2000.5 for May.
_YEARS = re.compile(r"\A\s*\d{4}\.\d+\s*\Z")

#: An offset from UTC that is neither hours nor hours and minutes.
_ODD_ZONE = re.compile(r"[+-](?:\d{3}|\d\d?:\d)\Z")

#: Names of zones that pandas takes for those with summer time, though they are names of standard time.
_STANDARD_TIME = re.compile(r"\b[CEMW]ET\b", re.IGNORECASE)

#: Numbers of a format that follow each other without a sign in between, and the digits of each.
_RUN = re.compile(r"((?:%[YymdjHIMS]){2,})|%(.)")
_DIGITS = {"Y": 4, "j": 3}


def _of_all_digits(form: str) -> re.Pattern[str] | None:
    """Return what texts match whose adjacent numbers have all their digits, or `None` if a format has none such."""
    # pandas reads 1122020 by %d%m%Y as 11 February, although it may be 1 December, whose leading zero is lost.
    if not any(found[1] for found in _RUN.finditer(form)):
        return None
    pattern, end = "", 0
    for found in _RUN.finditer(form):
        run = found[1]
        width = sum(_DIGITS.get(letter, 2) for letter in run[1::2]) if run else 0
        pattern += re.escape(form[end : found.start()]) + (
            f"[\\d ]{{{width}}}" if run else "%" if found[2] == "%" else ".+"
        )
        end = found.end()
    pattern = re.sub(r"(?:\\\s)+", r"\\s+", pattern + re.escape(form[end:]))
    return re.compile(rf"\A\s*(?:{pattern})\s*\Z", re.IGNORECASE)


def _found(pattern: re.Pattern[str], text: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Return which texts have something that matches."""
    return np.array([pattern.search(str(value)) is not None for value in text], bool)


#: The last hour of a day by ISO 8601, with what may be before and after it.
_ISO_24 = re.compile(
    r"(\A\s*\d{4}(?:-\d\d-\d\d|\d{4})(?:T|\s+))24(:?00(?::?00(?:[.,]0+)?)?)?(?=\s*(?:Z|[+-]\d\d?(?::?\d\d)?)?\s*\Z)"
)

#: What numbers of a format match, if the hour is 24.
_OF_24 = {"Y": r"\d{4}", "j": r"\d{1,3}", "H": ")24(", "M": "0{1,2}", "S": "0{1,2}", "f": "0{1,9}"}


def _hour_24(form: str | None) -> re.Pattern[str] | None:
    """Return what matches dates at hour 24, in two groups before and after it, or `None` if a format has no such."""
    if form is None or form == _ISO:
        return _ISO_24
    if form.replace("%%", "").count("%H") != 1 or "%Z" in form:
        return None
    pattern, end = "", 0
    for found in re.finditer(r"%(.)", form):
        letter = found[1]
        number = _OF_24.get(letter, r"\d{1,2}" if letter in "ymd" else "%" if letter == "%" else r"\S+?")
        pattern += re.escape(form[end : found.start()]) + number
        end = found.end()
    pattern = re.sub(r"(?:\\\s)+", r"\\s+", pattern + re.escape(form[end:]))
    return re.compile(rf"\A(\s*{pattern}\s*)\Z", re.IGNORECASE)


def dates_of_text(text: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return text as dates in UTC: ISO 8601, also as ``20200131 060000``, or in a format of ``strptime``."""
    import pandas as pd

    found = _parsed(text, form, where)
    late = pd.Series(found.isna() & text.notna(), text.index)
    pattern = _hour_24(form) if late.any() else None
    if pattern is not None:
        # Hour 24 is the first of the next day, as in ISO 8601 and in tables that count hours from 1.
        first = text[late].map(lambda value: pattern.sub(r"\g<1>00\g<2>", str(value)))
        late[late] = first != text[late]
        if late.any():
            found = _parsed(text.mask(late, first), form, where)
            found = found.mask(late, found + pd.Timedelta(days=1))
    return _checked(found, text, form, where)


def _parsed(text: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return text as dates, NaT where it is none; they are in UTC if any has a zone."""
    import pandas as pd

    given = {"format": form or _ISO, "errors": "coerce"}
    dates: pd.Series[Any] | None = None
    with suppress(ValueError):  # the rows have different zones
        dates = pd.to_datetime(text, **given)
    if dates is None or not pd.api.types.is_datetime64_any_dtype(dates.dtype):  # pandas 2 gives objects
        try:
            dates = pd.to_datetime(text, **given, utc=True)
        except ValueError as error:
            raise SourceError(f"{where}: date_format {form!r} cannot be used ({error}); correct it") from error
    return dates


def _checked(dates: pd.Series[Any], text: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return dates without a zone; refuse those that the text does not clearly say."""
    import pandas as pd

    # For pandas these words are the time of the call, and +100 is ten hours.
    wrong = dates.isna().to_numpy() | text.isin(["now", "today"]).to_numpy()
    digits = None if form is None else _of_all_digits(form)
    if digits is not None:
        wrong |= ~_found(digits, text)
    if form is not None and "%Z" in form:
        wrong |= _found(_STANDARD_TIME, text)
    if form is None or form == _ISO:
        wrong |= _found(_YEARS, text)
    if dates.dt.tz is not None:
        wrong |= _found(_ODD_ZONE, text)
        dates = dates.dt.tz_convert(None)
    if wrong.any():
        i = int(np.argmax(wrong))
        value = text.iloc[i]
        more = int(wrong.sum()) - 1
        all_digits = "" if digits is None else ", with all digits"
        expected = "ISO 8601 such as 2020-01-31T06:00:00" if form is None or form == _ISO else form
        said = "the date is missing" if pd.isna(value) or not str(value).strip() else f"{value!r} is not a date"
        raise SourceError(
            f"{where}, row {text.index[i]}{f' and {more} more' if more else ''}: {said}, expected "
            f"{expected}{all_digits}; correct the row, or give date_format"
        )
    return dates
