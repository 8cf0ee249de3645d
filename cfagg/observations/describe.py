"""Describing a store of observations as text and JSON: variables, statistics, density over time and the Earth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text
from cfagg.display.as_json import form_json
from cfagg.display.coverage import TimeCoverage, span_text
from cfagg.display.escape import printable
from cfagg.display.sizes import size_text
from cfagg.display.text import columns, entry_lines, shortened
from cfagg.errors import CfaggError

if TYPE_CHECKING:
    from cfagg.observations.dataset import Observations
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.sample import Sample
    from cfagg.observations.store import ObservationStore

__all__ = [
    "Variable", "describe", "description_json", "description_lines", "map_coverage", "ranges_of", "sample_json",
    "sample_lines", "time_coverage",
]  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """One variable."""

    name: str
    units: str
    long_name: str
    statistics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """A description of a store in numbers and words."""

    path: str
    zarr_format: int
    rows: int
    variables: tuple[Variable, ...]
    #: Dates of the first and last row, in seconds since 1970.
    first: int | None
    last: int | None
    #: Number of distinct dates in the index.
    entries: int
    #: The length of a bin of time in seconds, and the largest number of rows in a bin.
    busiest: tuple[int, int]
    indexes: tuple[str, ...]
    #: Kind of the index in use; if it is empty although there is an index, `index_problem` gives the reason.
    used_index: str
    index_problem: str
    #: Number of rows that are decoded together, and of rows in a stored object.
    chunk: int
    held: int
    codecs: str
    stored_bytes: int | None
    statistics_of: str
    attributes: Mapping[str, Any]

    @property
    def per_day(self) -> float:
        """Average number of rows per day, NaN if there are none."""
        if self.first is None or self.last is None:
            return math.nan
        return self.rows / max((self.last - self.first + 1) / 86400, 1 / 86400)

    def as_dict(self) -> dict[str, Any]:
        """Return the description as plain objects."""
        return {**asdict(self), "per_day": self.per_day}


_SHOWN = ("description", "licence", "attribution", "uuid", "version", "cfagg_version")


def describe(store: ObservationStore) -> Description:
    """Return the description of a store, reading only its first and last row."""
    index, kinds, problem = _indexes(store)
    array = store.data.array
    given = store.attributes
    said = {k: given.all[k] for k in _SHOWN if given.all.get(k) is not None}
    busiest, entries = (86400, 0), 0
    ends: tuple[int | None, int | None] = store.span or (None, None)
    if index is not None:
        try:
            coverage = time_coverage(index)
            busiest = coverage.step, int(coverage.counts.max(initial=0))
            entries, ends = index.entries, (index.first, index.last)
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
        statistics_of=" to ".join(filter(None, (given.statistics_start_date, given.statistics_end_date))),
        attributes=said,
    )


def _codecs(document: Mapping[str, Any]) -> str:
    """Return the codecs of chunks in words, or of chunks within shards if there are shards."""
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
    """Return the index in use, the kinds of all indexes, and the reason if none can be used."""
    from cfagg.observations.indexes import stored_kinds
    from cfagg.observations.indexes.pages import has_pages

    kinds: tuple[str, ...] = ()
    try:
        kinds = (*stored_kinds(store), *(["pages"] if has_pages(store) else []))
        return store.index(), kinds, ""
    except CfaggError as error:
        return None, kinds, error.message


def _variables(store: ObservationStore) -> tuple[Variable, ...]:
    """Return the variables with their units, names and statistics."""
    statistics: Mapping[str, Any] = {}
    with suppress(CfaggError):
        statistics = store.statistics
    found = []
    for i, name in enumerate(store.variables):
        known = store.attributes.variables_metadata.get(name, {})
        long_name = known.get("long_name") or str(known.get("standard_name", "")).replace("_", " ")
        numbers = {k: float(np.asarray(v)[i]) for k, v in statistics.items()}
        found.append(Variable(name, str(known.get("units", "")), str(long_name), numbers))
    return tuple(found)


def _stored_bytes(store: ObservationStore) -> int | None:
    """Return the total size in bytes of all chunks of rows."""
    try:
        return sum(size or 0 for _, _, size in store.objects())
    except (CfaggError, OSError):
        return None


#: Number of characters to which texts are truncated.
_MOST_TEXT = 200


def description_lines(store: Description, *, rows: int | None = 24) -> list[str]:
    """Return a description in lines of text."""
    entries = [("rows", f"{store.rows:,}")]
    if store.first is not None and store.last is not None:
        distinct = f" ({store.entries:,} distinct)" if store.entries else ""
        entries.append(("dates", f"{epoch_text(store.first)} to {epoch_text(store.last)}{distinct}"))
        step, most = store.busiest
        day = f"{store.per_day:{',.0f' if store.per_day >= 10 else '.3g'}} rows a day on average"
        entries.append(("density", f"{day}, at most {most:,} in any {_bin(step)}" if most else day))
    entries.append(("index", _text_indexes(store)))
    together = f"{store.chunk:,} rows" + (f" in shards of {store.held:,}" if store.held != store.chunk else "")
    size = "" if store.stored_bytes is None else f", {size_text(store.stored_bytes)}"
    entries.append(("stored", f"Zarr {store.zarr_format}, chunks of {together}, {store.codecs}{size}"))
    for key in ("description", "attribution", "licence", "version", "uuid"):
        if key in store.attributes:
            text = " ".join(str(store.attributes[key]).split())
            entries.append((key, text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"))
    lines = [store.path, *entry_lines(entries), ""]
    lines += _text_variables(store, rows)
    if store.statistics_of:
        lines.append(f"  statistics of rows from {store.statistics_of}")
    return [printable(line) for line in lines]


def _text_indexes(store: Description) -> str:
    if store.index_problem and store.indexes:
        return f"{', '.join(store.indexes)}; not usable: {store.index_problem}"
    if not store.indexes:
        return "none; cfagg obs index builds one"
    return ", ".join(f"{kind} (used)" if kind == store.used_index else kind for kind in store.indexes)


def _text_variables(store: Description, rows: int | None) -> list[str]:
    """Return a table of the variables."""
    names = ("mean", "stdev", "minimum", "maximum")

    def cells(i: int) -> list[str]:
        variable = store.variables[i]
        numbers = [_number(variable.statistics.get(n)) for n in names]
        return [variable.name, variable.units, *numbers, _share(variable.statistics.get("nan_count"), store.rows)]

    heads = ["variable", "units", "mean", "st. dev.", "minimum", "maximum", "missing"]
    return _table(heads, cells, len(store.variables), rows)


def _table(heads: list[str], cells: Callable[[int], list[str]], count: int, most: int | None) -> list[str]:
    """Return lines in columns, without empty columns and, if there are too many lines, without those in the middle."""
    table = [heads, *(["…", *[""] * (len(heads) - 1)] if i is None else cells(i) for i in shortened(count, most))]
    used = [j for j in range(len(heads)) if any(row[j] for row in table[1:]) or j == 0]
    # The first two columns are text.
    return list(columns([[row[j] for j in used] for row in table], "  ", {k for k, j in enumerate(used) if j > 1}))


def description_json(store: Description) -> str:
    """Return a description as strict JSON: the members of `Description` by their names, dates as text."""
    members = store.as_dict()
    members["busiest"] = {"seconds": store.busiest[0], "rows": store.busiest[1]}
    members["attributes"] = dict(store.attributes)
    for key in ("first", "last"):
        members[key] = None if members[key] is None else epoch_text(members[key])
    return form_json("obs show", members)


def sample_lines(dataset: Observations, sample: Sample, *, rows: int | None = 24) -> list[str]:
    """Return one sample in lines of text."""
    date, first, last = _times(dataset, sample)
    entries = [("date", date), ("window", f"{dataset.window}: {first} to {last}"), ("rows", f"{len(sample):,}")]
    lines = [dataset.path, *entry_lines(entries)]
    if len(sample):
        units = [str(dataset.variables_metadata.get(name, {}).get("units", "")) for name in dataset.columns]
        heads = [f"{name} ({unit})" if unit else name for name, unit in zip(dataset.columns, units, strict=True)]

        def cells(i: int) -> list[str]:
            numbers = (sample.latitudes[i], sample.longitudes[i], *np.asarray(sample[i]).ravel())
            return [f"{i:,}", str(sample.dates[i]), *map(_number, numbers)]

        lines += ["", *_table(["row", "date", "latitude", "longitude", *heads], cells, len(sample), rows)]
    return [printable(line) for line in lines]


def _times(dataset: Observations, sample: Sample) -> tuple[str, str, str]:
    """Return the date of a sample, and the first and last second of its window."""
    date = int(sample.reference_date.astype("M8[s]").astype(np.int64))
    lo, hi = dataset.window.epochs(date)
    return epoch_text(date), epoch_text(lo), epoch_text(hi - 1)


def sample_json(dataset: Observations, sample: Sample) -> str:
    """Return one sample as strict JSON: dates, latitudes, longitudes, and a list of values for each column."""
    date, first, last = _times(dataset, sample)
    values = np.asarray(sample)
    members = {
        "store": dataset.path,
        "date": date,
        "window": str(dataset.window),
        "first": first,
        "last": last,
        "rows": len(sample),
        "columns": dataset.columns,
        "variables": dataset.variables_metadata,
        "dates": [str(d) for d in sample.dates],
        "timedeltas": sample.timedeltas,
        "latitudes": sample.latitudes,
        "longitudes": sample.longitudes,
        "values": {name: values[:, j] for j, name in enumerate(dataset.columns)},
    }
    return form_json("obs window", members)


def _bin(seconds: int) -> str:
    """Return a duration in words that begin with a number."""
    text = span_text(seconds)
    return text if text[0].isdigit() else f"1 {text}"


def _number(value: Any) -> str:
    """Return a number with six digits, or an empty string if it is missing."""
    if value is None or math.isnan(value):
        return ""
    return f"{float(value):.6g}"


def _share(count: float | None, rows: int) -> str:
    """Return the missing share of a column."""
    if count is None or math.isnan(count):
        return ""
    if count == 0 or not rows:
        return "0"
    percent = 100 * count / rows
    return f"{percent:.1f}%" if percent >= 0.05 else f"{count:,.0f}"


type Int64 = npt.NDArray[np.int64]

#: Height and width of a cell of the map.
DEGREES = 0.25

_DAY = 86400
#: Lengths of bins of time in seconds; longer ones are 1, 2 or 5 times a power of ten of days.
_STEPS = (1, 10, 60, 600, 3600, 3 * 3600, 6 * 3600, 12 * 3600, _DAY, 2 * _DAY, 5 * _DAY)
#: Largest number of rows counted for a map, and the number of places that are sampled in larger stores.
_MOST_ROWS, _PLACES = 2**22, 256


def time_coverage(index: Index, bins: int = 200) -> TimeCoverage:
    """Return the number of rows in at most `bins` bins of a round length of time, without reading rows."""
    if index.first is None or index.last is None:
        empty = np.empty(0, np.int64)
        return TimeCoverage(_DAY, empty, empty)
    bins = max(bins, 2)  # one bin is not enough for times before and after 1970
    step = _round_step((index.last - index.first + 1) / bins)
    while index.last // step - index.first // step >= bins:
        step = _round_step(step + 1)
    starts = np.arange(index.first // step, index.last // step + 1, dtype=np.int64) * step
    ranges = np.asarray(index.find_many(starts, starts + step))
    return TimeCoverage(step, starts, ranges[:, 1] - ranges[:, 0])


def _round_step(least: float) -> int:
    """Return the shortest round duration of at least a number of seconds."""
    for step in _STEPS:
        if step >= least:
            return step
    power = 10
    while True:
        for factor in (1, 2, 5):
            if factor * power * _DAY >= least:
                return factor * power * _DAY
        power *= 10


def map_coverage(store: ObservationStore) -> tuple[Int64, int]:
    """Return rows in cells of a quarter of a degree, (720, 1440) from 90°S and 0°E, and the number of rows read."""
    shape = round(180 / DEGREES), round(360 / DEGREES)
    counts = np.zeros(shape[0] * shape[1], np.int64)
    looked_at = 0
    for a, b in ranges_of(store.rows, 2**18, _MOST_ROWS, _PLACES):
        places = store.data.read(a, b, slice(2, 4))
        counts += np.bincount(_cells(places, shape), minlength=counts.size + 1)[:-1]
        looked_at += b - a
    return counts.reshape(shape), looked_at


def ranges_of(rows: int, block: int, most: int | None, places: int) -> list[tuple[int, int]]:
    """Return ranges of rows to read together: blocks of all, or `most` rows at some places if there are more."""
    if most is None or rows <= most:
        return [(a, min(a + block, rows)) for a in range(0, rows, block)]
    size = most // places
    return [(a, a + size) for a in np.linspace(0, rows - size, places).astype(np.int64).tolist()]


def _cells(places: npt.NDArray[np.float32], shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Return the cell of each place, or the number of cells for invalid places."""
    latitude, longitude = np.asarray(places, np.float64).T
    with np.errstate(invalid="ignore"):
        known = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 360)
        row = np.minimum((np.where(known, latitude, 0) + 90) // DEGREES, shape[0] - 1)
        column = np.minimum(np.where(known, longitude, 0) % 360 // DEGREES, shape[1] - 1)
    return np.where(known, row * shape[1] + column, shape[0] * shape[1]).astype(np.int64)
