"""Values of Zarr arrays that are cut into very many chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from cfagg.conventions import limits
from cfagg.errors import LimitError
from cfagg.formats.metadata import zarr as source


def _store(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
    array = zarr.open_group(str(path), mode="w", zarr_format=2).create_array(
        "a", shape=shape, chunks=chunks, dtype="i4", fill_value=0
    )
    array[...] = np.arange(np.prod(shape)).reshape(shape)
    return array


@pytest.mark.few(1)
@pytest.mark.parametrize(("shape", "chunks"), [((40,), (3,)), ((9, 7), (2, 1)), ((4, 5, 6), (1, 5, 2))])
def test_values_read_in_pieces_are_those_of_zarr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    written = _store(tmp_path / "s.zarr", shape, chunks)
    for most in (1, 2, 5):
        monkeypatch.setattr(source, "_AT_ONCE", most)
        with source.open_zarr(str(tmp_path / "s.zarr")) as dataset:
            read = dataset.variables[0].read
            assert read is not None
            slices = tuple(slice(1, n, 1) for n in shape)
            np.testing.assert_array_equal(read(slices), written[slices])


def test_more_chunks_than_an_aggregation_may_have_are_refused(tmp_path: Path) -> None:
    _store(tmp_path / "s.zarr", (4,), (2,))
    document = tmp_path / "s.zarr" / "a" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), "shape": [2 * limits.MAX_PARTITIONS + 1]}))
    with source.open_zarr(str(tmp_path / "s.zarr")) as dataset:
        read = dataset.variables[0].read
        assert read is not None
        with pytest.raises(LimitError, match="chunks; values are read only from arrays of up to"):
            read((slice(0, 4, 1),))
