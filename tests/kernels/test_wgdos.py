"""Unpacking WGDOS: rows of all kinds against a twin that reads digits, and any words whatever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels.wgdos import unpack_wgdos
from tests import oracles
from tests.effort import examples

MISSING = -(2.0**30)

#: 1.0, -118.625 and 1/16 in IBM's floating point.
ONE, NEGATIVE, SMALL = 0x41100000, 0xC276A000, 0x40100000


def unpacked(words: list[int], shape: tuple[int, int], dtype: str = "f8") -> tuple[list[list[float]], tuple[int, int]]:
    out = np.full(shape, 77, dtype)
    result = unpack_wgdos(np.array(words, np.uint32), out, MISSING)
    return out.tolist(), result


def row(base: int, flags: int, text: str = "") -> list[int]:
    """Return a row whose bits are given as digits."""
    digits = text.replace(" ", "")
    words = [int(digits[i : i + 32].ljust(32, "0"), 2) for i in range(0, len(digits), 32)]
    return [base, flags << 16 | len(words), *words]


def field(rows: list[list[int]], columns: int, exponent: int = 0) -> list[int]:
    body = [w for r in rows for w in r]
    return [3 + len(body), exponent % 2**32, columns << 16 | len(rows), *body]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(ONE, 0), [1, 1, 1, 1]),
        (row(NEGATIVE, 0), [-118.625] * 4),
        (row(SMALL, 4, "0000 0001 1111 0010"), [0.0625, 0.3125, 3.8125, 0.5625]),
        (row(ONE, 31, "".join(f"{n:031b}" for n in (0, 1, 2**31 - 1, 4))), [1, 1.25, 2**29 + 0.75, 2]),
        (row(ONE, 32, "0110"), [1, MISSING, MISSING, 1]),
        (row(ONE, 64 | 2, "0010" + "0" * 28 + "01 10 11"), [1.25, 1.5, 1, 1.75]),
        (row(ONE, 128 | 2, "0110" + "0" * 28 + "01 10"), [0, 1.25, 1.5, 0]),
        (row(ONE, 224 | 2, "1000 0100 1110" + "0" * 20 + "11"), [MISSING, 1, 1.75, 0]),
        (row(ONE, 160, "1000 1111"), [MISSING, 1, 1, 1]),
    ],
)
def test_a_row_of_each_kind(one: list[int], expected: list[float]) -> None:
    assert unpacked(field([one, row(ONE, 0)], 4, -2), (2, 4)) == ([expected, [1] * 4], (0, 2))


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("flags", [9, 64 | 9])
def test_values_that_a_row_does_not_hold_are_missing_and_counted_and_the_next_row_is_not_read(
    dtype: str, flags: int
) -> None:
    maps = "" if flags < 32 else "0000" + "0" * 28
    short = row(ONE, flags, maps + "111111111" * 3)
    values, result = unpacked(field([short, row(0x44FFFFFF, 0)], 4), (2, 4), dtype)
    assert values[0] == [512, 512, 512, MISSING]
    assert result == (1, 0)


@pytest.mark.parametrize(
    "words",
    [
        [],
        [3, 0],
        field([row(ONE, 256)], 4),  # flags that there are not
        field([row(ONE, 0xFFFF)], 4),
        field([row(ONE, 32)], 4),  # a map that is not there
        field([row(ONE, 160, "1000 0111")], 4),  # both missing and zero
        field([[ONE, 5, 0]], 4),  # words that are not there
        field([[ONE]], 4),
        field([], 4),
        field([row(ONE, 0)], 4, 901),
        field([row(ONE, 0)], 4, -(2**31)),
    ],
)
def test_rows_that_cannot_be_are_refused(words: list[int]) -> None:
    assert unpacked(words, (1, 4))[1] == (-1, 0)


@pytest.mark.parametrize(("base", "exponent"), [(0x7F100000, 0), (0xFF100000, 0), (ONE, 125)])
def test_rows_beyond_the_type_of_the_values_are_refused(base: int, exponent: int) -> None:
    words = field([row(ONE, 0), row(base, 4, "1111" * 4)], 4, exponent)
    assert unpacked(words, (2, 4), "f4")[1] == (-1, 1)
    assert unpacked(words, (2, 4), "f8")[1] == (0, 2)


@settings(max_examples=examples(300))
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1), st.integers(0, 255), st.lists(st.integers(0, 2**32 - 1), max_size=12)
        ),
        min_size=1, max_size=4,
    ),
    columns=st.integers(1, 70),
    exponent=st.integers(-20, 20),
    cut=st.integers(0, 3),
)  # fmt: skip
def test_any_words_mean_what_the_digits_mean(rows, columns, exponent, cut) -> None:  # type: ignore[no-untyped-def]
    words = field([[base, flags << 16 | len(held), *held] for base, flags, held in rows], columns, exponent)
    words = words[: len(words) - cut]
    shape = (len(rows), columns)
    expected = oracles.unpack_wgdos(words, shape, MISSING)
    out = np.full((shape[0] + 1, columns), 77.0)
    lacking, first = unpack_wgdos(np.array(words, np.uint32), out[:-1], MISSING)
    assert (out[-1] == 77).all()
    if expected is None:
        assert lacking == -1
    else:
        values, short = expected
        assert out[:-1].tolist() == [[float(v) for v in r] for r in values]
        assert (lacking, first) == (sum(short), next((i for i, n in enumerate(short) if n), shape[0]))
