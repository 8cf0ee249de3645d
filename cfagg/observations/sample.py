"""The observations of one window: an array whose rows keep their places and dates.

A `Sample` is a NumPy array.  An operation of NumPy either keeps rows and annotations together or drops the annotations:
latitudes that no longer belong to the rows are never returned.

*sample*: the observations in the window around one date, with their places and dates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cfagg.errors import AlignmentError, SelectionError
from cfagg.kernels.lookup import epochs_of_rows
from cfagg.observations.selection import rows_and_columns

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Details", "Header", "Sample"]

#: Functions of NumPy, besides its universal functions, that operate on single elements.
_BY_ELEMENT = {np.nan_to_num, np.where}


type Epochs = np.ndarray[Any, np.dtype[np.int64]]
type Floats = np.ndarray[Any, np.dtype[np.float32]]
type Dates = np.ndarray[Any, np.dtype[np.datetime64]]


class Details:
    """The places and dates of the rows of a sample."""

    # For each row, the day, second of the day, latitude and longitude as stored; the dates of samples in seconds since
    # 1970; and, for several samples, the number of the sample of each row.

    __slots__ = ("_epochs", "_places", "references", "which")

    def __init__(
        self, places: Floats, references: Epochs, which: Epochs | None = None, epochs: Epochs | None = None
    ) -> None:
        self._places = places
        self.references = references
        self.which = which
        self._epochs = epochs

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, rows: Any) -> Details:
        """Return the details of some rows, selected by a slice, a mask, or a list of numbers."""
        if isinstance(rows, tuple) or not (isinstance(rows, slice) or np.ndim(rows) == 1):
            raise SelectionError(f"{rows!r:.80} selects no rows: use a slice, a mask, or a list of numbers")
        if isinstance(rows, list) and not rows:
            rows = slice(0, 0)
        which = None if self.which is None else self.which[rows]
        epochs = None if self._epochs is None else self._epochs[rows]
        return Details(self._places[rows], self.references, which, epochs)

    @property
    def latitudes(self) -> Floats:
        """Latitudes, float32 (n,), in degrees north."""
        return self._places[:, 2]

    @property
    def longitudes(self) -> Floats:
        """Longitudes, float32 (n,), in degrees east, from 0 up to but excluding 360."""
        return self._places[:, 3]

    @property
    def epochs(self) -> Epochs:
        """Dates, int64 (n,), in seconds since 1970."""
        if self._epochs is None:
            self._epochs = epochs_of_rows(self._places)
        return self._epochs

    @property
    def dates(self) -> Dates:
        """Dates, datetime64[s] (n,), UTC."""
        return self.epochs.view("datetime64[s]")

    @property
    def timedeltas(self) -> Epochs:
        """Seconds from the date of the row's sample to the observation, int64 (n,)."""
        first = self.references[0] if self.which is None else self.references[self.which]
        return self.epochs - first

    @property
    def reference_dates(self) -> Dates:
        """Dates of the samples, datetime64[s] (k,)."""
        return self.references.view("datetime64[s]")

    @property
    def reference_date(self) -> np.datetime64:
        """Date of the one sample that the rows belong to, datetime64[s]."""
        if len(self.references) != 1:
            raise SelectionError(f"rows of {len(self.references)} samples have no single date; use reference_dates")
        date: np.datetime64 = self.reference_dates[0]
        return date

    @property
    def boundaries(self) -> list[slice]:
        """For each sample, the slice of its rows."""
        if self.which is None:
            return [slice(0, len(self))]
        if np.any(self.which[1:] < self.which[:-1]):
            raise SelectionError("the rows were reordered, so that those of a sample are no longer together")
        edges = np.searchsorted(self.which, np.arange(len(self.references) + 1)).tolist()
        return [slice(a, b) for a, b in pairwise(edges)]

    def __reduce__(self) -> tuple[Any, ...]:
        return Details, (np.ascontiguousarray(self._places), self.references, self.which, self._epochs)

    def __repr__(self) -> str:
        return f"<Details of {len(self)} rows, {len(self.references)} sample(s)>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts: list[tuple[str, object]] = [("rows", f"{len(self):,}"), ("samples", f"{len(self.references):,}")]
        if len(self):
            facts += [
                ("dates", f"{self.dates.min()} to {self.dates.max()}"),
                ("latitudes", f"{self.latitudes.min():g} to {self.latitudes.max():g}"),
                ("longitudes", f"{self.longitudes.min():g} to {self.longitudes.max():g}"),
            ]
        return facts_html("Places and dates of rows", facts)


