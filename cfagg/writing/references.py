"""Names of files in an aggregation, relative to the location of another file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from cfagg.errors import SourceError
from cfagg.model import Aggregation, Partitions, Strings
from cfagg.storage.urls import Url, absolute, is_url

__all__ = ["as_path", "home_of", "moved", "relative", "renamed", "used_files"]


def moved(aggregation: Aggregation, home: str, base: str) -> Aggregation:
    """Return an aggregation whose references start at `home` with references that start at the directory `base`."""
    # URLs stay unchanged; if `base` is `/`, references are absolute paths.
    return renamed(aggregation, relative(home, base))


def relative(home: str, base: str) -> Callable[[str], str]:
    """Return the function that makes a name relative to one directory relative to another."""
    if is_url(home):
        # Paths in a file on another machine refer to files on that machine.
        return lambda name: name if is_url(name) else f"{home.rstrip('/')}/{name}"
    known: dict[str, str] = {}
    start, end = os.path.realpath(home), os.path.realpath(base)

    def folder_of(folder: str) -> str:
        # Python's join discards the directory before an absolute path.
        there = os.path.join(start, folder)  # noqa: PTH118
        # Only the system knows what ".." means after a link.
        there = os.path.realpath(there) if "/.." in folder else os.path.normpath(there)
        if base == "/":
            return there
        found = os.path.relpath(there, end)
        if found.startswith(".."):
            # Directories at or below the base that are named by way of a link to it are moved with it.
            real = os.path.relpath(os.path.realpath(there), end)
            found = found if real.startswith("..") else real
        return found

    def change(name: str) -> str:
        if is_url(name) or (start == end and not name.startswith("/")):
            return name
        folder, _, last = name.rpartition("/")
        if name.startswith("/") and not folder:
            folder = "/"
        if folder not in known:
            known[folder] = folder_of(folder)
        return as_path(last if known[folder] == "." else f"{known[folder].rstrip('/')}/{last}")

    return change


def as_path(name: str) -> str:
    """Return a path as a name that cannot be mistaken for a URI, whatever it begins with."""
    return f"./{name}" if name[:5].lower() == "file:" else name


def renamed(aggregation: Aggregation, change: Callable[[str], str]) -> Aggregation:
    """Return an aggregation with other names of files."""
    return replace(aggregation, partitions=_renamed(aggregation.partitions, change))


def _renamed(partitions: Partitions, change: Callable[[str], str]) -> Partitions:
    files: Iterable[str] = [change(name) for name in partitions.files]
    return replace(
        partitions, files=Strings(files), versions=tuple(_renamed(other, change) for other in partitions.versions)
    )


def home_of(source: str, files: Iterable[str] = ()) -> str:
    """Return the directory to which the references of a file are relative."""
    if isinstance(source, Url) or is_url(source):
        return source.rpartition("/")[0]
    if not source:
        raise SourceError(
            "the aggregation does not say which file it was read from, to which its references are relative; open it "
            "with cfagg.open_aggregation, or give it a 'source'"
        )
    path = str(absolute(source))
    home, real = os.path.dirname(path), os.path.dirname(os.path.realpath(path))  # noqa: PTH120
    if os.path.realpath(home) != real:
        # For a link, references not found beside it are beside the file that it points to.
        first = next((name for name in files if not name.startswith("/") and not is_url(name)), None)
        if first is not None and not os.path.lexists(os.path.join(home, first)):  # noqa: PTH118
            return real
    return home


def used_files(aggregation: Aggregation) -> list[str]:
    """Return the files to which partitions and their versions refer; tables of names may contain others."""
    tables = (aggregation.partitions, *aggregation.partitions.versions)
    return [t.files[code] for t in tables for code in np.unique(t.file[t.present]).tolist() if code >= 0]
