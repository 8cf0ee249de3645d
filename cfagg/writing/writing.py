"""`write` an aggregation file from a dataset, an aggregation or an array, and translate one file into another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from cfagg.arrays.untold import unlimited_note
from cfagg.errors import CfaggError, OptionError
from cfagg.errors.arguments import a_new_file, a_path, flags, paths, shared
from cfagg.findings.losses import Loss
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Aggregation
from cfagg.runtime.targets import dialect_of, kind_of
from cfagg.storage.access import Access
from cfagg.storage.urls import Url, a_place, is_url
from cfagg.writing.aggregation_file import Target, write_file
from cfagg.writing.content import Content
from cfagg.writing.encodable import named_dates
from cfagg.writing.plan import OnLoss
from cfagg.writing.report import Report
from cfagg.writing.sources import aggregated, content_of
from cfagg.writing.zarr.report import StoreReport

__all__ = ["target_of", "translate", "write"]


@LIBRARY.keeping_files()
def write(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    to: str | None = None,
    on_loss: OnLoss = "error",
    relative_to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    allow: Iterable[str | os.PathLike[str]] = (),
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> Report | StoreReport:
    """Write an aggregation file that refers to values where they are stored, or a Zarr store that contains them.

    Coordinates, bounds, scalars and what else describes variables, such as the nodes of geometries, are written into
    the file itself.  Values that are in no netCDF file (computed, in memory or in Zarr), and those of PP files if the
    convention has no addresses, are written to ``PATH.fragments``: one file for each dask chunk, else for each
    partition of the source or each field, else for about 256 MiB along the first dimension.

    For a lazy array, stored chunks are copied byte for byte into a Zarr store where possible, and an Icechunk
    repository refers to them, except in S3, where they are copied; all else is read and encoded.

    Parameters
    ----------
    obj : xarray.Dataset, xarray.DataArray, Aggregation, lazy, dask or NumPy array
        What to write.  Variables that `cfagg.read` opened and that are unchanged stay aggregations; an `Aggregation`
        with a source is written with the coordinates that it refers to. In a Zarr store each dask chunk becomes a
        chunk, even if its length is unknown beforehand, as after a filter; several such arrays are given as a mapping
        of names to arrays, ``(dims, array)`` or ``(dims, array, attributes)``.
    path : path
        The file, or the directory of the store, whose parent directory must exist. Or a URL in an object store: of a
        store, or of a file that refers to URLs only, as a file at a URL never reads local files.
    to : {"CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1", "zarr", "icechunk"}, optional
        The format; by default ``.nc`` means CF-1.13, ``.nca`` NCA-0.1, ``.icechunk`` Icechunk (of a lazy array), and
        ``.zarr`` or no suffix a Zarr store.
    on_loss : {"error", "materialise", "drop"}
        How to handle what the convention cannot express: raise an error that lists all of it; write the values of these
        partitions into ``PATH.fragments``; or leave it out, along with variables whose values would change.
    relative_to : path, optional
        Directory to which references are relative, by default that of `path`; ``"/"`` makes them absolute.
    overwrite : bool
        Replace an existing file.
    allow : iterable of path
        Directories from which values of an `Aggregation` may be read, as for `cfagg.read`.
    target_options : mapping, optional
        Options for the server of `path`, if that is a URL.
    workers : int, optional
        Threads that write a store; by default one per processor.  Dask arrays are computed by its scheduler.

    Returns
    -------
    Report
        A summary of what was written, with ``losses`` and ``notes``; for a store, a `StoreReport`.

    Raises
    ------
    LossError
        The convention cannot express something; ``losses`` lists it partition by partition. Nothing is written.
    TargetExistsError, TargetError
        The file exists, or cannot be written.
    OptionError
        `to` and the name contradict each other, or `obj` is of another type.
    AccessError
        The file would be allowed to read what the file that `obj` was opened from may not read.

    Examples
    --------
    >>> import tempfile, cfagg, xarray as xr
    >>> folder = tempfile.mkdtemp()
    >>> tas = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], dims=("time", "x"), name="tas", attrs={"units": "K"})
    >>> report = cfagg.write(tas.chunk(time=1), f"{folder}/tas.nca")
    >>> report.dialect, report.partitions, report.fragments, report.losses
    ('NCA-0.1', 2, 2, ())
    >>> cfagg.read(f"{folder}/tas.nca").tas.values.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    name = a_path(path, expected="name a file, or a directory for a Zarr store")
    flags(overwrite=overwrite)
    shared(target_options=target_options, workers=workers, on_loss=on_loss)
    places = paths(allow)
    kind = kind_of(name, to, netcdf="CF-1.13")
    if kind == "zarr" or (kind == "icechunk" and _is_lazy(obj)):
        if relative_to is not None:
            raise OptionError(f"{name} is a Zarr store, which holds the values itself: leave out relative_to=")
        given = [option for option, found in (("on_loss", on_loss != "error"), ("allow", places)) if found]
        if given:
            raise OptionError(
                f"{name} is a Zarr store, which holds all values or none: leave out {'= and '.join(given)}="
                f"{'; give allow= where the source is opened' if 'allow' in given else ''}"
            )
        with named_dates(name, lambda: _as_dataset(obj)):
            return _write_store(obj, path, kind, overwrite=overwrite, target_options=target_options, workers=workers)
    target = target_of(path, to, on_loss, relative_to, overwrite=overwrite, netcdf="CF-1.13", options=target_options)
    if isinstance(obj, Aggregation):
        content, losses = _of_aggregation(obj, target, places)
        return write_file(content, target, losses)
    from cfagg.writing.datasets import content_of_dataset

    dataset = _as_dataset(obj)
    with named_dates(name, lambda: dataset):
        return write_file(content_of_dataset(dataset, target.to, str(target.path)), target)


