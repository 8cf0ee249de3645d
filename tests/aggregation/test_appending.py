"""Growing an aggregation: what was scanned is not scanned again, and the result is that of all files at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.aggregation import output, records
from cfagg.aggregation.appending import Settings
from cfagg.arrays.index import Index, open_index, write_index
from cfagg.cf.joining import Options
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    CfaggError,
    CfaggWarning,
    OptionError,
    SourceError,
    SourceNotFoundError,
    TargetError,
    TargetExistsError,
)
from cfagg.runtime.staging import lock
from cfagg.storage import counters
from tests.aggregation.months import month, months


def contents(out: Path) -> list[bytes]:
    """The bytes of an aggregation file and of its index."""
    return [out.read_bytes(), Path(f"{out}.cfagg-index").read_bytes()]


def at_once(files: list[str], out: Path, **options: object) -> list[bytes]:
    """The bytes of an aggregation of files as if it had been made at once, under the same name."""
    (out.parent.parent / "once").mkdir(exist_ok=True)
    other = out.parent.parent / "once" / out.name
    cfagg.aggregate(files, output=other, overwrite=True, **options)
    return contents(other)


@pytest.fixture
def out(tmp_path) -> Path:
    (tmp_path / "grown").mkdir()
    return tmp_path / "grown" / "OUT.nc"


def values(out: Path) -> list[float]:
    with cfagg.read(out, allow=[out.parent.parent]) as found:
        return found.tas.values[:, 0, 0].tolist()


def rewrite(path: str, number: int, days: int = 2) -> None:
    """Write a file again, with another time of change."""
    Path(path).unlink()
    month(Path(path), number, days=days)
    os.utime(path, ns=(1, 1))


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [[1, 2, 3, 4, 5, 6], [2, 5], [4]])
def test_an_aggregation_that_grew_has_the_bytes_of_one_made_at_once(tmp_path, out, steps):
    files = months(tmp_path / "in", 7)
    begins = [0, *steps]
    for begin, end in zip(begins, [*steps, 7], strict=True):
        cfagg.aggregate(files[begin:end], output=out, append=begin > 0)
    assert contents(out) == at_once(files, out)
    assert values(out) == xr.open_mfdataset(files).tas.values[:, 0, 0].tolist()
    assert sorted(p.name for p in out.parent.iterdir()) == ["OUT.nc", "OUT.nc.cfagg-index"]


def test_files_added_in_any_order_come_after_the_old_ones(tmp_path, out):
    files = months(tmp_path / "in", 5)
    order = [files[k] for k in (3, 1, 4, 0, 2)]
    cfagg.aggregate(order[:2], output=out)
    cfagg.aggregate(order[2:], output=out, append=True)
    assert contents(out) == at_once(order, out)
    assert values(out) == [100.0 * n + k for n in range(5) for k in (0, 6)]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_adding_a_file_opens_no_old_one(tmp_path, out, kind):
    files = [str(month(tmp_path / "in" / f"{n}.nc", n, kind=kind)) for n in range(13)]
    opened = []
    for begin, end in ((0, 2), (2, 3), (3, 12), (12, 13)):
        before = counters.snapshot()
        cfagg.aggregate(files[begin:end], output=out, append=begin > 0)
        opened.append((counters.snapshot() - before).files)
    assert opened[3] == opened[1]


def test_adding_a_file_asks_the_system_for_no_old_one(tmp_path, out, monkeypatch):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *a, **k: opened.append(str(path)) or real(path, *a, **k))
    cfagg.aggregate(files[3:], output=out, append=True)
    assert files[3] in opened
    assert not set(files[:3]) & set(opened)


def test_files_that_changed_or_went_are_listed_and_nothing_is_written(tmp_path, out):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    former = contents(out)
    rewrite(files[0], 0)
    Path(files[2]).unlink()
    with pytest.raises(SourceError, match=r"2 of 3 files .* update=True") as caught:
        cfagg.aggregate(files[3:], output=out, append=True)
    assert [str(p) for p in caught.value.problems] == [f"{files[0]}: it has changed", f"{files[2]}: it is gone"]
    assert contents(out) == former
    assert len(list(out.parent.iterdir())) == 2


def test_an_aggregation_that_refers_to_the_one_that_grows_is_not_added_to_it(tmp_path, out):
    cfagg.aggregate(months(out.parent / "in", 2), output=out)
    outer = out.parent / "outer.nc"
    cfagg.aggregate(out, output=outer)
    former = contents(out)
    with pytest.raises(TargetError, match=r"outer\.nc refers to it"):
        cfagg.aggregate(outer, output=out, append=True)
    assert contents(out) == former


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_has_changed(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    other = tmp_path / "other.nc"
    shutil.copy2(files[0], other)
    other.replace(files[0])
    with pytest.raises(SourceError, match="it has changed"):
        cfagg.aggregate(files[2:], output=out, append=True)


def test_an_index_in_another_place_than_beside_the_output_is_refused(tmp_path, out):
    with pytest.raises(OptionError, match="is beside it: give True or False"):
        cfagg.aggregate(months(tmp_path / "in", 2), output=out, index=tmp_path / "a.cfagg-index")
    assert not out.exists()


def test_an_update_takes_in_what_changed_at_its_place_and_leaves_out_what_went(tmp_path, out):
    files = months(tmp_path / "in", 5)
    order = [files[k] for k in (2, 0, 1, 3)]
    cfagg.aggregate(order, output=out)
    rewrite(files[0], 10, days=3)
    Path(files[1]).unlink()
    before = counters.snapshot()
    cfagg.aggregate(files[4:], output=out, append=True, allow=[out.parent.parent], update=True)
    opened = (counters.snapshot() - before).files
    assert contents(out) == at_once([files[2], files[0], files[3], files[4]], out)
    assert opened <= 2 * 2 + 1
    assert 1000.0 in values(out)


def test_an_update_of_a_file_that_is_named_again_takes_in_its_change(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files, output=out)
    rewrite(files[1], 7)
    with pytest.raises(SourceError, match="1 of 3 files"):
        cfagg.aggregate(files[1], output=out, append=True)
    cfagg.aggregate(files[1], output=out, append=True, update=True)
    assert contents(out) == at_once(files, out)


def test_files_that_are_in_it_already_stay_where_they_are(tmp_path, out):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    cfagg.aggregate([files[3], files[1], files[0]], output=out, append=True)
    assert contents(out) == at_once(files, out)


@pytest.mark.few(2)
@pytest.mark.parametrize(("given", "name", "both"), [
    ({"rtol": 0.5}, "rtol", ["8.881784197001252e-16", "0.5"]),
    ({"equal": ("source",)}, "equal", [r"\[\]", r"\['source'\]"]),
    ({"to": "CFA-0.6.2"}, "to", ["'CF-1.13'", "'CFA-0.6.2'"]),
    ({"on_loss": "drop"}, "on_loss", ["'error'", "'drop'"]),
    ({"relative_to": "/"}, "relative_to", ["None", "'/'"]),
])  # fmt: skip
def test_other_options_are_refused_with_both_values(tmp_path, out, given, name, both):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    former = contents(out)
    with pytest.raises(OptionError, match=f"(?s){name}: .*was written with {both[0]}, and now it is {both[1]}"):
        cfagg.aggregate(files[2:], output=out, append=True, **given)
    assert contents(out) == former


def test_the_options_it_was_made_with_are_taken(tmp_path, out):
    files = months(tmp_path / "in", 3)
    options = {"relaxed_identities": True, "rtol": 1e-6, "to": "CFA-0.6.2", "relative_to": tmp_path}
    cfagg.aggregate(files[:2], output=out, **options)
    cfagg.aggregate(files[2:], output=out, append=True, **options)
    assert contents(out) == at_once(files, out, **options)


def no_index(out: Path) -> None:
    Path(f"{out}.cfagg-index").unlink()


def damaged_index(out: Path) -> None:
    path = Path(f"{out}.cfagg-index")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def foreign_index(out: Path) -> None:
    other = months(out.parent.parent / "other", 2)
    cfagg.aggregate(other, output=out.parent.parent / "other.nc")
    shutil.copy(out.parent.parent / "other.nc.cfagg-index", f"{out}.cfagg-index")


def other_state(out: Path) -> None:
    with netCDF4.Dataset(out, "a") as file:
        file.comment = "somebody added this"


@pytest.mark.few(2)
@pytest.mark.parametrize(("spoil", "said"), [
    (no_index, "does not exist"), (damaged_index, "damaged"), (foreign_index, "another state"),
    (other_state, "another state"),
])  # fmt: skip
def test_without_an_index_that_fits_all_files_are_scanned_again_and_a_warning_says_why(tmp_path, out, spoil, said):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    spoil(out)
    with pytest.warns(CfaggWarning, match=f"3 files of .*scanned again.*{said}"):
        cfagg.aggregate(files[3:], output=out, append=True, allow=[out.parent.parent])
    assert contents(out) == at_once(files, out)


def test_one_file_that_is_scanned_again_is_one(tmp_path, out):
    files = months(tmp_path / "in", 2)
    cfagg.aggregate(files[:1], output=out, index=False)
    with pytest.warns(CfaggWarning, match=r"^1 file of .* was scanned again: "):
        found = cfagg.aggregate(files[1:], output=out, append=True, allow=[out.parent.parent])
    assert repr(found.cfagg.report) == "<Report of 2 files: 1 array>"


def test_without_an_index_files_that_went_are_an_error(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out, index=False)
    assert not Path(f"{out}.cfagg-index").exists()
    Path(files[0]).unlink()
    former = out.read_bytes()
    with pytest.raises(SourceError, match=files[0]), pytest.warns(CfaggWarning, match="scanned again"):
        cfagg.aggregate(files[2:], output=out, append=True, allow=[out.parent.parent])
    assert out.read_bytes() == former


def test_a_file_that_is_no_aggregation_is_not_replaced(tmp_path, out):
    files = months(tmp_path / "in", 2)
    shutil.copy(files[0], out)
    former = out.read_bytes()
    with pytest.raises(SourceError, match="refers to no files"):
        cfagg.aggregate(files[1:], output=out, append=True)
    assert out.read_bytes() == former


def test_adding_to_what_is_not_there_makes_it(tmp_path, out):
    files = months(tmp_path / "in", 2)
    cfagg.aggregate(files, output=out, append=True)
    assert contents(out) == at_once(files, out)


def test_no_index_is_written_unless_wanted_and_a_former_one_goes(tmp_path, out):
    files = months(tmp_path / "in", 2)
    cfagg.aggregate(files, output=out)
    cfagg.aggregate(files, output=out, overwrite=True, index=False)
    assert [p.name for p in out.parent.iterdir()] == ["OUT.nc"]


@pytest.mark.parametrize("wrong", [{"update": True}, {"append": True, "overwrite": True}])
def test_options_that_contradict_each_other_are_refused(tmp_path, out, wrong):
    with pytest.raises(OptionError, match="give"):
        cfagg.aggregate(months(tmp_path / "in", 1), output=out, **wrong)


@pytest.mark.parametrize("wrong", [{"update": True}, {"append": True}])
def test_growing_needs_a_file(tmp_path, wrong):
    with pytest.raises(OptionError, match="output="):
        cfagg.aggregate(months(tmp_path / "in", 1), **wrong)


def test_what_is_there_is_not_replaced_without_saying_so(tmp_path, out):
    files = months(tmp_path / "in", 1)
    cfagg.aggregate(files, output=out)
    with pytest.raises(TargetExistsError, match="overwrite"):
        cfagg.aggregate(files, output=out)


@pytest.mark.parametrize("append", [True, False])
def test_while_one_process_works_on_it_another_is_refused(tmp_path, out, append):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    former = contents(out)
    work = out.parent / ".OUT.nc.cfagg-partial"
    work.mkdir()
    held, _ = lock(work / "lock")
    with held, pytest.raises(TargetError, match=f"another process is aggregating to {out}; wait for it, or stop it"):
        cfagg.aggregate(files[2:], output=out, append=append, overwrite=not append)
    assert contents(out) == former
    # Its lock has died with it.
    cfagg.aggregate(files[2:], output=out, append=True)
    assert contents(out) == at_once(files, out)
    assert not work.exists()


def test_what_was_moved_with_its_files_grows_on(tmp_path):
    files = months(tmp_path / "a" / "in", 3)
    cfagg.aggregate(files[:2], output=tmp_path / "a" / "OUT.nc")
    (tmp_path / "a").rename(tmp_path / "b")
    moved = [f.replace(f"{tmp_path}/a", f"{tmp_path}/b") for f in files]
    # A rename of a directory changes no file in it.
    cfagg.aggregate(moved[2:], output=tmp_path / "b" / "OUT.nc", append=True)
    grown = contents(tmp_path / "b" / "OUT.nc")
    cfagg.aggregate(moved, output=tmp_path / "b" / "OUT.nc", overwrite=True)
    assert contents(tmp_path / "b" / "OUT.nc") == grown


@pytest.mark.parametrize("seconds", [0.0, pytest.param(1.1, marks=pytest.mark.soak)])
def test_nothing_of_it_tells_the_time(tmp_path, out, seconds):
    files = months(tmp_path / "in", 2)
    cfagg.aggregate(files, output=out)
    former = contents(out)
    time.sleep(seconds)
    cfagg.aggregate(files, output=out, overwrite=True)
    assert contents(out) == former


def test_a_damaged_file_that_is_added_leaves_all_as_it_was(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    former = contents(out)
    Path(files[2]).write_bytes(Path(files[2]).read_bytes()[:1000])
    with pytest.raises(SourceError):
        cfagg.aggregate(files[2:], output=out, append=True)
    assert contents(out) == former
    cfagg.aggregate([*months(tmp_path / "more", 4)[3:], files[2]], output=out, append=True, skip_errors=True)
    assert len(values(out)) == 6
    # It is whole by now: it was never in it, so it is just added.
    month(Path(files[2]), 2)
    cfagg.aggregate(files[2], output=out, append=True)
    assert len(values(out)) == 8


def test_several_axes_grow(tmp_path, out):
    """A member that comes later is one more along its own axis, a month one more in time."""

    def member(number: int, time: int) -> str:
        path = month(tmp_path / "in" / f"{number}-{time}.nc", time)
        with netCDF4.Dataset(path, "a") as file:
            made = file.createVariable("member", "i4", ())
            made.standard_name, made.units = "realization", "1"
            made[...] = number
            file["tas"].coordinates = "member"
        return str(path)

    files = [member(m, t) for m in (1, 2) for t in (0, 1)]
    cfagg.aggregate(files[:3], output=out)
    cfagg.aggregate(files[3:], output=out, append=True)
    assert contents(out) == at_once(files, out)
    with cfagg.read(out, allow=[tmp_path]) as found:
        assert dict(found.tas.sizes) == {"member": 2, "time": 4, "lat": 2, "lon": 3}
        assert np.array_equal(found.tas[0], found.tas[1])


@pytest.fixture
def stores(tmp_path) -> list[str]:
    """Three months as Zarr stores."""
    found = [f"{name.removesuffix('.nc')}.zarr" for name in months(tmp_path / "in", 3)]
    for name in found:
        cfagg.convert(f"{name.removesuffix('.zarr')}.nc", name)
    return found


def test_zarr_stores_are_added_with_their_values_in_files_beside_it(out, stores):
    cfagg.aggregate(stores[:2], output=out)
    cfagg.aggregate(stores[2:], output=out, append=True, allow=[out.parent.parent])
    assert values(out) == [0, 6, 100, 106, 200, 206]
    assert sorted(p.name for p in out.parent.iterdir()) == ["OUT.nc", "OUT.nc.cfagg-index", "OUT.nc.fragments-2"]


def test_a_store_whose_metadata_changed_is_found(out, stores):
    cfagg.aggregate(stores[:2], output=out)
    document = Path(stores[0]) / "zarr.json"
    document.write_text(document.read_text().replace("air_temperature", "sea_water_temperature"))
    with pytest.raises(SourceError, match="1 of 2 files"):
        cfagg.aggregate(stores[2:], output=out, append=True, allow=[out.parent.parent])


def test_without_an_index_what_was_written_beside_it_tells_nothing_of_its_files(out, stores):
    cfagg.aggregate(stores[:2], output=out)
    no_index(out)
    with pytest.raises(SourceError, match="can grow only with its index"):
        cfagg.aggregate(stores[2:], output=out, append=True)
    assert values(out) == [0, 6, 100, 106]


def test_a_file_that_changes_while_it_is_aggregated_is_an_error(tmp_path, out, monkeypatch):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    former = contents(out)
    real = output.join_files

    def slowly(*arguments):
        month(Path(files[2]), 5)
        return real(*arguments)

    monkeypatch.setattr(output, "join_files", slowly)
    with pytest.raises(SourceError, match=f"{files[2]} has changed since it was scanned"):
        cfagg.aggregate(files[2:], output=out, append=True)
    assert contents(out) == former
    assert len(list(out.parent.iterdir())) == 2


def test_an_index_that_was_refreshed_still_knows_the_files(tmp_path, out):
    files = months(tmp_path / "in", 4)
    # The second file is not in the array: the first has the same dates.
    shutil.copy(files[0], tmp_path / "in" / "same.nc")
    order = [files[0], str(tmp_path / "in" / "same.nc"), *files[1:]]
    cfagg.aggregate(order[:3], output=out, on_overlap="first")
    cfagg.index(out, allow=[tmp_path])
    before = counters.snapshot()
    cfagg.aggregate(order[3:], output=out, append=True, on_overlap="first")
    assert (counters.snapshot() - before).files < 6
    assert contents(out) == at_once(order, out, on_overlap="first")


def test_a_refreshed_index_does_not_take_in_what_changed(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    rewrite(files[0], 0)
    assert cfagg.index(out, allow=[tmp_path]).changed == (files[0],)
    with pytest.raises(SourceError, match="1 of 2 files"):
        cfagg.aggregate(files[2:], output=out, append=True)


def test_stores_stay_known_when_the_index_is_refreshed(out, stores):
    cfagg.aggregate(stores[:2], output=out)
    cfagg.index(out)
    cfagg.aggregate(stores[2:], output=out, append=True, allow=[out.parent.parent])
    assert values(out) == [0, 6, 100, 106, 200, 206]


def test_an_index_that_lacks_files_is_not_used(tmp_path, out):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    index = open_index(f"{out}.cfagg-index")
    rows = [index.rows(i)._replace(path=index.where(i)) for i in (0, 2)]
    write_index(Index.of(rows, shared=index.shared, aggregation=index.aggregation), f"{out}.cfagg-index")
    with pytest.warns(CfaggWarning, match="3 files .* lacks some files"):
        cfagg.aggregate(files[3:], output=out, append=True, allow=[out.parent.parent])
    assert contents(out) == at_once(files, out)


def test_files_that_are_named_through_a_link_are_read_by_the_index_and_keep_their_names(tmp_path, out):
    months(tmp_path / "in", 3)
    (tmp_path / "link").symlink_to("in")
    files = [str(tmp_path / "link" / f"m{n}.nc") for n in range(3)]
    cfagg.aggregate(files[:2], output=out)
    index = open_index(f"{out}.cfagg-index")
    assert index.files.keys() == {str(tmp_path / "in" / f"m{n}.nc") for n in range(2)}
    cfagg.aggregate(files[2:], output=out, append=True)
    assert contents(out) == at_once(files, out)


def test_files_in_a_directory_that_was_a_link_are_recorded_as_if_it_never_had_been_one(tmp_path, out):
    months(tmp_path / "in", 3)
    (tmp_path / "link").symlink_to("in")
    files = [str(tmp_path / "link" / f"m{n}.nc") for n in range(3)]
    cfagg.aggregate(files[:2], output=out)
    (tmp_path / "link").unlink()
    (tmp_path / "in").rename(tmp_path / "link")
    cfagg.aggregate(files[2:], output=out, append=True)
    assert contents(out) == at_once(files, out)


def test_another_name_of_a_file_that_is_in_it_is_that_file(tmp_path, out):
    files = [*months(tmp_path / "in", 1), str(tmp_path / "in" / "same.nc")]
    Path(files[1]).symlink_to("m0.nc")
    cfagg.aggregate(files[:1], output=out)
    found = cfagg.aggregate(files[1:], output=out, append=True)
    assert found.cfagg.report.notes == (f"{files[1]} is already in it",)
    assert contents(out) == at_once(files, out)


def test_a_file_that_became_another_name_of_one_counts_once_by_the_first_name(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files, output=out)
    Path(files[0]).unlink()
    Path(files[0]).symlink_to("m2.nc")
    cfagg.aggregate([], output=out, append=True, update=True, allow=[tmp_path])
    assert contents(out) == at_once(files, out)


def test_a_file_that_could_not_be_recorded_is_scanned_again(tmp_path, out, monkeypatch):
    files = months(tmp_path / "in", 4)
    real = records.encode

    def encode(scanned):
        own, shared = real(scanned)
        return [b"" if k == 1 else one for k, one in enumerate(own)], shared

    monkeypatch.setattr(records, "encode", encode)
    cfagg.aggregate(files[:3], output=out)
    cfagg.aggregate(files[3:], output=out, append=True, allow=[out.parent.parent])
    assert contents(out) == at_once(files, out)


def test_records_of_unchanged_files_are_copied(tmp_path, out, monkeypatch):
    files = months(tmp_path / "in", 7)
    for number in range(7):
        rewrite(files[number], number, days=number + 2)  # of sizes of their own
    cfagg.aggregate(files[:5], output=out)
    wanted = at_once(files[:6], out)
    monkeypatch.setattr(records, "encode", None)
    cfagg.aggregate(files[5:6], output=out, append=True, allow=[out.parent.parent])
    assert contents(out) == wanted


def test_notes_tell_what_was_there_what_changed_and_what_went(tmp_path, out):
    files = months(tmp_path / "in", 6)
    assert cfagg.aggregate(files[:5], output=out, append=True, allow=[out.parent.parent]).cfagg.report.notes == (
        f"{out} did not exist: it is new",
    )
    rewrite(files[1], 8)
    Path(files[2]).unlink()
    Path(files[3]).unlink()
    found = cfagg.aggregate(
        [files[0], files[4], files[5]], output=out, append=True, allow=[out.parent.parent], update=True
    )
    assert found.cfagg.report.notes == (
        "2 files are already in it",
        f"{files[1]} was scanned again: it has changed",
        "2 files were left out: they are gone",
    )


def test_the_command_adds_files_and_takes_in_changes(tmp_path, out, capfd):
    files = months(tmp_path / "in", 4)
    assert main(["aggregate", *files[:2], "-o", str(out)]) == 0
    assert main(["aggregate", files[2], "-o", str(out), "--append"]) == 0
    assert contents(out) == at_once(files[:3], out)
    rewrite(files[0], 0)
    capfd.readouterr()
    assert main(["aggregate", files[3], "-o", str(out), "--append"]) == 2
    assert f"- {files[0]}: it has changed" in capfd.readouterr().err
    assert main(["aggregate", files[3], "-o", str(out), "--append", "--update", "--allow", str(tmp_path)]) == 0
    assert "scanned again" in capfd.readouterr().err
    assert contents(out) == at_once(files, out)
    assert main(["aggregate", files[3], "-o", str(out), "--append", "--rtol", "0.1"]) == 2
    assert "rtol" in capfd.readouterr().err


def test_old_files_are_only_read_where_the_aggregation_file_may_read_them(tmp_path, out):
    """An index may be somebody else's: what it names is judged as what an aggregation file names."""
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:2], output=out)
    found = cfagg.aggregate(files[2:3], output=out, append=True)
    assert found.tas[4:, 0, 0].values.tolist() == [200, 206]
    with pytest.raises(AccessError, match=re.escape(f"allow=['{tmp_path}/in']")):
        found.tas[:3].values  # noqa: B018
    found = cfagg.aggregate(files[3:], output=out, append=True, allow=[tmp_path / "in"])
    assert found.tas[:, 0, 0].values.tolist() == [100.0 * n + k for n in range(4) for k in (0, 6)]


