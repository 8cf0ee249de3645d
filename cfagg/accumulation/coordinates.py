"""The coordinates of one array of a Zarr store, decoded by xarray.

If xarray cannot open the group, because another array in it is of an unknown kind or has no dimension names, the
coordinates of the array are read one by one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.source import coordinate_names, number_of, path_beside, read_cells
from cfagg.cf.packing import DECODING_ATTRIBUTES
from cfagg.errors import CfaggError, ConformError, SourceError
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.documents import is_group, is_there, node_folder
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.formats.zarr import ZarrArray

__all__ = ["labelled_array", "same_labels"]

#: Exceptions that xarray, or zarr-python underneath, raises for stores that it cannot open.
_FAILURES = (
    ArithmeticError, AttributeError, KeyError, ValueError, TypeError, OSError, NotImplementedError, RuntimeError,
)  # fmt: skip

#: Coordinates with more elements are left to xarray, which reads them lazily.
_LARGE = 1 << 22

#: Attributes that xarray uses for decoding and does not list among those of the array.
_DECODING = ("_ARRAY_DIMENSIONS", "dtype", *DECODING_ATTRIBUTES)


def labelled_array(source: ZarrArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Return an array with coordinates and attributes as in xarray; its values are not meant to be read."""
    read = _read_here(source, dims)
    if read is not None:
        return read
    import xarray as xr

    from cfagg.labelled.zarr import ZarrEntrypoint

    group = source.path.rpartition("/")[0]
    with _quietly():
        try:
            found = xr.open_dataset(
                source.store, engine=ZarrEntrypoint, group=group or None, consolidated=False, allow=source.allow
            )[source.name]
        except _FAILURES:
            return _alone(source, dims)
    return found if found.dims == dims and found.shape == source.shape else _alone(source, dims)


def _read_here(source: ZarrArray, dims: tuple[str, ...]) -> xr.DataArray | None:
    """Return the array as in xarray, or `None` for unusual groups: text, large coordinates, unnamed dimensions."""
    # This avoids zarr-python, whose import would take longer than most queries.
    arrays = _arrays_beside(source)
    if arrays is None or source.dims != dims:
        return None
    named: set[str] = set()
    for array in arrays.values():
        listed = array.attributes.get("coordinates")
        if listed is not None and not isinstance(listed, str):
            return None
        named |= {name for name in (listed or "").split() if name in arrays}
    wanted = [
        n for n, a in arrays.items() if (n in named or n in a.dims) and set(a.dims) <= set(dims) and a is not source
    ]
    if source.name in named or source.name in dims:
        return None
    sizes = dict(zip(dims, source.shape, strict=True))
    nothing = np.broadcast_to(np.zeros((), source.dtype), source.shape)
    variables = {source.name: (dims, nothing, _attributes(source))}
    for name in wanted:
        array = arrays[name]
        attributes = _attributes(array)
        if array.dtype.kind not in "iufb" or array.size > _LARGE or attributes is None:
            return None
        if any(sizes[d] != n for d, n in zip(array.dims, array.shape, strict=True)):
            return None
        try:
            variables[name] = (array.dims, read_cells(array), attributes)
        except CfaggError as error:
            raise SourceError(
                f"{source.store}: coordinate {name!r} of {source.path!r} cannot be read ({error}); repair or remove it"
            ) from error
    if any(attributes is None for *_, attributes in variables.values()):
        return None
    import xarray as xr

    from cfagg.labelled.missing_times import decoded_by_cf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            whole = decoded_by_cf(xr.Dataset(variables))
            return whole.set_coords([n for n in wanted if n in whole])[source.name]
        except _FAILURES:
            return None


def _arrays_beside(source: ZarrArray) -> dict[str, ZarrArray] | None:
    """Return all arrays of the group that contains an array, or `None` if xarray would fail on one of them."""
    folder = source.folder.rpartition("/")[0]
    marker = "zarr.json" if source.zarr_format == 3 else ".zarray"
    out = {}
    names = _names_in(source.store, folder)
    if names is None:
        return None
    for name in names:
        if name == source.name:
            out[name] = source
            continue
        if not is_there(f"{folder}/{name}", marker, source.store):
            continue
        try:
            array = open_array(source.store, path_beside(source, name), any_type=True, allow=source.allow)
        except SourceError:
            # Either a group or a damaged array; xarray fails only on the latter.
            if is_group(f"{folder}/{name}", source.store):
                continue
            return None
        except CfaggError:
            return None
        if not _names_dims(array):
            return None
        out[name] = array
    return out if _names_dims(source) else None


def _names_in(store: str, folder: str) -> list[str] | None:
    """Return the names of possible arrays in a group, or `None` if a web server does not list them."""
    if not isinstance(store, Url):
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if not e.name.startswith("."))
    from cfagg.formats.zarr.remote import key_of, remote_source

    remote = remote_source(store)
    return sorted(remote.children(key_of(store, folder))) if remote.lists else None


