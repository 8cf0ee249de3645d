"""Many files as one dataset, against xarray and NumPy on files written by the netCDF library."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.aggregation import fields
from cfagg.aggregation.building import build
from cfagg.aggregation.joining import join_files
from cfagg.aggregation.scanning import Scanner, scan
from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.opening import open_any
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    CalendarError,
    FragmentMismatchError,
    FragmentNotFoundError,
    LossError,
    OptionError,
    UnsupportedError,
)
from cfagg.model import Aggregation
from cfagg.storage.access import Access
from tests.aggregation.months import month, months
from tests.formats.pp.making import field

LAT = {"standard_name": "latitude", "units": "degrees_north"}
LON = {"standard_name": "longitude", "units": "degrees_east"}
TIME = {"standard_name": "time", "units": "days since 2000-01-01"}
TAS = {"standard_name": "air_temperature", "units": "K"}


def write(
    path: Path,
    dims: Mapping[str, tuple[Any, Mapping[str, Any]]],
    values: Any,
    attributes: Mapping[str, Any] = TAS,
    *,
    name: str = "tas",
    order: Sequence[str] | None = None,
    dtype: str | None = None,
    around: Mapping[str, Any] | None = None,
) -> str:
    """Write a file with one variable; `dims` gives coordinates with their attributes, a bare number is a scalar."""
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({"Conventions": "CF-1.8", **(around or {})})
        scalars = []
        for dim, (coordinate, own) in dims.items():
            spans = (dim,) if np.ndim(coordinate) else ()
            if spans:
                file.createDimension(dim, len(coordinate))
            else:
                scalars.append(dim)
            made = file.createVariable(dim, "f8", spans)
            made.setncatts(own)
            made[...] = coordinate
        spans = tuple(order or (d for d in dims if d not in scalars))
        values = np.asarray(values)
        own = dict(attributes)
        made = file.createVariable(name, dtype or values.dtype, spans, fill_value=own.pop("_FillValue", None))
        made.set_auto_maskandscale(False)
        made.setncatts(own)
        if scalars:
            made.coordinates = " ".join(scalars)
        made[...] = values
    return str(path)


def series(folder: Path, count: int = 4, each: int = 3) -> tuple[list[str], np.ndarray]:
    """Write files that follow each other in time; return them and the whole array."""
    whole = np.random.default_rng(1).normal(size=(count * each, 4, 5)).astype("f4")
    files = []
    for k in range(count):
        own = slice(k * each, (k + 1) * each)
        dims = {
            "time": (np.arange(own.start, own.stop), TIME),
            "lat": (np.arange(4.0), LAT),
            "lon": (np.arange(5.0), LON),
        }
        files.append(write(folder / f"{k}.nc", dims, whole[own], around={"title": "a title", "history": str(k)}))
    return files, whole


def test_files_that_follow_each_other_are_one_array_as_xarray_has_it(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    found = cfagg.aggregate(files)
    with xr.open_mfdataset(files, combine="by_coords", combine_attrs="drop_conflicts") as expected:
        xr.testing.assert_identical(found.load(), expected.load())
    npt.assert_array_equal(found.tas.values, whole)


def test_the_order_of_the_files_is_of_no_account(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    npt.assert_array_equal(cfagg.aggregate(files[::-1]).tas.values, whole)


@pytest.mark.parametrize("how", ["list", "pattern", "generator"])
def test_read_opens_several_files_as_aggregate_does(tmp_path: Path, how: str) -> None:
    files, whole = series(tmp_path)
    named = {"list": files, "pattern": str(tmp_path / "*.nc"), "generator": iter(files)}[how]
    npt.assert_array_equal(cfagg.read(named, variables="tas").tas.values, whole)


@pytest.mark.parametrize(
    "given", [{"append": True}, {"update": True}, {"to": "CFA-0.4"}, {"relative_to": "/"}, {"overwrite": True}]
)
def test_what_is_about_a_written_file_is_refused_without_one(given: dict[str, Any], tmp_path: Path) -> None:
    months(tmp_path, 1)
    with pytest.raises(OptionError, match=f"^{next(iter(given))}= concerns a written file: name it with output="):
        cfagg.aggregate(tmp_path, **given)


def test_selections_and_negative_steps_are_those_of_numpy(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    tas = cfagg.aggregate(files).tas
    npt.assert_array_equal(tas[::-2, 1, [3, 0]].values, whole[::-2, 1][:, [3, 0]])
    npt.assert_array_equal(tas[7:2:-1].values, whole[7:2:-1])
    npt.assert_array_equal(tas.isel(time=-1).values, whole[-1])


def test_chunks_of_dask_follow_the_files(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    tas = cfagg.aggregate(files, chunks={}).tas
    assert tas.chunks == ((3, 3, 3, 3), (4,), (5,))
    npt.assert_array_equal(tas.data.compute(scheduler="synchronous"), whole)


def test_a_lazy_dataset_may_be_pickled(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    again = pickle.loads(pickle.dumps(cfagg.aggregate(files)))
    npt.assert_array_equal(again.tas.values, whole)


def test_scalar_coordinates_that_differ_become_a_new_dimension(tmp_path: Path) -> None:
    whole = np.arange(24.0).reshape(2, 3, 4)
    height = {"standard_name": "height", "units": "m"}
    files = [
        write(
            tmp_path / f"{a}{t}.nc",
            {"lat": (np.arange(4.0), LAT), "time": (float(t), TIME), "height": (float(a), height)},
            whole[a, t],
        )
        for t in range(3)
        for a in range(2)
    ]
    found = cfagg.aggregate(files).tas
    npt.assert_array_equal(found.transpose("height", "time", "lat").values, whole)
    assert found.height.values.tolist() == [0, 1]
    assert found.time.dt.day.values.tolist() == [1, 2, 3]


def test_variables_that_do_not_join_are_numbered(tmp_path: Path) -> None:
    one = write(tmp_path / "a.nc", {"lat": (np.arange(4.0), LAT)}, np.arange(4.0))
    two = write(tmp_path / "b.nc", {"lon": (np.arange(5.0), LON)}, np.arange(5.0))
    found = cfagg.aggregate([one, two])
    assert list(found.data_vars) == ["tas", "tas_1"]
    npt.assert_array_equal(found.tas_1.values, np.arange(5.0))
    assert found.tas_1.dims == ("lon",)


def as_zarr(path: str, version: int) -> str:
    """Write the content of a file as a Zarr store beside it, and return its path."""
    store = str(Path(path).with_suffix(".zarr"))
    with xr.open_dataset(path, decode_cf=False) as dataset:
        dataset.to_zarr(store, zarr_format=version, consolidated=version == 2)
    return store


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [2, 3])
def test_zarr_stores_and_netcdf_files_are_one_array(tmp_path: Path, version: int) -> None:
    files, whole = series(tmp_path)
    mixed = [files[0], as_zarr(files[1], version), files[2], as_zarr(files[3], version)]
    found = cfagg.aggregate(mixed)
    npt.assert_array_equal(found.tas.values, whole)
    npt.assert_array_equal(found.tas[::-2, 1:3].values, whole[::-2, 1:3])


@pytest.mark.parametrize("version", [2, 3])
def test_a_store_whose_metadata_or_coordinates_changed_since_it_was_scanned_is_refused(
    tmp_path: Path, version: int
) -> None:
    files = [as_zarr(name, version) for name in months(tmp_path, 3)]
    found = cfagg.aggregate(files)["tas"]
    expected = found[:].values
    group = zarr.open_group(files[1], mode="r+", use_consolidated=False)
    tas, time = array_of(group, "tas"), array_of(group, "time")
    tas[0, 0, 0] = 7  # values themselves may be written
    assert found[2, 0, 0].item() == 7
    time[:] = np.asarray(time[:]) + 100
    with pytest.raises(FragmentMismatchError, match=r"m1\.zarr has changed since it was scanned; aggregate"):
        found[2:3].load()
    npt.assert_array_equal(found[:2].values, expected[:2])
    tas.attrs["scale_factor"] = 2.0
    assert cfagg.aggregate(files[1])["tas"].values[0, 0, 0] == 14


def array_of(group: zarr.Group, name: str) -> zarr.Array[Any]:
    found = group[name]
    assert isinstance(found, zarr.Array)
    return found


def test_a_store_whose_chunks_moved_to_another_place_since_it_was_scanned_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    times = xr.Variable("time", np.arange(3.0), TIME | {"bounds": "time_bnds"})
    bounds = xr.Variable(("time", "bnds"), np.add.outer(np.arange(2.0), [0, 1]))
    made = xr.Dataset({"tas": ("time", np.zeros(3), TAS), "time_bnds": bounds.pad(time=(0, 1))}, {"time": times})
    made.to_zarr(store, consolidated=False, encoding={"time_bnds": {"chunks": (1, 2)}}, write_empty_chunks=False)
    found = cfagg.aggregate(store, decode_times=False)
    (store / "time_bnds" / "c" / "1").rename(store / "time_bnds" / "c" / "2")
    with pytest.raises(FragmentMismatchError, match=r"a\.zarr has changed since it was scanned"):
        found.tas.load()


@pytest.mark.parametrize(
    ("units", "calendar"), [(("months since 2000-01-01", "months since 2001-01-01"), "standard"),
        (("months since 2000-01-01", "days since 2000-01-01"), "standard"),
        (("hours since 2000-01-01", "hours since 2000-01-02"), "utc")],
)  # fmt: skip
def test_times_that_cannot_be_converted_to_each_other_keep_files_apart(
    tmp_path: Path, units: tuple[str, str], calendar: str
) -> None:
    files = []
    for k, one in enumerate(units):
        own = {"standard_name": "time", "units": one, "calendar": calendar}
        files.append(str(tmp_path / f"{k}.nc"))
        made = xr.Dataset({"tas": ("time", np.arange(3.0) + 9 * k, TAS)}, {"time": ("time", np.arange(3.0), own)})
        made.to_netcdf(files[-1])
    found = cfagg.aggregate(files, decode_times=False, on_overlap="first")
    assert [found[name].values.tolist() for name in ("tas", "tas_1")] == [[0, 1, 2], [9, 10, 11]]
    assert "they differ in axes: time" in str(found.cfagg.report)
    again = files[0].replace("0.nc", "again.nc")
    with xr.open_dataset(files[0], decode_times=False) as dataset:
        later = dataset.assign_coords(time=dataset.time + 3)
        later.time.attrs["units"] = units[0].replace("-01", "-1")
        later.to_netcdf(again)
    joined = cfagg.aggregate([files[0], again], decode_times=False)
    assert joined.time.values.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("change", ["values", "gone"])
def test_no_references_are_written_to_files_that_changed_since_they_were_scanned(tmp_path: Path, change: str) -> None:
    files = months(tmp_path, 3)
    found = cfagg.aggregate(files)
    cfagg.write(found, tmp_path / "before.nc")
    if change == "gone":
        Path(files[1]).unlink()
    else:
        with netCDF4.Dataset(files[1], "r+") as root:
            root["time"][:] += 100
    with pytest.raises(
        (FragmentMismatchError, FragmentNotFoundError), match=r"m1\.nc (has changed since|is no longer)"
    ):
        cfagg.write(found, tmp_path / "after.nc")
    assert not (tmp_path / "after.nc").exists()


def test_no_references_are_written_to_a_store_that_changed_since_it_was_scanned(tmp_path: Path) -> None:
    store = as_zarr(months(tmp_path, 1)[0], 3)
    found = cfagg.aggregate(store)
    array_of(zarr.open_group(store, mode="r+", use_consolidated=False), "time").attrs["units"] = "days since 1900-01-01"
    with pytest.raises(FragmentMismatchError, match=r"m0\.zarr has changed since it was scanned"):
        cfagg.write(found, tmp_path / "after.nc", on_loss="materialise")


@pytest.mark.few(2)
@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"])
def test_values_of_zarr_stores_are_written_beside_the_aggregation_file(tmp_path: Path, to: str) -> None:
    files, whole = series(tmp_path)
    cfagg.aggregate([files[0], as_zarr(files[1], 3), *files[2:]], output=tmp_path / "out.nc", to=to)
    npt.assert_array_equal(cfagg.read(tmp_path / "out.nc").tas.values, whole)
    assert len(list((tmp_path / "out.nc.fragments").iterdir())) == 1


def test_no_file_refers_to_an_array_of_a_zarr_store(tmp_path: Path) -> None:
    files, _ = series(tmp_path)
    store = as_zarr(files[0], 3)
    made = build(join_files(scan([store]))).root.variables["tas"]
    assert isinstance(made, Aggregation)
    with pytest.raises(UnsupportedError, match="the format 'zarr'"):
        AggregationReader(made, Access(files[0])).read([slice(None)] * 3)


def test_what_a_file_leads_to_beyond_itself_is_not_read(tmp_path: Path) -> None:
    files, _ = series(tmp_path / "a" if (tmp_path / "a").mkdir() is None else tmp_path)
    (tmp_path / "b").mkdir()
    link = tmp_path / "b" / "link.nc"
    link.symlink_to(files[0])
    other = str(link)
    found = cfagg.aggregate([other])
    npt.assert_array_equal(found.tas.values, cfagg.aggregate(files[:1]).tas.values)
    link.unlink()
    aggregation = tmp_path / "b" / "other.nc"
    cfagg.aggregate(files, output=aggregation)
    with pytest.raises(AccessError, match="allow="):
        cfagg.aggregate([str(aggregation)]).tas.load()
    npt.assert_array_equal(
        cfagg.aggregate([str(aggregation)], allow=[str(tmp_path / "a")]).tas.values, cfagg.aggregate(files).tas.values
    )


def test_fields_of_pp_files_are_read_as_those_of_the_file(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "sample_data" / "pp" / "air_temp.pp"
    found, expected = cfagg.aggregate([path]), cfagg.read(path)
    name = "air_temperature"
    npt.assert_array_equal(found[name].values, expected[name].values)
    cfagg.aggregate([path], output=tmp_path / "out.nc")
    npt.assert_array_equal(cfagg.read(tmp_path / "out.nc")[name].values, expected[name].values)


def test_the_report_says_of_how_many_files_an_array_is(tmp_path: Path) -> None:
    files, _ = series(tmp_path)
    found = cfagg.aggregate(files)
    (group,) = found.copy().cfagg.report.groups
    assert (group.name, group.files.count) == ("tas", 4)
    found.load().to_netcdf(tmp_path / "copy.nc")
    with xr.open_dataset(tmp_path / "copy.nc") as again:
        xr.testing.assert_identical(again.load(), found.load())


def boxed(folder: Path, boxes: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> tuple[list[str], np.ndarray]:
    """Write a file for each box of latitudes and longitudes; return them and the whole array."""
    whole = np.arange(1.0, 31.0).reshape(5, 6)
    files = []
    for k, ((a, b), (c, d)) in enumerate(boxes):
        dims = {"lat": (np.arange(a, b)[:: (-1) ** k], LAT), "lon": (np.arange(c, d), LON)}
        files.append(write(folder / f"{k}.nc", dims, whole[a:b, c:d][:: (-1) ** k]))
    return files, whole


@pytest.mark.few(2)
@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"])
def test_boxes_that_do_not_line_up_fill_one_array(tmp_path: Path, to: str) -> None:
    pinwheel = [((0, 2), (0, 4)), ((0, 3), (4, 6)), ((3, 5), (2, 6)), ((2, 5), (0, 2)), ((2, 3), (2, 4))]
    files, whole = boxed(tmp_path, pinwheel)
    found = cfagg.aggregate(files, output=tmp_path / "out.nc", to=to, on_loss="materialise")
    assert list(found.data_vars) == ["tas"]
    npt.assert_array_equal(found.tas.sortby("lat").values, whole)
    npt.assert_array_equal(found.tas.sortby("lat")[::-2, 1::2].values, whole[::-2, 1::2])
    npt.assert_array_equal(cfagg.read(tmp_path / "out.nc").tas.sortby("lat").values, whole)


@pytest.mark.parametrize("backwards", [False, True])
def test_odd_and_even_times_are_one_array_where_that_is_asked_for(tmp_path: Path, backwards: bool) -> None:
    whole = np.arange(36.0).reshape(12, 3)
    files = []
    for k, own in enumerate((np.arange(0, 12, 2), np.array([1, 5, 7, 11]), np.array([3, 9]))):
        turned = own[::-1] if backwards and k == 1 else own
        dims = {"time": (turned, TIME), "lat": (np.arange(3.0), LAT)}
        files.append(write(tmp_path / f"{k}.nc", dims, whole[turned]))
    assert len(cfagg.aggregate(files).data_vars) == 3
    found = cfagg.aggregate(files, interleave=True)
    npt.assert_array_equal(found.tas.values, whole)
    npt.assert_array_equal(found.time.dt.dayofyear.values, np.arange(1, 13))
    npt.assert_array_equal(found.tas[7::-3, 1].values, whole[7::-3, 1])


@pytest.mark.parametrize(("on_overlap", "middle"), [("first", 10), ("last", 20)])
def test_of_files_that_overlap_one_counts_where_that_is_asked_for(
    tmp_path: Path, on_overlap: str, middle: float
) -> None:
    files = []
    for k, own in enumerate((np.arange(5), np.arange(3, 9))):
        dims = {"time": (own, TIME), "lat": (np.arange(2.0), LAT)}
        files.append(write(tmp_path / f"{k}.nc", dims, np.full((own.size, 2), 10.0 * (k + 1))))
    assert len(cfagg.aggregate(files).data_vars) == 2
    found = cfagg.aggregate(files, on_overlap=on_overlap)
    npt.assert_array_equal(found.tas[:, 0].values, [10.0] * 3 + [middle] * 2 + [20.0] * 4)
    npt.assert_array_equal(found.time.dt.dayofyear.values, np.arange(1, 10))


def test_text_along_a_dimension_is_a_coordinate(tmp_path: Path) -> None:
    files = []
    for k, names in enumerate((["north", "south"], ["west"])):
        path = tmp_path / f"{k}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("region", len(names))
            made = file.createVariable("region", str, ("region",))
            made.standard_name = "region"
            made[:] = np.array(names, object)
            tas = file.createVariable("tas", "f8", ("region",))
            tas.setncatts(TAS)
            tas[:] = np.arange(len(names)) + 10.0 * k
        files.append(str(path))
    ds = cfagg.aggregate(files)
    assert list(ds.data_vars) == ["tas"]
    found = ds.tas
    assert dict(zip(found.region.values.tolist(), found.values.tolist(), strict=True)) == {
        "north": 0.0, "south": 1.0, "west": 10.0,
    }  # fmt: skip


def of_attributes(folder: Path, *own: Mapping[str, Any]) -> list[str]:
    """Write files that follow each other, whose variables have these attributes besides."""
    return [
        write(folder / f"{k}.nc", {"time": ([float(k)], TIME)}, [float(k)], {**TAS, **one}) for k, one in enumerate(own)
    ]


def test_texts_of_attributes_that_differ_are_joined(tmp_path: Path) -> None:
    files = of_attributes(tmp_path, {"comment": "a", "n": 1}, {"comment": "b", "n": 2}, {"comment": "a", "n": 1})
    assert cfagg.aggregate(files).tas.attrs == {**TAS, "comment": "a :AGGREGATED: b"}
    left = cfagg.aggregate(files, concatenate=False)
    assert left.tas.attrs == TAS
    assert set(left.cfagg.report.groups[0].dropped) == {"comment", "n"}


@pytest.mark.parametrize("number", [np.array([1, 2]), np.float32(1)], ids=["several", "one"])
def test_attributes_that_are_text_in_one_file_and_numbers_in_another_differ(tmp_path: Path, number: Any) -> None:
    for text, other in ((1, 2), (2, 1)):
        files = months(tmp_path, 3)
        for k, value in ((text, "1"), (other, number)):
            with netCDF4.Dataset(files[k], "a") as file:
                file["tas"].comment = file["time"].comment = file.comment = value
        found = cfagg.aggregate(files[1:])
        assert found.tas.shape == (4, 2, 3)
        assert "comment" not in {*found.tas.attrs, *found.time.attrs, *found.attrs}


def test_attributes_that_only_json_has_are_kept(tmp_path: Path) -> None:
    stores = [as_zarr(name, 3) for name in months(tmp_path, 2)]
    given = [[1, 2], [3]], [{"a": [1]}], {"a": 1}
    for store in stores:
        for name in ("tas", "lat"):
            array_of(zarr.open_group(store, mode="r+"), name).attrs.update(dict(zip("xyz", given, strict=True)))
    found = cfagg.aggregate(stores)
    for one in (found.tas, found.lat):
        assert [one.attrs[name] for name in "xyz"] == list(given)
    npt.assert_array_equal(found.tas.values[2:], cfagg.read(stores[1]).tas.values)


def test_long_texts_that_differ_and_those_that_some_lack_are_left_out(tmp_path: Path) -> None:
    files = of_attributes(tmp_path, {"history": "a" * 3000, "note": "x"}, {"history": "b" * 3000}, {"history": "c"})
    assert cfagg.aggregate(files).tas.attrs == TAS


def test_cell_methods_that_mean_the_same_stay_as_the_first_writes_them(tmp_path: Path) -> None:
    files = of_attributes(tmp_path, {"cell_methods": "time: mean"}, {"cell_methods": "time:  mean"})
    found = cfagg.aggregate(files)
    assert found.tas.attrs["cell_methods"] == "time: mean"


def test_a_tree_has_a_group_for_what_would_have_other_names(tmp_path: Path) -> None:
    lat = {"lat": (np.arange(4.0), LAT)}
    files = [
        write(tmp_path / "a.nc", lat, np.arange(4.0)),
        write(tmp_path / "b.nc", {"lat": (np.arange(5.0), LAT)}, np.arange(5.0)),
        write(tmp_path / "c.nc", lat, np.arange(4.0), {"standard_name": "air_pressure", "units": "Pa"}, name="p"),
    ]
    found = cfagg.aggregate(files, as_tree=True)
    assert isinstance(found, xr.DataTree)
    assert {path: list(node.data_vars) for path, node in found.subtree_with_keys if node.data_vars} == {
        "tas": ["tas", "p"], "tas_1": ["tas"],
    }  # fmt: skip
    npt.assert_array_equal(found["tas_1/tas"].values, np.arange(5.0))
    assert found["tas"].dims == {"lat": 4}
    assert [group.name for group in found.dataset.cfagg.report.groups] == ["tas/tas", "tas_1/tas", "tas/p"]


def test_a_tree_of_what_has_no_name_in_common_is_its_root(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    found = cfagg.aggregate(files, as_tree=True)
    npt.assert_array_equal(found["tas"].values, whole)
    assert not found.children


@pytest.mark.parametrize("name", ["figure1.nca", "profiles.nc", "sst.nca", "temperature-NCA-0.2.nc", "temperature.nca"])
def test_one_file_is_what_read_makes_of_it(name: str) -> None:
    found, expected = cfagg.aggregate(sample(name), decode_times=False), cfagg.read(sample(name), decode_times=False)
    for own in expected.variables:
        npt.assert_array_equal(found[own].values, expected[own].values)
        assert {*found[own].attrs, "bounds"} == {*expected[own].attrs, "bounds"} - set(MARKS)


#: What the files of aggregations say, and a dataset does not.
MARKS = ("nca_array", "nca_dimensions")


def test_coordinates_that_go_up_and_down_stay_as_they_are(tmp_path: Path) -> None:
    lat = np.array([2.0, 0.0, 1.0, 1.0])
    for k in range(2):
        write(tmp_path / f"{k}.nc", {"time": ([float(k)], TIME), "lat": (lat, LAT)}, np.arange(4.0)[None] + k)
    found = cfagg.aggregate(tmp_path)
    npt.assert_array_equal(found.lat.values, lat)
    npt.assert_array_equal(found.tas.values, [np.arange(4.0), np.arange(4.0) + 1])


def test_variables_of_one_file_that_say_the_same_of_themselves_are_told_apart_by_their_names(tmp_path: Path) -> None:
    for k in range(3):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts(TIME)
            time[:] = [2 * k, 2 * k + 1]
            for number, group in enumerate((file, file, file.createGroup("a"))):
                made = group.createVariable("tas" if number != 1 else "t2m", "f8", ("time",))
                made.setncatts(TAS)
                made[:] = 10 * k + number
    found = cfagg.aggregate(tmp_path)
    assert list(found.data_vars) == ["tas", "t2m", "tas_1"]
    for number, name in enumerate(found.data_vars):
        assert found[name][::2].values.tolist() == [number, 10 + number, 20 + number]


def test_arrays_without_elements_are_read_and_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", {"time": (np.empty(0), TIME)}, np.empty(0))
    found = cfagg.aggregate(path, output=tmp_path / "out.nc")
    again = cfagg.read(tmp_path / "out.nc")
    for one in (found.tas, again.tas):
        assert (one.shape, one.dtype, one.attrs) == ((0,), np.dtype("f8"), TAS)


@pytest.mark.parametrize("options", [{"allow_no_identity": True}, {"relaxed_identities": True}], ids=str)
def test_arrays_without_elements_or_coordinates_are_read_and_written(tmp_path: Path, options: dict[str, Any]) -> None:
    files = [write(tmp_path / f"{n}.nc", {}, n) for n in (3, 0, 2)]
    for n, path in zip((3, 0, 2), files, strict=True):
        with netCDF4.Dataset(path, "a") as file:
            file.createDimension("flash", n)
            file.createVariable("id", "i2", ("flash",))[:] = np.arange(n)
    found = cfagg.aggregate(files, output=tmp_path / "out.nc", relaxed_units=True, **options)
    for one in (found, cfagg.read(tmp_path / "out.nc")):
        assert sorted(one[name].shape for name in one.data_vars if name.startswith("id")) == [(0,), (2,), (3,)]


def test_reals_with_a_scale_of_their_type_keep_that_type(tmp_path: Path) -> None:
    for dtype, scale, expected in (("f4", np.float32(1), "f4"), ("f8", np.float32(1), "f8"), ("f4", 1.0, "f8")):
        path = write(tmp_path / "a.nc", {"time": ([0.0], TIME)}, [280.5], {**TAS, "scale_factor": scale}, dtype=dtype)
        found = cfagg.aggregate(path).tas
        assert (found.dtype, float(found[0])) == (expected, 280.5)


def test_packed_values_outside_their_valid_range_are_missing_from_an_array_without_one(tmp_path: Path) -> None:
    packed = {**TAS, "scale_factor": np.float32(2), "valid_range": np.array([1, 3], "i2")}
    path = write(tmp_path / "a.nc", {"time": ([0.0, 1.0, 2.0], TIME)}, [0, 2, 4], packed, dtype="i2")
    found = cfagg.aggregate(path).tas
    npt.assert_array_equal(found.values, [np.nan, 4, np.nan])
    assert "valid_range" not in found.attrs


def test_reference_times_of_members_keep_their_bounds(tmp_path: Path) -> None:
    began = {"standard_name": "forecast_reference_time", "units": "days since 1999-12-01", "bounds": "began_bnds"}
    files = []
    for k in range(3):
        dims = {
            "member": (k, {"standard_name": "realization", "units": "1"}),
            "began": (k, began),
            "time": ([0, 1], TIME),
        }
        files.append(write(tmp_path / f"{k}.nc", dims, np.full(2, k, "f4")))
        with netCDF4.Dataset(files[-1], "a") as file:
            file.createDimension("bnds", 2)
            file.createVariable("began_bnds", "f8", ("bnds",))[:] = [k - 1, k + 1]
    found = cfagg.aggregate(files, decode_times=False)
    assert (found.tas.dims, found.began.dims, found.began.bounds) == (("member", "time"), ("member",), "began_bnds")
    npt.assert_array_equal(found.began_bnds.values, [[-1, 1], [0, 2], [1, 3]])


def month_with_bounds(path: Path, times: Sequence[float]) -> str:
    """Write a file of some days, which have bounds."""
    write(path, {"time": (np.array(times, "f8"), {**TIME, "bounds": "time_bnds"})}, np.array(times, "f4"))
    with netCDF4.Dataset(path, "a") as file:
        file.createDimension("bnds", 2)
        file.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.add.outer(times, [0, 1])
    return str(path)


def test_files_without_records_whose_times_have_bounds_are_arrays_of_their_own(tmp_path: Path) -> None:
    none = month_with_bounds(tmp_path / "0.nc", [])
    assert cfagg.aggregate(none).time_bnds.shape == (0, 2)
    others = [month_with_bounds(tmp_path / f"{k}.nc", [k, k + 1.0]) for k in (1, 3)]
    for files in ([none, *others], [*others, none]):
        # Those are known to touch, whatever else there is.
        found = cfagg.aggregate(files, contiguous=True)
        assert {one.shape for one in found.data_vars.values()} == {(0,), (0, 2), (4,), (4, 2)}


@pytest.mark.few(2)
@pytest.mark.parametrize("to", ["CFA-0.4", "NCA-0.1"])
@pytest.mark.parametrize("name", ["air_temp.pp", "umfile.pp"])
def test_fields_of_pp_files_are_partitions_where_a_dialect_has_addresses(tmp_path: Path, name: str, to: str) -> None:
    path = Path(__file__).parents[2] / "sample_data" / "pp" / name
    found, expected = cfagg.aggregate(path, output=tmp_path / "out.nc", to=to), cfagg.read(path)
    again = cfagg.read(tmp_path / "out.nc", allow=[path.parent])
    for own in expected.variables:
        npt.assert_array_equal(again[own].values, expected[own].values)
        npt.assert_array_equal(found[own].values, expected[own].values)
    assert not (tmp_path / "out.nc.fragments").exists()


def test_what_a_dialect_cannot_say_is_refused_and_listed(tmp_path: Path) -> None:
    whole = np.arange(6.0).reshape(2, 3)
    lat = np.arange(3.0)
    files = [
        write(tmp_path / "a.nc", {"time": ([0.0], TIME), "lat": (lat, LAT)}, whole[:1]),
        write(tmp_path / "b.nc", {"time": ([1.0], TIME), "lat": (lat[::-1], LAT)}, whole[1:, ::-1]),
    ]
    npt.assert_array_equal(cfagg.aggregate(files).tas.values, whole)
    with pytest.raises(cfagg.errors.LossError, match=r"CF-1\.13"):
        cfagg.aggregate(files, output=tmp_path / "out.nc")
    assert not (tmp_path / "out.nc").exists()
    cfagg.aggregate(files, output=tmp_path / "out.nca")
    npt.assert_array_equal(cfagg.read(tmp_path / "out.nca").tas.values, whole)


def test_integers_with_other_missing_values_get_a_type_in_which_no_value_is_missing(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{k}.nc", {"time": ([2.0 * k, 2.0 * k + 1], TIME)}, values, {**TAS, "_FillValue": fill})
        for k, (values, fill) in enumerate(
            [(np.array([1, -1], "i2"), np.int16(-1)), (np.array([-1, -9], "i2"), np.int16(-9))]
        )
    ]
    npt.assert_array_equal(cfagg.aggregate(files).tas.values, [1, np.nan, -1, np.nan])
    assert cfagg.aggregate(files, mask_and_scale=False).tas.dtype == np.dtype("i4")


@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"])
def test_what_is_written_declares_a_missing_value_where_fragments_declare_other_ones(tmp_path: Path, to: str) -> None:
    stored: list[tuple[np.ndarray[Any, Any], dict[str, Any]]] = [
        (np.array([1, -1], "f4"), {"_FillValue": np.float32(-1)}),
        (np.array([-1, -9], "f4"), {"_FillValue": np.float32(-9)}),
        (np.array([7, 8], "i2"), {"_FillValue": np.int16(8), "scale_factor": 0.5}),
        (np.array([3, 4], "f4"), {}),
    ]
    files = [
        write(tmp_path / f"{k}.nc", {"time": ([2.0 * k, 2.0 * k + 1], TIME)}, values, {**TAS, **own})
        for k, (values, own) in enumerate(stored)
    ]
    oracle = np.concatenate([xr.open_dataset(file).tas.values for file in files])
    npt.assert_array_equal(oracle, [1, np.nan, -1, np.nan, 3.5, np.nan, 3, 4])
    out = tmp_path / "out.nc"
    npt.assert_array_equal(cfagg.aggregate(files, output=out, to=to).tas.values, oracle)
    for masked in (True, False):
        npt.assert_array_equal(cfagg.read(out, mask_and_scale=masked).tas.values, oracle)
    assert "REF009" not in {finding.code for finding in cfagg.check(out, references=True).findings}
    with netCDF4.Dataset(out) as file:
        assert np.isnan(file["tas"]._FillValue)
        assert "_FillValue" not in file["time"].ncattrs()


@pytest.mark.parametrize("units", ["m", "days since 2000-01-01"])
@pytest.mark.parametrize("dims", [("time", "x"), ("x",)])
def test_coordinates_that_were_never_written_are_missing(tmp_path: Path, units: str, dims: tuple[str, ...]) -> None:
    files = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for k, path in enumerate(files):
        axes = {"time": ([float(k)], TIME), "x": (np.arange(3.0), LAT)}
        write(path, axes, np.full((1, 3), k, "f8"), {**TAS, "coordinates": "aux"})
        with netCDF4.Dataset(path, "a") as file:
            file.createVariable("aux", "f8", dims).units = units
            file["aux"][..., 1] = 1.0
    out = tmp_path / "out.nc"
    for found in (cfagg.aggregate(files, output=out), cfagg.read(out)):
        assert found.aux.dims == dims
        npt.assert_array_equal(found.aux.isnull(), np.broadcast_to([True, False, True], found.aux.shape))


def test_times_that_xarray_cannot_decode_are_named(tmp_path: Path) -> None:
    own = {"standard_name": "time", "units": "months since 2000-01-01", "calendar": "noleap"}
    files = [write(tmp_path / f"{k}.nc", {"time": ([float(k)], own)}, [k]) for k in range(2)]
    with pytest.raises(CalendarError, match=f"^{tmp_path}.*variable 'time': units 'months since .* are not decoded"):
        cfagg.aggregate(files)
    assert cfagg.aggregate(files, decode_times=False).sizes["time"] == 2


def test_an_axis_that_no_file_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    files = months(tmp_path, 2)
    with pytest.raises(OptionError, match=r"axes='tim', 'depth': .* 'time', 'latitude', 'longitude'$"):
        cfagg.aggregate(files, axes=("tim", "time", "depth"), output=tmp_path / "out.nc")
    assert not (tmp_path / "out.nc").exists()
    assert cfagg.aggregate(files, axes="time").sizes["time"] == 4
    with pytest.raises(OptionError, match=r"cells='tim': .* 'time', 'latitude', 'longitude'$"):
        cfagg.aggregate(files, cells={"tim": {"cellsize": "1 day"}})
    assert cfagg.aggregate(files, cells={"Z": {"cellsize": "1 m"}}).sizes["time"] == 4
    with pytest.raises(OptionError, match="dimension='hieght'"):
        cfagg.aggregate(files, dimension=("hieght",))


@pytest.mark.parametrize("key", ["time", "T"])
def test_conditions_on_cells_in_units_of_something_else_are_refused(tmp_path: Path, key: str) -> None:
    files = months(tmp_path, 2)
    with pytest.raises(OptionError, match=f"cells={{{key!r}: …}}: '1 m' has units that do not convert .*, 'days'"):
        cfagg.aggregate(files, cells={key: [{"cellsize": "1 day"}, {"spacing": "1 m"}]})
    assert cfagg.aggregate(files, cells={key: {"spacing": "1 hour"}}).sizes["time"] == 4


@pytest.mark.parametrize("index", [True, False])
def test_fields_of_a_pp_file_that_changed_since_it_was_scanned_are_refused(tmp_path: Path, index: bool) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(sample("pp/air_temp.pp").read_bytes())
    found = cfagg.aggregate(path, output=tmp_path / "out.nc", to="NCA-0.1", index=index)
    path.write_bytes(path.read_bytes()[:-400] + b"\x43" * 396 + path.read_bytes()[-4:])
    with pytest.raises(FragmentMismatchError, match=r"a\.pp has changed since it was scanned"):
        found.air_temperature.load()


def test_addresses_of_fields_are_not_taken_from_a_pp_file_that_changed_after_the_scan(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(sample("pp/air_temp.pp").read_bytes())
    scanner = Scanner()
    joined = join_files(scanner.scan([str(path)]), scanner.rules)
    name = joined.scanned[0].described[0].stated.name
    os.utime(path, ns=(1, 1))
    with pytest.raises(FragmentMismatchError, match=r"a\.pp has changed since it was scanned"):
        fields.Fields(joined).of(0, name)


def test_each_field_of_a_pp_file_is_found_by_its_address(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "sample_data" / "pp" / "umfile.pp"
    cfagg.aggregate(path, output=tmp_path / "out.nca", index=False)
    offsets = cfagg.open_aggregation(tmp_path / "out.nca", "surface_air_pressure").partitions.offset
    assert offsets.tolist() == [0, 28304, 56608]


def test_a_pp_file_is_opened_once_for_the_addresses_of_all_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(fields, "open_any", lambda place: (opened.append(place), open_any(place))[1])
    path = sample("pp/umfile.pp")
    found = cfagg.aggregate(path, output=tmp_path / "out.nca", index=False)
    assert len(found.data_vars) > 1
    assert opened == [str(path)]


def test_times_of_four_bytes_are_no_other_times_in_seconds(tmp_path: Path) -> None:
    # Midnights are seconds of four bytes, and 6 o'clock is not.
    days, seconds = np.array([18040.25, 18041.75, 18042.25]), np.array([18000.0, 18016.0]) * 86400
    files = []
    for name, values, units in (("a", seconds, "seconds"), ("b", days, "days")):
        files.append(str(tmp_path / f"{name}.nc"))
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", len(values))
            time = file.createVariable("time", "f4", ("time",))
            time.setncatts({"standard_name": "time", "units": f"{units} since 1970-01-01"})
            time[:] = values
            assert (time[:] == values).all()
            made = file.createVariable("tas", "f8", ("time",))
            made.setncatts(TAS)
            made[:] = values
    ds = cfagg.aggregate(files, decode_times=False)
    npt.assert_array_equal(ds["time"], [*seconds, *(days * 86400)])
    assert ds["tas"].sizes == {"time": 5}


def test_coordinates_beside_times_of_four_bytes_in_other_units_are_equal(tmp_path: Path) -> None:
    # Equal dates, of which one file counts days in four bytes and another one seconds.
    days = np.array([18000.25, 18001.75, 18002.25])
    files = []
    for k, (dtype, each, units) in enumerate((("f8", 86400, "seconds"), ("f4", 1, "days"))):
        files.append(str(tmp_path / f"{k}.nc"))
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", 3)
            time = file.createVariable("time", dtype, ("time",))
            time.setncatts({"standard_name": "time", "units": f"{units} since 1970-01-01"})
            time[:] = days * each
            level = file.createVariable("height", "f8", ())
            level.setncatts({"standard_name": "height", "units": "m"})
            level[...] = k
            made = file.createVariable("tas", "f8", ("time",))
            made.setncatts({**TAS, "coordinates": "height"})
            made[:] = days
    assert cfagg.aggregate(files)["tas"].sizes == {"height": 2, "time": 3}


@pytest.mark.parametrize(("units", "factor", "arrays"), [("km2", 1.0, 2), ("km2", 1e-6, 1), ("m2", 1.0, 1)])
@pytest.mark.parametrize("down", [False, True])
def test_cell_areas_are_compared_in_common_units_and_directions(
    tmp_path: Path, units: str, factor: float, arrays: int, down: bool
) -> None:
    areas = np.array([[1.0, 2.0], [3.0, 4.0]])
    files = []
    for k, (own, times, turn) in enumerate((("m2", 1.0, 1), (units, factor, -1 if down else 1))):
        dims = {"time": ([k], TIME), "lat": ([10.0, 20.0][::turn], LAT), "lon": ([0.0, 1.0], LON)}
        about = {**TAS, "cell_measures": "area: cells"}
        files.append(write(tmp_path / f"{k}.nc", dims, np.zeros((1, 2, 2)), about))
        with netCDF4.Dataset(files[-1], "a") as file:
            made = file.createVariable("cells", "f8", ("lat", "lon"))
            made.setncatts({"standard_name": "cell_area", "units": own})
            made[:] = areas[::turn] * times
            # Another variable of the file has no areas.
            made = file.createVariable("sftlf", "f8", ("time", "lat", "lon"))
            made.setncatts({"standard_name": "land_area_fraction", "units": "1"})
            made[:] = 0
    ds = cfagg.aggregate(files)
    assert len([name for name in ds.data_vars if str(name).startswith("tas")]) == arrays
    npt.assert_array_equal(ds["cells"], areas)


def test_bounds_of_a_part_that_is_stored_backwards_go_up_as_those_of_the_others(tmp_path: Path) -> None:
    files = []
    for name, times, bounds in (("a", [0, 1, 2], [[0, 1], [1, 2], [2, 3]]), ("b", [3, 2], [[4, 3], [3, 2]])):
        files.append(write(tmp_path / f"{name}.nc", {"time": (times, {**TIME, "bounds": "ends"})}, np.array(times)))
        with netCDF4.Dataset(files[-1], "a") as file:
            file.createDimension("two", 2)
            file.createVariable("ends", "f8", ("time", "two"))[:] = bounds
    ds = cfagg.aggregate(files, on_overlap="first", decode_times=False)
    npt.assert_array_equal(ds["ends"], [[0, 1], [1, 2], [2, 3], [3, 4]])


@pytest.mark.parametrize("dims", [("time",), ("time", "lat")])
def test_bounds_of_other_coordinates_have_the_units_of_these(tmp_path: Path, dims: tuple[str, ...]) -> None:
    files = []
    for k, (units, height) in enumerate((("m", 2000.0), ("km", 3.0))):
        axes = {"time": ([k], TIME), "lat": ([10.0, 20.0], LAT)}
        files.append(write(tmp_path / f"{k}.nc", axes, np.zeros((1, 2)), {**TAS, "coordinates": "z"}))
        with netCDF4.Dataset(files[-1], "a") as file:
            file.createDimension("two", 2)
            made = file.createVariable("z", "f8", dims)
            made.setncatts({"standard_name": "altitude", "units": units, "bounds": "ends"})
            made[:] = height
            file.createVariable("ends", "f8", (*dims, "two"))[:] = [height * 0.5, height * 1.5]
    ds = cfagg.aggregate(files)
    npt.assert_array_equal(ds["z"].values.reshape(2, -1)[:, 0], [2000, 3000])
    npt.assert_array_equal(ds["ends"].values.reshape(2, -1, 2)[:, 0], [[1000, 3000], [1500, 4500]])
    assert "units" not in ds["ends"].attrs


def test_what_was_never_written_is_missing_in_reals_and_a_number_in_integers(tmp_path: Path) -> None:
    files = []
    for k in range(2):
        files.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            time[:] = [2 * k, 2 * k + 1]
            for kind in ("f4", "f8", "i2", "i4", "i1"):
                file.createVariable(kind, kind, ("time",)).setncatts({"standard_name": f"of_{kind}", "units": "1"})
                file[kind][0] = 1
    found = cfagg.aggregate(files, output=tmp_path / "all.nc")
    cfagg.convert(tmp_path / "all.nc", tmp_path / "flat.nc")
    for ds in (found, cfagg.read(tmp_path / "all.nc"), xr.open_dataset(tmp_path / "flat.nc")):
        for kind in ("f4", "f8", "i2", "i4", "i1"):
            fill = np.nan if kind[0] == "f" else netCDF4.default_fillvals[kind]
            npt.assert_array_equal(ds[kind].values, np.array([1, fill, 1, fill], kind))
    for ds in (xr.open_dataset(files[0]), cfagg.read(files[0])):
        npt.assert_array_equal(ds["f8"].values, [1, netCDF4.default_fillvals["f8"]])


def test_bounds_in_units_of_their_own_are_compared_in_those_of_their_coordinates(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    for k, (name, units, scale) in enumerate(zip(names, (None, "hours since 2000-01-01"), (1, 24), strict=True)):
        with netCDF4.Dataset(name, "a") as file:
            file.createDimension("two", 2)
            bounds = file.createVariable("time_bnds", "f8", ("time", "two"))
            bounds[:] = scale * (2 * k + np.array([[-0.5, 0.5], [0.5, 1.5]]))
            file["time"].bounds = "time_bnds"
            if units is not None:
                bounds.units = units
    for options in ({}, {"contiguous": True}, {"overlap": False}, {"cells": {"T": {"cellsize": "1 day"}}}):
        with cfagg.aggregate(names, decode_times=False, **options) as found:
            assert found["tas"].sizes["time"] == 4
            npt.assert_array_equal(found["time_bnds"].values[:, 0], np.arange(4) - 0.5)
            assert "gap" not in str(found.cfagg.report)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("of_bounds", ["i8", "f8"])
def test_nanoseconds_beside_seconds_are_joined_without_rounding(tmp_path: Path, first: int, of_bounds: str) -> None:
    second = 946684800
    given = ("seconds", [second, second + 1]), ("nanoseconds", [(second + 2) * 10**9 + n for n in (1, 3)])
    for name, (unit, times) in zip("ab", given, strict=True):
        with netCDF4.Dataset(tmp_path / f"{name}.nc", "w") as file:
            file.createDimension("time", 2)
            file.createDimension("ends", 2)
            for variable, dims, kind in (("time", ("time",), "i8"), ("ends", ("time", "ends"), of_bounds)):
                file.createVariable(variable, kind, dims)
            file.createVariable("tas", "f4", ("time",)).setncatts(TAS)
            file["time"].setncatts({**TIME, "units": f"{unit} since 1970-01-01", "bounds": "ends"})
            file["time"][:] = times
            file["ends"][:] = [[t - 1, t] for t in times]
            file["tas"][:] = 1
    files = [str(tmp_path / f"{name}.nc") for name in ("ab" if first == 0 else "ba")]
    found = cfagg.aggregate(files, output=tmp_path / "all.nc")
    expected = [second * 10**9, (second + 1) * 10**9, *given[1][1]]
    assert found["time"].values.astype("M8[ns]").astype("i8").tolist() == expected
    with netCDF4.Dataset(tmp_path / "all.nc") as file:
        assert (file["time"].units, file["time"].dtype) == ("nanoseconds since 1970-01-01", np.int64)
        assert file["time"][:].tolist() == expected
        assert file["ends"].dtype == of_bounds
        assert file["ends"][0].tolist() == [(second - 1) * 10**9, second * 10**9]


@pytest.mark.parametrize(
    ("kind", "origins", "times"),
    [
        ("i4", ("seconds since 1970-01-01", "seconds since 2010-01-01"), (2_000_000_000, 1_000_000_000)),
        ("i4", ("seconds since 1950-01-01", "seconds since 2100-01-01"), (0, 0)),
        ("i2", ("days since 1900-01-01", "days since 2000-01-01"), (32_000, 0)),
        ("i1", ("days since 2000-01-01", "days since 2000-03-01"), (100, 100)),
    ],
)
def test_times_of_few_bytes_are_put_in_order_though_they_do_not_fit_in_other_units(kind, origins, times, tmp_path):
    for name, units, time in zip("ab", origins, times, strict=True):
        with netCDF4.Dataset(tmp_path / name, "w") as file:
            file.createDimension("time", 2)
            file.createVariable("time", kind, ("time",)).setncatts({"standard_name": "time", "units": units})
            file.createVariable("tas", "f4", ("time",)).setncatts({"standard_name": "air_temperature", "units": "K"})
            file["time"][:], file["tas"][:] = [time, time + 1], np.arange(2) + 2 * "ab".index(name)
    for order in ("ab", "ba"):
        with cfagg.aggregate([tmp_path / name for name in order]) as found:
            assert (np.diff(found["time"].values) > np.timedelta64(0, "s")).all()
            npt.assert_array_equal(found["tas"].values, range(4))


def test_the_report_lists_files_without_any_times(tmp_path: Path) -> None:
    names = [str(month(tmp_path / f"{k}.nc", k, days=days)) for k, days in enumerate((2, 0, 0))]
    with cfagg.aggregate(names, decode_times=False) as found:
        assert [found[name].sizes[found[name].dims[0]] for name in ("tas", "tas_1", "tas_2")] == [2, 0, 0]
        assert "its dimension 'time' has no elements" in str(found.cfagg.report)
        assert found.cfagg.report.as_dict()["groups"]
        assert found.cfagg.report._repr_html_()


def test_files_without_any_times_leave_the_names_to_the_others(tmp_path: Path) -> None:
    names = [str(month(tmp_path / f"{k}.nc", k, days=days)) for k, days in enumerate((0, 2, 0, 3))]
    with cfagg.aggregate(names, decode_times=False) as found:
        assert [found[name].sizes[found[name].dims[0]] for name in ("tas", "tas_1", "tas_2")] == [5, 0, 0]
        assert [group.name for group in found.cfagg.report.groups] == ["tas", "tas_1", "tas_2"]
        assert "no elements" in str(found.cfagg.report.why(names[0], names[1]))
        cfagg.write(found, tmp_path / "all.nc", on_loss="drop")
    with xr.open_dataset(tmp_path / "all.nc", engine="cfagg", decode_times=False) as again:
        assert again["tas"].shape == found["tas"].shape


def of_own_types(path: Path, time: float) -> str:
    """Write a file of an enumeration, of pairs and of sequences beside numbers."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 1)
        cloud = file.createEnumType(np.uint8, "cloud", {"clear": 0, "cumulus": 1})
        pair = file.createCompoundType(np.dtype([("a", "f4"), ("b", "i4")]), "pair")
        several = file.createVLType(np.int32, "several")
        for name, dtype, standard in (
            ("time", "f8", "time"), ("tas", "f4", "air_temperature"), ("clouds", cloud, "cloud_type"),
            ("pairs", pair, "x_wind"), ("rows", several, "y_wind"),
        ):  # fmt: skip
            file.createVariable(name, dtype, ("time",)).standard_name = standard
        file["time"].units, file["tas"].units = TIME["units"], "K"
        file["time"][:], file["tas"][:], file["clouds"][:] = time, 280 + time, np.ones(1, "u1")
        file["pairs"][:] = np.array([(time, 2)], pair.dtype)
        file["rows"][0] = np.arange(3, dtype="i4")
    return str(path)


