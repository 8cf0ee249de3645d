"""The conversion from beginning to end: the request is checked, then passed to the writer of its target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from cfagg.conversion.options import DEFAULT_MEMORY, Options
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request, refuse_options
from cfagg.errors import OptionError
from cfagg.errors.arguments import a_path, flags, names, paths, shared, texts
from cfagg.errors.extras import require
from cfagg.formats.values.locks import LIBRARY
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.targets import DIALECTS, kind_of
from cfagg.storage.urls import a_place

if TYPE_CHECKING:
    from cfagg.conversion.dry_run import DryRun
    from cfagg.writing.report import Report as AggregationReport

__all__ = ["convert"]

#: Options that do not apply to an aggregation file, which refers to values in their files.
_NOT_OF_DIALECTS = frozenset(
    {
        "zarr_format",
        "chunks",
        "shards",
        "packing",
        "codec",
        "level",
        "missing",
        "verify",
        "workers",
        "memory",
        "client",
        "dry_run",
        "region",
    }
)


@LIBRARY.keeping_files()
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

    The target may also be a netCDF-4 file, an Icechunk repository, or an aggregation file: see `to`. It is built beside
    its final location and moved into place when complete, so it is never half written. Memory is bounded, whatever the
    size.

    Parameters
    ----------
    source : path
        A netCDF file, with or without aggregations, or the directory of a Zarr store; or the URL of one of these.
    target : path
        Directory of the store, which must not exist unless `overwrite` is set. Or its URL in an object store,
        ``s3://``, ``gs://`` or ``az://``: there, chunks are written in place, and metadata last; Icechunk repositories
        can be written to S3.
    variables : sequence of str, optional
        Names, or paths in groups; the variables they refer to (coordinates, bounds, …) are included. By default all.
    zarr_format : {3, 2}
        Version of the Zarr format.
    chunks : {"auto", "partitions"} or mapping
        ``"auto"`` makes chunks of about 4 MiB that follow the source.  ``"partitions"`` makes each partition a chunk: a
        rectilinear grid (Zarr v3 only) if they differ in size.  A mapping gives lengths by dimension name, -1 for the
        whole dimension.
    shards : mapping, optional
        Lengths of shards by dimension name (Zarr v3 only): objects that contain several chunks each, so that a store of
        many small chunks has few files. They are multiples of the chunk lengths, -1 for the whole dimension; along
        other dimensions a shard is one chunk long. Each shard is assembled in memory.
    packing : {"keep", "decode"}
        ``"keep"`` writes packed integers as stored, including those of partitions that all have the same packing.
        ``"decode"`` writes the floats that they represent.
    codec : {"auto", "zstd", "blosc", "gzip", "none"}
        Compression; ``"auto"`` is zstd in Zarr, and in netCDF-4 that of the source if it is gzip (deflate) or none.
    level : int, optional
        Compression level; by default 1 for zstd, 5 for the others.
    allow : sequence of path
        Directories outside that of `source` that may contain partitions, or to which links of a Zarr store may lead.
    missing : {"error", "fill"}
        How to handle partitions whose file is missing.
    word_size : {1, 4, 8}, optional
        Word size of PP files in bytes, the unit of addresses; by default detected from the structure of each file.
    substitutions : mapping of str to str, optional
        Replacements for ``${base}`` in names of files, as for `cfagg.read`.
    on_loss : {"error", "drop", "materialise"}
        How to handle an aggregation that cannot be read: raise, or leave it out and list it in the report's ``losses``.
        Also how to handle what a dialect cannot express, as for `cfagg.write`.
    overwrite : bool
        Replace an existing Zarr store, or discard an unfinished conversion.  The old store stays until the new one is
        complete; in an object store it is removed first, with a warning.
    resume : bool
        Finish a killed or failed run with the same options; start from the beginning if there is none, as always for
        netCDF files and Icechunk repositories.
    verify : bool
        Read everything back with zarr-python and compare checksums before the store is moved into place.
    workers : int, optional
        Number of threads; by default two more than there are processors.
    memory : int or str
        Memory for values being converted, such as ``"512MiB"``, in addition to that of the libraries.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of values.
    storage_options : mapping, optional
        Options for the URL of the source, as for `cfagg.read`.
    target_options : mapping, optional
        Options for the URL of the target, likewise.
    to : {"zarr", "netcdf", "icechunk", "CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"}, optional
        Format of the target, by default given by its suffix: netCDF-4 for ``.nc``, an Icechunk commit for
        ``.icechunk``, NCA-0.1 for ``.nca``, else a Zarr store. In netCDF, chunks and compression are those of the
        source if possible; what it cannot express is refused, or left out with `on_loss` ``"drop"``. An aggregation
        file in another dialect refers to the same partitions, and its ordinary variables are copied; values of Zarr
        stores are written to fragments beside it, as are those of PP files if the dialect cannot refer to them. Of the
        other options, only `variables`, `allow`, `word_size`, `substitutions`, `on_loss`, `overwrite` and
        `storage_options` apply.
    relative_to : path, optional
        Base directory of references in an aggregation file, by default its own; ``"/"`` makes them absolute.
    client : distributed.Client or str, optional
        Dask cluster whose workers read, encode and write, or the address of its scheduler. They must see the source,
        and a target directory, under the same paths. `memory` is then per worker; `workers` does not apply. Not allowed
        for netCDF files, which are written by one process.
    region : mapping of str to slice, optional
        Write into this part of an existing Zarr store, such as ``{"time": slice(31, 59)}``, with its chunks and codecs.
        The part must be on chunk (or shard) edges, and values must have the same meaning: units, packing and fill
        values are those of the store. Arrays without these dimensions, and those whose chunks the part would cut, must
        already have the same values. Nothing is written if anything is refused; each chunk is replaced atomically;
        after a killed run, the same call completes it. Several processes may write different parts. Workers of `client`
        write parts that end with a full chunk.
    dry_run : bool
        Only report what would be done (for Zarr stores): the headers of the source are read (for a `region`, also what
        must already be in the store), and nothing is written.

    Returns
    -------
    Report
        A summary of what was written; for an aggregation file, a report as from `cfagg.write`; for a dry run, a
        `DryRun` with ``bytes_in``, ``bytes_out``, ``tasks`` and ``memory_per_worker``.

    Raises
    ------
    SourceError
        If the source cannot be understood.
    LossError
        If the dialect of an aggregation file cannot express something, with `on_loss` ``"error"``.
    UnreadableAggregationError
        If an aggregation cannot be read, unless `on_loss` leaves it out or `variables` excludes it.
    TargetExistsError, TargetError
        If the target exists or cannot be written (disk full, read-only).
    FragmentNotFoundError, FragmentReadError, FragmentMismatchError, ConformError
        If a partition does not match the aggregation.
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
    flags(overwrite=overwrite, resume=resume, verify=verify, dry_run=dry_run)
    shared(
        storage_options=storage_options, target_options=target_options, progress=progress, workers=workers,
        word_size=word_size,
    )  # fmt: skip
    if variables is not None:
        variables = names(variables, "variables")
    name = a_path(target, "target", expected="name a directory for the store")
    changes = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    kind = kind_of(name, to, netcdf="netcdf")
    given = _given(asked)
    if kind in DIALECTS:
        if resume:
            refuse_options(["resume"], f"{name} is written as a whole, so that no run leaves anything to resume")
        why = f"{name} is an aggregation file in {kind}, which refers to values in their files"
        refuse_options([option for option in given if option in _NOT_OF_DIALECTS], why)
        from cfagg.writing.writing import target_of, translate

        file = target_of(
            name,
            kind,
            on_loss,
            relative_to,
            overwrite=overwrite,
            netcdf=kind,
            options=target_options,
            argument="target",
        )
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
    # Some threads wait for the disk, as chunks of a megabyte bypass the page cache, while others work.
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
        grows = "only cfagg.append (cfagg append) adds to a repository of Icechunk" if kind == "icechunk" else ""
        request.refuse(frozenset({"region"}), grows or f"{name} is not an existing Zarr store")
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
    options = [p for p in signature(convert).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return tuple(p.name for p in options if type(asked[p.name]) is not type(p.default) or asked[p.name] != p.default)
