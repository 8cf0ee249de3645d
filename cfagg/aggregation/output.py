"""Writing an aggregation of files, with its index: a new one, or one grown by added files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cfagg.aggregation.appending import (
    Growth,
    Known,
    Settings,
    belongs,
    digest_of,
    grown,
    known_of,
    packed,
    real,
    referred,
    state_at,
    with_new,
)
from cfagg.aggregation.building import build
from cfagg.aggregation.joining import join_files
from cfagg.aggregation.scanning import FileState, Scanned, Scanner
from cfagg.arrays.index import SUFFIX, Index
from cfagg.arrays.index import FileState as IndexedState
from cfagg.arrays.index.addresses import addresses_of
from cfagg.arrays.index.building import build_index, is_text, row_of
from cfagg.arrays.index.parquet import index_bytes
from cfagg.arrays.index.rows import FileRow
from cfagg.arrays.index.table import Collected
from cfagg.arrays.joined_source import JoinedSource
from cfagg.arrays.netcdf_source import open_source
from cfagg.display.sizes import count_text
from cfagg.errors import CfaggError, OptionError, SourceError, SourceNotFoundError, StaleIndexWarning
from cfagg.formats.metadata.url import file_at
from cfagg.model import Aggregation
from cfagg.runtime.object_files import object_at
from cfagg.runtime.paired import PairedFile, PairedObject
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url
from cfagg.writing.aggregation_file import Target, write_file
from cfagg.writing.dialects import has_addresses
from cfagg.writing.fragments import place_for
from cfagg.writing.replacing import refuse_circle
from cfagg.writing.report import Report
from cfagg.writing.sources import content_of

__all__ = ["Output"]

#: Formats of stores, which are not single files: an index only records their content.
_STORES = frozenset({"zarr", "nczarr", "kerchunk"})


@dataclass(frozen=True)
class Output:
    """Where and how files are aggregated: `append` adds to an existing aggregation, `update` includes changes since."""

    target: Target
    scanner: Scanner
    append: bool = False
    update: bool = False
    index: bool = True

    @property
    def settings(self) -> Settings:
        """The recorded settings, which must be the same when files are added."""
        base = None if self.target.relative_to is None else self.target.base
        return Settings(self.scanner.rules, self.target.to, self.target.on_loss, base)

    def check(self) -> None:
        """Raise an error if the output cannot be written, before work begins."""
        if self.update and not self.append:
            raise OptionError("update=True concerns the files of a growing aggregation: give append=True too")
        if self.append and self.target.overwrite:
            raise OptionError(
                "append=True keeps the existing file and overwrite=True replaces it: give only one of them"
            )
        if self.target.url is None or not self.append:
            self._replacing.check()
        else:
            object_at(self.target.url)  # raises for web servers

    @property
    def _replacing(self) -> Target:
        grows = self.append and (self.target.url is None or self.target.match is not None)
        return replace(self.target, overwrite=self.target.overwrite or grows, grows=grows)

    @property
    def place(self) -> str:
        """The aggregation file, a path or a URL."""
        return self.target.url or str(self.target.path)

    @property
    def beside(self) -> str:
        """The path of its index."""
        name = f"{self.place}{SUFFIX}"
        return name if self.target.url is None else self.target.url.beside(name)

    def write(self, new: Sequence[str]) -> tuple[JoinedSource, Report]:
        """Scan files, join them with existing ones, and write everything; return the dataset and the report."""
        self.check()
        path, url = self.target.path, self.target.url
        if url is None:
            with PairedFile(
                path, Path(self.beside), lambda made: belongs(path, made), f"aggregating to {path}"
            ) as pair:
                return self._grown(new, pair)
        digest, tag = self._there(url) if self.append else (None, None)
        growing = replace(self, target=replace(self.target, match=tag))
        with PairedObject(url, SUFFIX, digest) as pair:
            return growing._grown(new, pair)

    @staticmethod
    def _there(url: Url) -> tuple[str, str] | tuple[None, None]:
        """Return digest and tag of an aggregation file in an object store."""
        try:
            tag = getattr(handles.renew(url).data, "tag", None)
        except SourceNotFoundError:
            return None, None
        if not tag:
            raise SourceError(
                f"{url} has no ETag, without which changes by others would go unnoticed; copy it to this machine"
            )
        return digest_of(url), tag

    def _grown(self, new: Sequence[str], pair: PairedFile | PairedObject) -> tuple[JoinedSource, Report]:
        own = frozenset(map(str, new))
        policy = Access(self.place, self.scanner.allow)

        def judge(place: str) -> None:
            """Raise an error for a file that the user has not named and the aggregation file may not read."""
            if place not in own:
                policy.resolve(place)

        growth, known = self._growth(new, judge)
        if not growth.places:
            raise SourceNotFoundError(
                f"no files were given, and none of those in {self.place} still exists; name files"
            )
        for place in growth.to_scan:
            judge(place)
        return self._written(growth, known, pair, frozenset(map(str, growth.places)) - own)

    def _growth(self, new: Sequence[str], judge: Callable[[str], None]) -> tuple[Growth, Known | None]:
        path, beside = self.place, self.beside
        if not self.append:
            return Growth(tuple(new), {}), None
        if self.target.match is None if self.target.url is not None else not os.path.lexists(path):
            return Growth(tuple(new), {}, (f"{path} did not exist: it is new",)), None
        digest = digest_of(path)
        try:
            known = known_of(beside, digest, self.scanner.named)
        except CfaggError as error:
            why = f"{beside} does not exist" if handles.lacks(beside) else error.message
            old = list(map(self.scanner.named, referred(path)))
            note = f"{count_text(len(old), 'file')} of {path} {'was' if len(old) == 1 else 'were'} scanned again: {why}"
            warnings.warn(note, StaleIndexWarning, stacklevel=5)
            if self.update:
                old = [place for place in old if state_at(place, self._asking(judge)) is not None]
            return Growth(with_new(old, new)[0], {}, (note,)), None
        self.settings.check(known.settings, path)
        now = partial(state_at, again=self._asking(judge))
        return grown(known, new, path, update=self.update, now=now), known

    def _asking(self, judge: Callable[[str], None]) -> Callable[[str], FileState | None]:
        """Return the function that determines the state of a remote file; for a store, it reads all metadata again."""

        def state(place: str) -> FileState | None:
            judge(place)
            try:
                handle = file_at(place) if isinstance(place, Url) else None
                if handle is not None:
                    return FileState(handle.key.size, etag=handle.data.lasting_tag)
                return self.scanner.scan([place])[0].state
            except SourceNotFoundError:
                return None

        return state

    def _written(
        self,
        growth: Growth,
        known: Known | None,
        pair: PairedFile | PairedObject,
        recorded: frozenset[str],
    ) -> tuple[JoinedSource, Report]:
        wanted = growth.to_scan
        found = {str(one.place): one for one in self.scanner.scan(wanted, others=bool(growth.kept))} if wanted else {}
        scanned = [growth.kept.get(place) or found[place] for place in growth.places]
        whole = [one for one in scanned if one.problem is None]
        target = self._replacing
        if target.grows and self.target.url is None:
            referring = (str(one.place) for one in found.values() if one.refers)
            refuse_circle(self.target.path, referring, self.scanner.allow)
        with self._trusting(known):
            source = build(join_files(scanned, self.scanner.rules), fields=has_addresses(self.target.to))
        if recorded:
            source = replace(source, file=self.place, recorded=recorded)
        content, losses = content_of(
            source, source.access(self.scanner.allow), target.to, drop=target.on_loss == "drop"
        )

        notes, odd = growth.notes, [str(one.place) for one in whole if not is_text(str(one.place))]
        if self.index and odd:
            notes += (f"no index was written: no Parquet file can hold names such as {odd[0]!a}",)

        def prepare(made: Path) -> None:
            """Write the index of the file that is about to be moved into place."""
            if self.index and not odd:
                digest = digest_of(made)
                index = index_of(whole, self.settings, known, digest, self.scanner, _beside(made, target))
                home = str(target.path.parent) if target.url is None else target.url.place[0]
                pair.prepare(index_bytes(index, home), digest)

        with self._trusting(known):
            report = write_file(content, target, losses, notes, before=prepare)
        pair.publish()
        return source, report

    @contextmanager
    def _trusting(self, known: Known | None) -> Iterator[None]:
        """Raise an error of our own if known descriptions, each valid by itself, contradict each other."""
        try:
            yield
        except CfaggError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if known is None:
                raise
            what = f"the index of {self.place} describes its files inconsistently"
            raise SourceError(f"{what}; remove {self.beside}, and all are scanned again") from error


def _beside(made: Path, target: Target) -> list[FileRow]:
    """Return the index rows of the fragments written with a file, before both get their final names."""
    inside, folder = made.with_name("file.fragments"), place_for(target.path)
    if target.url is not None or not inside.is_dir():
        return []  # objects have no state before they exist
    wanted: dict[str, dict[str, None]] = {}
    for group in open_source(str(made)).root.walk():
        for one in group.variables.values():
            if not isinstance(one, Aggregation):
                continue
            for code, address in addresses_of(one)[0]:
                wanted.setdefault(one.partitions.files[code].rpartition("/")[2], {})[address] = None
    rows = ((name, row_of(str(inside / name), list(wanted.get(name, ())))) for name in sorted(os.listdir(inside)))  # noqa: PTH208
    return [row._replace(path=str(folder / name)) for name, row in rows if row is not None]


def index_of(
    scanned: Sequence[Scanned],
    settings: Settings,
    known: Known | None,
    digest: str,
    scanner: Scanner,
    written: Sequence[FileRow] = (),
) -> Index:
    """Return the index of files; unchanged files are not opened again, and known rows are reused."""
    own, shared = packed(scanned, settings, known)
    numbers = {} if known is None else dict(zip(known.places, known.numbers, strict=True))
    states = [_indexed(one.state or FileState(0)) for one in scanned]
    old: list[int | None] = [
        numbers[one.place]
        if known is not None and one.place in numbers and known.index.state(numbers[one.place]) == state
        else None
        for one, state in zip(scanned, states, strict=True)
    ]
    new = [one for one, i in zip(scanned, old, strict=True) if i is None and one.format not in _STORES]
    wanted = ((one.place, name) for one in new for name in _addresses(one))
    made = build_index(wanted, client=scanner.client, workers=scanner.workers)
    rows, paths = Collected(), set[str]()
    for n, (one, description, state, i) in enumerate(zip(scanned, own, states, old, strict=True)):
        row = _new_row(one, state, made) if known is None or i is None else known.index.rows(i)
        # Another name of a file that is already included keeps its own path.
        path = real(one.place)
        path = one.place if path in paths else path
        paths.add(path)
        rows.add(row._replace(path=str(path), description=description), n)
    for n, row in enumerate(written, len(scanned)):
        rows.add(row, n)
    return rows.index(shared=shared, aggregation=digest)


def _new_row(one: Scanned, state: IndexedState, made: Index) -> FileRow:
    """Return the index row of a file; raise an error if it has changed since it was scanned."""
    number = made.files.get(one.place)
    if number is not None and made.state(number) == state:
        return made.rows(number)
    if number is None and (one.format in _STORES or not _addresses(one)):
        return FileRow(one.place, state, None, (), ())
    what = "can no longer be opened" if number is None else "has changed"
    raise SourceError(f"{one.place} {what} since it was scanned; aggregate it when it is complete")


def _addresses(one: Scanned) -> list[str]:
    """Return the variables of a file whose values stay there: joined ones, and those with too many values."""
    large = (p.stated.name for d in one.described for p in d.parts.values() if p.values is None)
    return list(dict.fromkeys([*(d.stated.name for d in one.described), *large]))


def _indexed(state: FileState) -> IndexedState:
    """Return the state of a file in the form used by an index."""
    if state.etag is not None:
        return IndexedState(state.size, etag=state.etag)
    return IndexedState(state.size, state.mtime_ns, state.ctime_ns, state.inode)
