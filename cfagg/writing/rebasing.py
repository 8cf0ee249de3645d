"""Moving the references of an aggregation file: only names of files change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.arrays.opening import open_any
from cfagg.arrays.source import OtherSource, refuse_unreadable
from cfagg.conventions.encoded import Names
from cfagg.conventions.uris import local_path, name_of, path_of, uri_of
from cfagg.errors import OptionError, TargetError, UnsupportedError
from cfagg.errors.arguments import a_path, flags, shared
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Aggregation
from cfagg.runtime.files import check_file
from cfagg.runtime.netcdf_files import closing_written, created
from cfagg.runtime.object_files import check_object, exists, written_object
from cfagg.runtime.targets import DIALECTS
from cfagg.storage.access import Access
from cfagg.storage.files import Handle
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, absolute, is_url
from cfagg.writing import dialects
from cfagg.writing.aggregation_file import written
from cfagg.writing.references import as_path, home_of, relative, renamed, used_files
from cfagg.writing.replacing import refuse_to_break, refuse_to_lose
from cfagg.writing.report import Report

__all__ = ["rebase"]

#: Size in bytes that is copied at once.
_BLOCK = 1 << 24

#: The term whose variable contains the names of files, and the functions that decode and encode a name.
_TERMS: dict[str, tuple[str, Callable[[str], str], Callable[[str], str]]] = {
    "CF-1.13": ("uris", path_of, uri_of),
    "CFA-0.6.2": ("file", local_path, name_of),
}


@LIBRARY.keeping_files()
def rebase(
    path: str | os.PathLike[str],
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Report:
    """Move the references of an aggregation file from one directory or URL to another, without touching data.

    References that begin with `old` as they are written, or that are in the directory `old`, begin with `new`
    afterwards; a relative reference into a directory stays relative.  All others refer to the same file as before.

    Parameters
    ----------
    path : path
        An aggregation file in a dialect that is written, or its URL: NCA-0.1, CFA-0.4, CFA-0.6.2 or CF-1.13.
    old, new : path
        Directories or URLs, compared and replaced by whole components.
    output : path, optional
        Another file for the result, or its URL in an object store; by default the file itself is replaced, whole or not
        at all.
    overwrite : bool
        Replace `output`.
    storage_options, target_options : mapping, optional
        Options for the servers of `path` and `output`, if these are URLs.

    Returns
    -------
    Report
        Its notes state how many references were moved.

    Raises
    ------
    SourceError
        The file does not exist.
    OptionError
        No reference begins with `old`, or a file at a URL would refer to local files.
    AccessError
        `output` would be allowed to read a file that `path` may not read, and that is not below `new`.
    UnsupportedError
        A dialect that is not written, or names in character arrays; convert the file first.

    Examples
    --------
    >>> cfagg.rebase("temperature.nca", "/archive/cmip5", "/data/cmip5")  # doctest: +SKIP
    """
    flags(overwrite=overwrite)
    shared(storage_options=storage_options, target_options=target_options)
    given = a_place(path, storage_options)
    before, after = _prefix(old, "old"), _prefix(new, "new")
    target = _target(given, output, target_options, overwrite=overwrite)
    source = open_any(given)
    handle = handles.get(absolute(given))
    if isinstance(source, OtherSource):
        raise UnsupportedError(f"{given} is not a netCDF file, so it has no references to move")
    refuse_unreadable((e for g in source.root.walk() for e in g.unreadable.values()), "correct the file first")
    found = {
        f"{group.path.rstrip('/')}/{name}": one
        for group in source.root.walk()
        for name, one in group.variables.items()
        if isinstance(one, Aggregation)
    }
    if not found:
        raise OptionError(f"{given} has no aggregations, and so no references to move")
    for name, one in found.items():
        if one.dialect not in DIALECTS:
            raise UnsupportedError(
                f"{given}: variable {name.lstrip('/')!r} is an aggregation in {one.dialect}, which can be read but not "
                "written: convert the file first, for instance with to='CFA-0.4' (--to CFA-0.4)"
            )
    base = target.place[0] if isinstance(target, Url) else str(target.parent)
    change = _Change(before or "/", after or "/", base)
    counts = {name: change.count(one) for name, one in found.items()}
    if not any(counts.values()):
        seen = next((name for one in found.values() for name in one.partitions.files), None)
        example = f"; one is {seen!r}" if seen is not None else ", since all fragments are in the file itself"
        raise OptionError(f"{given}: no reference begins with {before!r} or lies in it{example}")
    if isinstance(target, Path) and output is not None:
        access = Access(target)
        refuse_to_lose(target, ((renamed(one, change.of(one)), access) for one in found.values()), base)
        if str(target) != os.path.realpath(given):
            refuse_to_break(target, source)
    for one in found.values():
        change.check(one, given, target)
    create = output is not None and not overwrite and str(target) != os.path.realpath(given)
    with _written(target, handle, create=create) as aside:
        # Edit the very file whose references were checked, even if its name refers to another by now.
        with aside.open("wb") as copy:
            for offset in range(0, handle.key.size, _BLOCK):
                copy.write(handle.exactly(min(_BLOCK, handle.key.size - offset), offset))
        if not is_url(given):
            shutil.copymode(os.path.realpath(given), aside)
        if not handle.is_unchanged():
            raise TargetError(f"{given} changed while it was copied; move its references again")
        _edit(aside, found, change)
    moved = sum(counts.values())
    return Report(
        target=str(target),
        dialect=", ".join(sorted({one.dialect for one in found.values()})),
        variables=tuple(name.lstrip("/") for name in found),
        partitions=sum(one.grid.size for one in found.values()),
        notes=(f"{moved:,} file name{'s'[: moved != 1]} moved from {before or '/'} to {after or '/'}",),
    )


def _prefix(value: Any, name: str) -> str:
    """Return a directory without a slash at its end, so the root as an empty text."""
    found = a_path(value, name, expected="name a directory")
    if not found:
        raise OptionError(f"{name}: '' is not the name of a directory; '.' is this one")
    return found.rstrip("/")


def _target(given: str, output: Any, options: Mapping[str, Any] | None, *, overwrite: bool) -> Path | Url:
    """Return the file to write; links are resolved, so that the file is replaced and not the link."""
    name = given if output is None else a_place(output, options, name="output", expected="name a file",
                                                options_name="target_options")  # fmt: skip
    if isinstance(name, Url):
        check_object(name, overwrite=overwrite or output is None)
        return name
    target = Path(os.path.realpath(name))
    if output is not None and str(target) != os.path.realpath(given) and os.path.lexists(target) and not overwrite:
        raise exists(target)
    check_file(target)
    return target


@contextmanager
def _written(target: Path | Url, handle: Handle, *, create: bool) -> Iterator[Path]:
    """Yield the name of a file that replaces the target; in an object store, only if that is unchanged since read."""
    if isinstance(target, Url):
        match = handle.data.tag if handle.key.path == target else None
        with written_object(target, create=create, match=match) as aside:
            yield aside
    else:
        with written(target, create=create) as aside:
            yield aside


class _Change:
    """The new names of a file's references."""

    def __init__(self, old: str, new: str, base: str) -> None:
        self.old, self.new, self.base = old, new, base
        self.place = os.path.realpath(old) if not is_url(old) else old

    def of(self, aggregation: Aggregation) -> Callable[[str], str]:
        """Return the function that changes the names in an aggregation."""
        home = home_of(aggregation.source, aggregation.partitions.files)
        keep = relative(home, self.base)

        def change(name: str) -> str:
            found = self.moved(name, home)
            if found is not None:
                return found
            if home == self.base:
                return name
            if is_url(self.base) and not is_url(home) and not is_url(name):
                raise self._not_there(name)
            return name if name.startswith("/") else keep(name)

        return change

    def check(self, aggregation: Aggregation, path: str, target: str | os.PathLike[str]) -> None:
        """Refuse what `path` may not read and `target` could, except in the directory that the user named."""
        home, rename = home_of(aggregation.source, aggregation.partitions.files), self.of(aggregation)
        names = {name: self.moved(name, home) is not None for name in used_files(aggregation)}
        Access(path).check_copied((n for n, moves in names.items() if not moves), home, Access(target))
        new = self.new if is_url(self.new) else os.path.join(self.base, self.new)  # noqa: PTH118
        moved = (rename(name) for name, moves in names.items() if moves)
        places = (n if is_url(n) else os.path.join(self.base, n) for n in moved)  # noqa: PTH118
        Access(path, [self.new, new]).check_copied(places, home, Access(target))

    def _not_there(self, name: str) -> OptionError:
        return OptionError(
            f"the reference {name!r} in {self.base} would lead from a URL to this machine, which is never read: move "
            "it to a URL, or choose an output on this machine"
        )

    def count(self, aggregation: Aggregation) -> int:
        """Return the number of distinct names that move."""
        home = home_of(aggregation.source, aggregation.partitions.files)
        tables = (aggregation.partitions, *aggregation.partitions.versions)
        return len({n for t in tables for n in t.files if self.moved(n, home) is not None})

    def moved(self, name: str, home: str) -> str | None:
        """Return the new name of a file, or `None` if it stays."""
        rest = _below(name, self.old)
        if rest is not None:
            return _joined(self.new, rest)
        if is_url(home) and is_url(self.old) and not is_url(name):
            rest = _below(f"{home}/{name}", self.old)
            return None if rest is None else _joined(self.new, rest)
        if is_url(name) or is_url(self.old) or is_url(home):
            return None
        folder, _, last = name.rpartition("/")
        there = os.path.realpath(os.path.join(home, folder or ("/" if name.startswith("/") else "")))  # noqa: PTH118
        rest = _below(f"{there.rstrip('/')}/{last}", self.place)
        if rest is None:
            return None
        if is_url(self.new) or name.startswith("/"):
            return _joined(self.new if is_url(self.new) else os.path.abspath(self.new), rest)  # noqa: PTH100
        if is_url(self.base):
            raise self._not_there(name)
        return as_path(os.path.relpath(_joined(os.path.abspath(self.new), rest), os.path.realpath(self.base)))  # noqa: PTH100


