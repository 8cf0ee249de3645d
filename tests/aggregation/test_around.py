"""Attributes of files: at the dataset what all of them share, at an array what its files share, the rest listed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from tests.aggregation.months import month

EVERYWHERE = {"experiment_id": "historical", "title": "all"}


def simulations(folder: Path, **more: Mapping[str, Any]) -> list[str]:
    """Write two months of models A and B, whose files also have attributes of their own."""
    found = []
    for number in range(4):
        path = month(folder / f"{number}.nc", number % 2)
        own = {"source_id": "AB"[number // 2], "tracking_id": f"hdl:{number}", "n": np.int32(number // 2)}
        with netCDF4.Dataset(path, "a") as file:
            file.setncatts({**EVERYWHERE, **own, **more.get("AB"[number // 2], {})})
        found.append(str(path))
    return found


def test_what_the_files_of_an_array_share_and_others_do_not_is_at_the_array(tmp_path: Path) -> None:
    found = cfagg.aggregate(simulations(tmp_path), equal="source_id")
    assert EVERYWHERE.items() <= found.attrs.items()
    assert not {"source_id", "tracking_id", "n"} & found.attrs.keys()
    assert [(found[name].attrs["source_id"], found[name].attrs["n"]) for name in ("tas", "tas_1")] == [
        ("A", 0),
        ("B", 1),
    ]
    assert "title" not in found["tas"].attrs


def test_of_a_tree_it_is_at_the_group(tmp_path: Path) -> None:
    found = cfagg.aggregate(simulations(tmp_path, B={"history": "later"}), equal="source_id", as_tree=True)
    assert EVERYWHERE.items() <= found.attrs.items()
    assert [child.attrs.get("source_id") for child in found.children.values()] == ["A", "B"]
    assert [child.attrs.get("history") for child in found.children.values()] == [None, "later"]
    assert not any("source_id" in child["tas"].attrs or "title" in child.attrs for child in found.children.values())


def test_what_differs_between_the_files_of_an_array_is_listed(tmp_path: Path) -> None:
    found = cfagg.aggregate(simulations(tmp_path), equal="source_id")
    assert [group.dropped for group in found.cfagg.report.groups] == [("tracking_id",), ("tracking_id",)]
    assert "left out: tracking_id" in str(found.cfagg.report)


def test_the_report_tells_the_published_datasets_of_arrays_apart(tmp_path: Path) -> None:
    files = simulations(tmp_path, A={"title": "<b>"}, B={"title": "other"})
    found = cfagg.aggregate(files, equal="source_id").cfagg.report
    assert [group.dataset for group in found.groups] == ["source_id: A, title: <b>", "source_id: B, title: other"]
    assert "\n    source_id: B, title: other\n" in str(found)
    assert "source_id: A, title: &lt;b&gt;" in found.to_html()
    assert cfagg.aggregate(files[:2]).cfagg.report.groups[0].dataset == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history", "later"),
        ("featureType", "point"),
        ("coordinates", "x"),
        ("cell_methods", "time: mean"),
        ("_private", "z"),
    ],
)
def test_what_cf_does_not_define_for_a_variable_as_for_a_dataset_is_listed_instead(tmp_path, name, value) -> None:
    files = simulations(tmp_path, B={name: value})
    before = cfagg.aggregate(simulations(tmp_path / "other"), equal="source_id")
    found = cfagg.aggregate(files, equal="source_id")
    assert found["tas_1"].attrs == before["tas_1"].attrs
    assert [name in group.dropped for group in found.cfagg.report.groups] == [False, True]


def test_an_attribute_of_the_variable_takes_precedence(tmp_path: Path) -> None:
    files = simulations(tmp_path, A={"comment": "of files"}, B={"comment": "of other files"})
    for path in files[2:]:
        with netCDF4.Dataset(path, "a") as file:
            file["tas"].comment = "its own"
    found = cfagg.aggregate(files, equal="source_id")
    assert [found[name].attrs["comment"] for name in ("tas", "tas_1")] == ["of files", "its own"]


def test_what_becomes_an_axis_is_not_listed_as_left_out(tmp_path: Path) -> None:
    found = cfagg.aggregate(simulations(tmp_path), dimension="source_id", field_ancillaries="tracking_id")
    assert found["source_id"].values.tolist() == ["A", "B"]
    assert [group.dropped for group in found.cfagg.report.groups] == [("n",)]


def test_attributes_become_ancillary_variables_along_what_is_joined(tmp_path: Path) -> None:
    files = simulations(tmp_path)[:2]
    cfagg.aggregate(files[:1], field_ancillaries="tracking_id", output=tmp_path / "grown.nc")
    cfagg.aggregate(files[1:], field_ancillaries="tracking_id", output=tmp_path / "grown.nc", append=True)
    for found in (cfagg.aggregate(files, field_ancillaries="tracking_id"), cfagg.read(tmp_path / "grown.nc")):
        assert found["tas"].attrs["ancillary_variables"] == "tracking_id"
        assert found["tracking_id"].dims == ("time",)
        assert set(found["tracking_id"].values.tolist()) == {"hdl:0", "hdl:1"}


def test_a_file_that_grows_has_the_attributes_as_if_it_had_been_made_at_once(tmp_path: Path) -> None:
    files = simulations(tmp_path)
    cfagg.aggregate(files, output=tmp_path / "once.nc", equal="source_id")
    cfagg.aggregate(files[::2], output=tmp_path / "grown.nc", equal="source_id")
    cfagg.aggregate(files[1::2], output=tmp_path / "grown.nc", append=True, equal="source_id")
    once, grown = ((tmp_path / f"{name}.nc").read_bytes() for name in ("once", "grown"))
    with xr.open_dataset(tmp_path / "once.nc") as made:
        assert made["tas_1"].attrs["source_id"] == "B"
    assert once == grown


def test_attributes_of_coordinates_that_differ_are_left_out_and_listed(tmp_path: Path) -> None:
    files = [str(month(tmp_path / f"{n}.nc", n)) for n in range(3)]
    for n, path in enumerate(files):
        with netCDF4.Dataset(path, "a") as file:
            for name, variable in file.variables.items():
                variable.comment = f"{name} {n}"
                variable.note = "the same"
    found = cfagg.aggregate(files, concatenate=False)
    dropped = found.cfagg.report.groups[0].dropped
    others = [name for name in found.coords if name != "tas"]
    assert others
    assert {"comment", *(f"{name}:comment" for name in others)} <= set(dropped)
    assert all("comment" not in found[name].attrs and found[name].attrs["note"] == "the same" for name in others)


def test_ranges_of_values_are_kept_where_all_files_share_them_and_else_listed(tmp_path: Path) -> None:
    files = [str(month(tmp_path / f"{n}.nc", n)) for n in range(2)]
    for n, path in enumerate(files):
        with netCDF4.Dataset(path, "a") as file:
            file["tas"].actual_range = np.array([0, 5 + 100 * n], "f4")
            file["lat"].actual_range = np.array([-45.0, 45.0])
    found = cfagg.aggregate(files)
    assert "actual_range" not in found["tas"].attrs
    assert found["lat"].attrs["actual_range"].tolist() == [-45, 45]
    assert found.cfagg.report.groups[0].dropped == ("actual_range",)
    assert cfagg.aggregate(files[:1])["tas"].attrs["actual_range"].tolist() == [0, 5]


@pytest.mark.parametrize("units", ["K", "mK"])
def test_a_shared_range_of_values_in_other_units_or_of_parts_of_files_is_left_out(tmp_path: Path, units: str) -> None:
    files = [str(month(tmp_path / f"{n}.nc", n)) for n in range(2)]
    for path in files:
        with netCDF4.Dataset(path, "a") as file:
            file["tas"].actual_range = np.array([0, 105], "f4")
    with netCDF4.Dataset(files[1], "a") as file:
        file["tas"].units = units
        file["time"][:] = [1, 2] if units == "K" else [2, 3]  # one day of both
    found = cfagg.aggregate(files, on_overlap="first")
    assert "actual_range" not in found["tas"].attrs
    assert found.cfagg.report.groups[0].dropped == ("actual_range",)


def test_members_are_an_axis_of_each_of_several_models(tmp_path) -> None:
    files = []
    for source, number in (("A", 1), ("A", 2), ("B", 1), ("B", 2), ("C", 3)):
        files.append(str(tmp_path / f"{source}{number}.nc"))
        with netCDF4.Dataset(files[-1], "w") as made:
            made.createVariable("tas", "f8", ())[...] = number
            made["tas"].setncatts({"standard_name": "air_temperature", "units": "K"})
            label = f"r{number}i1p1f1"
            own = {"source_id": source, "variant_label": label, "realization_index": number, "title": source + label}
            made.setncatts(own)
    found = cfagg.aggregate(files, dimension="variant_label")
    assert [found[name].values.tolist() for name in found.data_vars] == [[1, 2], [1, 2], 3]
    report = found.cfagg.report
    assert report.why("A1.nc", "A2.nc").joined
    answers = [report.why("A1.nc", other).answers[0] for other in ("B1.nc", "B2.nc")]
    assert [answer.what for answer in answers] == ["source_id"] * 2
    assert "variant_label" not in str(report).partition("\narrays")[0]


def on_a_grid(path: Path, name: str, source: str, external: str = "", **said: str) -> str:
    """Write one variable of a model on a grid that models share."""
    with netCDF4.Dataset(path, "w") as made:
        made.createDimension("lat", 2)
        made.createVariable("lat", "f8", ("lat",))[:] = [0, 1]
        made["lat"].setncatts({"standard_name": "latitude", "units": "degrees_north"})
        made.createVariable(name, "f8", ("lat",))[:] = ord(source)
        made[name].setncatts({"units": "1", **said})
        made.setncatts({"source_id": source, **({"external_variables": external} if external else {})})
    return str(path)


def with_areas(folder: Path, name: str, source: str, external: str) -> str:
    said = {"standard_name": f"{name}_fraction", "cell_measures": f"area: {external}"}
    return on_a_grid(folder / f"{name}{source}.nc", name, source, external, **said)


def test_external_variables_are_those_of_all_files_that_are_not_in_the_dataset(tmp_path: Path) -> None:
    files = [with_areas(tmp_path, "land", "A", "areacella"), with_areas(tmp_path, "ice", "A", "areacello")]
    found = cfagg.aggregate(files)
    assert found.attrs["external_variables"] == "areacella areacello"
    assert "external_variables" not in str(found.cfagg.report)
    area = on_a_grid(tmp_path / "area.nc", "areacella", "A", standard_name="cell_area")
    assert cfagg.aggregate([*files, area]).attrs["external_variables"] == "areacello"


def test_external_variables_of_an_array_are_those_of_all_its_files(tmp_path: Path) -> None:
    files = []
    for k, external in enumerate(("areacella", "areacella volcello")):
        files.append(str(tmp_path / f"{k}.nc"))
        with netCDF4.Dataset(files[-1], "w") as made:
            made.external_variables = external
            made.createDimension("time", 1)
            made.createVariable("time", "f8", ("time",))[:] = k
            made["time"].setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            made.createVariable("tas", "f4", ("time",))[:] = k
            made["tas"].setncatts({"standard_name": "air_temperature", "units": "K"})
    found = cfagg.aggregate(files)
    assert found["tas"].shape == (2,)
    assert found.attrs["external_variables"] == "areacella volcello"


def test_external_variables_are_found_among_those_of_the_same_model(tmp_path: Path) -> None:
    files = [with_areas(tmp_path, "land", source, "area") for source in "ABC"]
    files += [on_a_grid(tmp_path / f"{source}.nc", "area", source, standard_name="cell_area") for source in "AB"]
    found = cfagg.aggregate(files)
    named = [found[name].attrs["cell_measures"].split()[1] for name in ("land", "land_1", "land_2")]
    assert [found[name].values[0] for name in named[:2]] == [ord("A"), ord("B")]
    assert named[2] not in found
    assert found.attrs["external_variables"] == named[2]
