"""Zstd by one call of the library: the frames of numcodecs, by any thread, and what becomes of them again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numcodecs import Zstd

from cfagg.formats import fastzstd
from cfagg.formats.zarr.written_codecs import Codec


def fields():
    random = np.random.default_rng(3)
    return [
        np.zeros(0, "i2"),
        np.ones(1, "u1"),
        np.zeros((300, 500), "f4"),
        random.normal(size=(40, 50)),
        random.integers(0, 9, 70_000).astype("<i2"),
    ]


@pytest.mark.parametrize("level", [-5, 0, 1, 3, 19])
def test_the_frames_are_those_of_numcodecs(level):
    for values in fields():
        assert fastzstd.compress(values, level) == Zstd(level).encode(values)


def test_another_level_is_taken_for_the_next_chunk():
    values = fields()[3]
    assert [bytes(fastzstd.compress(values, n)) for n in (1, 9, 1)] == [Zstd(n).encode(values) for n in (1, 9, 1)]


def test_every_thread_has_its_own_memory():
    encode = Codec("zstd", 1).lender()
    chunks = [np.full(1000 + 10 * i, i) for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda c: bytes(encode(c)), chunks))
    assert found == [Zstd(1).encode(c) for c in chunks]


def test_without_the_functions_chunks_are_packed_by_numcodecs(monkeypatch):
    monkeypatch.setattr(fastzstd, "compress", lambda data, level: None)
    assert Codec("zstd", 1).lender()(fields()[3]) == Zstd(1).encode(fields()[3])
