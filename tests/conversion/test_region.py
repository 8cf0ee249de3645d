"""Writing into a part of a store that is there."""

import json
import threading
from contextlib import suppress

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.api.appending import append
from cfagg.cli.main import main
from cfagg.conversion import convert, region
from cfagg.errors import ConformError, LimitError, OptionError, SourceNotFoundError, TargetError
from cfagg.runtime import files
from cfagg.writing.zarr import local_place
from cfagg.writing.zarr.place import place_of
from tests.conversion import killing
from tests.effort import examples

DAYS, LAT, LON = 90, 4, 6


def dataset(first=0, last=DAYS, *, units="days since 2000-01-01", scale=1.0, dtype="f4"):
    """Days of a made-up variable."""
    days = np.arange(first, last)
    values = (np.arange(first * LAT * LON, last * LAT * LON).reshape(-1, LAT, LON) * scale).astype(dtype)
    made = xr.Dataset(
        {"tas": (("time", "lat", "lon"), values, {"units": "K"})},
        {"time": ("time", days.astype("i4"), {"units": units}), "lat": ("lat", np.arange(LAT, dtype="f8"))},
    )
    for name in made.variables:
        made[name].encoding["_FillValue"] = None
    return made


@pytest.fixture
def store(tmp_path):
    """A store of ninety days whose `tas` is still empty, in chunks of a month."""
    empty = dataset()
    empty["tas"] = empty["tas"] * np.float32(0)
    empty["tas"].attrs["units"] = "K"
    empty["tas"].encoding = {"chunks": (30, LAT, LON), "_FillValue": None}
    empty.to_zarr(tmp_path / "out.zarr", zarr_format=3)
    return tmp_path / "out.zarr"


def source(folder, *days, name="part.nc", **options):
    dataset(*days, **options).to_netcdf(folder / name, engine="netcdf4")
    return folder / name


def tas(store):
    return zarr.open_group(store, mode="r")["tas"][:]


def test_months_are_written_into_their_parts_and_others_stay(store, tmp_path):
    report = convert(source(tmp_path, 30, 60), store, region={"time": slice(30, 60)})
    expected = dataset()["tas"].values
    found = tas(store)
    np.testing.assert_array_equal(found[30:60], expected[30:60])
    assert not found[:30].any()
    assert not found[60:].any()
    assert (report.variables, report.chunks, report.bytes) == (("tas",), 1, 30 * LAT * LON * 4)
    assert "lat, time" in report.notes[0] or "time, lat" in report.notes[0]
    convert(source(tmp_path, 60, 90), store, region={"time": slice(60, None)})
    convert(source(tmp_path, 0, 30), store, region={"time": slice(None, 30)})
    with xr.open_zarr(store) as ds:
        xr.testing.assert_equal(ds.load(), xr.decode_cf(dataset()))
    assert sorted(p.name for p in store.iterdir() if p.name.startswith(".")) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("sharded", [False, True])
