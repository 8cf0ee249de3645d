"""Reading a selection of an aggregated array into one buffer.

The selection is intersected with the partitions (`cfagg.arrays.plan`), composed with each partition's part and
direction (`cfagg.arrays.subarray`), read from the files (`cfagg.formats.values`) and conformed into its place
(`cfagg.cf.conform`).  Large partitions are taken in blocks, so that memory is bounded whatever a partition's size, and
blocks are read by a few threads.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, constant, copy, run, split
from cfagg.arrays.fragments import Fragment, Fragments, Place
from cfagg.arrays.plan import Plan, plan
from cfagg.arrays.subarray import Indices, compose
from cfagg.cf import conform
from cfagg.cf.header import Header
from cfagg.conventions import part
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConformError,
    FragmentMismatchError,
    FragmentNotFoundError,
    LimitError,
    OptionError,
    SelectionError,
)
from cfagg.formats.values import locate, read, scan
from cfagg.formats.values.files import CONTEXT_SOURCE, absent
from cfagg.model import Aggregation, Grid

if TYPE_CHECKING:
    from cfagg.storage.access import Access

__all__ = ["PlainReader", "Reader", "RefusedReader", "Selection", "plain_reader"]

#: One entry per dimension: slice, integer, index array or mask.
Selection = Sequence[slice | int | npt.ArrayLike]

#: Recipes remembered by one reader; partitions usually share a handful.
_RECIPES = 256


class _Base(ABC):
    """What both readers do: plan, allocate, read blocks, drop integer dimensions."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    grid: Grid
    workers: int | None
    label: str

    def read(self, selection: Selection) -> npt.NDArray[Any]:
        """Return the selected values.

        Parameters
        ----------
        selection : sequence
            One slice, integer, 1-d index array or mask per dimension, each applied on its own (outer indexing).

        Returns
        -------
        ndarray
            Without the dimensions selected by an integer.

        Raises
        ------
        SelectionError
            If the selection lies outside the array.
        CfaggError
            If a partition that the selection touches cannot be read or conformed.
        """
        made = plan(self.grid, selection)
        try:
            out = np.empty(made.shape, self.dtype)
        except (MemoryError, ValueError) as error:
            # What a header claims may be more than any machine has, or than the file holds.
            raise LimitError(
                f"{self.label}: a selection of shape {made.shape} of {self.dtype} does not fit into memory; select less"
            ) from error
        run(self._blocks(made, out), out.nbytes, self.workers, len(made))
        return out.reshape([n for d, n in enumerate(out.shape) if d not in made.dropped])

    def read_into(self, out: npt.NDArray[Any], selection: Selection) -> None:
        """Write the selected values into `out`, an array or view of their shape and the master's type.

        Raises
        ------
        SelectionError
            If `out` has another shape or type.
        CfaggError
            As `read`.
        """
        made = plan(self.grid, selection)
        kept = tuple(n for d, n in enumerate(made.shape) if d not in made.dropped)
        if out.shape != kept or out.dtype != self.dtype:
            raise SelectionError(
                f"{self.label}: the selection has shape {kept} and type {self.dtype}, "
                f"the output has {out.shape} and {out.dtype}"
            )
        run(self._blocks(made, np.expand_dims(out, made.dropped)), out.nbytes, self.workers, len(made))

    @abstractmethod
    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        """Yield the work that fills `out`."""


