"""Names that a source may have and a target may not."""

import netCDF4
import zarr

import cfagg


def test_groups_whose_names_no_store_can_have_are_listed_with_what_they_lose(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        group = file.createGroup("a\\b")
        group.note = "lost"
        group.createGroup("within").createVariable("v", "i4", ())
        file.createGroup("kept").note = "kept"
    report = cfagg.convert(tmp_path / "a.nc", tmp_path / "a.zarr", on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [
        ("a\\b/within/v", "the variable"),
        ("a\\b", "the attributes of the group"),
    ]
    assert list(zarr.open_group(tmp_path / "a.zarr", mode="r").group_keys()) == ["kept"]
