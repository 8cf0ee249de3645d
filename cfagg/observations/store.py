"""Opening an observation store: its attributes, its rows, its statistics and its index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.findings import shorten
from cfagg.errors import (
    AccessError,
    ConventionError,
    FragmentMismatchError,
    LimitError,
    Problem,
    SourceError,
    StaleError,
    UnsupportedError,
)
from cfagg.observations.arrays import StoredArray, open_stored, read_json
from cfagg.observations.frames import META
from cfagg.observations.rows import Rows, read_small
from cfagg.storage.places import make_source
from cfagg.storage.store import Source

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index

__all__ = ["STATISTICS", "ObservationStore", "StoreAttributes", "open_store", "parse_attributes"]

#: Largest number of chunks of a store whose sizes are compared, more than directories contain.
_MOST = 1 << 23

#: Statistics that a store may have, one value for each variable.
STATISTICS = ("mean", "minimum", "maximum", "stdev", "nan_count")
#: Number of bytes at either end of chunks, and number of chunks, that enter the identity of a store.
_SAMPLE, _SAMPLES = 4096, 16


class ObservationStore:
    """An observation store opened for reading, which is picklable."""

    def __init__(self, source: Source, attributes: StoreAttributes, array: StoredArray, text: bytes) -> None:
        self.source = source
        self.path = source.path
        self.attributes = attributes
        self.variables = attributes.variables
        # Rows differ, so a chunk of several whole rows that are only fill values has been lost.
        complete = array.chunk[0] > 1 and array.chunk[1] >= array.shape[1]
        self.data = Rows(source, array, complete=complete)
        self.rows = array.shape[0]
        self._text = text

    def __repr__(self) -> str:
        count = len(self.variables)
        return f"<ObservationStore {self.path}: {self.rows:,} rows of {count} variable{'s'[: count != 1]}>"

    def __getstate__(self) -> dict[str, Any]:
        # Cached results are small, but the mapping of statistics cannot be pickled.
        return {k: v for k, v in self.__dict__.items() if k != "statistics"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Blocks of the former rows may be in the cache of this process, and their order of columns is in the state.
        if _root(self.source)[1] != self._text:
            raise StaleError(f"{self.path} has been rewritten since it was opened; open it again")

    @property
    def zarr_format(self) -> int:
        """Zarr format of the store: 2 or 3."""
        return self.data.array.zarr_format

    @cached_property
    def statistics(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """Statistics in the store, by name: float64, one value for each variable."""
        found: dict[str, npt.NDArray[np.float64]] = {}
        for name in STATISTICS:
            try:
                values = self.each_variable(name, f"array {name!r}")
            except AccessError:
                continue  # the answer of servers for absent objects if the user may not list them
            if values is not None:
                values.flags.writeable = False
                found[name] = values
        return MappingProxyType(found)

    def each_variable(self, name: str, label: str) -> npt.NDArray[np.float64] | None:
        """Return an array of one value for each variable, or `None` if there is none of this name."""
        array = open_stored(self.source, name)
        if array is None:
            return None
        if array.shape != (len(self.variables),):
            raise FragmentMismatchError(
                f"{self.path}: {label} has the shape {array.shape}, expected one value for each of the "
                f"{len(self.variables)} variables"
            )
        return read_small(self.source, array).astype(np.float64)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """Epochs, in seconds since 1970, of the first and the last row, or `None` if there are no rows."""
        if not self.rows:
            return None
        first, last = (self._epoch(row) for row in (0, self.rows - 1))
        return first, last

    @property
    def start(self) -> int | None:
        """Epoch of the first row in seconds since 1970, or `None` if there are no rows."""
        return None if self.span is None else self.span[0]

    @property
    def end(self) -> int | None:
        """Epoch of the last row in seconds since 1970, or `None` if there are no rows."""
        return None if self.span is None else self.span[1]

    def _epoch(self, row: int) -> int:
        day, second = self.data.read(row, row + 1)[0, :2].tolist()
        if not (abs(day) < 2**31 and 0 <= second < 86400):
            raise ConventionError(
                f"{self.path}: row {row} has the day {day} and the second {second}; expected days since 1970 and "
                "seconds from 0 to 86399"
            )
        return 86400 * int(day) + int(second)

    @cached_property
    def identity(self) -> str:
        """Digest of metadata, the sizes of all chunks and some stored bytes, which changes with the data."""
        # A copy of the store has the same identity, wherever it is, so that files made from the data can record it.  A
        # change that preserves the size of every compressed chunk and the examined bytes of 16 chunks is not detected.
        array = self.data.array
        digest = hashlib.blake2b(digest_size=16)
        texts = (self.attributes.uuid or "", "\n".join(self.variables))
        for part in (array.text, *(t.encode("utf-8", "surrogatepass") for t in texts)):
            digest.update(len(part).to_bytes(8, "little") + part)
        objects = self.objects()
        for _, _, size in objects:
            digest.update((-1 if size is None else size).to_bytes(8, "little", signed=True))
        for i in sorted(set(np.linspace(0, len(objects) - 1, _SAMPLES).astype(int).tolist())) if objects else ():
            _, key, size = objects[i]
            if size:
                spans = [(0, min(size, _SAMPLE)), (max(0, size - _SAMPLE), min(size, _SAMPLE))]
                for part in self.source.read_ranges(key, spans):
                    digest.update(part)
        return digest.hexdigest()

    def objects(self) -> list[tuple[int, str, int | None]]:
        """Return first row, key and size in bytes of every chunk or shard of rows; the size is `None` if absent."""
        array = self.data.array
        rows, columns = (-(-n // held) for n, held in zip(array.shape, array.held, strict=True))
        if rows * columns > _MOST:
            raise UnsupportedError(
                f"{self.path}: its data have {rows * columns:,} chunks, more than the {_MOST:,} that can be compared; "
                "check its metadata for damage, or build the store with longer chunks"
            )
        keys = [(i * array.held[0], array.object_key(i, j)) for i in range(rows) for j in range(columns)]
        sizes = self.source.sizes(array.path, [key.removeprefix(f"{array.path}/") for _, key in keys])
        return [(row, key, size) for (row, key), size in zip(keys, sizes, strict=True)]

    def index(self, kind: str | None = None) -> Index:
        """Return the index from times to rows."""
        from cfagg.observations.indexes import open_index

        return open_index(self, kind)


def open_store(
    path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, allow: Iterable[str] = ()
) -> ObservationStore:
    """Open a store, of the published software or of cfagg's own layout; only metadata are read."""
    # `options` and `allow` are as of `cfagg.open_observations`.
    source = make_source(path, options, allow)
    attributes, text = _root(source)
    parsed = parse_attributes(attributes, source.path)
    array = open_stored(source, "data")
    if array is None:
        raise SourceError(f"{source.path} has no array 'data': the store is incomplete; build it again")
    width = len(META) + len(parsed.variables)
    if len(array.shape) != 2 or array.shape[1] != width or array.dtype != np.float32:
        raise ConventionError(
            f"{source.path}: array 'data' is {array.dtype.name} of shape {array.shape}; expected float32 with {width} "
            f"columns, {len(META)} for date, time, latitude and longitude and {len(parsed.variables)} for "
            "the variables that the attributes name"
        )
    return ObservationStore(source, parsed, array, text)