def test_variables_of_types_that_files_define_stay_apart_and_are_read(tmp_path: Path) -> None:
    names = [of_own_types(tmp_path / f"{k}.nc", k) for k in range(2)]
    with cfagg.aggregate(names, decode_times=False) as found:
        npt.assert_array_equal(found["tas"].values, [280, 281])
        assert found["clouds"].values.tolist() == [1, 1]
        assert (found["pairs"].values[0], found["pairs_1"].values[0]) == ((0, 2), (1, 2))
        assert found["rows"].values[0].tolist() == [0, 1, 2]
        reasons = {one.a: str(one) for one in found.cfagg.report.why(0, 1).answers}
        assert "its type is defined by its file" in reasons["pairs"]
    with pytest.raises(LossError, match=r"'pairs_1'.*its type is defined by its file"):
        cfagg.aggregate(names, output=tmp_path / "all.nc")
    cfagg.aggregate(names, output=tmp_path / "all.nc", on_loss="drop")
    with cfagg.read(tmp_path / "all.nc", decode_times=False) as read:
        assert list(read.data_vars) == ["tas", "clouds"]
        npt.assert_array_equal(read["tas"].values, [280, 281])


def test_profiles_of_stations_in_files_of_their_own_are_one_array_by_their_names(tmp_path: Path) -> None:
    names = []
    for k, (station, days) in enumerate((("b", (0, 1)), ("b", (2,)), ("a", (0, 1)), ("a", (2,)))):
        made = xr.Dataset({"tas": (("time", "z"), np.full((len(days), 2), 10.0 * k), TAS)})
        made["time"] = ("time", [float(d) for d in days], TIME)
        made["z"] = ("z", [2.0, 10.0], {"standard_name": "height", "units": "m"})
        made["station"] = ((), station, {"cf_role": "timeseries_id"})
        made["lat"] = ((), float(ord(station)), LAT)
        made.attrs["featureType"] = "timeSeriesProfile"
        names.append(str(tmp_path / f"{k}.nc"))
        made.set_coords(["station", "lat"]).to_netcdf(names[-1])
    with cfagg.aggregate(names, decode_times=False) as found:
        data = found["tas"].transpose("station", "time", "z")
        npt.assert_array_equal(data.values[:, :, 1], [[0, 0, 10], [20, 20, 30]])
        assert data["station"].values.tolist() == ["b", "a"]
        npt.assert_array_equal(data["lat"].values, [98, 97])


