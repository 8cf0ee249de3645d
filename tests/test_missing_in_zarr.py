"""What is missing in a Zarr array, by every job: one answer.

netCDF's default fill values mean nothing in Zarr, whose arrays have a fill value of their own.  As for xarray, what
stands for missing values is the attribute ``_FillValue`` in Zarr v3, the fill value of the metadata in v2, and
``missing_value`` in both.
"""

import numpy as np
import pytest
import zarr
from xarray.backends.zarr import FillValueCoder

import cfagg
from cfagg.checking.missing import missing_mask
from cfagg.checking.opening import open_dataset

VALUES = {
    "i2": np.array([-32767, 0, 5, -99, 7, 9], "i2"),
    "f4": np.array([9.969209968386869e36, 0, 5, -99, 7, np.nan], "f4"),
    "u1": np.array([255, 0, 5, 99, 7, 9], "u1"),
}
CASES = {
    "nothing declared": ({}, None, {}),
    "a fill value of 0": ({"fill_value": 0}, None, {2: [0]}),
    "a fill value of 5": ({"fill_value": 5}, None, {2: [5]}),
    "a fill value of 5 and another attribute": ({"fill_value": 5}, {"_FillValue": 7}, {2: [5], 3: [7]}),
    "an attribute": ({}, {"_FillValue": 7}, {2: [7], 3: [7]}),
    "a missing value": ({}, {"missing_value": 7}, {2: [7], 3: [7]}),
    "a missing value and packing": ({}, {"missing_value": 7, "scale_factor": 0.5}, {2: [7], 3: [7]}),
    "packing": ({}, {"scale_factor": 0.5, "add_offset": 1.0}, {}),
}


def make(path, form, kind, case):
    options, attributes, missing = CASES[case]
    values = VALUES[kind]
    if form == 2:
        options = {"fill_value": None, **options}
    root = zarr.create_group(path, zarr_format=form)
    names = {"dimension_names": ["x"]} if form == 3 else {}
    made = root.create_array("v", shape=values.shape, chunks=(4,), dtype=kind, **options, **names)
    if attributes and "_FillValue" in attributes and form == 3:
        # xarray takes plain numbers for integers only.
        attributes = {**attributes, "_FillValue": FillValueCoder.encode(np.dtype(kind).type(7), np.dtype(kind))}
    made.attrs.update({**(attributes or {}), **({"_ARRAY_DIMENSIONS": ["x"]} if form == 2 else {})})
    made[:] = values
    return np.isin(values, np.array(missing.get(form, []), values.dtype)) | np.isnan(values.astype("f8"))


@pytest.mark.few(5)
@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("case", CASES)
def test_every_job_takes_the_same_elements_for_missing(tmp_path, form, kind, case):
    path = tmp_path / "a.zarr"
    expected = make(path, form, kind, case).tolist()
    assert np.isnan(cfagg.read(path)["v"].values.astype("f8")).tolist() == expected
    assert np.isnan(cfagg.read(path, chunks={})["v"].values.astype("f8")).tolist() == expected
    with open_dataset(path) as dataset:
        (v,) = dataset.variables
        assert missing_mask(v, v.values()).tolist() == expected
    cfagg.accumulate(path, "v", ["x"], statistics="none")
    counts = cfagg.open_accumulated(path, "v").count((), isel={}).values
    assert (counts == 0).tolist() == expected
    for to, options in (("b.zarr", {}), ("c.zarr", {"packing": "decode"}), ("d.zarr", {"zarr_format": 2})):
        cfagg.convert(path, tmp_path / to, variables=["v"], **options)
        assert np.isnan(cfagg.read(tmp_path / to)["v"].values.astype("f8")).tolist() == expected, to
