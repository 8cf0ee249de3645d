"""Comparing what cfagg builds with what the plain writer of `reference` writes of the same values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from cfagg.accumulation import adding, recipe
from cfagg.arrays.chunked import ZarrReader
from cfagg.formats.zarr.batches import ODD
from tests.accumulation import reference


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Answer by this number of threads, however little there is to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adding, "threads_for", lambda cost: number)
        yield


def assert_same(built: Path, expected: Path, name: str, *, scale: float = 1.0) -> None:
    """Compare every array and attribute of two accumulation groups, sums of real numbers to rounding.

    `scale` is the size of the numbers that were added, in which rounding is measured.
    """
    a, b = (zarr.open_group(p, path=f"{name}_accumulation_group", mode="r") for p in (built, expected))
    assert a.metadata.zarr_format == b.metadata.zarr_format
    mine, other = dict(a.attrs), dict(b.attrs)
    assert mine["_ACCUMULATION_GROUP"] == other["_ACCUMULATION_GROUP"]
    ours, theirs = ({**v["cfagg"], "created_by": ""} for v in (mine, other))
    for record in (ours, theirs):
        # The plain writer does not judge how large values are.
        record.pop("magnitudes", None)
        # What differs, for the two stores were written at different times and by different builds.
        for key in ("checks", "crc", "related"):
            record.pop(key)
        # Lists of equal lengths are regular chunks to older versions of zarr-python.
        described = zip(record["source"]["chunks"], record["source"]["shape"], strict=True)
        record["source"] = {**record["source"], "chunks": [lengths(c, n) for c, n in described]}
        record["counts"] = sorted(record["counts"], key=lambda c: c["dims"])
        record["statistics"] = sorted(record["statistics"], key=lambda s: (s["dims"], s["level"]))
    assert ours == theirs
    # One look at each group: zarr-python takes its time over each of hundreds of arrays.
    found, wanted = dict(a.arrays()), dict(b.arrays())
    assert found.keys() == wanted.keys()
    for key, x in found.items():
        y = wanted[key]
        assert x.dtype == y.dtype, key
        assert_stored(built / f"{name}_accumulation_group" / key, x)
        if key == "checksums":
            continue
        plain = [{k: v for k, v in a.attrs.items() if k != "cfagg_build"} for a in (x, y)]
        assert plain[0] == plain[1] or key == "chunk_stamps" or key.startswith("boundary_"), key
        if key == "chunk_stamps":
            # Sizes and checksums; related arrays come after.
            np.testing.assert_array_equal(x[: y.shape[0], 0], y[:, 0])
            np.testing.assert_array_equal(x[: y.shape[0], 4], y[:, 4])
            continue
        assert x.shape == y.shape, key
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x[...], y[...], rtol=1e-9, atol=1e-9 * scale, err_msg=key)
        else:
            np.testing.assert_array_equal(x[...], y[...], err_msg=key)


def lengths(chunks: Any, size: int) -> list[int]:
    """Return the lengths of chunks along a dimension from how they are described."""
    if isinstance(chunks, int):
        return [min(chunks, size - start) for start in range(0, size, chunks)]
    return [n for n, run in chunks for _ in range(run)]


def assert_stored(folder: Path, array: Any) -> None:
    """Every chunk of an array of a group is there: an absent one means damage."""
    found = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("zarr.json", ".zarray", ".zattrs")]
    assert len(found) == array.nchunks, folder


def expect(
    store: Path,
    raw: np.ndarray,
    dims: Sequence[str],
    chunks: Sequence[Any],
    combinations: Sequence[Sequence[str]],
    source: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write an array and its accumulation by the plain writer."""
    reference.write_source(store, "tas", raw, dims, chunks, **(source or {}))
    form = (source or {}).get("zarr_format", 3)
    reference.write_group(store, "tas", raw, dims, chunks, combinations, zarr_format=form, **options)
    return store


def chunks_read(monkeypatch, path: str = "tas") -> list[tuple[int, ...]]:
    """Return a list to which the index of every chunk of an array is added that is read from now on."""
    seen: list[tuple[int, ...]] = []
    real = ZarrReader.chunk

    def chunk(reader, index, *args, **options):
        if reader.array.path == path:
            seen.append(tuple(index))
        return real(reader, index, *args, **options)

    together = recipe._read_files

    def read_files(recipe, numbers, *args):
        done = together(recipe, numbers, *args)
        if recipe.window.array.path == path:
            seen.extend(recipe.window.indices(numbers[done != ODD]))
        return done

    monkeypatch.setattr(ZarrReader, "chunk", chunk)
    monkeypatch.setattr(recipe, "_read_files", read_files)
    return seen
