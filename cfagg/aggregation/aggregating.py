"""`aggregate`: many files as one labelled, lazy dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cfagg.cf.joining import Options
from cfagg.display.sizes import count_text
from cfagg.errors import CfaggError, OptionError
from cfagg.errors.arguments import closest, flags, paths, shared
from cfagg.errors.extras import check_chunks
from cfagg.formats.values.locks import LIBRARY
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

    from cfagg.aggregation.output import Output
    from cfagg.aggregation.report import Report
    from cfagg.aggregation.scanning import Scanner
    from cfagg.arrays.joined_source import JoinedSource
    from cfagg.writing.plan import OnLoss

__all__ = ["Made", "aggregate", "output_of", "put_together"]


@LIBRARY.keeping_files()
def aggregate(
    files: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    append: bool = False,
    update: bool = False,
    index: bool | str | os.PathLike[str] = True,
    to: str | None = None,
    on_loss: OnLoss = "error",
    overwrite: bool = False,
    relative_to: str | os.PathLike[str] | None = None,
    as_tree: bool = False,
    skip_errors: bool = False,
    client: Any = None,
    chunks: Any = None,
    missing: Literal["error", "fill"] = "error",
    workers: int | None = None,
    substitutions: Mapping[str, str] | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    progress: Any = None,
    **options: Any,
) -> Dataset | DataTree:
    """Open many files as one labelled, lazy dataset, joined by the aggregation rules of CF.

    Only metadata are used: variables of several files form one array if their coordinates differ along one axis only.
    This is repeated with the result, so files may be split along several axes. Only values of coordinates are read.

    Parameters
    ----------
    files : str, path-like, or iterable of these
        NetCDF, PP, Zarr and aggregation files, in any mixture and order: paths, URLs, patterns such as ``"data/*.nc"``,
        and directories, which include all such files in and below them.
    output : path, optional
        Also write an aggregation file, with all coordinates inside, that refers to the files.
    append, update : bool
        Add to the existing aggregation at `output` without scanning its files again; also update files that changed.
    index : bool or path
        Write an index beside `output` and use it for reading; or without `output`, the path of an index to use.
    to, on_loss, overwrite, relative_to
        How `output` is written, as by `cfagg.write`.
    as_tree : bool
        Return a DataTree in which all arrays keep the names that they have in their files: arrays that do not belong
        together are in separate groups.
    skip_errors : bool
        Continue without files that cannot be read; the report lists them.
    client : distributed.Client or str, optional
        A Dask cluster that scans the files, or its address.
    chunks, missing, workers, allow, storage_options, substitutions
        As for `cfagg.read`.  The files may be read wherever they are; `allow` restricts what they may refer to.
    progress : callable, optional
        Called with the number of scanned files and the total.
    **options
        The options of the aggregation rules, such as ``relaxed_identities`` or ``on_overlap``, which are listed on the
        page on aggregating files; and those of `xarray.open_dataset` for decoding values.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Its variables are lazy. They have the names used in the first file of each array, numbered if several arrays
        have the same name. Its ``.cfagg.report`` explains how each array was made, and why others are separate.

    Raises
    ------
    SourceError
        If a file cannot be read, or there are none.
    OptionError
        If options are unknown, invalid, or contradict each other.
    FragmentMismatchError
        When values are read from a file that changed since it was scanned; other errors as for `cfagg.read`.

    Examples
    --------
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> ds = cfagg.aggregate(sample("sst"))
    >>> dict(ds["surface_temperature"].sizes)
    {'time': 54, 'latitude': 18, 'longitude': 108}
    """
    import xarray

    from cfagg.aggregation.accessor import with_report
    from cfagg.aggregation.scanning import Scanner
    from cfagg.labelled.engine import tree_of
    from cfagg.labelled.indexes import IndexingEntrypoint
    from cfagg.labelled.undecodable import refuse_undecodable

    check_chunks(chunks)
    flags(append=append, update=update, overwrite=overwrite, as_tree=as_tree, skip_errors=skip_errors)
    shared(
        storage_options=storage_options,
        substitutions=substitutions,
        progress=progress,
        workers=workers,
        on_loss=on_loss,
    )
    known = {f.name for f in fields(Options)}
    rules = {name: options.pop(name) for name in list(options) if name in known}
    _check_decoding(options)
    allowed = paths(allow)
    scanner = Scanner(Options(**rules), storage_options, allowed, skip_errors, client, workers, progress)
    place = output_of(
        output, scanner, append=append, update=update, index=index, to=to, on_loss=on_loss, overwrite=overwrite,
        relative_to=relative_to,
    )  # fmt: skip
    made = put_together(files, scanner, place, index=index, as_tree=as_tree)
    opened: Any = made.source  # xarray passes it on to the engine unchanged
    decoding = {
        "engine": IndexingEntrypoint,
        "create_default_indexes": False,
        "missing": missing,
        "workers": workers,
        "substitutions": substitutions,
        "allow": allowed,
        "index": made.index,
        **options,
    }
    groups = {}
    for path in made.source.group_paths():
        try:
            groups[path] = xarray.open_dataset(opened, group=path, chunks=chunks, **decoding)
        except ValueError as error:
            if not isinstance(error, CfaggError):
                refuse_undecodable(error, opened, made.where, path, decoding)
            raise
    with_report(groups["/"], made.report)
    return tree_of(groups) if as_tree else groups["/"]


class Made(NamedTuple):
    """The source that files were joined into, its report, and the index used for reading it."""

    source: JoinedSource
    report: Report
    index: Any

    def where(self, variable: str, raw: Dataset) -> str:
        """Return the files of a variable, if they are those of one array, or else of all."""
        using = {n for n, v in raw.data_vars.items() if variable in (n, *v.coords)}
        for group in self.report.groups:
            if group.name.rpartition("/")[2] in using:
                more = group.files.count - 1
                return f"{group.files.first[0]}" + (f" and {count_text(more, 'other file')}" if more else "")
        return self.source.path


def output_of(
    output: Any,
    scanner: Scanner,
    *,
    append: bool = False,
    update: bool = False,
    index: Any = True,
    to: str | None = None,
    on_loss: OnLoss = "error",
    overwrite: bool = False,
    relative_to: Any = None,
) -> Output | None:
    """Return where and how an aggregation is written, checked; `None` if `output` is not given."""
    if output is None:
        given = {"append": append, "update": update, "to": to, "relative_to": relative_to, "overwrite": overwrite}
        if asked := [name for name, value in given.items() if value is not None and value is not False]:
            raise OptionError(f"{asked[0]}= concerns a written file: name it with output=")
        return None
    if not isinstance(index, bool):
        raise OptionError("index: the index of an aggregation file that is written is beside it: give True or False")
    from cfagg.aggregation.output import Output
    from cfagg.writing.writing import target_of

    target = target_of(output, to, on_loss, relative_to, overwrite=overwrite, netcdf="CF-1.13", argument="output")
    place = Output(target, scanner, append, update, index is not False)
    place.check()
    return place


def put_together(
    files: Any, scanner: Scanner, place: Output | None = None, *, index: Any = True, as_tree: bool = False
) -> Made:
    """Scan files, join their variables, and write the result to `place` if given; xarray is not loaded."""
    from cfagg.aggregation.building import build
    from cfagg.aggregation.files import itself
    from cfagg.aggregation.joining import join_files
    from cfagg.aggregation.report import Report
    from cfagg.writing.replacing import holds_values

    several = isinstance(files, Iterable) and not isinstance(files, str | bytes | os.PathLike | Mapping)
    if several and not hasattr(files, "read"):
        # Iteration over an array without dimensions is an error, though its type is iterable.
        files = list(files) if getattr(files, "shape", None) != () else files
    if place is None:
        source = build(join_files(scanner.scan(scanner.meant(files)), scanner.rules), as_tree=as_tree)
        return Made(source, Report(*source.made), index)
    without = str(place.target.url or place.target.path)
    named = scanner.meant(files, [without]) if not place.update or files not in ([], ()) else []
    if place.target.overwrite and place.target.url is None and holds_values(place.target.path):
        out = itself(without)
        if any(itself(one) == out for one in scanner.meant(files)):
            raise OptionError(
                f"{without} is one of the files, and its values would be lost: give the output another name"
            )
    source, written = place.write(named)
    if as_tree:
        source = build(source.made[0], as_tree=True)
    joined, names, dropped = source.made
    return Made(source, Report(joined, names, dropped, written.losses, written.notes), _index_of(place))


def _index_of(place: Output) -> str | bool:
    """Return the index that was written with an aggregation file."""
    name = place.beside
    if isinstance(name, Url):
        return name if place.index and not handles.lacks(name) else False
    return name if place.index and os.path.isfile(name) else False  # noqa: PTH113


#: Options of `xarray.open_dataset` for decoding values.
_DECODING = (
    "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "drop_variables", "use_cftime",
    "decode_timedelta",
)  # fmt: skip


def _check_decoding(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - set(_DECODING))
    if unknown:
        near = "".join(closest(name, [*(field.name for field in fields(Options)), *_DECODING]) for name in unknown)
        meant = near or "; the documentation of aggregating lists all options"
        raise OptionError(f"aggregate has no option {', '.join(map(repr, unknown))}{meant}")