def test_what_changed_is_only_scanned_where_the_aggregation_file_may_read_it(tmp_path, out):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    rewrite(files[0], 5)
    former = contents(out)
    with pytest.raises(AccessError, match=re.escape(f"allow=['{tmp_path}/in']")):
        cfagg.aggregate(files[2:], output=out, append=True, update=True)
    assert contents(out) == former
    # Who names it means it.
    cfagg.aggregate([files[0], files[2]], output=out, append=True, update=True)
    assert contents(out) == at_once(files, out)


def test_without_an_index_an_update_leaves_out_what_went(tmp_path, out):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out, index=False)
    Path(files[1]).unlink()
    with pytest.warns(CfaggWarning, match="scanned again"):
        cfagg.aggregate(files[3:], output=out, append=True, update=True, allow=[tmp_path])
    assert contents(out) == at_once([files[0], *files[2:]], out)


@pytest.mark.few(2)
@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"])
def test_a_file_of_each_dialect_grows_without_a_look_at_old_files(tmp_path, out, to):
    files = [str(month(tmp_path / "in" / f"{n}.nc", n, days=1)) for n in range(8)]
    cfagg.aggregate(files[:6], output=out, to=to)
    before = counters.snapshot()
    cfagg.aggregate(files[6:], output=out, append=True, to=to)
    assert (counters.snapshot() - before).files <= 2 * 2 + 1  # a scan, a table of chunks, and the index
    assert contents(out) == at_once(files, out, to=to)


