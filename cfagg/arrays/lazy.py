"""The lazy array for analysis code: NumPy's indexing and dask's chunks for any array that can be read.

Values are as stored, or those of the array that an aggregation describes: nothing is masked or scaled according to
attributes.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.reader import Reader
from cfagg.conventions import limits
from cfagg.display.escape import printable
from cfagg.errors import (
    CfaggError,
    LimitError,
    OptionError,
    SourceError,
    UnreadableAggregationError,
    UnsupportedError,
)
from cfagg.errors.arguments import a_text, paths, some
from cfagg.formats.metadata.nczarr import HIDDEN
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.zarr.attributes import with_number
from cfagg.formats.zarr.consolidated import published
from cfagg.formats.zarr.documents import is_there, node_folder, store_path
from cfagg.formats.zarr.metadata import open_array as array_at
from cfagg.formats.zarr.remote import one_look
from cfagg.model import Grid, Regular
from cfagg.runtime.budget import worker_count
from cfagg.storage.urls import Url, a_place, absolute, is_url

if TYPE_CHECKING:
    from cfagg.arrays.source import Source

__all__ = ["LazyArray", "open_array"]


class LazyArray:
    """An array whose values are read when it is indexed like NumPy's or converted: ``a[...]``, ``np.asarray(a)``.

    Returned by `cfagg.open_array` and `cfagg.concatenate`.  It can be pickled for workers if its source can.

    Attributes
    ----------
    shape, dtype
        As for NumPy arrays; the type is in native byte order.
    dims : tuple of str
        Names of its dimensions.
    attributes : dict
        The stored attributes, such as ``units``.
    name : str, optional
        Name of the variable.
    grid : Grid
        Its chunks or partitions.
    """

    def __init__(self, reader: Reader, *, attributes: Mapping[str, Any] | None = None, name: str | None = None) -> None:
        self.reader, self.name = reader, name
        self.attributes = dict(reader.attributes if attributes is None else attributes)
        self.shape: tuple[int, ...] = tuple(int(n) for n in reader.shape)
        self.dtype = reader.dtype
        self.dims = tuple(reader.dims)
        self._token = uuid.uuid4().hex

    @cached_property
    def grid(self) -> Grid:
        """Its chunks or partitions."""
        return self.reader.stored_grid

    @cached_property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the chunks or partitions along each dimension, as in dask."""
        return tuple(_lengths(axis, n) for axis, n in zip(self.grid.axes, self.shape, strict=True))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def oindex(self) -> Outer:
        """Indexing by a slice, integer, mask or list of indices per dimension, each applied independently."""
        return Outer(self)

    def __getitem__(self, key: Any) -> Any:
        """Read the selection of a key, as in NumPy."""
        from cfagg.arrays.indexing import read_like_numpy

        return read_like_numpy(self.reader, key)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Read the whole array."""
        if copy is False:
            raise ValueError(f"{self!r} is read into new memory, but copies are forbidden")
        found: npt.NDArray[Any] = np.asarray(self.reader.read([slice(None)] * self.ndim))
        return found if dtype is None else found.astype(dtype, copy=False)

    def __len__(self) -> int:
        """Return the length of the first dimension."""
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Read the array part by part along the first dimension."""
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        """Return the truth of a single element; ambiguous for any other size."""
        if self.size != 1:
            raise ValueError(f"the truth of an array of {self.size:,} elements is ambiguous; use .any() of its values")
        return bool(np.asarray(self).reshape(())[()])

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        dims = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        try:
            cells = " x ".join(map(str, self.grid.matrix_shape)) or "1"
        except LimitError:
            cells = "too many"
        return printable(f"<LazyArray{name} ({dims}) {self.dtype}, {cells} chunks>")

    def _repr_html_(self) -> str:
        from cfagg.display.chunks import array_html

        return array_html(self.name, self.dims, self.grid, self.dtype, self.attributes)

    def __dask_tokenize__(self) -> tuple[str, str]:
        # Arrays always differ for dask, since values may have been written in between.
        return "cfagg.LazyArray", self._token

    def to_dask(self, chunks: Any = None) -> Any:
        """Return a dask array, by default with a chunk for each chunk or partition.

        Parameters
        ----------
        chunks : optional
            As for `dask.array.from_array`.

        Examples
        --------
        >>> import cfagg, numpy as np
        >>> made = cfagg.concatenate([np.arange(3), np.arange(2)])
        >>> made.to_dask().chunks, made.to_dask(chunks=5).chunks
        (((3, 2),), ((5,),))
        """
        from cfagg.errors.extras import require

        require("arrays of dask", "dask")
        import dask.array

        meta = np.empty((0,) * self.ndim, self.dtype)
        # Lists of indices are left to dask, which applies them one after another.
        chosen = self.chunks if chunks is None else chunks
        try:
            return dask.array.from_array(self, chunks=chosen, asarray=False, fancy=False, meta=meta)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise OptionError(f"chunks={chunks!r} do not divide an array of shape {self.shape}: {error}") from error


