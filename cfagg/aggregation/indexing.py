"""``cfagg.index``: the byte-offset index of an aggregation file or of any files, or their export as references."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cfagg.aggregation.indexed_files import Wanted, fragments, lacking, opened
from cfagg.arrays.index import SUFFIX, Index
from cfagg.errors import (
    OptionError,
    SourceError,
    SourceNotFoundError,
    TargetExistsError,
)
from cfagg.errors.arguments import a_new_file, flags, paths, shared
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Aggregation
from cfagg.runtime.object_files import object_at
from cfagg.runtime.reports import WrittenReport
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, absolute, is_url

if TYPE_CHECKING:
    from cfagg.writing.report import Report

__all__ = ["IndexReport", "index"]


#: The name of the argument, for errors.
_FILES = "path_or_files"


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexReport(WrittenReport):
    """The result of indexing: the number of files and chunks, and which files are left out or updated."""

    title: ClassVar[str] = "Byte-offset index"

    files: int
    chunks: int
    #: Files that were unchanged since the previous index.
    unchanged: int = 0
    #: Files that had changed since.
    changed: tuple[str, ...] = ()
    #: Files, and variables of files, that are read without using the index.
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        counts = f"{count_text(self.files, 'file')}, {count_text(self.chunks, 'chunk')}"
        changed = f"; {count_text(len(self.changed), 'file')} had changed" if self.changed else ""
        left = f"; {len(self.left_out):,} read without it" if self.left_out else ""
        return f"{self.target}: index of {counts}{changed}{left}"

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """The facts shown in a notebook, by name."""
        return (
            ("file", self.target),
            ("files", f"{self.files:,}"),
            ("chunks", f"{self.chunks:,}"),
            ("unchanged files", f"{self.unchanged:,}" if self.unchanged else None),
        )


@LIBRARY.keeping_files()
def index(
    path_or_files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    output: str | os.PathLike[str] | None = None,
    to: str | None = None,
    on_loss: str = "error",
    overwrite: bool = False,
    allow: Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    client: Any = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> IndexReport | Report:
    """Create or refresh a byte-offset index, with which thousands of fragments can be read without opening each first.

    An existing index is refreshed: only files that have changed are opened.

    Parameters
    ----------
    path_or_files : str or path-like, or iterable of these
        An aggregation file, whose fragments are indexed; or any files and patterns, as for `aggregate`.
    output : str or path-like, optional
        The index; by default the name of the aggregation file with ``.cfagg-index`` appended. Required for several
        files.
    to : {"kerchunk", "icechunk"}, optional
        Write references for other libraries instead of an index.
    on_loss : {"error", "materialise", "drop"}
        How to handle what such references cannot express.
    overwrite : bool
        Replace the output if it consists of references or is not an index; an index is always refreshed.
    allow : iterable of str or path-like
        Directories or files that fragments may be in, besides the aggregation file's own directory.
    storage_options : mapping, optional
        Options for URLs, as for `read`.
    client : distributed.Client or str, optional
        A Dask cluster, or the address of its scheduler, whose workers open the files.
    workers : int, optional
        Number of local processes to use if there are many files; by default one per processor.
    progress : callable, optional
        Called with the number of finished files and the total.

    Returns
    -------
    Report
        With `files`, `chunks`, `changed` files, and those `left_out` because an index cannot locate their values.

    Raises
    ------
    SourceError
        If the aggregation file cannot be read.
    LossError
        If references cannot express something, with ``on_loss="error"``; nothing is written.

    Examples
    --------
    >>> import cfagg
    >>> cfagg.index("temperature.nc").changed  # doctest: +SKIP
    ()
    """
    allowed = paths(allow)
    flags(overwrite=overwrite)
    shared(storage_options=storage_options, progress=progress, workers=workers, on_loss=on_loss)
    if output is not None:
        output = a_new_file(output, "output")
    if to is not None:
        return _exported(path_or_files, output, to, on_loss, overwrite, allowed, storage_options)
    if isinstance(path_or_files, str | os.PathLike) and not _is_pattern(path_or_files):
        place = a_place(path_or_files, storage_options, allowed, name=_FILES)
        source = opened(place, allowed)
        unreadable = [error for group in source.root.walk() for error in group.unreadable.values()]
        if any(isinstance(v, Aggregation) for g in source.root.walk() for v in g.variables.values()):
            beside = f"{absolute(place)}{SUFFIX}"
            if isinstance(place, Url):
                if output is None and place.lower().startswith("http"):
                    raise OptionError(f"{place} is a URL, beside which no index is written: name one with output=")
                beside = place.beside(beside)
            target = beside if output is None else _target(output, storage_options)
            left = {error.message: error.message for error in unreadable}
            files: dict[str, dict[str, None]] = {}
            for path, address in fragments(source, source.access(allowed), left):
                files.setdefault(path, {})[address] = None
            wanted = Wanted({path: tuple(names) for path, names in files.items()}, left)
            with _held(place) if output is None and not isinstance(place, Url) else nullcontext():
                return _written(wanted, target, client, workers, progress, overwrite, place)
        from cfagg.arrays.source import refuse_unreadable

        refuse_unreadable(unreadable, "it has no other aggregation to index")
    if output is None:
        raise OptionError("the index of files without an aggregation file has no default place: name it with output=")
    from cfagg.aggregation.files import places

    target = _target(output, storage_options)
    # Fragments are looked up by name, so each hard link of a file counts.
    named = places(
        path_or_files, storage_options=storage_options, allow=allowed, without=[target], same=str, argument=_FILES
    )
    return _written(Wanted.of(named, allowed), target, client, workers, progress, overwrite)


def _held(place: str) -> AbstractContextManager[object]:
    """Return the lock of an aggregation file, whose growth would leave an older index here without its records."""
    from cfagg.aggregation.appending import belongs
    from cfagg.runtime.paired import PairedFile

    path = Path(os.path.realpath(place))
    if not os.access(path.parent, os.W_OK | os.X_OK):  # then it does not grow
        return nullcontext()
    return PairedFile(path, Path(f"{path}{SUFFIX}"), partial(belongs, path), f"indexing {path}")


def _target(output: str, storage_options: Mapping[str, Any] | None) -> str:
    """Return where an index is written; in an object store, this includes the options of the files."""
    return a_place(output, storage_options if is_url(output) else None, expected="name an index")


def _is_pattern(path: str | os.PathLike[str]) -> bool:
    name = os.fspath(path)
    return os.path.isdir(name) or (bool(set(name) & set("*?[")) and not is_url(name) and not os.path.lexists(name))  # noqa: PTH112


def _written(
    wanted: Wanted,
    target: str,
    client: Any,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
    overwrite: bool,
    *others: str,
) -> IndexReport:
    """Write the index of files, reusing what is known of unchanged files; it must replace none of them nor `others`."""
    from cfagg.arrays.index.building import index_files
    from cfagg.arrays.index.parquet import open_index, write_index
    from cfagg.writing.replacing import is_one_of, lost, refuse_data

    only_if: dict[str, Any] = {}
    if is_one_of(target if isinstance(target, Url) else Path(target), (*wanted.files, *others)):
        raise lost(target)
    if isinstance(target, Url):
        object_at(target)  # raises for web servers
        only_if = _unchanged(target)
    previous, notes = None, []
    try:
        previous = open_index(target)
    except SourceNotFoundError:
        pass
    except SourceError as error:
        # By its name it is an index; a file that is something else may be user data.
        if not overwrite and not target.endswith(SUFFIX):
            raise TargetExistsError(
                f"{target} exists and is not an index that can be refreshed ({error.message}); replace it with "
                "overwrite=True (--overwrite), or give another name"
            ) from error
        # It may be one of the files of a directory, of which outputs are left out.
        refuse_data(target, "index")
        notes.append(f"{error.message}; it was rebuilt")
    made, without = index_files(
        {path: names for path, names in wanted.files.items() if names != ()},
        listing=wanted.listed, previous=previous, client=client, workers=workers, progress=progress,
    )  # fmt: skip
    if previous is not None:
        made = _described(made, previous)
    write_index(made, target, **only_if)
    same = [] if previous is None else [p for p, i in made.files.items() if _is_same(previous, p, made, i)]
    changed = [] if previous is None else [p for p in made.files if p in previous.files and p not in set(same)]
    return IndexReport(
        target=target,
        variables=tuple(dict.fromkeys(made.address)),
        files=len(made),
        chunks=int(made.offset.values.size),
        unchanged=len(same),
        changed=tuple(changed),
        left_out=(*wanted.left, *lacking(without)),
        notes=tuple(notes),
    )


def _unchanged(target: Url) -> dict[str, Any]:
    """Return the condition that an index in an object store is still in the state in which it is read next."""
    try:
        tag = getattr(handles.renew(target).data, "tag", None)
    except SourceNotFoundError:
        return {"create": True}
    return {"match": tag} if tag else {}


def _described(made: Index, previous: Index) -> Index:
    """Return an index with the descriptions that `aggregate` recorded, also for files without fragments in it."""
    before = {path: previous.description[i] for path, i in previous.files.items()}
    made = replace(made, description=tuple(before.get(path) for path in made.files))
    kept = [i for path, i in previous.files.items() if path not in made.files and previous.description[i] is not None]
    both = Index.joined(
        [made, previous.take(np.array(kept, np.int64))],
        made.base,
        shared=previous.shared,
        aggregation=previous.aggregation,
    )
    # In the previous order, followed by new ones.
    place = {path: n for n, path in enumerate(before)}
    return both.take(np.array(sorted(range(len(both)), key=lambda i: place.get(both.where(i), len(place))), np.int64))


def _is_same(previous: Index, path: str, made: Index, i: int) -> bool:
    before = previous.files.get(path)
    return before is not None and previous.state(before) == made.state(i)


def _exported(
    path_or_files: Any,
    output: str | None,
    to: str,
    on_loss: str,
    overwrite: bool,
    allowed: tuple[str, ...],
    storage_options: Mapping[str, Any] | None,
) -> Report:
    """Write references for other libraries."""
    from cfagg.writing.exports.exporting import export

    if output is None:
        raise OptionError(f"to={to!r}: name the file to write with output=")
    if isinstance(path_or_files, str | os.PathLike) and not _is_pattern(path_or_files):
        source = opened(a_place(path_or_files, storage_options, allowed, name=_FILES), allowed)
    else:
        from cfagg.aggregation.building import build
        from cfagg.aggregation.joining import join_files
        from cfagg.aggregation.scanning import Scanner

        scanner = Scanner(storage_options=storage_options, allow=allowed)
        source = build(join_files(scanner.scan(scanner.meant(path_or_files, [output], _FILES)), scanner.rules))
    return export(source, source.access(allowed), output, to, on_loss=on_loss, overwrite=overwrite)