def test_the_last_part_may_end_with_the_array_in_any_form_of_store(tmp_path, form, sharded):
    whole = source(tmp_path, 0, 50, name="whole.nc")
    options = {"shards": {"time": 20}} if sharded and form == 3 else {}
    convert(whole, tmp_path / "out.zarr", chunks={"time": 10, "lat": 3}, zarr_format=form, codec="blosc", **options)
    before = killing.contents(tmp_path / "out.zarr")
    array = zarr.open_group(tmp_path / "out.zarr", mode="r+")["tas"]
    array[20:] = -1
    convert(source(tmp_path, 20, 50), tmp_path / "out.zarr", region={"time": slice(20, 50)})
    np.testing.assert_array_equal(tas(tmp_path / "out.zarr"), dataset(0, 50)["tas"].values)
    # The bytes are those of the first conversion: the store was written in its own codecs.
    assert killing.contents(tmp_path / "out.zarr").keys() == before.keys()


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_any_part_on_whole_chunks_equals_an_assignment_by_zarr_python(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("region")
    sizes = [data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)) for _ in range(2)]
    regular = data.draw(st.booleans())
    chunks = [s[0] if regular else s for s in sizes]
    shape = tuple(map(sum, sizes))
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.open_group(folder / "a.zarr", mode="w")
        array = group.create_array("v", shape=shape, chunks=tuple(chunks), dtype="i2", dimension_names=("x", "y"))
        array[...] = -7
        box = []
        for s, n in zip(sizes, shape, strict=True):
            edges = [*range(0, n, s[0]), n] if regular else [0, *np.cumsum(s).tolist()]
            i = data.draw(st.integers(0, len(edges) - 2))
            box.append(slice(edges[i], edges[data.draw(st.integers(i + 1, len(edges) - 1))]))
        part = np.arange(np.prod([b.stop - b.start for b in box]), dtype="i2").reshape([b.stop - b.start for b in box])
        xr.Dataset({"v": (("x", "y"), part)}).to_netcdf(folder / "part.nc")
        convert(folder / "part.nc", folder / "a.zarr", region=dict(zip("xy", box, strict=True)))
        expected = np.full(shape, -7, "i2")
        expected[tuple(box)] = part
        np.testing.assert_array_equal(zarr.open_group(folder / "a.zarr", mode="r")["v"][...], expected)


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_what_is_absent_in_both_stores_stays_absent_and_what_is_there_is_replaced(tmp_path_factory, data):
    folder, n = tmp_path_factory.mktemp("sparse"), 12
    dtype = data.draw(st.sampled_from(["f4", "i2", "?"]))
    fill = np.dtype(dtype).type(data.draw(st.sampled_from([0, 1] + [np.nan, -0.0] * (dtype == "f4"))))
    form = data.draw(st.sampled_from([2, 3]))
    sharded = form == 3 and data.draw(st.booleans())
    cell = st.integers(0, n - 1)

    def made(name):
        attributes = {"_ARRAY_DIMENSIONS": ["x", "y"]} if form == 2 else {}
        return zarr.open_group(folder / name, mode="w", zarr_format=form).create_array(
            "v", shape=(n, n), chunks=(3, 2), shards=(6, 4) if sharded else None, dtype=dtype, fill_value=fill,
            attributes=attributes, **({"dimension_names": ["x", "y"]} if form == 3 else {}),
        )  # fmt: skip

    source = made("source")
    for i, j in data.draw(st.lists(st.tuples(cell, cell), max_size=3)):
        source[i, j] = 1
    there = data.draw(st.lists(st.tuples(cell, cell), max_size=4))
    found, expected = made("found"), made("expected")
    for array in (found, expected):
        for i, j in there:
            array[i, j] = 5
    chunks = {p.relative_to(folder / "found") for p in (folder / "found").rglob("*") if p.is_file()}
    start = data.draw(st.sampled_from([0, 6]))
    part = zarr.open_group(folder / "part", mode="w", zarr_format=form).create_array(
        "v", shape=(n - start, n), chunks=(3, 4), dtype=dtype, fill_value=fill, attributes=dict(source.attrs),
        **({"dimension_names": ["x", "y"]} if form == 3 else {}),
    )  # fmt: skip
    part[...] = expected[start:] = source[start:]
    convert(folder / "part", folder / "found", region={"x": slice(start, None)})
    array = zarr.open_group(folder / "found", mode="r")["v"]
    np.testing.assert_array_equal(array[...], expected[...])
    np.testing.assert_array_equal(np.signbit(array[...].astype("f8")), np.signbit(expected[...].astype("f8")))
    after, zarrs = (
        {p.relative_to(folder / name) for p in (folder / name).rglob("*") if p.is_file()}
        for name in ("found", "expected")
    )
    assert zarrs <= after <= zarrs | chunks


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("days", "region", "changes", "error", "said"),
    [
        ((10, 40), slice(10, 40), {}, ConformError, "not on whole chunks of .*; the next ones are 0:60"),
        ((60, 89), slice(60, 89), {}, ConformError, "60:89 .* not on whole chunks of .*; the next ones are 60:90"),
        ((30, 60), slice(30, 61), {}, ConformError, "has 30 places along 'time', and the region has 31"),
        ((80, 100), slice(80, 100), {}, LimitError, "ends at 100 along 'time', which has 90"),
        ((30, 60), slice(100, None), {}, LimitError, "begins at 100 along 'time', which has 90"),
        ((90, 90), slice(90, None), {}, LimitError, "begins at 90 along 'time', which has 90"),
        ((30, 60), slice(30, 60), {"dtype": "f8"}, ConformError, "is of type float64, but of float32"),
        ((30, 60), slice(60, 90), {}, ConformError, "'time': the region 60:90 .* is not on whole chunks"),
        ((30, 60), slice(30, 60), {"units": "hours since 2000-01-01"}, ConformError, "units is 'hours since"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(store, tmp_path, days, region, changes, error, said):
    before = killing.contents(store)
    with pytest.raises(error, match=said):
        convert(source(tmp_path, *days, **changes), store, region={"time": region})
    assert killing.contents(store) == before


def test_other_meanings_of_numbers_and_other_coordinates_are_refused(store, tmp_path):
    before = killing.contents(store)
    part = dataset(30, 60)
    part["tas"].attrs["scale_factor"] = np.float32(2)
    part.to_netcdf(tmp_path / "a.nc")
    part = dataset(30, 60).assign_coords(lat=("lat", np.arange(LAT) + 1.0))
    part.to_netcdf(tmp_path / "b.nc")
    part = dataset(30, 60)
    part["tas"].encoding["_FillValue"] = np.float32(-9)
    part.to_netcdf(tmp_path / "c.nc")
    dataset(30, 60).rename(tas="pr").to_netcdf(tmp_path / "d.nc")
    dataset(30, 60).transpose("time", "lon", "lat").to_netcdf(tmp_path / "e.nc")
    for name, said in (
        ("a.nc", r"scale_factor is 2\.0, and not given in"),
        ("b.nc", "'lat' has no dimension of the region"),
        ("c.nc", r"the fill value is -9\.0, and not given in .*; declare the same in both"),
        ("d.nc", "has no array 'pr'"),
        ("e.nc", r"has the dimensions \('time', 'lon', 'lat'\), but \('time', 'lat', 'lon'\) in"),
    ):
        with pytest.raises(ConformError, match=said):
            convert(tmp_path / name, store, region={"time": slice(30, 60)})
    assert killing.contents(store) == before
    convert(tmp_path / "b.nc", store, variables=["time"], region={"time": slice(30, 60)})


def test_bounds_without_units_have_those_of_their_coordinate(tmp_path):
    whole = dataset()
    days = np.arange(DAYS, dtype="f8")
    whole["time"].attrs |= {"bounds": "time_bnds", "calendar": "noleap"}
    whole["time_bnds"] = (("time", "bnds"), np.stack([days, days + 1], 1), {"units": "days since 2000-01-01"})
    whole["time_bnds"].encoding = {"chunks": (30, 2), "_FillValue": None}
    whole["tas"].encoding["chunks"] = (30, LAT, LON)
    whole.chunk().to_zarr(tmp_path / "out.zarr", zarr_format=3, compute=False)
    part = whole.isel(time=slice(30, 60))
    del part["time_bnds"].attrs["units"]
    part.drop_encoding().to_netcdf(tmp_path / "a.nc")
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", variables=["time_bnds", "tas"], region={"time": slice(30, 60)})
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["time_bnds"][:]
    np.testing.assert_array_equal(found[30:60], whole["time_bnds"][30:60])
    part["time_bnds"].attrs["units"] = "hours since 2000-01-01"
    part.drop_encoding().to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ConformError, match="'time_bnds': units is 'hours since 2000-01-01', and 'days since"):
        convert(tmp_path / "b.nc", tmp_path / "out.zarr", variables=["time_bnds"], region={"time": slice(30, 60)})


@pytest.mark.parametrize(
    ("units", "calendar", "same"),
    [
        ("days since 2000-01-01 00:00:00", "gregorian", True),
        ("day since 2000-1-1T01:00 +1:00", "standard", True),
        ("days since 2000-01-01", "proleptic_gregorian", False),
        ("days since 2000-01-01 01:00", "standard", False),
    ],
)
def test_times_with_another_spelling_of_units_and_calendar_are_written(store, tmp_path, units, calendar, same):
    part = dataset(30, 60, units=units)
    part["time"].attrs["calendar"] = calendar
    part.to_netcdf(tmp_path / "part.nc")
    if not same:
        with pytest.raises(ConformError, match=r"'time': (units|calendar) is "):
            convert(tmp_path / "part.nc", store, region={"time": slice(30, 60)})
        return
    convert(tmp_path / "part.nc", store, region={"time": slice(30, 60)})
    np.testing.assert_array_equal(tas(store)[30:60], part["tas"].values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("units", "degC"),
        ("calendar", "noleap"),
        ("standard_name", "air_temperature"),
        ("missing_value", np.float32(5)),
        ("valid_min", np.float32(5)),
        ("valid_max", np.float32(5)),
        ("valid_range", np.array([0, 5], "f4")),
        ("flag_values", np.array([0, 5], "f4")),
        ("flag_masks", np.array([1, 2], "f4")),
        ("flag_meanings", "low high"),
        ("add_offset", np.float32(5)),
        ("_Unsigned", "true"),
    ],
)
def test_no_attribute_that_says_what_numbers_mean_may_differ(store, tmp_path, name, value):
    before = killing.contents(store)
    part = source(tmp_path, 30, 60)
    with netCDF4.Dataset(part, "r+") as file:
        file["tas"].setncattr(name, value)
    with pytest.raises(ConformError, match=f"variable 'tas': {name} is "):
        convert(part, store, variables=["tas"], region={"time": slice(30, 60)})
    assert killing.contents(store) == before


