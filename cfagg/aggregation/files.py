"""Which files a user means: paths, patterns, directories and URLs, each file once."""

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
from cfagg.storage.files import absent, open_regular
from cfagg.storage.places import new_source
from cfagg.storage.urls import Url, a_place, absolute, is_url

__all__ = ["itself", "places"]

#: What can be named, for messages.
_EXPECTED = "name files, patterns, directories or URLs"

#: Ends of names of files that are meant without a look into them; others in a directory are looked at.
_KNOWN = (".nc", ".nc4", ".cdf", ".netcdf", ".nca", ".pp", ".ff", ".h5", ".hdf5")

#: Ends of names that are never meant by a directory: what cfagg itself writes beside a file, and text.
_OURS = (".cfagg-index", ".fragments", ".cdl")

#: Documents by which a listing tells a Zarr store.
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
) -> list[str]:
    """Return the absolute path or the `Url` of each file and Zarr store that is meant, in the order given.

    What has several names, by links too, counts once, under the first; or all for which `same` gives the same. What
    patterns and directories stand for is sorted by name, numbers in names by their size. A directory stands for the
    files of known formats at any depth below it, and for the Zarr stores, one of which it may be itself; hidden ones
    are left out, as they are of patterns, and what is in `without` is left out of all.
    """
    left_out = {absolute(name) for name in without}
    never = set(map(itself, left_out))
    given = (files,) if isinstance(files, str | bytes | os.PathLike) else files
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise OptionError(f"files: found an object of type {type(files).__name__}; {_EXPECTED}")
    allowed = tuple(allow)
    found: dict[Any, str] = {}
    for one in given:
        for place in _meant(one, storage_options, allowed, left_out):
            one_file = itself(place)
            if one_file not in never:  # under another name, too
                found.setdefault(same(place) if same else one_file, place)
    if not found:
        but = f" but {', '.join(sorted(left_out))}, which is written" if left_out else ""
        raise SourceNotFoundError(f"no files were given{but}; {_EXPECTED}")
    return list(found.values())


def itself(place: str) -> Any:
    """Return what is the same for all names of one file, by links too."""
    if not isinstance(place, Url):
        try:
            found = os.stat(place)  # noqa: PTH116 - Path costs more
        except (OSError, ValueError):
            pass  # the scan tells of it
        else:
            return found.st_dev, found.st_ino
    return str(place)


def natural(name: str) -> list[Any]:
    """Return what sorts names with numbers as people do.

    >>> sorted(["a10.nc", "a9.nc", "b1.nc"], key=natural)
    ['a9.nc', 'a10.nc', 'b1.nc']
    """
    parts: list[Any] = _NUMBERS.split(name)
    parts[1::2] = [(int(digits), digits) for digits in parts[1::2]]
    return parts


def _meant(
    one: Any, storage_options: Mapping[str, Any] | None, allow: tuple[Any, ...], without: set[str]
) -> Iterable[str]:
    """Return the places that one name stands for."""
    text = one if isinstance(one, Url) else a_path(one, "files", expected=_EXPECTED)
    if is_url(text):
        place = a_place(text, storage_options, allow, name="files", expected=_EXPECTED)
        return _listed(place, without) if isinstance(place, Url) else [place]
    path = absolute(a_place(text, name="files", expected=_EXPECTED))
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more, here and below
        if is_referring(path):
            return [path]
        found = list(_below(path, without))
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
    """Return what a pattern stands for; directories among it stand for what is in them."""
    names = sorted(glob.iglob(pattern, recursive=True), key=natural)  # noqa: PTH207
    folders = {name.rstrip("/") for name in names if os.path.isdir(name)}  # noqa: PTH112
    stores = tuple(f"{name}/" for name in folders if is_store(name))
    # ** names each directory and what is in it as well; what is in a store is part of it.
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
        if is_referring(path):  # to files that are counted themselves
            continue
        try:
            status = os.stat(path)  # noqa: PTH116
            with os.scandir(path) as entries:
                names = [(e.name, _is_folder(e)) for e in entries if not e.name.startswith(".")]
        except OSError as error:
            raise SourceError(f"{path} cannot be listed: {error.strerror or error}") from error
        own = status.st_dev, status.st_ino
        if own in above:  # a link that leads in a circle
            continue
        names.sort(key=lambda item: natural(item[0]))
        below = []
        for name, is_folder in names:
            there = f"{path.rstrip('/')}/{name}"
            if name.endswith(_OURS) or there in without:
                continue
            if is_folder:
                below.append((there, above | {own}))
            elif name.endswith(_KNOWN) or _is_known(there):
                yield there
        waiting.extend(reversed(below))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a directory; a link that leads to itself is a file, which the scan cannot read."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_known(path: str) -> bool:
    """Tell whether a file is of a format that is read, by its first bytes; what cannot be opened is none."""
    from cfagg.formats.plugins import foreign_format

    try:
        with open_regular(path) as handle:
            head = handle.some(HEAD, 0)
            own = built_in(handle, head=head)
            # References are to files that are counted themselves.
            return own.name not in ("CDL", KERCHUNK) if own is not None else foreign_format(handle, head) is not None
    except CfaggError:
        return False


def _listed(url: Url, without: set[str]) -> list[str]:
    """Return what a URL stands for: with a pattern, or a slash at its end, what the store lists below it."""
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
    # Only the topmost: groups and arrays of a store are within it.
    tops = {s for s in stores if not any(_parents(s) & stores)} if stores != {""} else set()
    names = sorted({next(iter(_parents(key) & tops), key) for key in keys}, key=natural)
    if pattern is None:
        chosen = [n for n in names if n in tops or n.lower().endswith(_KNOWN)]
    else:
        wanted = url[len(home) + 1 :].split("/")
        chosen = [n for n in names if _fits(n.split("/"), wanted)]
    found: list[str] = [url.beside(f"{home}/{name}") for name in chosen]
    found = [place for place in found if place not in without]
    if not found:
        raise SourceNotFoundError(f"nothing matches {url}")
    return found


def _parents(key: str) -> set[str]:
    """Return the folders that a key is in."""
    parts = key.split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Tell whether a key fits a pattern, both in parts: ``*`` stays within one folder, ``**`` stands for any number."""
    if not wanted or not parts:
        return not wanted and not parts
    if wanted[0] == "**":
        return _fits(parts, wanted[1:]) or _fits(parts[1:], wanted)
    return fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])
