"""Reading variables by hyperslabs, values as stored: no masking, no scaling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, copy, split
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader, whole
from cfagg.arrays.subarray import Fragment, compose
from cfagg.cf.header import Header
from cfagg.errors import FragmentMismatchError, SourceError, UnsupportedError
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.formats.values.storage import StoredVariable
from cfagg.model import Grid

if TYPE_CHECKING:
    from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["OpenReader", "SlabReader", "VariableReader"]


class VariableReader(Reader):
    """A variable that is read by hyperslabs."""

    def _describe(self, header: Header) -> None:
        self.dims, self.shape, self.dtype = header.dims, header.shape, header.dtype
        self.attributes = header.attributes

    @cached_property
    def cells(self) -> Grid:
        """The array as a whole, since the functions that read hyperslabs know its chunks best."""
        return whole(self.shape)

    @abstractmethod
    def _fragment(self) -> Fragment:
        """Return the variable as currently stored."""

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        if not len(made):
            return
        fragment = self._fragment()
        found = fragment.header
        if found.shape != self.shape or found.dtype != self.dtype:
            raise FragmentMismatchError(
                f"{self.label}: it was {self.dtype} of shape {self.shape} and now is {found.dtype} of shape "
                f"{found.shape}; open the file again"
            )
        indices = [compose(range(n), s, False) for n, s in zip(self.shape, made.source(0), strict=True)]
        feeds = [(d, False) for d in range(len(indices))]
        yield from split(indices, feeds, made.target(0), fragment, out, copy)


class SlabReader(VariableReader):
    """A variable read in hyperslabs by a library or a plug-in; `slab` is called with a slice per dimension.

    For a variable in a Zarr store, `stored` locates its chunks.  For a variable of a PP file, `addresses` returns its
    file, its fields as a grid, and the address of each.
    """

    def __init__(
        self,
        header: Header,
        slab: Callable[[tuple[slice, ...]], Any],
        label: str,
        *,
        chunks: tuple[int, ...] | None = None,
        grid: Grid | None = None,
        fill: Any = None,
        addresses: Callable[[], tuple[str, Grid, npt.NDArray[np.int64] | None]] | None = None,
        workers: int | None = None,
        stored: ZarrArray | None = None,
    ) -> None:
        self._describe(header)
        self._header, self._slab, self._stored = header, slab, stored
        self.label, self.fill, self.workers, self.encoding = label, fill, workers, {}
        self.chunks, self.addresses = chunks, addresses
        self.grid = whole(self.shape) if grid is None else grid

    def __repr__(self) -> str:
        return f"<SlabReader of {self._header.variable!r} {self.shape} {self.dtype}>"

    def stored_boxes(self, sparse: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Return the bounds of everything that is stored, if known."""
        if self._stored is None:
            return None
        from cfagg.formats.zarr.stored import stored_boxes

        return stored_boxes(self._stored, sparse)

    def _fragment(self) -> Fragment:
        return Fragment(self._header, self.chunks, lambda slices: self._read(tuple(slices)), self.label)

    def _read(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        values = np.asarray(self._slab(slices))
        if self.dtype.kind == "O":
            held = "" if values.dtype.kind in "OUT" else str(values.dtype)
            if values.dtype.kind == "O":
                held = ", ".join(sorted({type(v).__name__ for v in values.flat if not isinstance(v, str)}))
            if held:
                also = ""
                if values.dtype.kind in "mM":
                    also = ", or times of a fixed unit that its attributes (units, calendar) do not contradict"
                raise UnsupportedError(
                    f"{self.label} holds values of type {held}, expected numbers or text{also}; choose other variables"
                )
        expected = tuple(len(range(s.start, s.stop, s.step or 1)) for s in slices)
        if values.shape != expected:
            raise SourceError(f"{self.label}: {values.shape} values were read, expected {expected}; it was changed")
        return values


class OpenReader(VariableReader):
    """A variable of an open dataset, according to its description; `values` reads hyperslabs."""

    def __init__(self, header: Header, values: Callable[[tuple[slice, ...]], npt.NDArray[Any]], label: str) -> None:
        self._describe(header)
        self._header, self._values = header, values
        self.label, self.encoding, self.workers, self.grid = label, {}, 1, whole(header.shape)

    def _fragment(self) -> Fragment:
        values = self._values
        if isinstance(values, OpenVariable) and isinstance(values.found, StoredVariable):
            return Fragment(values.found.header, values.found.chunks, self._slab, self.label, values.scan)
        return Fragment(self._header, None, self._slab, self.label)

    def _slab(self, slices: Sequence[slice]) -> npt.NDArray[Any]:
        return self._values(tuple(slices))
