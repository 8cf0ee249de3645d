"""Queries of an accumulation by dimension names, selections and groups, and their results as labelled arrays."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.labels import Dims, Grouping, Labels, Positions, compose
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.sums import evaluate
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.display.escape import printable
from cfagg.errors import CfaggError, OptionError, SelectionError
from cfagg.errors.arguments import a_number, closest

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.group import Group

__all__ = ["Statistics", "attributes", "check_options", "labelled", "query", "squared"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Query:
    """A query by name and by axis, with selected positions and reduced dimensions, including a grouped one."""

    labels: Labels
    picked: Mapping[str, Positions]
    reduced: tuple[str, ...]
    #: Groups that replace one reduced dimension.
    grouping: Grouping | None
    #: The same query in positions along the axes of the source.
    request: Request

    def arrange(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the request with the dimensions of the result, without axes with a single position."""
        gone = {a for a, p in enumerate(self.labels.base) if isinstance(p, int)}
        gone |= {
            a for d, a in zip(self.labels.dims, self.labels.axes, strict=True) if isinstance(self.picked.get(d), int)
        }
        return values.reshape([n for a, n in zip(self.request.axes, values.shape, strict=True) if a not in gone])


def query(
    labels: Labels, shape: tuple[int, ...], dim: Dims, picked: Mapping[str, Positions], grouping: Grouping | None = None
) -> Query:
    """Return the query, by names and selections, for a source of this shape."""
    if grouping is not None:
        labels.chosen_dims((grouping.dim,), picked)
        reduced = (grouping.dim,) if dim is None else labels.chosen_dims(dim, picked)
        # If the dimension is not reduced, each group has one position, and nothing is grouped.
        grouping = grouping if grouping.dim in reduced else None
    else:
        reduced = labels.chosen_dims(dim, picked)
    grouped: Int64 | None = None
    if grouping is not None:
        grouping, grouped = grouping.of(picked.get(grouping.dim))
    sums: dict[int, Runs] = {}
    kept: dict[int, slice | Int64] = {a: np.array([p]) for a, p in enumerate(labels.base) if isinstance(p, int)}
    for d, axis in zip(labels.dims, labels.axes, strict=True):
        base, length = labels.base[axis], shape[axis]
        if grouping is not None and grouped is not None and d == grouping.dim:
            at = compose(base, grouped, length)
            sums[axis] = grouping.runs(at)  # type: ignore[arg-type]  # positions stay positions
            continue
        along = compose(base, picked.get(d, slice(0, length if base is None else labels.sizes[d], 1)), length)
        if d not in reduced:
            kept[axis] = np.array([along]) if isinstance(along, int) else along
        elif isinstance(along, slice):
            sums[axis] = Runs.of_slice(along, length)
        else:
            sums[axis] = Runs.of_positions(np.atleast_1d(along))
    if (dim is None or dim is ...) and not reduced and kept:
        # The whole selection is one cell. As of any range, its sum is 0 if it is missing.
        axis, cell = kept.popitem()
        sums[axis] = Runs.of_positions(np.atleast_1d(cell))
    return Query(labels, picked, reduced, grouping, Request(sums, kept))


#: The name of each statistic in ``cell_methods`` (CF appendix E).
METHODS: Mapping[str, str] = {
    "sum": "sum",
    "mean": "mean",
    "min": "minimum",
    "max": "maximum",
    "std": "standard_deviation",
    "var": "variance",
}

#: Attributes of stored values only.  For example, a valid range in packed units would make readers mask results.
_OF_STORED = {"_ARRAY_DIMENSIONS", "actual_range", *STORAGE_ATTRIBUTES} - {"scale_factor", "add_offset"}


def labelled(
    values: npt.NDArray[Any],
    labels: Labels,
    statistic: str,
    *,
    reduced: Sequence[str],
    picked: Mapping[str, Positions],
    grouping: Grouping | None = None,
    keep_attrs: bool = True,
) -> xr.DataArray:
    """Return computed values with coordinates and attributes; groups replace the grouped dimension."""
    import xarray as xr

    coords: Any = labels.without(reduced)
    chosen = {d: p for d, p in picked.items() if d in coords.dims}
    coords = (coords.isel(chosen) if chosen else coords).coords
    dims = [d for d in labels.dims if d not in reduced and not isinstance(picked.get(d), int)]
    if grouping is not None:
        dims = [grouping.name if d == grouping.dim else d for d in labels.dims if d == grouping.dim or d in dims]
        coords = coords.to_dataset().drop_vars(grouping.name, errors="ignore").assign_coords(grouping.coords()).coords
    attrs = attributes(labels.attrs, statistic, reduced, labels.dims) if keep_attrs else {}
    return xr.DataArray(values, coords=coords, dims=dims, name=labels.name, attrs=attrs)