def _is_lazy(obj: Any) -> bool:
    from cfagg.arrays.lazy import LazyArray

    return isinstance(obj, LazyArray)


def _write_store(obj: Any, path: str | os.PathLike[str], kind: str, **options: Any) -> StoreReport:
    """Write a Zarr store, or an Icechunk repository."""
    if isinstance(obj, Aggregation):
        raise OptionError("an Aggregation is metadata: give what cfagg.read or cfagg.open_array returns of its file")
    if _is_lazy(obj):
        from cfagg.writing.zarr.copying import refer_lazy, write_lazy

        return write_lazy(obj, path, **options) if kind == "zarr" else refer_lazy(obj, path, **options)
    from cfagg.writing.zarr.blocks import blocks_of, write_blocks

    blocks = blocks_of(obj)
    if blocks is not None:
        del options["workers"]  # the dask scheduler is used instead
        return write_blocks(blocks, path, **options)
    from cfagg.writing.zarr.datasets import write_dataset

    return write_dataset(_as_dataset(obj), path, **options)


def translate(
    source: str | os.PathLike[str],
    target: Target,
    *,
    variables: Sequence[str] | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    word_size: int | None = None,
    substitutions: Mapping[str, str] | None = None,
) -> Report:
    """Write the content of a file of any format as an aggregation file in a dialect."""
    from cfagg.arrays.opening import open_any

    target.check()
    opened = open_any(source, tuple(allow), substitutions=substitutions)
    access = Access(opened.path, allow)
    content, losses = content_of(
        opened, access, target.to, variables=variables, drop=target.on_loss == "drop", word_size=word_size
    )
    why = "a file of aggregations grows by partitions, not by its dimensions"
    wanted = None if variables is None else {path.lstrip("/") for path in variables}
    return write_file(content, target, losses, unlimited_note(opened.root, wanted, why, empty=False))


def target_of(
    path: str | os.PathLike[str],
    to: str | None,
    on_loss: str,
    relative_to: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
    netcdf: str,
    options: Mapping[str, Any] | None = None,
    argument: str = "path",
) -> Target:
    """Return where and how an aggregation file is written; raise an error for other kinds of targets."""
    name = a_new_file(path, argument)
    there = (
        a_place(path, options, expected="name a file", options_name="target_options") if is_url(name) or options else ""
    )
    kind = dialect_of(name, to, netcdf=netcdf)
    shared(on_loss=on_loss)
    base = None if relative_to is None else a_path(relative_to, "relative_to", expected="name a directory")
    if base is not None and os.path.exists(base) and not os.path.isdir(base):  # noqa: PTH110, PTH112
        raise OptionError(f"relative_to: {base} is not a directory; name the one to which references are relative")
    if isinstance(there, Url):
        if base is not None:
            raise OptionError(f"{there} is a URL: leave out relative_to=")
        return Target(Path(there.place[1]), kind, cast("OnLoss", on_loss), None, overwrite, there)
    # Resolve links, so that the file is replaced and not the link.
    return Target(Path(os.path.realpath(name)), kind, cast("OnLoss", on_loss), base, overwrite)


def _of_aggregation(
    aggregation: Aggregation, target: Target, allow: tuple[str, ...]
) -> tuple[Content, tuple[Loss, ...]]:
    """Return the content of a file with one aggregation and the variables of its own file that it refers to."""
    from cfagg.arrays.aggregated import AggregationReader
    from cfagg.arrays.opening import open_any

    source = aggregation.source or str(target.path)
    reader = AggregationReader(aggregation, Access(source, allow))
    one = aggregated(aggregation, reader)
    try:
        opened = open_any(aggregation.source) if aggregation.source else None
        found = opened and opened.find(aggregation.name)[0].path
    except CfaggError:
        opened = found = None
    if opened is None or found != "/":
        sizes = dict(zip(aggregation.dims, aggregation.shape, strict=True))
        return Content(dimensions=sizes, variables={aggregation.name: one}), ()
    content, losses = content_of(opened, Access(source, allow), target.to, variables=[aggregation.name], drop=True)
    sizes = {**content.dimensions, **dict(zip(aggregation.dims, aggregation.shape, strict=True))}
    return replace(content, dimensions=sizes, variables={**content.variables, aggregation.name: one}), losses


def _as_dataset(obj: Any) -> Any:
    """Return the given object as a dataset."""
    import numpy as np
    import xarray as xr

    if isinstance(obj, xr.Dataset):
        return obj
    if isinstance(obj, xr.DataArray):
        if obj.name is None:
            raise OptionError("the array has no name for the variable: give it one with array.rename('tas')")
        return obj.to_dataset()
    from cfagg.arrays.lazy import LazyArray

    if isinstance(obj, LazyArray):
        return xr.Dataset({obj.name or "data": (obj.dims, obj.to_dask(), obj.attributes)})
    if isinstance(obj, np.ndarray) or hasattr(obj, "__dask_graph__"):
        if any(n != n for sizes in getattr(obj, "chunks", ()) for n in sizes):  # noqa: PLR0124 - not a number
            raise OptionError(
                "the array has chunks of unknown lengths, which only a Zarr store takes; or find them with "
                "array.compute_chunk_sizes()"
            )
        dims = [f"dim_{d}" for d in range(obj.ndim)]
        return xr.Dataset({"data": (dims, obj)})
    raise OptionError(
        f"an object of type {type(obj).__name__} cannot be written; give a dataset, a named DataArray, an Aggregation, "
        "what cfagg.open_array returned or an array of dask"
    )
