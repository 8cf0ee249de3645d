"""Reading many chunks at a time; zarr-python and NumPy say what comes out."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs as zc
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.arrays import batched
from cfagg.arrays.chunked import ZarrReader
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
    kind = draw(st.sampled_from(["v2", "v3", "shards", "unequal"]))
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
