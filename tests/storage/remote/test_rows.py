"""Rows of different lengths in object stores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import cfagg
from cfagg.errors import ConformError
from tests.storage.remote.conftest import Bucket


def test_rows_are_written_and_read_there(bucket: Bucket) -> None:
    url, options = f"s3://{bucket.name}/rows.zarr", bucket.options
    data, indptr = np.arange(60.0), np.array([0, 20, 20, 45, 60])
    labels = {"kind": np.array([3, 1, 4, 1])}
    cfagg.write_rows((data, np.arange(60) % 7, indptr), url, labels=labels, chunk=200, target_options=options)
    rows = cfagg.open_rows(url, storage_options=options)
    batch = rows[[3, 0]]
    np.testing.assert_array_equal(batch.data, [*range(45, 60), *range(20)])
    assert batch.labels["kind"].tolist() == [1, 3]
    drawn = [row.data.tolist() for b in rows.batches(3, shuffle=True, seed=0) for row in b]
    assert sorted(drawn) == sorted(data[a:b].tolist() for a, b in pairwise(indptr))


def test_rows_that_do_not_fit_together_leave_nothing_there(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/none.zarr"
    blocks = [(np.arange(4.0), np.array([0, 4])), (np.arange(4, dtype="f4"), np.array([0, 4]))]
    with pytest.raises(ConformError):
        cfagg.write_rows(blocks, url, target_options=bucket.options)
    assert bucket.keys("none.zarr") == []
