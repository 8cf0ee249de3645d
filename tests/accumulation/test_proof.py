"""Proof of freshness: an answer is that of the data as they are now, or there is none."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.accumulation import adopting, freshness
from cfagg.accumulation.accumulating import accumulate
from cfagg.errors import (
    CfaggError,
    ConventionError,
    FragmentReadError,
    OptionError,
    StaleError,
    TargetError,
    UnsupportedError,
)
from tests.effort import examples

SHAPE, CHUNKS = (18, 8, 10), (4, 4, 5)
SMALL = (14, 6, 7)
STATISTICS = ("sum", "mean", "count", "min", "max", "std")


def write(store, seed=0, zarr_format=3, values=None, **options):
    """Write a store with one array and its coordinates; return the values."""
    values = np.random.default_rng(seed).normal(10, 3, SHAPE) if values is None else values
    ds = xr.Dataset(
        {"tas": (("time", "lat", "lon"), values)},
        {
            "time": ("time", np.arange(SHAPE[0]), {"units": "days since 2001-01-01"}),
            "lat": ("lat", np.linspace(-70, 70, SHAPE[1]), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(0.0, 360, 36), {"units": "degrees_east"}),
            "area": (("lat", "lon"), np.ones(SHAPE[1:]) + np.arange(8)[:, None]),
        },
    )
    ds = ds.reset_coords("area")
    encoding = {"tas": {"chunks": CHUNKS, **options}, "area": {"chunks": CHUNKS[1:]}}
    ds.to_zarr(store, zarr_format=zarr_format, encoding=encoding, consolidated=False)
    return values


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.zarr"
    write(path)
    accumulate(path, "tas")
    return path


@pytest.fixture
def plain(tmp_path):
    """A store whose chunks are not compressed: other values take as many bytes."""
    path = tmp_path / "a.zarr"
    write(path, compressors=None)
    accumulate(path, "tas")
    return path


def chunk(store, *index, name="tas"):
    return store / name / "c" / "/".join(map(str, index))


def mean(store, **options):
    return cfagg.open_accumulated(store, "tas", **options).mean().item()


def contents(path):
    """Return name, bytes and times of everything below a directory."""
    return {
        str(p): (p.stat().st_mtime_ns, p.stat().st_ctime_ns, p.read_bytes() if p.is_file() else b"")
        for p in sorted(path.rglob("*"))
    }


def refused(store, *words, **options):
    with pytest.raises(StaleError) as caught:
        mean(store, **options)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


# ---- copies ----------------------------------------------------------------------------------------------------


def by_tar(old, new):
    new.mkdir()
    subprocess.run(f"tar -C '{old}' -c . | tar -C '{new}' -x", shell=True, check=True)


def by_git(old, new):
    shutil.copytree(old, new)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C"]
    for options in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, new, *options], check=True)
    for path in new.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    subprocess.run([*git, new, "checkout", "-q", "."], check=True)
    shutil.rmtree(new / ".git")


def by_rsync(old, new):
    subprocess.run(["rsync", "-rt", f"{old}/", f"{new}/"], check=True)


COPIES = {
    "cp -r": lambda old, new: subprocess.run(["cp", "-r", old, new], check=True),
    "cp -a": lambda old, new: subprocess.run(["cp", "-a", old, new], check=True),
    "copytree": shutil.copytree,
    "tar": by_tar,
    "git": by_git,
    "rsync": by_rsync,
}


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_refused_until_it_is_adopted(tmp_path, how, zarr_format):
    if how in ("git", "rsync") and shutil.which(how) is None:
        pytest.skip(f"{how} is not installed")
    old, new = tmp_path / "a.zarr", tmp_path / "copy of a.zarr"
    values = write(old, zarr_format=zarr_format)
    accumulate(old, "tas", weights="area")
    expected = mean(old)
    COPIES[how](old, new)
    refused(new, f"cfagg accumulate --adopt '{new}' tas")
    report = accumulate(new, "tas", adopt=True)
    assert report.action == "adopted"
    assert mean(new) == expected
    assert cfagg.open_accumulated(new, "tas").count().item() == values.size
    assert accumulate(new, "tas", adopt=True).action == "up to date"
    assert sorted(p.name for p in new.iterdir()) == sorted(p.name for p in old.iterdir())


def test_adopting_twice_and_appending_afterwards_goes_on(tmp_path):
    first, second, third = (tmp_path / n for n in "abc")
    values = write(first)
    accumulate(first, "tas", dims=["time"])
    for old, new in ((first, second), (second, third)):
        shutil.copytree(old, new)
        accumulate(new, "tas", adopt=True)
    more = np.random.default_rng(5).normal(10, 3, (3, *SHAPE[1:]))
    added = xr.Dataset({"tas": (("time", "lat", "lon"), more)}, {"time": np.arange(18, 21)})
    added["time"].attrs["units"] = "days since 2001-01-01"
    added.to_zarr(third, append_dim="time", consolidated=False)
    assert accumulate(third, "tas", append=True).action == "appended"
    found = cfagg.open_accumulated(third, "tas").mean("time").values
    np.testing.assert_allclose(found, np.concatenate([values, more]).mean(axis=0))


def test_a_store_that_cannot_be_written_to_is_adopted_in_memory(store, tmp_path):
    copied = tmp_path / "copy.zarr"
    shutil.copytree(store, copied)
    before = contents(copied)
    assert mean(copied, adopt=True) == mean(store)
    assert contents(copied) == before
    refused(copied)


@pytest.mark.parametrize("how", ["on disk", "in memory"])
def test_a_copy_with_one_other_value_of_the_same_size_and_time_is_not_adopted(plain, tmp_path, how):
    copied = tmp_path / "copy.zarr"
    shutil.copytree(plain, copied)
    path = chunk(copied, 2, 1, 0)
    status, data = path.stat(), bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = contents(copied)
    ask = {"on disk": accumulate, "in memory": cfagg.open_accumulated}[how]
    with pytest.raises(StaleError, match=r"(?s)chunk \(2, 1, 0\): has other contents") as caught:
        ask(copied, "tas", adopt=True)
    assert "chunk (2, 1, 1)" not in str(caught.value)
    assert contents(copied) == before


def test_removed_and_made_chunks_are_not_adopted(store):
    kept = chunk(store, 0, 0, 0).read_bytes()
    chunk(store, 0, 0, 0).unlink()
    with pytest.raises(StaleError, match=r"chunk \(0, 0, 0\): no longer stored"):
        accumulate(store, "tas", adopt=True)
    chunk(store, 0, 0, 0).write_bytes(kept)
    assert accumulate(store, "tas", adopt=True).action == "adopted"


def test_what_is_described_in_another_way_is_not_adopted(store):
    path = store / "tas/zarr.json"
    path.write_text(path.read_text().replace('"fill_value": "NaN"', '"fill_value": 0.0').replace("NaN", "0.0"))
    with pytest.raises(StaleError, match="--refresh"):
        accumulate(store, "tas", adopt=True)


@pytest.fixture
def copied(plain, tmp_path):
    """A copy of a store, which is not adopted yet."""
    shutil.copytree(plain, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["tas", "lat"])
def test_what_is_written_while_a_copy_is_compared_is_not_adopted(copied, name):
    path = next(p for p in (copied / name / "c").rglob("*") if p.is_file())
    waited = []

    def look(done, total):
        if not waited:
            waited.append(time.sleep(0.02))
            path.write_bytes(path.read_bytes())

    before = contents(copied / "tas_accumulation_group")
    with pytest.raises(StaleError, match=f"{name!r} was written to while it was compared; run again .* --adopt"):
        accumulate(copied, "tas", adopt=True, progress=look)
    assert contents(copied / "tas_accumulation_group") == before
    refused(copied, "--adopt")


def test_sums_that_are_written_while_a_copy_is_compared_are_not_overwritten(copied):
    def look(done, total):
        os.utime(copied / "tas_accumulation_group" / "zarr.json")

    with pytest.raises(
        StaleError, match="the accumulation of 'tas' was written by another process meanwhile; run again"
    ):
        accumulate(copied, "tas", adopt=True, progress=look)
    refused(copied, "--adopt")


@pytest.mark.few(1)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_adoption_that_fails_leaves_sums_that_were_adopted_or_were_not(copied, monkeypatch, moment):
    real = adopting.put_attributes

    def full(*arguments):
        if moment == "after":
            real(*arguments)
        raise OSError(28, os.strerror(28))

    group = copied / "tas_accumulation_group"
    before = sorted(group.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "put_attributes", full)
        with pytest.raises(TargetError, match="No space left"):
            accumulate(copied, "tas", adopt=True)
    if moment == "before":
        assert sorted(group.iterdir()) == before
        refused(copied, "--adopt")
        assert accumulate(copied, "tas", adopt=True).action == "adopted"
    else:
        mean(copied)
        assert accumulate(copied, "tas", adopt=True).action == "up to date"
    assert len(sorted(group.iterdir())) == len(before)
    mean(copied)


def test_progress_of_adopting_counts_the_bytes_that_are_read(copied):
    seen = []
    report = accumulate(copied, "tas", adopt=True, progress=lambda *now: seen.append(now))
    sizes = [p.stat().st_size for name in ("tas", "time", "lat", "lon") for p in (copied / name / "c").rglob("*")
             if p.is_file()]  # fmt: skip
    assert seen[-1] == (sum(sizes), sum(sizes))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) == len(sizes)
    assert report.notes == (
        f"{len(sizes):,} of {len(sizes):,} stored objects were read ({sum(sizes):,} bytes), and are the same",
    )


def test_what_is_not_the_same_in_a_copy_is_named_with_its_sizes(copied):
    chunk(copied, 1, 0, 0).unlink()
    chunk(copied, 2, 0, 0).write_bytes(b"\0" * 10)
    path = chunk(copied, 3, 0, 0)
    path.write_bytes(bytes(reversed(path.read_bytes())))
    zarr.open_array(copied / "lon", mode="r+")[0] = 5
    with pytest.raises(StaleError) as caught:
        accumulate(copied, "tas", adopt=True)
    assert [str(p) for p in caught.value.problems] == [
        "chunk (1, 0, 0): no longer stored",
        "chunk (2, 0, 0): 640 bytes before, now 10",
        "chunk (3, 0, 0): has other contents",
        *[str(p) for p in caught.value.problems[3:]],
    ]
    assert [p.where for p in caught.value.problems[3:]] == ["'lon', object (0,)"]


def test_of_many_chunks_that_are_not_the_same_the_first_are_named(copied):
    shutil.rmtree(copied / "tas" / "c")
    with pytest.raises(StaleError) as caught:
        accumulate(copied, "tas", adopt=True)
    assert len(caught.value.problems) == 16
    assert str(caught.value.problems[-1]) == "5 more"


def test_adopting_excludes_what_builds(store):
    for options in ({"refresh": True}, {"resume": True}, {"dry_run": True}, {"overwrite": True}):
        with pytest.raises(UnsupportedError, match="adopt"):
            accumulate(store, "tas", adopt=True, **options)


def test_an_accumulation_of_the_former_version_is_to_be_built_anew(store):
    path = store / "tas_accumulation_group/zarr.json"
    document = json.loads(path.read_text())
    document["attributes"]["cfagg"] = {"version": 1, "source": {"token": "00"}}
    path.write_text(json.dumps(document))
    refused(store, "earlier version", f"cfagg accumulate {store} tas --overwrite")
    assert accumulate(store, "tas", overwrite=True).action == "rebuilt"
    mean(store)


# ---- ways to change a file without being seen -------------------------------------------------------------------


def other_bytes(path):
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    return bytes(data)


def in_place(path):
    data = other_bytes(path)
    with path.open("r+b") as file:
        file.write(data)


def by_rename(path):
    new = path.with_name("new")
    new.write_bytes(other_bytes(path))
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.rename(path)


def by_memory_map(path):
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[40] ^= 1
        memory.flush()


def maps_set_times(path):
    """Return whether the file system sets the time of a file each time it is written through a memory map."""
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0] = 1
        memory.flush()
        os.utime(path, ns=(0, 0))
        memory[1] = 1
        memory.flush()
    return path.stat().st_mtime_ns != 0


def through_a_hard_link(path):
    other = path.with_name("other")
    os.link(path, other)
    in_place(other)
    other.unlink()


def through_a_symbolic_link(path):
    other = path.with_name("other")
    other.write_bytes(other_bytes(path))
    path.unlink()
    path.symlink_to(other)


WAYS = [in_place, by_rename, by_memory_map, through_a_hard_link, through_a_symbolic_link]


@pytest.mark.few(2)
@pytest.mark.parametrize("opened", ["before", "after"])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_changed_bit_is_noticed_though_size_and_time_are_set_back(plain, way, opened):
    acc = cfagg.open_accumulated(plain, "tas") if opened == "before" else None
    path = chunk(plain, 1, 0, 1)
    status = path.stat()
    way(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    with pytest.raises(StaleError, match=r"chunk \(1, 0, 1\)"):
        (acc or cfagg.open_accumulated(plain, "tas")).mean()
    with pytest.raises(StaleError, match="has other contents"):
        accumulate(plain, "tas", adopt=True)


def test_a_map_that_was_dirty_before_the_build_is_noticed_when_it_is_written_again(tmp_path):
    store = tmp_path / "a.zarr"
    write(store, compressors=None)
    if not maps_set_times(tmp_path / "probe"):
        pytest.skip("the file system of the temporary directory keeps no times of writes through memory maps")
    with chunk(store, 0, 0, 0).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[40] ^= 1
        accumulate(store, "tas")
        mean(store)
        memory[41] ^= 1
        refused(store, "chunk (0, 0, 0)")


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["touch", "link", "mode"])
def test_what_leaves_contents_as_they_are_is_refused_and_can_be_adopted(store, change):
    path, expected = chunk(store, 0, 1, 1), mean(store)
    if change == "touch":
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "link":
        os.link(path, store / "other")
    else:
        path.chmod(0o600)
    refused(store, "chunk (0, 1, 1)", "--adopt")
    accumulate(store, "tas", adopt=True)
    assert mean(store) == expected


def test_a_chunk_of_another_build_of_the_same_size_is_noticed(plain, tmp_path):
    other = tmp_path / "other.zarr"
    write(other, seed=1, compressors=None)
    shutil.copy2(chunk(other, 0, 0, 0), chunk(plain, 0, 0, 0))
    refused(plain, "chunk (0, 0, 0)")


# ---- the answered range -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 3])
def asked(tmp_path_factory, request):
    """A store with sums and statistics of all orders, and the values it has."""
    store = tmp_path_factory.mktemp("range") / "a.zarr"
    values = np.random.default_rng(3).integers(-9, 9, SMALL).astype("f8")
    made = zarr.create_array(store, name="tas", shape=values.shape, chunks=(2, 2, 3), dtype="f8", compressors=None,
                             dimension_names=["t", "y", "x"])  # fmt: skip
    made[...] = values
    dims = [("t",), ("y", "x"), ("t", "y"), ("t", "y", "x")]
    accumulate(store, "tas", dims=dims, stride=request.param, statistics=("chunks", "min", "max", "std"))
    return store, values


def ranges(length):
    return st.tuples(st.integers(0, length - 1), st.integers(1, length)).map(lambda r: slice(r[0], r[0] + r[1]))


@pytest.mark.few(1)
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    box=st.tuples(ranges(14), ranges(6), ranges(7)),
    held=st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2)),
    dim=st.sampled_from([("t",), ("y", "x"), ("t", "y"), ("t", "y", "x"), ("x",), ("t", "x")]),
)
def test_an_answer_after_a_chunk_has_changed_is_right_or_refused_and_refused_only_if_near(asked, box, held, dim):
    store, values = asked
    path = store / "tas/c" / "/".join(map(str, held))
    cells = tuple(slice(h * n, (h + 1) * n) for h, n in zip(held, (2, 2, 3), strict=True))
    kept = path.read_bytes()
    now = values.copy()
    now[cells] += 1000
    # What the example before this one wrote back has other times.
    acc = cfagg.open_accumulated(store, "tas", adopt=True)
    block = np.zeros((2, 2, 3))
    part = now[cells]
    block[tuple(slice(n) for n in part.shape)] = part
    ends = [b.indices(n)[1] for b, n in zip(box, SMALL, strict=True)]
    inside = all(c.start < e and c.stop > b.start for c, b, e in zip(cells, box, ends, strict=True))
    isel = dict(zip("tyx", box, strict=True))
    axes = tuple("tyx".index(d) for d in dim)
    path.write_bytes(block.tobytes())
    refusals = []
    try:
        for statistic in STATISTICS:
            try:
                found = getattr(acc, statistic)(dim, isel=isel).values
            except StaleError as error:
                refusals.append(str(error))
                continue
            assert not inside
            if statistic == "count":
                np.testing.assert_array_equal(found, np.ones(SMALL)[box].sum(axis=axes))
            else:
                expected = getattr(np, statistic)(now[box], axis=axes)
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
    finally:
        path.write_bytes(kept)
    assert all(f"chunk {held}" in text for text in refusals)


def test_objects_outside_of_the_range_are_not_looked_at(store, monkeypatch):
    looked, real = [], freshness.stamps
    acc = cfagg.open_accumulated(store, "tas")
    monkeypatch.setattr(freshness, "stamps", lambda a, w=None: looked.append((a.name, w)) or real(a, w))
    acc.mean("time", isel={"time": slice(4, 9), "lat": slice(0, 2)})
    (numbers,) = [w for name, w in looked if name == "tas"]
    # Chunks 1 and 2 of five along time, the first of two along latitude, both along longitude.
    assert numbers.tolist() == [4, 5, 8, 9]


def test_a_question_writes_nothing_and_opens_no_chunk_outside_of_its_range(store):
    before = contents(store)
    for index in ((0, 0, 0), (4, 1, 1)):
        chunk(store, *index).unlink()
    acc = cfagg.open_accumulated(store, "tas")
    assert np.isfinite(acc.mean(isel={"time": slice(4, 16)}).item())
    for statistic in STATISTICS:
        getattr(acc, statistic)(isel={"time": slice(5, 15)})
    after = contents(store)
    assert {k: v for k, v in before.items() if k in after and v != after[k] and Path(k).is_file()} == {}


def test_shards_are_looked_at_once_each(tmp_path, monkeypatch):
    made = zarr.create_array(tmp_path / "s", name="tas", shape=(64, 8), chunks=(1, 8), shards=(32, 8), dtype="f4",
                             dimension_names=["t", "x"])  # fmt: skip
    made[...] = 1
    accumulate(tmp_path / "s", "tas")
    looked, real = [], freshness.stamps
    acc = cfagg.open_accumulated(tmp_path / "s", "tas")
    monkeypatch.setattr(freshness, "stamps", lambda a, w=None: looked.append(w) or real(a, w))
    assert acc.mean().item() == 1
    assert [w.tolist() for w in looked] == [[0, 1]]


# ---- damaged sums, and sums of another build --------------------------------------------------------------------


def answers(store):
    acc = cfagg.open_accumulated(store, "tas")
    out = [getattr(acc, s)("time", isel={"time": slice(1, 17)}).values for s in ("mean", "min", "std")]
    out += [getattr(acc, s)(("lat", "lon"), isel={"lat": slice(1, 7)}).values for s in ("sum", "count", "max")]
    return [a.tobytes() for a in out]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("codec", "zarr_format", "share"),
    [("blosc", 3, 6), ("none", 2, 6), pytest.param("blosc", 3, 1, marks=pytest.mark.soak)],
)
def test_a_flipped_bit_anywhere_in_the_group_is_an_error_or_changes_nothing(tmp_path, codec, zarr_format, share):
    store = tmp_path / "a.zarr"
    write(store, zarr_format=zarr_format)
    accumulate(store, "tas", codec=codec, weights="area", statistics=("chunks", "min", "max", "std"))
    expected, random = answers(store), np.random.default_rng(7)
    seen = 0
    files = sorted(p for p in (store / "tas_accumulation_group").rglob("*") if p.is_file())[::share]
    for path in files:
        data = path.read_bytes()
        for place in random.integers(0, len(data), 1).tolist():
            broken = bytearray(data)
            broken[place] ^= 1 << int(random.integers(8))
            path.write_bytes(broken)
            try:
                assert answers(store) == expected, (path, place)
            except CfaggError:
                seen += 1
        path.write_bytes(data)
    assert seen > (len(files) / 2 if share == 1 else 0)
    assert answers(store) == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("what", ["acc_time", "acc_time/c.0.0.0", "checksums", "chunk_stamps", "acc_time/zarr.json"])
def test_parts_of_a_group_from_another_build_are_refused(store, tmp_path, what):
    other = tmp_path / "other.zarr"
    write(other, seed=1)
    accumulate(other, "tas")
    source, target = (s / "tas_accumulation_group" / what for s in (other, store))
    if source.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)
    with pytest.raises((ConventionError, FragmentReadError), match="--overwrite"):
        cfagg.open_accumulated(store, "tas").mean("time")


# ---- the description --------------------------------------------------------------------------------------------


def swap_bytes(document):
    document["codecs"][0]["configuration"]["endian"] = "big"


def other_fill(document):
    document["fill_value"] = 5.0


def other_keys(document):
    document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "."}}


def other_codecs(document):
    document["codecs"] = [*document["codecs"][:1], {"name": "gzip", "configuration": {"level": 1}}]


@pytest.mark.few(2)
@pytest.mark.parametrize("change", [swap_bytes, other_fill, other_keys, other_codecs], ids=lambda c: c.__name__)
@pytest.mark.parametrize("opened", ["before", "after"])
def test_metadata_that_say_how_bytes_are_read_are_compared(store, change, opened):
    acc = cfagg.open_accumulated(store, "tas") if opened == "before" else None
    path = store / "tas/zarr.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(StaleError, match="--refresh"):
        (acc or cfagg.open_accumulated(store, "tas")).mean()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("key", "value"), [("order", "F"), ("dtype", ">f8"), ("fill_value", 1.0), ("compressor", None)]
)
def test_metadata_of_version_2_are_compared(tmp_path, key, value):
    store = tmp_path / "a.zarr"
    write(store, zarr_format=2)
    accumulate(store, "tas")
    path = store / "tas/.zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    refused(store, key)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("weights", "name", "other"),
    [("area", "lat", "values"), ("area", "lat", "units"), ("lat_weights", "lat_weights", "values"),
     (None, "time", "values"), (None, "time", "units"), (None, "lon", "values")],
)  # fmt: skip
@pytest.mark.parametrize("opened", ["before", "after"])
def test_coordinates_and_what_weights_are_made_from_are_compared(tmp_path, weights, name, other, opened):
    store = tmp_path / "a.zarr"
    write(store)
    zarr.create_array(store, name="lat_weights", data=np.arange(1.0, 9), dimension_names=["lat"])
    accumulate(store, "tas", weights=weights)
    acc = cfagg.open_accumulated(store, "tas") if opened == "before" else None
    array = zarr.open_array(store / name, mode="r+")
    if other == "values":
        array[0] = 77
    else:
        array.attrs["units"] = "days since 1901-01-01" if name == "time" else "degree_north"
    with pytest.raises(StaleError, match=f"{name!r}: ") as caught:
        (acc or cfagg.open_accumulated(store, "tas")).mean("time")
    assert ("--adopt" in str(caught.value)) == (other == "values")
    with pytest.raises(StaleError, match=f"{name!r}"):
        accumulate(store, "tas", adopt=True)
    accumulate(store, "tas", refresh=True)
    cfagg.open_accumulated(store, "tas").mean("time")


def test_a_refresh_after_a_coordinate_was_corrected_keeps_the_sums(store):
    expected = mean(store)
    before = {k: v for k, v in contents(store / "tas_accumulation_group").items() if "acc_time" in k}
    zarr.open_array(store / "time", mode="r+")[...] = np.arange(100, 118)
    refused(store, "'time'")
    report = accumulate(store, "tas", refresh=True)
    assert (report.action, report.chunks) == ("up to date", 0)
    assert {k: v for k, v in contents(store / "tas_accumulation_group").items() if "acc_time" in k} == before
    assert mean(store) == expected


@pytest.mark.parametrize("how", ["refresh", "append"])
def test_sums_along_dimensions_that_were_renamed_are_built_anew_only_by_overwriting(tmp_path, how):
    store = tmp_path / "a.zarr"
    zarr.create_array(store, name="tas", data=np.ones((4, 3)), dimension_names=["time", "lat"])
    accumulate(store, "tas", ["time"])
    path = store / "tas" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dimension_names": ["t", "y"]}))
    with pytest.raises(StaleError, match=r"has the dimensions \['t', 'y'\], .* rebuild it with: .* --overwrite"):
        accumulate(store, "tas", **{how: True})


def test_attributes_of_coordinates_that_mean_nothing_for_values_are_left_alone(store):
    acc = cfagg.open_accumulated(store, "tas")
    expected = acc.mean()
    zarr.open_array(store / "lat", mode="r+").attrs["long_name"] = "latitude"
    assert acc.mean() == expected
    assert mean(store) == expected


def test_a_variable_of_areas_that_is_made_later_is_noticed(tmp_path):
    store = tmp_path / "a.zarr"
    write(store)
    zarr.open_array(store / "tas", mode="r+").attrs["cell_measures"] = "area: areacella"
    accumulate(store, "tas", weights="area")
    mean(store)
    zarr.create_array(store, name="areacella", data=np.ones(SHAPE[1:]), dimension_names=["lat", "lon"])
    refused(store, "areacella")


def test_a_coordinate_of_text_is_compared_too(tmp_path):
    store = tmp_path / "a.zarr"
    ds = xr.Dataset({"tas": (("time", "site"), np.ones((4, 2)))}, {"site": ["here", "there"]})
    ds.to_zarr(store, consolidated=False)
    accumulate(store, "tas")
    assert cfagg.open_accumulated(store, "tas").mean("time", sel={"site": "there"}).item() == 1
    zarr.open_array(store / "site", mode="r+")[0] = "elsewhere"
    with pytest.raises(StaleError, match="coordinate 'site'"):
        cfagg.open_accumulated(store, "tas")


# ---- when it is looked ------------------------------------------------------------------------------------------


def test_one_look_holds_for_as_long_as_is_said(store, monkeypatch):
    looked, real, now = [], freshness.stamps, [1000.0]
    monkeypatch.setattr(freshness, "stamps", lambda a, w=None: looked.append((a.name, w)) or real(a, w))
    monkeypatch.setattr(freshness, "time", SimpleNamespace(monotonic=lambda: now[0]))
    acc = cfagg.open_accumulated(store, "tas", trust_for=60)
    acc.mean("time", isel={"time": slice(0, 8)})
    looked.clear()
    now[0] += 59
    acc.mean("time", isel={"time": slice(0, 8)})
    assert [len(w) for _, w in looked] == [0]
    acc.mean("time", isel={"time": slice(0, 12)})
    assert [len(w) for _, w in looked] == [0, 4]
    chunk(store, 0, 0, 0).unlink()
    acc.mean("time", isel={"time": slice(0, 8)})
    now[0] += 2
    with pytest.raises(StaleError):
        acc.mean("time", isel={"time": slice(0, 8)})


def test_by_default_every_answer_looks_again(store):
    acc = cfagg.open_accumulated(store, "tas")
    for _ in range(3):
        acc.mean()
    chunk(store, 0, 0, 0).unlink()
    with pytest.raises(StaleError):
        acc.mean()


@pytest.mark.few(2)
@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 10**400, True, "1"])
def test_what_is_no_number_of_seconds_is_refused(store, wrong):
    with pytest.raises(OptionError, match="trust_for"):
        cfagg.open_accumulated(store, "tas", trust_for=wrong)


def test_seconds_may_be_numbers_of_numpy(store):
    trusting = [cfagg.open_accumulated(store, "tas", trust_for=seconds) for seconds in (np.int64(600), np.float32(600))]
    expected = [acc.mean().item() for acc in trusting]
    chunk(store, 0, 0, 0).unlink()
    assert [acc.mean().item() for acc in trusting] == expected


def test_while_a_thread_writes_each_answer_is_that_of_the_accumulated_values_or_none(plain):
    acc, expected = cfagg.open_accumulated(plain, "tas"), None
    expected = acc.mean("time", isel={"time": slice(1, 17)}).values
    path, stop = chunk(plain, 0, 0, 0), threading.Event()
    one, other = path.read_bytes(), other_bytes(path)
    other = other[:46] + b"\x40\x7f" + other[48:]

    def work():
        for turn in range(400):
            if stop.is_set():
                break
            path.write_bytes(other if turn % 2 else one)
            time.sleep(0.0005)

    thread = threading.Thread(target=work)
    thread.start()
    refusals = 0
    try:
        for _ in range(150):
            try:
                found = acc.mean("time", isel={"time": slice(1, 17)}).values
            except StaleError:
                refusals += 1
            else:
                np.testing.assert_array_equal(found, expected)
    finally:
        stop.set()
        thread.join()
    assert refusals


# ---- xarray -----------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("opener", [xr.open_datatree, xr.open_groups], ids=lambda o: o.__name__)
@pytest.mark.parametrize(("zarr_format", "consolidated"), [(3, False), (3, True), (2, True)])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_xarray_opens_all_groups_of_a_store_that_was_accumulated(tmp_path, opener, zarr_format, consolidated):
    store = tmp_path / "a.zarr"
    write(store, zarr_format=zarr_format)
    if consolidated:
        zarr.consolidate_metadata(store, zarr_format=zarr_format)
    accumulate(store, "tas", weights="area", stride=2, statistics=("chunks", "min", "std"))
    opened = opener(store, engine="zarr", consolidated=consolidated)
    names = set(opened if opener is xr.open_groups else opened.groups)
    assert "/" in names
    if zarr_format == 3:
        assert "/tas_accumulation_group" in names
        group = opened["/tas_accumulation_group"]
        assert group["acc_time"].dims == ("time_accumulated", "lat", "lon")
    accumulate(store, "tas", refresh=True)


def test_names_of_dimensions_that_are_taken_are_not_given_twice(tmp_path):
    zarr.create_array(tmp_path / "s", name="tas", data=np.ones((6, 4)), chunks=(2, 2),
                      dimension_names=["time", "time_accumulated"])  # fmt: skip
    accumulate(tmp_path / "s", "tas")
    assert cfagg.open_accumulated(tmp_path / "s", "tas").sum().item() == 24
    xr.open_datatree(tmp_path / "s", engine="zarr", consolidated=False)
