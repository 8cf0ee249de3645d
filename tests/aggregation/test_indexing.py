"""`cfagg.index` and ``cfagg index``: what they make, refresh and report, and that `read` uses it."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.aggregation import indexed_files
from cfagg.arrays.index import SUFFIX, building, open_index
from cfagg.cli.main import main
from cfagg.errors import (
    FragmentMismatchError,
    OptionError,
    SourceNotFoundError,
    StaleIndexWarning,
    TargetError,
    TargetExistsError,
    UnreadableAggregationError,
)
from cfagg.runtime.staging import lock
from cfagg.storage.handles import handles
from tests.aggregation.months import month
from tests.arrays.index.cases import slow_calls


def write(path: Path, day: int, seed: int = 0) -> None:
    """Write a day of data on a small grid."""
    with netCDF4.Dataset(path, "w") as ds:
        for name, n in (("time", 1), ("lat", 3), ("lon", 4)):
            ds.createDimension(name, n)
        time = ds.createVariable("time", "f8", ("time",))
        time.units, time.standard_name = "days since 2000-01-01", "time"
        time[:] = day
        for name, n, units in (("lat", 3, "degrees_north"), ("lon", 4, "degrees_east")):
            one = ds.createVariable(name, "f8", (name,))
            one.units, one.standard_name = units, {"lat": "latitude", "lon": "longitude"}[name]
            one[:] = np.arange(n)
        tas = ds.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True)
        tas.units, tas.standard_name = "K", "air_temperature"
        tas[:] = np.random.default_rng(day + 100 * seed).normal(280, 5, (1, 3, 4))


@pytest.fixture
def days(tmp_path: Path) -> Path:
    for day in range(6):
        write(tmp_path / f"{day}.nc", day)
    cfagg.aggregate(f"{tmp_path}/[0-9].nc", output=tmp_path / "all.nc", index=False)
    return tmp_path


def values_of(folder: Path) -> np.ndarray:
    found = []
    for day in range(6):
        with netCDF4.Dataset(folder / f"{day}.nc") as ds:
            found.append(ds["tas"][:].data)
    return np.concatenate(found)


def test_values_beside_an_aggregation_file_are_read_by_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(6):
        write(tmp_path / f"{day}.nc", day)
        with netCDF4.Dataset(tmp_path / f"{day}.nc", "a") as ds:
            ds["lat"][:] = ds["lat"][:][:: -1 if day % 2 else 1]
    files = [tmp_path / f"{day}.nc" for day in range(6)]
    report = cfagg.aggregate(files, output=tmp_path / "all.nc", on_loss="materialise").cfagg.report
    assert any("written to all.nc.fragments" in note for note in report.notes)
    index = open_index(tmp_path / f"all.nc{SUFFIX}")
    assert {p.partition("/")[0] for p in index.path} == {*(f"{n}.nc" for n in range(6)), "all.nc.fragments"}
    opened = slow_calls(monkeypatch)
    expected = values_of(tmp_path)
    expected[1::2] = expected[1::2, ::-1]
    found = cfagg.read(tmp_path / "all.nc").tas
    assert np.array_equal(found.values, expected)
    assert np.array_equal(found[:, 1, 2].values, expected[:, 1, 2])
    assert opened == []
    write(tmp_path / "6.nc", 6)
    cfagg.aggregate(tmp_path / "6.nc", output=tmp_path / "all.nc", on_loss="materialise", append=True)
    assert np.array_equal(cfagg.read(tmp_path / "all.nc").tas[:6].values, expected)


def test_zarr_stores_among_the_files_are_read_without_the_index(tmp_path: Path) -> None:
    for day in range(6):
        write(tmp_path / f"{day}.nc", day)
    expected = values_of(tmp_path)
    for day in (1, 3):
        cfagg.convert(tmp_path / f"{day}.nc", tmp_path / f"{day}.zarr")
        (tmp_path / f"{day}.nc").unlink()
    files = [*tmp_path.glob("*.nc"), *tmp_path.glob("*.zarr")]
    report = cfagg.index(files, output=tmp_path / "x.cfagg-index")
    assert (report.files, len(report.left_out)) == (4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cfagg.read(files, index=tmp_path / "x.cfagg-index").tas
        assert np.array_equal(found.values, expected)
        assert np.array_equal(found[:, 1, 2].values, expected[:, 1, 2])


def test_an_index_is_made_beside_the_file_and_read_by(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = cfagg.index(days / "all.nc")
    assert (report.files, report.chunks, report.left_out) == (6, 6, ())
    assert report.target == f"{days / 'all.nc'}{SUFFIX}"
    opened = slow_calls(monkeypatch)
    ds = cfagg.read(days / "all.nc")
    assert np.array_equal(ds.tas[:, 1, 2], values_of(days)[:, 1, 2])
    assert opened == []
    assert np.array_equal(cfagg.read(days / "all.nc", index=False).tas[:, 1, 2], values_of(days)[:, 1, 2])
    assert opened != []


@pytest.mark.parametrize(("content", "said"), [(None, "there is no file"), (b"no netCDF file", "not")])
def test_an_index_of_an_aggregation_says_why_it_does_not_have_a_fragment(
    days: Path, content: bytes | None, said: str
) -> None:
    path = days / "3.nc"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    report = cfagg.index(days / "all.nc")
    assert report.files == 5 + (content is not None)
    (left,) = report.left_out
    assert str(path) in left
    assert said in left.replace(str(path), "")


def test_an_index_somewhere_else_is_read_by_name(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (days / "elsewhere").mkdir()
    cfagg.index(days / "all.nc", output=days / "elsewhere" / "x")
    opened = slow_calls(monkeypatch)
    assert np.array_equal(cfagg.read(days / "all.nc", index=days / "elsewhere" / "x").tas.values, values_of(days))
    assert opened == []


def test_files_without_an_aggregation_file_are_indexed(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = cfagg.index(f"{days}/[0-9].nc", output=days / "x")
    assert report.files == 6
    assert set(report.variables) == {"time", "lat", "lon", "tas"}
    opened = slow_calls(monkeypatch)
    assert np.array_equal(cfagg.read(f"{days}/[0-9].nc", index=days / "x").tas[:, 1, 2], values_of(days)[:, 1, 2])
    assert opened == []


def test_variables_in_groups_are_listed_without_the_netcdf_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("a", "f4", ("x",))[:] = 1
        ds.createGroup("one").createGroup("two").createVariable("b", "f4", ("x",))[:] = 2
    monkeypatch.setattr(netCDF4, "Dataset", None)
    cfagg.index([tmp_path / "a.nc"], output=tmp_path / "x")
    assert set(open_index(str(tmp_path / "x")).address) == {"a", "one/two/b"}


def test_files_are_listed_while_they_are_looked_into(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with netCDF4.Dataset(days / "0.nc", "a") as ds:  # a dimension that is no variable, and attributes out of the header
        ds.createDimension("bnds", 2)
        ds.setncatts({f"a{k}": "x" for k in range(12)})
    opened: list[str] = []
    before = handles.apart
    monkeypatch.setattr(handles, "apart", lambda path: (opened.append(path), before(path))[1])
    monkeypatch.setattr(indexed_files, "_paths_in", None)
    cfagg.index(sorted(days.glob("[0-9].nc")), output=days / "x")
    found = open_index(days / "x")
    assert [p for p in opened if p.endswith(".nc")] == [str(days / f"{k}.nc") for k in range(6)]
    with netCDF4.Dataset(days / "0.nc") as ds:
        assert [a for f, a in zip(found.file, found.address, strict=True) if f == 0] == list(ds.variables)


def test_a_file_that_changes_while_it_is_looked_into_has_all_its_variables_left_out(
    days: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = building._located

    def located(*given: Any) -> Any:
        found = before(*given)
        os.utime(days / "1.nc", ns=(1, 1))
        return found

    monkeypatch.setattr(building, "_located", located)
    report = cfagg.index([days / "1.nc"], output=days / "x")
    assert report.left_out == tuple(f"{days / '1.nc'}: {name}" for name in ("time", "lat", "lon", "tas"))
    assert open_index(days / "x").digest == (None,)


def test_a_file_whose_own_attributes_are_damaged_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.nc", 0)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as ds:
        ds.setncatts({f"a{k}": f"mark{k:02d}" for k in range(12)})
    content = (tmp_path / "a.nc").read_bytes()
    assert content.count(b"mark07") == 1
    (tmp_path / "a.nc").write_bytes(content.replace(b"mark07", b"murk07"))
    report = cfagg.index([tmp_path / "a.nc"], output=tmp_path / "x")
    assert report.files == 0
    assert "a.nc" in report.left_out[0]


def test_variables_that_describe_an_aggregation_are_not_listed(days: Path) -> None:
    report = cfagg.index([days / "all.nc", days / "0.nc"], output=days / "x")
    assert {k for k in report.variables if "fragment" in k} == set()
    found = open_index(days / "x")
    assert [found.address[k] for k in range(len(found.address)) if found.path[found.file[k]] == "0.nc"] == [
        "time", "lat", "lon", "tas",
    ]  # fmt: skip
    assert "tas" not in [found.address[k] for k in range(len(found.address)) if found.path[found.file[k]] == "all.nc"]


def test_files_without_an_aggregation_file_need_a_name_for_their_index(days: Path) -> None:
    with pytest.raises(OptionError, match="output="):
        cfagg.index([days / "0.nc", days / "1.nc"])


def test_changed_files_are_listed_and_looked_into_again(days: Path) -> None:
    cfagg.index(days / "all.nc")
    write(days / "2.nc", 2, seed=9)
    report = cfagg.index(days / "all.nc")
    assert report.changed == (str(days / "2.nc"),)
    assert report.unchanged == 5
    assert np.array_equal(cfagg.read(days / "all.nc").tas, values_of(days))


def test_a_changed_file_is_read_as_it_is_with_one_warning(days: Path) -> None:
    cfagg.index(days / "all.nc")
    write(days / "2.nc", 2, seed=9)
    write(days / "4.nc", 4, seed=9)
    with pytest.warns(StaleIndexWarning, match="cfagg index") as caught:
        assert np.array_equal(cfagg.read(days / "all.nc").tas, values_of(days))
    assert len(caught) == 1


@pytest.mark.parametrize("selection", [(slice(None), 1, 2), (slice(None), slice(None), slice(None))], ids=str)
def test_values_of_a_file_with_other_coordinates_than_were_scanned_are_refused(days: Path, selection: Any) -> None:
    files = sorted(days.glob("[0-9].nc"))
    for day, file in enumerate(files):
        with netCDF4.Dataset(file, "w", format="NETCDF3_CLASSIC") as ds:
            for name, size in (("time", 1), ("lat", 100), ("lon", 100)):
                ds.createDimension(name, size)
            tas = ds.createVariable("tas", "f8", ("time", "lat", "lon"))
            tas.setncatts({"standard_name": "air_temperature", "units": "K"})
            tas[:] = day
            # After the values, so that these bytes are no part of what the index compares.
            for name, standard, units in (
                ("lat", "latitude", "degrees_north"),
                ("lon", "longitude", "degrees_east"),
                ("time", "time", "days since 2000-01-01"),
            ):
                one = ds.createVariable(name, "f8", (name,))
                one.setncatts({"standard_name": standard, "units": units})
                one[:] = np.arange(len(ds.dimensions[name])) + (day if name == "time" else 0)
    found = cfagg.aggregate(files, output=days / "all.nc", overwrite=True)
    with netCDF4.Dataset(days / "3.nc", "a") as ds:
        ds["time"][:] = 77
    with pytest.raises(FragmentMismatchError, match=r"3\.nc has changed since it was scanned"):
        found.tas[selection].load()


@pytest.mark.parametrize("output", [True, False])
def test_values_of_a_file_that_changed_are_refused_by_an_index_that_was_refreshed_since(
    days: Path, output: bool
) -> None:
    files, place = sorted(days.glob("[0-9].nc")), days / "all.nc.cfagg-index"
    cfagg.index(files, output=place)
    how: dict[str, Any] = {"output": days / "all.nc", "overwrite": True} if output else {"index": place}
    found = cfagg.aggregate(files, **how)
    write(files[3], 77)
    if output:
        cfagg.aggregate([], output=days / "all.nc", append=True, update=True)
    else:
        cfagg.index(files, output=place)
    with pytest.raises(FragmentMismatchError, match=r"3\.nc has changed since it was scanned"):
        found.tas[:, 1, 2].load()


def test_an_aggregation_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for day in range(2):
        write(tmp_path / f"{day}.nc", day)
        with netCDF4.Dataset(tmp_path / f"{day}.nc", "r+") as file:
            file.createVariable("pr", "f4", ("time", "lat", "lon")).setncatts({"units": "mm", "standard_name": "rain"})
    cfagg.aggregate(f"{tmp_path}/[01].nc", output=tmp_path / "all.nc", index=False)

    shutil.copy(tmp_path / "all.nc", tmp_path / "none.nc")
    for file_name, damaged in (("all.nc", ["pr"]), ("none.nc", ["pr", "tas"])):
        with netCDF4.Dataset(tmp_path / file_name, "r+") as file:
            for name in damaged:
                file[name].aggregated_data = "map"
    (left,) = cfagg.index(tmp_path / "all.nc").left_out
    assert "variable 'pr'" in left
    with pytest.raises(UnreadableAggregationError, match="it has no other aggregation to index"):
        cfagg.index(tmp_path / "none.nc")


def test_while_an_aggregation_grows_its_index_is_not_replaced(days: Path) -> None:
    work = days / ".all.nc.cfagg-partial"
    work.mkdir()
    held, _ = lock(work / "lock")
    with held, pytest.raises(TargetError, match="another process is indexing"):
        cfagg.index(days / "all.nc")
    assert cfagg.index(days / "all.nc").files == 6
    assert not work.exists()


def test_an_index_that_is_not_there_is_an_error(days: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no index"):
        cfagg.read(days / "all.nc", index=days / "nothing")


def test_what_append_needs_stays_in_a_refreshed_index(tmp_path: Path) -> None:
    for day in range(3):
        write(tmp_path / f"{day}.nc", day)
    cfagg.aggregate(f"{tmp_path}/[0-9].nc", output=tmp_path / "all.nc")
    before = open_index(tmp_path / f"all.nc{SUFFIX}")
    cfagg.index(tmp_path / "all.nc")
    after = open_index(tmp_path / f"all.nc{SUFFIX}")
    assert (after.shared, after.aggregation, after.description) == (
        before.shared, before.aggregation, before.description,
    )  # fmt: skip
    assert before.aggregation is not None


def test_the_command_makes_and_refreshes(days: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(days / "all.nc")]) == 0
    assert "index of 6 files, 6 chunks" in capsys.readouterr().out
    write(days / "2.nc", 2, seed=9)
    assert main(["index", "--json", str(days / "all.nc")]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == [str(days / "2.nc")]


def test_the_command_takes_names_one_a_line(days: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (days / "names").write_text("\n".join(str(days / f"{k}.nc") for k in range(6)))
    assert main(["index", "--files-from", str(days / "names"), "-o", str(days / "x")]) == 0
    assert len(open_index(days / "x")) == 6
    assert "6 files" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["0.nc", "all.nc", "notes.txt"])
def test_a_file_that_is_no_index_is_not_replaced_unasked(days: Path, name: str) -> None:
    (days / "notes.txt").write_text("mine")
    before = (days / name).read_bytes()
    with pytest.raises(TargetExistsError, match="overwrite"):
        cfagg.index([days / "1.nc", days / "2.nc"], output=days / name)
    assert (days / name).read_bytes() == before
    if name == "notes.txt":
        cfagg.index([days / "1.nc", days / "2.nc"], output=days / name, overwrite=True)
        assert len(open_index(days / name)) == 2
        return
    with pytest.raises(TargetError, match="is data"):
        cfagg.index([days / "1.nc", days / "2.nc"], output=days / name, overwrite=True)
    assert (days / name).read_bytes() == before


def test_a_damaged_index_is_made_anew(days: Path) -> None:
    (days / f"x{SUFFIX}").write_bytes(b"PAR1")
    assert "rebuilt" in cfagg.index([days / "1.nc"], output=days / f"x{SUFFIX}").notes[0]


def test_an_index_at_a_link_is_written_where_the_link_leads(days: Path) -> None:
    (days / "other").mkdir()
    (days / "x").symlink_to(days / "other" / "x")
    cfagg.index(days / "all.nc", output=days / "x")
    assert (days / "x").is_symlink()
    for name in ("x", "other/x"):
        assert list(open_index(days / name).files) == [str(days / f"{k}.nc") for k in range(6)]


def test_each_hard_link_of_a_file_is_in_the_index_and_a_symbolic_one_is_where_it_leads(days: Path) -> None:
    (days / "again.nc").hardlink_to(days / "1.nc")
    (days / "link.nc").symlink_to(days / "1.nc")
    report = cfagg.index([days / name for name in ("link.nc", "again.nc", "1.nc")], output=days / "x")
    assert report.files == 2
    assert sorted(open_index(days / "x").files) == [str(days / "1.nc"), str(days / "again.nc")]


@pytest.mark.parametrize("name", ["/dev/full", "missing/x", ""])
def test_an_index_that_cannot_be_written_is_an_error(days: Path, name: str) -> None:
    with pytest.raises(TargetError, match="cannot be written"):
        cfagg.index([days / "1.nc"], output=days / name, overwrite=True)


def test_a_file_whose_name_is_no_text_is_left_out(days: Path) -> None:
    odd = days / os.fsdecode(b"\xff.nc")
    shutil.copy(days / "0.nc", odd)
    report = cfagg.index([odd, days / "1.nc"], output=days / "x")
    assert report.files == 1
    assert len(report.left_out) == 4


def test_files_whose_names_are_no_text_are_aggregated_without_an_index(days: Path) -> None:
    odd = days / os.fsdecode(b"\xff.nc")
    (days / "5.nc").rename(odd)
    made = cfagg.aggregate([days / "4.nc", odd], output=days / "two.nc")
    assert "no index was written" in " ".join(made.cfagg.report.notes)
    assert not (days / f"two.nc{SUFFIX}").exists()
    assert cfagg.read(days / "two.nc")["tas"].shape == (2, 3, 4)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_an_index_of_a_file_that_was_rewritten_with_the_same_size_is_of_what_it_is_now(
    tmp_path: Path, kind: str
) -> None:
    path, out = month(tmp_path / "in.nc", 0, kind=kind), tmp_path / "out.nc"
    for factor in (1.0, 2.0):
        with netCDF4.Dataset(path, "a") as file:
            file["tas"].scale_factor = factor
        size = path.stat().st_size
        cfagg.aggregate(path, output=out, overwrite=True)
        with xr.open_dataset(path) as expected, cfagg.read(out) as found:
            assert np.array_equal(found.tas, expected.tas)
    assert path.stat().st_size == size
