"""The `part` of a partition: the indices of its sub-array that it consists of.

A part is a string with its own small grammar, in the sub-array's order and applied before any reversal:
``(start, stop, step)`` is Python's ``range``, with an exclusive stop, ``[i, j, ...]`` lists indices, and ``[]`` as the
whole text means everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, LimitError

__all__ = ["Indices", "canonical", "counts", "parse"]

#: Indices along one dimension: a range, or an array if they are irregular.
Indices = range | npt.NDArray[np.int64]

_INTEGER = r"[ \t\n\r]*+-?[0-9]{1,18}[ \t\n\r]*+"
_RANGE = re.compile(rf"\(({_INTEGER}),({_INTEGER}),({_INTEGER})\)").match
_LIST = re.compile(rf"\[((?:{_INTEGER},)*+{_INTEGER})?[ \t\n\r]*+\]").match
_SQUARE_RANGE = re.compile(rf"\[({_INTEGER}),({_INTEGER}),({_INTEGER})\]").match
#: With the comma that Python writes after a single entry.
_ROUND_LIST = re.compile(rf"\(((?:{_INTEGER},)*+{_INTEGER}|{_INTEGER},[ \t\n\r]*+)?[ \t\n\r]*+\)").match
_SEPARATOR = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+").match
_SPACE = " \t\n\r"


def parse(
    text: str, shape: Sequence[int], brackets: Literal["python", "round", "square"] = "python"
) -> tuple[Indices, ...]:
    """Return the indices that a part such as ``"[(2, 6, 1), [1,3,4,7]]"`` selects, as ranges if evenly spaced.

    Ranges are in round brackets and exclude their stop as in Python; from NCA 0.2 to CFA 0.3 they include it, and in
    CFA 0.4 they are also in square brackets and lists in round ones.
    """
    range_, list_ = (_SQUARE_RANGE, _ROUND_LIST) if brackets == "square" else (_RANGE, _LIST)
    if len(text) > limits.MAX_PART_LIST and text.count(",") > limits.MAX_PART_LIST:
        raise LimitError(
            f"part {shorten(text)} lists more than {limits.MAX_PART_LIST} indices; write a range (start, stop, step)"
        )
    body = text.strip(_SPACE)
    if len(body) < 2 or body[0] != "[" or body[-1] != "]":
        raise _broken(text, "expected a list in square brackets")
    body = body[1:-1].strip(_SPACE)
    if not body:
        return tuple(range(n) for n in shape)
    out: list[Indices] = []
    position = 0
    while True:
        if match := range_(body, position):
            start, stop, step = int(match[1]), int(match[2]), int(match[3])
            if step == 0:
                raise _broken(text, f"the step of {match[0]} is 0")
            if brackets != "python":
                stop += 1 if step > 0 else -1
            indices: Indices = range(start, stop, step)
        elif match := list_(body, position):
            indices = _simplest(
                np.array([int(i) for i in match[1].rstrip(", \t\n\r").split(",")] if match[1] else [], np.int64)
            )
        else:
            forms = (
                "[start, stop, step] or (i, j, ...)" if brackets == "square" else "(start, stop, step) or [i, j, ...]"
            )
            raise _broken(text, f"expected {forms} at {shorten(body[position:], 30)}")
        if len(out) < len(shape):
            indices = _within(indices, len(out), shape, text)
        out.append(indices)
        position = match.end()
        if position == len(body):
            break
        separator = _SEPARATOR(body, position)
        if separator is None:
            raise _broken(text, f"expected a comma at {shorten(body[position:], 30)}")
        position = separator.end()
    if len(out) != len(shape):
        raise _broken(text, f"it has {len(out)} dimensions, its sub-array has {len(shape)} (shape {tuple(shape)})")
    return tuple(out)


def canonical(indices: Sequence[range | slice | npt.NDArray[np.int64] | Sequence[int]], shape: Sequence[int]) -> str:
    """Return the canonical text of these indices: ranges stop at a multiple of their step, everything is ``"[]"``."""
    if len(indices) != len(shape):
        raise ConventionError(f"indices of {len(indices)} dimensions for a sub-array of shape {tuple(shape)}")
    texts = []
    everything = True
    for axis, (given, size) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(given, slice):
            entry: Indices = range(*given.indices(size))
        elif isinstance(given, range):
            entry = given
        else:
            entry = _simplest(np.asarray(given, np.int64))
        entry = _within(entry, axis, shape, str(given))
        everything &= isinstance(entry, range) and entry == range(size)
        if isinstance(entry, range):
            n, step = len(entry), entry.step if len(entry) > 1 else 1
            stop = entry.start + n * step
            stop = min(stop, size) if step > 0 else max(stop, -1)
            texts.append(f"({entry.start}, {stop}, {step})")
        else:
            texts.append(f"[{', '.join(map(str, entry.tolist()))}]")
    return "[]" if everything else f"[{', '.join(texts)}]"


def counts(indices: Sequence[Indices]) -> tuple[int, ...]:
    """Return the shape of the data array that a part selects."""
    return tuple(len(entry) for entry in indices)


def _simplest(values: npt.NDArray[np.int64]) -> Indices:
    """Return equally spaced indices as a range, others unchanged."""
    if values.ndim != 1:
        raise ConventionError(f"indices of one dimension are a flat list; found shape {values.shape}")
    if values.size == 0:
        return range(0)
    first = int(values[0])
    if values.size == 1:
        return range(first, first + 1)
    step = int(values[1]) - first
    if step and (values.size == 2 or (np.diff(values) == step).all()):
        return range(first, first + step * values.size, step)
    values.flags.writeable = False
    return values


def _within(indices: Indices, axis: int, shape: Sequence[int], text: str) -> Indices:
    """Return the indices if they are inside the dimension and there are any."""
    if len(indices) == 0:
        raise _broken(text, f"it selects nothing from dimension {axis}")
    if isinstance(indices, range):
        low, high = sorted((indices[0], indices[-1]))
    else:
        low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= shape[axis]:
        bad = low if low < 0 else high
        raise _broken(text, f"index {bad} is outside dimension {axis} of its sub-array of shape {tuple(shape)}")
    return indices


def _broken(text: str, message: str) -> ConventionError:
    """Return the error for a part that cannot be read."""
    return ConventionError(f"part {shorten(text)} is not understood: {message}")
