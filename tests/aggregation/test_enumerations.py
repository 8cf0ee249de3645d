"""Variables of enumerations: one array where they are defined alike, with the values that the netCDF library reads."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import numpy.testing as npt
import pytest

import cfagg
from cfagg.arrays.datasets import dataset_of
from cfagg.formats.hdf5.headers import forget
from cfagg.formats.hdf5.library_dataset import open_hdf5
from cfagg.formats.metadata.netcdf4 import open_netcdf4
from cfagg.model.dataset import enumeration_of
from cfagg.storage.files import open_regular

SKY = {"clear": 0, "cumulus": 1, "thick fog": 7, "missing": 255}


def written(
    path: Path, start: float, names: dict[str, int] = SKY, base: Any = "u1", *, fill: int | None = 255, **said: Any
) -> str:
    """Write three times of an enumeration beside numbers that it belongs to."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 3)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
        time[:] = start + np.arange(3)
        kind = file.createEnumType(np.dtype(base).type, said.pop("called", "sky_t"), names)
        for name, attributes in (
            ("sky", {"standard_name": "cloud_type"}),
            ("quality", {"standard_name": "status_flag"}),
        ):
            own = file.createVariable(name, kind, ("time",), fill_value=fill)
            own.setncatts(attributes | said)
            own[:] = np.random.default_rng(int(start)).choice(list(names.values()), 3).astype(base)
        data = file.createVariable("tas", "f4", ("time",))
        data.setncatts({"standard_name": "air_temperature", "units": "K", "ancillary_variables": "quality"})
        data[:] = start
    return str(path)


def library(paths: Sequence[str], name: str) -> Any:
    """Return what netCDF4-python reads, without masks."""
    out = []
    for path in paths:
        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            out.append(file[name][:])
    return np.concatenate(out)


def test_equal_enumerations_are_one_array_with_the_numbers_that_the_library_reads(tmp_path: Path) -> None:
    names = [written(tmp_path / f"{k}.nc", 3 * k, called=f"t{k}") for k in range(3)]
    cfagg.aggregate(names[:2], output=tmp_path / "all.nc")
    with (
        cfagg.aggregate(names, mask_and_scale=False) as found,
        cfagg.aggregate(names[2:], output=tmp_path / "all.nc", append=True, mask_and_scale=False) as grown,
        cfagg.read(tmp_path / "all.nc", mask_and_scale=False) as read,
    ):
        for one in (found, grown, read):
            assert one["sky"].dtype == np.uint8
            npt.assert_array_equal(one["sky"].values, library(names, "sky"))
            npt.assert_array_equal(one["quality"].values, library(names, "quality"))
            assert one["sky"].attrs["flag_values"].tolist() == [0, 1, 7, 255]
            assert one["sky"].attrs["flag_meanings"] == "clear cumulus thick_fog missing"
            npt.assert_array_equal(one["tas"].values, np.repeat([0, 3, 6], 3))
    with cfagg.aggregate(names) as masked:
        expected = library(names, "sky").astype("f4")
        npt.assert_array_equal(masked["sky"].values, np.where(expected == 255, np.nan, expected))


@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13"])
def test_members_are_flags_in_aggregation_files_with_a_note(tmp_path: Path, to: str) -> None:
    source = written(tmp_path / "a.nc", 0, {"clear": 0, "fog": 7}, fill=None)
    report = cfagg.convert(source, tmp_path / "b.nc", to=to)
    again = cfagg.write(cfagg.read(source), tmp_path / "c.nc", to=to)
    for notes, name in ((report.notes, "b.nc"), (again.notes, "c.nc")):
        told = [note for note in notes if "enumeration (clear = 0, fog = 7)" in note]
        assert [note.split("'")[1] for note in told] == ["sky", "quality"]
        sky = cfagg.read(tmp_path / name)["sky"]
        assert (sky.attrs["flag_values"].tolist(), sky.attrs["flag_meanings"]) == ([0, 7], "clear fog")


@pytest.mark.parametrize(
    ("names", "base"),
    [
        ({**SKY, "missing": 254}, "u1"),
        ({"clear": 0, "stratus": 1, "thick fog": 7, "missing": 255}, "u1"),
        ({"clear": 0, "cumulus": 1, "missing": 255}, "u1"),
        (SKY, "i2"),
    ],
    ids=["value", "name", "number", "base"],
)
def test_other_enumerations_stay_apart_and_both_definitions_are_said(
    tmp_path: Path, names: dict[str, int], base: str
) -> None:
    # Headers of the same length, which are only looked at once.
    files = [written(tmp_path / "0.nc", 0, fill=None), written(tmp_path / "1.nc", 3, names, base, fill=None)]
    with cfagg.aggregate(files) as found:
        for k, name in enumerate(("sky", "sky_1")):
            npt.assert_array_equal(found[name].values, library(files[k : k + 1], "sky"))
        answers = {one.a: one for one in found.cfagg.report.why(0, 1).answers}
        assert (answers["sky"].rule, answers["sky"].what) == ("signature", "type")
        assert answers["sky"].one == "enumeration of uint8 (clear = 0, cumulus = 1, thick fog = 7, missing = 255)"
        assert str(answers["sky"].other).startswith("enumeration of ")
        # Nor are numbers of which such flags say something else.
        assert answers["tas"].rule == "signature"