def test_a_coordinate_that_cannot_be_converted_names_its_file(tmp_path: Path) -> None:
    files = [str(month(tmp_path / f"{k}.nc", k)) for k in range(3)]
    with netCDF4.Dataset(files[1], "a") as file:
        file["time"].units = "days since yesterday"
    with pytest.raises(CalendarError, match=r"/1\.nc: .*'yesterday'"):
        cfagg.aggregate(files)


@pytest.mark.parametrize(("dtype", "fills"), [("f8", (1e20, -999.0)), ("i2", (-1, 99))])
def test_coordinates_that_are_missing_are_equal_whatever_their_missing_values(
    tmp_path: Path, dtype: str, fills: tuple[float, float]
) -> None:
    for k, fill in enumerate(fills):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            for name, size in (("time", 1), ("y", 2), ("x", 2)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            time[0] = k
            for name, units in (("latitude", "degrees_north"), ("longitude", "degrees_east")):
                made = file.createVariable(name, dtype, ("y", "x"), fill_value=fill)
                made.setncatts({"standard_name": name, "units": units})
                made[...] = np.ma.masked_equal([[1, 2], [3, 9]], 9)
            data = file.createVariable("ta", "f4", ("time", "y", "x"))
            data.setncatts({"standard_name": "air_temperature", "units": "K", "coordinates": "latitude longitude"})
            data[...] = k
    with cfagg.aggregate(tmp_path) as found:
        assert found["ta"].values[:, 0, 0].tolist() == [0, 1]
        npt.assert_array_equal(found["latitude"], [[1, 2], [3, np.nan]])


@pytest.mark.parametrize(
    "value", [2**70 + 1, -(2**70) - 1, pytest.param(10**400, id="huge"), [1, 2**70 + 1], [2**53 + 1, 0.5]]
)
def test_integers_in_attributes_that_no_type_of_netcdf_holds_are_losses_and_not_rounded(tmp_path, value):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array("v", data=np.arange(3.0), dimension_names=["x"])
    array.attrs.update({"odd": value, "large": 10**20})
    with pytest.raises(LossError, match=r"attribute 'odd' .* no (integers of more|type that holds all)"):
        cfagg.aggregate(tmp_path / "a.zarr", output=tmp_path / "all.nc")
    found = cfagg.aggregate(tmp_path / "a.zarr", output=tmp_path / "all.nc", on_loss="drop")
    assert [loss.what for loss in found.cfagg.report.losses] == ["attribute 'odd'"]
    assert found.v.attrs["odd"] == value
    with netCDF4.Dataset(tmp_path / "all.nc") as file:
        assert file["v"].large == 1e20
    again = cfagg.aggregate([], output=tmp_path / "all.nc", on_loss="drop", append=True, update=True)
    assert again.v.attrs["odd"] == value
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "one.nc", on_loss="drop")
    assert [loss.what for loss in report.losses] == ["attribute 'odd'"]
    with netCDF4.Dataset(tmp_path / "one.nc") as file:
        assert file["v"].large == 1e20


