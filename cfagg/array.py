"""The lazy array that xarray variables hold: it reads when it is indexed, and only what is indexed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends.common import BackendArray
from xarray.core import indexing

from cfagg.execute import PlainReader, Reader, RefusedReader

__all__ = ["LazyArray"]


class LazyArray(BackendArray):
    """An array over a reader, for `xarray.core.indexing.LazilyIndexedArray`.

    Parameters
    ----------
    reader : Reader, PlainReader or RefusedReader
        What reads.  It may be pickled, and so may the array.

    Notes
    -----
    Basic and outer indexing are read as they are.  Vectorized indexing is split by xarray into an outer read of what is
    needed and an indexing of that in memory.
    """

    __slots__ = ("dtype", "reader", "shape")

    def __init__(self, reader: Reader | PlainReader | RefusedReader) -> None:
        self.reader = reader
        self.shape = reader.shape
        self.dtype = reader.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        """Read what an indexer of xarray selects."""
        return indexing.explicit_indexing_adapter(  # type: ignore[no-any-return]
            key, self.shape, indexing.IndexingSupport.OUTER, self._read
        )

    def _read(self, key: tuple[int | slice | npt.NDArray[np.int64], ...]) -> npt.NDArray[Any]:
        return self.reader.read(key)

    def __repr__(self) -> str:
        return f"<LazyArray of {self.reader!r}>"
