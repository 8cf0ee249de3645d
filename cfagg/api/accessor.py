"""The accessor ``.cfagg`` of xarray's DataArray: statistics from an accumulation if there is one, else by xarray.

It is registered by ``import cfagg`` after ``import xarray``, by ``import cfagg.api.accessor`` in any order, by
`cfagg.read`, and when xarray loads the engine of cfagg.  ``import cfagg`` alone does not load xarray.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

import cfagg.aggregation.accessor  # noqa: F401  registers ds.cfagg
from cfagg.display.escape import printable
from cfagg.errors import CfaggError, NotAccumulatedError, SelectionError, StaleAccumulationWarning
from cfagg.errors.arguments import dimensions

if TYPE_CHECKING:
    from cfagg.accumulation.accumulated import Accumulated
    from cfagg.accumulation.labels import Dims
    from cfagg.accumulation.query import Statistics

__all__ = ["CfaggAccessor", "How", "Reductions"]

Weights = Literal["stored"] | None


@dataclass(frozen=True)
class How:
    """How a statistic is computed.

    Parameters
    ----------
    accumulated : bool
        Whether it is computed from the accumulation, or else by xarray from all values.
    reason : str
        Why not from the accumulation; empty if it is.
    plan : Explanation or None
        What would be read from the accumulation and from the array, with sizes.
    """

    accumulated: bool
    reason: str
    plan: Any = None

    def __str__(self) -> str:
        if self.accumulated:
            return f"from the accumulation\n{self.plan}"
        return printable(f"by xarray, from all values: {self.reason}")

    def __repr__(self) -> str:
        return f"<How: from the accumulation, {self.plan!r}>" if self.accumulated else f"<How: {self}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        if self.plan is not None:
            return str(self.plan._repr_html_())
        return facts_html("by xarray, from all values", [("reason", self.reason)])

    def as_dict(self) -> dict[str, Any]:
        """Return the answer in JSON types."""
        plan = None if self.plan is None else self.plan.as_dict()
        return {"accumulated": self.accumulated, "reason": self.reason, "plan": plan}


class Reductions:
    """Statistics of an array, over all positions or by groups.

    All methods accept:

    dim : str, sequence of str, ``...`` or None
        Dimensions to reduce; `None` means all, or with groups the grouped one.
    weights : "stored" or None
        `None`: all values have equal weight, as in ``array.mean()``. ``"stored"``: use the weights of the accumulation,
        and never compute without it.
    keep_attrs : bool
        Whether the result has the array's attributes, with units and ``cell_methods`` of the statistic.
    explain : bool
        Return `How` it would be computed, without computing it.
    trust_for : float
        Seconds for which the state of a stored object is trusted, as in `cfagg.open_accumulated`.

    ``result.encoding["cfagg"]`` records how the result was computed. From an accumulation, it is float64 (`count`:
    int64) and in memory; otherwise it is the result of xarray.

    Parameters
    ----------
    array : xarray.DataArray
        The array.
    key : str or xarray.DataArray, optional
        The key to group by.
    """

    def __init__(self, array: xr.DataArray, key: str | xr.DataArray | None = None) -> None:
        self._array = array
        self._key = key

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}: {n}" for d, n in self._array.sizes.items())
        by = "" if self._key is None else f" by {getattr(self._key, 'name', self._key)}"
        return printable(f"<Statistics of {self._array.name!r} ({sizes}){by}>")

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("dimensions", ", ".join(f"{d}: {n:,}" for d, n in self._array.sizes.items())),
            ("by", getattr(self._key, "name", self._key)),
        )
        return facts_html(f"Statistics of {self._array.name}", facts)

    def sum(
        self,
        dim: Dims = None,
        *,
        weights: Weights = None,
        keep_attrs: bool = True,
        explain: bool = False,
        trust_for: float = 0.0,
    ) -> Any:
        """Return the sum."""
        return self._reduce("sum", dim, weights, keep_attrs, explain, trust_for)

    def mean(
        self,
        dim: Dims = None,
        *,
        weights: Weights = None,
        keep_attrs: bool = True,
        explain: bool = False,
        trust_for: float = 0.0,
    ) -> Any:
        """Return the mean.

        Raises
        ------
        NotAccumulatedError
            With ``weights="stored"``, if there is no accumulation of these values.
        StaleError
            With ``weights="stored"``, if there is one that does not belong to the present data.
        SelectionError
            If there is no such dimension, or the accumulation has no weights.

        Warns
        -----
        StaleAccumulationWarning
            If there is an accumulation that does not belong to the present data; xarray is used.

        Examples
        --------
        >>> import tempfile, cfagg
        >>> store = tempfile.mkdtemp()
        >>> tas = xr.DataArray([[1.0, 2], [3, 4], [5, 6]], dims=("time", "x"), name="tas")
        >>> _ = tas.chunk(time=2).to_dataset().to_zarr(store, consolidated=False)
        >>> _ = cfagg.accumulate(store, "tas")
        >>> mean = cfagg.read(store).tas.cfagg.mean("time")
        >>> mean.values, mean.encoding["cfagg"]
        (array([3., 4.]), 'from the accumulation')
        """
        return self._reduce("mean", dim, weights, keep_attrs, explain, trust_for)

    def count(self, dim: Dims = None, *, keep_attrs: bool = True, explain: bool = False, trust_for: float = 0.0) -> Any:
        """Return the number of values that are not missing."""
        return self._reduce("count", dim, None, keep_attrs, explain, trust_for)

    def min(self, dim: Dims = None, *, keep_attrs: bool = True, explain: bool = False, trust_for: float = 0.0) -> Any:
        """Return the smallest value."""
        return self._reduce("min", dim, None, keep_attrs, explain, trust_for)

    def max(self, dim: Dims = None, *, keep_attrs: bool = True, explain: bool = False, trust_for: float = 0.0) -> Any:
        """Return the largest value."""
        return self._reduce("max", dim, None, keep_attrs, explain, trust_for)

    def std(
        self,
        dim: Dims = None,
        *,
        ddof: int = 0,
        weights: Weights = None,
        keep_attrs: bool = True,
        explain: bool = False,
        trust_for: float = 0.0,
    ) -> Any:
        """Return the standard deviation; the divisor is the number of values less `ddof`."""
        return self._reduce("std", dim, weights, keep_attrs, explain, trust_for, ddof)

    def var(
        self,
        dim: Dims = None,
        *,
        ddof: int = 0,
        weights: Weights = None,
        keep_attrs: bool = True,
        explain: bool = False,
        trust_for: float = 0.0,
    ) -> Any:
        """Return the variance; the divisor is the number of values less `ddof`."""
        return self._reduce("var", dim, weights, keep_attrs, explain, trust_for, ddof)

    def _reduce(
        self,
        statistic: str,
        dim: Dims,
        weights: Weights,
        keep_attrs: bool,
        explain: bool,
        trust_for: float,
        ddof: int = 0,
    ) -> Any:
        from cfagg.accumulation.freshness import check_trust
        from cfagg.accumulation.lookup import UnusableError, accumulated, guarded

        if weights not in (None, "stored"):
            raise SelectionError(f"weights={weights!r} is not supported; expected None or 'stored'")
        if weights is not None and ddof:
            raise SelectionError(f"ddof={ddof} cannot be used with weights; leave it out")
        trusted = check_trust(trust_for)
        options: dict[str, Any] = {"ddof": ddof} if statistic in ("std", "var") else {}
        dims = _dims(self._array, dim, self._key)
        try:
            found = accumulated(self._array, trusted)
            _check_weights(found, statistic, dims, weights, ddof)
            with guarded():
                asked: Statistics = found if self._key is None else found.groupby(self._key)
                reduce: Callable[..., Any] = getattr(asked, statistic)
                result = reduce(dim, keep_attrs=keep_attrs, explain=explain, **options)
        except UnusableError as error:
            if weights is not None:
                # Without the accumulation there are no weights, and other weights would give another result.
                if isinstance(error.__cause__, CfaggError):
                    raise error.__cause__ from None
                raise NotAccumulatedError(
                    f"no accumulation answers for {self._array.name!r} with weights='stored': {error.reason}"
                ) from None
            if error.found:
                warnings.warn(f"{error.reason}; xarray computes instead", StaleAccumulationWarning, stacklevel=3)
            if explain:
                return How(accumulated=False, reason=error.reason)
            result = self._by_xarray(statistic, dim, dims, keep_attrs, options)
            result.encoding["cfagg"] = f"by xarray: {error.reason}"
            return result
        if explain:
            return How(accumulated=True, reason="", plan=result)
        result.name = self._array.name
        result.encoding["cfagg"] = "from the accumulation"
        return result

    def _by_xarray(
        self,
        statistic: str,
        dim: Dims,
        dims: tuple[str, ...],
        keep_attrs: bool,
        options: dict[str, Any],
    ) -> xr.DataArray:
        """Return the result that xarray computes from all values."""
        from cfagg.accumulation.query import attributes

        array: Any = self._array if self._key is None else self._array.groupby(self._key)
        result: xr.DataArray = getattr(array, statistic)(dim, keep_attrs=False, **options)
        if keep_attrs:
            kept = [str(d) for d in self._array.dims]
            result.attrs = attributes({str(k): v for k, v in self._array.attrs.items()}, statistic, dims, kept)
        return result


@xr.register_dataarray_accessor("cfagg")  # type: ignore[no-untyped-call]
class CfaggAccessor(Reductions):
    """Statistics of an array, from its accumulation if that provably belongs to these values, else by xarray.

    ``ds["tas"].cfagg.mean("time")`` is computed from the accumulation of ``tas`` if the array was opened by
    `xarray.open_zarr`, `xarray.open_dataset` or `cfagg.read` from a Zarr store in a directory, or is a selection of it
    by ``isel`` or ``sel``, with dask or without, and no value of the store has changed since it was accumulated. For
    everything else, such as arithmetic, `where` or loaded values, xarray computes the same statistic.

    Parameters
    ----------
    array : xarray.DataArray
        The array.

    Examples
    --------
    >>> import cfagg.api.accessor
    >>> xr.DataArray([1.0, 2.0], dims="x", name="tas").cfagg.mean(explain=True).reason
    'its values are in memory'
    """

    def __init__(self, array: xr.DataArray) -> None:
        super().__init__(array)

    def groupby(self, key: str | xr.DataArray) -> Reductions:
        """Return reductions by groups of positions along one dimension.

        Parameters
        ----------
        key : str or xarray.DataArray
            ``"time.month"``, ``"time.season"``, ``"time.year"``, another component of dates, the name of a coordinate,
            or one value for each position of a dimension.

        Returns
        -------
        Reductions
            Its methods return one value for each group.
        """
        return Reductions(self._array, key)


def _dims(array: xr.DataArray, dim: Dims, key: Any) -> tuple[str, ...]:
    """Return the dimensions that are reduced, for the attributes of the result and for weights."""
    if dim is None and key is not None:
        name = key if not isinstance(key, str) or key in array.coords else key.partition(".")[0]
        if isinstance(name, str) and name not in array.coords:
            raise SelectionError(f"{array.name!r} has no coordinate {name!r} to group by")
        return tuple(map(str, (array.coords[name] if isinstance(name, str) else name).dims))
    if dim is None or dim is ...:
        return tuple(map(str, array.dims))
    asked = tuple(map(str, dimensions(dim)))
    unknown = [d for d in asked if d not in array.dims]
    if unknown:
        known = ", ".join(map(repr, array.dims)) or "none"
        raise SelectionError(f"{array.name!r} has no dimension {', '.join(map(repr, unknown))}; it has {known}")
    return asked


def _check_weights(found: Accumulated, statistic: str, dims: tuple[str, ...], weights: Weights, ddof: int) -> None:
    """Raise an error if an accumulation does not have the requested weights."""
    from cfagg.accumulation.lookup import UnusableError

    field = found.group.weights
    if field is None:
        if weights is not None:
            raise SelectionError(f"the accumulation of {found.name!r} has no weights; leave weights='stored' out")
        return
    if weights is not None or statistic in ("count", "min", "max"):
        return
    along = [d for d, axis in zip(found.dims, found._labels.axes, strict=True) if axis in field.axes and d in dims]
    if along:
        raise UnusableError(
            f"the accumulation is weighted along {', '.join(map(repr, along))}; pass weights='stored' for its "
            "weighted statistics"
        )
    if statistic == "sum" or ddof or not field.array.all():
        raise UnusableError("the accumulation holds weighted sums; pass weights='stored' for weighted statistics")