@pytest.mark.parametrize(
    ("region", "error", "said"),
    [
        ({}, OptionError, "is not a mapping"),
        (5, OptionError, "is not a mapping"),
        ({"time": 3}, OptionError, "expected a slice"),
        ({"time": slice(0, 30, 2)}, OptionError, "without a step"),
        ({"time": slice(-30, None)}, LimitError, "found -30"),
        ({"time": slice(30, 30)}, LimitError, "holds nothing"),
        ({"height": slice(0, 30)}, OptionError, "dimension 'height'; they have lat, lon, time"),
    ],
)
def test_regions_that_are_none_are_refused(store, tmp_path, region, error, said):
    with pytest.raises(error, match=said):
        convert(source(tmp_path, 30, 60), store, region=region)


def test_options_of_new_stores_and_other_targets_are_refused(store, tmp_path):
    path = source(tmp_path, 30, 60)
    with pytest.raises(OptionError, match=r"leave out chunks="):
        convert(path, store, chunks={"time": 3}, region={"time": slice(30, 60)})
    with pytest.raises(OptionError, match=r"leave out region="):
        convert(path, tmp_path / "a.nc", region={"time": slice(30, 60)})
    with pytest.raises(OptionError, match=r"only cfagg.append .* adds to a repository of Icechunk: leave out region="):
        convert(path, tmp_path / "a.icechunk", region={"time": slice(30, 60)})
    with pytest.raises(OptionError, match="would be too late: leave out verify="):
        convert(path, store, region={"time": slice(30, 60)}, verify=True)
    with pytest.raises(SourceNotFoundError):
        convert(path, tmp_path / "none.zarr", region={"time": slice(30, 60)})
    with pytest.raises(TargetError, match="is the source"):
        convert(store, store, region={"time": slice(30, 60)})


