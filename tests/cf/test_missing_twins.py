"""Every place that says what is missing gives the same answer, which is that of the conventions' text."""

import itertools

import netCDF4
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.accumulation.source import read_meaning
from cfagg.cf.gather import gather
from cfagg.cf.missing import Missing
from cfagg.cf.packing import Packing, read_as
from cfagg.checking.instructions import masked
from cfagg.checking.missing import missing_mask
from cfagg.conversion.packing import decoded
from cfagg.formats.zarr.attributes import variable_attributes
from cfagg.kernels.cumulative.mask import Mask
from cfagg.model.dataset import Dimension, Group, Variable
from cfagg.observations.sources.tables import numbers_of
from tests import oracles
from tests.effort import examples

TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
PACKINGS = [(0.01, 273.15), (0.1, 0.0), (-0.5, 1.0), (1.0, 0.0), (0.01, -1000.0), (2.0, 3.0), (1e-4, -3.0)]


@st.composite
def declarations(draw, dtype: np.dtype) -> dict:
    """Attributes as arrays: any combination of missing values, ranges, packing and sign that CF has a meaning for."""
    out: dict = {}
    small = st.integers(0, 100)

    def one(kind: str, number: float) -> np.ndarray:
        return np.array([number], kind)

    real = dtype.kind == "f"
    if draw(st.booleans()):
        out["_FillValue"] = one(dtype.str, draw(small))
    if draw(st.booleans()):
        out["missing_value"] = np.array(draw(st.lists(small, min_size=1, max_size=3)), dtype)
    if dtype.kind == "i" and draw(st.booleans()):
        out["_Unsigned"] = "true"
    if not real and draw(st.booleans()):
        kind = draw(st.sampled_from(["f4", "f8"]))
        scale, offset = draw(st.sampled_from(PACKINGS))
        out["scale_factor"], out["add_offset"] = one(kind, scale), one(kind, offset)
    packed = (out["scale_factor"][0], out["add_offset"][0]) if "scale_factor" in out else (1.0, 0.0)
    for name, size in (("valid_range", 2), ("valid_min", 1), ("valid_max", 1)):
        if not draw(st.integers(0, 2)):
            kinds = [dtype.str, dtype.str] if real else [dtype.str, "f4", "f8", "i4", "i8"]
            kind = np.dtype(draw(st.sampled_from(kinds)))
            given = draw(st.lists(small, min_size=size, max_size=size).map(sorted))
            if kind.kind == "f" and not real:  # exactly on unpacked values: where rounding decides
                given = sorted(kind.type(n) * kind.type(packed[0]) + kind.type(packed[1]) for n in given)
            out[name] = np.array(given, kind)
    return out


