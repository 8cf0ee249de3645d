"""Blocks of unknown lengths written into object stores."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np

import cfagg
from cfagg.writing.zarr.blocks import Blocks, write_blocks
from tests.storage.remote.conftest import Bucket


def test_blocks_get_the_keys_of_chunks_and_nothing_else_stays(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/blocks.zarr"
    x = da.arange(12, chunks=3)
    with dask.config.set(scheduler="threads"):
        write_blocks({"x": Blocks(x[(x < 2) | (x > 7)], ("n",))}, url, target_options=bucket.options)
    assert sorted(bucket.keys("blocks.zarr")) == [
        f"blocks.zarr/{key}" for key in ("x/c/0", "x/c/1", "x/c/2", "x/zarr.json", "zarr.json")
    ]
    found = cfagg.read(url, chunks={}, storage_options=bucket.options)
    assert found.x.chunks == ((2, 1, 3),)
    np.testing.assert_array_equal(found.x.values, [0, 1, 8, 9, 10, 11])
