"""Appending the content of any path or dataset to a store, and extending the accumulations beside it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cfagg.errors import CfaggError, OptionError, StaleAccumulationWarning
from cfagg.errors.arguments import a_path, a_text, flags, functions, paths, shared
from cfagg.formats.values.locks import LIBRARY
from cfagg.storage.urls import Url, a_place

if TYPE_CHECKING:
    from cfagg.writing.zarr.appending import Appended
    from cfagg.writing.zarr.place import Place

__all__ = ["append"]


@LIBRARY.keeping_files()
def append(
    store: str | os.PathLike[str],
    data: Any,
    dim: str,
    *,
    group: str | None = None,
    on_loss: Literal["error", "drop"] = "error",
    any_order: bool = False,
    allow: Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    data_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    after: Iterable[Callable[[Any, Any], Any]] | None = None,
) -> Appended:
    """Append to a Zarr store along one dimension, so that readers see all of the new data or none.

    All arrays of the group along the dimension grow in one call.  On a regular grid the last chunk is filled first; on
    a rectilinear one each call adds one chunk of any length. A killed call leaves the store as it was, and the next one
    succeeds.

    Parameters
    ----------
    store : str or path-like
        A Zarr store of version 2 or 3: a directory, or a URL ``s3://``, ``gs://`` or ``az://``; or an Icechunk
        repository, a directory or at ``s3://``, whose branch ``main`` gets one commit.
    data : str, path-like, xarray.Dataset, xarray.DataArray or mapping of str to array
        Data to append: a file or store that `read` opens, a dataset, or arrays by name, also as ``(dims, array)`` or
        ``(dims, array, attributes)``; without attributes they contain unpacked values in the units of the store.
    dim : str
        The dimension that grows.
    group : str, optional
        A group of the store; the root by default.
    on_loss : {"error", "drop"}
        How to handle attributes and variables that the store does not have: append nothing, or leave them out and list
        them.
    any_order : bool
        Append even if the coordinate of the dimension overlaps that of the store, or is out of order.
    allow : iterable of str or path-like
        As for `read`, if `data` is a path.
    storage_options : mapping, optional
        Options for the store, if it is a URL.
    data_options : mapping, optional
        Options for `data`, if that is a URL.
    workers : int, optional
        Threads that encode and write chunks; by default the number of available processors, at most 8.
    after : iterable of callable, optional
        Functions of the store and the report that are called after publishing; by default, accumulations beside the
        arrays are extended.

    Returns
    -------
    Appended
        The result: ``start`` and ``stop`` along the dimension, ``variables``, ``chunks``, ``losses``, ``notes``.

    Raises
    ------
    TargetError
        If another process is writing to the store, or other software changed it meanwhile.
    ConformError
        If values cannot be stored exactly in the form of the arrays (type, packing, units, calendar), or if variables
        that do not grow, or the order of the coordinate, differ.
    LossError
        If something would be left out, and `on_loss` is not ``"drop"``.
    OptionError
        If a variable along the dimension is missing.

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr
    >>> store = tempfile.mkdtemp() + "/tas.zarr"
    >>> day = xr.Dataset({"tas": ("time", np.array([280.5, 281.0]))}, coords={"time": [0, 1]})
    >>> _ = day.to_zarr(store, zarr_format=2)
    >>> append(store, {"tas": np.array([279.0]), "time": np.array([2])}, "time")
    <Report of ...: 1 step of 'time' appended to 2 arrays, 3 now>
    >>> xr.open_zarr(store).tas.values
    array([280.5, 281. , 279. ])
    """
    from cfagg.writing.zarr.appending import append_to

    a_path(store, "store", expected="name a Zarr store")
    a_text(dim, "dim", "the name of a dimension")
    flags(any_order=any_order)
    shared(storage_options=storage_options, data_options=data_options, workers=workers)
    places = paths(allow)
    if isinstance(data, str | bytes | os.PathLike):
        a_place(data, data_options, places, name="data", options_name="data_options")
        data = _opened(data, places, data_options)
    elif data_options:
        raise OptionError("data_options apply to a URL, and data is not one")
    whole = "" if group is None else a_text(group, "group", "the path of a group")
    calls = (
        [partial(_extend, workers=workers)] if after is None else [partial(_run, f) for f in functions(after, "after")]
    )
    return append_to(
        store, data, dim, group=whole, on_loss=on_loss, any_order=any_order, storage_options=storage_options,
        workers=workers, after=calls,
    )  # fmt: skip


def _opened(path: Any, allow: Iterable[str | os.PathLike[str]], options: Mapping[str, Any] | None) -> Any:
    """Return a dataset of stored values, so that equal packing need not be undone."""
    from cfagg.api.reading import read

    return read(path, allow=allow, storage_options=options, decode_times=False, mask_and_scale=False)


def _run(each: Callable[[Any, Any], Any], place: Place, report: Appended) -> None:
    """Call a function with the store, a path or a URL with its options, and the report."""
    store = place.store
    each(store.anew if isinstance(store, Url) else store, report)


def _extend(place: Place, report: Appended, workers: int | None) -> None:
    """Extend the accumulations beside the arrays that grew; one that cannot be extended is marked as stale."""
    from cfagg.accumulation.accumulating import accumulated_arrays, update
    from cfagg.accumulation.group import command

    if place.commits:
        return  # a repository with sums was refused
    store = place.store
    options = store.options.given if isinstance(store, Url) else None
    for path in sorted(set(accumulated_arrays(store, options, group=report.group)) & set(report.variables)):
        try:
            update(store, report, variables=path, storage_options=options, workers=workers)
        except (CfaggError, KeyboardInterrupt) as error:
            said = (
                f"{report.target}: everything was appended, but the accumulation of {path!r} was not extended: append "
                f"nothing again, but extend it with: {command(report.target, path, '--refresh')}"
            )
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"interrupted: {said}") from None
            warnings.warn(f"{said} ({error.message})", StaleAccumulationWarning, stacklevel=5)
