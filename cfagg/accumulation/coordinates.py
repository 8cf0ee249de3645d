"""The coordinates of one array of a Zarr store, decoded by xarray.

Where xarray cannot open the group that holds the array, as another array in it is of a kind that it does not know or
names no dimensions, the array's own coordinates are read one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import SourceError

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.zarrs import ZarrArray

__all__ = ["labelled_array"]

#: What xarray, or zarr-python under it, raises for what it cannot open.
_FAILURES = (AttributeError, KeyError, ValueError, TypeError, OSError, NotImplementedError, RuntimeError)

#: Attributes that xarray takes for decoding, so that they are none of the array that it shows.
_DECODING = ("_ARRAY_DIMENSIONS", "_FillValue", "_Unsigned", "missing_value", "scale_factor", "add_offset", "dtype")


def labelled_array(source: ZarrArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Return an array with its coordinates and attributes, as xarray shows it; its values are not meant to be read.

    Parameters
    ----------
    source : ZarrArray
        The array.
    dims : tuple of str
        Its dimensions, which it need not name itself.

    Raises
    ------
    SourceError
        One of its coordinates cannot be read.

    Examples
    --------
    >>> import tempfile, xarray as xr
    >>> from cfagg.zarrs import open_array
    >>> store = tempfile.mkdtemp()
    >>> x = xr.DataArray([1.5, 2.5], coords={"time": ("time", [0, 31], {"units": "days since 2001-01-01"})}, name="tas")
    >>> _ = x.to_dataset().to_zarr(store, consolidated=False)
    >>> labelled_array(open_array(store, "tas"), ("time",)).indexes["time"].month.tolist()
    [1, 2]
    """
    import xarray as xr

    group = source.path.rpartition("/")[0]
    with _quietly():
        try:
            found = xr.open_zarr(source.store, group=group or None, chunks=None, consolidated=False)[source.name]
        except _FAILURES:
            return _alone(source, dims)
    return found if found.dims == dims and found.shape == source.shape else _alone(source, dims)


@contextmanager
def _quietly() -> Iterator[None]:
    """Let zarr-python open variable-length chunks, which it warns of, and names of dates that do not matter here."""
    import zarr

    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _alone(source: ZarrArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Return an array with its coordinates, read one by one: those of its dimensions and those that it names."""
    import xarray as xr

    named = source.attributes.get("coordinates")
    names = dict.fromkeys([*dims, *(named.split() if isinstance(named, str) else [])])
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
    coords = xr.decode_cf(xr.Dataset(coords=found)).coords
    left = (*_DECODING, "coordinates")
    return xr.DataArray(
        np.broadcast_to(np.zeros((), np.float32), source.shape),
        coords=coords,
        dims=dims,
        name=source.name,
        attrs={k: v for k, v in source.attributes.items() if k not in left},
    )


def _coordinate(source: ZarrArray, dims: tuple[str, ...], name: str) -> xr.Variable | None:
    """Return a coordinate as it is stored, `None` for no such array or one along other dimensions."""
    import xarray as xr
    import zarr

    path = "/".join([*filter(None, [source.path.rpartition("/")[0]]), name])
    try:
        array: Any = zarr.open_array(source.store, path=path, mode="r")
    except FileNotFoundError:
        return None
    attrs = dict(array.attrs)
    own = attrs.pop("_ARRAY_DIMENSIONS", None) or getattr(array.metadata, "dimension_names", None)
    if own is None:
        own = [name] if name in dims and array.ndim == 1 else []
    sizes = dict(zip(dims, source.shape, strict=True))
    if len(own) != array.ndim or any(sizes.get(d) != n for d, n in zip(own, array.shape, strict=True)):
        return None
    # The fill value of a v2 array is often 0 and is not heeded: a coordinate has no missing values (CF section 2.5.1).
    return xr.Variable(tuple(own), array[...], attrs)
