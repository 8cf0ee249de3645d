"""Which samples a user asks for: a number, a slice, numbers in a row, or a mask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cfagg.errors import SelectionError

__all__ = ["sample_numbers"]

type Int64 = np.ndarray[Any, np.dtype[np.int64]]


def sample_numbers(key: Any, count: int, extent: Callable[[], str] = str) -> int | Int64:
    """Return the number of a sample, or the numbers of several, none negative; `extent` describes them in errors."""
    if isinstance(key, slice):
        try:
            return np.arange(*key.indices(count), dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{key} selects no samples: {error}") from None
    if isinstance(key, (bool, np.bool_)):
        raise SelectionError(f"{key} selects no sample: a number does; a mask has one value per sample")
    try:
        number = operator.index(key)
    except TypeError:
        return _several(key, count, extent)
    if not -count <= number < count:
        raise SelectionError(f"there is no sample {number}: there are {count}{extent()}")
    return number % count


def _several(key: Any, count: int, extent: Callable[[], str]) -> Int64:
    try:
        numbers = np.asarray(key)
    except ValueError:
        # Of lists of unequal lengths.
        numbers = np.array(None)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "biu" and numbers.size):
        raise SelectionError(
            f"{key!r:.80} selects no samples: a number, a slice, numbers in a row, or a mask of all samples does"
        )
    if numbers.dtype == bool:
        if len(numbers) != count:
            raise SelectionError(f"a mask of {len(numbers)} samples does not fit: there are {count}{extent()}")
        return np.flatnonzero(numbers)
    beyond = (numbers >= count) | (numbers < -count)
    if beyond.any():
        raise SelectionError(f"there is no sample {numbers[beyond][0]}: there are {count}{extent()}")
    return numbers.astype(np.int64) % max(count, 1)