class Reader(_Base):
    """Reads an aggregated array.  It opens no file before it must, and can be pickled.

    Parameters
    ----------
    aggregation : Aggregation
        What to read.
    access : Access
        Which files may be read.
    missing : {"error", "fill"}
        What to do about a partition whose file is not there: raise, or read missing values.
    workers : int, optional
        Threads that one call may use; by default the processors that this process may use, at most 8, or one where
        partitions are small.
    group : str
        Group of the aggregation variable in its file.

    Examples
    --------
    >>> reader = Reader(aggregation, Access("temperature.nca"))  # doctest: +SKIP
    >>> reader.read([slice(0, 12), 5, slice(None, None, -1)]).shape  # doctest: +SKIP
    (12, 128)
    """

    def __init__(
        self,
        aggregation: Aggregation,
        access: Access,
        *,
        missing: Literal["error", "fill"] = "error",
        workers: int | None = None,
        group: str = "/",
        chain: tuple[Place, ...] = (),
    ) -> None:
        if missing not in ("error", "fill"):
            raise OptionError(f"missing={missing!r}: expected 'error' or 'fill'")
        self.aggregation = aggregation
        self.access = access
        self.missing = missing
        self.workers = workers
        self.dtype = aggregation.dtype
        self.shape = aggregation.shape
        self.grid = aggregation.grid
        self.label = f"file {access.parent}, variable {aggregation.name!r}"
        self._fragments = Fragments(aggregation, access, Reader, group, chain)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._recipes: OrderedDict[Any, conform.Recipe] = OrderedDict()
        self._last: tuple[int, Header, conform.Recipe] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_recipes", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<Reader of {self.aggregation!r}>"

    def header(self, i: int) -> Header:
        """Return what the file of partition `i` (flat, C order) says about its sub-array."""
        return self._fragments.open(i).header

    def recipe(self, i: int) -> conform.Recipe:
        """Return how partition `i` (flat, C order) is conformed."""
        return self._recipe(i, self._fragments.open(i))

    def _recipe(self, i: int, fragment: Fragment) -> conform.Recipe:
        code = int(self.aggregation.partitions.layout[i])
        header = fragment.header
        last = self._last
        if last is not None and last[0] == code and _is_alike(last[1], header):
            return last[2]
        key = (code, header.dims, header.shape, header.dtype, _frozen(header.attributes))
        with self._lock:
            found = self._recipes.get(key)
        if found is None:
            layout = self.aggregation.partitions.layouts[code]
            found = conform.recipe(self.aggregation, layout, header, where=fragment.place)
            with self._lock:
                self._recipes[key] = found
                while len(self._recipes) > _RECIPES:
                    self._recipes.popitem(last=False)
        self._last = (code, header, found)
        return found

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            i = int(made.cell[k])
            target = made.target(k)
            if not self.aggregation.partitions.present[i]:
                if self.missing == "error":
                    raise FragmentNotFoundError(
                        f"{self._fragments.where(i)}: the partition is declared missing; pass missing='fill' to read "
                        "missing values there"
                    )
                yield self._absent(i, out, target)
                continue
            path = self._fragments.path(i)
            if self.missing == "fill" and absent(path):
                yield self._absent(i, out, target)
                continue
            fragment = self._fragments.open(i, path)
            recipe = self._recipe(i, fragment)
            indices, feeds = self._compose(i, fragment, recipe, made.source(k))
            put = partial(_conform, recipe, fragment.place)
            yield from split(indices, feeds, target, fragment, out, put)

    def _absent(self, i: int, out: npt.NDArray[Any], target: Sequence[Any]) -> Work:
        """Return the work of writing missing values."""
        fill = conform.master_fill(self.aggregation)
        if fill is None:
            if self.dtype.kind != "f":
                raise ConformError(
                    f"{self._fragments.where(i)}: its file is missing and {self.dtype} has no missing value; "
                    "declare _FillValue on the aggregation variable"
                )
            fill = np.nan
        return constant(out, target, fill)

    def _compose(
        self, i: int, fragment: Fragment, recipe: conform.Recipe, source: Sequence[Any]
    ) -> tuple[list[Indices], list[tuple[int, bool]]]:
        """Return the indices to read along every sub-array axis, and the master axis and direction that each feeds."""
        header = fragment.header
        parts = self._part(i, fragment)
        extent = self.grid.extent(self._fragments.index(i))
        indices: list[Indices] = list(parts)
        feeds = [(-1, False)] * len(indices)
        for d, (k, flip) in enumerate(zip(recipe.axes, recipe.flips, strict=True)):
            n = extent[d][1] - extent[d][0]
            have = 1 if k < 0 else len(parts[k])
            if have != n:
                raise FragmentMismatchError(
                    f"{fragment.where}: the sub-array {header.variable!r} of {header.file} has shape {header.shape} "
                    f"and gives {have} elements along {self.aggregation.dims[d]!r}, expected {n}; correct the "
                    "'location', the 'part' or the file"
                )
            if k >= 0:
                indices[k] = compose(parts[k], source[d], flip)
                feeds[k] = (d, flip)
        return indices, feeds

    def _part(self, i: int, fragment: Fragment) -> list[Indices]:
        """Return the indices along every axis of the sub-array that are the partition's data array."""
        header = fragment.header
        text = self.aggregation.partitions.part_text(i)
        whole: list[Indices] = [range(n) for n in header.shape]
        if text is None:
            return whole
        layout = self.aggregation.partitions.layout_of(i)
        if len(layout.dims) == len(header.dims):
            shape = header.shape
        else:
            sizes = dict(zip(header.dims, header.shape, strict=True))
            shape = tuple(sizes.get(d, 1) for d in layout.dims)
        try:
            chosen = part.parse(text, shape)
        except CfaggError as error:
            raise type(error)(f"{fragment.where}: {error.message}", error.problems) from error
        if len(layout.dims) == len(header.dims):
            return list(chosen)
        by_name = dict(zip(layout.dims, chosen, strict=True))
        return [by_name.get(d, w) for d, w in zip(header.dims, whole, strict=True)]