@st.composite
def stored_variables(draw) -> tuple[np.ndarray, dict]:
    """Stored values and attributes of a variable."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    default = np.array(netCDF4.default_fillvals[dtype.str[1:]]).astype(dtype)
    low = 0 if dtype.kind == "u" else -100
    pool = st.integers(low, 100).map(dtype.type) | st.just(default)
    if dtype.kind == "f":
        pool |= st.just(dtype.type(np.nan))
    values = np.array([*draw(st.lists(pool, min_size=1, max_size=30)), *range(0, 100, 7)], dtype)
    return values, draw(declarations(dtype))


def the_one_answer(values, attributes, *, netcdf=True):
    meant = read_as(values.dtype, attributes)
    packing = Packing.of(attributes, where="")
    missing = Missing.of(
        attributes, values.dtype, meant, scale=packing.scale, offset=packing.offset, netcdf=netcdf, warn=False, where=""
    )
    return missing, missing.mask(values.view(meant))


@settings(max_examples=examples(600), deadline=None)
@given(stored_variables())
def test_the_one_answer_is_that_of_the_conventions(given):
    values, attributes = given
    expected = oracles.missing(values, attributes)
    assert the_one_answer(values, attributes)[1].tolist() == expected.tolist()


@settings(max_examples=examples(300), deadline=None)
@given(stored_variables())
@pytest.mark.filterwarnings("ignore:.*narrower bounds are used")
def test_conforming_and_observations_mask_what_is_missing(given):
    values, attributes = given
    missing, expected = the_one_answer(values, attributes)
    out = np.empty(values.shape)
    bad, _ = gather(
        values.view(read_as(values.dtype, attributes)), out, 1.0, 0.0, missing.fills, missing.low, missing.high
    )
    assert not bad
    assert np.isnan(out).tolist() == expected.tolist()
    read = numbers_of(values, attributes, "a.nc")
    assert (np.isnan(read) if read.dtype.kind == "f" else np.zeros(len(read), bool)).tolist() == expected.tolist()


@settings(max_examples=examples(300), deadline=None)
@given(stored_variables())
def test_the_checker_masks_what_is_missing(given):
    values, attributes = given
    expected = the_one_answer(values, attributes)[1]
    kind = "float" if values.dtype.kind == "f" else "integer"
    dims = (Dimension("x", len(values)),)
    v = Variable("v", Group(), dims, values.dtype, kind, attributes, read=lambda _: values)
    assert missing_mask(v, values).tolist() == expected.tolist()
    found = masked(v)
    assert found is not None
    assert (~found.valid).tolist() == expected.tolist()


@settings(max_examples=examples(60), deadline=None)
@given(stored_variables())
@pytest.mark.filterwarnings("ignore:.*narrower bounds are used")
def test_accumulations_mask_what_is_missing_in_zarr(given):
    values, attributes = given
    expected = oracles.missing(values, attributes, netcdf=False)
    plain = variable_attributes({k: v for k, v in attributes.items() if k != "_FillValue"}, values.dtype)
    if "_FillValue" in attributes:
        plain["_FillValue"] = attributes["_FillValue"].tolist()[0]
    meaning = read_meaning(_Array(values, plain))
    mask = Mask.of(meaning.dtype, meaning.mask.fills, meaning.mask.valid_min, meaning.mask.valid_max)
    assert (~mask.valid(values.view(meaning.dtype))).tolist() == expected.tolist()


@settings(max_examples=examples(200), deadline=None)
@given(stored_variables())
def test_decoding_while_converting_keeps_what_is_missing(given):
    values, attributes = given
    if "scale_factor" not in attributes:
        attributes = {**attributes, "scale_factor": np.array([0.5], "f4")}
    if values.dtype.kind == "f":
        return
    expected = the_one_answer(values, attributes)[1]
    unpack, kept = decoded(values.dtype, attributes, "a.nc")
    out = np.empty(values.shape, unpack.dtype)
    unpack(values, out)
    again = oracles.missing(out, {k: np.atleast_1d(v) for k, v in kept.items()}, netcdf=False)
    assert again.tolist() == expected.tolist()


@settings(max_examples=examples(150), deadline=None)
@given(stored_variables())
def test_the_netcdf_library_for_python_masks_the_same_where_it_follows_the_text(given):
    """It has no unpacked bounds, takes `valid_range` alone beside `valid_min`, and leaves NaN.

    Without ``_FillValue`` it masks 255 in ubytes, and with ``_Unsigned`` the default of a type that was not written.
    """
    values, attributes = given
    attributes = dict(attributes)
    assume("_FillValue" in attributes or (values.dtype.itemsize > 1 and "_Unsigned" not in attributes))
    for name in ("valid_range", "valid_min", "valid_max"):
        if name in attributes and attributes[name].dtype != values.dtype:
            del attributes[name]
    if "valid_range" in attributes:
        for name in ("valid_min", "valid_max"):
            attributes.pop(name, None)
    with netCDF4.Dataset("a.nc", "w", diskless=True) as root:
        root.createDimension("x", len(values))
        v = root.createVariable("v", values.dtype, ("x",), fill_value=attributes.get("_FillValue", [None])[0])
        v.set_auto_maskandscale(False)
        v.setncatts({k: a for k, a in attributes.items() if k != "_FillValue"})
        v[:] = values
        v.set_auto_maskandscale(True)
        theirs = np.ma.getmaskarray(v[:])
    ours = the_one_answer(values, attributes)[1]
    nan = values != values  # noqa: PLR0124
    assert (ours & ~nan).tolist() == (theirs & ~nan).tolist()


def test_no_element_on_an_unpacked_bound_is_dropped():
    """All combinations of packing, type and end; the element next to the bound on the outer side is dropped."""
    checked = 0
    for (scale, offset), kind, n, upper in itertools.product(
        PACKINGS[:3] + PACKINGS[4:], ("f4", "f8"), (-300, -77, -1, 0, 1, 3, 7, 100, 2999), (False, True)
    ):
        one = np.dtype(kind).type
        bound = one(n) * one(scale) + one(offset)
        name = "valid_max" if upper else "valid_min"
        attributes = {"scale_factor": one(scale), "add_offset": one(offset), name: bound}
        dtype = np.dtype("i2")
        found = Missing.of(attributes, dtype, dtype, scale=float(one(scale)), offset=float(one(offset)), where="")
        outer = n + (1 if upper == (scale > 0) else -1)
        assert found.mask(np.array([n, outer], "i2")).tolist() == [False, True], (scale, offset, kind, n, upper)
        checked += 1
    assert checked == 216


@pytest.mark.parametrize(("ulps", "inside"), [(0, True), (3, True), (4, True), (6, False), (50, False)])
def test_4_units_in_the_last_place_of_the_attribute_are_let_pass(ulps, inside):
    bound = np.float32(300.0)
    for _ in range(ulps):
        bound = np.nextafter(bound, np.float32(0))
    dtype = np.dtype("i4")
    found = Missing.of({"valid_max": bound, "scale_factor": np.float64(0.5)}, dtype, dtype, scale=0.5, where="")
    assert found.mask(np.array([600], "i4")).tolist() == [not inside]


class _Array:
    """What `read_meaning` looks at in an array of a Zarr store."""

    def __init__(self, values, attributes):
        self.dtype, self.attributes = values.dtype, attributes
        self.store, self.path, self.zarr_format, self.fill_declared, self.fill_value = "s", "v", 3, False, None
