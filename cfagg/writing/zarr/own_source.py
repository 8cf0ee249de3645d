"""Refusing to replace a store in an object store with data read from it: there, the old store is removed first."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import re
from collections.abc import Iterable, Iterator
from inspect import getgeneratorlocals
from types import CellType, CodeType, GeneratorType
from typing import Any
from urllib.parse import unquote

import numpy as np

from cfagg.errors import TargetError
from cfagg.errors.arguments import a_path
from cfagg.errors.redacting import redacted
from cfagg.storage.urls import is_url

__all__ = ["refuse_own_source"]

#: Maximum size in bytes of already pickled data to search for texts, as in objects of stores.
_LOOKED_INTO = 2**20


def refuse_own_source(target: str | os.PathLike[str], *given: Any, overwrite: bool) -> None:
    """Raise if any of the given data may be read from a store that would be removed before they are written."""
    # Any object that reads from a store (a dask graph, an xarray or zarr-python array, a reader) contains its location:
    # all texts found while pickling the object are checked. A local store stays until the new one is complete.
    name = a_path(target, "target", expected="name a directory for the store")
    if not overwrite or not is_url(name):
        return
    bucket, *key = _parts(name) or [""]
    found = {text: _parts(text) for text in _texts(given)}
    is_apart = [bucket] in found.values()  # some stores name the bucket and the key within it separately
    for text, parts in found.items():
        if (len(parts) > 1 and _overlap(parts, [bucket, *key])) or (is_apart and _overlap(parts, key)):
            raise TargetError(
                f"{name} would be replaced by data that are read from it, as they name {redacted(text)}; an object "
                "store removes the old store first, so choose another target"
            )


def _parts(text: str) -> list[str]:
    """Return a URL or a path as bucket or host, and the parts of the path."""
    # Any text may be given, also one that `urlsplit` refuses.
    _, mark, rest = text.partition("://")
    path = unquote(re.split("[?#]", rest, maxsplit=1)[0]) if mark else text
    return [part for part in path.split("/") if part]


def _overlap(one: list[str], other: list[str]) -> bool:
    """Return whether one place is the same as the other or inside it."""
    n = min(len(one), len(other))
    return n > 0 and one[:n] == other[:n]


class _Names:
    """The hook called for each object that is pickled, which collects its texts."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __call__(self, obj: Any) -> str | None:
        if isinstance(obj, str):
            self.found.add(str(obj))
        elif isinstance(obj, np.ndarray):
            if obj.dtype.kind in "OUT":
                self.found.update(v for v in obj.reshape(-1).tolist() if isinstance(v, str))
        elif isinstance(obj, bytes):
            if len(obj) <= _LOOKED_INTO:
                self.found.update(_pickled(obj))
        else:
            return None
        return ""  # do not pickle it further


def _pickled(data: bytes) -> Iterator[str]:
    """Yield the texts in bytes that may be pickled data, without unpickling them."""
    with contextlib.suppress(ValueError):
        yield from (arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str))


def _texts(given: Iterable[Any]) -> set[str]:
    """Return all texts within some objects."""
    try:
        from cloudpickle import Pickler  # type: ignore[import-untyped,unused-ignore]  # comes with dask
    except ImportError:
        from pickle import Pickler

    names = _Names()

    class Scanner(Pickler):  # type: ignore[misc,valid-type,unused-ignore]
        persistent_id = staticmethod(names)

        def reducer_override(self, obj: Any) -> Any:
            """Skip objects that cannot be pickled, such as locks and open files."""
            base = getattr(super(), "reducer_override", None)
            found = NotImplemented if base is None else base(obj)
            if found is not NotImplemented or isinstance(obj, type | CellType):  # closures: table of cloudpickle
                return found
            if isinstance(obj, CodeType):
                return tuple, (obj.co_consts,)
            if isinstance(obj, GeneratorType):
                return dict, (dict(getgeneratorlocals(obj)),)
            try:
                obj.__reduce_ex__(4)
            except Exception:  # noqa: BLE001  whatever a library raises
                names(repr(obj))
                return str, ()
            return NotImplemented

    for one in given:
        try:
            Scanner(io.BytesIO(), protocol=pickle.HIGHEST_PROTOCOL).dump(one)
        except Exception as error:  # objects of any library may raise anything
            raise TargetError(
                "whether the data are read from the store that they would replace cannot be found out "
                f"({type(error).__name__}); choose another target"
            ) from error
    return names.found