def test_cells_listed_row_by_row_fill_one_partition_for_each_file(tmp_path: Path) -> None:
    for k in range(2):
        place: dict[str, Any] = {
            "time": ("time", [float(k)], {"standard_name": "time", "units": "days since 2000-01-01"}),
            "lat": ("cell", [50.0, 50.0, 40.0, 40.0], {"standard_name": "latitude", "units": "degrees_north"}),
            "lon": ("cell", [0.0, 180.0, 0.0, 180.0], {"standard_name": "longitude", "units": "degrees_east"}),
        }
        place["lat"][2]["comment"] = f"of file {k}"  # so that the files share no coordinate by its metadata
        values = np.arange(4.0).reshape(1, 4) + 10 * k
        data = {"tas": (("time", "cell"), values, {"standard_name": "air_temperature", "units": "K"})}
        xr.Dataset(data, place).to_netcdf(tmp_path / f"{k}.nc")
    found = cfagg.aggregate(tmp_path, output=tmp_path.parent / f"{tmp_path.name}.nc")
    np.testing.assert_array_equal(found.tas, [[0, 1, 2, 3], [10, 11, 12, 13]])
    assert cfagg.open_aggregation(tmp_path.parent / f"{tmp_path.name}.nc", "tas").grid.sizes == ((1, 1), (4,))