def attributes(
    attrs: Mapping[str, Any], statistic: str, reduced: Sequence[str], dims: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the attributes of a statistic of a variable, without those that describe stored values only."""
    out = {k: v for k, v in attrs.items() if k not in _OF_STORED}
    if statistic == "count":
        if "units" in out:
            out["units"] = "1"
        if "standard_name" in out:
            # CF section 3.3.
            out["standard_name"] = f"{str(out['standard_name']).split(maxsplit=1)[0]} number_of_observations"
        return out
    if statistic == "var" and "units" in out:
        out["units"] = squared(str(out["units"]))
    if reduced:
        # CF section 7.3.
        order = [d for d in dims if d in reduced] or list(reduced)
        method = f"{' '.join(f'{d}:' for d in order)} {METHODS[statistic]}"
        out["cell_methods"] = f"{out['cell_methods']} {method}" if out.get("cell_methods") else method
    return out


def squared(units: str) -> str:
    """Return the squared units; UDUNITS interprets the square of a temperature as that of a temperature difference."""
    units = units.strip()
    if units in ("", "1"):
        return units
    return f"{units}2" if re.fullmatch(r"[A-Za-z_]+", units) else f"({units})2"


#: Positions or labels by dimension.
type Selection = Mapping[Any, Any] | None


class Options(TypedDict, total=False):
    """Keyword options of all statistics, see `Statistics`."""

    method: str | None
    tolerance: Any
    keep_attrs: bool
    explain: bool


def check_options(method: str, options: Mapping[str, object], known: Collection[str], dims: Sequence[str]) -> None:
    """Refuse keywords that a method does not have, among them dimensions, which are selected in mappings."""
    for name in options:
        if name not in known:
            select = f"; to select along it, give {{{name!r}: ...}} as isel or sel" if name in dims else ""
            meant = select or closest(name, known) or f"; expected {', '.join(known)}"
            raise OptionError(f"{method} has no option {name!r}{meant}")


class Statistics:
    """Statistics of an accumulated array, over all positions or by groups.

    The reductions have these arguments:

    dim : str, sequence of str, ``...`` or None
        Dimensions to reduce.  ``...`` means all; so does `None`, except with groups, where it means the grouped one.
    isel : mapping of dimension to int, slice, int array or bool array
        Positions to select first, as for `xarray.DataArray.isel`.
    sel : mapping of dimension to label, slice of labels or labels
        Labels to select first, as for `xarray.DataArray.sel`: ``{"time": slice("1990", "1999"), "lat": 50.5}``.
    method, tolerance
        Inexact matches of labels, as for `xarray.DataArray.sel`.
    ddof : int
        For `std` and `var`: the divisor is the number of values minus `ddof`, which must be 0 if there are weights.
    keep_attrs : bool
        Whether the result has the attributes of the variable, with units and ``cell_methods`` of the statistic.
    explain : bool
        Return an `Explanation` of the data that would be read, without reading them.

    Missing values and infinities are left out.  If there are no values, the result is NaN, or 0 for sum and count.
    Every result is checked: if anything on which it depends has changed since the array was accumulated, `StaleError`
    is raised.
    """

    def __init__(self, group: Group, labels: Labels, key: Grouping | None = None, trust_for: float = 0.0) -> None:
        self._group = group
        self._labels = labels
        self._key = key
        self._trust_for = trust_for

    def __repr__(self) -> str:
        groups = (
            "" if self._key is None else f" by {self._key.name}, {len(self._key.values)} groups along {self._key.dim}"
        )
        return printable(f"<Accumulated {self._labels.name!r}{groups}>")

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        key = self._key
        facts = () if key is None else (("by", key.name), ("along", key.dim))
        labels = () if key is None else tuple(map(str, key.values))
        return facts_html(f"Accumulated {self._labels.name}, in groups", facts, [("groups", labels)])

    def sum(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the sum, of values times weights if there are weights; float64."""
        return self._reduce("sum", dim, isel, sel, options)

    def mean(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the mean, weighted if there are weights; float64."""
        return self._reduce("mean", dim, isel, sel, options)

    def count(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the number of values that are not missing; int64."""
        return self._reduce("count", dim, isel, sel, options)

    def min(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the smallest value; float64."""
        return self._reduce("min", dim, isel, sel, options)

    def max(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the largest value; float64."""
        return self._reduce("max", dim, isel, sel, options)

    def std(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Return the standard deviation, weighted if there are weights; float64."""
        return self._reduce("std", dim, isel, sel, options, ddof)

    def var(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Return the variance, weighted if there are weights; float64, in squared units."""
        return self._reduce("var", dim, isel, sel, options, ddof)

    def _reduce(
        self, statistic: str, dim: Dims, isel: Selection, sel: Selection, options: Options, ddof: int = 0
    ) -> Any:
        """Return a statistic of a selection."""
        check_options(statistic, options, ("isel", "sel", *Options.__annotations__), self._labels.dims)
        picked = self._labels.pick(isel, sel, options.get("method"), options.get("tolerance"))
        keep_attrs, explain = options.get("keep_attrs", True), options.get("explain", False)
        return self.answer(statistic, dim, picked, keep_attrs=keep_attrs, explain=explain, ddof=ddof)

    def answer(
        self,
        statistic: str,
        dim: Dims,
        picked: Mapping[str, Positions],
        grouping: Grouping | None = None,
        *,
        keep_attrs: bool = True,
        explain: bool = False,
        ddof: int = 0,
    ) -> Any:
        """Return a statistic; raise `StaleError` if the data changed before it was computed."""
        from cfagg.accumulation.freshness import check

        a_number(ddof, "ddof", "a number", SelectionError)
        asked = query(self._labels, self._group.source.shape, dim, picked, grouping or self._key)
        group = self._group.asked()
        request = asked.request.resolve(group.source.shape)
        if explain:
            check(group, request, self._trust_for)
            from cfagg.accumulation.explain import explain as explained

            return explained(group, request, statistic)
        try:
            values = evaluate(group, asked.request, statistic, ddof)
        except (CfaggError, OSError):
            # If the data have changed, that error is the better explanation.
            check(group, request)
            raise
        check(group, request, self._trust_for)
        return labelled(
            asked.arrange(values),
            self._labels,
            statistic,
            reduced=asked.reduced,
            picked=asked.picked,
            grouping=asked.grouping,
            keep_attrs=keep_attrs,
        )