def _root(source: Source) -> tuple[dict[str, Any], bytes]:
    """Return the root attributes and the document that contains them."""
    for marker in (".zgroup", "zarr.json"):
        found = read_json(source, marker)
        if found is None:
            continue
        document, text = found
        if marker == ".zgroup":
            return read_json(source, ".zattrs") or ({}, b"")
        attributes = document.get("attributes", {})
        if document.get("node_type") != "group" or not isinstance(attributes, dict):
            raise SourceError(f"{source.path}/zarr.json does not describe a group with attributes")
        return attributes, text
    raise SourceError(f"{source.path} is not a Zarr store: it has neither .zgroup nor zarr.json")


#: Largest number of variables of a store.
MAX_VARIABLES = 100_000


@dataclass(frozen=True)
class StoreAttributes:
    """Root attributes of a store."""

    variables: tuple[str, ...]
    date_indexing: str | None = None
    #: As written; they refer to the recipe, not to the rows.
    start_date: str | None = None
    end_date: str | None = None
    uuid: str | None = None
    version: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    variables_metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Dates of the rows that the statistics cover.
    statistics_start_date: str | None = None
    statistics_end_date: str | None = None
    #: All attributes as they are stored.
    all: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Read-only views cannot be pickled.
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, MappingProxyType(value) if isinstance(value, dict) else value)


def parse_attributes(attributes: Mapping[str, Any], where: str) -> StoreAttributes:
    """Return the attributes of a store; raise ConventionError with every problem. `where` names the store."""
    layout = attributes.get("layout", attributes.get("format"))
    if layout != "tabular":
        said = "no layout" if layout is None else f"the layout {shorten(layout)}"
        raise ConventionError(
            f"{where} is not an observation store: its attributes give {said}, expected 'tabular'; fields are opened "
            "with cfagg.read"
        )
    problems: list[Problem] = []
    variables = _names(attributes.get("variables"), "variables", problems)
    if len(variables) > MAX_VARIABLES:
        raise LimitError(f"{where} has {len(variables):,} variables; at most {MAX_VARIABLES:,} are read")
    meta = attributes.get("meta_variables")
    if meta is not None and meta != list(META):
        problems.append(Problem("meta_variables", f"expected {list(META)}, found {shorten(meta)}"))
    taken = [name for name in META if name in variables]
    problems += [Problem("variables", f"{name} is the name of one of the first four columns") for name in taken]
    texts = {
        key: _text(attributes.get(key), key, problems)
        for key in (
            "date_indexing", "start_date", "end_date", "uuid", "version", "statistics_start_date",
            "statistics_end_date",
        )
    }  # fmt: skip
    recipe = _object(attributes.get("recipe"), "recipe", problems)
    metadata = _object(attributes.get("variables_metadata"), "variables_metadata", problems)
    for name, value in metadata.items():
        if not isinstance(value, dict):
            problems.append(Problem(f"variables_metadata.{name}", f"expected an object, found {shorten(value)}"))
    if problems:
        raise ConventionError(f"{where} has attributes that are not valid for an observation store", problems)
    return StoreAttributes(
        variables,
        recipe=MappingProxyType(recipe),
        variables_metadata=MappingProxyType(metadata),
        all=MappingProxyType(dict(attributes)),
        **texts,
    )


def _names(given: Any, where: str, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(n, str) and n for n in given):
        problems.append(Problem(where, f"expected a list of names, found {shorten(given)}"))
        return ()
    seen: set[str] = set()
    for name in given:
        if name in seen:
            problems.append(Problem(where, f"the name {name!r} occurs twice"))
        seen.add(name)
    return tuple(given)


def _text(given: Any, where: str, problems: list[Problem]) -> str | None:
    if given is None or isinstance(given, str):
        return given
    problems.append(Problem(where, f"expected text, found {shorten(given)}"))
    return None


def _object(given: Any, where: str, problems: list[Problem]) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    problems.append(Problem(where, f"expected an object, found {shorten(given)}"))
    return {}
