"""Growing an aggregation: the record of its files in its index, and which of them have changed or are gone.

The index beside ``OUT.nc`` contains the description of every scanned file, the options with which they were joined, and
the digest of ``OUT.nc``: an index for another state of that file is not used.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from cfagg.aggregation import records
from cfagg.aggregation.files import itself
from cfagg.aggregation.scanning import FileState, Scanned
from cfagg.arrays.index import Index, open_index
from cfagg.arrays.netcdf_source import open_source
from cfagg.cf.joining import Options
from cfagg.errors import CfaggError, ConventionError, OptionError, Problem, SourceError
from cfagg.model import Aggregation
from cfagg.runtime.publishing import public_name
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, is_url

__all__ = [
    "Growth",
    "Known",
    "Settings",
    "belongs",
    "digest_of",
    "grown",
    "known_of",
    "packed",
    "real",
    "referred",
    "state_at",
]

#: Returns the current state of a file, or `None` if it is gone.
State = Callable[[str], FileState | None]

#: Maximum size in bytes of the settings.
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that must stay the same when files are added: how they are joined, and how `OUT.nc` is written."""

    rules: Options
    to: str
    on_loss: str = "error"
    relative_to: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return them as JSON values, by keyword."""
        own = {"to": self.to, "on_loss": self.on_loss, "relative_to": self.relative_to}
        return json.loads(json.dumps({**asdict(self.rules), **own}, default=str, sort_keys=True))  # type: ignore[no-any-return]

    def check(self, recorded: Mapping[str, Any], target: str) -> None:
        """Raise an error if settings differ from those that were recorded."""
        own = self.as_dict()
        absent = Settings(Options(), self.to).as_dict()
        wrong = [
            Problem(
                name, f"{target} was written with {recorded.get(name, absent.get(name))!r}, and now it is {value!r}"
            )
            for name, value in own.items()
            if recorded.get(name, absent.get(name)) != value
        ]
        unknown = sorted(recorded.keys() - own.keys())
        wrong += [
            Problem(name, f"{target} was written with {recorded[name]!r}, an option of another version")
            for name in unknown
        ]
        if wrong:
            raise OptionError(
                f"files cannot be added to {target} with options that differ from those it was written with: give the "
                "same, or aggregate all files again with overwrite=True (--overwrite)",
                wrong,
            )


@dataclass(frozen=True, slots=True)
class Known:
    """The records of an index for each file, and the settings; `numbers` are those of the files in the index.

    The record of a file is `None` if it could not be recorded.
    """

    places: tuple[str, ...]
    numbers: tuple[int, ...]
    scanned: tuple[Scanned | None, ...]
    settings: Mapping[str, Any]
    index: Index
    #: The records themselves, the part that they share, the names of files in them, and what `records.extend` needs.
    own: Sequence[bytes]
    shared: bytes
    names: tuple[str, ...]
    parts: set[int]

    def packed(self, scanned: Sequence[Scanned]) -> tuple[list[bytes], bytes] | None:
        """Return the records of these files and of others behind them, or `None` if all have to be encoded again."""
        count = len(self.scanned)
        if len(scanned) < count or any(a is not b for a, b in zip(scanned, self.scanned, strict=False)):
            return None
        if any(_unless_real(one.place) != name for one, name in zip(scanned, self.names, strict=False)):
            return None
        return records.extend(self.own, self.shared, self.parts, map(_nameless, scanned[count:]))


def real(place: str) -> str:
    """Return the path of a file with links resolved, under which reading looks it up in an index."""
    return place if is_url(place) else os.path.realpath(place)


def packed(scanned: Sequence[Scanned], settings: Settings, known: Known | None = None) -> tuple[list[bytes], bytes]:
    """Return the index records of each file, and the shared one; those of `known` files are copied if possible."""
    own, shared = (known and known.packed(scanned)) or records.encode(map(_nameless, scanned))
    said = json.dumps({"settings": settings.as_dict(), "files": _sum_of(own)}, sort_keys=True).encode()
    return own, len(said).to_bytes(4, "little") + said + shared


def _nameless(one: Scanned) -> Scanned:
    """Return a description without the path, which is stored by the index itself."""
    return replace(one, place=_unless_real(one.place))


def _unless_real(place: str) -> str:
    """Return the name of a file if it differs from the path in the index, else an empty string."""
    name = str(place)
    return "" if real(name) == name else name


def _sum_of(own: Sequence[bytes]) -> str:
    """Return a digest that shows whether all descriptions are present, in order."""
    found = blake2b(digest_size=16)
    for one in own:
        found.update(len(one).to_bytes(8, "little") + one)
    return f"{len(own)} {found.hexdigest()}"


def known_of(path: str | Path, digest: str, named: Callable[[str], str] = str) -> Known:
    """Return the records in the index of a file with this digest.

    Raises
    ------
    SourceError, ConventionError
        If there is none, or it is damaged, or belongs to another state of the file.
    """
    if isinstance(path, Url):
        handles.renew(path)  # it may have been written within the same second
    index = open_index(path)
    if index.aggregation is None or not index.shared:
        raise SourceError(f"{path} was not written by aggregate")
    if index.aggregation != digest:
        raise SourceError(f"{path} belongs to another state of its aggregation file")
    numbers = tuple(i for i, one in enumerate(index.description) if one is not None)
    own = [index.description[i] or b"" for i in numbers]
    parts: set[int] = set()
    cut = 4 + min(int.from_bytes(index.shared[:4], "little"), _LONGEST)
    try:
        head = json.loads(index.shared[4:cut])
        found = records.decode(own, index.shared[cut:], parts)
    except ConventionError as error:
        raise ConventionError(f"{path}: {error.message}") from error
    except (ValueError, RecursionError) as error:
        raise ConventionError(f"{path}: its options are damaged") from error
    if not isinstance(head, dict) or not isinstance(head.get("settings"), dict) or head.get("files") != _sum_of(own):
        raise ConventionError(f"{path} lacks some files of its aggregation file")
    # Files that could not be recorded have no separate name.
    names = [(one.place if one is not None else "") or index.where(i) for i, one in zip(numbers, found, strict=True)]
    if not all(is_url(name) or (os.path.isabs(name) and "\0" not in name) for name in names):  # noqa: PTH117
        raise ConventionError(f"{path}: its names of files are damaged")
    places = tuple(map(named, names))
    scanned = tuple(
        None if one is None else replace(one, place=place) for place, one in zip(places, found, strict=True)
    )
    given = tuple("" if one is None else one.place for one in found)
    return Known(places, numbers, scanned, head["settings"], index, own, index.shared[cut:], given, parts)


def digest_of(target: str | Path) -> str:
    """Return the digest of an aggregation file by which its index identifies it."""
    if isinstance(target, Url):
        handle = handles.get(target)
        return blake2b(handle.exactly(handle.key.size, 0), digest_size=16).hexdigest()
    target = Path(target)
    try:
        with target.open("rb") as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        name = public_name(target)
        raise SourceError(f"{name} cannot be read: {error.strerror or error}") from error


def belongs(target: Path, path: Path) -> bool:
    """Return whether an index belongs to the current state of a file."""
    try:
        return open_index(path).aggregation == digest_of(target)
    except CfaggError:
        return False


def referred(target: str | Path) -> list[str]:
    """Return the files to which an aggregation file refers, in order, for use without an index.

    Raises
    ------
    SourceError
        If it has none, or some were written beside it: the files from which these were made are not known.
    """
    found: dict[str, None] = {}
    for group in open_source(target if isinstance(target, Url) else str(target)).root.walk():
        for one in group.variables.values():
            if isinstance(one, Aggregation):
                found.update(dict.fromkeys(one.partitions.files))
    if isinstance(target, Url):
        places = [name if is_url(name) else f"{target.place[0]}/{name.removeprefix('./')}" for name in found]
    else:
        home = os.path.dirname(target)  # noqa: PTH120
        places = [name if is_url(name) else os.path.normpath(os.path.join(home, name)) for name in found]  # noqa: PTH118
    own = f"{target}.fragments"
    if not places or any(place.startswith(own) for place in places):
        what = "refers to no files" if not places else "has values in files beside it that were computed from others"
        raise SourceError(f"{target} {what}, so it can grow only with its index; aggregate all files again")
    return places


@dataclass(frozen=True, slots=True)
class Growth:
    """All files in order, the records that are still valid, by place, and notes for users."""

    places: tuple[str, ...]
    kept: Mapping[str, Scanned]
    notes: tuple[str, ...] = ()

    @property
    def to_scan(self) -> list[str]:
        """The places of files that have to be scanned."""
        return [place for place in self.places if place not in self.kept]


def grown(known: Known, new: Sequence[str], target: str, *, update: bool, now: State) -> Growth:
    """Return the files of an aggregation after adding others: old ones first, in their order.

    Raises
    ------
    SourceError
        If old ones changed or are gone, listing all of these, unless `update` is set.
    """
    changed, gone, untold, kept = [], [], [], {}
    for place, scanned in zip(known.places, known.scanned, strict=True):
        found = now(place)
        if found is None:
            gone.append(place)
        elif scanned is None or scanned.state is None:
            continue  # it is scanned again
        elif "" in (found.etag, scanned.state.etag) and found.size == scanned.state.size:
            untold.append(place)
        elif found != scanned.state:
            changed.append(place)
        else:
            kept[place] = scanned
    if (changed or gone) and not update:
        problems = [*(Problem(p, "it has changed") for p in changed), *(Problem(p, "it is gone") for p in gone)]
        raise SourceError(
            f"{len(problems):,} of {len(known.places):,} files of {target} changed or disappeared since it was "
            "written: restore them, or update it with update=True (--update)",
            problems,
        )
    left = set(gone)
    places, again = with_new([place for place in known.places if place not in left], new)
    notes = [
        _counted(again, "is already in it", "are already in it"),
        _counted(changed, "was scanned again: it has changed", "were scanned again: they have changed"),
        _counted(
            untold,
            "was scanned again: its server does not tell whether it has changed",
            "were scanned again: their server does not tell whether they have changed",
        ),
        _counted(gone, "was left out: it is gone", "were left out: they are gone"),
    ]
    return Growth(places, kept, tuple(n for n in notes if n))


def with_new(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the places of all files, under their old names, and the new ones that were already included."""
    found: dict[Any, str] = {}
    for place in old:
        found.setdefault(itself(place), place)  # one may have become another name of another
    again = [place for place in new if itself(place) in found]
    for place in new:
        found.setdefault(itself(place), place)
    return tuple(found.values()), again


def _counted(places: Sequence[str], one: str, several: str) -> str:
    """Return a note on some files, empty if there are none."""
    if not places:
        return ""
    return f"{places[0]} {one}" if len(places) == 1 else f"{len(places):,} files {several}"


#: The state of a former file or store that no longer is one.
_NONE = FileState(-1)


def state_at(place: str, again: Callable[[str], FileState | None]) -> FileState | None:
    """Return the state of a file, or `None` if it is gone; `again` determines that of stores and of remote files.

    If it cannot be inspected, its state differs from any recorded one: it has changed, and a scan reports why.
    """
    if is_url(place):
        return again(place)
    try:
        found = os.stat(place)  # noqa: PTH116 - Path costs more
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _NONE
    if stat.S_ISDIR(found.st_mode):
        try:
            return again(place)
        except SourceError:
            return _NONE
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
