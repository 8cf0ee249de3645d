"""What is in a store of observations: variables, units, statistics, dates, density, indexes, and how it is stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import CfaggError

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.store import ObservationStore

__all__ = ["Description", "Variable", "describe", "stored_objects"]


@dataclass(frozen=True)
class Variable:
    """One variable."""

    name: str
    units: str
    long_name: str
    statistics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """A store in numbers and words."""

    path: str
    zarr_format: int
    rows: int
    variables: tuple[Variable, ...]
    #: Dates of the first and last row, in seconds since 1970.
    first: int | None
    last: int | None
    #: Distinct dates, as the index has them.
    entries: int
    #: A length of time in seconds and the most rows in so long a bin.
    busiest: tuple[int, int]
    indexes: tuple[str, ...]
    #: Empty where none is used; then `index_problem` tells why, where there is one.
    used_index: str
    index_problem: str
    #: Rows that are decoded together, and rows of a stored object.
    chunk: int
    held: int
    codecs: str
    stored_bytes: int | None
    statistics_of: str
    attributes: Mapping[str, Any]

    @property
    def per_day(self) -> float:
        """Rows a day on average, NaN where there are none."""
        if self.first is None or self.last is None:
            return math.nan
        return self.rows / max((self.last - self.first + 1) / 86400, 1 / 86400)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain objects."""
        return {**asdict(self), "per_day": self.per_day}


_SHOWN = ("description", "licence", "attribution", "uuid", "version", "cfagg_version")


def describe(store: ObservationStore) -> Description:
    """Return what is in a store; no row is read but the first and last."""
    index, kinds, problem = _indexes(store)
    array = store.data.array
    given = store.attributes
    said = {k: given.all[k] for k in _SHOWN if given.all.get(k) is not None}
    busiest, entries = (86400, 0), 0
    ends: tuple[int | None, int | None] = store.span or (None, None)
    if index is not None:
        try:
            busiest, entries, ends = _busiest(index), index.entries, (index.first, index.last)
        except CfaggError as error:
            index, problem = None, error.message
    return Description(
        path=store.path,
        zarr_format=store.zarr_format,
        rows=store.rows,
        variables=_variables(store),
        first=ends[0],
        last=ends[1],
        entries=entries,
        busiest=busiest,
        indexes=kinds,
        used_index="" if index is None else index.kind,
        index_problem=problem,
        chunk=array.chunk[0],
        held=array.held[0],
        codecs=_codecs(array.document),
        stored_bytes=_stored_bytes(store),
        statistics_of=_statistics_of(store),
        attributes=said,
    )


def _codecs(document: Mapping[str, Any]) -> str:
    """Return the codecs of chunks in words, those within shards where there are shards."""
    used = [*(document.get("filters") or ()), document.get("compressor"), *(document.get("codecs") or ())]
    words = []
    for codec in used:
        name = codec.get("id", codec.get("name")) if isinstance(codec, dict) else None
        options = codec.get("configuration", codec) if isinstance(codec, dict) else {}
        if name == "sharding_indexed":
            return _codecs({"codecs": options.get("codecs")})
        if name not in (None, "bytes"):
            shuffle: Any = options.get("shuffle") if name == "blosc" else ""
            found = (name, options.get("cname"), {1: "shuffle", 2: "bitshuffle"}.get(shuffle, shuffle))
            words.append(" ".join(w for w in found if isinstance(w, str)))
    return ", ".join(words) or "not compressed"


def _indexes(store: ObservationStore) -> tuple[Index | None, tuple[str, ...], str]:
    """Return the index that is used, the kinds of all that the store has, and why none can be used."""
    from cfagg.observations.indexes import stored_kinds
    from cfagg.observations.indexes.pages import has_pages

    kinds: tuple[str, ...] = ()
    try:
        kinds = (*stored_kinds(store), *(["pages"] if has_pages(store) else []))
        return store.index(), kinds, ""
    except CfaggError as error:
        return None, kinds, error.message


def _busiest(index: Index) -> tuple[int, int]:
    """Return a length of time, and the most rows in so long a bin."""
    from cfagg.observations.coverage import time_coverage

    coverage = time_coverage(index)
    return coverage.step, int(coverage.counts.max(initial=0))


def _variables(store: ObservationStore) -> tuple[Variable, ...]:
    """Return the variables with what is known of them."""
    try:
        statistics = store.statistics
    except CfaggError:
        statistics = {}
    found = []
    for i, name in enumerate(store.variables):
        known = store.attributes.variables_metadata.get(name, {})
        long_name = known.get("long_name") or str(known.get("standard_name", "")).replace("_", " ")
        numbers = {k: float(np.asarray(v)[i]) for k, v in statistics.items()}
        found.append(Variable(name, str(known.get("units", "")), str(long_name), numbers))
    return tuple(found)


def stored_objects(store: ObservationStore) -> list[tuple[int, str, int | None]]:
    """Return first row, key and size in bytes of every chunk or shard of rows; the size is `None` of absent ones."""
    array = store.data.array
    counts = [-(-n // held) for n, held in zip(array.shape, array.held, strict=True)]
    places = [(i, j) for i in range(counts[0]) for j in range(counts[1])]
    keys = [array.key(i, j) for i, j in places]
    sizes = store.source.sizes(array.path, [key.removeprefix(f"{array.path}/") for key in keys])
    return [(i * array.held[0], key, size) for (i, _), key, size in zip(places, keys, sizes, strict=True)]


def _stored_bytes(store: ObservationStore) -> int | None:
    """Return the bytes of all chunks of rows."""
    try:
        return sum(size or 0 for _, _, size in stored_objects(store))
    except (CfaggError, OSError):
        return None


def _statistics_of(store: ObservationStore) -> str:
    given = store.attributes
    ends = [given.statistics_start_date, given.statistics_end_date]
    return " to ".join(str(e) for e in ends if e is not None)