def forge(out, change):
    """Replace the description of the last file in the index beside `out`."""
    name = f"{out}.cfagg-index"
    index = open_index(name)
    cut = 4 + int.from_bytes(index.shared[:4], "little")
    found = records.decode(index.description, index.shared[cut:])
    found[-1] = replace(found[-1], described=(change(found[-1].described[0]),))
    own, shared = records.encode(found)
    digest = blake2b(b"".join(len(one).to_bytes(8, "little") + one for one in own), digest_size=16).hexdigest()
    head = json.dumps(json.loads(index.shared[4:cut]) | {"files": f"{len(own)} {digest}"}).encode()
    rows = [index.rows(i)._replace(path=index.where(i), description=own[i]) for i in range(len(own))]
    whole = len(head).to_bytes(4, "little") + head + shared
    write_index(Index.of(rows, shared=whole, aggregation=index.aggregation), name)


@pytest.mark.parametrize(
    ("count", "why", "change"),
    [  # coordinates of texts, as no scan finds them; an attribute that no file can have
        (2, "describes its files inconsistently; remove", lambda own: replace(
            own, axes=own.axes | {"time": replace(own.axes["time"], values=np.array(["a", "b"]))})),
        (1, "attribute 'x' .* is lost: netCDF has no booleans", lambda own: replace(
            own, stated=replace(own.stated, attributes={"units": "K", "x": np.array([True])}))),
    ],
)  # fmt: skip
def test_an_index_with_descriptions_as_no_scan_makes_them_gives_our_own_error(tmp_path, out, count, why, change):
    cfagg.aggregate(months(tmp_path / "in", count), output=out)
    forge(out, change)
    before = contents(out)
    with pytest.raises(CfaggError, match=why):
        cfagg.aggregate([], output=out, append=True, update=True, allow=[tmp_path])
    assert contents(out) == before


