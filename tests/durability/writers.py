"""Every writer of cfagg as a command, with what has to be found before, meanwhile and after it.

The oracles are zarr-python, netCDF4, pyarrow and NumPy; and cfagg's own readers have to agree with them or refuse.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import netCDF4
import numpy as np
import pandas as pd
import xarray as xr
import zarr
from pyarrow import parquet

import cfagg
from cfagg.accumulation.freshness import check as check_fresh
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.cli import messages
from cfagg.cli.main import main
from cfagg.errors import CfaggError, StaleIndexWarning
from cfagg.observations.exchange.netcdf_write import export_netcdf
from cfagg.observations.exchange.parquet import export_parquet
from cfagg.observations.store import open_store
from tests.aggregation.months import month

STEPS, LAT, LON = 9, 6, 8


@dataclass(frozen=True)
class Writer:
    """One writer.

    Parameters
    ----------
    name : str
        What it is called.
    prepare : callable
        Writes what the run starts from: ``sources`` and ``out`` in a directory.
    run, again : callable
        The run, and the one that finishes what became of it; both return an exit status.
    state : callable
        Returns ``"old"`` or ``"new"``, whichever is there whole; raises `AssertionError` for anything else.
    names : tuple of str
        What is in ``out`` after a completed run.
    says : bool
        Whether it says what failed; a report holds that itself.
    lacks : tuple of str
        What the file system answers that does not know some calls.
    """

    name: str
    prepare: Callable[[pathlib.Path], None]
    run: Callable[[pathlib.Path], int]
    again: Callable[[pathlib.Path], int]
    state: Callable[[pathlib.Path], str]
    names: tuple[str, ...]
    says: bool = True
    lacks: tuple[str, ...] = ()

    def litter(self, folder: pathlib.Path) -> list[str]:
        """Return what is there and should not be after a completed run."""
        out = folder / "out"
        more = {p.name for p in out.iterdir()} - set(self.names)
        known = {".zarray", ".zattrs", ".zgroup", ".zmetadata"}
        hidden = {str(p.relative_to(out)) for p in out.rglob(".*") if p.name not in known}
        parts = {str(p.relative_to(out)) for p in out.rglob("*") if p.suffix in (".part", ".new", ".aside")}
        return sorted(more | hidden | parts)


def command(*arguments: object) -> int:
    """Run a command line; what it says of errors is loaded, so that none of them hits an import."""
    check(messages, "loaded")
    return main([str(a) for a in arguments])


def check(value: object, said: object) -> None:
    """Raise where something is not so; `python -O` has no say in it."""
    if not value:
        raise AssertionError(said)


# Conversion ----------------------------------------------------------------------------------------------------------


def field(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(280, 10, (STEPS, LAT, LON)).astype("f4")


def write_netcdf(path: pathlib.Path, seed: int) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for name, n in (("time", STEPS), ("lat", LAT), ("lon", LON)):
            file.createDimension(name, n)
        file.createVariable("tas", "f4", ("time", "lat", "lon"), chunksizes=(2, LAT, LON))[:] = field(seed)
        file.createVariable("lat", "f8", ("lat",))[:] = np.linspace(-75, 75, LAT)


def prepare_conversion(folder: pathlib.Path, *, old: bool) -> None:
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    write_netcdf(folder / "sources" / "new.nc", 2)
    if old:
        write_netcdf(folder / "sources" / "old.nc", 1)
        check(
            command("convert", folder / "sources" / "old.nc", folder / "out" / "a.zarr", "--chunks", "time=2") == 0,
            "not prepared",
        )


def convert(folder: pathlib.Path, *options: str) -> int:
    source, target = folder / "sources" / "new.nc", folder / "out" / "a.zarr"
    return command("convert", source, target, "--chunks", "time=2", "--workers", 1, *options)


def state_of_conversion(folder: pathlib.Path, *, old: bool) -> str:
    store = folder / "out" / "a.zarr"
    if not store.exists():
        check(not old, "the old store is gone")
        return "old"
    found = zarr.open_group(store, mode="r")
    tas, lat = found["tas"][:], found["lat"][:]
    check(np.array_equal(lat, np.linspace(-75, 75, LAT)), "lat")
    values = cfagg.open_accumulated  # a name, so that a reader of cfagg is loaded
    check(values is not None, "reader")
    for name, seed in (("new", 2), ("old", 1)):
        if np.array_equal(tas, field(seed)):
            check(name == "new" or old, "an old store that never was")
            return name
    raise AssertionError("the store has values of neither")


def prepare_file(folder: pathlib.Path) -> None:
    prepare_conversion(folder, old=False)
    write_netcdf(folder / "out" / "a.nc", 1)


def convert_to_file(folder: pathlib.Path) -> int:
    packed = ("--codec", "gzip", "--variable", "tas", "--variable", "lat", "--workers", 1, "--overwrite")
    return command("convert", folder / "sources" / "new.nc", folder / "out" / "a.nc", *packed)


def state_of_file(folder: pathlib.Path) -> str:
    with netCDF4.Dataset(folder / "out" / "a.nc") as file:
        tas, lat = file["tas"][:], file["lat"][:]
    check(np.array_equal(lat, np.linspace(-75, 75, LAT)), "lat")
    for name, seed in (("new", 2), ("old", 1)):
        if np.array_equal(tas, field(seed)):
            return name
    raise AssertionError("the file has values of neither")


# Appending -----------------------------------------------------------------------------------------------------------


def prepare_append(folder: pathlib.Path) -> None:
    prepare_conversion(folder, old=True)
    check(append_again is not None and state_of_append(folder) == "old", "not prepared")


def append(folder: pathlib.Path) -> int:
    source = folder / "sources" / "new.nc"
    return command("append", folder / "out" / "a.zarr", source, "--dim", "time", "--workers", 1)


def append_again(folder: pathlib.Path) -> int:
    if state_of_append(folder) == "old":
        return append(folder)
    # Nothing is appended twice, and what was left is removed.
    cfagg.append(folder / "out" / "a.zarr", {"tas": np.empty((0, LAT, LON), "f4")}, "time")
    return 0


def state_of_append(folder: pathlib.Path) -> str:
    store = folder / "out" / "a.zarr"
    tas = zarr.open_consolidated(store, mode="r")["tas"]
    both = np.concatenate([field(1), field(2)])
    check(tas.shape[0] in (STEPS, 2 * STEPS), f"shape {tas.shape}")
    check(np.array_equal(tas[:], both[: tas.shape[0]]), "values")
    alone = zarr.open_array(store / "tas", mode="r")
    check(np.array_equal(alone[:], both[: alone.shape[0]]), "values of the array alone")
    return "old" if tas.shape[0] == STEPS else "new"


def many(seed: int, begin: int) -> xr.Dataset:
    """Return several variables along time, which begin at a step: more files than are forced to disk one by one."""
    values, steps = field(seed), np.arange(begin, begin + STEPS)
    names = np.array([f"station {n}" + "é" * (n % 5) for n in steps], object)
    found = {f"v{k}": (("time", "lat", "lon"), values + k) for k in range(5)}
    found["packed"] = (("time", "lat", "lon"), values * 2)
    return xr.Dataset({**found, "name": ("time", names)}, {"time": steps})


def prepare_append_to_many(folder: pathlib.Path) -> None:
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    encoding = {f"v{k}": {"chunks": (2 + k, LAT, LON)} for k in range(5)}
    encoding["packed"] = {"chunks": (2, LAT, LON), "shards": (4, LAT, LON)}
    many(1, 0).to_zarr(folder / "out" / "a.zarr", encoding={**encoding, "name": {"chunks": (4,)}}, zarr_format=3)
    np.save(folder / "sources" / "new.npy", field(2))
    check(append_to_many_again is not None and state_of_many(folder) == "old", "not prepared")


def append_to_many(folder: pathlib.Path) -> int:
    try:
        cfagg.append(folder / "out" / "a.zarr", many(2, STEPS), "time", workers=1)
    except CfaggError as error:
        print(f"error: {error}")
        return 2
    return 0


def append_to_many_again(folder: pathlib.Path) -> int:
    if state_of_many(folder) == "old":
        return append_to_many(folder)
    cfagg.append(folder / "out" / "a.zarr", many(2, STEPS).isel(time=slice(0, 0)), "time")
    return 0


def state_of_many(folder: pathlib.Path) -> str:
    wanted = xr.concat([many(1, 0), many(2, STEPS)], "time")
    store = folder / "out" / "a.zarr"
    with xr.open_zarr(store, consolidated=True) as found:
        steps = found.sizes["time"]
        check(steps in (STEPS, 2 * STEPS), f"{steps} steps")
        check(found.load().equals(wanted.isel(time=slice(steps))), "values")
    for name in wanted.variables:
        alone = zarr.open_array(store / str(name), mode="r")[:]
        check(np.array_equal(alone, wanted[name].values[: len(alone)]), f"values of {name} alone")
    return "old" if steps == STEPS else "new"


def prepare_append_beside_sums(folder: pathlib.Path) -> None:
    """As for an append, with sums that have grown in their place before."""
    prepare_conversion(folder, old=False)
    store, old = folder / "out" / "a.zarr", folder / "sources" / "old.nc"
    write_netcdf(old, 1)
    with xr.open_dataset(old) as whole:
        for name, part in (("begin", slice(0, 4)), ("end", slice(4, None))):
            whole.isel(time=part).to_netcdf(folder / "sources" / f"{name}.nc")
    begun = command("convert", folder / "sources" / "begin.nc", store, "--chunks", "time=2")
    check(begun == 0 and command("accumulate", store, "tas", "--workers", 1) == 0, "not prepared")
    check(command("append", store, folder / "sources" / "end.nc", "--dim", "time") == 0, "not prepared")
    check(state_of_append(folder) == "old" and sums_answer(folder), "not prepared")


def append_beside_sums(folder: pathlib.Path) -> int:
    """Append; what the command warns of is a failure here."""
    return append(folder) or int(not sums_answer(folder))


def append_beside_sums_again(folder: pathlib.Path) -> int:
    status = append_again(folder)
    if status == 0 and not sums_answer(folder):
        # Files that a run has written are other files once a disk was restored; their bytes are compared.
        status = adopt(folder)
        check(status or sums_answer(folder), "the accumulation refuses what it has adopted")
    return status


def state_beside_sums(folder: pathlib.Path) -> str:
    found = state_of_append(folder)
    sums_answer(folder)
    return found


def sums_answer(folder: pathlib.Path) -> bool:
    """Whether an accumulation answers; raise where that is wrong."""
    store = folder / "out" / "a.zarr"
    try:
        accumulated = cfagg.open_accumulated(store, "tas")
        steps = accumulated.sizes["time"]
        found = accumulated.sum("time", isel={"time": slice(1, steps - 1)}).values
        most = accumulated.max(isel={"time": slice(2, None)})
    except CfaggError:
        return False
    both = np.concatenate([field(1), field(2)])[:steps]
    check(np.allclose(found, both[1:-1].sum(0, dtype="f8"), rtol=1e-12), "wrong sums")
    check(most == both[2:].max(), "a wrong maximum")
    return True


#: What file systems of networks and clusters answer: two directories cannot be exchanged, there are no locks, and the
#: data of a whole file system are not forced to disk.
NETWORK = ("renameat2:error=EINVAL", "flock:error=ENOSYS", "syncfs:error=ENOSYS", "sync_file_range:error=ENOSYS")


def state_with_two_renames(folder: pathlib.Path) -> str:
    """Return whose store is there; between two renames it is the old one, under another name."""
    store, aside = folder / "out" / "a.zarr", folder / "out" / ".a.zarr.cfagg-partial" / "old"
    if store.exists() or not aside.exists():
        return state_of_conversion(folder, old=True)
    check(np.array_equal(zarr.open_group(aside, mode="r")["tas"][:], field(1)), "the old store is not whole")
    return "old"


def conversion(name: str, *, old: bool) -> Writer:
    more = ("--overwrite",) if old else ()

    def again(folder: pathlib.Path) -> int:
        return convert(folder, "--resume", *more)

    return Writer(
        name,
        lambda f: prepare_conversion(f, old=old),
        lambda f: convert(f, *more),
        again,
        lambda f: state_of_conversion(f, old=old),
        ("a.zarr",),
    )


def conversion_on_a_network() -> Writer:
    there = conversion("convert --overwrite on a network", old=True)
    return replace(there, state=state_with_two_renames, lacks=NETWORK)


# Accumulation --------------------------------------------------------------------------------------------------------


def prepare_array(folder: pathlib.Path, steps: int, form: int) -> None:
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    group = zarr.open_group(folder / "out" / "a.zarr", mode="w", zarr_format=form)
    names = {"dimension_names": ("time", "lat", "lon")} if form == 3 else {}
    array = group.create_array("tas", shape=(steps, LAT, LON), chunks=(2, LAT, LON), dtype="f4", **names)
    if form == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat", "lon"]
    array[:] = field(3)[:steps]
    zarr.consolidate_metadata(group.store)


def accumulate(folder: pathlib.Path, *options: str) -> int:
    store = folder / "out" / "a.zarr"
    return command("accumulate", store, "tas", "--dims", "time", "--workers", 1, *options)


def grow(folder: pathlib.Path) -> None:
    array = zarr.open_group(folder / "out" / "a.zarr", mode="r+", use_consolidated=False)["tas"]
    array.resize((STEPS, LAT, LON))
    array[6:] = field(3)[6:]


def state_of_sums(folder: pathlib.Path, old: int) -> str:
    """Return whose sums are there: `old` steps (0: none at all) or all of them."""
    store = folder / "out" / "a.zarr"
    values = zarr.open_group(store, mode="r", use_consolidated=False)["tas"][:]
    check(np.array_equal(values, field(3)), "the data themselves")
    place = store / "tas_accumulation_group"
    if not place.exists():
        check(not old, "the old sums are gone")
        return "old"
    group = open_group(store, "tas", check=False)
    sums = read_whole(group.sums["time",].data)
    edges = np.asarray(group.samples["time",][0])
    expected = np.cumsum(field(3).astype("f8"), axis=0)[edges - 1]
    check(np.allclose(sums, expected, rtol=1e-12), "sums that are nobody's")
    found = "new" if edges[-1] == STEPS else "old"
    check(found == "new" or edges[-1] == old, f"sums of {edges[-1]} steps")
    try:
        check_fresh(group)
        fresh = True
    except CfaggError:
        fresh = False
    check(fresh == (found == "new"), f"{found} sums, fresh: {fresh}")
    return found


def consolidated(folder: pathlib.Path) -> None:
    """Raise where consolidated metadata do not tell of the group that is there."""
    whole = zarr.open_group(folder / "out" / "a.zarr", mode="r", use_consolidated=True)
    single = zarr.open_group(folder / "out" / "a.zarr", mode="r", use_consolidated=False)
    if single.metadata.zarr_format == 2:
        # Left out of the table, so that xarray opens all groups that are in it.
        check("tas_accumulation_group" not in whole, "consolidated metadata tell of the group")
        return
    one, other = whole["tas_accumulation_group"], single["tas_accumulation_group"]
    check(dict(one.attrs) == dict(other.attrs), "consolidated metadata of another group")


def accumulation(name: str, *, old: int, form: int) -> Writer:
    def prepare(folder: pathlib.Path) -> None:
        prepare_array(folder, old or STEPS, form)
        if old:
            check(accumulate(folder) == 0, "not prepared")
            grow(folder)

    def again(folder: pathlib.Path) -> int:
        status = accumulate(folder, "--append" if old else "--resume")
        if status == 0:
            consolidated(folder)
        return status

    return Writer(
        name,
        prepare,
        lambda f: accumulate(f, *(("--append",) if old else ())),
        again,
        lambda f: state_of_sums(f, old),
        ("a.zarr",),
    )


def prepare_adoption(folder: pathlib.Path) -> None:
    """Write sums, and copy a chunk of the data as `cp` does: the same bytes, another file."""
    prepare_array(folder, STEPS, 3)
    check(accumulate(folder) == 0, "not prepared")
    chunk = min((folder / "out" / "a.zarr" / "tas").rglob("c/*/*/*"))
    data = chunk.read_bytes()
    chunk.unlink()
    chunk.write_bytes(data)


def adopt(folder: pathlib.Path) -> int:
    return command("accumulate", "--adopt", folder / "out" / "a.zarr", "tas")


def adopt_again(folder: pathlib.Path) -> int:
    status = adopt(folder)
    consolidated(folder)
    return status


def state_of_adoption(folder: pathlib.Path) -> str:
    """Return whether the sums, which are always the same, are taken for those of the data as they are now."""
    store = folder / "out" / "a.zarr"
    group = open_group(store, "tas", check=False)
    edges = np.asarray(group.samples["time",][0])
    expected = np.cumsum(field(3).astype("f8"), axis=0)[edges - 1]
    check(np.allclose(read_whole(group.sums["time",].data), expected, rtol=1e-12), "sums that are nobody's")
    known = zarr.open_group(store, mode="r", use_consolidated=False)["tas_accumulation_group"]
    stamps = known[known.attrs["cfagg"]["stamps"]][:]
    copied = min((store / "tas").rglob("c/*/*/*"))
    return "new" if copied.stat().st_ino in stamps[0] else "old"


# Observations --------------------------------------------------------------------------------------------------------


def reports(first: int, days: int) -> pd.DataFrame:
    """Observations of some days, in order."""
    chance = np.random.default_rng(first)
    n = 40 * days
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(40 * (first - 1), 40 * (first - 1) + n) * 2160, "s")
    return pd.DataFrame(
        {
            "date": dates,
            "latitude": chance.integers(-90, 91, n).astype("f8"),
            "longitude": chance.integers(0, 360, n).astype("f8"),
            "t": chance.normal(280, 10, n).astype("f4"),
        }
    )


def write_reports(folder: pathlib.Path) -> None:
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    pd.concat([reports(d, 1) for d in (1, 2, 3, 4)]).to_parquet(folder / "sources" / "a.parquet")
    for name, end in (("short", 2), ("long", 4)):
        recipe = {
            "dates": {"start": "2020-01-01", "end": f"2020-01-0{end}T23:59:59", "frequency": "1d"},
            "input": {"parquet": {"path": str(folder / "sources" / "a.parquet")}},
            "output": {"layout": "tabular", "format": "zarr2", "rows_per_chunk": 30},
            "build": {"group_by": "daily"},
        }
        # YAML holds all of JSON.
        (folder / "sources" / f"{name}.yaml").write_text(json.dumps(recipe))


def build(folder: pathlib.Path, name: str, *options: str) -> int:
    recipe, store = folder / "sources" / f"{name}.yaml", folder / "out" / "a.zarr"
    return command("obs", "create", recipe, store, "--workers", 1, *options)


def state_of_rows(folder: pathlib.Path, *, old: bool) -> str:
    store = folder / "out" / "a.zarr"
    if not store.exists():
        check(not old, "the old store is gone")
        return "old"
    opened = open_store(store)
    rows = zarr.open_group(store, mode="r", use_consolidated=False)["data"][:]
    check(np.array_equal(rows, opened.data.read(0, opened.rows), equal_nan=True), "cfagg reads other rows than zarr")
    days = {80: 2, 160: 4}.get(len(rows))
    check(days is not None, f"{len(rows)} rows")
    expected = pd.concat([reports(d, 1) for d in range(1, days + 1)])
    check(np.array_equal(rows[:, 4], expected["t"].to_numpy()), "values of neither")
    index = opened.index()
    check(index.kind == "pages" and not index.validate(full=True), "a wrong index")
    if days == 2:
        check(old, "an old store that never was")
        return "old"
    return "new"


def observations(name: str, *options: str, old: bool) -> Writer:
    def prepare(folder: pathlib.Path) -> None:
        write_reports(folder)
        if old:
            check(build(folder, "short") == 0, "not prepared")

    return Writer(
        name,
        prepare,
        lambda f: build(f, "long", *options),
        lambda f: build(f, "long", "--resume", *options),
        lambda f: state_of_rows(f, old=old),
        ("a.zarr",),
    )


def prepare_index(folder: pathlib.Path) -> None:
    write_reports(folder)
    check(build(folder, "long") == 0, "not prepared")
    # An older index of the same rows, with a mark of its own.
    document = folder / "out" / "a.zarr" / "index_pages" / ".zattrs"
    document.write_text(json.dumps({**json.loads(document.read_text()), "old": True}))


def state_of_index(folder: pathlib.Path) -> str:
    check(state_of_rows(folder, old=False) == "new", "rows")
    attributes = json.loads((folder / "out" / "a.zarr" / "index_pages" / ".zattrs").read_text())
    return "old" if attributes.get("old") else "new"


def index(folder: pathlib.Path) -> int:
    return command("obs", "index", folder / "out" / "a.zarr")


INDEX = Writer("index", prepare_index, index, index, state_of_index, ("a.zarr",))


def exporting(name: str, export: Callable[..., object], read: Callable[[pathlib.Path], np.ndarray]) -> Writer:
    target = {"parquet": "a.parquet", "netcdf": "a.nc"}[name]

    def prepare(folder: pathlib.Path) -> None:
        write_reports(folder)
        for end in ("short", "long"):
            check(build(folder, end, "--overwrite") == 0, "not prepared")
            (folder / "out" / "a.zarr").rename(folder / "sources" / f"{end}.zarr")
        export(open_store(folder / "sources" / "short.zarr"), folder / "out" / target)

    def run(folder: pathlib.Path) -> int:
        try:
            export(open_store(folder / "sources" / "long.zarr"), folder / "out" / target, overwrite=True)
        except CfaggError as error:
            print(f"error: {error.message}")
            return 2
        return 0

    def state(folder: pathlib.Path) -> str:
        values = read(folder / "out" / target)
        for found, days in (("old", 2), ("new", 4)):
            expected = pd.concat([reports(d, 1) for d in range(1, days + 1)])["t"].to_numpy()
            if np.array_equal(np.sort(values), np.sort(expected)):
                return found
        raise AssertionError("values of neither")

    return Writer(f"export {name}", prepare, run, run, state, (target,))


def read_parquet(path: pathlib.Path) -> np.ndarray:
    return pd.read_parquet(path)["t"].to_numpy()


def read_netcdf(path: pathlib.Path) -> np.ndarray:
    with netCDF4.Dataset(path) as file:
        return np.asarray(file["t"][:])


# Aggregation files ---------------------------------------------------------------------------------------------------


def prepare_translation(folder: pathlib.Path) -> None:
    """Write a file with fragments that is to be replaced, and an aggregation that needs one fragment of its own."""
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    for name, seed in (("old", 1), ("new", 2)):
        write_netcdf(folder / "sources" / f"{name}.nc", seed)
    old = xr.DataArray(field(1), dims=("time", "lat", "lon"), name="tas")
    cfagg.write(old, folder / "out" / "a.nc")
    data = {"shape": [STEPS, LAT, LON], "file": "new.nc", "ncvar": "tas"}
    records = [
        {"index": [0], "location": [[0, 4], [0, LAT], [0, LON]], "part": f"[(0, 4, 1), (0, {LAT}, 1), (0, {LON}, 1)]"},
        {"index": [1], "location": [[4, STEPS], [0, LAT], [0, LON]],
         "part": f"[(4, {STEPS}, 1), (0, {LAT}, 1), (0, {LON}, 1)]"},
    ]  # fmt: skip
    array = {"directions": {"time": True, "lat": True, "lon": True}, "pdimensions": ["time"], "pshape": [2]}
    array["Partitions"] = [{**record, "data": data} for record in records]
    with netCDF4.Dataset(folder / "sources" / "new.nca", "w") as file:
        for name, n in (("time", STEPS), ("lat", LAT), ("lon", LON)):
            file.createDimension(name, n)
        file.createVariable("tas", "f4", ()).setncatts(
            {"nca_dimensions": "time lat lon", "nca_array": json.dumps(array)}
        )


def translate(folder: pathlib.Path) -> int:
    options = ("--to", "CF-1.13", "--on-loss", "materialise", "--overwrite")
    return command("convert", folder / "sources" / "new.nca", folder / "out" / "a.nc", *options)


def state_of_aggregation(folder: pathlib.Path, name: str = "a.nc") -> str:
    with cfagg.read(folder / "out" / name, allow=[folder]) as found:
        values = found["tas"].values
    for state, seed in (("old", 1), ("new", 2)):
        if np.array_equal(values, field(seed)):
            return state
    raise AssertionError("the values are neither the old nor the new ones")


def prepare_rebase(folder: pathlib.Path) -> None:
    """Write an aggregation of one file, and the same file with other values in another directory."""
    (folder / "out").mkdir()
    for name, seed in (("sources", 1), ("moved", 2)):
        (folder / name).mkdir()
        write_netcdf(folder / name / "p.nc", seed)
    options = {"to": "CF-1.13", "variables": ["tas"]}
    cfagg.convert(folder / "sources" / "p.nc", folder / "out" / "a.nc", **options)


def rebase(folder: pathlib.Path, old: str = "sources") -> int:
    return command("rebase", folder / "out" / "a.nc", "--from", f"../{old}", "--to", "../moved")


def rebase_again(folder: pathlib.Path) -> int:
    """Finish; where it was finished already, the references are moved to where they are."""
    return rebase(folder, "sources" if state_of_aggregation(folder) == "old" else "moved")


def write_parts(folder: pathlib.Path) -> None:
    """Write an aggregation of some files, and keep what one of all of them is."""
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    (folder / "wanted").mkdir()
    for number in range(3):
        month(folder / "sources" / f"{number}.nc", number)
    for name, count in (("old", 2), ("new", 3)):
        cfagg.aggregate(parts(folder)[:count], output=folder / "wanted" / "a.nc", overwrite=True)
        for suffix in ("", ".cfagg-index"):
            shutil.copy(folder / "wanted" / f"a.nc{suffix}", folder / "wanted" / f"{name}{suffix}")
    for suffix in ("", ".cfagg-index"):
        shutil.copy(folder / "wanted" / f"old{suffix}", folder / "out" / f"a.nc{suffix}")


def parts(folder: pathlib.Path) -> list[pathlib.Path]:
    return [folder / "sources" / f"{number}.nc" for number in range(3)]


def add(folder: pathlib.Path) -> int:
    try:
        cfagg.aggregate(parts(folder)[2:], output=folder / "out" / "a.nc", append=True)
    except CfaggError as error:
        print(f"error: {error}")
        return 2
    return 0


def add_again(folder: pathlib.Path) -> int:
    """Finish; what was scanned is not scanned again, and the index is that of all files at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", StaleIndexWarning)
        status = add(folder)
    index = (folder / "out" / "a.nc.cfagg-index").read_bytes()
    check(index == (folder / "wanted" / "new.cfagg-index").read_bytes(), "another index")
    return status


