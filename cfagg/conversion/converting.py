"""The conversion from beginning to end: the request is checked, then given to the writer of its target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cfagg.conversion.options import DEFAULT_MEMORY, Options
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request, refuse_options
from cfagg.errors import OptionError
from cfagg.errors.arguments import a_path, paths, texts
from cfagg.errors.extras import require
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.targets import DIALECTS, kind_of
from cfagg.storage.urls import a_place

if TYPE_CHECKING:
    from cfagg.conversion.dry_run import DryRun
    from cfagg.writing.report import Report as AggregationReport

__all__ = ["convert"]

#: Options that say nothing to an aggregation file, which refers to values in their files.
_NOT_OF_DIALECTS = frozenset(
    {
        "zarr_format",
        "chunks",
        "shards",
        "packing",
        "codec",
        "level",
        "missing",
        "resume",
        "verify",
        "workers",
        "memory",
        "client",
        "dry_run",
        "region",
    }
)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    variables: Sequence[str] | None = None,
    zarr_format: int = 3,
    chunks: str | Mapping[str, int] = "auto",
    shards: Mapping[str, int] | None = None,
    packing: str = "keep",
    codec: str | None = "auto",
    level: int | None = None,
    allow: Sequence[str | os.PathLike[str]] = (),
    missing: str = "error",
    word_size: int | None = None,
    substitutions: Mapping[str, str] | None = None,
    on_loss: str = "error",
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = False,
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
    progress: Callable[[int, int], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    to: str | None = None,
    relative_to: str | os.PathLike[str] | None = None,
    client: Any = None,
    dry_run: bool = False,
    region: Mapping[str, slice] | None = None,
) -> Report | AggregationReport | DryRun:
    """Convert an aggregation, a netCDF or PP file, or a Zarr store into a new Zarr store with the same values.

    The target may also be a netCDF-4 file, an Icechunk repository, or an aggregation file: see `to`.  What is
    written is built beside the target and moved into place when it is complete, so the target is never half written.
    Memory is bounded, whatever the size.

    Parameters
    ----------
    source : path
        A netCDF file, with or without aggregations, or the directory of a Zarr store; or the URL of one of these.
    target : path
        Directory of the store; it must not exist, unless `overwrite`.  Or its URL in an object store, ``s3://``,
        ``gs://`` or ``az://``: there, chunks are written in their places, and metadata last; repositories of Icechunk
        are written in S3.
    variables : sequence of str, optional
        Names, or paths in groups; what they refer to (coordinates, bounds, …) comes with them.  By default all.
    zarr_format : {3, 2}
        Version of the Zarr format.
    chunks : {"auto", "partitions"} or mapping
        ``"auto"`` makes chunks of about 4 MiB that follow the source.  ``"partitions"`` makes each partition a chunk: a
        rectilinear grid (Zarr v3 only) where they differ in size.  A mapping gives lengths by dimension name, -1 for
        the whole dimension.
    shards : mapping, optional
        Lengths of shards by dimension name (Zarr v3 only): objects that hold several chunks each, so that a store of
        many small chunks has few files.  They are multiples of the lengths of chunks, -1 for the whole dimension; along
        other dimensions a shard is one chunk long.  A shard is made in memory.
    packing : {"keep", "decode"}
        ``"keep"`` writes packed integers as stored, including those of partitions that are all packed alike.
        ``"decode"`` writes the floats that they represent.
    codec : {"auto", "zstd", "blosc", "gzip", "none"}
        Compression; ``"auto"`` is zstd in Zarr, and in netCDF-4 that of the source where it is gzip (deflate) or none.
    level : int, optional
        Compression level; by default 1 for zstd, 5 for the others.
    allow : sequence of path
        Directories outside that of `source` in which partitions may lie, or links of a Zarr store may lead to.
    missing : {"error", "fill"}
        What to do about partitions whose file is missing.
    word_size : {1, 4, 8}, optional
        Bytes by which addresses in PP files count; by default the structure of each file decides.
    substitutions : mapping of str to str, optional
        What is put in place of ``${base}`` in names of files, as for `cfagg.read`.
    on_loss : {"error", "drop", "materialise"}
        What to do about an aggregation that cannot be read: raise, or leave it out and list it in the report's
        ``losses``.  And about what a dialect cannot say, as for `cfagg.write`.
    overwrite : bool
        Replace an existing Zarr store, or discard an unfinished conversion.  The old store stays until the new one is
        complete; in an object store it is removed first, with a warning.
    resume : bool
        Finish a killed or failed run with the same options; start from the beginning if there is none, as there never
        is of netCDF files and Icechunk repositories.
    verify : bool
        Read everything back with zarr-python and compare checksums before the store is put in place.
    workers : int, optional
        Threads; by default two more than there are processors.
    memory : int or str
        Memory for values while they are converted, such as ``"512MiB"``, in addition to that of the libraries.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of values.
    storage_options : mapping, optional
        Of the source's URL, as for `cfagg.read`.
    target_options : mapping, optional
        Of the target's URL, likewise.
    to : {"zarr", "netcdf", "icechunk", "CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"}, optional
        What to write, by default what the name of the target says: a Zarr store, netCDF-4 in ``.nc``, a commit of
        Icechunk in ``.icechunk``, or NCA-0.1 in ``.nca``. To netCDF, chunks and compression are those of the source
        where it can have them; what it cannot say is refused, or left out with `on_loss` ``"drop"``. An aggregation
        file in another dialect refers to the same partitions, and its ordinary variables are copied; values of Zarr
        stores go to fragments beside it, and those of PP files where the dialect cannot refer to them. Of the other
        options only `variables`, `allow`, `word_size`, `substitutions`, `on_loss`, `overwrite` and `storage_options`
        count.
    relative_to : path, optional
        Directory at which references of an aggregation file start, by default its own; ``"/"`` makes them absolute.
    client : distributed.Client or str, optional
        Dask cluster whose workers read, encode and write, or the address of its scheduler.  They see the source, and a
        target that is a directory, by the same paths.  `memory` is then for each worker; `workers` has no meaning.
        Refused of netCDF files, which one process writes.
    region : mapping of str to slice, optional
        Write into this part of a Zarr store that is there, such as ``{"time": slice(31, 59)}``, in its chunks and
        codecs.  The part is on edges of chunks (or shards), and values mean the same: units, packing and fill values
        are those of the store.  Arrays without these dimensions, and those whose chunks the part would cut, must
        have the same values already.  Nothing is written where something is refused; each chunk is replaced at once;
        after a run that was killed the same call completes it.  Several processes may write several parts.  Workers of
        `client` write parts that end with a full chunk.
    dry_run : bool
        Only say what would be done (of Zarr stores): the headers of the source are read (of a `region` also what has to
        be there already), and nothing is written.

    Returns
    -------
    Report
        What was written; of an aggregation file a report as of `cfagg.write`.  Of a dry run what would be: a `DryRun`
        with ``bytes_in``, ``bytes_out``, ``tasks`` and ``memory_per_worker``.

    Raises
    ------
    SourceError
        If the source cannot be understood.
    LossError
        If the dialect of an aggregation file cannot say something, with `on_loss` ``"error"``.
    UnreadableAggregationError
        If an aggregation cannot be read, unless `on_loss` says to leave it out or `variables` chooses others.
    TargetExistsError, TargetError
        If the target exists or cannot be written (disk full, read-only).
    FragmentNotFoundError, FragmentReadError, FragmentMismatchError, ConformError
        If a partition is not what the aggregation says.
    UnsupportedError, LimitError, SelectionError
        If the request cannot be fulfilled.

    Examples
    --------
    >>> import netCDF4, tempfile, zarr
    >>> folder = tempfile.mkdtemp()
    >>> with netCDF4.Dataset(f"{folder}/a.nc", "w") as nc:
    ...     _ = nc.createDimension("x", 3)
    ...     nc.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]
    >>> report = convert(f"{folder}/a.nc", f"{folder}/a.zarr")
    >>> report.variables, report.bytes
    (('v',), 12)
    >>> zarr.open_group(f"{folder}/a.zarr", mode="r")["v"][:]
    array([1., 2., 3.], dtype=float32)
    """
    asked = locals()
    name = a_path(target, "target", expected="name a directory for the store")
    changes = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    kind = kind_of(name, to, netcdf="netcdf")
    given = _given(asked)
    if kind in DIALECTS:
        why = f"{name} is an aggregation file in {kind}, which refers to values in their files"
        refuse_options([option for option in given if option in _NOT_OF_DIALECTS], why)
        from cfagg.writing.writing import target_of, translate

        file = target_of(name, kind, on_loss, relative_to, overwrite=overwrite, netcdf=kind, options=target_options)
        place_of = a_place(source, storage_options, paths(allow), name="source")
        return translate(
            place_of, file, variables=variables, allow=paths(allow), word_size=word_size, substitutions=changes
        )
    options = Options.build(
        variables=variables,
        zarr_format=zarr_format,
        chunks=chunks,
        shards=shards,
        packing=packing,
        codec=codec,
        level=level,
        missing=missing,
        on_loss=on_loss,
        word_size=word_size,
        substitutions=changes,
    )
    # Some threads wait for the disk, which takes chunks of a megabyte past the page cache, while others work.
    threads, budget = worker_count(workers, spare=2), parse_size(memory)
    if client is not None:
        require("conversions on a Dask cluster (client=)", "distributed")
        if workers is not None:
            raise OptionError("workers= are threads of this process, and client= is a Dask cluster; give one of them")
    request = Request(
        source=a_place(source, storage_options, paths(allow), name="source"),
        target=target,
        options=options,
        given=given,
        allow=tuple(paths(allow)),
        workers=threads,
        memory=budget,
        overwrite=overwrite,
        resume=resume,
        verify=verify,
        progress=progress,
        target_options=target_options,
        client=client,
        threads=threads,
        dry_run=dry_run,
    )
    request.refuse(frozenset({"relative_to"}), f"{name} holds the values itself")
    if kind != "zarr" or region is None:
        request.refuse(frozenset({"region"}), f"{name} is not an existing Zarr store")
    else:
        from cfagg.conversion.region import a_region, write_region

        return write_region(request, a_region(region))
    if kind == "zarr":
        from cfagg.conversion.to_zarr import to_zarr

        return to_zarr(request)
    if kind == "netcdf":
        from cfagg.conversion.to_netcdf import write_netcdf

        return write_netcdf(request)
    from cfagg.conversion.to_icechunk import write_icechunk

    return write_icechunk(request)


def _given(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the options that differ from their defaults."""
    defaults: Mapping[str, Any] = convert.__kwdefaults__ or {}
    return tuple(n for n, default in defaults.items() if type(asked[n]) is not type(default) or asked[n] != default)
