"""The addresses of the fragments of an aggregation in an index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.schema import FIELD
from cfagg.arrays.stated_formats import field_at, is_field
from cfagg.model import Aggregation

__all__ = ["addresses_of"]


def addresses_of(
    aggregation: Aggregation, word_size: int | None = None
) -> tuple[list[tuple[int, str]], npt.NDArray[np.int64]]:
    """Return file code and address of each fragment, and for each partition the index of its fragment, or -1."""
    partitions = aggregation.partitions
    number = np.full(len(partitions), -1)
    wanted: list[tuple[int, str]] = []
    present = partitions.present & (partitions.value < 0) & (partitions.file >= 0)
    fields = np.array([is_field(one.format) for one in partitions.layouts], np.bool_)[partitions.layout] & present
    for i in np.flatnonzero(fields).tolist() if word_size is None else ():
        at = field_at(partitions, i)
        if at >= 0:
            number[i] = len(wanted)
            wanted.append((int(partitions.file[i]), f"{FIELD}{at}"))
    named = np.flatnonzero(present & ~fields & (partitions.address >= 0))
    width = len(partitions.addresses) + 1
    codes = partitions.file[named].astype(np.int64) * width + partitions.address[named]
    distinct, inverse = np.unique(codes, return_inverse=True)
    number[named] = inverse.reshape(-1) + len(wanted)
    addresses = list(partitions.addresses)
    wanted += [(code // width, addresses[code % width]) for code in distinct.tolist()]
    return wanted, number
