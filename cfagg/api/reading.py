"""Functions for analysis code: `read` a file as an xarray Dataset, `open_aggregation` for its metadata only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, cast

from cfagg.errors import (
    CfaggError,
    OptionError,
    SourceError,
    UnknownConventionWarning,
    UnreadableAggregationError,
    UnsupportedError,
)
from cfagg.errors.arguments import a_path, a_text, closest, names, paths, some, texts
from cfagg.errors.extras import check_chunks
from cfagg.formats.opening import HEAD, KERCHUNK, ZIP, format_of, format_of_head, is_referring, is_repository, is_store
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Aggregation
from cfagg.runtime.budget import worker_count
from cfagg.storage.urls import Url, a_place, absolute, is_url

if TYPE_CHECKING:
    from xarray import Dataset
    from xarray.backends import BackendEntrypoint

__all__ = ["open_aggregation", "read"]


@LIBRARY.keeping_files()
def read(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    variables: str | Iterable[str] | None = None,
    chunks: Any = None,
    group: str | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    missing: Literal["error", "fill"] = "error",
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    substitutions: Mapping[str, str] | None = None,
    index: bool | str | os.PathLike[str] = True,
    **options: Any,
) -> Dataset:
    """Open a file as one labelled, lazy dataset, however many files its values are in.

    Parameters
    ----------
    path : str or path-like, or iterable of these
        An aggregation file, a plain netCDF file, a PP file, or a Zarr store: a path, or a URL ``https://``, ``s3://``,
        ``gs://`` or ``az://``.  Several of them, or a pattern such as ``"data/*.nc"``, are joined as by
        `cfagg.aggregate`.
    variables : str or iterable of str, optional
        Variables to keep, with their coordinates; all by default.
    chunks : optional
        As in `xarray.open_dataset`: `None` reads when indexed and without dask, ``{}`` gives dask arrays whose chunks
        are the partitions.
    group : str, optional
        A group of the file; the root by default.
    allow : iterable of str or path-like
        Directories or files from which partitions may be read, besides the aggregation file's own directory.
    missing : {"error", "fill"}
        What to do if values are read from a partition whose file is missing: raise, or return missing values.
    workers : int, optional
        Threads that one read may use; by default the number of available processors, at most 8.
    storage_options : mapping, optional
        For a URL: options for its server, such as ``{"skip_signature": True}``; all are listed on the page on remote
        data. Other settings are taken from the environment, as in other tools.
    substitutions : mapping of str to str, optional
        Replacements of ``${base}`` in names of fragments (CFA-0.6.2), by `base`; they override those of the aggregation
        file, so that fragments that have moved are found.
    index : bool or path-like
        The byte-offset index to use for reading fragments: its file, or `True` for the one beside the aggregation file
        if it exists, or `False` for none.
    **options
        Passed to `xarray.open_dataset`, for instance ``decode_times`` or ``mask_and_scale``; and ``word_size`` (1, 4 or
        8), the unit in bytes of field addresses in PP files, if it should not be detected.

    Returns
    -------
    xarray.Dataset
        Its variables are lazy: indexing them reads only the partitions, and the hyperslab of each, that are needed.

    Raises
    ------
    SourceError
        If the file does not exist, or is neither netCDF nor Zarr.
    UnreadableAggregationError
        If a variable is an aggregation that cannot be read, and `variables` does not exclude it.
    ConventionError
        If the packing of a variable is not a single number, and `variables` does not exclude it.
    OptionError
        If there is no such option.
    FragmentNotFoundError, FragmentReadError, FragmentMismatchError, AccessError, ConformError
        If values are read whose partition is missing, damaged, different from its description in the aggregation,
        outside of the allowed places, or cannot be conformed to the master array.

    Examples
    --------
    >>> import cfagg
    >>> ds = cfagg.read("temperature.nca")  # doctest: +SKIP
    >>> ds.tas.sel(time="2000-01").mean("time")  # doctest: +SKIP
    """
    check_chunks(chunks)
    import xarray

    import cfagg.api.accessor  # noqa: F401  registers ds["tas"].cfagg
    from cfagg.cf.unpackable import UnpackableError

    if group is not None:
        a_text(group, "group", "the path of a group")
    if "engine" in options:
        raise OptionError("engine: read finds out what the file is; for another engine use xarray.open_dataset")
    if not _is_single(path):
        from cfagg.aggregation.aggregating import aggregate

        if group is not None:
            raise OptionError("group: the variables of several files are joined in one group; leave it out")
        given = {"missing": missing, "workers": workers, "substitutions": substitutions, "index": index, **options}
        several = cast("Dataset", aggregate(path, chunks=chunks, allow=allow, storage_options=storage_options, **given))
        return several if variables is None else _chosen(several, list(names(variables, "variables")), "files")
    allow = paths(allow)
    worker_count(workers)
    name = a_place(path, storage_options, allow)
    engine = _engine(name, allow)
    if engine == "cfagg":
        from cfagg.labelled.engine import CfaggBackendEntrypoint
        from cfagg.labelled.indexes import IndexingEntrypoint

        _check_options(options, CfaggBackendEntrypoint)
        own = {"allow": allow, "missing": missing, "workers": workers, "substitutions": substitutions, "index": index}
        if "create_default_indexes" in options:
            options = {"engine": CfaggBackendEntrypoint, **own, **options}
        else:
            options = {"engine": IndexingEntrypoint, "create_default_indexes": False, **own, **options}
    elif engine == "zarr":
        from cfagg.labelled.zarr import ZarrEntrypoint

        _check_options(options, ZarrEntrypoint)
        # A store without consolidated metadata is valid, and no reason for xarray's warning.
        own = {"consolidated": _is_consolidated(name, allow), "chunked": chunks is not None}
        options = {"engine": ZarrEntrypoint, "allow": allow, "workers": workers, **own, **options}
    else:
        options = {"engine": engine, **options}
    kept = None if variables is None else list(names(variables, "variables"))
    lost: list[str] = []
    while True:
        try:
            dataset: Dataset = xarray.open_dataset(name, chunks=chunks, group=group, **options)
            break
        except (UnreadableAggregationError, UnpackableError) as error:
            found = [path.rpartition("/")[2] for path in error.variables]
            if kept is None or not found or set(found) & {*kept, *lost}:
                raise
            # Others were requested, so what cannot be read is left out by choice.
            lost += found
            options["drop_variables"] = [*_listed(options.get("drop_variables")), *found]
        except (ValueError, CfaggError) as error:
            if kept is not None and engine == "zarr" and os.path.isdir(name):  # noqa: PTH112
                from cfagg.labelled.zarr import unreadable_beside

                found = unreadable_beside(name, group, kept, options)
                if found:
                    lost += found
                    options["drop_variables"] = [*_listed(options.get("drop_variables")), *found]
                    continue
            cause = error.__cause__ if isinstance(error, SourceError) else error
            if not isinstance(cause, ValueError) or isinstance(cause, CfaggError):
                raise
            from cfagg.labelled.undecodable import refuse_undecodable

            refuse_undecodable(error, name, name, group, options)
            raise
    if kept is None:
        return dataset
    _warn_of_missing_coordinates(dataset, kept, lost, name)
    return _chosen(dataset, kept, name)


@LIBRARY.keeping_files()
def open_aggregation(
    path: str | os.PathLike[str],
    variable: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    substitutions: Mapping[str, str] | None = None,
) -> Aggregation:
    """Return the description of an aggregation variable, without opening any partition.

    Parameters
    ----------
    path : str or path-like
        The aggregation file, or its URL.
    variable : str
        Name or path of the variable.
    storage_options : mapping, optional
        Options for a URL, as for `read`.
    substitutions : mapping of str to str, optional
        As for `read`.

    Raises
    ------
    SourceError
        If the file or variable does not exist, or the variable is not an aggregation.
    ConventionError
        If it violates its convention.

    Examples
    --------
    >>> open_aggregation("temperature.nca", "tas").grid.sizes  # doctest: +SKIP
    ((12, 36), (64,), (128,))
    """
    from cfagg.arrays.opening import open_any
    from cfagg.arrays.reference_source import aggregation_of
    from cfagg.storage.handles import handles

    a_text(variable, "variable", "the name or path of a variable")
    changes = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    place = a_place(path, storage_options)
    if isinstance(place, Url):
        handles.renew(place)  # in its current state, whatever was cached
    source = open_any(place, substitutions=changes)
    _, found = source.find(variable)
    if not isinstance(found, Aggregation) and source.format == KERCHUNK:
        found = aggregation_of(source, variable)
    if isinstance(found, Aggregation):
        # Its references start at its file, wherever the process will be when it is written.
        return replace(found, source=absolute(found.source)) if found.source else found
    known = [
        f"{g.path.rstrip('/')}/{n}"
        for g in source.root.walk()
        for n, v in g.variables.items()
        if isinstance(v, Aggregation)
    ]
    raise SourceError(
        f"variable {variable!r} of {source.path} is not an aggregation; those in the file are: "
        f"{', '.join(known) or 'none'}"
    )


def _is_single(path: object) -> bool:
    """Return whether one file is named, rather than several or a pattern; raise an error if it is not a path."""
    if not isinstance(path, str | bytes | os.PathLike):
        if not isinstance(path, Sequence | AbstractSet | Iterator) or hasattr(path, "read"):
            a_path(path)  # raises, also for an open file, whose lines would be taken for names
        return False
    name = os.fsdecode(path)
    if not set(name) & set("*[" if is_url(name) else "*?["):
        return True
    return not is_url(name) and os.path.lexists(os.path.expanduser(name))  # noqa: PTH111


def _check_options(options: Mapping[str, Any], engine: type[BackendEntrypoint]) -> None:
    """Refuse options that neither xarray nor the engine has, for which xarray blames the file or names the engine."""
    import xarray

    own = engine.open_dataset_parameters or ()
    known = {*signature(xarray.open_dataset).parameters, *own} - {"filename_or_obj", "kwargs"}
    for name in options:
        if name not in known:
            meant = closest(name, known) or "; those of xarray.open_dataset are known"
            raise OptionError(f"read has no option {name!r}{meant}")


def _chosen(dataset: Dataset, kept: list[str], name: str) -> Dataset:
    """Return some variables of a dataset with the given name."""
    unknown = [v for v in kept if v not in dataset.variables]
    if unknown:
        dataset.close()
        others, hint = some(dataset.variables), closest(unknown[0], dataset.variables)
        raise SourceError(f"{name} has no variable {', '.join(map(repr, unknown))}; its variables are: {others}{hint}")
    return dataset[kept]


def _listed(names: str | Iterable[str] | None) -> list[str]:
    """Return one name, several or none as a list."""
    return [names] if isinstance(names, str) else list(names or ())


def _warn_of_missing_coordinates(dataset: Dataset, kept: list[str], lost: list[str], path: str) -> None:
    """Warn if variables lose a coordinate that cannot be read."""
    wanted = [dataset[v] for v in kept if v in dataset.variables]
    words = {w for v in wanted for w in str({**v.attrs, **v.encoding}.get("coordinates", "")).split()}
    words.update(str(d) for v in wanted for d in v.dims)
    missing = [name for name in lost if name in words]
    if missing:
        warnings.warn(
            f"{path}: {', '.join(map(repr, missing))} cannot be read and is left out of the coordinates of "
            f"{', '.join(map(repr, kept))}",
            UnknownConventionWarning,
            stacklevel=3,
        )


def _is_consolidated(path: str, allow: Iterable[str | os.PathLike[str]]) -> bool | None:
    """Return whether a Zarr store in a directory has consolidated metadata, or `None` if unknown."""
    if not os.path.isdir(path):  # noqa: PTH112
        return None
    if os.path.exists(os.path.join(path, ".zmetadata")):  # noqa: PTH110, PTH118
        return True
    from cfagg.formats.zarr.documents import read_document
    from cfagg.storage.tree import prefixes

    found = read_document(path, "zarr.json", path, prefixes(allow))
    return found is not None and found.content.get("consolidated_metadata") is not None


def _engine(path: str, allow: Iterable[str | os.PathLike[str]]) -> str:
    """Return the xarray engine for a path, by its content."""
    from cfagg.storage.handles import handles

    if isinstance(path, Url):
        return _remote_engine(path)
    if not os.path.isdir(path):  # noqa: PTH112
        # The pool keeps it under this name for the engine, which reads the very file that was checked.
        return "zarr" if format_of(handles.get(os.path.abspath(path))) == ZIP else "cfagg"  # noqa: PTH100
    if is_referring(path) or is_repository(path):
        return "cfagg"
    if not is_store(path):
        from cfagg.formats.metadata.stores import LocalStore
        from cfagg.formats.metadata.zarr_nodes import read_node
        from cfagg.formats.zarr.documents import no_store

        read_node(LocalStore(os.path.abspath(path), allow), "")  # noqa: PTH100 - says why it cannot be looked into
        raise SourceError(no_store(path))
    return "zarr"


def _remote_engine(url: Url) -> str:
    """Return the xarray engine for a URL."""
    from cfagg.formats.metadata.url import file_at

    handle = file_at(url, ahead=True)
    if handle is None:
        # A name that shows the format saves a request to other servers.
        return "cfagg" if not url.rstrip("/").lower().endswith(".zarr") and is_repository(url) else "zarr"
    # Finding HDF5 behind a user block takes separate requests.
    if format_of_head(handle.some(HEAD, 0)) == ZIP and format_of(handle) == ZIP:
        raise UnsupportedError(f"{url} is a Zip file, which cannot be read from another machine; copy it to this one")
    return "cfagg"