@pytest.mark.parametrize(("name", "value"), [("cell methods", (None,)), ("axes", ("x",)), ("units", (1,))])
def test_a_report_tells_of_descriptions_as_no_scan_makes_them(tmp_path, out, name, value):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    forge(out, lambda own: replace(own, signature=own.signature | {name: value}))
    grown = cfagg.aggregate(files[2:], output=out, append=True)
    assert name in str(grown.cfagg.report)


def test_an_index_with_names_that_lead_nowhere_is_not_used(tmp_path, out, monkeypatch):
    files = months(tmp_path / "in", 3)
    monkeypatch.setattr("cfagg.aggregation.appending._unless_real", lambda place: "m0.nc")
    cfagg.aggregate(files[:2], output=out)
    with pytest.warns(CfaggWarning, match="names of files are damaged"):
        cfagg.aggregate(files[2:], output=out, append=True, allow=[tmp_path])


def test_an_option_that_this_version_does_not_know_is_refused():
    settings = Settings(Options(), "CF-1.13")
    with pytest.raises(OptionError, match=r"calendars: OUT\.nc was written with 'any', an option of another version"):
        settings.check(settings.as_dict() | {"calendars": "any"}, "OUT.nc")


def test_an_option_that_was_unknown_when_it_was_made_has_to_be_its_default():
    former = Settings(Options(), "CF-1.13").as_dict()
    del former["interleave"]
    Settings(Options(), "CF-1.13").check(former, "OUT.nc")
    with pytest.raises(OptionError, match=r"interleave: OUT\.nc was written with False, and now it is True"):
        Settings(Options(interleave=True), "CF-1.13").check(former, "OUT.nc")


