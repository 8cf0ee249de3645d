"""Datasets in files and stores, described by the model, with values read by this package's readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cfagg.errors import SourceError
from cfagg.formats import cdl, kerchunk
from cfagg.formats.opening import EXPECTED, HEAD, KERCHUNK, NETCDF, built_in, not_netcdf
from cfagg.formats.values.kinds import kind
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.model.dataset import Dataset, Variable
from cfagg.storage.files import Handle

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from cfagg.arrays.reader import Reader
    from cfagg.formats.metadata.zarr import ZarrValues

__all__ = ["dataset_of", "other_than_netcdf", "referenced", "with_aggregations", "with_readers"]


def with_aggregations(dataset: Dataset) -> Dataset:
    """Give aggregation variables the dimensions of the arrays that they represent."""
    from cfagg.formats.metadata import aggregation

    aggregation.aggregated(dataset)
    return dataset


def with_readers(dataset: Dataset) -> Dataset:
    """Let numbers and texts of files and Zarr stores be read by readers, which are created on first use."""
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


def other_than_netcdf(handle: Handle, *, times: bool = False) -> Dataset | None:
    """Return the dataset of a remote file in one of cfagg's built-in formats other than netCDF."""
    from cfagg.formats.plugins import foreign_format

    own = built_in(handle)
    if own is kerchunk.FORMAT:
        return kerchunk.FORMAT.open(handle, times=times)
    plugin = None if own is None else foreign_format(handle, handle.some(HEAD, 0))
    return None if plugin is None else plugin.open(handle)


def referenced(path: str, allow: Iterable[str] = (), *, times: bool = False) -> Dataset:
    """Return the dataset of references in a directory of Parquet files to chunks in places that `allow` permits."""
    from cfagg.formats.kerchunk.store import ReferenceStore, open_references
    from cfagg.formats.metadata.zarr import open_store

    dataset = open_store(ReferenceStore(open_references(path, allow)), times=times)
    dataset.format = KERCHUNK
    return dataset


def dataset_of(handle: Handle, *, foreign: bool = True, allow: Iterable[str] = (), times: bool = False) -> Dataset:
    """Return the dataset in an open file, which is closed with it, or immediately if it cannot be read.

    With `foreign` it may be in a format of a plug-in: such files can be checked, but not read as partitions.  `allow`
    permits places, other than next to the file, that references to chunks may point to.  With `times`, those of NumPy's
    types are numbers.
    """
    name = handle.key.path
    try:
        head = handle.some(HEAD, 0)
        form = built_in(handle, head=head)
        if form is None and foreign and name.endswith(".cdl") and not kind(head):
            form = cdl.FORMAT
        if form is not None and form.name in NETCDF:
            dataset = form.open(handle)
            dataset.path = name
            return dataset
        if form is kerchunk.FORMAT:
            dataset = kerchunk.FORMAT.open(handle, allow, times=times)
            dataset.path = name
            return dataset
        if foreign or form is not None:
            from cfagg.formats.plugins import foreign_format

            plugin = foreign_format(handle, head)
            if plugin is not None:
                dataset = plugin.open(handle)
                dataset.path = name
                return dataset
    except BaseException:
        handle.close()
        raise
    handle.close()
    raise SourceError(not_netcdf(name, head, EXPECTED))
