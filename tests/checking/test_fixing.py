"""Fixes change attributes and nothing else, in a copy, and what was found is not found again."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfagg.checking.changes import Change, difference, net_changes, planned, try_change
from cfagg.checking.engine import run
from cfagg.checking.fixing import fix
from cfagg.checking.fixing_copy import copied, finished
from cfagg.checking.fixing_plan import plan
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.checking.suppressions import Hiding
from cfagg.errors import SourceError, TargetError, TargetExistsError, UnsupportedError
from cfagg.findings.finding import Edit, Finding
from cfagg.model.dataset import Dataset
from cfagg.runtime.files import remove_dead
from tests.checking.writing import write_cdl
from tests.effort import examples
from tests.formats.metadata.seen import seen
from tests.formats.metadata.test_zarr import nczarr

CDL = """netcdf a {
dimensions: time = 3 ;
variables:
  double time(time) ; time:units = "days since 2000-01-01" ; time:calendar = "gregorian" ;
    time:standard_name = "time" ; time:axis = "T" ;
  float tas(time) ; tas:long_name = "temperature" ; tas:units = "K" ; tas:_FillValue = -1.f ;
:Conventions = "CF-1.13" ;
:title = "made for a test" ;
data: time = 1, 2, 3 ; tas = 1, 2, 3 ;
}"""


def finding(*edits: Edit, code: str = "TIM000") -> Finding:
    return Finding(code, "error", None, None, "message", edits)


@pytest.fixture(params=["NETCDF4", "NETCDF3_CLASSIC"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_cdl(CDL, tmp_path / "a.nc", request.param)


def test_an_old_name_of_a_calendar_is_put_right_and_nothing_else(path: Path) -> None:
    before = path.read_bytes()
    with open_dataset(path) as dataset:
        expected = [line.replace("gregorian", "standard") for line in seen(dataset, values=True)]
    fixed = fix(path, output=path.with_name("b.nc"))
    assert [(c.path, c.attribute, c.after) for c in fixed.changes] == [("time", "calendar", "standard")]
    with open_dataset(path.with_name("b.nc")) as dataset:
        assert seen(dataset, values=True) == expected
    assert path.read_bytes() == before
    assert "gregorian" not in " ".join(f.message for f in fixed.remaining)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.nc", "b.nc"]


def test_without_an_output_only_the_difference_is_told(path: Path) -> None:
    before = path.read_bytes()
    fixed = fix(path)
    assert fixed.output is None
    assert '-  time:calendar = "gregorian" ;\n+  time:calendar = "standard" ;' in fixed.text
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["a.nc"]


def test_in_place_the_copy_takes_the_place_of_the_source(path: Path) -> None:
    path.chmod(0o640)
    fixed = fix(path, in_place=True)
    assert fixed.output == str(path)
    assert fix(path).changes == []
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in path.parent.iterdir()] == ["a.nc"]


def test_in_place_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("link.nc")
    link.symlink_to(path)
    fix(link, in_place=True)
    assert link.is_symlink()
    assert fix(path).changes == []


def test_in_place_a_file_keeps_its_permissions_and_owner(path: Path) -> None:
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    assert fix(path, in_place=True).changes
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_in_place_a_write_protected_file_is_refused(path: Path) -> None:
    path.chmod(0o440)
    raw = path.read_bytes()
    with pytest.raises(TargetError, match=r"a\.nc is write-protected; .*output="):
        fix(path, in_place=True)
    assert path.read_bytes() == raw
    assert fix(path, output=path.with_name("b.nc")).changes


def test_in_place_a_file_of_several_names_is_refused(path: Path) -> None:
    path.with_name("other.nc").hardlink_to(path)
    with pytest.raises(TargetError, match=r"a\.nc has 2 names \(hard links\).*output="):
        fix(path, in_place=True)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.nc", "other.nc"]


def test_an_output_is_not_replaced_unless_that_is_asked_for(path: Path) -> None:
    other = path.with_name("b.nc")
    other.write_text("mine")
    with pytest.raises(TargetExistsError, match="--overwrite"):
        fix(path, output=other)
    assert other.read_text() == "mine"
    assert fix(path, output=other, overwrite=True).output == str(other)
    with pytest.raises(TargetExistsError, match="--in-place"):
        fix(path, output=path, overwrite=True)


def test_changes_that_may_alter_the_meaning_need_asking(path: Path) -> None:
    found = [finding(Edit("tas", "units", "degC", safe=False))]
    fixed = fix(path, found)
    assert fixed.changes == []
    assert "--unsafe-fixes" in fixed.refused[0]
    changes = fix(path, found, unsafe=True).changes
    assert {c.attribute: c.after for c in changes if c.path == "tas"} == {"units": "degC"}


def test_what_a_change_reveals_is_fixed_in_the_same_run(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    group.attrs["Conventions"] = "CF-1.11"
    about = {"Units": "days since 2000-01-01", "standard_name": "time", "bounds": "bounds"}
    group.create_array("time", data=np.arange(3.0), dimension_names=["time"], attributes=about)
    bounds = np.arange(6.0).reshape(3, 2)
    own = {"units": "days since 2000-01-01"}
    group.create_array("bounds", data=bounds, dimension_names=["time", "nv"], attributes=own)
    with open_dataset(tmp_path / "a.zarr") as dataset:
        found = run(dataset, Options()).findings
    assert "BND010" not in {f.code for f in found}
    fixed = fix(tmp_path / "a.zarr", found, in_place=True)
    assert [(c.path, c.attribute, c.after) for c in fixed.changes if c.path == "bounds"] == [("bounds", "units", None)]
    assert fix(tmp_path / "a.zarr").changes == []


def test_a_fill_value_of_version_2_of_zarr_is_not_said_to_be_deleted(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.attrs["Conventions"] = "CF-1.8"
    for name, fill, own in [("x", np.nan, {}), ("y", 0.0, {"_FillValue": -1.0})]:
        array = group.create_array(name, shape=(3,), dtype="f4", fill_value=fill)
        array[:] = np.arange(3)
        array.attrs.update({"_ARRAY_DIMENSIONS": [name], "units": "m", "long_name": name, **own})
    fixed = fix(tmp_path / "a.zarr", output=tmp_path / "b.zarr", unsafe=True)
    assert [(c.path, c.attribute, c.after) for c in fixed.changes] == [("y", "_FillValue", None)]
    assert "fill_value null" in fixed.refused[0]
    assert [(f.code, f.variable) for f in fixed.remaining if f.code == "COO008"] == [("COO008", "x")]


def test_attributes_are_set_renamed_and_deleted(path: Path) -> None:
    found = [
        finding(
            Edit("tas", "long_name", rename="standard_name"),
            Edit("tas", "valid_range", np.array([0, 400], "f4")),
            Edit(None, "title", None),
            Edit(None, "history", "made"),
            Edit("tas", "absent", None),
            Edit("absent", "units", "K"),
            code="GRP000",
        )
    ]
    fix(path, found, path.with_name("b.nc"), options=Options(select=("GRP000",)))
    with open_dataset(path.with_name("b.nc")) as dataset:
        tas, root = dataset.root.variables["tas"].attributes, dataset.root.attributes
        assert list(root) == ["Conventions", "history"]
        assert tas["standard_name"] == "temperature"
        assert "long_name" not in tas
        assert np.asarray(tas["valid_range"]).dtype == np.dtype("f4")


@pytest.mark.parametrize("name", ["n", "name_long", "a_much_longer_name"])
def test_a_renamed_attribute_has_exactly_its_new_name_and_its_place(path: Path, name: str) -> None:
    found = [finding(Edit("tas", "long_name", rename=name), Edit("tas", "units", None), code="GRP000")]
    fix(path, found, path.with_name("b.nc"), options=Options(select=("GRP000",)))
    with open_dataset(path.with_name("b.nc")) as dataset:
        attributes = dataset.root.variables["tas"].attributes
    assert [n for n in attributes if n != "_FillValue"] == [name]
    assert attributes[name] == "temperature"


def test_changed_and_renamed_attributes_stay_in_their_places(path: Path) -> None:
    edits = Edit("time", "units", "d since 2000-01-01"), Edit("time", "calendar", rename="kalender")
    fix(path, [finding(*edits, Edit("time", "axis"), Edit("time", "new", "1"))], path.with_name("b.nc"))
    with netCDF4.Dataset(path.with_name("b.nc")) as file:
        assert file["time"].ncattrs() == ["units", "kalender", "standard_name", "new"]
        assert file["time"][:].tolist() == [1, 2, 3]


def test_of_two_changes_of_one_attribute_the_first_is_made(path: Path) -> None:
    found = [finding(Edit("tas", "units", "m")), finding(Edit("tas", "units", "s"), code="UNI000")]
    with open_dataset(path) as dataset:
        changes, _ = planned(dataset, found)
    assert [(c.after, c.code) for c in changes] == [("m", "TIM000")]


def test_a_name_that_is_taken_is_not_given_again(path: Path) -> None:
    with open_dataset(path) as dataset:
        assert planned(dataset, [finding(Edit("tas", "long_name", rename="units"))])[0] == []


def test_changes_that_would_make_errors_are_left_out_and_told_and_the_others_made(path: Path) -> None:
    edits = [Edit("time", "calendar", "standard"), Edit("tas", "units", "no unit at all"), Edit("tas", "comment", "c")]
    fixed = fix(path, [finding(edit, code=f"GRP00{n}") for n, edit in enumerate(edits)], path.with_name("b.nc"))
    with open_dataset(path.with_name("b.nc")) as dataset:
        tas = dataset.root.variables["tas"].attributes
        assert (tas["units"], tas["comment"]) == ("K", "c")
        assert dataset.root.variables["time"].attributes["calendar"] == "standard"
    (said,) = fixed.refused
    assert said.startswith(
        "GRP001: tas:units: the change would make an error, and is left out: UNI002 error: tas:units"
    )


def test_changes_that_need_each_other_are_made_where_another_is_left_out(path: Path) -> None:
    edits = [Edit("tas", "standard_name", "air_pressure"), Edit("tas", "units", "Pa"), Edit("time", "units", "no unit")]
    with open_dataset(path) as dataset:
        before = [dict(v.attributes) for v in dataset.variables]
        changes, refused = plan(dataset, [finding(*edits)], Options(), Hiding(str(path), ()), unsafe=False)
        assert [dict(v.attributes) for v in dataset.variables] == before
    assert [c.after for c in changes if c.path == "tas"] == ["air_pressure", "Pa"]
    assert [text.split(": the")[0] for text in refused] == ["TIM000: time:units"]


def test_what_would_bring_new_errors_all_the_same_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change("tas", "units", "K", "units", "no unit at all", "UNI000")
    monkeypatch.setattr("cfagg.checking.fixing.plan", lambda *_, **__: ([change], []))
    with pytest.raises(TargetError, match="would introduce errors"):
        fix(path, None, path.with_name("b.nc"))
    assert [p.name for p in path.parent.iterdir()] == ["a.nc"]


def test_a_missing_value_that_the_library_does_not_let_be_changed_is_told(tmp_path: Path) -> None:
    path = write_cdl(CDL, tmp_path / "a.nc")
    fixed = fix(path, [finding(Edit("tas", "_FillValue", np.array([-9], "f4")))], tmp_path / "b.nc")
    with open_dataset(tmp_path / "b.nc") as dataset:
        kept = np.asarray(dataset.root.variables["tas"].attributes["_FillValue"]).tolist()
    assert (kept == [-9.0]) != bool(fixed.refused)


@pytest.mark.parametrize("name", ["time", "x"])
def test_texts_stay_strings_or_characters(tmp_path: Path, name: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension(name, 2)
        for owner in (file, file.createVariable("time", "f8", (name,)), file.createVariable("/g/v", "f8", (name,))):
            owner.setncattr_string("string", "a")
            owner.setncattr("characters", "a")
    owners = ["/", "time", "/g/v"]
    edits = [Edit(None if p == "/" else p, n, "bc") for p in owners for n in ("string", "characters", "new")]
    report = fix(tmp_path / "a.nc", [finding(*edits)], tmp_path / "b.nc", options=Options(select=("TIM000",)))
    assert not report.refused
    with h5py.File(tmp_path / "b.nc") as file:
        for owner in owners:
            attributes = file[owner].attrs
            assert [attributes[n] for n in ("string", "characters", "new")] == ["bc", b"bc", b"bc"]
            kinds = [attributes.get_id(n).dtype.kind for n in ("string", "characters", "new")]
            assert kinds == ["O", "S", "S"]


def test_strings_in_ascii_are_changed(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createVariable("v", "f8", ())
    with h5py.File(tmp_path / "a.nc", "a") as file:
        # The netCDF library itself writes UTF-8.
        file["v"].attrs.create("standard_name", ["a"], shape=(1,), dtype=h5py.string_dtype("ascii"))
    edits = [finding(Edit("v", "standard_name", "bc"))]
    report = fix(tmp_path / "a.nc", edits, tmp_path / "b.nc", options=Options(select=("TIM000",)))
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert (report.refused, file["v"].standard_name) == ([], "bc")


def test_groups_are_changed_by_their_paths(tmp_path: Path) -> None:
    text = 'netcdf a { group: g { variables: int v ; v:long_name = "a" ; :title = "t" ; group: h { :title = "u" ; } } }'
    path = write_cdl(text, tmp_path / "a.nc")
    found = [
        finding(Edit("/g/v", "long_name", "b"), Edit("/g/", "title", None), Edit("/g/h", "title", "w"), code="GRP000")
    ]
    fix(path, found, tmp_path / "b.nc", options=Options(select=("GRP000",)))
    with open_dataset(tmp_path / "b.nc") as dataset:
        assert [g.attributes for g in dataset.groups] == [{}, {}, {"title": "w"}]
        assert dataset.variables[0].attributes == {"long_name": "b"}


@pytest.fixture(params=[2, 3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=request.param)
    group.attrs.update({"Conventions": "CF-1.13", "title": "t"})
    time: dict[str, Any] = {
        "units": "days since 2000-01-01",
        "calendar": "gregorian",
        "standard_name": "time",
        "axis": "T",
    }
    names: dict[str, Any] = {"dimension_names": ["time"]} if request.param == 3 else {}
    if request.param == 2:
        time["_ARRAY_DIMENSIONS"] = ["time"]
    for home in (group, group.create_group("g")):
        home.create_array("time", shape=(3,), dtype="f8", attributes=time, **names)[:] = [1, 2, 3]
    return tmp_path / "a.zarr"


@pytest.mark.few(3)
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_zarr_is_changed_with_what_repeats_it(store: Path, consolidated: bool, in_place: bool) -> None:
    if consolidated:
        zarr.consolidate_metadata(store)
    target = store if in_place else store.with_name("b.zarr")
    fixed = fix(store, output=None if in_place else target, in_place=in_place)
    assert [c.path for c in fixed.changes] == ["time", "/g/time"]
    opened = zarr.open_group(target, mode="r")
    for name in ("time", "g/time"):
        assert opened[name].attrs["calendar"] == "standard"
        np.testing.assert_array_equal(opened[name][:], [1, 2, 3])  # type: ignore[index]
    assert "gregorian" not in "".join(p.read_text() for p in target.rglob("*") if p.name.startswith((".z", "zarr.")))
    left = {p.name for p in store.parent.iterdir()}
    assert left == ({"a.zarr"} if in_place else {"a.zarr", "b.zarr"})


def test_nczarr_keeps_its_notes_of_types(tmp_path: Path) -> None:
    path = nczarr(tmp_path / "n.zarr")
    found = [
        finding(
            Edit("v", "units", None),
            Edit("v", "valid_range", rename="actual_range"),
            Edit("v", "new", np.array([1], "i2")),
            code="GRP000",
        )
    ]
    fix(path, found, tmp_path / "b.zarr", options=Options(select=("GRP000",)))
    types = json.loads((tmp_path / "b.zarr" / "v" / ".zattrs").read_text())["_nczarr_attr"]["types"]
    assert "units" not in types
    assert (types["actual_range"], types["new"]) == ("<f4", "<i2")
    with netCDF4.Dataset(f"file://{tmp_path}/b.zarr#mode=nczarr,file") as file:
        assert file["v"].getncattr("new").dtype == np.dtype("i2")


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text(CDL)
    assert [c.attribute for c in fix(tmp_path / "a.cdl").changes] == ["calendar"]
    with pytest.raises(UnsupportedError, match="cannot be changed; netCDF files and Zarr stores"):
        fix(tmp_path / "a.cdl", output=tmp_path / "b.cdl")
    with pytest.raises(SourceError):
        fix(tmp_path / "absent.nc")
    path = write_cdl(CDL, tmp_path / "a.nc")
    with pytest.raises(TargetError, match="cannot be written"):
        fix(path, output=tmp_path / "absent" / "b.nc")


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["time", "tas", None, "nowhere", "/"]),
            st.sampled_from(["units", "calendar", "title", "new"]),
            st.one_of(
                st.none(), st.text(max_size=5), st.integers(-5, 5), st.lists(st.floats(), min_size=1, max_size=3)
            ),
            st.one_of(st.none(), st.sampled_from(["units", "other"])),
        ),
        max_size=6,
    )
)
def test_any_edits_can_be_planned_and_shown(given_edits: list[tuple[Any, ...]]) -> None:
    from cfagg.formats.cdl.parsing import parse_cdl

    with parse_cdl(CDL) as dataset:
        found = [finding(Edit(p, a, v, rename=r)) for p, a, v, r in given_edits]
        changes, _ = planned(dataset, found)
        text = difference(changes, "a", "b")
        assert len({(c.path, c.attribute) for c in changes}) == len(changes)
        assert text.count("\n+  ") == sum(c.name is not None for c in changes)
        assert isinstance(run(dataset, Options()).findings, list)
        assert isinstance(dataset, Dataset)


def test_a_difference_shows_control_characters_and_cuts_what_is_long() -> None:
    text = difference([Change(None, "a", 'x"\x1b[31m\n', "a", "y" * 1000, "DOC000")], "a", "b")
    assert "\x1b" not in text
    assert '\\"' in text
    assert len(text) < 400


def changed(*steps: tuple[str, str | None, Any]) -> list[tuple[str, str | None, Any]]:
    """Make changes one after another of attributes ``a`` and ``b``, and return what they come to."""
    attributes: dict[str, Any] = {"a": "1", "b": "2"}
    changes = []
    for name, new, value in steps:
        change = Change("v", name, attributes.get(name), new, value if value or new is None else attributes[name], "X")
        changes.append(change)
        try_change(attributes, change)
    net = net_changes(changes)
    again: dict[str, Any] = {"a": "1", "b": "2"}
    for change in net:
        try_change(again, change)
    assert again == attributes
    assert len({c.attribute for c in net}) == len(net)
    return [(c.attribute, c.name, c.after) for c in net]


def test_changes_of_one_attribute_come_to_one() -> None:
    assert changed(("a", "a", "3"), ("a", "a", "4")) == [("a", "a", "4")]
    assert changed(("a", "a", "3"), ("a", None, None)) == [("a", None, None)]
    assert changed(("c", "c", "3"), ("c", None, None)) == []
    assert changed(("a", "c", None), ("c", None, None)) == [("a", None, None)]
    assert changed(("a", "c", None), ("c", "d", None)) == [("a", "d", "1")]
    assert changed(("a", "c", None), ("c", "c", "9")) == [("a", None, None), ("c", "c", "9")]
    assert changed(("a", "a", "3"), ("a", "c", None)) == [("a", None, None), ("c", "c", "3")]
    assert changed(("a", None, None), ("a", "a", "5")) == [("a", "a", "5")]
    assert changed(("a", None, None), ("b", "a", None)) == [("a", None, None), ("b", "a", "2")]


def test_what_is_changed_and_then_deleted_is_gone(tmp_path: Path) -> None:
    text = """netcdf a { dimensions: time = 3 ; nv = 2 ; variables:
      double time(time) ; time:units = "days since 2000-01-01" ; time:calendar = "gregorian" ;
        time:standard_name = "time" ; time:axis = "T" ; time:bounds = "tb" ;
      double tb(time, nv) ; tb:units = "days since 2000-01-01" ; tb:calendar = "gregorian" ;
      float tas(time) ; tas:standard_name = "air_pressure" ; tas:units = "Pa" ;
    :conventions = "CF-1.13" ; data: time = 1, 2, 3 ; tb = 0.5, 1.5, 1.5, 2.5, 2.5, 3.5 ; tas = 1, 2, 3 ; }"""
    path = write_cdl(text, tmp_path / "a.nc")
    fixed = fix(path, output=tmp_path / "b.nc", unsafe=True)
    assert fixed.refused == []
    with open_dataset(tmp_path / "b.nc") as dataset:
        assert dataset.root.variables["tb"].attributes == {}
        assert dataset.root.attributes == {"Conventions": "CF-1.13"}


def test_a_refused_copy_is_named_as_it_was_asked_for(path: Path) -> None:
    with pytest.raises(TargetError, match=r"b\.dat was not written: .* the file is named 'b\.dat'; expected"):
        fix(path, output=path.with_name("b.dat"))
    assert [p.name for p in path.parent.iterdir()] == ["a.nc"]


def test_the_name_of_the_link_is_checked_where_the_file_behind_it_is_fixed(path: Path) -> None:
    path.rename(path.with_name("data"))
    path.symlink_to("data")
    assert fix(path, in_place=True).changes


@pytest.mark.parametrize("name", ["out.nc", "lock", "former", "file", "out.zarr"])
def test_what_a_killed_run_left_is_removed_by_the_next(path: Path, tmp_path: Path, name: str) -> None:
    source, target = path, tmp_path / name
    if name == "out.zarr":
        source = tmp_path / "source.zarr"
        zarr.create_group(source)
    with copied(str(source), str(target)) as copy:
        killed = tmp_path / f".{name}.cfagg-new-1-0"
        shutil.copytree(next(tmp_path.glob(f".{name}.cfagg-new-*")), killed)
        finished(copy, str(target))
    assert killed.exists()
    remove_dead(target)
    assert sorted(p.name for p in tmp_path.glob(f"*{name}*")) == sorted(
        {name, *([source.name] if name in source.name else [])}
    )
    assert target.is_dir() == source.is_dir()


@pytest.mark.parametrize("name", ["lock", "former", "file"])
def test_a_copy_that_is_given_up_is_never_put_in_place(path: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ZeroDivisionError), copied(str(path), str(tmp_path / name)):
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir() if name in p.name] == []


def test_a_file_that_the_library_does_not_write_to_is_named_once_with_a_remedy(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:  # HDF5 without the order of creation that netCDF-4 has
        file.create_dataset("t", data=[1.0]).attrs.update({"units": "days since 2000-1-1", "calendar": "gregorian"})
    target = tmp_path / "b.h5"
    said = f"^{re.escape(str(target))} is not written: the netCDF library .*; convert it to netCDF-4 first$"
    with pytest.raises(TargetError, match=said):
        fix(tmp_path / "a.h5", output=target)
