"""A statistic of an array as readable text and as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.display.as_json import encode, form_json
from cfagg.display.escape import printable
from cfagg.display.field_axes import degrees, label
from cfagg.display.labels import is_date, label_text
from cfagg.display.text import columns, entry_lines, shortened

if TYPE_CHECKING:
    from xarray import DataArray

__all__ = ["Query", "Selection", "as_json", "plan_json", "selected", "text_lines"]

_NAMES = {
    "mean": "mean",
    "sum": "sum",
    "min": "minimum",
    "max": "maximum",
    "std": "standard deviation",
    "var": "variance",
    "count": "number of values",
}


@dataclass(frozen=True)
class Selection:
    """The selected part of one dimension: labels, or positions if there is no coordinate."""

    first: Any
    last: Any
    count: int
    of: int
    units: str
    kind: str = "other"

    def __str__(self) -> str:
        if not self.count:
            return "nothing"
        if self.kind in ("latitude", "longitude") and (not self.units or self.units.startswith("degree")):
            wide = self.kind == "longitude" and abs(float(self.last) - float(self.first)) > 180
            # From 0° to 357°E is most of the Earth, which "0° to 3°W" would hide.
            first, last = (
                f"{float(e):.5g}°E" if wide and e > 180 else degrees(e, self.kind) for e in (self.first, self.last)
            )
            units = ""
        else:
            first, last, units = label_text(self.first), label_text(self.last), self.units
        before = ("position " if self.count == 1 else "positions ") if self.kind == "positions" else ""
        return f"{before}{first} {units}".strip() if self.count == 1 else f"{before}{first} to {last} {units}".strip()


@dataclass(frozen=True)
class Query:
    """A computed statistic of an array: reduced dimensions, component of dates for grouping, weights."""

    store: str
    variable: str
    statistic: str
    over: tuple[str, ...]
    group: str | None
    selected: Mapping[str, Selection]
    weights: str | None

    @property
    def title(self) -> str:
        """The computed statistic in words."""
        over = " and ".join([", ".join(self.over[:-1]), self.over[-1]] if len(self.over) > 1 else self.over)
        text = f"{_NAMES[self.statistic]} over {over}" if over else _NAMES[self.statistic]
        return f"{text}, by {self.group}" if self.group else text


def selected(array: DataArray, dim: Hashable, kind: str, chosen: Any) -> Selection:
    """Return the selection of positions along one dimension, without reading values."""
    at = np.atleast_1d(np.arange(array.sizes[dim])[chosen])
    if not at.size:
        return Selection(None, None, 0, array.sizes[dim], "")
    if dim not in array.coords or array.coords[dim].ndim != 1:
        return Selection(int(at[0]), int(at[-1]), at.size, array.sizes[dim], "", "positions")
    coordinate = array.coords[dim]
    first, last = coordinate.values[at[0]], coordinate.values[at[-1]]
    dates = kind == "time" and coordinate.dtype.kind in "MO"
    units = "" if dates else str(coordinate.attrs.get("units", ""))
    return Selection(first, last, at.size, array.sizes[dim], units, kind)


def text_lines(result: DataArray, asked: Query, *, rows: int | None = 24) -> list[str]:
    """Return a result in printable lines; of a one-dimensional one, at most `rows` values are listed."""
    units = str(result.attrs.get("units", ""))
    name = label(result, units=False)
    head = f"{asked.variable}: {name}, {asked.title}" if name != asked.variable else f"{asked.variable}: {asked.title}"
    entries = [("store", asked.store)]
    for dim, part in asked.selected.items():
        share = f"{part.count:,}" if part.count == part.of else f"{part.count:,} of {part.of:,}"
        entries.append((dim, f"{part} ({share})"))
    weights = asked.weights
    if weights is None and any(asked.selected[d].kind == "latitude" for d in asked.over if d in asked.selected):
        weights = (
            "none: large and small cells count equally" if asked.statistic not in ("min", "max", "count") else None
        )
    if weights is not None:
        entries.append(("weights", weights))
    listed: list[str] = []
    if not result.ndim:
        entries.append(("result", f"{_number(result.item())} {units}".strip()))
    else:
        entries.append(("result", " × ".join(f"{d} {n:,}" for d, n in result.sizes.items())))
        entries += _summary(result, units)
        if result.ndim == 1:
            listed = ["", *_table(result, units, rows)]
    return [printable(line) for line in [head, *entry_lines(entries), *listed]]


def as_json(result: DataArray, asked: Query) -> str:
    """Return a result as strict JSON, values in the order of ``dims``; missing ones are ``"NaN"``."""
    coordinates = {
        str(name): {
            "dims": [str(d) for d in c.dims],
            "values": _plain(c.values),
            "attributes": c.attrs,
            **({"calendar": c.dt.calendar} if c.size and c.dtype.kind in "MO" and is_date(c.values.flat[0]) else {}),
        }
        for name, c in result.coords.items()
    }
    members = {
        **_asked_json(asked),
        "units": result.attrs.get("units"),
        "dims": [str(d) for d in result.dims],
        "shape": result.shape,
        "coordinates": coordinates,
        "attributes": result.attrs,
        "missing": int(np.isnan(np.asarray(result.values, "f8")).sum()),
        "values": result.values,
    }
    return form_json("mean", members)


def plan_json(plan: Mapping[str, Any], asked: Query) -> str:
    """Return the plan of a result as strict JSON."""
    return form_json("mean --explain", {**_asked_json(asked), "plan": plan})


def _asked_json(asked: Query) -> dict[str, Any]:
    parts = {
        d: {"first": _plain(p.first), "last": _plain(p.last), "count": p.count, "of": p.of, "units": p.units}
        for d, p in asked.selected.items()
    }
    return {
        "store": asked.store,
        "variable": asked.variable,
        "statistic": asked.statistic,
        "over": list(asked.over),
        "group": asked.group,
        "weights": asked.weights,
        "selected": parts,
    }


def _summary(result: DataArray, units: str) -> list[tuple[str, str]]:
    """Return the locations of the smallest and largest values, and the number of missing ones."""
    values = np.asarray(result.values, None if result.dtype.kind in "iuf" else "f8")
    missing = int(np.isnan(values).sum())
    found = []
    if missing < values.size:
        for key, place in (("lowest", np.nanargmin(values)), ("highest", np.nanargmax(values))):
            index = np.unravel_index(int(place), values.shape)
            where = ", ".join(_where(result, d, int(i)) for d, i in zip(result.dims, index, strict=True))
            found.append((key, f"{_number(values[index])} {units} at {where}".replace("  ", " ")))
    if missing:
        found.append(("missing", f"{missing:,} of {values.size:,}"))
    return found


def _where(result: DataArray, dim: Hashable, index: int) -> str:
    if dim not in result.coords or result.coords[dim].ndim != 1:
        return f"{dim} [{index}]"
    return f"{dim} {label_text(result.coords[dim].values[index])}"


def _table(result: DataArray, units: str, rows: int | None) -> Sequence[str]:
    """Return the values along one dimension, or the first and last of many."""
    dim, size = result.dims[0], result.size
    named = dim in result.coords and result.coords[dim].ndim == 1
    labels = result.coords[dim].values if named else np.arange(size)
    shown = shortened(size, rows)
    texts = [("…", "") if i is None else (label_text(labels[i]), _number(result.values[i])) for i in shown]
    return list(columns([(str(dim), units or str(result.name)), *texts], "  ", {1}))


def _number(value: Any) -> str:
    """Return a number with seven digits, or an integer with all digits."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    return "missing" if np.isnan(value) else f"{value:.7g}"


def _plain(value: Any) -> Any:
    """Return labels in a form that strict JSON can represent, with dates as text."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "MO":
            return [_plain(v) for v in value] if value.ndim else _plain(value[()])
        return encode(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else np.datetime_as_string(value, unit="s")
    return value.isoformat() if is_date(value) else encode(value)
