"""Creating indexes of coordinates in linear time; xarray itself takes time quadratic in their number."""

from __future__ import annotations

from typing import Any

from xarray import Coordinates, Dataset
from xarray.indexes import PandasIndex

from cfagg.labelled.engine import CfaggBackendEntrypoint

__all__ = ["IndexingEntrypoint", "with_indexes"]


class IndexingEntrypoint(CfaggBackendEntrypoint):
    """The engine for callers with ``create_default_indexes=False``, for whom it has already created them."""

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> Dataset:
        """Open one group of a file."""
        return with_indexes(super().open_dataset(filename_or_obj, **options))


def with_indexes(ds: Dataset) -> Dataset:
    """Return a dataset with the indexes that `xarray.open_dataset` creates: for dimension coordinates."""
    variables = dict(ds.variables)
    made, indexes = {}, {}
    for name in ds.coords:
        own = variables.pop(name)
        if own.dims == (name,):
            indexes[name] = PandasIndex.from_variables({name: own}, options={})
            own = indexes[name].create_variables({name: own})[name]
        made[name] = own
    out = Dataset(variables, Coordinates(made, indexes=indexes), ds.attrs)
    out.encoding = ds.encoding
    return out
