"""Indexes of stores of observations, for finding the rows with dates in an interval.

*index*: the dates of a store of observations, and the rows of each, so that a window is found without reading the
rows.
"""

from cfagg.observations.indexes.bisect import write_bisect
from cfagg.observations.indexes.btree import write_btree
from cfagg.observations.indexes.pages_writing import write_pages
from cfagg.observations.indexes.protocol import Entries, Index, checked
from cfagg.observations.indexes.registry import (
    build_pages,
    entries_of_blocks,
    index_kinds,
    joined,
    open_index,
    stored_kinds,
)

__all__ = [
    "Entries", "Index", "build_pages", "checked", "entries_of_blocks", "index_kinds", "joined", "open_index",
    "stored_kinds", "write_bisect", "write_btree", "write_pages",
]  # fmt: skip