def test_a_scalar_coordinate_of_the_first_file_is_that_of_its_dimension_whatever_others_call_it(tmp_path: Path) -> None:
    def write(name: str, call: str, along: tuple[str, ...], values: Any) -> Path:
        time = {"standard_name": "time", "units": "days since 2000-01-01"}
        own = xr.Dataset({"tas": (along, values, {"standard_name": "air_temperature", "units": "K"})})
        own.assign_coords({call: (along, values, time)}).to_netcdf(tmp_path / name)
        return tmp_path / name

    files = [write("0.nc", "time", (), 0.0), write("1.nc", "t", ("t",), [1.0, 2.0])]
    made = cfagg.aggregate(files, output=tmp_path / "out.nc", decode_times=False)
    for found in (made, cfagg.read(tmp_path / "out.nc", decode_times=False)):
        assert found.tas.dims == ("time",)
        assert found.tas.sel(time=[2, 0]).values.tolist() == [2, 0]


def test_dimensions_have_the_names_of_the_first_file_though_a_file_between_others_like_it_has_other_names(
    tmp_path: Path,
) -> None:
    files = []
    for day, name in enumerate(("time", "t", "time")):
        own = xr.Dataset({"tas": (name, [1.0 * day], {"standard_name": "air_temperature", "units": "K"})})
        own.coords[name] = (name, [day], {"standard_name": "time", "units": "days since 2000-01-01"})
        own.to_netcdf(tmp_path / f"{day}.nc")
        files.append(tmp_path / f"{day}.nc")
    found = cfagg.aggregate(files, decode_times=False)
    assert found.tas.dims == ("time",)
    assert found.tas.sel(time=[2, 1]).values.tolist() == [2, 1]