def test_fields_of_pp_files_are_added_by_their_addresses(out):
    files = [str(sample("pp") / name) for name in ("air_temp.pp", "wind_speed_lake_victoria.pp", "umfile.pp")]
    options = {"to": "CFA-0.4", "relaxed_units": True}
    cfagg.aggregate(files[:2], output=out, **options)
    cfagg.aggregate(files[2:], output=out, append=True, **options)
    assert contents(out) == at_once(files, out, **options)
    assert len(list(out.parent.iterdir())) == 2


@pytest.mark.parametrize("name", ["/x\0y.nc", "\0zz"])
def test_an_index_with_a_name_that_no_file_has_is_not_used(tmp_path, out, name):
    files = months(tmp_path / "in", 3)
    cfagg.aggregate(files[:2], output=out)
    index = open_index(f"{out}.cfagg-index")
    rows = [index.rows(0), index.rows(1)._replace(path=name)]
    write_index(Index.of(rows, shared=index.shared, aggregation=index.aggregation), f"{out}.cfagg-index")
    with pytest.warns(CfaggWarning, match="2 files .* were scanned again"):
        cfagg.aggregate(files[2:], output=out, append=True, allow=[out.parent.parent])
    assert contents(out) == at_once(files, out)


def no_file(path: Path) -> None:
    path.write_bytes(b"")