class PlainReader(_Base):
    """Reads an ordinary variable, stored values as they are: no masking, no scaling.  It can be pickled.

    Parameters
    ----------
    path : str
        The file.
    group : str
        Path of the group that holds the variable.
    variable : str
        Its name.
    """

    def __init__(self, path: str, group: str, variable: str, *, workers: int | None = None) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100
        self.group = group
        self.variable = variable
        self.workers = workers
        self.label = f"file {self.path}, variable {variable!r}"
        located = locate(self.path, variable, CONTEXT_SOURCE, group)
        self.dtype = located.header.dtype
        self.shape = located.header.shape
        self.chunks = located.chunks
        self.encoding = located.encoding
        self.grid = Grid([[0, n] if n else [0] for n in self.shape])

    def __repr__(self) -> str:
        return f"<PlainReader of {self.variable!r} {self.shape} {self.dtype}>"

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        if not len(made):
            return
        located = locate(self.path, self.variable, CONTEXT_SOURCE, self.group)
        if located.header.shape != self.shape or located.header.dtype != self.dtype:
            raise FragmentMismatchError(
                f"{self.label}: it was {self.dtype} of shape {self.shape} and now is {located.header.dtype} of shape "
                f"{located.header.shape}; open the file again"
            )
        fragment = Fragment(
            located.header,
            located.chunks,
            lambda s: read(located, s, CONTEXT_SOURCE),
            self.label,
            lambda s: scan(located, s, CONTEXT_SOURCE),
        )
        indices = [compose(range(n), s, False) for n, s in zip(self.shape, made.source(0), strict=True)]
        feeds = [(d, False) for d in range(len(indices))]
        yield from split(indices, feeds, made.target(0), fragment, out, copy)


class RefusedReader(_Base):
    """An ordinary variable whose values may not be read: asking for any raises why.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        Its type.
    error : AccessError
        Why.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], error: AccessError) -> None:
        self.shape, self.dtype, self.error = shape, dtype, error
        self.workers, self.label, self.chunks = 1, error.message, None
        self.encoding: dict[str, Any] = {}
        self.grid = Grid([[0, n] if n else [0] for n in shape])

    def read(self, selection: Selection) -> npt.NDArray[Any]:  # noqa: ARG002
        """Raise why it may not be read."""
        raise AccessError(self.error.message)

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:  # noqa: ARG002
        raise AccessError(self.error.message)


def plain_reader(source_path: str | os.PathLike[str], group_path: str, variable: str) -> PlainReader:
    """Return a reader of an ordinary variable with the interface of `Reader`.

    Parameters
    ----------
    source_path : str or path-like
        The netCDF file.
    group_path : str
        The group that holds the variable, ``"/"`` for the root.
    variable : str
        Its name.

    Raises
    ------
    SourceError
        If there is no such file or variable.

    Examples
    --------
    >>> plain_reader("temperature.nca", "/", "time").read([slice(0, 3)])  # doctest: +SKIP
    array([164569. , 164599.5, 164630.5])
    """
    return PlainReader(os.fspath(source_path), group_path, variable)


def _conform(recipe: conform.Recipe, where: str, block: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    conform.apply(recipe, block, view, where=where)


def _is_alike(one: Header, other: Header) -> bool:
    """Return whether two headers are seen at once to say the same; files of one series share their attributes."""
    return (
        one.attributes is other.attributes
        and one.dims == other.dims
        and one.shape == other.shape
        and one.dtype == other.dtype
    )


def _frozen(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a hashable key."""
    return tuple(
        (k, v if isinstance(v, str) else (np.asarray(v).dtype.str, np.asarray(v).tobytes()))
        for k, v in attributes.items()
    )