#: Words of the header of a field of the Unified Model, version 6.6, which has no standard name and no units.
UNNAMED = {"LBUSER7": 1, "LBUSER4": 34999, "LBSRCE": 6061111, "LBTIM": 1, "LBVC": 129, "BPLAT": 90}


@pytest.mark.parametrize(
    ("other", "joined"),
    [
        ({}, True),
        ({"LBUSER4": 34998}, False),
        ({"LBSRCE": 7031111}, False),
        ({"LBUSER4": 0}, False),
        ({"LBUSER4": 0, "LBFC": 942}, False),
    ],
)
def test_fields_without_a_name_are_identified_by_their_code_and_the_version_of_the_model(
    tmp_path: Path, other: dict[str, int], joined: bool
) -> None:
    for day in (1, 2):
        header = UNNAMED | {"LBDAT": day} | (other if day == 2 else {})
        (tmp_path / f"{day}.pp").write_bytes(field([day] * 6, **header))
    found = cfagg.aggregate(sorted(tmp_path.glob("*.pp")))
    arrays = [found[name] for name in found.data_vars if found[name].dims[-2:] == ("latitude", "longitude")]
    assert len(arrays) == (1 if joined else 2)
    if joined:
        assert arrays[0].values[:, 0, 0].tolist() == [1, 2]