def _below(name: str, prefix: str) -> str | None:
    """Return the rest of a name after a prefix of whole components."""
    if name == prefix:
        return ""
    start = prefix if prefix.endswith("/") else f"{prefix}/"
    return name[len(start) :] if name.startswith(start) else None


def _joined(folder: str, rest: str) -> str:
    return f"{folder.rstrip('/')}/{rest}" if rest else folder


def _edit(path: Path, found: dict[str, Aggregation], change: _Change) -> None:
    """Rename the references of a file's aggregations; the file is a copy."""
    import netCDF4

    with LIBRARY, closing_written(created(lambda: netCDF4.Dataset(path, "r+"), path), path) as file:
        done: set[tuple[str, str]] = set()
        for name, aggregation in found.items():
            variable = file[name]
            rename = change.of(aggregation)
            if aggregation.dialect not in _TERMS:
                encoded = dialects.encode(renamed(aggregation, rename), aggregation.dialect, Names())
                for key in ("nca_array", "cfa_array"):
                    if key in encoded.attributes:
                        variable.setncattr(key, encoded.attributes[key])
                continue
            term, decode, encode = _TERMS[aggregation.dialect]
            for table in _tables(variable, term):
                where = (table.group().path, table.name)
                if where not in done:
                    done.add(where)
                    _rename_in(table, partial(_kept, rename, decode, encode))


