"""What is read from a place is found, whatever reads it; other places are no hindrance."""

from __future__ import annotations

import pickle
import sys
import threading
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from obstore.store import S3Store

from cfagg.errors import TargetError
from cfagg.writing.zarr.own_source import refuse_own_source

TARGET = "s3://buck/a/b.zarr"


def store(bucket: str, prefix: str) -> Any:
    return zarr.storage.ObjectStore(S3Store(bucket, prefix=prefix))


def several(*given: Any) -> Any:
    yield from given


def closure(*given: Any) -> Any:
    return lambda: given


def begun(*given: Any) -> Any:
    found = several(3, *given)
    next(found)
    return found


def graph(*given: Any) -> Any:
    return da.ones(4, chunks=2).map_blocks(lambda block, *_: block, *given, dtype=float) + 1


@pytest.mark.parametrize(
    "given",
    [
        store("buck", "a/b.zarr"), graph(store("buck", "a/b.zarr")), graph("buck/a/b.zarr/tas"), "s3://buck/a",
        "S3://buck/a/b.zarr/", ["s3://buck", "a/b.zarr"], np.array(["s3://buck/a/b.zarr/c/0"], object),
        pickle.dumps({"key": "buck/a/b.zarr"}), graph(threading.Lock(), TARGET),
        several(store("buck", "a/b.zarr")), (x for x in begun(TARGET)), partial(sum, [several(TARGET)]),
        closure(store("buck", "a/b.zarr")), graph(closure(TARGET)),
        lambda: zarr.open_array("s3://buck/a/b.zarr/tas"),
    ],
)  # fmt: skip
def test_what_names_the_place_is_refused(given: Any) -> None:
    with pytest.raises(TargetError, match="data that are read from it"):
        refuse_own_source(TARGET, 3, given, overwrite=True)
    refuse_own_source(TARGET, given, overwrite=False)  # a store that is there is an error then
    refuse_own_source("/buck/a/b.zarr", given, overwrite=True)  # is read until the new one is complete


@pytest.mark.parametrize(
    "given",
    [
        store("buck", "a/c.zarr"), store("buck2", "a/b.zarr"), graph(np.ones(4)), "s3://buck/a/b.zarr2", "a", "buck",
        graph(threading.Lock()), "s3://other/a/b.zarr", b"no pickle", None,
        several("s3://buck/a/c.zarr"), closure(store("buck", "a/c.zarr")), closure(threading.Lock(), pytest, sys.stdin),
        lambda: zarr.open_array("s3://buck/a/c.zarr/tas"),
    ],
)  # fmt: skip
def test_other_places_are_no_hindrance(given: Any) -> None:
    refuse_own_source(TARGET, given, overwrite=True)


def test_what_cannot_be_looked_into_is_refused() -> None:
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]
    with pytest.raises(TargetError, match="cannot be found out"):
        refuse_own_source(TARGET, endless, overwrite=True)


def test_text_that_is_no_url_although_it_looks_like_one_is_no_hindrance() -> None:
    refuse_own_source(TARGET, ["http://[", "http://[::1", "://"], overwrite=True)