@pytest.mark.parametrize(("version", "joined"), [("6.6", True), ("7.3", False)])
@pytest.mark.parametrize("of_file", [False, True])
def test_fields_and_netcdf_made_of_them_are_one_array(
    tmp_path: Path, version: str, *, of_file: bool, joined: bool
) -> None:
    for day in (1, 2, 3):
        (tmp_path / f"{day}.pp").write_bytes(field([day] * 6, **UNNAMED, LBDAT=day))
    for day in (2, 3):
        made = cfagg.read(tmp_path / f"{day}.pp").load()
        (tmp_path / f"{day}.pp").unlink()
        del made["m01s34i999"].attrs["um_version"]
        (made if of_file else made["m01s34i999"]).attrs["um_version"] = version if day == 3 else "6.6"
        made.to_netcdf(tmp_path / f"{day}.nc")
    found = cfagg.aggregate(sorted(tmp_path.iterdir()))
    assert found["m01s34i999"].values[:, 0, 0].tolist() == ([1, 2, 3] if joined else [1, 2])


def test_fields_of_old_files_are_identified_by_their_field_code(tmp_path: Path) -> None:
    for day in (1, 2):
        header = UNNAMED | {"LBUSER4": 0, "LBFC": 942, "LBDAT": day}
        (tmp_path / f"{day}.pp").write_bytes(field([day] * 6, **header))
    assert cfagg.aggregate(sorted(tmp_path.glob("*.pp")))["lbfc_942"].values[:, 0, 0].tolist() == [1, 2]