def test_missing_values_of_arrays_without_the_region_equal_those_of_the_store(tmp_path):
    ds = xr.Dataset({"v": ("t", np.arange(4.0)), "area": ("x", [1.0, np.nan])})
    ds.to_netcdf(tmp_path / "all.nc")
    convert(tmp_path / "all.nc", tmp_path / "a.zarr", chunks={"t": 2})
    (ds.isel(t=slice(2)) + xr.Dataset({"v": 5.0, "area": 0.0})).to_netcdf(tmp_path / "part.nc")
    assert "again: area" in convert(tmp_path / "part.nc", tmp_path / "a.zarr", region={"t": slice(2)}).notes[0]
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["v"][...].tolist() == [5, 6, 2, 3]


def test_a_store_is_not_written_into_itself_by_way_of_a_link(store, tmp_path):
    (tmp_path / "link").symlink_to(store, target_is_directory=True)
    with pytest.raises(TargetError, match="is the source"):
        convert(tmp_path / "link", store, region={"time": slice(0, None)})


@pytest.mark.parametrize("form", [2, 3])
def test_strings_and_characters_are_written_into_a_part(tmp_path, form):
    def made(names, letters):
        return xr.Dataset({"name": ("x", np.array(names, object)), "letter": ("x", np.array(letters, "S1"))})

    encoding = {"letter": {"char_dim_name": "n"}}
    made(list("abcd"), [b"a", b"b", b"c", b"d"]).to_netcdf(tmp_path / "all.nc", encoding=encoding)
    convert(tmp_path / "all.nc", tmp_path / "a.zarr", zarr_format=form, chunks={"x": 3}, codec="gzip")
    made(["Bü", "", "long"], [b"x", b"y", b"z"]).to_netcdf(tmp_path / "part.nc", encoding=encoding)
    convert(tmp_path / "part.nc", tmp_path / "a.zarr", region={"x": slice(0, 3)})
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert group["name"][:].tolist() == ["Bü", "", "long", "d"]
    assert group["letter"][:].ravel().tolist() == [b"x", b"y", b"z", b"d"]
    with pytest.raises(ConformError, match=r"'x' is not on whole chunks of .*; the next ones are 0:4"):
        convert(tmp_path / "part.nc", tmp_path / "a.zarr", region={"x": slice(1, 4)})


