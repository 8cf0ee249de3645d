"""Opening the index of a store: the kinds that there are, and those of other packages.

A kind is a name and a callable that takes the store and returns an `Index`; other packages name theirs in the entry
point group ``cfagg.indexes``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from cfagg.errors import FragmentReadError, SourceError, StaleError, StaleIndexWarning, UnsupportedError
from cfagg.errors.arguments import a_text
from cfagg.observations.indexes import bisect, btree, pages
from cfagg.observations.indexes.protocol import Index, Store
from cfagg.observations.indexes.table import is_there

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["GROUP", "index_kinds", "open_index", "stored_kinds"]

#: Entry point group of kinds of indexes.
GROUP = "cfagg.indexes"

_OWN: dict[str, Callable[[Store], Index]] = {
    "pages": pages.open_pages,
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
    """Return which kinds of the published software a store has, ``"bisect"`` and ``"btree"``."""
    return tuple(
        kind
        for kind, name in _ARRAYS.items()
        if any(is_there(store.source, f"{name}/{document}") for document in (".zarray", "zarr.json"))
    )


def open_index(store: Store, kind: str | None = None) -> Index:
    """Return the index of a store.

    Parameters
    ----------
    store : Store
        An open store of observations.
    kind : str, optional
        ``"pages"``, ``"bisect"``, ``"btree"`` or the name of an entry point.  By default the pages where they belong to
        the store as it is, else what the store has.

    Raises
    ------
    SourceError
        The store has no such index.
    ConventionError
        The index does not cover the rows of the store.
    UnsupportedError
        There is no such kind.
    """
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
    """Return what other packages have."""
    # Seldom needed, and slow to import.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _default(store: Store) -> Index:
    """Return the pages where they are good, else the first of the other indexes."""
    problem: Exception | None = None
    if pages.has_pages(store):
        try:
            return pages.open_pages(store)
        except (FragmentReadError, SourceError, StaleError) as error:
            problem = error
    found = stored_kinds(store)
    if not found:
        if problem is not None:
            raise problem
        raise SourceError(f"{store.path} has no index of its dates; make one with build_pages (cfagg obs index)")
    if problem is not None:
        warnings.warn(f"{problem}; until then the slower index of the store is used", StaleIndexWarning, stacklevel=3)
    return _OWN[found[0]](store)
