"""Bytes of fixed length as characters along a last dimension, compared with NumPy."""

from __future__ import annotations

import dask.array
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cfagg.arrays.fixed_length import CharacterReader, dimension_of, spelled
from cfagg.arrays.given import DaskReader, MemoryReader
from cfagg.arrays.reader import Reader
from tests import strategies

TEXTS = np.array([[b"abc", b"d", b"", b"\xe9z"], [b"q", b"rst", b"u\0v", b"w"]])
LETTERS = TEXTS.reshape(2, 4, 1).view("S1")


@given(st.data())
def test_any_selection_is_that_of_the_characters(data) -> None:
    chunks = tuple(data.draw(st.integers(1, n)) for n in TEXTS.shape)
    reader = CharacterReader(DaskReader(dask.array.from_array(TEXTS, chunks), "n"), "string3")
    selection = [data.draw(strategies.selections(n)) for n in LETTERS.shape]
    expected = LETTERS
    for axis in reversed(range(3)):
        expected = expected[(slice(None),) * axis + (selection[axis],)]
    assert reader.read(selection).tolist() == expected.tolist()


def test_other_values_keep_their_reader() -> None:
    for values in (np.arange(3), np.array([b"a", b"b"]), np.array(["a", "bc"])):
        reader: Reader = MemoryReader(values, "v")
        assert spelled(reader, {}) is reader


def test_the_dimension_has_the_size_of_no_other_and_no_coordinate() -> None:
    assert dimension_of(3, ("x",), {"string3": -1, "string3_": 4}) == "string3__"
    assert dimension_of(3, ("string3",), {}) == "string3_"
    assert dimension_of(3, ("x",), {"len": 3}, "len") == "len"
    assert dimension_of(3, ("x",), {"len": 4}, "len") == "string3"
    assert dimension_of(3, ("len",), {"string3": 4}, "len") == "string3_"
