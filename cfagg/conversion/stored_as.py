"""Objects of an existing array: their keys, and their bytes as specified by its metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr.encoding import Encoder, encoder, holds_only, padded, shard_bytes
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.stamps import stamps
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

    def encoded(self, index: Sequence[int], values: npt.NDArray[Any]) -> bytes | None:
        """Return the bytes of an object of the part, a chunk or a shard; `None` if it need not be stored.

        That is, if it contains only the fill value and the store has no such object; existing ones are always replaced.
        """
        is_empty = self._is_fill(values)
        if is_empty and not self._is_there(index):
            return None
        if not self._made:
            self._made.append(encoder(self.array))
        encode, array = self._made[0], self.array
        if array.objects is array.grid:
            return encode.encode(padded(values, array.grid.whole(self._whole(index)), array.fill_value))
        lengths = [axis.chunk if isinstance(axis, Regular) else 1 for axis in array.grid.axes]
        parts: list[bytes | None] = []
        for at in product(*map(range, self._counts(index, lengths))):
            part = values[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, lengths, strict=True))]
            held = part.size and (is_empty or not self._is_fill(part))
            parts.append(encode.encode(padded(part, lengths, array.fill_value)) if held else None)
        return shard_bytes(array, parts)

    def _is_fill(self, values: npt.NDArray[Any]) -> bool:
        """Whether readers know from the metadata which values unstored elements have."""
        # Unstored chunks of a version 2 array without a declared fill value are undefined.
        known = self.array.zarr_format == 3 or self.array.document.get("fill_value") is not None
        return known and values.dtype.kind != "O" and holds_only(values, self.array.fill_value)

    def _is_there(self, index: Sequence[int]) -> bool:
        """Whether the store has an object of the part."""
        objects = self.array.objects.matrix_shape
        number = np.ravel_multi_index(self._whole(index), objects) if objects else 0
        return bool(stamps(self.array, np.array([number]))[0, 0] >= 0)

    def _whole(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index of an object in the whole array."""
        return tuple(i + f for i, f in zip(index, self.first, strict=True))

    def _counts(self, index: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """Return the number of chunks of a shard along each dimension, including those beyond the array."""
        whole = self.array.objects.whole(self._whole(index))
        return [length // n for length, n in zip(whole, lengths, strict=True)]
