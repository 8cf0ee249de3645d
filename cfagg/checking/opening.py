"""Opening whatever is to be checked: a path, a URL, or an object of another library."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from cfagg.checking.options import Options
from cfagg.errors import SourceError
from cfagg.formats import cdl
from cfagg.formats.metadata.standard_input import StandardInput, saved_input
from cfagg.formats.opening import EXPECTED, HEAD, NETCDF, a_name, built_in, not_netcdf
from cfagg.formats.values.kinds import kind
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.model.dataset import Dataset, Variable
from cfagg.storage.files import Handle, open_regular

if TYPE_CHECKING:
    import numpy.typing as npt

    from cfagg.arrays.reader import Reader
    from cfagg.formats.metadata.zarr import ZarrValues

__all__ = ["open_dataset", "open_file"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOCAL = re.compile(r"file://(?:localhost)?/", re.IGNORECASE)


def open_dataset(source: Any, *, options: Options | None = None) -> Dataset:
    """Return the model of a dataset, to be closed or used in a ``with`` statement.

    It may be a path or URL of a netCDF or CDL file or of Zarr; an `xarray.Dataset`, `xarray.DataArray` or
    `xarray.DataTree`; an open `netCDF4.Dataset`, `h5py.File` or `zarr.Group`.
    """
    dataset = _open(source, options or Options())
    try:
        return _with_readers(_with_aggregations(dataset))
    except BaseException:
        if dataset.close is not None:
            dataset.close()
        raise


def open_file(path: str, name: str) -> Dataset:
    """Return the model of one file, called `name`, which may be open already; to be closed, as of `open_dataset`."""
    dataset = _with_readers(_with_aggregations(_file(path, name, foreign=False)))
    dataset.path = name
    return dataset


def _with_aggregations(dataset: Dataset) -> Dataset:
    """Give aggregation variables the dimensions of the arrays that they stand for."""
    from cfagg.formats.metadata import aggregation

    aggregation.aggregated(dataset)
    return dataset


def _with_readers(dataset: Dataset) -> Dataset:
    """Let numbers and texts of files and of Zarr be read by readers, which are made when the first are asked for."""
    kinds: Any = OpenVariable
    if "zarr" in dataset.format:
        from cfagg.formats.metadata.zarr import ZarrValues

        kinds = (OpenVariable, ZarrValues)
    for variable in dataset.variables:
        values: Any = variable.read
        if isinstance(values, kinds) and variable.kind != "other":
            variable.read = _Values(variable, values, dataset.source)
    return dataset


class _Values:
    """Reads hyperslabs of a variable by its reader."""

    __slots__ = ("_source", "_values", "_variable", "reader")

    def __init__(self, variable: Variable, values: OpenVariable | ZarrValues, source: str) -> None:
        self._variable, self._values, self._source = variable, values, source
        self.reader: Reader | None = None

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        if isinstance(self._values, OpenVariable):
            self.reader = self.reader or self._open_reader(self._values)
            return self.reader.read(slices)
        from cfagg.formats.metadata.zarr import reading

        with reading(self._values.where):
            self.reader = self.reader or self._zarr_reader(self._values)
            if not slices and self.reader.shape == (1,):  # NCZarr writes a scalar as an array of one element
                return self.reader.read((slice(0, 1),)).reshape(())
            return self.reader.read(slices)

    def _zarr_reader(self, values: ZarrValues) -> Reader:
        from cfagg.arrays.chunked import local_reader

        v = self._variable
        values.limited()
        found = local_reader(values.store, values.path) if v.is_numeric else None
        fits = found is not None and found.dtype == v.dtype and found.shape in (values.shape, values.shape or (1,))
        return found if found is not None and fits else self._open_reader(values)

    def _open_reader(self, values: OpenVariable | ZarrValues) -> Reader:
        from cfagg.arrays.slabs import OpenReader
        from cfagg.cf.header import Header

        v = self._variable
        dims, shape = tuple(d.name for d in v.stored), tuple(d.size for d in v.stored)
        header = Header(self._source, v.path, dims, shape, v.dtype)
        return OpenReader(header, values, f"{self._source}: {v.path}")


def _open(source: Any, options: Options) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, StandardInput):
        return _standard_input(str(source))
    if isinstance(source, bytes):
        source = os.fsdecode(source)
    if isinstance(source, str) and _LOCAL.match(source):
        return _path(_local(source), options)
    if isinstance(source, str) and _URL.match(source):
        from cfagg.formats.metadata.url import open_url

        given = None if options.storage is None else options.storage.given
        return open_url(source, options.allow, options.timeout, given, _not_netcdf)
    if isinstance(source, str | os.PathLike):
        return _path(os.fspath(source), options)
    from cfagg.formats.metadata.objects import open_object

    return open_object(source)


def _not_netcdf(handle: Handle) -> Dataset | None:
    """Return the dataset of a file on another machine in a format of cfagg's own that is not netCDF."""
    from cfagg.formats.plugins import foreign_format

    own = built_in(handle)
    plugin = None if own is None else foreign_format(handle, handle.some(HEAD, 0))
    return None if plugin is None else plugin.open(handle)


def _local(url: str) -> str:
    """Return the path of a URL of a file, without the options for the netCDF library behind it.

    >>> _local("file:///data/a%20b.zarr#mode=nczarr,file")
    '/data/a b.zarr'
    """
    from urllib.parse import unquote

    return unquote(_LOCAL.sub("/", url).partition("#")[0])


def _path(path: str, options: Options) -> Dataset:
    path = a_name(path)
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more
        from cfagg.formats.metadata.zarr import open_zarr

        return open_zarr(path, [a for a in options.allow if "://" not in a])
    return _file(path, path)


def _standard_input(name: str) -> Dataset:
    """Return the dataset on standard input, which has no name and no place of its own."""
    path = saved_input()
    try:
        dataset = _file(path, name)
    except BaseException:
        os.unlink(path)  # noqa: PTH108
        raise
    inner = dataset.close

    def close() -> None:
        try:
            if inner is not None:
                inner()
        finally:
            os.unlink(path)  # noqa: PTH108

    dataset.close, dataset.path = close, None
    return dataset


def _file(path: str, name: str, *, foreign: bool = True) -> Dataset:
    """Return the dataset in a file, which messages call by a name; it is opened once.

    With `foreign` it may be of a format of a plug-in: such files can be checked, but not read as partitions.
    """
    handle = _regular(path, name)
    try:
        head = handle.some(HEAD, 0)
        form = built_in(handle, head=head)
        if form is None and path.endswith(".cdl") and not kind(head):
            form = cdl.FORMAT
        if form is not None and form.name in NETCDF:
            dataset = form.open(handle)
            dataset.path = path
            return dataset
        if foreign or form is not None:
            from cfagg.formats.plugins import foreign_format

            plugin = foreign_format(handle, head)
            if plugin is not None:
                dataset = plugin.open(handle)
                dataset.path = path
                return dataset
    except BaseException:
        handle.close()
        raise
    handle.close()
    raise SourceError(not_netcdf(name, head, EXPECTED))


def _regular(path: str, name: str) -> Handle:
    """Return a regular file under the name that messages call it; nothing else is opened."""
    try:
        handle = open_regular(path)
    except SourceError as error:
        if path == name:
            raise
        raise type(error)(error.message.replace(path, name)) from error
    handle.key = handle.key._replace(path=name)
    return handle