def _kept(rename: Callable[[str], str], decode: Callable[[str], str], encode: Callable[[str], str], uri: str) -> str:
    """Return the new text of a reference, unchanged if it means the same name."""
    old = decode(uri)
    new = rename(old)
    return uri if new == old else encode(new)


def _tables(variable: Any, term: str) -> Iterator[Any]:
    """Yield the variable of a term of an aggregation variable."""
    words = str(variable.getncattr("aggregated_data")).split()
    group = variable.group()
    for key, name in zip(words[::2], words[1::2], strict=False):
        if key.lower() != f"{term}:":
            continue
        while group is not None:
            with suppress(IndexError, KeyError):
                yield group[name]
                return
            group = group.parent


def _rename_in(table: Any, change: Callable[[str], str]) -> None:
    """Change the texts of a variable."""
    if table.dtype is not str:
        raise UnsupportedError(
            f"{table.name!r} holds names in arrays of characters, which other names may not fit: convert the file first"
        )
    if "substitutions" in table.ncattrs():
        raise UnsupportedError(
            f"{table.name!r} has substitutions in its names: change the attribute 'substitutions', or convert the file"
        )
    table.set_auto_mask(False)
    values = np.asarray(table[...], object)
    known = {uri: change(uri) if uri else uri for uri in set(values.ravel().tolist())}
    flat = np.empty(values.size, object)
    flat[:] = [known[uri] for uri in values.ravel().tolist()]
    table[...] = flat.reshape(values.shape)