def state_of_parts(folder: pathlib.Path) -> str:
    found = (folder / "out" / "a.nc").read_bytes()
    for state in ("old", "new"):
        if found == (folder / "wanted" / state).read_bytes():
            return state
    raise AssertionError("an aggregation of neither")


def prepare_overwritten(folder: pathlib.Path) -> None:
    write_parts(folder)
    (folder / "wanted" / "a.nc").unlink()


def aggregate_anew(folder: pathlib.Path) -> int:
    return command("aggregate", *parts(folder), "-o", folder / "out" / "a.nc", "--overwrite", "--workers", 1)


def aggregate_again(folder: pathlib.Path) -> int:
    """Finish; the index is that of all files."""
    status = aggregate_anew(folder)
    index = (folder / "out" / "a.nc.cfagg-index").read_bytes()
    check(index == (folder / "wanted" / "new.cfagg-index").read_bytes(), "another index")
    return status


def state_of_aggregated(folder: pathlib.Path) -> str:
    """Return which aggregation is there; what is read of it is right whatever index stands beside it."""
    state = state_of_parts(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        found = cfagg.read(folder / "out" / "a.nc", allow=folder / "sources")
    files = parts(folder)[: {"old": 2, "new": 3}[state]]
    wanted = []
    for path in files:
        with netCDF4.Dataset(path) as file:
            wanted.append(file["tas"][:])
    check(np.array_equal(found["tas"].values, np.ma.concatenate(wanted).filled(np.nan)), "values")
    return state


def prepare_offsets(folder: pathlib.Path) -> None:
    """Write an aggregation whose index is of files that have changed since, and keep what it has to become."""
    write_parts(folder)
    for path in parts(folder)[:2]:
        with netCDF4.Dataset(path, "a") as file:
            file["tas"][:] = file["tas"][:] + 1
    shutil.copy(folder / "out" / "a.nc.cfagg-index", folder / "wanted" / "stale")
    check(index_offsets(folder) == 0, "not prepared")
    shutil.copy(folder / "out" / "a.nc.cfagg-index", folder / "wanted" / "fresh")
    shutil.copy(folder / "wanted" / "stale", folder / "out" / "a.nc.cfagg-index")


def index_offsets(folder: pathlib.Path) -> int:
    return command("index", folder / "out" / "a.nc", "--allow", folder / "sources", "--workers", 1)


def state_of_offsets(folder: pathlib.Path) -> str:
    """Return which index is there; the aggregation is as it was, and its values are those of the files.

    A file that could not be opened has no row, or its old one, which is not believed; that is said and does not fail.
    """
    check(state_of_aggregated(folder) == "old", "another aggregation")
    path = folder / "out" / "a.nc.cfagg-index"
    if path.read_bytes() == (folder / "wanted" / "stale").read_bytes():
        return "old"
    tables = [parquet.read_table(p).to_pylist() for p in (path, *(folder / "wanted" / n for n in ("fresh", "stale")))]
    columns = ("path", "size", "mtime_ns", "digest", "variable", "shape", "offset", "length")
    found, fresh, stale = ({tuple(str(row[c]) for c in columns) for row in t if row["variable"]} for t in tables)
    check(found <= fresh | stale, f"rows of neither: {found - fresh - stale}")
    return "new"


# Fixes and reports ---------------------------------------------------------------------------------------------------


def prepare_fix(folder: pathlib.Path, *, form: str) -> None:
    (folder / "sources").mkdir()
    (folder / "out").mkdir()
    path = folder / "out" / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.11"
        file.createDimension("time", 5)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2001-01-01", "standard_name": "time", "calendar": "gregorian"})
        time[:] = np.arange(5)
        tas = file.createVariable("tas", "f4", ("time",))
        tas.setncatts({"units": "K", "standard_name": "air_temperature"})
        tas[:] = field(4)[:5, 0, 0]
    if form == "zarr":
        check(command("convert", path, folder / "out" / "a.zarr") == 0, "not prepared")
        path.unlink()


def fix(folder: pathlib.Path, form: str) -> int:
    name = "a.zarr" if form == "zarr" else "a.nc"
    return command("check", folder / "out" / name, "--fix", "--in-place")


def state_of_fix(folder: pathlib.Path, *, form: str) -> str:
    path = folder / "out" / ("a.zarr" if form == "zarr" else "a.nc")
    check(path.exists(), "the dataset is gone")
    if form == "zarr":
        group = zarr.open_group(path, mode="r", use_consolidated=False)
        values, calendar = group["tas"][:], group["time"].attrs["calendar"]
        whole = zarr.open_group(path, mode="r", use_consolidated=True)
        check(whole["time"].attrs["calendar"] == calendar, "consolidated metadata of another state")
    else:
        with netCDF4.Dataset(path) as file:
            values, calendar = np.asarray(file["tas"][:]), file["time"].calendar
    check(np.array_equal(values, field(4)[:5, 0, 0]), "values")
    return {"gregorian": "old", "standard": "new"}[calendar]


def fixing(form: str) -> Writer:
    return Writer(
        f"fix {form}",
        lambda f: prepare_fix(f, form=form),
        lambda f: fix(f, form),
        lambda f: fix(f, form),
        lambda f: state_of_fix(f, form=form),
        ("a.zarr" if form == "zarr" else "a.nc",),
    )


def prepare_report(folder: pathlib.Path) -> None:
    prepare_fix(folder, form="netcdf")
    shutil.move(folder / "out" / "a.nc", folder / "sources" / "a.nc")
    (folder / "out" / "report.json").write_text('"old"')


def report(folder: pathlib.Path) -> int:
    target = folder / "out" / "report.json"
    source = folder / "sources" / "a.nc"
    return command("check", source, "--format", "json", "-o", target, "--overwrite")


def state_of_report(folder: pathlib.Path) -> str:
    found = json.loads((folder / "out" / "report.json").read_text())
    if found == "old":
        return "old"
    check("a.nc" in json.dumps(found), "a report of something else")
    return "new"


WRITERS = {
    w.name: w
    for w in (
        conversion("convert", old=False),
        conversion("convert --overwrite", old=True),
        conversion_on_a_network(),
        Writer("convert to netCDF", prepare_file, convert_to_file, convert_to_file, state_of_file, ("a.nc",)),
        Writer(
            "append to many arrays",
            prepare_append_to_many,
            append_to_many,
            append_to_many_again,
            state_of_many,
            ("a.zarr",),
        ),
        Writer("append", prepare_append, append, append_again, state_of_append, ("a.zarr",)),
        Writer(
            "append beside sums",
            prepare_append_beside_sums,
            append_beside_sums,
            append_beside_sums_again,
            state_beside_sums,
            ("a.zarr",),
        ),
        accumulation("accumulate", old=0, form=3),
        accumulation("accumulate --append", old=6, form=2),
        Writer("accumulate --adopt", prepare_adoption, adopt, adopt_again, state_of_adoption, ("a.zarr",)),
        observations("obs create", old=False),
        observations("obs create --overwrite", "--overwrite", old=True),
        observations("obs append", "--append", old=True),
        INDEX,
        exporting("parquet", export_parquet, read_parquet),
        exporting("netcdf", export_netcdf, read_netcdf),
        Writer(
            "translate",
            prepare_translation,
            translate,
            translate,
            state_of_aggregation,
            ("a.nc", *(f"a.nc.fragments{n}" for n in ("", "-2", "-3"))),
        ),
        Writer("aggregate --append", write_parts, add, add_again, state_of_parts, ("a.nc", "a.nc.cfagg-index")),
        Writer(
            "aggregate --overwrite",
            prepare_overwritten,
            aggregate_anew,
            aggregate_again,
            state_of_aggregated,
            ("a.nc", "a.nc.cfagg-index"),
        ),
        Writer(
            "byte-offset index",
            prepare_offsets,
            index_offsets,
            index_offsets,
            state_of_offsets,
            ("a.nc", "a.nc.cfagg-index"),
        ),
        Writer("rebase", prepare_rebase, rebase, rebase_again, state_of_aggregation, ("a.nc",)),
        fixing("netcdf"),
        fixing("zarr"),
        Writer("report", prepare_report, report, report, state_of_report, ("report.json",), says=False),
    )
}
