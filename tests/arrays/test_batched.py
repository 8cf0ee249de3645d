"""Reading many chunks at a time; zarr-python and NumPy say what comes out."""

from __future__ import annotations

import json
import tempfile
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr
import zarr.codecs as zc
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.arrays import batched
from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.opening import open_reader
from cfagg.errors import LimitError
from cfagg.formats.zarr import batches as zarr_batches
from cfagg.formats.zarr import open_array
from tests.arrays.test_chunked import selections
from tests.effort import examples

TYPES = ("i4", ">i2", "f8", ">f4", "?", "u1", "<u8")
CODECS = (None, zc.ZstdCodec(level=1), zc.GzipCodec(level=1), zc.BloscCodec(cname="lz4"))


@st.composite
def arrays(draw: Any, folder: str) -> np.ndarray[Any, Any]:
    """Write an array of any kind to ``folder``, some of its chunks not stored, and return what is in it."""
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    chunks: Any = tuple(draw(st.integers(1, 5)) for _ in shape)
    kind = draw(st.sampled_from(["v2", "v3", "shards", "unequal", "unequal shards"]))
    codec = draw(st.sampled_from(CODECS))
    more: dict[str, Any] = {"compressors": codec, "fill_value": draw(st.sampled_from([0, 1])), "zarr_format": 3}
    if kind == "v2":
        more |= {"zarr_format": 2, "order": draw(st.sampled_from("CF"))}
        more["compressors"] = None if codec is None else draw(st.sampled_from([None, {"id": "zstd"}, {"id": "zlib"}]))
    elif shape and draw(st.booleans()):
        more["filters"] = [zc.TransposeCodec(order=draw(st.permutations(range(len(shape)))))]
    if kind == "v3":
        more["chunk_key_encoding"] = {"name": draw(st.sampled_from(["default", "v2"]))}
    if kind == "shards" and shape:
        more["shards"] = tuple(c * draw(st.integers(1, 3)) for c in chunks)
        if draw(st.booleans()):
            more["shards"] = chunks
    if kind == "unequal" and shape and all(shape):
        chunks = [draw(st.lists(st.integers(1, n), min_size=1).map(lambda s, n=n: _up_to(s, n))) for n in shape]
    if kind == "unequal shards" and shape and all(shape):
        # Shards of unequal lengths are whole numbers of chunks, and end where the array does.
        chunks = tuple(c if n % c == 0 else 1 for n, c in zip(shape, chunks, strict=True))
        counts = [draw(st.lists(st.integers(1, n // c), min_size=1)) for n, c in zip(shape, chunks, strict=True)]
        more["shards"] = [
            [c * k for k in _up_to(found, n // c)] for found, n, c in zip(counts, shape, chunks, strict=True)
        ]
    if 0 in shape:
        more.pop("shards", None)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        made = zarr.create_array(folder, name="x", shape=shape, dtype=dtype, chunks=chunks, **more)
        values = np.arange(1, 1 + made.size).astype(dtype).reshape(shape)
        if not shape:
            made[...] = values
        for _ in range(draw(st.integers(0, 4)) if shape and all(shape) else 0):
            box = tuple(slice(draw(st.integers(0, n - 1)), draw(st.integers(1, n))) for n in shape)
            made[box] = values[box]
        return np.asarray(made[...])


def _up_to(lengths: list[int], size: int) -> list[int]:
    """Return lengths that add up to a size."""
    found: list[int] = []
    for n in lengths:
        if sum(found) + n >= size:
            break
        found.append(n)
    return [*found, size - sum(found)]


@settings(max_examples=examples(600), deadline=None)
@given(st.data(), st.sampled_from([(1, 1), (1 << 22, 3), (100, 4096), (1 << 22, 4096)]), st.booleans())
def test_any_selection_of_any_array_is_that_of_zarr_python(data: Any, size: tuple[int, int], compiled: bool) -> None:
    import cfagg.kernels.files  # noqa: F401 - it is used where it is loaded

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "BATCH_BYTES", size[0])
        patch.setattr(batched, "BATCH_CHUNKS", size[1])
        patch.setattr(zarr_batches, "_LOADED", 1 if compiled else 2**60)
        patch.setattr(zarr_batches, "_FEW", 1 if compiled else 3)
        patch.setattr(batched, "LARGE", data.draw(st.sampled_from([0, 1 << 16])))
        expected = data.draw(arrays(folder))
        chosen = [data.draw(selections(n) if n else st.just(slice(None))) for n in expected.shape]
        taken = np.ix_(*(np.atleast_1d(np.arange(n)[c]) for n, c in zip(expected.shape, chosen, strict=True)))
        kept = [len(i.reshape(-1)) for i, c in zip(taken, chosen, strict=True) if np.ndim(c) or isinstance(c, slice)]
        found = ZarrReader(open_array(folder, "x")).read(chosen)
        np.testing.assert_array_equal(found, expected[taken].reshape(kept))
        assert found.dtype == expected.dtype.newbyteorder("=")
        # Into a view of memory in which elements are not next to each other.
        out = np.zeros([2 * n for n in found.shape], found.dtype)[(..., *[slice(None, None, 2)] * found.ndim)]
        np.testing.assert_array_equal(ZarrReader(open_array(folder, "x"), workers=2).read(chosen, out=out), found)


@pytest.mark.parametrize("packed", [{}, {"zlib": True, "shuffle": True}], ids=["plain", "packed"])
@pytest.mark.parametrize("mode", ["nczarr,file", "zarr,file"])
def test_a_strided_read_along_an_unlimited_dimension_is_right_where_the_netcdf_library_is_not(
    tmp_path, mode, packed
) -> None:
    """netCDF-C 4.10.1 returns fill values and shifted ones for ``[:, ::4]`` of NCZarr, as it does not clip the stop.

    Where it sorts bytes, zarr-python reads other values than it: the size of the elements is written as 0.
    """
    expected = np.arange(36, dtype="i4").reshape(4, 9)
    with netCDF4.Dataset(f"file://{tmp_path}/n.zarr#mode={mode}", "w") as file:
        file.createDimension("y", 4)
        file.createDimension("t", None)
        file.createVariable("v", "i4", ("y", "t"), chunksizes=(4, 8), fill_value=-1, **packed)[:, 0:9] = expected
    reader = open_reader(tmp_path / "n.zarr", "v")
    assert type(reader) is ZarrReader
    np.testing.assert_array_equal(reader.read([slice(None), slice(None, None, 4)]), expected[:, ::4])
    for step in (2, 3, 5, 8, -1, -4, -9):
        np.testing.assert_array_equal(reader.read([slice(None, None, step)] * 2), expected[::step, ::step])
    dataset = cfagg.read(tmp_path / "n.zarr", mask_and_scale=False)
    np.testing.assert_array_equal(dataset.v[:, ::4].values, expected[:, ::4])


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5), st.booleans()), min_size=1, max_size=3),
    st.sampled_from(["i2", "f8", "u1", "i8"]),
    st.sampled_from(["little", "big"]),
    st.booleans(),
)
def test_any_selection_of_a_variable_of_nczarr_is_that_of_numpy(data, dims, dtype, order, packed) -> None:
    shape = [n for n, _, _ in dims]
    expected = np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        with netCDF4.Dataset(f"file://{folder}/n.zarr#mode=nczarr,file", "w") as file:
            names = [f"d{k}" for k in range(len(dims))]
            for name, (size, _, unlimited) in zip(names, dims, strict=True):
                file.createDimension(name, None if unlimited else size)
            more: dict[str, Any] = {"zlib": True, "shuffle": True} if packed else {}
            chunks = [min(c, n) for n, c, _ in dims]
            ordered = np.dtype(dtype).newbyteorder("<" if order == "little" else ">")
            made = file.createVariable("v", ordered, names, endian=order, chunksizes=chunks, **more)
            made[tuple(slice(0, n) for n in shape)] = expected
        chosen = [data.draw(selections(n)) for n in shape]
        taken = np.ix_(*(np.atleast_1d(np.arange(n)[c]) for n, c in zip(shape, chosen, strict=True)))
        kept = [len(i.reshape(-1)) for i, c in zip(taken, chosen, strict=True) if np.ndim(c) or isinstance(c, slice)]
        found = open_reader(f"{folder}/n.zarr", "v").read(chosen)
        np.testing.assert_array_equal(found, expected[taken].reshape(kept))


@pytest.mark.parametrize("rank", [32, 33, 64])
def test_one_element_of_an_array_of_as_many_dimensions_as_numpy_has_is_read(tmp_path, rank) -> None:
    shape = (2, *[1] * (rank - 1))
    zarr.create_array(tmp_path, name="x", shape=shape, chunks=(1,) * rank, dtype="i4", compressors=None)
    chunk = tmp_path / "x/c/1" / "/".join("0" * (rank - 1))  # zarr-python writes 32 dimensions at most
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(np.array([7], "<i4"))
    found = ZarrReader(open_array(tmp_path, "x")).read([slice(1, 2)] + [slice(0, 1)] * (rank - 1))
    assert found.ravel().tolist() == [7]


def test_chunks_that_are_too_large_are_refused_before_memory_is_taken(tmp_path) -> None:
    made = zarr.create_array(tmp_path, name="x", shape=(4, 6), chunks=(4, 3), dtype="i4", fill_value=7)
    made[:, :3] = 1
    document = json.loads((tmp_path / "x/zarr.json").read_text())
    document["chunk_grid"]["configuration"]["chunk_shape"] = [2**40, 2**20]
    document["shape"] = [4, 2**20 + 6]
    (tmp_path / "x/zarr.json").write_text(json.dumps(document))
    with pytest.raises(LimitError, match="CFAGG_MAX_CHUNK"):
        ZarrReader(open_array(tmp_path, "x")).read([slice(None), slice(0, 2)])
