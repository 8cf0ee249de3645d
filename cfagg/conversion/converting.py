"""The conversion from beginning to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.arrays.opening import open_any
from cfagg.arrays.source import Source
from cfagg.conversion.options import DEFAULT_MEMORY, Options
from cfagg.conversion.report import Report
from cfagg.errors import AccessError, CfaggError, OptionError, TargetError, TargetExistsError
from cfagg.errors.arguments import a_path, paths, texts
from cfagg.formats.values.pool import close_files
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.publishing import reason
from cfagg.runtime.staging import is_known
from cfagg.runtime.targets import DIALECTS, kind_of
from cfagg.runtime.workplace import Workplace
from cfagg.storage.access import Access
from cfagg.storage.urls import Url, a_place, is_url, refuse_url

if TYPE_CHECKING:
    from cfagg.conversion.plan import Array
    from cfagg.writing.report import Report as AggregationReport

__all__ = ["convert"]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    variables: Sequence[str] | None = None,
    zarr_format: int = 3,
    chunks: str | Mapping[str, int] = "auto",
    packing: str = "keep",
    codec: str | None = "zstd",
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
) -> Report | AggregationReport:
    """Write an aggregation, any netCDF file, or another Zarr store as a Zarr store with the same values.

    Or write an aggregation file, of one in another dialect or of any of these: see `to`.  What is written is built
    beside the target and moved into place when it is complete, so the target is never half written.  Memory is bounded,
    whatever the size.

    Parameters
    ----------
    source : path
        A netCDF file, with or without aggregations, or the directory of a Zarr store; or the URL of one of these.
    target : path
        Directory of the store; it must not exist, unless `overwrite`.  Or its URL in an object store, ``s3://``,
        ``gs://`` or ``az://``: there, chunks are written in their places, and metadata last.
    variables : sequence of str, optional
        Names, or paths in groups; what they refer to (coordinates, bounds, …) comes with them.  By default all.
    zarr_format : {3, 2}
        Version of the Zarr format.
    chunks : {"auto", "partitions"} or mapping
        ``"auto"`` makes chunks of about 4 MiB that follow the source.  ``"partitions"`` makes each partition a chunk: a
        rectilinear grid (Zarr v3 only) where they differ in size.  A mapping gives lengths by dimension name, -1 for
        the whole dimension.
    packing : {"keep", "decode"}
        ``"keep"`` writes packed integers as stored, including those of partitions that are all packed alike.
        ``"decode"`` writes the floats that they represent.
    codec : {"zstd", "blosc", "gzip", "none"}
        Compression.
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
        Finish a killed or failed run with the same options; start from the beginning if there is none.
    verify : bool
        Read everything back with zarr-python and compare checksums before the store is put in place.
    workers : int, optional
        Threads; by default one per processor.
    memory : int or str
        Memory for values while they are converted, such as ``"512MiB"``, in addition to that of the libraries.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of values.
    storage_options : mapping, optional
        Of the source's URL, as for `cfagg.read`.
    target_options : mapping, optional
        Of the target's URL, likewise.
    to : {"zarr", "CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"}, optional
        What to write, by default what the name of the target says: a Zarr store, or NCA-0.1 in ``.nca``.  A file in
        another dialect refers to the same partitions, and its ordinary variables are copied; values of Zarr stores
        go to fragments beside it, and those of PP files where the dialect cannot refer to them.  Of the other options
        only `variables`, `allow`, `word_size`, `substitutions`, `on_loss`, `overwrite` and `storage_options` count.
    relative_to : path, optional
        Directory at which references of an aggregation file start, by default its own; ``"/"`` makes them absolute.

    Returns
    -------
    Report
        What was written; of an aggregation file a report as of `cfagg.write`.

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
    name = a_path(target, "target", expected="name a directory for the store")
    changes = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    kind = kind_of(name, to, netcdf="netcdf")
    if kind in DIALECTS:
        senseless = {
            "zarr_format": zarr_format != 3,
            "chunks": chunks != "auto",
            "packing": packing != "keep",
            "codec": codec != "zstd",
            "level": level is not None,
            "missing": missing != "error",
            "resume": resume,
            "verify": verify,
            "workers": workers is not None,
            "memory": memory != DEFAULT_MEMORY,
        }
        _refuse_options(senseless, f"{name} is an aggregation file in {kind}, which refers to values where they are")
        from cfagg.writing.writing import target_of, translate

        file = target_of(name, kind, on_loss, relative_to, overwrite=overwrite, netcdf=kind, options=target_options)
        place_of = a_place(source, storage_options, paths(allow), name="source")
        return translate(
            place_of, file, variables=variables, allow=paths(allow), word_size=word_size, substitutions=changes
        )
    if kind != "zarr":
        raise OptionError(
            f"{name} would be {'plain netCDF-4' if kind == 'netcdf' else 'Icechunk'}, which cannot be written yet; "
            "name a Zarr store, for instance x.zarr, or say which aggregation file is meant, such as to='CF-1.13' "
            "(--to CF-1.13)"
        )
    _refuse_options({"relative_to": relative_to is not None}, f"{name} is a Zarr store, which holds the values itself")
    options = Options.build(
        variables=variables,
        zarr_format=zarr_format,
        chunks=chunks,
        packing=packing,
        codec=codec,
        level=level,
        missing=missing,
        on_loss=on_loss,
        word_size=word_size,
        substitutions=changes,
    )
    threads, budget = worker_count(workers), parse_size(memory)
    path = a_place(source, storage_options, paths(allow), name="source")
    if is_url(os.fspath(target)) or target_options:
        there = a_place(
            target,
            target_options,
            name="target",
            expected="name a directory for the store",
            options_name="target_options",
        )
        if isinstance(there, Url):
            chosen = options, threads, budget
            return _into_objects(path, there, chosen, paths(allow), overwrite, resume, check=verify, progress=progress)
    place = Workplace(target, overwrite=overwrite, resume=resume)
    if not isinstance(path, Url) and Path(os.path.realpath(path)).is_relative_to(place.target):
        raise TargetError(f"{path} lies within {place.target}, which would replace it; choose another target")
    if os.path.isdir(path) and place.target.is_relative_to(os.path.realpath(path)):  # noqa: PTH112
        open_any(path, allow)  # a directory that is not a store is refused as that
        raise TargetError(f"{place.target} lies within the source {path}; choose another target")
    # Before anything expensive: a target that cannot be made is refused at once.
    with _working(place, resume=resume, overwrite=overwrite):
        opened = open_any(path, allow, substitutions=options.substitutions)
        access = Access(path, allow)
        return _convert(opened, access, place, options, threads, budget, check=verify, progress=progress)


