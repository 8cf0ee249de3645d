"""Accumulations that are extended beside arrays that grow: nothing that was summed is read again."""

import numpy as np
import zarr

from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.updating import accumulated_arrays, update


def test_accumulated_arrays_are_found_in_groups_of_groups(tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for path in ("tas", "model/run/pr", "model/alone"):
        array = root.create_array(path, shape=(4, 3), chunks=(2, 3), dtype="f4", dimension_names=("time", "x"))
        array[:] = 1.0
    for path in ("tas", "model/run/pr"):
        accumulate(tmp_path / "a.zarr", path, ["time"])
    assert set(accumulated_arrays(tmp_path / "a.zarr")) == {"tas", "model/run/pr"}


def test_all_accumulations_of_a_store_are_extended(tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for path in ("tas", "pr"):
        array = root.create_array(path, shape=(4, 3), chunks=(2, 3), dtype="f4", dimension_names=("time", "x"))
        array[:] = 1.0
        accumulate(tmp_path / "a.zarr", path, ["time"])
        array.resize((6, 3))
        array[4:] = 2.0
    assert [(r.variable, r.action) for r in update(tmp_path / "a.zarr")] == [("pr", "appended"), ("tas", "appended")]
    found = zarr.open_group(tmp_path / "a.zarr")["tas_accumulation_group/acc_time"][:]
    np.testing.assert_array_equal(found[:, 0], [2, 4, 8])
