"""The vocabularies that CF refers to: standard names, area types, regions, modifiers of standard names.

The tables are bundled with the rules. A user may give newer ones, or a folder of versions, from which the version that
the dataset names is used.  They are read when a rule first needs them.

Sources: CF sections 3.3 and 6.1.1, Appendix C; the tables are named in ``tables/SOURCES.md``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cfagg.checking.context import Context, once
from cfagg.findings.finding import NotApplicable
from cfagg.storage.files import CONTEXT_SOURCE, open_regular

if TYPE_CHECKING:
    from cfagg.model.dataset import Group

__all__ = [
    "aliases", "area_types", "modifiers", "named_version", "near", "regions", "standard_names",
    "standard_names_version", "table_versions",
]  # fmt: skip

V = TypeVar("V")

_PACKED = {
    "standard_names": "standard_names_v94.csv.gz",
    "area_types": "area_types_v13.csv.gz",
    "regions": "regions_v5.csv.gz",
}

#: Number of unknown words of one dataset for which similar words are searched, at some milliseconds each.
_SEARCHES = 100

#: Largest size accepted, far above that of any table.
_LARGEST = 1 << 26

#: Modifiers of Appendix C and their units: `None` for those of the standard name, ``""`` for no units.
modifiers: Mapping[str, str | None] = {
    "detection_minimum": None,
    "number_of_observations": "1",
    "standard_error": None,
    "status_flag": "",
}


#: The version in a text such as ``CF Standard Name Table v94``.
_NAMED = re.compile(r"(?:v|version|table)[\s._-]{0,3}(\d{1,4})\b(?!\.\d)", re.IGNORECASE)


class _Table(NamedTuple):
    version: str
    rows: Mapping[str, str]


class _Given(NamedTuple):
    """A file that the user has given, in its present state: a table that was changed is read again."""

    path: Path
    state: tuple[int, ...]


def standard_names(c: Context) -> Mapping[str, str]:
    """Return the canonical unit of each standard name; the names include aliases.

    The unit is empty for quantities that are not numbers, such as ``region``.
    """
    return _units(_chosen(c, "standard_names"))


def aliases(c: Context) -> Mapping[str, tuple[str, ...]]:
    """Return the names that each alias refers to: one, rarely two."""
    return _aliases(_chosen(c, "standard_names"))


def area_types(c: Context) -> frozenset[str]:
    """Return the area types."""
    return frozenset(_table("area_types", _chosen(c, "area_types")).rows)


def regions(c: Context) -> frozenset[str]:
    """Return the names of the standardized regions."""
    return frozenset(_table("regions", _chosen(c, "regions")).rows)


def standard_names_version(c: Context) -> str:
    """Return the version of the table of standard names that is used for this dataset."""
    given = _chosen(c, "standard_names")
    return _number(_PACKED["standard_names"]) if given is None else _table("standard_names", given).version


def named_version(group: Group) -> int | None:
    """Return the version of the table of standard names that a dataset declares."""
    texts = (g.text("standard_name_vocabulary") for g in group.ancestors())
    found = _NAMED.search(next(filter(None, texts), ""))
    return int(found[1]) if found else None


def table_versions(tables: Mapping[str, Path]) -> dict[str, str]:
    """Return the version of each table, bundled or given by the user; for a folder, that of the newest table."""
    # The version of a bundled table is in its name, so the table is not opened.
    given = {kind: _newest(kind, tables[kind], None) for kind in _PACKED if kind in tables}
    return {k: _table(k, given[k]).version if k in given else _number(name) for k, name in _PACKED.items()}


def near(c: Context, word: str, words: Mapping[str, object] | frozenset[str]) -> str:
    """Return the word of a table with the spelling most similar to `word`, or an empty string.

    It is searched for a limited number of words of one dataset, since the search is slow.
    """
    searched = _searched(c)
    key = word, words if isinstance(words, frozenset) else None
    if key not in searched:
        searched[key] = _near(word, words) if len(searched) < _SEARCHES and len(word) <= 200 else ""
    return searched[key]


@once
def _searched(_: Context) -> dict[tuple[str, frozenset[str] | None], str]:
    return {}


def _near(word: str, words: Mapping[str, object] | frozenset[str]) -> str:
    from difflib import get_close_matches

    # The comparison is slow, so it is limited to names of similar length with the same start or end.
    likely = sorted(w for w in words if abs(len(w) - len(word)) <= 6 and (w[:3] == word[:3] or w[-4:] == word[-4:]))
    likely.sort(key=lambda w: abs(len(w) - len(word)))
    return next(iter(get_close_matches(word, likely[:300], 1, 0.82)), "")


@once
def _chosen(c: Context, kind: str) -> _Given | None:
    """Return the file of a table that the user has given, or `None` for the bundled one."""
    given = c.options.tables.get(kind)
    if given is None:
        return None
    return _newest(kind, given, named_version(c.dataset.root) if kind == "standard_names" else None)


def _newest(kind: str, given: Path, version: int | None) -> _Given:
    """Return the file itself, or from a folder the table of that version, else the newest."""
    path = _within(kind, given, version)
    try:
        found = path.stat()
    except OSError:
        return _Given(path, ())  # reading it says what is wrong
    return _Given(path, (found.st_size, found.st_mtime_ns, found.st_ino))


def _within(kind: str, given: Path, version: int | None) -> Path:
    try:
        files = list(given.iterdir()) if given.is_dir() else [given]
    except OSError as error:
        raise NotApplicable(f"the folder of tables {str(given)!r} cannot be read: {error}") from error
    if files == [given]:
        return given
    word = kind.removesuffix("s").replace("_", "[-_ ]?")
    found = {_number(f.name): f for f in files if re.search(word, f.name) and _number(f.name).isdigit()}
    if not found:
        raise NotApplicable(f"there is no table of {kind.replace('_', ' ')} in {str(given)!r}")
    return found.get(str(version), found[max(found, key=int)])


class _Cells(Mapping[str, V]):
    """One cell of each row, extracted on access, since a dataset uses few of some thousand names."""

    def __init__(self, rows: Mapping[str, str], cell: Callable[[str], V | None]) -> None:
        self._rows, self._cell = rows, cell

    def __getitem__(self, name: str) -> V:
        found = self._cell(self._rows[name])
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in self._rows.items() if self._cell(row) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=4)
def _units(given: _Given | None) -> Mapping[str, str]:
    return _Cells(_table("standard_names", given).rows, lambda row: row.partition(",")[0].strip())


@lru_cache(maxsize=4)
def _aliases(given: _Given | None) -> Mapping[str, tuple[str, ...]]:
    return _Cells(_table("standard_names", given).rows, lambda row: tuple(row.partition(",")[2].split()) or None)


@lru_cache(maxsize=16)
def _table(kind: str, given: _Given | None) -> _Table:
    """Return a bundled table, or the one in a file that the user gives."""
    if given is None:
        name = _PACKED[kind]
        return _Table(_number(name), _rows(_unpacked(_packed(name)).decode("utf-8")))
    try:
        with open_regular(str(given.path)) as file:
            raw = file.some(min(file.key.size, _LARGEST) + 1, 0, CONTEXT_SOURCE)
        if len(raw) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")  # noqa: TRY301
        raw = _unpacked(raw) if raw[:2] == b"\x1f\x8b" else raw
        text = raw.decode("utf-8-sig")
        table = _from_xml(text) if text.lstrip().startswith("<") else _Table(_number(given.path.name), _rows(text))
        _check_names(table)
        return table  # noqa: TRY300
    except (OSError, ValueError, zlib.error) as error:
        what = f"the table of {kind.replace('_', ' ')} {str(given.path)!r}"
        raise NotApplicable(f"{what} cannot be read: {error}") from error


def _check_names(table: _Table) -> None:
    """Refuse files that are not tables: with an empty one, every name would be unknown."""
    odd = [name for name in table.rows if not name or any(c.isspace() or c in "<>{}" for c in name)]
    if 2 * len(odd) >= len(table.rows):  # a published table may contain a mistake
        found = f"{odd[0]!r} in place of a name" if odd else "no names"
        raise ValueError(f"found {found}; expected the published XML, or CSV with a heading and a name in each line")


def _packed(name: str) -> bytes:
    return Path(__file__).with_name("tables").joinpath(name).read_bytes()


def _unpacked(raw: bytes) -> bytes:
    """Return decompressed gzip data, without the module `gzip`, whose import would take longer."""
    unpacker = zlib.decompressobj(31)
    found = unpacker.decompress(raw, _LARGEST)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it has more than {_LARGEST:,} bytes when unpacked")
    if not unpacker.eof:
        raise ValueError("it is truncated")
    return found


def _number(name: str) -> str:
    """Return the version in a file's name."""
    found = re.search(r"v-?(\d+)", name)
    return found[1] if found else "unknown"


def _rows(text: str) -> Mapping[str, str]:
    """Return the rest of each line by its first cell; no cell contains a comma."""
    cells = (line.partition(",") for line in text.splitlines()[1:])
    return {name.strip(): rest for name, _, rest in cells if name}


def _from_xml(text: str) -> _Table:
    """Return a table in the XML form in which the vocabularies are published."""
    from xml.etree import ElementTree as ET

    if "<!ENTITY" in text:
        raise ValueError("it defines entities")
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entities, and the user's own file
    except ET.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    rows: dict[str, str] = {}
    for entry in root.iter("entry"):
        rows[entry.get("id", "")] = (entry.findtext("canonical_units") or "").strip() + ","
    for alias in root.iter("alias"):
        targets = [(t.text or "").strip() for t in alias.findall("entry_id")]
        name = alias.get("id", "")
        if name not in rows:
            unit = next((rows[t] for t in targets if t in rows), ",")
            rows[name] = unit + " ".join(targets)
    return _Table((root.findtext("version_number") or "unknown").strip(), rows)
