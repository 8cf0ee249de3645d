"""Objects of other libraries are checked as the file that would be written of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

from cfagg.checking.opening import open_dataset
from cfagg.errors import AccessError, SourceError
from cfagg.model.dataset import Dataset
from tests.formats.metadata.seen import seen
from tests.formats.metadata.test_zarr import made
from tests.systems import needs_proc

SAMPLES = Path(__file__).parents[3] / "sample_data"


def test_what_is_made_in_memory_is_what_to_netcdf_writes(tmp_path: Path) -> None:
    dataset = made().drop_attrs()
    dataset.attrs["title"] = "t"
    dataset["tas"].attrs["units"] = "K"
    dataset["count"].attrs["flag_values"] = np.array([0, 1], "i2")
    dataset["yes"] = ("x", [True, False, True])
    dataset["lag"] = ("x", np.array([1, 2, 3], "m8[s]"))
    dataset.to_netcdf(tmp_path / "a.nc")
    with open_dataset(tmp_path / "a.nc") as file, open_dataset(dataset) as ours:
        assert ours.format == "xarray"
        assert ours.typed
        for variable in file.variables:
            own = ours.root.variables[variable.name]
            assert (own.dims, own.kind, own.dtype) == (variable.dims, variable.kind, variable.dtype)
            for name, value in own.attributes.items():
                np.testing.assert_array_equal(value, variable.attributes[name])
            if variable.is_text:
                assert own.texts().tolist() == variable.texts().tolist()
            elif variable.name not in ("lag", "time"):
                np.testing.assert_array_equal(own.values(), variable.values())


def test_nothing_is_computed_to_check_metadata() -> None:
    import dask.array as da

    def refuse(block: object) -> object:
        raise AssertionError("computed")

    lazy = da.zeros((4, 4), chunks=2).map_blocks(refuse, dtype="f8", meta=np.empty((0, 0)))
    with open_dataset(xr.Dataset({"v": (("y", "x"), lazy, {"units": "m"})})) as dataset:
        assert dataset.variables[0].attributes["units"] == "m"


def test_the_object_is_left_as_it_was() -> None:
    dataset = made()
    before = dataset.copy(deep=True)
    with open_dataset(dataset) as opened:
        for variable in opened.variables:
            _ = variable.texts() if variable.is_text else variable.values()
    xr.testing.assert_identical(dataset, before)
    assert {n: v.encoding for n, v in dataset.variables.items()} == {n: v.encoding for n, v in before.variables.items()}


def test_a_tree_has_groups_with_dimensions_of_their_parents() -> None:
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(coords={"x": [1, 2]}), "/a": xr.Dataset({"v": ("x", [1.0, 2.0])}), "/a/b": xr.Dataset()}
    )
    with open_dataset(tree) as dataset:
        assert [g.path for g in dataset.groups] == ["/", "/a", "/a/b"]
        assert dataset.groups[1].variables["v"].dimensions[0] is dataset.root.dimensions["x"]


def test_an_array_is_a_dataset_of_one_variable() -> None:
    with open_dataset(xr.DataArray([1.0, 2.0], dims="x", name="t", attrs={"units": "K"})) as dataset:
        assert [(v.name, v.attributes["units"]) for v in dataset.variables] == [("t", "K")]
    with open_dataset(xr.DataArray([1.0, 2.0], dims="x")) as dataset:
        assert [v.name for v in dataset.variables] == ["data"]


def test_strange_attributes_and_names_are_taken_as_they_are() -> None:
    strange = {1: "number", "none": None, "map": {"a": 1}, "ragged": [[1], [1, 2]], "bytes": b"\xff", "set": {1}}
    with open_dataset(xr.Dataset({("a", 1): ("x", [1.0], strange)})) as dataset:
        assert dataset.variables[0].attributes.keys() == {"_FillValue", *map(str, strange)}
    both = xr.Dataset({"v": ("x", [1.0], {"coordinates": "a"})}, coords={"a": ("x", [1.0])})
    both["v"].encoding["coordinates"] = "b"
    with open_dataset(both) as dataset:
        assert dataset.root.variables["v"].attributes["coordinates"] == "a"


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_open_files_of_other_libraries_are_what_the_file_is(tmp_path: Path) -> None:
    path = SAMPLES / "test1.nc"
    with open_dataset(path) as file:
        expected = seen(file, values=True)
    with netCDF4.Dataset(path) as opened, open_dataset(opened) as dataset:
        assert seen(dataset, values=True) == expected
        assert opened["lat"].mask
        assert opened["lat"].scale
    with h5py.File(path) as opened, open_dataset(opened) as dataset:
        assert seen(dataset, values=True) == expected
        assert opened.id.valid
    made().to_zarr(tmp_path / "a.zarr", zarr_format=3)
    with open_dataset(tmp_path / "a.zarr") as file, open_dataset(zarr.open_group(tmp_path / "a.zarr", mode="r")) as own:
        assert seen(own, values=True) == seen(file, values=True)


def test_datasets_in_memory_of_other_libraries_are_checked() -> None:
    with netCDF4.Dataset("nowhere.nc", "w", diskless=True) as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2]
        with open_dataset(file) as dataset:
            assert dataset.variables[0].values().tolist() == [1, 2]
    group = zarr.create_group({}, zarr_format=3, attributes={"title": "t"})
    group.create_array("v", shape=(2,), dtype="i4", dimension_names=["x"])[:] = [1, 2]
    with open_dataset(group) as dataset:
        assert dataset.variables[0].values().tolist() == [1, 2]
    with h5py.File("nowhere.h5", "w", driver="core", backing_store=False) as held:
        held["v"] = [1, 2]
        with open_dataset(held) as dataset:
            assert dataset.variables[0].values().tolist() == [1, 2]


def test_a_model_is_taken_as_it_is() -> None:
    with open_dataset(xr.Dataset()) as dataset:
        assert isinstance(dataset, Dataset)
        assert open_dataset(dataset) is dataset


@pytest.mark.parametrize("thing", [None, 5, {}, ["a.nc"], np.zeros(3)])
def test_other_objects_are_refused_by_their_type(thing: object) -> None:
    with pytest.raises(SourceError, match="cannot be checked; expected a path"):
        open_dataset(thing)


def leading(folder: Path, name: str = "hostile.nc") -> Path:
    """A file whose variable ``v`` takes its values from another one, beside one that does not."""
    (folder / "secret").write_bytes(np.array([41.5, 42.5]).tobytes())
    with h5py.File(folder / name, "w", track_order=True) as file:
        file["x"] = np.arange(2.0)
        file["x"].make_scale("x")
        file.create_dataset("v", shape=(2,), dtype="f8", external=[(str(folder / "secret"), 0, 16)])
        file["g/w"] = np.arange(2.0)
    return folder / name


@pytest.mark.parametrize("linux", [pytest.param(True, marks=needs_proc), False])
@pytest.mark.parametrize("how", ["file", "appended to", "diskless", "memory", "removed", "exchanged", "elsewhere"])
def test_an_open_dataset_gives_no_values_of_other_files(
    tmp_path: Path, how: str, linux: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = leading(tmp_path, f"{how}.nc")
    # Other systems than Linux do not tell the names of open files.
    gone = how in ("memory", "removed", "exchanged") or (how == "elsewhere" and not linux)
    if not linux:
        is_dir = Path.is_dir
        monkeypatch.setattr(Path, "is_dir", lambda p: str(p) != "/proc/self/fd" and is_dir(p))
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {
        "appended to": {"mode": "a"}, "diskless": {"diskless": True}, "memory": {"memory": path.read_bytes()}
    }.get(how, {})  # fmt: skip
    with netCDF4.Dataset(path.name, **options) as opened:
        if how in ("removed", "exchanged"):
            path.unlink()
        if how == "exchanged":
            with h5py.File(path, "w") as file:
                file["v"] = np.zeros(2)
        if how == "elsewhere":
            (tmp_path / "sub").mkdir()
            monkeypatch.chdir(tmp_path / "sub")
        assert opened["v"][:].tolist() == [41.5, 42.5], "the library would read them"
        with open_dataset(opened) as dataset:
            variables = dataset.root.variables
            with pytest.raises(AccessError, match="it is unclear" if gone else "external storage to"):
                variables["v"].values()
            if not gone:
                assert variables["x"].values().tolist() == [0, 1]


def test_values_of_a_group_of_an_open_dataset_are_read(tmp_path: Path) -> None:
    with netCDF4.Dataset(leading(tmp_path)) as opened, open_dataset(opened["g"]) as dataset:
        assert dataset.root.variables["w"].values().tolist() == [0, 1]


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC"])
def test_values_of_a_dataset_that_is_being_written_are_read(tmp_path: Path, form: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=form) as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2]
        attributes = file.ncattrs()
        with open_dataset(file) as dataset:
            assert dataset.variables[0].values().tolist() == [1, 2]
        assert file.ncattrs() == attributes


def test_strings_that_are_not_utf8_are_bytes_beside_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("units", data=[b"\xb5m", b"\xc2\xb5m"], dtype=h5py.string_dtype())
    with netCDF4.Dataset(tmp_path / "a.nc") as opened, open_dataset(opened) as dataset:
        read = dataset.root.variables["units"].read
        assert read is not None
        assert [read((part,)).tolist() for part in (slice(None), slice(1, 2))] == [[b"\xb5m", "µm"], ["µm"]]
