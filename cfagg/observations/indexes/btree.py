"""The index of the published software that is a B+tree.

Each row of the array ``date_index_btree`` is a page: a flag for nodes, the number of entries, left, right, then entries
of three numbers.  Pages are counted from 1 (row 0); 0 means none.  A leaf has epochs, starts and lengths, and its
neighbours in left and right. A node has its first child in left, and entries of epochs and children.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from cfagg.errors import ConventionError, SourceError
from cfagg.observations.indexes.protocol import Entries, Int64, Store, checked
from cfagg.observations.indexes.table import Table, TableIndex, TableWriter, ZarrFormat, new_table

__all__ = ["NAME", "BTreeIndex", "open_btree", "write_btree"]

#: Name of the array.
NAME = "date_index_btree"

#: Number of entries of a page, as in the published software.
PAGE = 256

#: Number of pages of a chunk: 64 MiB as in the published software, and fewer in cfagg's own layout.
_CHUNK: dict[ZarrFormat, int] = {2: 10866, 3: 2**10}

_HEAD = 4
#: Largest height; a higher tree must contain a cycle.
_MAX_HEIGHT = 64
#: Number of cached pages, nodes and recently used leaves, 3 MiB in total.
_CACHED = 512


class BTreeIndex(TableIndex):
    """A B+tree of entries in a Zarr array (see `Index` for the methods)."""

    kind, name = "btree", NAME

    def __init__(self, table: Table, rows: int) -> None:
        root, columns = table.attributes.get("root_page_id"), table.shape[1]
        if type(root) is not int or columns < _HEAD + 12 or (columns - _HEAD) % 3:
            raise SourceError(f"{table.where}: {columns} columns and root_page_id {root!r} are not a B+tree")
        self._table = table
        self._forget()
        left, right = (_entries(self._page(self._leaf(None, end))) for end in (0, -1))
        if bool(len(left)) != bool(len(right)):
            raise ConventionError(f"{table.where}: one of its first and last leaf is empty; build the index again")
        super().__init__(table, rows, (left[0], right[-1]) if len(left) else None)

    @cached_property
    def entries(self) -> int:
        """Number of entries, counted leaf by leaf on first access."""
        return sum(map(len, self._tables()))

    def _forget(self) -> None:
        super()._forget()
        self._pages: dict[int, Int64] = {}

    def _page(self, page: int) -> Int64:
        """Return a page after checking its form."""
        found = self._pages.get(page)
        if found is not None:
            return found
        if not 1 <= page <= self._table.shape[0]:
            raise ConventionError(f"{self._table.where} leads to page {page:,} of {self._table.shape[0]:,}")
        row: Int64 = self._table.read(page - 1, page)[0]
        if row[0] not in (0, 1) or not 0 <= row[1] <= (len(row) - _HEAD) // 3:
            raise ConventionError(f"{self._table.where}: page {page:,} begins with {row[:_HEAD].tolist()}")
        if len(self._pages) >= _CACHED:
            # A new dictionary, since other threads may be reading the old one.
            self._pages = {}
        self._pages[page] = row
        return row

    def _leaf(self, epoch: int | None, end: int = 0) -> int:
        """Return the leaf with the first entry not before an epoch, or the leaf before that, or the leaf at an end."""
        page = int(self._table.attributes["root_page_id"])
        for _ in range(_MAX_HEIGHT):
            row = self._page(page)
            if not row[0]:
                return page
            keys = _entries(row)
            # Entries of the epoch that points to a child may begin in the preceding child.
            i = int(np.searchsorted(keys[:, 0], epoch)) if epoch is not None else len(keys) if end else 0
            page = int(keys[i - 1, 1]) if i else int(row[2])
        raise ConventionError(f"{self._table.where}: its nodes form a circle")

    def _before(self, epoch: int) -> int:
        return self._leaf(epoch)

    def _part(self, block: int) -> tuple[Int64, bool]:
        leaves = self._leaves(block)
        table, after = next(leaves, np.empty((0, 3), np.int64)), next(leaves, None)
        if after is None:
            return table, True
        return np.concatenate([table, after[:1]]), len(after) == 1 and next(leaves, None) is None

    def _tables(self, epoch: int | None = None) -> Iterator[Int64]:
        return self._leaves(self._leaf(epoch))

    def _leaves(self, page: int) -> Iterator[Int64]:
        """Yield the entries of a leaf and of those to its right, as tables of three columns."""
        for _ in range(self._table.shape[0] + 1):
            row = self._page(page)
            if row[0]:
                raise ConventionError(f"{self._table.where}: a leaf has a node at its right")
            if row[1]:
                yield _entries(row)
            if not row[3]:
                return
            page = int(row[3])
        raise ConventionError(f"{self._table.where}: its leaves form a circle")

    def _probes_of(self, epoch: Int64) -> Int64:
        # The linked leaves must be those that the nodes point to.
        return epoch[::PAGE]


def open_btree(store: Store) -> BTreeIndex:
    """Return the index of a store that is a B+tree."""
    return BTreeIndex(Table(store.source, NAME), store.rows)


def write_btree(group: str | os.PathLike[str], entries: Iterable[Entries], *, zarr_format: ZarrFormat = 2) -> int:
    """Write an index as a B+tree, ``date_index_btree``, with the pages of the published software's bulk loading.

    Only one epoch in 256 is kept in memory.  The number of entries is returned.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_btree(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))])
    2
    """
    width = _HEAD + 3 * PAGE
    chunk = _CHUNK[zarr_format]
    keys: list[Int64] = []
    count, leaves = 0, 0
    with new_table(group, NAME, width, chunk, ("pages", "payloads"), zarr_format) as table:
        for entry_table, is_last in _whole_pages(checked(entries, NAME)):
            n = len(entry_table)
            size = -(-n // PAGE)
            if not leaves and not (is_last and n <= PAGE):
                # The root of an empty tree remains in its place, unused.
                table.append(np.zeros((1, width), np.int64))
            pages = np.zeros((size, width), np.int64)
            pages[:, 1] = PAGE
            pages[-1, 1] = n - (size - 1) * PAGE
            flat = np.zeros((size * PAGE, 3), np.int64)
            flat[:n] = entry_table
            pages[:, _HEAD:] = flat.reshape(size, 3 * PAGE)
            number = np.arange(leaves, leaves + size)
            # The first leaf is page 2.
            pages[:, 2] = np.where(number == 0, 0, number + 1)
            pages[:, 3] = number + 3
            if is_last:
                pages[-1, 3] = 0
            table.append(pages)
            keys.append(entry_table[::PAGE, 0].copy())
            count, leaves = count + n, leaves + size
        if count == 0:
            table.append(np.zeros((1, width), np.int64))
        root = 1
        if leaves > 1:
            root = _write_nodes(table, np.concatenate(keys), width)
        attributes = {
            "root_page_id": root,
            "number_of_rows": table.rows,
            "page_size": PAGE,
            "max_entries": PAGE,
            "chunk_sizes": 2**26,
        }
        table.finish(attributes, least_rows=chunk)
    return count


def _write_nodes(table: TableWriter, keys: Int64, width: int) -> int:
    """Write the levels above the leaves, from the first epochs of the leaves, and return the page of the root."""
    first = 2
    while len(keys) > 1:
        start = table.rows + 1
        size = -(-len(keys) // (PAGE + 1))
        for a in range(0, size, 1024):
            b = min(size, a + 1024)
            children = np.arange(a * (PAGE + 1), b * (PAGE + 1)).reshape(-1, PAGE + 1)
            there = children < len(keys)
            nodes = np.zeros((b - a, width), np.int64)
            nodes[:, 0] = 1
            nodes[:, 1] = there.sum(axis=1) - 1
            nodes[:, 2] = children[:, 0] + first
            entries = np.zeros((b - a, PAGE, 3), np.int64)
            entries[:, :, 0] = keys[np.minimum(children[:, 1:], len(keys) - 1)]
            entries[:, :, 1] = children[:, 1:] + first
            entries[~there[:, 1:]] = 0
            nodes[:, _HEAD:] = entries.reshape(b - a, -1)
            table.append(nodes)
        keys, first = keys[:: PAGE + 1], start
    return first


def _whole_pages(entries: Iterable[Entries]) -> Iterator[tuple[Int64, bool]]:
    """Yield tables of whole pages of entries, except the last one, and whether a table is the last."""
    held = np.empty((0, 3), np.int64)
    for block in entries:
        held = np.concatenate([held, np.stack(block, axis=1)])
        # The remainder is never empty, so the last table is known to be the last.
        whole = (len(held) - 1) // PAGE * PAGE
        if whole >= PAGE:
            yield held[:whole], False
            held = held[whole:]
    if len(held):
        yield held, True


def _entries(row: Int64) -> Int64:
    """Return the entries of a page, shape (count, 3)."""
    table: Int64 = row[_HEAD : _HEAD + 3 * int(row[1])].reshape(-1, 3)
    return table
