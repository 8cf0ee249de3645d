"""Opening the index of a store: the built-in kinds, and those of other packages.

A kind is a name and a callable that takes the store and returns an `Index`; other packages register theirs in the entry
point group ``cfagg.indexes``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, SourceError, StaleError, StaleIndexWarning, TargetError, UnsupportedError
from cfagg.errors.arguments import a_text
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.indexes import bisect, btree, pages
from cfagg.observations.indexes.pages_writing import write_pages
from cfagg.observations.indexes.protocol import Entries, Index, Joining, Store, columns_of
from cfagg.observations.indexes.table import ZarrFormat, is_there

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["GROUP", "build_pages", "entries_of_blocks", "index_kinds", "joined", "open_index", "stored_kinds"]

#: Entry point group of kinds of indexes.
GROUP = "cfagg.indexes"

_OWN: dict[str, Callable[[Store], Index]] = {
    "pages": pages.PagesIndex,
    "bisect": bisect.open_bisect,
    "btree": btree.open_btree,
}

#: Name of the array of each kind that the published software writes.
_ARRAYS = {"bisect": bisect.NAME, "btree": btree.NAME}


def index_kinds() -> tuple[str, ...]:
    """Return the names of all kinds of indexes that can be opened.

    >>> [kind for kind in ("bisect", "btree") if kind not in index_kinds()]
    []
    """
    return (*_OWN, *sorted({point.name for point in _others()} - set(_OWN)))


def stored_kinds(store: Store) -> tuple[str, ...]:
    """Return the kinds of the published software that a store has, ``"bisect"`` and ``"btree"``."""
    return tuple(
        kind
        for kind, name in _ARRAYS.items()
        if any(is_there(store.source, f"{name}/{document}") for document in (".zarray", "zarr.json"))
    )


def open_index(store: Store, kind: str | None = None) -> Index:
    """Return the index of a store; by default its pages if they are up to date, else another kind that it has."""
    if kind is None:
        return _default(store)
    if a_text(kind, "index", f"the name of a kind of index, such as {next(iter(_OWN))!r}") in _OWN:
        return _OWN[kind](store)
    for point in _others().select(name=kind):
        opened = point.load()(store)
        if not isinstance(opened, Index):
            raise SourceError(
                f"{store.path}: the index {kind!r} of {point.value} is not an Index but {type(opened).__name__}"
            )
        return opened
    raise UnsupportedError(f"there is no kind of index {kind!r}; there are {', '.join(index_kinds())}")


def _others() -> EntryPoints:
    """Return the entry points of other packages."""
    # Rarely needed, and slow to import.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _default(store: Store) -> Index:
    """Return the pages if they are valid, else the first of the other indexes."""
    problem: Exception | None = None
    if pages.has_pages(store):
        try:
            return pages.PagesIndex(store)
        except (FragmentReadError, SourceError, StaleError) as error:
            problem = error
    found = stored_kinds(store)
    if not found:
        if problem is not None:
            raise problem
        raise SourceError(f"{store.path} has no index of its dates; build one with build_pages (cfagg obs index)")
    if problem is not None:
        warnings.warn(f"{problem}; until then the slower index of the store is used", StaleIndexWarning, stacklevel=3)
    return _OWN[found[0]](store)


#: Number of rows that are read together.
_ROWS = 2**18


class _Rows(Protocol):
    """Rows of a store."""

    def read(self, start: int, stop: int, columns: Any = None, /) -> npt.NDArray[np.float32]:
        """Return rows, or columns of them."""


class _Readable(Store, Protocol):
    """A store with its rows."""

    @property
    def data(self) -> _Rows:
        """The rows."""


def build_pages(store: _Readable, kind: str | None = None) -> int:
    """Write index pages into a store, replacing existing ones, and return the number of entries.

    They are built from a kind of index, or from the rows with ``"data"``; by default from an index of the published
    software, or from the rows if there is none.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> from cfagg.observations.indexes import open_index, write_bisect
    >>> from cfagg.storage.local import LocalSource
    >>> folder = tempfile.mkdtemp()
    >>> _ = Path(folder, ".zgroup").write_text('{"zarr_format": 2}')
    >>> _ = write_bisect(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))])
    >>> store = SimpleNamespace(path=folder, source=LocalSource(folder), rows=6, identity="a")
    >>> build_pages(store)
    2
    >>> open_index(store).kind, open_index(store).find(60, 61)
    ('pages', (0, 5))
    """
    path, zarr_format = _target(store)
    if kind is None:
        kind = next(iter(stored_kinds(store)), "data")
    entries = entries_of_blocks(_row_blocks(store)) if kind == "data" else _blocks(store, kind)
    return write_pages(path, entries, identity=store.identity, rows=store.rows, zarr_format=zarr_format)


def _blocks(store: Store, kind: str) -> Iterator[Entries]:
    """Return the entries of an index."""
    yield from open_index(store, kind).blocks()


def _row_blocks(store: _Readable) -> Iterator[npt.NDArray[np.float32]]:
    """Return days and seconds of all rows."""
    for start in range(0, store.rows, _ROWS):
        yield store.data.read(start, min(store.rows, start + _ROWS), slice(0, 2))


def _target(store: Store) -> tuple[Path, ZarrFormat]:
    """Return the directory of a store and its Zarr format."""
    path = Path(store.path)
    if not path.is_dir():
        raise TargetError(f"{store.path} is not a directory of this machine, so no index can be written into it")
    if (path / "zarr.json").exists():
        return path, 3
    if not (path / ".zgroup").exists():
        raise SourceError(f"{store.path} has neither .zgroup nor zarr.json, so it is not a Zarr store")
    return path, 2


def entries_of_blocks(blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[Entries]:
    """Yield the entries of all rows of a store: days since 1970, seconds of the day, then anything, sorted.

    Each date has one entry, even if its rows are in several blocks.

    >>> rows = np.array([[0, 5], [0, 5], [0, 7]], "f4")
    >>> [[c.tolist() for c in entry] for entry in entries_of_blocks([rows[:1], rows[1:]])]
    [[[5], [0], [2]], [[7], [2], [1]]]
    """

    def each() -> Iterator[Entries]:
        start = 0
        for rows in blocks:
            yield entries_of_rows(rows, start)
            start += len(rows)

    return joined(each())


def joined(entries: Iterable[Entries]) -> Iterator[Entries]:
    """Join the last entry of a block and the first of the next if they have the same epoch.

    >>> one = (np.array([5]), np.array([0]), np.array([1]))
    >>> two = (np.array([5]), np.array([1]), np.array([3]))
    >>> [[c.tolist() for c in entry] for entry in joined([one, two])]
    [[[5], [0], [4]]]
    """
    joining = Joining()
    for block in entries:
        if len(table := joining.feed(np.stack(block, axis=1))):
            yield columns_of(table)
    if len(joining.close()):
        yield columns_of(joining.close())