def test_numbers_and_enumerations_are_not_one_array(tmp_path: Path) -> None:
    files = [written(tmp_path / "0.nc", 0), written(tmp_path / "1.nc", 3)]
    with netCDF4.Dataset(files[1], "a") as file:
        file.renameVariable("sky", "old")
        file["old"].standard_name = "cloud_area_fraction"
        own = file.createVariable("sky", "u1", ("time",))
        own.setncatts({"standard_name": "cloud_type", "units": "1"})
        own[:] = 1
    answers = {one.a: one for one in cfagg.aggregate(files).cfagg.report.why(0, 1).answers}
    assert (answers["sky"].what, answers["sky"].other) in {("type", "numbers"), ("units", "dimensionless")}


def test_flags_that_a_file_says_itself_stand(tmp_path: Path) -> None:
    own = {"flag_values": np.array([0, 1, 7, 255], "u1"), "flag_meanings": "a b c d"}
    files = [written(tmp_path / f"{k}.nc", 3 * k, **own) for k in range(2)]
    with cfagg.aggregate(files) as found:
        assert found["sky"].shape == (6,)
        assert found["sky"].attrs["flag_meanings"] == "a b c d"


@pytest.mark.parametrize(
    "own",
    [
        {"flag_values": np.array([255, 7, 1, 0], "u1")},
        {"flag_meanings": "a b", "flag_masks": np.array([1, 2], "u1")},
    ],
)
def test_flags_of_a_file_are_not_mixed_with_those_of_its_enumeration(tmp_path: Path, own: dict[str, Any]) -> None:
    for fills in ((255, 255), (255, None)):
        files = [written(tmp_path / f"{k}{fill}.nc", 3 * k, fill=fill, **own) for k, fill in enumerate(fills)]
        with cfagg.aggregate(files, mask_and_scale=False) as found:
            assert found["sky"].shape == (6,)
            assert {name for name in found["sky"].attrs if name.startswith("flag")} == {*own}
            npt.assert_array_equal(found["sky"].attrs.get("flag_values", 0), own.get("flag_values", 0))


def test_an_enumeration_of_one_name_says_it_by_a_type_that_holds_all_fills(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{k}.nc", 3 * k, {"on": 1}, fill=fill) for k, fill in enumerate((None, 1))]
    with cfagg.aggregate(files, mask_and_scale=False) as found:
        flags, fill = np.atleast_1d(found["sky"].attrs["flag_values"]), found["sky"].attrs["_FillValue"]
        assert (flags.dtype, flags.tolist()) == (found["sky"].dtype, [1])
        npt.assert_array_equal(found["sky"].values, np.r_[[1] * 3, [fill] * 3])


def test_enumerations_with_other_fills_get_a_type_that_holds_both(tmp_path: Path) -> None:
    files = [written(tmp_path / "0.nc", 0), written(tmp_path / "1.nc", 3, fill=None)]
    with cfagg.aggregate(files, mask_and_scale=False) as found:
        first, second = library(files[:1], "sky").astype("i8"), library(files[1:], "sky")
        fill = found["sky"].attrs["_FillValue"]
        npt.assert_array_equal(found["sky"].values, np.r_[np.where(first == 255, fill, first), second])
        assert found["sky"].attrs["flag_values"].dtype == found["sky"].dtype


@pytest.mark.parametrize("latest", [False, True], ids=["old", "new"])
def test_all_readers_of_metadata_know_the_same_enumeration(tmp_path: Path, *, latest: bool) -> None:
    forget()
    path = tmp_path / "a.nc"
    with h5py.File(path, "w", libver="latest" if latest else "earliest") as file:
        made = file.create_dataset(
            "a", data=np.array([3, -2, 3], "i2"), dtype=h5py.enum_dtype({"up": 3, "down": -2}, "i2")
        )
        made.attrs.create("_FillValue", -2, dtype=h5py.enum_dtype({"up": 3, "down": -2}, "i2"))
    with h5py.File(path) as file:
        expected = tuple(sorted(h5py.check_enum_dtype(file["a"].dtype).items(), key=lambda item: item[1]))
    for read in (lambda name: dataset_of(open_regular(name)), lambda name: open_hdf5(open_regular(name))):
        with read(str(path)) as dataset:
            (variable,) = dataset.variables
            assert (variable.kind, variable.dtype.str[1:], variable.enumeration) == ("other", "i2", expected)
            assert np.asarray(variable.attributes["_FillValue"]).tolist() == [-2]
            assert variable.values().tolist() == [3, -2, 3]
            assert enumeration_of(pickle.loads(pickle.dumps(variable.dtype))) == expected
    with netCDF4.Dataset(written(tmp_path / "b.nc", 0)) as file, open_netcdf4(file) as dataset:
        assert dataset.root.variables["sky"].enumeration == tuple((n, v) for n, v in SKY.items())


def test_a_name_with_an_equals_sign_and_a_comma_does_not_look_like_two_names(tmp_path: Path) -> None:
    """HDF5 takes any name: written plainly, one name of this kind would say what two others say."""
    for k, names in enumerate(({"a": 1, "b": 2}, {"a = 1, b": 2})):
        with h5py.File(tmp_path / f"{k}.nc", "w", track_order=True) as file:
            time = file.create_dataset("time", data=[float(k)])
            time.attrs.update({"standard_name": "time", "units": "days since 2000-01-01"})
            time.make_scale("time")
            kind = h5py.enum_dtype(names, np.uint8)
            sky = file.create_dataset("sky", data=np.array([2], "u1").astype(kind), dtype=kind)
            sky.attrs["standard_name"] = "cloud_type"
            sky.dims[0].attach_scale(time)
    with cfagg.aggregate([tmp_path / "0.nc", tmp_path / "1.nc"]) as found:
        assert all(variable.size == 1 for name, variable in found.data_vars.items() if name.startswith("sky"))