def _refuse_options(given: Mapping[str, bool], why: str) -> None:
    """Refuse options that were given and make no sense."""
    found = [f"{name}=" for name, is_given in given.items() if is_given]
    if found:
        raise OptionError(f"{why}: {', '.join(found)} {'has' if len(found) == 1 else 'have'} no meaning there")


@contextmanager
def _working(place: Workplace, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Hold the work directory; say in one sentence what the system refused, and leave nothing useless behind."""
    place.enter()
    try:
        if not (resume or overwrite):
            place.check_unfinished()
        if not (resume and (place.unfinished or place.finished)):
            place.start_anew()
        yield
    except KeyboardInterrupt:
        what = f"{place.target} is complete" if is_known(lambda: place.finished) else f"{place.target} was not written"
        raise KeyboardInterrupt(f"interrupted: {what}{_tidy(place)}") from None
    except TargetExistsError:
        _tidy(place)
        raise
    except AccessError:
        # It is refused until other places are allowed; then it is another run.
        place.take_back()
        _tidy(place)
        raise
    except CfaggError:
        _tidy(place)
        raise
    except OSError as error:
        what = "may not outlive a power loss" if is_known(lambda: place.finished) else "was not written"
        raise TargetError(f"{place.target} {what}: {reason(error, place.target)}{_tidy(place)}") from error
    except BaseException:
        _tidy(place)
        raise
    finally:
        # Who converts may want to change the source next, which the libraries refuse while it is open.
        close_files()
        place.leave()


def _tidy(place: Workplace) -> str:
    """Remove a work directory in which nothing was achieved; say what remains."""
    if is_known(lambda: place.finished):
        return "; finish with resume=True (--resume)"
    if is_known(lambda: place.unfinished):
        return f"; what is done is kept, {place.remedy}"
    place.abandon_if_useless()
    return ""


def _convert(
    source: Source,
    access: Access,
    place: Workplace,
    options: Options,
    workers: int,
    memory: int,
    *,
    check: bool,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Do what `convert` describes, in a work directory that is held."""
    from cfagg.conversion.journal import Journal, digest_of, identity_of
    from cfagg.conversion.metadata import build_metadata, forget_metadata, write_metadata
    from cfagg.conversion.plan import build_plan
    from cfagg.conversion.run import cut, run
    from cfagg.conversion.verify import distrust, verify
    from cfagg.formats.zarr.written_codecs import Codec

    plan = build_plan(source, access, options, workers)
    arrays = plan.arrays
    slabs, threads = cut(arrays, memory, workers)
    codec = Codec(options.codec, options.level)
    documents = build_metadata(plan.groups, arrays, codec, options.zarr_format)
    identity = identity_of(source, access, options.identity())
    build = digest_of(identity)
    counts = [a.grid.size for a in arrays]
    resumed = 0
    if place.is_built(build):
        place.remove()
        stored = sum(_stored(a, place.target, options.zarr_format) for a in arrays)
        return plan.report(str(place.target), stored, resumed=sum(counts), verified=False)
    if place.journal.exists():
        journal = Journal.resume(place.journal, identity, counts)
        if place.finished and journal.committed:
            resumed = sum(counts)
        else:
            forget_metadata(documents, place.store)
            resumed = distrust(arrays, journal, place.store, options.zarr_format, workers, check)
    else:
        journal = Journal.create(place.journal, identity, counts)
    with closing(journal):
        if place.finished:
            place.settle()
            place.remove_after()
        else:
            run(arrays, slabs, place.store, journal, codec, options.zarr_format, threads, progress, checksums=check)
            write_metadata(documents, place.store)
            if check:
                verify(arrays, slabs, journal, place.store, threads)
            journal.commit()
            place.publish(build)
    stored = sum(int(d.size.sum()) for d in journal.done)
    return plan.report(str(place.target), stored, resumed=resumed, verified=check)


def _into_objects(
    path: str,
    target: Url,
    chosen: tuple[Options, int, int],
    allow: Sequence[str],
    overwrite: bool,
    resume: bool,
    *,
    check: bool,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Do what `convert` describes, into an object store."""
    if target.lower().startswith("http"):
        refuse_url(target, "written")
    if path.rstrip("/") == target.rstrip("/"):
        raise TargetError(f"{target} is the source, which would be replaced; choose another target")
    from cfagg.conversion.journal import identity_of
    from cfagg.conversion.metadata import build_metadata
    from cfagg.conversion.object_target import Job, write_objects
    from cfagg.conversion.plan import build_plan
    from cfagg.conversion.run import cut
    from cfagg.formats.zarr.written_codecs import Codec
    from cfagg.runtime.object_publishing import NewStore
    from cfagg.storage.objects import ObjectStore

    options, workers, memory = chosen
    place = NewStore(
        ObjectStore(target, target.options.given, options_name="target_options"), overwrite=overwrite, resume=resume
    )
    place.check()
    try:
        source, access = open_any(path, allow, substitutions=chosen[0].substitutions), Access(path, allow)
        plan = build_plan(source, access, options, workers)
        slabs, threads = cut(plan.arrays, memory, workers)
        codec = Codec(options.codec, options.level)
        documents = build_metadata(plan.groups, plan.arrays, codec, options.zarr_format)
        form = options.zarr_format
        job = Job(
            plan.arrays, slabs, documents, codec, form, threads, check, identity_of(source, access, options.identity())
        )
        stored, resumed = write_objects(place, job, progress)
    finally:
        close_files()
    return plan.report(str(target), stored, resumed=resumed, verified=check)


def _stored(array: Array, root: Path, zarr_format: int) -> int:
    """Return the bytes of the chunks of an array that stands in its place."""
    keys = (array.key(tuple(map(int, i)), zarr_format) for i in np.ndindex(array.grid.matrix_shape))
    return sum((root / key).stat().st_size for key in keys)
