"""Packing a chunk as the filters shuffle and deflate of HDF5 do, to be stored without the library's own packing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.fastzlib import deflate

__all__ = ["chunk_encoder"]


def chunk_encoder(*, shuffle: bool, level: int | None) -> Callable[[npt.NDArray[Any]], Any]:
    r"""Return a function from a C-contiguous chunk to its stored bytes; without a level nothing is deflated.

    >>> import zlib
    >>> zlib.decompress(chunk_encoder(shuffle=True, level=1)(np.array([1, 2], "<i2")))
    b'\x01\x02\x00\x00'
    """

    def encode(chunk: npt.NDArray[Any]) -> Any:
        raw: Any = chunk.reshape(-1).view(np.uint8)
        if shuffle and chunk.itemsize > 1:
            raw = np.ascontiguousarray(raw.reshape(-1, chunk.itemsize).T).reshape(-1)
        return raw if level is None else deflate(raw, level)

    return encode
