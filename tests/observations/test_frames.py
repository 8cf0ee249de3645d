"""What frames of observations must look like."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cfagg.errors import ConventionError
from cfagg.observations.frames import add_attributes, attributes_of, check_frame, check_rows, conform, with_attributes

START, END = datetime(2020, 1, 1), datetime(2020, 1, 3)


def frame(**columns: Any) -> pd.DataFrame:
    dates = pd.to_datetime(["2020-01-01", "2020-01-02T23:59:59.999999", "2020-01-03"], format="ISO8601")
    return pd.DataFrame({"date": dates, "latitude": 0.0, "longitude": 0.0, "t": 1.0, **columns})


def test_the_end_of_a_part_is_not_in_it() -> None:
    assert check_frame(frame(), "it", START, END).index.tolist() == [0, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
def test_dates_of_arrow_keep_their_unit_and_come_to_utc(unit: str, zone: str | None) -> None:
    dates = pd.date_range("2020-01-01", periods=3, freq="1D", tz=zone).as_unit(unit)
    found = check_frame(frame(date=dates.astype(pd.ArrowDtype(pa.timestamp(unit, zone)))), "it", START, END)
    expected = dates.tz_convert("UTC").tz_localize(None) if zone else dates
    assert found["date"].dtype == np.dtype(f"M8[{unit}]")
    assert found["date"].tolist() == [d for d in expected if START <= d < END]


def test_days_of_arrow_are_dates_at_their_start() -> None:
    days = pd.array([datetime(2020, 1, d).date() for d in (1, 2, 3)], dtype=pd.ArrowDtype(pa.date32()))
    assert check_frame(frame(date=days), "it")["date"].tolist() == pd.date_range("2020-01-01", periods=3).tolist()


def test_checked_rows_have_numbers_of_numpy_only() -> None:
    given = frame(
        a=pd.array([1, None, 3], "Int32"),
        b=pd.array([True, False, None], "boolean"),
        c=pd.Series([1.5, None, 2.5], dtype=pd.ArrowDtype(pa.float32())),
        d=[None, None, None],
        e=np.array([1, 2, 3], "i2"),
    )
    given.attrs["variables"] = {"a": {"units": "K"}}
    found = check_rows(given, "it")
    assert [str(found[c].dtype) for c in "abcde"] == ["float64"] * 4 + ["int16"]
    np.testing.assert_array_equal(found[["a", "b", "c"]], [[1, 1, 1.5], [np.nan, 0, np.nan], [3, np.nan, 2.5]])
    assert attributes_of(found) == {"a": {"units": "K"}}


def test_heights_and_depths_are_not_one_column() -> None:
    known = add_attributes({}, {"z": {"units": "m", "positive": "up"}}, "it")
    assert add_attributes(known, {"z": {"units": "metre"}, "t": {}}, "it")["z"]["units"] == "m"
    with pytest.raises(ConventionError, match="z: has positive 'down', but in other rows 'up'"):
        add_attributes(known, {"z": {"positive": "down"}}, "it")


def test_places_without_a_value_are_refused_whatever_their_type() -> None:
    with pytest.raises(ConventionError, match="row 0 and 2 more: latitude is nan"):
        check_rows(frame(latitude=[None] * 3), "it")


def test_all_columns_that_cannot_be_stored_are_named() -> None:
    given = frame(t=["1", "x", "2"], longitude=[0.0, 361.0, -360.0], u=[1j] * 3)
    with pytest.raises(ConventionError) as error:
        check_rows(given.set_index(pd.Index([7, 8, 9])), "it")
    found = [str(p) for p in error.value.problems]
    assert [p.split(" is ")[0] for p in found] == ["row 8: longitude", "row 8: t", "row 7 and 2 more: u"]


def test_the_bad_value_of_a_mixed_column_is_found() -> None:
    given = frame()
    given["t"] = pd.Series(["1", "x", 2.0], dtype=object)
    with pytest.raises(ConventionError, match="row 1: t is 'x'"):
        check_rows(given, "it")


def test_columns_are_brought_into_the_order_of_other_parts() -> None:
    given = with_attributes(frame(p=2.0), {"p": {"units": "Pa"}, "gone": {"units": "1"}})
    found = conform(given, ["p", "t"], "part 2")
    assert found.columns.tolist() == ["date", "latitude", "longitude", "p", "t"]
    assert attributes_of(found) == {"p": {"units": "Pa"}}
    with pytest.raises(ConventionError, match="part 2: the columns lack q and have p too"):
        conform(given, ["t", "q"], "part 2")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_of_any_unit_lie_between_the_first_and_the_last_date_there_is(unit):
    frame = pd.DataFrame(
        {"date": np.array(["2020-01-01T06:00"], f"M8[{unit}]"), "latitude": 51.5, "longitude": 0.0, "t": 1.0}
    )
    assert len(check_frame(frame, "here", datetime.min, datetime.max)) == 1
    assert len(check_frame(frame, "here", datetime(2020, 1, 1, 6), datetime(2020, 1, 1, 7))) == 1
    assert len(check_frame(frame, "here", datetime(2020, 1, 1, 5), datetime(2020, 1, 1, 6))) == 0
