"""Objects of an array that is there already: their keys, and their bytes as its own metadata say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr.encoding import Encoder, encoder, full_shape, padded, shard_bytes
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.model import Regular

__all__ = ["StoredAs"]


@dataclass(frozen=True, eq=False)
class StoredAs:
    """A part of an array, whose objects are counted from `first`; it can be pickled."""

    array: ZarrArray
    first: tuple[int, ...]
    _made: list[Encoder] = field(default_factory=list, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"array": self.array, "first": self.first, "_made": []}

    def key(self, index: Sequence[int]) -> str:
        """Return the key of an object of the part."""
        return f"{self.array.path}/{self.array.key(self._whole(index))}".lstrip("/")

    def encoded(self, index: Sequence[int], values: npt.NDArray[Any]) -> bytes:
        """Return the bytes of an object of the part: a chunk, or a shard."""
        if not self._made:
            self._made.append(encoder(self.array))
        encode, array = self._made[0], self.array
        if array.objects is array.grid:
            return encode.encode(padded(values, full_shape(array, self._whole(index)), array.fill_value))
        lengths = [axis.chunk if isinstance(axis, Regular) else 1 for axis in array.grid.axes]
        parts: list[bytes | None] = []
        for at in product(*map(range, self._counts(index, lengths))):
            part = values[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, lengths, strict=True))]
            parts.append(encode.encode(padded(part, lengths, array.fill_value)) if part.size else None)
        return shard_bytes(array, parts) or b""

    def _whole(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index of an object in the whole array."""
        return tuple(i + f for i, f in zip(index, self.first, strict=True))

    def _counts(self, index: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """Return how many chunks a shard has along each dimension, those beyond the array included."""
        found = []
        for axis, i, n in zip(self.array.objects.axes, self._whole(index), lengths, strict=True):
            length = axis.chunk if isinstance(axis, Regular) else int(np.diff(axis[i : i + 2])[0])
            found.append(length // n)
        return found
