"""Writing lazy arrays: chunks are copied byte for byte where they may be, and zarr-python reads what is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

import cfagg
from cfagg.arrays.lazy import LazyArray
from cfagg.demo import sample
from cfagg.errors import AccessError, OptionError, StaleError, TargetError, TargetExistsError, UnsupportedError
from cfagg.writing.zarr.new_store import LocalKeys


@pytest.fixture(autouse=True)
def unequal() -> Iterator[None]:
    """Let zarr-python open what is written."""
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def made(folder: Path, name: str, values: Any, chunks: Any, **options: Any) -> zarr.Array[Any]:
    return zarr.create_array(
        str(folder / f"{name}.zarr"), name="tas", data=np.asarray(values), chunks=chunks, **options
    )


def lazy(array: zarr.Array[Any]) -> LazyArray:
    return cfagg.open_array(str(array.store.root), "tas")  # type: ignore[attr-defined]


def read(target: Path, name: str = "tas") -> Any:
    return zarr.open(str(target), mode="r")[name]  # type: ignore[index]


def test_chunks_are_copied_and_only_a_partial_last_one_inside_is_encoded(tmp_path: Path) -> None:
    values = np.arange(230 * 3.0).reshape(230, 3)
    one, other = made(tmp_path, "a", values, (100, 2)), made(tmp_path, "b", values[:80], (50, 2))
    report = cfagg.write(cfagg.concatenate([lazy(one), lazy(other)]), tmp_path / "c.zarr")
    assert (report.chunks, report.copied, report.variables) == (10, 8, ("tas",))
    assert "rectilinear grid" in report.notes[0]
    assert "8 of them copied as they were" in str(report)
    found = read(tmp_path / "c.zarr")
    assert np.array_equal(found[:], np.concatenate([values, values[:80]]))
    stored = [p.read_bytes() for p in (tmp_path / "c.zarr/tas/c").rglob("*") if p.is_file()]
    given = [p.read_bytes() for n in "ab" for p in (tmp_path / f"{n}.zarr/tas/c").rglob("*") if p.is_file()]
    assert len(set(stored) & set(given)) == 8
    assert cfagg.open_array(tmp_path / "c.zarr", "tas").chunks == ((100, 100, 30, 50, 30), (2, 1))


def test_no_chunk_inside_decodes_to_more_than_it_contributes(tmp_path: Path) -> None:
    arrays = [made(tmp_path, n, np.arange(30, dtype="i2"), (20,), compressors=None) for n in "ab"]
    cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    sizes = [(tmp_path / f"c.zarr/tas/c/{k}").stat().st_size // 2 for k in range(4)]
    assert sizes == [20, 10, 20, 20]
    document = json.loads((tmp_path / "c.zarr/tas/zarr.json").read_text())
    assert document["chunk_grid"]["name"] == "rectilinear"


def test_equal_chunks_make_a_regular_grid_that_everything_reads(tmp_path: Path) -> None:
    arrays = [made(tmp_path, n, np.arange(40), (20,)) for n in "ab"] + [made(tmp_path, "c", np.arange(7), (20,))]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "d.zarr")
    assert (report.copied, report.chunks, report.notes) == (5, 5, ())
    with zarr.config.set({"array.rectilinear_chunks": False}):
        assert read(tmp_path / "d.zarr").chunks == (20,)


CODECS: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=3)},
    "gzip": {"compressors": GzipCodec(level=1)},
    "blosc": {"compressors": BloscCodec(cname="lz4", typesize=4)},
    "big": {"compressors": None, "serializer": BytesCodec(endian="big")},
    "turned": {"filters": [TransposeCodec(order=(1, 0))]},
}


@given(st.data())
def test_values_are_those_of_zarr_python_whatever_the_parts_are(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    other = data.draw(st.integers(1, 5))
    axis = data.draw(st.sampled_from([0, 1]))
    parts, values = [], []
    versions = data.draw(st.lists(st.sampled_from([2, 3, 3, 3]), min_size=1, max_size=4))
    # The fill value of version 2 is that of missing values, which have to be the same in all parts.
    missing = data.draw(st.sampled_from([0, 9]))
    for k, version in enumerate(versions):
        n = data.draw(st.integers(0, 7))
        shape = (n, other) if axis == 0 else (other, n)
        chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
        kind = data.draw(st.sampled_from(["i4", "i4", "i4", ">i4" if version == 2 else "i4", "i2"]))
        options: dict[str, Any] = {"fill_value": data.draw(st.sampled_from([0, 0, 9])) if version == 3 else missing}
        if version == 3:
            options["attributes"] = {"_FillValue": missing} if 2 in versions else {}
            options |= CODECS[data.draw(st.sampled_from(["zstd", "zstd", *CODECS]))]
            if data.draw(st.booleans()):
                options["shards"] = tuple(c * data.draw(st.integers(1, 2)) for c in chunks)
        else:
            options["order"] = data.draw(st.sampled_from("CF"))
            if data.draw(st.booleans()):
                options["compressors"] = None
        array = zarr.create_array(
            str(folder / f"{k}.zarr"),
            name="tas",
            shape=shape,
            chunks=chunks,
            dtype=kind,
            zarr_format=version,
            **options,
        )
        box = tuple(slice(0, data.draw(st.integers(0, m))) for m in shape)
        array[box] = np.arange(array[box].size).reshape(array[box].shape)
        parts.append(array)
        values.append(array[:])
    expected = np.concatenate(values, axis)
    found = cfagg.concatenate(parts, axis)
    report = cfagg.write(found, folder / "out.zarr")
    again = read(folder / "out.zarr")
    assert again.dtype == found.dtype
    assert np.array_equal(again[...], expected)
    assert np.array_equal(cfagg.open_array(folder / "out.zarr", "tas")[...], expected)
    assert report.copied <= report.chunks
    # No object stands under the keys of the array but those that are counted.
    assert sum(p.is_file() for p in (folder / "out.zarr/tas").rglob("*")) == report.chunks + 1


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_copied(tmp_path: Path, codec: str) -> None:
    values = np.arange(24, dtype="i4").reshape(6, 4)
    arrays = [made(tmp_path, n, values, (2, 3), **CODECS[codec]) for n in "ab"]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert report.copied == report.chunks == 12
    assert np.array_equal(read(tmp_path / "c.zarr")[:], np.concatenate([values] * 2))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">f4", "<i2", "|b1", "|u1"])
def test_version_2_is_copied_into_version_3(tmp_path: Path, order: Any, dtype: str) -> None:
    values = (np.arange(24) % 2).astype(dtype).reshape(6, 4)
    arrays = [made(tmp_path, n, values, (3, 2), zarr_format=2, order=order) for n in "ab"]
    report = cfagg.write(cfagg.concatenate([lazy(a) for a in arrays]), tmp_path / "c.zarr")
    assert report.copied == report.chunks == 8
    found = read(tmp_path / "c.zarr")
    assert found.metadata.zarr_format == 3
    assert np.array_equal(found[:], np.concatenate([values] * 2))


def test_other_codecs_types_and_chunks_are_encoded_and_the_rest_is_copied(tmp_path: Path) -> None:
    values = np.arange(40, dtype="f8").reshape(20, 2)
    most = [made(tmp_path, n, values, (10, 2), compressors=ZstdCodec()) for n in "ab"]
    others = [
        made(tmp_path, "c", values, (10, 2), compressors=GzipCodec()),
        made(tmp_path, "d", values.astype("f4"), (10, 2), compressors=ZstdCodec()),
        made(tmp_path, "e", values, (10, 1), compressors=ZstdCodec()),
    ]
    report = cfagg.write(cfagg.concatenate([*most, *others]), tmp_path / "out.zarr")
    assert (report.chunks, report.copied) == (10, 4)
    assert np.array_equal(read(tmp_path / "out.zarr")[:], np.concatenate([values] * 5))


def test_chunks_that_are_not_stored_hold_the_fill_value_of_their_part(tmp_path: Path) -> None:
    like = {"name": "tas", "chunks": (2,), "dtype": "f4"}
    one = zarr.create_array(str(tmp_path / "a.zarr"), shape=(8,), fill_value=np.nan, **like)
    other = zarr.create_array(str(tmp_path / "b.zarr"), shape=(4,), fill_value=7, **like)
    one[2] = 1
    report = cfagg.write(cfagg.concatenate([one, other]), tmp_path / "c.zarr")
    found = read(tmp_path / "c.zarr")
    assert np.isnan(found.fill_value)
    assert np.array_equal(found[:], [np.nan] * 2 + [1] + [np.nan] * 5 + [7] * 4, equal_nan=True)
    assert (report.chunks, report.copied) == (3, 1)


def test_shards_are_copied_whole_where_parts_end_with_one(tmp_path: Path) -> None:
    values = np.arange(24)
    arrays = [made(tmp_path, n, values[:k], (2,), shards=(8,)) for n, k in (("a", 24), ("b", 16), ("c", 20))]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "d.zarr")
    assert (report.chunks, report.copied) == (8, 8)
    found = read(tmp_path / "d.zarr")
    assert found.shards == (8,)
    assert np.array_equal(found[:], np.concatenate([values, values[:16], values[:20]]))


@pytest.mark.parametrize("size", [8, 6])
def test_shards_that_lack_chunks_keep_the_fill_value_of_their_part(tmp_path: Path, size: int) -> None:
    like: dict[str, Any] = {"name": "tas", "chunks": (1,), "shards": (4,), "dtype": "f4"}
    arrays = [zarr.create_array(str(tmp_path / f"{n}.zarr"), shape=(size,), fill_value=n, **like) for n in (5, 3)]
    for array in arrays:
        array[1] = 7
    cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    expected = np.concatenate([a[:] for a in arrays])
    assert np.array_equal(read(tmp_path / "c.zarr")[:], expected)
    assert np.array_equal(cfagg.open_array(tmp_path / "c.zarr", "tas")[:], expected)


@pytest.mark.parametrize("values", [np.array(["2000-01-01"], "M8[M]"), np.array([1j]), np.array([None, "a"], object)])
def test_objects_that_are_no_text_are_refused(tmp_path: Path, values: Any) -> None:
    array = values if values.dtype == object else lazy(made(tmp_path, "a", values, (1,)))
    with pytest.raises(UnsupportedError, match=r"other than strings|expected numbers or text"):
        cfagg.write(cfagg.concatenate([array]), tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


def test_times_are_written_as_numbers_with_units(tmp_path: Path) -> None:
    times = np.array(["2000-01-01", "NaT"], "M8[s]")
    cfagg.write(cfagg.concatenate([lazy(made(tmp_path, "a", times, (1,)))] * 2), tmp_path / "b.zarr")
    found = cfagg.open_array(tmp_path / "b.zarr", "tas")
    assert found[:].tolist() == [*times.view("i8"), *times.view("i8")]
    assert found.attributes["units"] == "seconds since 1970-01-01"
    assert found.attributes["_FillValue"] == np.iinfo("i8").min


def test_a_partial_shard_inside_is_encoded(tmp_path: Path) -> None:
    arrays = [made(tmp_path, n, np.arange(12), (2,), shards=(8,)) for n in "ab"]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert (report.chunks, report.copied) == (4, 3)
    assert cfagg.open_array(tmp_path / "c.zarr", "tas")[:].tolist() == [*range(12), *range(12)]
    assert read(tmp_path / "c.zarr")[:].tolist() == [*range(12), *range(12)]


def test_chunks_leave_their_shards_where_a_part_ends_within_one(tmp_path: Path) -> None:
    arrays = [made(tmp_path, n, np.arange(11), (2,), shards=(8,)) for n in "ab"]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert (report.chunks, report.copied) == (12, 11)
    found = read(tmp_path / "c.zarr")
    assert found[:].tolist() == [*range(11), *range(11)]


def test_several_axes(tmp_path: Path) -> None:
    values = np.arange(7 * 9).reshape(7, 9)
    boxes = [[(0, 4, 0, 6), (0, 4, 6, 9)], [(4, 7, 0, 6), (4, 7, 6, 9)]]
    parts = [[made(tmp_path, f"{a}{c}", values[a:b, c:d], (2, 3)) for a, b, c, d in row] for row in boxes]
    report = cfagg.write(cfagg.concatenate(parts, axis=(0, 1)), tmp_path / "out.zarr")
    assert report.copied == report.chunks == 12
    assert np.array_equal(read(tmp_path / "out.zarr")[:], values)


def test_chunks_of_a_rectilinear_grid_are_all_copied(tmp_path: Path) -> None:
    values = np.arange(36, dtype="f4").reshape(9, 4)
    arrays = [made(tmp_path, n, values, [[4, 3, 2], [3, 1]]) for n in "ab"]
    for axis in (0, 1):
        report = cfagg.write(cfagg.concatenate(arrays, axis), tmp_path / f"{axis}.zarr")
        assert (report.copied, report.chunks) == (12, 12)
        assert np.array_equal(read(tmp_path / f"{axis}.zarr")[:], np.concatenate([values] * 2, axis))
    single = [made(tmp_path, n, values, [[9], [3, 1]]) for n in "cd"]
    assert cfagg.write(cfagg.concatenate(single), tmp_path / "e.zarr").copied == 4


def test_attributes_and_names_stay_and_xarray_reads_them(tmp_path: Path) -> None:
    ds = xr.Dataset({"tas": (("time", "x"), np.array([[1.0, np.nan]] * 4, "f4"), {"units": "K"})})
    for name in "ab":
        ds.to_zarr(
            tmp_path / f"{name}.zarr", encoding={"tas": {"_FillValue": -1.0, "chunks": (2, 2)}}, consolidated=False
        )
    arrays = [cfagg.open_array(tmp_path / f"{n}.zarr", "tas") for n in "ab"]
    cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    found = xr.open_zarr(tmp_path / "c.zarr").tas
    xr.testing.assert_identical(found.load(), xr.concat([ds.tas, ds.tas], "time"))
    given = [zarr.open_array(str(tmp_path / f"{n}.zarr"), path="tas") for n in "ab"]
    assert cfagg.concatenate([*given, *arrays]).attributes["_FillValue"] == -1


def test_an_aggregation_becomes_a_store_with_a_chunk_for_each_partition(tmp_path: Path) -> None:
    array = cfagg.open_array(sample("temperature.nca"), "tas")
    report = cfagg.write(array, tmp_path / "a.zarr")
    assert (report.chunks, report.copied) == (2, 0)
    assert np.array_equal(read(tmp_path / "a.zarr")[:], array[...])
    assert cfagg.open_array(tmp_path / "a.zarr", "tas").chunks == array.chunks


def test_text_scalars_and_empty_arrays(tmp_path: Path) -> None:
    text = made(tmp_path, "t", np.array(["a", "é"]), (1,))
    cfagg.write(cfagg.concatenate([lazy(text), lazy(text)]), tmp_path / "text.zarr")
    assert read(tmp_path / "text.zarr")[:].tolist() == ["a", "é"] * 2
    cfagg.write(cfagg.concatenate([np.array(["ab"]), np.array(["c", "é"])]), tmp_path / "memory.zarr")
    assert read(tmp_path / "memory.zarr", "data")[:].tolist() == ["ab", "c", "é"]
    scalar = made(tmp_path, "s", np.array(2.5), ())
    assert cfagg.write(lazy(scalar), tmp_path / "scalar.zarr").copied == 1
    assert read(tmp_path / "scalar.zarr")[()] == 2.5
    cfagg.write(cfagg.concatenate([np.zeros((0, 2))] * 2), tmp_path / "empty.zarr")
    assert read(tmp_path / "empty.zarr", "data").shape == (0, 2)


def test_large_arrays_without_chunks_get_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cfagg.writing.zarr.described._MOST", 1000)
    monkeypatch.setattr("cfagg.writing.zarr.described._CHUNK", 200)
    values = np.arange(60 * 5.0).reshape(60, 5)
    report = cfagg.write(cfagg.concatenate([values, values]), tmp_path / "a.zarr")
    assert report.chunks == 24
    assert np.array_equal(read(tmp_path / "a.zarr", "data")[:], np.concatenate([values] * 2))


def test_a_part_is_never_covered_by_what_goes_beyond_the_end_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfagg.writing.zarr.described._MOST", 8 * 19)
    monkeypatch.setattr("cfagg.writing.zarr.described._CHUNK", 8 * 20)
    arrays = [made(tmp_path, "a", np.arange(10), (20,)), made(tmp_path, "b", np.arange(10, 30), (20,))]
    cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert read(tmp_path / "c.zarr")[:].tolist() == list(range(30))


def test_a_source_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    array = cfagg.concatenate([made(tmp_path, "a", np.arange(4), (2,))] * 2)
    zarr.open_array(str(tmp_path / "a.zarr"), path="tas").resize((6,))
    with pytest.raises(StaleError, match="run again"):
        cfagg.write(array, tmp_path / "b.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system copies no files itself")
def test_a_chunk_that_is_written_while_it_is_copied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = lazy(made(tmp_path, "a", np.arange(4), (2,)))
    original = os.copy_file_range

    def slowly(*args: Any) -> int:
        with (tmp_path / "a.zarr/tas/c/1").open("ab") as file:
            file.write(b"more")
        return original(*args)

    monkeypatch.setattr(os, "copy_file_range", slowly)
    with pytest.raises(StaleError, match="was written while it was copied"):
        cfagg.write(array, tmp_path / "b.zarr", workers=1)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_the_form_is_that_of_most_elements(tmp_path: Path) -> None:
    few = [made(tmp_path, n, np.arange(2), (2,), compressors=GzipCodec()) for n in "ab"]
    most = made(tmp_path, "c", np.arange(20), (2,), compressors=ZstdCodec())
    report = cfagg.write(cfagg.concatenate([*few, most]), tmp_path / "d.zarr")
    assert (report.chunks, report.copied) == (12, 10)


def test_a_store_may_be_replaced_by_what_was_made_of_it(tmp_path: Path) -> None:
    array = lazy(made(tmp_path, "a", np.arange(4), (2,)))
    with pytest.raises(TargetExistsError):
        cfagg.write(cfagg.concatenate([array, array]), tmp_path / "a.zarr")
    cfagg.write(cfagg.concatenate([array, array]), tmp_path / "a.zarr", overwrite=True)
    assert read(tmp_path / "a.zarr")[:].tolist() == [*range(4), *range(4)]


def test_options_of_aggregation_files_are_refused(tmp_path: Path) -> None:
    array = cfagg.concatenate([np.zeros(2)])
    with pytest.raises(OptionError, match="relative_to="):
        cfagg.write(array, tmp_path / "a.zarr", relative_to=tmp_path)
    for options, named in (
        ({"on_loss": "drop"}, "leave out on_loss=$"),
        ({"on_loss": "drop", "allow": ["/"]}, "leave out on_loss= and allow=; give allow="),
    ):
        with pytest.raises(OptionError, match=named):
            cfagg.write(array, tmp_path / "a.zarr", **options)
    assert not list(tmp_path.iterdir())


def test_a_lazy_array_becomes_an_aggregation_file_too(tmp_path: Path) -> None:
    array = lazy(made(tmp_path, "a", np.arange(4.0), (2,), dimension_names=("x",)))
    report = cfagg.write(cfagg.concatenate([array, array]), tmp_path / "a.nca")
    assert report.partitions == 4
    assert cfagg.read(tmp_path / "a.nca").tas.values.tolist() == [0, 1, 2, 3] * 2


def repository(target: Path, *places: Path) -> Any:
    """Return the group of a repository; its chunks may be below some places."""
    allow = {f"file://{place}/": icechunk.credentials.LocalFileSystemAccess for place in places}
    storage = icechunk.local_filesystem_storage(str(target))
    made = icechunk.Repository.open(storage, authorize_virtual_chunk_access=allow)
    assert len(list(made.ancestry(branch="main"))) == 2  # what it begins with, and one commit
    return zarr.open_group(made.readonly_session("main").store, mode="r")


def test_icechunk_refers_to_what_may_be_copied(tmp_path: Path) -> None:
    values = np.arange(230 * 3.0).reshape(230, 3)
    one, other = made(tmp_path, "a", values, (100, 2)), made(tmp_path, "b", values[:80], (50, 2))
    report = cfagg.write(cfagg.concatenate([one, other]), tmp_path / "c.icechunk")
    assert (report.chunks, report.referenced, report.copied) == (10, 8, 0)
    assert "8 of them referred to" in str(report)
    assert report.notes[0].startswith("readers of virtual chunks allow access")
    found = repository(tmp_path / "c.icechunk", tmp_path / "a.zarr", tmp_path / "b.zarr")["tas"]
    assert np.array_equal(found[:], np.concatenate([values, values[:80]]))


def test_icechunk_holds_what_cannot_be_referred_to(tmp_path: Path) -> None:
    memory = zarr.create_array(zarr.storage.MemoryStore(), name="tas", data=np.arange(4), chunks=(2,))
    shards = made(tmp_path, "a", np.arange(11), (2,), shards=(8,))
    report = cfagg.write(cfagg.concatenate([memory, shards, np.arange(3)]), tmp_path / "c.icechunk", to="icechunk")
    assert report.referenced == 0
    assert repository(tmp_path / "c.icechunk")["tas"][:].tolist() == [*range(4), *range(11), *range(3)]


def test_an_icechunk_repository_is_replaced_only_if_asked(tmp_path: Path) -> None:
    array = cfagg.concatenate([made(tmp_path, "a", np.arange(4), (2,))] * 2)
    cfagg.write(array, tmp_path / "c.icechunk")
    with pytest.raises(TargetExistsError):
        cfagg.write(array, tmp_path / "c.icechunk")
    cfagg.write(array, tmp_path / "c.icechunk", overwrite=True)
    assert repository(tmp_path / "c.icechunk", tmp_path / "a.zarr")["tas"].shape == (8,)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr", "c.icechunk"]


def test_a_repository_does_not_refer_to_what_it_replaces(tmp_path: Path) -> None:
    target = tmp_path / "c.icechunk"
    cfagg.write(lazy(made(tmp_path, "a", np.arange(4), (2,))), target)
    within = lazy(made(target, "b", np.arange(4), (2,)))
    with pytest.raises(TargetError, match=r"lies in .*, which is replaced"):
        cfagg.write(within, target, overwrite=True)
    assert within[:].tolist() == [0, 1, 2, 3]


def test_a_chunk_that_is_written_later_is_not_read_from_icechunk(tmp_path: Path) -> None:
    source = made(tmp_path, "a", np.arange(4), (2,))
    cfagg.write(cfagg.concatenate([source, source]), tmp_path / "c.icechunk")
    chunk = tmp_path / "a.zarr/tas/c/0"
    later = chunk.stat().st_mtime + 10
    source[:] = 7
    os.utime(chunk, (later, later))
    found = repository(tmp_path / "c.icechunk", tmp_path / "a.zarr")["tas"]
    with pytest.raises(Exception, match=r"modified|checksum|changed"):
        found[:]


def test_datasets_are_no_icechunk(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"use cfagg\.convert"):
        cfagg.write(xr.Dataset({"a": ("x", np.zeros(2))}), tmp_path / "a.icechunk")


@pytest.mark.full
def test_a_kill_leaves_the_old_store_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "out.zarr"
    old = np.arange(6)
    for k in range(60):
        made(tmp_path, str(k), np.arange(k, k + 20), (3,))
    expected = np.concatenate([np.arange(k, k + 20) for k in range(60)])
    cfagg.write(cfagg.concatenate([old]), target)
    code = (
        "import sys, cfagg\n"
        "parts = [cfagg.open_array(f'{sys.argv[1]}/{k}.zarr', 'tas') for k in range(60)]\n"
        "print('ready', flush=True)\n"
        "cfagg.write(cfagg.concatenate(parts), f'{sys.argv[1]}/out.zarr', overwrite=True)\n"
    )
    delays = np.random.default_rng(0).uniform(0, 0.15, 20)
    for delay in delays:
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(delay)
            process.kill()
        group = zarr.open_group(str(target), mode="r")
        name = next(iter(group))
        assert np.array_equal(group[name][:], old if name == "data" else expected)  # type: ignore[index]
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    assert np.array_equal(read(target)[:], expected)
    assert [p.name for p in tmp_path.iterdir() if "cfagg" in p.name] == []


def sparse(folder: Path, name: str, cells: dict[int, float], **options: Any) -> zarr.Array[Any]:
    options = {"shape": (600, 2), "chunks": (1, 2), "dtype": "f8", "fill_value": -1} | options
    array = zarr.create_array(str(folder / f"{name}.zarr"), name="tas", **options)
    for k, value in cells.items():
        array[k] = value
    return array


@pytest.mark.parametrize("shards", [None, (2, 2)])
def test_of_many_chunks_that_are_hardly_ever_stored_only_those_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: Any
) -> None:
    arrays = [sparse(tmp_path, n, {k: k, 599: 2}, shards=shards) for k, n in enumerate("ab")]
    looked: list[str] = []
    copy = LocalKeys.copy
    monkeypatch.setattr(LocalKeys, "copy", lambda *a: (looked.append(a[1]), copy(*a))[1])
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert report.copied == report.chunks == len(looked) == 4
    assert np.array_equal(read(tmp_path / "c.zarr")[:], np.concatenate([a[:] for a in arrays]))


def test_chunks_that_are_not_stored_are_written_where_they_mean_another_value(tmp_path: Path) -> None:
    arrays = [
        sparse(tmp_path, "a", {5: 1}, shape=(600, 2)),
        sparse(tmp_path, "b", {2: 1}, shape=(300, 2), fill_value=7),
    ]
    report = cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert (report.chunks, report.copied) == (301, 2)
    assert np.array_equal(read(tmp_path / "c.zarr")[:], np.concatenate([a[:] for a in arrays]))


def test_of_a_hardly_stored_array_chunks_that_are_cut_within_the_whole_are_encoded(tmp_path: Path) -> None:
    arrays = [sparse(tmp_path, n, {0: 1, 298: 2}, shape=(299, 3), chunks=(2, 2)) for n in "ab"]
    cfagg.write(cfagg.concatenate(arrays), tmp_path / "c.zarr")
    assert np.array_equal(read(tmp_path / "c.zarr")[:], np.concatenate([a[:] for a in arrays]))


def test_links_among_hardly_stored_chunks_are_judged_as_ever(tmp_path: Path) -> None:
    array = sparse(tmp_path, "a", {5: 1})
    chunk = tmp_path / "a.zarr/tas/c/5/0"
    chunk.rename(tmp_path / "outside")
    chunk.symlink_to(tmp_path / "outside")
    with pytest.raises(AccessError, match="lies outside the store"):
        cfagg.write(cfagg.concatenate([lazy(array)]), tmp_path / "c.zarr")
    there = cfagg.open_array(tmp_path / "a.zarr", "tas", allow=[tmp_path])
    assert cfagg.write(there, tmp_path / "c.zarr").copied == 1
    assert np.array_equal(read(tmp_path / "c.zarr")[:], array[:])