def test_a_plan_of_a_part_counts_what_is_then_written_and_writes_nothing(store, tmp_path):
    before = killing.contents(store)
    path = source(tmp_path, 30, 90)
    plan = convert(path, store, region={"time": slice(30, 90)}, dry_run=True, memory="1MiB")
    assert killing.contents(store) == before
    assert (plan.bytes_in, plan.bytes_out, plan.bytes_between) == (60 * LAT * LON * 4, 60 * LAT * LON * 4, 0)
    assert plan.memory_per_worker <= 1 << 20
    report = convert(path, store, region={"time": slice(30, 90)})
    assert (plan.variables, plan.chunks, plan.notes) == (report.variables, report.chunks, report.notes)
    with pytest.raises(ConformError, match="not on whole chunks"):
        convert(source(tmp_path, 0, 10), store, region={"time": slice(0, 10)}, dry_run=True)


def test_parts_may_be_written_at_the_same_time_but_not_while_an_append_is_under_way(store, tmp_path):
    parts = [(a, source(tmp_path, a, a + 30, name=f"{a}.nc")) for a in (0, 30, 60)]
    failed = []

    def write(first, path):
        try:
            convert(path, store, region={"time": slice(first, first + 30)}, workers=1)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=write, args=p) for p in parts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    np.testing.assert_array_equal(tas(store), dataset()["tas"].values)
    with place_of(store).writer("appending") as claim:
        claim.record(b"{}")
    with pytest.raises(TargetError, match="an append to it was interrupted"):
        convert(parts[0][1], store, region={"time": slice(0, 30)})


