"""Rows of files, read once and kept on disk in blocks sorted by date, for any range of dates.

A file whose rows are not in order of time would have to be read again for each part of a build.  Instead it is read
once, in blocks; each block is sorted by date and kept as an uncompressed Arrow file.  A range of dates is then a slice
of each block, and only the pages with its rows are read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import SourceError, SourceNotFoundError, StaleError
from cfagg.observations.frames import attributes_of, file_of, with_attributes
from cfagg.observations.registry import Config
from cfagg.runtime.publishing import refusals_of, sync_tree
from cfagg.storage.handles import handles
from cfagg.storage.remote_file import open_remote
from cfagg.storage.urls import Url, a_place, is_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FileSource", "SortedRows", "as_file", "expand", "stamp"]

#: Column that keeps the labels of rows.
_ROW = "__cfagg_row"


def expand(paths: Iterable[str]) -> list[str]:
    """Return paths with patterns such as ``obs-*.csv`` expanded, sorted."""
    found: list[str] = []
    for path in paths:
        if isinstance(path, Url):
            if handles.lacks(path):
                more = "; patterns are not expanded there: name each file" if set(path) & set("*?[") else ""
                raise SourceNotFoundError(f"{path}: no such file{more}")
            found.append(path)
            continue
        several = any(c in path for c in "*?[") and not Path(path).exists()
        matches = sorted(glob(path, recursive=True)) if several else [path]  # noqa: PTH207  # absolute patterns
        missing = [m for m in matches if not Path(m).is_file()]
        folders = [m for m in missing if Path(m).is_dir()]
        if folders:
            raise SourceError(f"{folders[0]}: a directory, not a file; name its files, for instance {folders[0]}/*")
        if missing and Path(missing[0]).exists():
            raise SourceError(f"{missing[0]}: not a regular file; copy what it gives into one")
        if not matches or missing:
            raise SourceNotFoundError(f"{path}: {'no file has such a name' if several else 'no such file'}")
        found += matches
    return found


def stamp(paths: Iterable[str], *, anew: bool = False) -> list[list[Any]]:
    """Return path, size and modification time of files, to detect changes; if `anew`, servers are asked again."""
    found = []
    for path in paths:
        if isinstance(path, Url):
            key = (handles.renew(path) if anew else handles.get(path)).key
            found.append([str(path), key.size, key.modified])
            continue
        status = Path(path).stat()
        found.append([str(Path(path).absolute()), status.st_size, status.st_mtime_ns])
    return found


def as_file(path: str) -> Any:
    """Return the file for pyarrow: a local path unchanged, a remote one as an object."""
    return open_remote(path).data if isinstance(path, Url) else path


class SortedRows:
    """Blocks of rows sorted by date."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blocks: list[dict[str, Any]] = json.loads((directory / "pieces.json").read_text(encoding="utf-8"))

    @classmethod
    def build(cls, directory: Path, frames: Iterable[pd.DataFrame]) -> SortedRows:
        """Return the rows in a directory, after writing the frames there unless it already has all of them."""
        # The frames are not used if the rows exist.  Each must have a column ``date`` without NaT.
        if (directory / "pieces.json").exists():
            return cls(directory)
        with refusals_of(directory.parent):
            directory.parent.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=".rows-", dir=directory.parent))
        try:
            blocks = [_write(aside / f"{i:05d}.arrow", frame) for i, frame in enumerate(frames)]
            (aside / "pieces.json").write_text(json.dumps(blocks), encoding="utf-8")
            sync_tree(aside)
            aside.rename(directory)
        except OSError:
            if not (directory / "pieces.json").exists():  # else another process was faster
                with refusals_of(directory):
                    raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return cls(directory)

    def read(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Yield the rows from `start` up to but excluding `end`; one empty frame if there are none."""
        # Rows of one date are in the order of the file.
        first, stop = np.datetime64(start, "us"), np.datetime64(end, "us")
        some = False
        for i, block in enumerate(self.blocks):
            if not block["rows"]:
                continue
            earliest, latest = (_micros(np.datetime64(block[key])) for key in ("first", "last"))
            if latest < first or earliest >= stop:
                continue
            frame = _read(self.directory / f"{i:05d}.arrow", first, stop)
            if len(frame):
                some = True
                yield frame
        if not some and self.blocks:
            yield _read(self.directory / "00000.arrow", first, first)


def _write(path: Path, frame: pd.DataFrame) -> dict[str, Any]:
    """Write a frame sorted by date; return its first and last date and its number of rows."""
    import pyarrow as pa
    from pyarrow import feather

    dates = frame["date"].to_numpy()
    if len(dates) and (dates[1:] < dates[:-1]).any():
        frame = frame.iloc[np.argsort(dates, kind="stable")]
        dates = frame["date"].to_numpy()
    metadata = {"variables": json.dumps(attributes_of(frame), default=_plain), "file": json.dumps(file_of(frame))}
    columns = {name: pa.array(frame[name], from_pandas=frame[name].dtype == object) for name in frame.columns}
    columns[_ROW] = pa.array(frame.index.to_numpy())
    with refusals_of(path):
        feather.write_feather(
            pa.table(columns, metadata=metadata), str(path), compression="uncompressed", chunksize=max(len(frame), 1)
        )
    ends = (str(dates[0]), str(dates[-1])) if len(dates) else ("", "")
    return {"first": ends[0], "last": ends[1], "rows": len(dates)}


def _micros(date: np.datetime64) -> np.datetime64:
    """Return a date in microseconds, since nanoseconds cannot represent all ends."""
    return np.datetime64(date, "us")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def _read(path: Path, first: np.datetime64, stop: np.datetime64) -> pd.DataFrame:
    """Return the rows of a block within a range of dates."""
    from pyarrow import feather

    table = feather.read_table(str(path), memory_map=True)
    dates = table.column("date").combine_chunks().to_numpy(zero_copy_only=False)
    low, high = (bisect_left(dates, end, key=_micros) for end in (first, stop))
    table = table.slice(low, high - low)
    frame: pd.DataFrame = table.to_pandas(strings_to_categorical=False)
    metadata = table.schema.metadata or {}
    attributes, file = (json.loads(metadata.get(*k)) for k in ((b"variables", b"{}"), (b"file", b"null")))
    frame = frame.set_index(_ROW)
    frame.index.name = None
    return with_attributes(frame, attributes, file)


class FileSource:
    """A source whose files are read once per build; `config` distinguishes its rows from those of others."""

    # `blocks` yields frames with all rows of the paths, whose index labels the rows.

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        paths: Iterable[str],
        blocks: Callable[[list[str]], Iterator[pd.DataFrame]],
        options: Mapping[str, Any] | None = None,
        allow: Iterable[str] = (),
        *,
        beside: Iterable[str] = (),
    ) -> None:
        #: Further files that the rows depend on.
        self.beside = tuple(beside)
        self._name = name
        self._config = json.dumps(
            {k: v for k, v in config.items() if k not in ("options", "allow")}, sort_keys=True, default=str
        )
        named = (config.path(p) if isinstance(config, Config) else p for p in paths)
        #: Paths as given; remote ones include their options.
        self.places = tuple(
            a_place(p, options, allow, options_name="options") if is_url(p) or options else p for p in named
        )
        self._blocks = blocks
        self._sorted: SortedRows | None = None
        self._temporary = False

    def __getstate__(self) -> dict[str, Any]:
        # A temporary directory of this object is of no use to a copy in another process.
        return {**self.__dict__, "_temporary": False, "_sorted": None if self._temporary else self._sorted}

    def files(self) -> list[str]:
        """Return the paths of the files."""
        return [*self.tables(), *expand(self.beside)]

    def tables(self) -> list[str]:
        """Return the paths of the files that have the rows."""
        return expand(self.places)

    def prepare(self, directory: Path) -> None:
        """Read the files, unless the directory has their rows already."""
        paths = self.tables()
        seen = stamp([*paths, *expand(self.beside)])
        marks = json.dumps([self._name, self._config, seen])
        digest = hashlib.sha256(marks.encode()).hexdigest()[:16]
        self._sorted = SortedRows.build(directory / f"{self._name}-{digest}", self._unchanged(paths, seen))

    def _unchanged(self, paths: list[str], seen: list[list[Any]]) -> Iterator[pd.DataFrame]:
        """Yield all rows of the files, which must not change meanwhile."""
        yield from self._blocks(paths)
        for before, after in zip(seen, stamp([*paths, *self.beside], anew=True), strict=True):
            if before != after:
                raise StaleError(f"{before[0]} changed while it was read; build again when it is complete")

    def read(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Yield the rows from `start` up to but excluding `end`."""
        if self._sorted is None:
            directory = tempfile.mkdtemp(prefix="cfagg-rows-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
            self.prepare(Path(directory))
            self._temporary = True
        if self._sorted is not None:
            yield from self._sorted.read(start, end)