def a_directory(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("becomes", [no_file, a_directory, a_loop, a_fifo])
def test_a_file_that_became_none_has_changed_and_is_left_out_where_errors_are_skipped(tmp_path, out, becomes):
    files = months(tmp_path / "in", 4)
    cfagg.aggregate(files[:3], output=out)
    former = contents(out)
    Path(files[1]).unlink()
    Path(files[2]).unlink()
    becomes(Path(files[1]))
    with pytest.raises(SourceError) as caught:
        cfagg.aggregate(files[0], output=out, append=True, allow=[tmp_path])
    assert [str(p) for p in caught.value.problems] == [f"{files[1]}: it has changed", f"{files[2]}: it is gone"]
    given = {"append": True, "update": True, "allow": [tmp_path]}
    with pytest.raises(SourceError, match=re.escape(files[1])):
        cfagg.aggregate(files[0], output=out, **given)
    assert contents(out) == former
    found = cfagg.aggregate(files[0], output=out, skip_errors=True, **given)
    assert files[1] in str(found.cfagg.report)
    assert values(out) == [0, 6]
    assert contents(out) == at_once(files[:1], out)


def test_an_index_that_is_a_directory_is_refused_before_anything_is_written(tmp_path, out):
    Path(f"{out}.cfagg-index").mkdir()
    with pytest.raises(TargetError, match="is a directory; remove it"):
        cfagg.aggregate(months(tmp_path / "in", 2), output=out)
    assert [p.name for p in out.parent.iterdir()] == ["OUT.nc.cfagg-index"]


def test_an_update_without_new_files_takes_in_what_changed_and_what_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, out = months(tmp_path, 3), tmp_path / "out.nc"
    cfagg.aggregate(names, output=out)
    Path(names[1]).unlink()
    command = ["aggregate", "-o", str(out), "--append"]
    assert main(command) == 2
    assert "no files were given" in capsys.readouterr().err
    assert main([*command, "--update"]) == 0
    with cfagg.read(out, decode_times=False) as found:
        assert found["time"].values.tolist() == [0, 1, 4, 5]
    before = out.read_bytes()
    for name in (names[0], names[2]):
        Path(name).unlink()
    with pytest.raises(SourceNotFoundError, match=r"no files were given, and none of those in .*out\.nc still exists"):
        cfagg.aggregate([], output=out, append=True, update=True)
    assert out.read_bytes() == before