@pytest.mark.parametrize(("first", "last", "held"), [(0, 40, False), (40, 50, True)])
def test_an_append_waits_only_for_parts_whose_last_chunk_it_would_write_again(tmp_path, first, last, held):
    convert(source(tmp_path, 0, 50), tmp_path / "out.zarr", variables=["tas"], chunks={"time": 20})
    found = []

    def appending(_done, _total):
        try:
            with place_of(tmp_path / "out.zarr").writer("appending"):
                found.append(False)
        except TargetError:
            found.append(True)

    convert(
        source(tmp_path, first, last), tmp_path / "out.zarr", variables=["tas"], progress=appending,
        region={"time": slice(first, last)},
    )  # fmt: skip
    assert set(found) == {held}


def test_the_command_takes_positions(store, tmp_path, capsys):
    path = source(tmp_path, 30, 60)
    assert main(["convert", str(path), str(store), "--region", "time=30:60", "--quiet"]) == 0
    np.testing.assert_array_equal(tas(store)[30:60], dataset(30, 60)["tas"].values)
    assert main(["convert", str(path), str(store), "--region", "time=30"]) == 2
    assert "like time=31:59" in capsys.readouterr().err


def test_elements_are_written_where_a_store_does_not_say_what_absent_ones_are(tmp_path):
    for name in ("a.zarr", "b.zarr"):
        zarr.open_group(tmp_path / name, mode="w", zarr_format=2).create_array(
            "v", shape=(4,), chunks=(2,), dtype="i4", fill_value=0, attributes={"_ARRAY_DIMENSIONS": ["x"]}
        )
        path = tmp_path / name / "v" / ".zarray"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"fill_value": None}))
    zarr.open_array(tmp_path / "a.zarr" / "v", config={"write_empty_chunks": True})[:] = 0
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", region={"x": slice(0, 4)})
    assert {p.name for p in (tmp_path / "b.zarr" / "v").iterdir()} >= {"0", "1"}


def test_two_runs_that_write_the_same_part_do_not_disturb_each_other(store, tmp_path, monkeypatch):
    path, replace_file, begun = source(tmp_path, 30, 60), local_place.replace_file, []

    def slow(new, target):
        if not begun:
            begun.append(new)
            convert(path, store, region={"time": slice(30, 60)})
            assert new.exists()
        replace_file(new, target)

    monkeypatch.setattr(local_place, "replace_file", slow)
    convert(path, store, region={"time": slice(30, 60)})
    np.testing.assert_array_equal(tas(store)[30:60], dataset()["tas"].values[30:60])
    assert [p.name for p in store.iterdir() if p.name.startswith(".")] == []


def test_a_last_chunk_that_was_filled_meanwhile_is_not_written_again(tmp_path, monkeypatch):
    convert(source(tmp_path, 0, 50), tmp_path / "out.zarr", variables=["tas"], chunks={"time": 20})

    def late(*given):
        append(tmp_path / "out.zarr", dataset(50, 55), "time")
        return write(*given)

    write = region._write
    monkeypatch.setattr(region, "_write", late)
    with pytest.raises(TargetError, match="'tas' was meanwhile changed by another process, so nothing was written"):
        convert(
            source(tmp_path, 40, 50, scale=2), tmp_path / "out.zarr", variables=["tas"], region={"time": slice(40, 50)}
        )
    np.testing.assert_array_equal(tas(tmp_path / "out.zarr"), dataset(0, 55)["tas"].values)


def test_a_worker_that_is_late_finds_its_folder_gone_though_it_writes_while_that_is_removed(tmp_path, monkeypatch):
    folder, remove = files.NewFolder(tmp_path, ".cfagg-region-"), files.remove
    (folder.path / "file.1").touch()

    def removed(path):
        with suppress(FileNotFoundError):
            (folder.path / "file.2").touch()
        remove(path)

    monkeypatch.setattr(files, "remove", removed)
    folder.remove(done=False)
    assert list(tmp_path.iterdir()) == []