def _lengths(axis: Regular | npt.NDArray[np.int64], size: int) -> tuple[int, ...]:
    """Return the lengths of chunks along a dimension; if there are none, a single 0."""
    count = axis.count if isinstance(axis, Regular) else len(axis) - 1
    if count > limits.MAX_PARTITIONS:
        raise LimitError(f"there are {count:,} chunks along a dimension, too many for a list; look at .grid.axes")
    if isinstance(axis, Regular):
        whole, rest = divmod(size, axis.chunk)
        return (axis.chunk,) * whole + ((rest,) if rest or not whole else ())
    found = np.diff(np.minimum(axis, size))
    return tuple(found.tolist()) or (0,)


class Outer:
    """``array.oindex[key]``."""

    def __init__(self, array: LazyArray) -> None:
        self._array = array

    def __repr__(self) -> str:
        return f"<outer indexing of {self._array!r}>"

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Read the selection of a key."""
        from cfagg.arrays.indexing import outer

        return outer(self._array.reader, key)


@LIBRARY.keeping_files()
def open_array(
    path: str | os.PathLike[str],
    variable: str = "",
    *,
    group: str | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    missing: Literal["error", "fill"] = "error",
    storage_options: Mapping[str, Any] | None = None,
    index: bool | str | os.PathLike[str] = True,
    workers: int | None = None,
) -> LazyArray:
    """Return one variable of a file or store as a lazy array, which reads values only when it is indexed.

    Values are as stored, without masking or scaling, or those of the array that an aggregation describes.  Use
    `cfagg.read` for labels, dates, and missing values.

    Parameters
    ----------
    path : str or path-like
        An aggregation file, a netCDF or PP file, references, or a Zarr store; or its URL.
    variable : str, optional
        Name or path of the variable; may be left out if the Zarr store is a single array.
    group : str, optional
        The group that `variable` is in, by default the root.
    allow : iterable of str or path-like
        Places that partitions may be read from, or links of a store may point to, besides their own directory.
    missing : {"error", "fill"}
        What to do if values are read from a partition whose file is missing: raise, or return missing values.
    storage_options : mapping, optional
        Options for a URL, as for `cfagg.read`.
    index : bool or path-like
        The byte-offset index by which fragments are read, as for `cfagg.read`.
    workers : int, optional
        Threads that one read may use; by default the processors of this process, at most 8.

    Returns
    -------
    LazyArray
        With ``.shape``, ``.dtype``, ``.chunks`` (lengths of its chunks or partitions), and ``.to_dask()``.

    Raises
    ------
    SourceError
        If there is no such file or variable.
    ConventionError
        If the variable is an aggregation that cannot be read.

    Examples
    --------
    >>> import tempfile, cfagg, numpy as np, zarr
    >>> store = tempfile.mkdtemp()
    >>> _ = zarr.create_array(store, name="tas", data=np.arange(10), chunks=(4,), dimension_names=["time"])
    >>> tas = cfagg.open_array(store, "tas")
    >>> tas.shape, tas.chunks, tas.dims
    ((10,), ((4, 4, 2),), ('time',))
    >>> tas[2:8:3], tas[[9, 0]], tas[-1]
    (array([2, 5]), array([9, 0]), np.int64(9))
    """
    from cfagg.arrays.opening import open_any, open_reader

    a_text(variable, "variable", "the name or path of a variable")
    worker_count(workers)
    if group is not None:
        variable = f"{a_text(group, 'group', 'the path of a group').strip('/')}/{variable.lstrip('/')}"
    places = paths(allow)
    place = a_place(path, storage_options, places)
    name = variable.rstrip("/").rpartition("/")[2] or None  # for an array that is the root of its store
    stored = _stored(place, variable, places, workers) or _zipped(place, variable, workers)
    if stored is not None:
        return LazyArray(stored, attributes=with_number(stored.attributes, stored.dtype), name=name)
    source = open_any(place, places)
    if not variable.strip("/"):
        # An array that is the root of its store has no name there.
        variable = next((p for p, a in getattr(source, "arrays", {}).items() if not a.read.path), "")
        if not variable:
            known = some(f"{g.path}/{n}".lstrip("/") for g in source.root.walk() for n in g.variables)
            raise SourceError(f"{source.path} is not a single array: name one of its variables: {known}")
    reader = open_reader(source, variable, source.access(places), missing=missing, workers=workers, index=index)
    return LazyArray(reader, attributes=_attributes(source, variable, reader), name=name)


def _stored(place: str, variable: str, allow: Sequence[str], workers: int | None) -> Reader | None:
    """Return the reader of an array of a Zarr v3 store without reading other arrays or consolidated metadata.

    `None` for anything else, for arrays that depend on their group, and for those not found or unreadable.
    """
    try:
        with one_look():
            if not _is_v3(place, variable):
                return None
            array = published(array_at(place, variable, allow=allow))
    except CfaggError:
        return None
    if array.decoder is None or not HIDDEN.isdisjoint(array.attributes):
        return None
    return ZarrReader(array, workers=workers)


def _is_v3(place: str, variable: str) -> bool:
    """Return whether there is a document of version 3; not requested from a server if the name is that of a file."""
    if not isinstance(place, Url):
        return os.path.isfile(f"{place}/{variable.strip('/')}/zarr.json")  # noqa: PTH113
    root = store_path(place)
    named = root.rpartition("/")[2]
    return ("." not in named or named.endswith(".zarr")) and is_there(node_folder(root, variable), "zarr.json", root)


def _zipped(place: str, variable: str, workers: int | None) -> Reader | None:
    """Return the reader of an array of a Zarr store in a local Zip file, or `None` for anything else."""
    if is_url(place) or not os.path.isfile(place):  # noqa: PTH113
        return None
    from cfagg.formats.opening import ZIP, format_of
    from cfagg.storage.handles import handles

    if format_of(handles.get(absolute(place))) != ZIP:
        return None
    from cfagg.formats.zarr.zipped import CheckedZip

    array = CheckedZip(place).decoded(variable.strip("/"))
    if array is None:
        raise UnsupportedError(f"{place}: array {variable!r} has a type or codec that is not read from Zip files")
    return ZarrReader(replace(array, attributes=array.known_attributes), workers=workers)


def _attributes(source: Source, variable: str, reader: Reader) -> dict[str, Any]:
    """Return the attributes of a variable, including the units and calendar of an aggregation."""
    from cfagg.model import Aggregation

    try:
        _, found = source.find(variable)
    except UnreadableAggregationError:
        return dict(reader.attributes)  # read alone, as no dataset may contain it
    known = dict(found.attributes)
    if isinstance(found, Aggregation):
        said = {"units": found.units, "calendar": found.calendar}
        known.update({name: value for name, value in said.items() if value is not None})
    return known