@dataclass(frozen=True, slots=True)
class Header:
    """Names and attributes of the columns of a sample."""

    names: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Names of columns that are not variables (see `cfagg.observations.selection.DELTATIME`).
    leading: frozenset[str] = frozenset()

    def __getitem__(self, columns: Any) -> Header:
        """Return the header of some columns: a slice, a mask, an array of numbers, or one number."""
        chosen = np.arange(len(self.names))[columns]
        return replace(self, names=tuple(self.names[i] for i in np.atleast_1d(chosen).tolist()))

    def __repr__(self) -> str:
        return f"<Header of {len(self.names)} columns>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        def about(name: str) -> str:
            known = self.attributes.get(name, {})
            return " ".join(filter(None, (name, str(known.get("units", "")), str(known.get("long_name", "")))))

        return facts_html("Columns of a sample", (), [("columns", [about(name) for name in self.names])])


class Sample(np.ndarray[Any, np.dtype[np.float32]]):
    """Observations, float32 (rows, columns), with places and dates that stay with their rows.

    A selection of rows, by slice, mask or numbers, selects the annotations too; elementwise arithmetic keeps them.  An
    array that no longer consists of the rows (transposed or reduced) has no annotations.

    Examples
    --------
    >>> places = np.array([[18262, 10800, 51.5, 359.75], [18262, 21608, 48.75, 2.25]], "f4")
    >>> details = Details(places, np.array([18262 * 86400 + 21600]))
    >>> x = Sample(np.array([[1013], [1008]], "f4"), details, Header(("pressure",)))
    >>> x.timedeltas.tolist(), x[x.latitudes < 50].longitudes.tolist()
    ([-10800, 8], [2.25])
    """

    _details: Details | None
    _header: Header | None

    def __new__(cls, values: Any, details: Details, header: Header) -> Self:
        """Return `values`, not copied, with annotations."""
        self = np.asarray(values).view(cls)
        self._details, self._header = details, header
        return self

    def __array_finalize__(self, obj: Any) -> None:
        """Start without annotations, whatever array this one was made from."""
        self._details = self._header = None

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        size = ("rows", f"{self.shape[0]:,}") if self.ndim else ("value", self.item())
        if self._details is None or self._header is None:
            return facts_html("Part of a sample", [size, ("shape", self.shape), ("type", self.dtype)])
        dates = self._details.reference_dates
        shown = ", ".join(map(str, dates[:3])) + (f" and {len(dates) - 3:,} more" if len(dates) > 3 else "")
        facts = (size, ("dates", shown), ("type", self.dtype))
        return facts_html("Sample of observations", facts, [("columns", self._header.names)])

    # ---- annotations of the rows and columns

    @property
    def details(self) -> Details:
        """Places and dates of the rows."""
        if self._details is None or self.shape[:1] != (len(self._details),):
            raise AlignmentError(
                "this array no longer consists of the rows of a sample: use the sample itself, or ds.details(i)"
            )
        return self._details

    @property
    def header(self) -> Header:
        """Names and attributes of the columns."""
        header = self._header
        if header is None or self._details is None or (self.ndim > 1 and self.shape[1:] != (len(header.names),)):
            raise AlignmentError("this array no longer consists of the columns of a sample: use the sample itself")
        return header

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.header.names

    @property
    def latitudes(self) -> Floats:
        """Latitudes of the rows, float32 (rows,), in degrees north."""
        return self.details.latitudes

    @property
    def longitudes(self) -> Floats:
        """Longitudes of the rows, float32 (rows,), in degrees east, from 0 up to but excluding 360."""
        return self.details.longitudes

    @property
    def dates(self) -> Dates:
        """Dates of the rows, datetime64[s] (rows,), UTC."""
        return self.details.dates

    @property
    def timedeltas(self) -> Epochs:
        """Seconds from the sample's date to the observation, int64 (rows,)."""
        return self.details.timedeltas

    @property
    def reference_date(self) -> np.datetime64:
        """The sample's date, datetime64[s]."""
        return self.details.reference_date

    @property
    def reference_dates(self) -> Dates:
        """The dates of all samples that the rows belong to, datetime64[s]."""
        return self.details.reference_dates

    @property
    def boundaries(self) -> list[slice]:
        """For each sample, the slice of its rows."""
        return self.details.boundaries

    # ---- keeping rows and annotations together

    def __getitem__(self, key: Any) -> Any:
        """Select like NumPy; rows keep their annotations."""
        values = np.asarray(self)[key]
        if self._details is None or self._header is None or not isinstance(values, np.ndarray):
            return values
        parts = rows_and_columns(key, self.ndim)
        if parts is None:
            return values
        rows, columns = parts
        return Sample(values, self._details[rows], self._header if columns is None else self._header[columns])

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set values like NumPy; if a row takes the place of another, as in a shuffle, the annotations are dropped."""
        super().__setitem__(key, value)
        first, *others = key if isinstance(key, tuple) and key else (key,)
        whole = isinstance(first, (int, np.integer)) and all(part is Ellipsis for part in others)
        if whole and isinstance(value, np.ndarray):
            self._details = self._header = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        """Calculate like NumPy; the result keeps the annotations if it has the same rows and columns."""
        plain = [_plain(x) for x in inputs]
        if out is not None:
            kwargs["out"] = tuple(_plain(x) for x in out)
        if "where" in kwargs:
            kwargs["where"] = _plain(kwargs["where"])
        values = getattr(ufunc, method)(*plain, **kwargs)
        if out is not None:
            for x in out:
                if isinstance(x, Sample) and x._header is not None:
                    # Units and the like describe the values before.
                    x._header = replace(x._header, attributes={})
            return out[0] if len(out) == 1 else out
        by_element = method == "__call__" and not ufunc.signature
        return _with_annotations_of(inputs, values) if by_element else values

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of NumPy; results of elementwise functions keep the annotations."""
        if func is np.swapaxes and len(args) == 3 and args[1] == args[2]:
            return args[0]  # NumPy shuffles this array, of which a view would have no annotations to drop
        values = super().__array_function__(func, types, args, kwargs)
        return _with_annotations_of([*args, *kwargs.values()], values) if func in _BY_ELEMENT else values

    def copy(self, order: Any = "C") -> Any:
        """Return a copy with the same annotations."""
        return _annotated(np.asarray(self).copy(order), self._details, self._header)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the values in another type, with the same annotations."""
        return _annotated(np.asarray(self).astype(dtype, *args, **kwargs), self._details, self._header)

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """Sort in place like NumPy; the annotations are dropped."""
        self._details = self._header = None
        super().sort(*args, **kwargs)

    def partition(self, *args: Any, **kwargs: Any) -> None:
        """Partition in place like NumPy; the annotations are dropped."""
        self._details = self._header = None
        super().partition(*args, **kwargs)

    def __reduce__(self) -> Any:
        values = np.ascontiguousarray(np.asarray(self))
        return _annotated, (values, self._details, self._header)

    # ---- other containers

    def to_pandas(self) -> Any:
        """Return a frame with `date`, `latitude`, `longitude`, `timedelta` (seconds) and one column per variable."""
        from cfagg.observations.metadata import to_pandas

        return to_pandas(self)

    def to_xarray(self) -> xr.Dataset:
        """Return a Dataset of points, a discrete sampling geometry of CF (``featureType: point``)."""
        from cfagg.observations.metadata import to_xarray

        return to_xarray(self)

    def to_arrow(self) -> Any:
        """Return an Arrow table with the columns of `to_pandas`; units and the like are metadata of its fields."""
        from cfagg.observations.metadata import to_arrow

        return to_arrow(self)


def _with_annotations_of(inputs: Any, values: Any) -> Any:
    """Return the result of an elementwise calculation, with the annotations shared by all samples in its inputs."""
    samples = [x for x in inputs if isinstance(x, Sample) and x._details is not None]
    if not samples or not isinstance(values, np.ndarray):
        return values
    first = samples[0]
    same = all(x._details is first._details and x.columns == first.columns for x in samples)
    if not same or values.shape != first.shape:
        return _plain(values)
    # Units and the like describe the values before.
    return Sample(_plain(values), first.details, replace(first.header, attributes={}))


def _annotated(values: Any, details: Details | None, header: Header | None) -> Any:
    """Return a sample, or the plain values if there are no annotations."""
    if details is None or header is None:
        return values
    return Sample(values, details, header)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Sample) else value
