"""Values in the form in which an array stores them: what xarray decodes is what was given, or it is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cfagg.errors import CfaggError, ConformError, UnitsError
from cfagg.writing.zarr.stored_form import Form, form_of, storing
from tests.effort import examples

TYPES = ("i1", "u1", "i2", "i4", "i8", "u2", "f4", "f8")


@st.composite
def attributes(draw: st.DrawFn, dtype: str) -> dict[str, Any]:
    """Return attributes by which values of a type are decoded."""
    found: dict[str, Any] = {}
    kind = np.dtype(dtype)
    if draw(st.booleans()):
        found["scale_factor"] = draw(st.sampled_from([0.5, 0.01, 2.0, 0.1]))
    if draw(st.booleans()):
        found["add_offset"] = draw(st.sampled_from([100.0, -0.5, 273.15]))
    if draw(st.booleans()):
        found["_FillValue"] = kind.type(draw(st.sampled_from([1, 7, 100])))
    return found


def decoded(values: np.ndarray[Any, Any], attributes: dict[str, Any]) -> np.ndarray[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable = xr.conventions.decode_cf_variable(
            "v", xr.Variable("t", values, dict(attributes)), decode_times=False
        )
    return np.asarray(variable.values)


@settings(max_examples=examples(600), deadline=None)
@given(data=st.data(), source=st.sampled_from(TYPES), target=st.sampled_from(TYPES), is_stored=st.booleans())
def test_what_is_stored_is_decoded_to_what_was_given_or_refused(
    data: st.DataObject, source: str, target: str, is_stored: bool
) -> None:
    theirs, ours = data.draw(attributes(source) if is_stored else st.just({})), data.draw(attributes(target))
    if data.draw(st.booleans()) and source == target:
        theirs = ours if is_stored else theirs
    values = data.draw(hnp.arrays(source, 4, elements=hnp.from_dtype(np.dtype(source), allow_infinity=False)))
    if data.draw(st.booleans()):
        values = (values % np.array(50).astype(source)).astype(source)
    meant = decoded(values, theirs)
    try:
        convert = storing(
            form_of(theirs, np.dtype(source), "v"), bool(theirs), form_of(ours, np.dtype(target), "v"), "v"
        )
        found = convert(values)
    except CfaggError:
        assume(False)  # it was refused
    assert found.dtype == np.dtype(target)
    read = decoded(found, ours)
    if meant.dtype.kind in "iu" and read.dtype.kind in "iu":
        assert (read.astype(object) == meant.astype(object)).all()
        return
    # xarray decodes into reals of several widths: the nearest of one is what the other has.
    narrow = np.dtype("f4") if "f4" in (read.dtype.str[1:], meant.dtype.str[1:]) else np.dtype("f8")
    exact = "scale_factor" not in {**ours, **theirs} and "add_offset" not in {**ours, **theirs}
    a, b = read.astype(narrow), meant.astype(narrow)
    assert (np.isnan(a) == np.isnan(b)).all()
    present = ~np.isnan(a)
    if exact:
        assert (read.astype("f8")[present] == meant.astype("f8")[present]).all()
    else:
        # One rounding of the larger of the terms that are added.
        size = np.maximum(np.abs(b[present]), abs(ours.get("add_offset", 0.0)) + abs(theirs.get("add_offset", 0.0)))
        assert (np.abs(a[present].astype("f8") - b[present].astype("f8")) <= 4 * np.finfo(narrow).eps * size).all()


@settings(max_examples=examples(200), deadline=None)
@given(
    days=st.lists(st.integers(-(10**5), 10**5), min_size=1, max_size=4),
    source=st.sampled_from(["days since 1999-03-01", "hours since 1970-01-01", "days since 2000-01-01 12:00"]),
    target=st.sampled_from(["days since 2000-01-01", "hours since 1850-01-01", "seconds since 1970-01-01"]),
    kinds=st.tuples(st.sampled_from(["i4", "i8", "f8"]), st.sampled_from(["i4", "i8", "f8"])),
    calendar=st.sampled_from(["standard", "noleap", "360_day"]),
)
def test_times_in_other_units_are_the_same_dates(
    days: list[int], source: str, target: str, kinds: tuple[str, str], calendar: str
) -> None:
    values = np.array(days, kinds[0])
    theirs, ours = ({"units": units, "calendar": calendar} for units in (source, target))
    try:
        convert = storing(form_of(theirs, values.dtype, "t"), False, form_of(ours, np.dtype(kinds[1]), "t"), "t")
        found = convert(values)
    except CfaggError:
        assume(False)
    dates = [
        xr.coding.times.decode_cf_datetime(numbers, units, calendar, use_cftime=True)
        for numbers, units in ((values, source), (found, target))
    ]
    assert (dates[0] == dates[1]).all()


def test_what_an_integer_would_cut_is_refused() -> None:
    for value in (0.5, 200.0, -129.0, np.inf):
        with pytest.raises(ConformError, match="cannot be stored exactly"):
            storing(Form(np.dtype("f8")), False, Form(np.dtype("i1")), "v")(np.array([value]))
    with pytest.raises(ConformError, match="no fill value"):
        storing(Form(np.dtype("f8")), False, Form(np.dtype("i1")), "v")(np.array([np.nan]))
    for value in (2**53 + 1, -(2**63)):
        target = Form(np.dtype("f8" if value > 0 else "u8"))
        with pytest.raises(ConformError, match="cannot be stored exactly"):
            storing(Form(np.dtype("i8")), False, target, "v")(np.array([value]))


def test_a_fill_value_is_read_in_every_form_that_zarr_has() -> None:
    for text in ("AAAAAAAA+H8=", "NaN"):
        (fill,) = form_of({"_FillValue": text}, np.dtype("f4"), "v").fills
        assert np.isnan(fill)
    assert form_of({}, np.dtype("f4"), "v", "Infinity").fills == (np.inf,)
    assert form_of({"missing_value": [3]}, np.dtype("i2"), "v", 4).fills == (4, 3)
    with pytest.raises(ConformError, match="is not a number"):
        form_of({"_FillValue": "x"}, np.dtype("f4"), "v")
    with pytest.raises(ConformError, match="do not describe a packing"):
        form_of({"scale_factor": 0}, np.dtype("f4"), "v")


def test_packed_values_are_in_other_units_only_unpacked() -> None:
    source, target = Form(np.dtype("i2"), 0.5, units="m"), Form(np.dtype("i2"), 0.5, units="km")
    with pytest.raises(ConformError, match="unpack it first"):
        storing(source, True, target, "v")
    with pytest.raises(UnitsError):
        storing(Form(np.dtype("i2"), units="K"), True, Form(np.dtype("i2"), units="m"), "v")


def test_unsigned_values_are_appended_as_they_are_stored_or_not_at_all() -> None:
    target = form_of({"_Unsigned": "true"}, np.dtype("i1"), "v")
    assert storing(target, True, target, "v")(np.array([-5], "i1")).tolist() == [-5]
    with pytest.raises(ConformError, match="_Unsigned"):
        storing(Form(np.dtype("i1")), False, target, "v")
