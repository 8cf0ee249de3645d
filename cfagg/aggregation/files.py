"""Finding the files that a user names: paths, patterns, directories and URLs, each file once."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from cfagg.errors import CfaggError, OptionError, SourceError, SourceNotFoundError
from cfagg.errors.arguments import a_path
from cfagg.formats.opening import HEAD, KERCHUNK, built_in, is_referring, is_store
from cfagg.formats.zarr.documents import is_icechunk, no_store
from cfagg.storage.files import absent, open_regular
from cfagg.storage.places import new_source
from cfagg.storage.urls import Url, a_place, absolute, is_url

__all__ = ["itself", "places"]

#: Everything that can be named, for messages.
_EXPECTED = "name files, patterns, directories or URLs"

#: Suffixes of files that are accepted without opening them; other files in a directory are checked.
_KNOWN = (".nc", ".nc4", ".cdf", ".netcdf", ".nca", ".pp", ".ff", ".h5", ".hdf5")

#: The end of the names that cfagg gives to what it writes beside an aggregation file.
_BESIDE = r"\.cfagg-index|\.fragments(-\d+)?"

#: Names that are never found by a directory: what is written beside a file, and text.
_OURS = re.compile(rf".*({_BESIDE}|\.cdl)", re.DOTALL)

#: Documents by which a Zarr store is recognised in a listing.
_ROOTS = ("zarr.json", ".zgroup", ".zarray")

_MAGIC = re.compile(r"[*?[]")
_NUMBERS = re.compile(r"(\d+)")


def places(
    files: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allow: Iterable[Any] = (),
    without: Iterable[str] = (),
    same: Callable[[str], Any] | None = None,
    argument: str = "files",
) -> list[str]:
    """Return the absolute path or the `Url` of each named file and Zarr store, in the order given.

    A file with several names, for example through links, counts once, under its first name; `same` may define which
    names are the same. Matches of patterns and directories are sorted by name, with numbers in numerical order. A
    directory includes the files of known formats at any depth and the Zarr stores, one of which it may be itself;
    hidden files are excluded, as in patterns, and files in `without` are always excluded, with what is beside them.
    Errors call the files by the name of the user's `argument`.
    """
    left_out = {absolute(name) for name in without}
    never = set(map(itself, left_out))
    beside = re.compile("|".join(rf"{re.escape(name)}({_BESIDE})(/.*)?" for name in left_out) or "(?!)", re.DOTALL)
    given = (files,) if isinstance(files, str | bytes | os.PathLike) else files
    # Iterating over an open file gives its lines.
    named = isinstance(given, Iterable) and not isinstance(given, Mapping) and not hasattr(given, "read")
    if not named or getattr(given, "shape", None) == ():
        raise OptionError(f"{argument}: found an object of type {type(files).__name__}; {_EXPECTED}")
    allowed = tuple(allow)
    found: dict[Any, str] = {}
    for one in given:
        for place in _meant(one, storage_options, allowed, left_out, argument):
            one_file = itself(place)
            if one_file not in never and not beside.fullmatch(place):  # under another name as well
                found.setdefault(same(place) if same else one_file, place)
    if not found:
        but = f" but {', '.join(sorted(left_out))}, which is written" if left_out else ""
        raise SourceNotFoundError(f"no files were given{but}; {_EXPECTED}")
    return list(found.values())


def itself(place: str) -> Any:
    """Return a key that is the same for all names of a file, including links."""
    if not isinstance(place, Url):
        try:
            found = os.stat(place)  # noqa: PTH116 - Path costs more
        except (OSError, ValueError):
            pass  # the scan reports it
        else:
            return found.st_dev, found.st_ino
    return str(place)


def natural(name: str) -> list[Any]:
    """Return a sort key for names that orders numbers numerically.

    >>> sorted(["a10.nc", "a9.nc", "b1.nc"], key=natural)
    ['a9.nc', 'a10.nc', 'b1.nc']
    """
    parts: list[Any] = _NUMBERS.split(name)
    parts[1::2] = [(int(digits), digits) for digits in parts[1::2]]
    return parts


def _meant(
    one: Any, storage_options: Mapping[str, Any] | None, allow: tuple[Any, ...], without: set[str], argument: str
) -> Iterable[str]:
    """Return the places that one name refers to."""
    text = one if isinstance(one, Url) else a_path(one, argument, expected=_EXPECTED)
    if is_url(text):
        place = a_place(text, storage_options, allow, name=argument, expected=_EXPECTED)
        return _listed(place, without) if isinstance(place, Url) else [place]
    path = absolute(a_place(text, name=argument, expected=_EXPECTED))
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more, here and below
        if is_referring(path):
            return [path]
        found = list(_below(path, without))
        if not found and is_icechunk(path):
            raise SourceError(no_store(path))
        if not found:
            raise SourceNotFoundError(f"{path} contains no netCDF, PP or fields file and no Zarr store")
        return found
    if _MAGIC.search(text) and absent(path):
        found = _matching(path, without)
        if not found:
            raise SourceNotFoundError(f"no file matches {path}; quote patterns, or check the path")
        return found
    return [] if path in without else [path]


def _matching(pattern: str, without: set[str]) -> list[str]:
    """Return the matches of a pattern; directories among these include their content."""
    names = sorted(glob.iglob(pattern, recursive=True), key=natural)  # noqa: PTH207
    folders = {name.rstrip("/") for name in names if os.path.isdir(name)}  # noqa: PTH112
    stores = tuple(f"{name}/" for name in folders if is_store(name))
    # ** matches each directory as well as its content; the content of a store is part of the store.
    several = "**" in pattern
    found: list[str] = []
    for name in names:
        path = name.rstrip("/")
        if path in without or (stores and path.startswith(stores)):
            continue
        if path not in folders or f"{path}/" in stores:
            found.append(path)
        elif not several:
            found.extend(_below(path, without))
    return found


def _below(folder: str, without: set[str]) -> Iterator[str]:
    """Yield the stores and the files of known formats in and below a directory."""
    waiting = [(folder, frozenset[tuple[int, int]]())]
    while waiting:
        path, above = waiting.pop()
        if is_store(path):
            if path not in without:
                yield path
            continue
        if is_referring(path):  # its references are to files that are counted themselves
            continue
        try:
            status = os.stat(path)  # noqa: PTH116
            with os.scandir(path) as entries:
                names = [(e.name, _is_folder(e)) for e in entries if not e.name.startswith(".")]
        except OSError as error:
            if path != folder:
                yield path  # the scan reports it
                continue
            raise SourceError(f"{path} cannot be listed: {error.strerror or error}") from error
        own = status.st_dev, status.st_ino
        if own in above:  # a circular link
            continue
        names.sort(key=lambda item: natural(item[0]))
        below = []
        for name, is_folder in names:
            there = f"{path.rstrip('/')}/{name}"
            if _OURS.fullmatch(name) or there in without:
                continue
            if is_folder:
                below.append((there, above | {own}))
            elif name.endswith(_KNOWN) or _is_known(there):
                yield there
        waiting.extend(reversed(below))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory; a circular link counts as a file, which the scan cannot read."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_known(path: str) -> bool:
    """Return whether a file has a known format, by its first bytes; if it cannot be opened, it has not."""
    from cfagg.formats.plugins import foreign_format

    try:
        with open_regular(path) as handle:
            head = handle.some(HEAD, 0)
            own = built_in(handle, head=head)
            # Files in a reference file are counted themselves.
            return own.name not in ("CDL", KERCHUNK) if own is not None else foreign_format(handle, head) is not None
    except CfaggError:
        return False


def _listed(url: Url, without: set[str]) -> list[str]:
    """Return the objects that a URL refers to: with a pattern or a trailing slash, those that its store lists."""
    pattern = _MAGIC.search(url)
    if pattern is None and not url.endswith("/"):
        return [url]
    home = url[: pattern.start()].rpartition("/")[0] if pattern else url.rstrip("/")
    source: Any = new_source(url, home)
    if not getattr(source, "lists", False):
        if pattern is None:
            return [url]
        raise SourceError(f"{url}: web servers do not list their files; name each file")
    keys = [key for key, _ in source.objects("")]
    stores = {key.rpartition("/")[0] for key in keys if key.rpartition("/")[2] in _ROOTS}
    if "" in stores:
        if pattern is None:
            return [url]
        stores = {""}
    # Only the topmost one: groups and arrays of a store are part of it.
    tops = {s for s in stores if not any(_parents(s) & stores)} if stores != {""} else set()
    names = sorted({next(iter(_parents(key) & tops), key) for key in keys}, key=natural)
    if pattern is None:
        chosen = [n for n in names if n in tops or n.lower().endswith(_KNOWN)]
        chosen = [n for n in chosen if not any(map(_OURS.fullmatch, n.split("/")))]
    else:
        wanted = url[len(home) + 1 :].split("/")
        chosen = [n for n in names if _fits(n.split("/"), wanted)]
    found: list[str] = [url.beside(f"{home}/{name}") for name in chosen]
    found = [place for place in found if place not in without]
    if not found:
        raise SourceNotFoundError(f"nothing matches {url}")
    return found


def _parents(key: str) -> set[str]:
    """Return all parent folders of a key."""
    parts = key.split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Return whether a key matches a pattern, both split: ``*`` is within one folder, ``**`` any number of folders."""
    if not wanted or not parts:
        return not wanted and not parts
    if wanted[0] == "**":
        return _fits(parts, wanted[1:]) or _fits(parts[1:], wanted)
    return fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])