def _names_dims(array: ZarrArray) -> bool:
    """Return whether an array has dimension names in the place where xarray looks for them."""
    if array.zarr_format == 3:
        given = array.document.get("dimension_names")
        return array.ndim == 0 or (isinstance(given, list) and all(isinstance(n, str) for n in given))
    return array.ndim == 0 or array.dims != tuple(f"dim_{d}" for d in range(array.ndim))


def _attributes(array: ZarrArray) -> dict[str, Any] | None:
    """Return attributes as xarray has them before decoding, or `None` if the fill value cannot be interpreted."""
    out = dict(array.attributes)
    if array.zarr_format == 2:
        out.pop("_FillValue", None)
        if array.fill_declared:
            out["_FillValue"] = array.dtype.type(array.fill_value) if array.dtype.kind in "iufb" else array.fill_value
        return out
    fill = out.get("_FillValue")
    if isinstance(fill, str):
        try:
            out["_FillValue"] = array.dtype.type(number_of(fill, array.dtype, array.path))
        except (ConformError, ValueError, OverflowError):
            return None
    return out


@contextmanager
def _quietly() -> Iterator[None]:
    """Let zarr-python open variable-length chunks without warnings."""
    with unequal_chunks(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _alone(source: ZarrArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Return an array with the coordinates of its dimensions and those that it names, read one by one."""
    import xarray as xr

    from cfagg.labelled.missing_times import decoded_by_cf
    from cfagg.labelled.undecodable import undecodable_times

    names = dict.fromkeys([*dims, *coordinate_names(source)])
    found = {}
    for name in names:
        try:
            variable = _coordinate(source, dims, name)
            if variable is not None:
                found[name] = variable
        except _FAILURES as error:
            raise SourceError(
                f"{source.store}: coordinate {name!r} of {source.path!r} cannot be read ({error}); repair or remove it"
            ) from error
    try:
        coords = decoded_by_cf(xr.Dataset(coords=found)).coords
    except _FAILURES as error:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in undecodable_times(found).items()) or error
        raise SourceError(
            f"{source.store}: the coordinates of {source.path!r} cannot be decoded ({why}); correct their attributes"
        ) from error
    left = (*_DECODING, "coordinates")
    return xr.DataArray(
        np.broadcast_to(np.zeros((), np.float32), source.shape),
        coords=coords,
        dims=dims,
        name=source.name,
        attrs={k: v for k, v in source.attributes.items() if k not in left},
    )


def _coordinate(source: ZarrArray, dims: tuple[str, ...], name: str) -> xr.Variable | None:
    """Return a coordinate as stored, or `None` if there is no such array or it has other dimensions."""
    import xarray as xr

    from cfagg.formats.zarr.fallback import open_by_zarr, store_of
    from cfagg.formats.zarr.metadata import decoded_array

    path = path_beside(source, name)
    folder = node_folder(source.store, path)
    if not any(is_there(folder, document, source.store) for document in ("zarr.json", ".zarray")):
        return None
    array = open_by_zarr(store_of(source.store, source.allow), path, None)
    attrs = dict(array.attrs)
    own = attrs.pop("_ARRAY_DIMENSIONS", None) or getattr(array.metadata, "dimension_names", None)
    if own is None:
        own = [name] if name in dims and array.ndim == 1 else []
    sizes = dict(zip(dims, source.shape, strict=True))
    if len(own) != array.ndim or any(sizes.get(d) != n for d, n in zip(own, array.shape, strict=True)):
        return None
    # The fill value of a v2 array, often 0, is ignored, since coordinates have no missing values (CF section 2.5.1).
    decoded = decoded_array(source.store, path, source.allow)
    return xr.Variable(tuple(own), array[...] if decoded is None else read_cells(decoded), attrs)


def same_labels(own: npt.NDArray[Any], given: npt.NDArray[Any]) -> bool:
    """Return whether labels are equal in the lower of both precisions; dates of different libraries count as equal."""
    if own.dtype.kind in "biuf" and given.dtype.kind in "biuf":
        kind = min((t for t in (own.dtype, given.dtype) if t.kind == "f"), key=lambda t: t.itemsize, default=None)
        return np.array_equal(own.astype(kind or own.dtype), given.astype(kind or given.dtype))
    if own.dtype.kind == given.dtype.kind != "O":
        return np.array_equal(own, given)
    return _texts(own) == _texts(given)


def _texts(labels: npt.NDArray[Any]) -> list[str]:
    """Return labels as text, in which dates of all libraries look alike."""
    return [str(v) for v in (labels.astype("M8[us]") if labels.dtype.kind == "M" else labels).tolist()]