def test_fields_on_several_pseudo_levels_are_joined_along_time(tmp_path: Path) -> None:
    for day in (1, 2):
        levels = [field([10 * n + day] * 6, **UNNAMED, LBDAT=day, LBUSER5=n) for n in (1, 2)]
        (tmp_path / f"{day}.pp").write_bytes(b"".join(levels))
    found = cfagg.aggregate(sorted(tmp_path.glob("*.pp")))["m01s34i999"]
    assert found.dims == ("time", "pseudo_level", "latitude", "longitude")
    assert found.values[:, :, 0, 0].tolist() == [[11, 21], [12, 22]]


@pytest.mark.parametrize("files", [((1, 2), (3, 4)), ((1, 2, 3), (4,)), ((1,), (2,), (3,), (4,))])
def test_fields_on_other_pseudo_levels_are_joined_along_these(tmp_path: Path, files: Sequence[Sequence[int]]) -> None:
    for levels in files:
        made = [field([n] * 6, **UNNAMED, LBUSER5=n) for n in levels]
        (tmp_path / f"{levels[0]}.pp").write_bytes(b"".join(made))
    joined = cfagg.aggregate(sorted(tmp_path.glob("*.pp")))
    assert joined["m01s34i999"].dims == ("pseudo_level", "latitude", "longitude")
    assert joined["m01s34i999"].values[:, 0, 0].tolist() == [1, 2, 3, 4]


def test_an_error_about_times_names_the_files_that_have_them(tmp_path: Path) -> None:
    for name, calendar in (("a", "standard"), ("b", "gregorian_proleptic"), ("c", "gregorian_proleptic")):
        times = {"units": f"days since 200{ord(name) - 97}-1-1", "calendar": calendar}
        made = xr.Dataset({name: ("time", [1.0], {"standard_name": "air_temperature", "units": "K"})})
        made.assign_coords(time=("time", [0], times)).to_netcdf(tmp_path / f"{name}.nc")
    with pytest.raises(CalendarError, match=r"b\.nc.*: variable 'time.*'gregorian_proleptic'"):
        cfagg.aggregate(sorted(tmp_path.glob("*.nc")))
