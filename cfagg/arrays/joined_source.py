"""Many files together as a source: aggregations of them, and arrays in memory that describe these."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.source import OtherSource, Variable
from cfagg.cf.header import Header
from cfagg.storage.access import Access, FileStates, GrownAccess, NamedAccess

if TYPE_CHECKING:
    import os

    from cfagg.arrays.reader import Reader
__all__ = ["JoinedSource", "variable_of"]


@dataclass(frozen=True)
class JoinedSource(OtherSource):
    """The combined contents of files that the user named; `path` is their common name in messages."""

    #: By their paths, such as ``"/lat"``.
    arrays: Mapping[str, npt.NDArray[Any]] = field(kw_only=True, repr=False)
    #: State of the files when they were scanned.
    states: FileStates = field(default_factory=FileStates, kw_only=True, repr=False, compare=False)
    #: The aggregation file to which the user added files, and those already in it.
    file: str | None = field(default=None, kw_only=True, repr=False, compare=False)
    recorded: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False, compare=False)
    #: What it was made from, for its report.
    made: Any = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def is_one(self) -> bool:
        """Whether it is made from a single file."""
        return self.made is None or len(self.made[0].scanned) == 1

    @property
    def has_default_fills(self) -> bool:
        """Whether the netCDF library may have written its default fill values."""
        return False

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return self.path, uuid.uuid4().hex  # the content of the files may change each time

    def access(self, allow: Iterable[str | os.PathLike[str]] = ()) -> Access:
        """Return the policy by which fragments are read: the files that the user named, and the allowed places."""
        named = NamedAccess(self.path, allow, self.states)
        if self.file is None:
            return named
        return GrownAccess(named, Access(self.file, allow), self.recorded)

    def reader(self, group: str, variable: Variable, workers: int | None = None) -> Reader:
        """Return the reader of an array in memory."""
        from cfagg.arrays.slabs import SlabReader

        values = self.arrays[f"{group.rstrip('/')}/{variable.name}"]
        header = Header(self.path, variable.name, variable.dims, variable.shape, variable.dtype, variable.attributes)
        return SlabReader(header, partial(getitem, values), f"{self.path}, {variable.name!r}", workers=workers)


def variable_of(name: str, dims: Sequence[str], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> Variable:
    """Return the description of an array in memory."""
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "OUT":
        dtype = np.dtype(object, metadata={"element_type": str})
    return Variable(name, tuple(dims), values.shape, dtype, attributes)
