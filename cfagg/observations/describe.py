"""What is in a store of observations: variables, units, statistics, dates, density, indexes; as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.cf.instants import epoch_text
from cfagg.display.as_json import dump, encode
from cfagg.display.coverage import span_text
from cfagg.display.escape import printable
from cfagg.display.sizes import size_text
from cfagg.errors import CfaggError

if TYPE_CHECKING:
    from cfagg.observations.dataset import Observations
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.sample import Sample
    from cfagg.observations.store import ObservationStore

__all__ = [
    "FORM_VERSION",
    "Description",
    "Variable",
    "describe",
    "description_json",
    "description_lines",
    "sample_json",
    "sample_lines",
    "stored_objects",
]


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
    keys = [array.object_key(i, j) for i, j in places]
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


#: Raised when a member of a JSON form is renamed, removed or changes its meaning.
FORM_VERSION = 1

#: A description's text is cut to so many letters.
_MOST_TEXT = 200


def description_lines(store: Description, *, rows: int | None = 24) -> list[str]:
    """Return what is in a store in lines of text."""
    entries = [("rows", f"{store.rows:,}")]
    if store.first is not None and store.last is not None:
        distinct = f" ({store.entries:,} distinct)" if store.entries else ""
        entries.append(("dates", f"{epoch_text(store.first)} to {epoch_text(store.last)}{distinct}"))
        step, most = store.busiest
        day = f"{_count(store.per_day)} rows a day on average"
        entries.append(("density", f"{day}, at most {most:,} in any {_bin(step)}" if most else day))
    entries.append(("index", _text_indexes(store)))
    together = f"{store.chunk:,} rows" + (f" in shards of {store.held:,}" if store.held != store.chunk else "")
    size = "" if store.stored_bytes is None else f", {size_text(store.stored_bytes)}"
    entries.append(("stored", f"Zarr {store.zarr_format}, chunks of {together}, {store.codecs}{size}"))
    for key in ("description", "attribution", "licence", "version", "uuid"):
        if key in store.attributes:
            text = " ".join(str(store.attributes[key]).split())
            entries.append((key, text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"))
    width = max(len(key) for key, _ in entries)
    lines = [store.path, *(f"  {key:<{width}}  {text}" for key, text in entries), ""]
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
    count = len(store.variables)
    shown: list[int | None] = list(range(count))
    if rows is not None and count > rows:
        head = (rows + 1) // 2
        shown = [*range(head), None, *range(count - rows // 2, count)]
    names = ("mean", "stdev", "minimum", "maximum")
    table = [["variable", "units", "mean", "st. dev.", "minimum", "maximum", "missing"]]
    for i in shown:
        if i is None:
            table.append(["…", *[""] * 6])
            continue
        variable = store.variables[i]
        numbers = [_number(variable.statistics.get(n)) for n in names]
        table.append(
            [variable.name, variable.units, *numbers, _share(variable.statistics.get("nan_count"), store.rows)]
        )
    return _columns(table, left=2)


def _columns(table: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Return rows of text in columns, the first `left` of them flush left; empty columns are left out."""
    if not table:
        return []
    shown = [j for j in range(len(table[0])) if any(row[j] for row in table[1:]) or j == 0]
    widths = {j: max(len(row[j]) for row in table) for j in shown}
    cells = [[f"{r[j]:<{widths[j]}}" if j < left else f"{r[j]:>{widths[j]}}" for j in shown] for r in table]
    return [f"  {'  '.join(row)}".rstrip() for row in cells]


def description_json(store: Description) -> str:
    """Return what is in a store as strict JSON: the members of `Description` by their names, dates as text."""
    members = store.as_dict()
    members["busiest"] = {"seconds": store.busiest[0], "rows": store.busiest[1]}
    members["attributes"] = dict(store.attributes)
    for key in ("first", "last"):
        members[key] = None if members[key] is None else epoch_text(members[key])
    return dump({"form": "cfagg obs show", "form_version": FORM_VERSION, **encode(members)})


def sample_lines(dataset: Observations, sample: Sample, *, rows: int | None = 24) -> list[str]:
    """Return one sample in lines of text."""
    lo, hi = dataset.window.offsets
    date = int(sample.reference_date.astype("M8[s]").astype(np.int64))
    entries = [
        ("date", epoch_text(date)),
        ("window", f"{dataset.window}: {epoch_text(date + lo)} to {epoch_text(date + hi - 1)}"),
        ("rows", f"{len(sample):,}"),
    ]
    lines = [dataset.path, *(f"  {key:<6}  {text}" for key, text in entries)]
    if not len(sample):
        return [printable(line) for line in lines]
    shown: list[int | None] = list(range(len(sample)))
    if rows is not None and len(sample) > rows:
        head = (rows + 1) // 2
        shown = [*range(head), None, *range(len(sample) - rows // 2, len(sample))]
    metadata = dataset.variables_metadata
    units = [str(metadata.get(name, {}).get("units", "")) for name in dataset.columns]
    heads = [f"{name} ({unit})" if unit else name for name, unit in zip(dataset.columns, units, strict=True)]
    table = [["row", "date", "latitude", "longitude", *heads]]
    dates, places = sample.dates, (sample.latitudes, sample.longitudes)
    for i in shown:
        if i is None:
            table.append(["…", *[""] * (len(table[0]) - 1)])
            continue
        where = [_number(p[i]) for p in places]
        table.append([f"{i:,}", str(dates[i]), *where, *(_number(v) for v in np.asarray(sample[i]).ravel())])
    return [printable(line) for line in [*lines, "", *_columns(table, left=2)]]


def sample_json(dataset: Observations, sample: Sample) -> str:
    """Return one sample as strict JSON: dates, latitudes, longitudes, and a list of values for each column."""
    lo, hi = dataset.window.offsets
    date = int(sample.reference_date.astype("M8[s]").astype(np.int64))
    values = np.asarray(sample)
    return dump(
        {
            "form": "cfagg obs window",
            "form_version": FORM_VERSION,
            "store": dataset.path,
            "date": epoch_text(date),
            "window": str(dataset.window),
            "first": epoch_text(date + lo),
            "last": epoch_text(date + hi - 1),
            "rows": len(sample),
            "columns": list(dataset.columns),
            "variables": encode(dataset.variables_metadata),
            "dates": [str(d) for d in sample.dates],
            "timedeltas": sample.timedeltas.tolist(),
            "latitudes": encode(sample.latitudes),
            "longitudes": encode(sample.longitudes),
            "values": {name: encode(values[:, j]) for j, name in enumerate(dataset.columns)},
        }
    )


def _bin(seconds: int) -> str:
    """Return a length of time with its number."""
    text = span_text(seconds)
    return text if text[0].isdigit() else f"1 {text}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _number(value: Any) -> str:
    """Return a number in six digits, empty where it is missing."""
    if value is None or math.isnan(value):
        return ""
    return f"{float(value):.6g}"


def _share(count: float | None, rows: int) -> str:
    """Return how much of a column is missing."""
    if count is None or math.isnan(count):
        return ""
    if count == 0 or not rows:
        return "0"
    percent = 100 * count / rows
    return f"{percent:.1f}%" if percent >= 0.05 else f"{count:,.0f}"
