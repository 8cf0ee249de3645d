"""The sources to check if a directory is named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cfagg.formats.opening import leaves_traces

__all__ = ["expanded"]

#: Suffixes of the files that are checked in a directory; a file named explicitly may have any suffix.
_ENDS = (".nc", ".nc4", ".nca", ".cdf", ".netcdf", ".cdl")


def expanded(sources: Sequence[str]) -> Iterator[str]:
    """Yield the sources; for a directory that is not a store, the files and stores below it, by name.

    Symbolic links to directories are not followed, and names that begin with a dot are skipped. Directories that cannot
    be listed are yielded themselves, so that they are reported, and so is one of several with nothing to check; a
    single one raises `SourceError`.
    """
    for source in sources:
        if not source or "://" in source or not os.path.isdir(source) or leaves_traces(source):  # noqa: PTH112
            yield source
            continue
        found = False
        for path in _below(source):
            found = True
            yield path
        if not found and len(sources) > 1:
            yield source
        elif not found:
            from cfagg.errors import SourceError

            raise SourceError(f"{source} is a directory without netCDF files ({', '.join(_ENDS)}) or Zarr stores")


def _below(directory: str) -> Iterator[str]:
    unlisted: list[str] = []
    for home, folders, files in Path(directory).walk(on_error=lambda error: unlisted.append(str(error.filename))):
        stores = [f for f in folders if not f.startswith(".") and leaves_traces(home / f)]
        named = [f for f in files if f.lower().endswith(_ENDS) and not f.startswith(".")]
        for name in sorted([*stores, *named]):
            yield str(home / name)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in stores)
    yield from unlisted
