"""Rows of different lengths in object stores."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, ConformError, TargetError
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


def a_block(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.full(3 * n, float(n)), np.arange(3 * n), np.array([0, n, 3 * n])


def test_pieces_get_the_keys_of_chunks_and_nothing_else_stays(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/pieces.zarr"
    pieces = [partial(a_block, n) for n in (0, 2, 5)]
    cfagg.write_rows(pieces, url, chunk=50, target_options=bucket.options)
    keys = [f"{name}/c/{k}" for name in ("data", "indices") for k in range(3)]
    keys += ["indptr/c/0", "zarr.json", *(f"{name}/zarr.json" for name in ("data", "indices", "indptr"))]
    assert sorted(bucket.keys("pieces.zarr")) == sorted(f"pieces.zarr/{key}" for key in keys)
    rows = cfagg.open_rows(url, storage_options=bucket.options)
    assert [row.data.tolist() for row in rows] == [[n] * (n * k) for n in (0, 2, 5) for k in (1, 2)]


def test_rows_are_not_removed_by_what_is_made_of_them(keyed: Bucket) -> None:
    url = f"s3://{keyed.name}/own.zarr"
    cfagg.write_rows(a_block(3), url)
    rows = cfagg.open_rows(url)
    arrays = tuple(cfagg.open_array(url, name) for name in ("data", "indices", "indptr"))
    batches = (batch.to_scipy() for batch in rows.batches(1))
    for given in (arrays, [arrays], batches, rows.batches(1), [lambda: rows[:].to_scipy()]):
        with pytest.raises(TargetError, match="would be replaced by data that are read from it"):
            cfagg.write_rows(given, url, overwrite=True)
    assert cfagg.open_rows(url)[:].data.tolist() == [3.0] * 9


class Nobody:
    """A client of a cluster that is not asked."""

    as_current = nullcontext


def test_secrets_are_not_sent_to_workers(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/none.zarr"
    with pytest.raises(AccessError, match="not sent to other processes"):
        cfagg.write_rows([partial(a_block, 2)], url, target_options=bucket.options, client=Nobody())
    assert bucket.keys("none.zarr") == []


@pytest.mark.full
@pytest.mark.usefixtures("keyed")
def test_workers_of_a_cluster_write_pieces_into_a_bucket(bucket: Bucket) -> None:
    from distributed import Client, LocalCluster

    url = f"s3://{bucket.name}/pieces_of_a_cluster.zarr"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cfagg.write_rows([partial(a_block, n) for n in range(9)], url, chunk=50, client=client)
    rows = cfagg.open_rows(url, storage_options=bucket.options)
    assert [row.data.tolist() for row in rows] == [[n] * (n * k) for n in range(9) for k in (1, 2)]
    assert not [key for key in bucket.keys("pieces_of_a_cluster.zarr") if "__blocks" in key or ".cfagg" in key]
