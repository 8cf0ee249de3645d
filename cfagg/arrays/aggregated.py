"""Reading an aggregated array: each partition's sub-array is read from its file, conformed, and put in place.

A partition's part and direction are composed with the selection (`cfagg.arrays.subarray`), values are read by
`cfagg.formats.values`, and `cfagg.cf.conform` converts them to the form that the aggregation declares.  Large
partitions are read in blocks, so that memory is bounded for partitions of any size.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, constant, split
from cfagg.arrays.fragments import Fragments, Place
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader
from cfagg.arrays.subarray import Fragment, Indices, compose
from cfagg.cf import conform
from cfagg.cf.header import Header, frozen
from cfagg.cf.missing import default_fill
from cfagg.conventions import part
from cfagg.conventions.marks import mark_of
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConformError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    OptionError,
    UnsupportedError,
)
from cfagg.errors.arguments import is_one
from cfagg.model import Aggregation, Layout
from cfagg.storage.handles import handles

if TYPE_CHECKING:
    from cfagg.arrays.index.lookup import IndexLookup
    from cfagg.arrays.index.sites import Sites
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.storage.access import Access

__all__ = ["AggregationReader"]

#: Recipes cached by one reader; partitions usually share a handful.
_RECIPES = 256


class AggregationReader(Reader):
    """Reads an aggregated array of the variable in `group` of a file; `chain` lists the enclosing aggregations.

    `word_size` (1, 4 or 8) is the unit of addresses in PP files, by default determined from the structure of each file;
    `substitutions` apply to file names in fragments that are aggregations.
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
        word_size: int | None = None,
        substitutions: Mapping[str, str] | None = None,
        lookup: IndexLookup | None = None,
    ) -> None:
        if not is_one(missing, ("error", "fill")):
            raise OptionError(f"missing={missing!r}: expected 'error' or 'fill'")
        self.aggregation = aggregation
        self.access = access
        self.missing = missing
        self.has_gaps = missing == "fill"  # partitions that are declared missing are read as missing values
        self.workers, self.word_size = workers, word_size
        self.dims, self.shape, self.dtype = aggregation.dims, aggregation.shape, aggregation.dtype
        self.attributes = aggregation.attributes
        self.grid = aggregation.grid
        self.encoding = {}
        self.label = f"file {access.parent}, variable {aggregation.name!r}"
        self._fragments = Fragments(
            aggregation,
            access,
            AggregationReader,
            group,
            chain,
            word_size,
            substitutions or {},
            lookup,
            missing=missing,
        )
        # One for each version, in the order in which they are tried.
        self._versions = (
            self._fragments,
            *(
                replace(self._fragments, aggregation=replace(aggregation, partitions=p))
                for p in aggregation.partitions.versions
            ),
        )
        self._begin()

    @property
    def group(self) -> str:
        """The group that the aggregation is in."""
        return self._fragments.group

    def reading(self, aggregation: Aggregation) -> AggregationReader:
        """Return a reader of another aggregation of the same file."""
        own = self._fragments
        return AggregationReader(
            aggregation,
            self.access,
            missing=self.missing,
            workers=self.workers,
            group=own.group,
            chain=own.chain,
            word_size=own.word_size,
            substitutions=own.substitutions,
            lookup=own.lookup,
        )

    def with_gaps(self) -> AggregationReader:
        """Return a reader that returns missing values for partitions declared missing, and raises errors elsewhere."""
        found = copy.copy(self)
        found.has_gaps = True
        found._versions = tuple(replace(one, has_gaps=True) for one in self._versions)
        found._fragments = found._versions[0]
        return found

    def refuse_changed(self) -> None:
        """Raise an error if one of the files has changed, or is gone, since it was scanned."""
        self._fragments.refuse_changed()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._recipes: OrderedDict[Any, conform.Recipe] = OrderedDict()
        self._last: tuple[Layout, Header, conform.Recipe] | None = None
        self._sites: tuple[Any, Sites] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_recipes", "_last", "_sites")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<AggregationReader of {self.aggregation!r}>"

    def header(self, i: int) -> Header:
        """Return the header of the sub-array of partition `i` (flat, C order) from its file."""
        return self._open(i).header

    def layout(self, i: int) -> Layout:
        """Return the layout of the sub-array of partition `i` (flat, C order), from the convention and its file."""
        return self._open(i).layout or self.aggregation.partitions.layout_of(i)

    def fragment(self, i: int) -> tuple[Fragment, list[Indices]]:
        """Return the sub-array of partition `i` (flat, C order), and along each axis the indices that fill it."""
        found = self._open(i)
        return found, self._part(i, found)

    def recipe(self, i: int) -> conform.Recipe:
        """Return the recipe by which partition `i` (flat, C order) is conformed."""
        return self._recipe(i, self._open(i))

    def chunks_at(self, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the lengths of the chunks of a fragment along the dimensions of the array."""
        i = int(np.ravel_multi_index(index, self.grid.matrix_shape))
        try:
            fragment = self._open(i)
            axes = self._recipe(i, fragment).axes
        except CfaggError:
            return None  # raised, or filled in, where it is read
        if not fragment.chunks or len(fragment.chunks) != len(fragment.header.dims):
            return None
        return tuple(1 if k < 0 else fragment.chunks[k] for k in axes)

    def _recipe(self, i: int, fragment: Fragment) -> conform.Recipe:
        layout = fragment.layout or self.aggregation.partitions.layout_of(i)
        header = fragment.header
        last = self._last
        if last is not None and last[0] == layout and _is_alike(last[1], header):
            return last[2]
        key = (layout, header.dims, header.shape, header.dtype, frozen(header.attributes))
        with self._lock:
            found = self._recipes.get(key)
        if found is None:
            found = conform.recipe(self.aggregation, layout, header, where=fragment.place)
            with self._lock:
                self._recipes[key] = found
                while len(self._recipes) > _RECIPES:
                    self._recipes.popitem(last=False)
        self._last = (layout, header, found)
        return found

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        lookup = self._fragments.lookup
        if lookup is None:
            yield from self._each(made, out, range(len(made)))
            return
        from cfagg.arrays.index.gathering import gather_small
        from cfagg.arrays.index.sites import sites_of

        index = lookup.opened.index
        if index is not None:
            if self._sites is None or self._sites[0] is not index:
                self._sites = (index, sites_of(self, index))
            work, rest = gather_small(self, lookup, self._sites[1], made, out)
            if work is not None:
                yield work
            yield from self._each(made, out, rest)
            return
        yield from self._each(made, out, range(len(made)))

    def fill_cells(self, made: Plan, out: npt.NDArray[Any], cells: Sequence[int]) -> None:
        """Fill the places of some cells of a plan."""
        for work in self._each(made, out, cells):
            work()

    def prepared(
        self, i: int, located: StoredVariable, source: Sequence[Any]
    ) -> tuple[conform.Recipe, list[Indices], list[tuple[int, bool]], StoredVariable] | None:
        """Return how a selection of partition `i` is read and conformed, or `None` if its file has to be opened."""
        if mark_of(located.header.attributes, located.header.dims) is not None:
            return None
        where = self._fragments.where_indexed(i)
        self._fragments.check_format(i, where)
        if located.packing is not None:
            fitted = self._fragments.fitted_field(i, located)
            if fitted is None:
                return None
            located = fitted
            fragment = self._fragments.field(located, where)
        else:
            fragment = self._fragments.made(i, located, where)
        recipe = self._recipe(i, fragment)
        return recipe, *self._compose(i, fragment, recipe, source), located

    def _each(self, made: Plan, out: npt.NDArray[Any], cells: Sequence[int]) -> Iterator[Work]:
        """Yield the work that fills the places of some cells of a plan."""
        partitions = self.aggregation.partitions
        for k in cells:
            i = int(made.cell[k])
            target = made.target(k)
            if partitions.value[i] >= 0:
                yield constant(out, target, self._value(int(partitions.value[i])))
                continue
            if not partitions.present[i]:
                if not self.has_gaps:
                    raise FragmentNotFoundError(
                        f"{self._fragments.where(i)}: the partition is declared missing; pass missing='fill' to read "
                        "missing values there"
                    )
                yield self._absent(i, out, target)
                continue
            fragment = self._open(i, fill=self.missing == "fill")
            if fragment is None:
                yield self._absent(i, out, target)
                continue
            recipe = self._recipe(i, fragment)
            indices, feeds = self._compose(i, fragment, recipe, made.source(k))
            put = partial(_conform, recipe, fragment.place)
            yield from split(indices, feeds, target, fragment, out, put)

    @overload
    def _open(self, i: int) -> Fragment: ...

    @overload
    def _open(self, i: int, *, fill: bool) -> Fragment | None: ...

    def _open(self, i: int, *, fill: bool = False) -> Fragment | None:
        """Return the sub-array of partition `i`, the first version that opens; with `fill`, `None` if none exists."""
        return self._first(i, fill=fill)[1]

    def version(self, i: int) -> int:
        """Return the number of the first version of partition `i` that opens; if none does, an error says why."""
        return self._first(i, fill=False)[0]

    def _first(self, i: int, *, fill: bool) -> tuple[int, Fragment | None]:
        failed: CfaggError | None = None
        for number, fragments in enumerate(self._versions):
            if number and not fragments.aggregation.partitions.present[i]:
                continue
            try:
                path = fragments.path(i)
                if fill and handles.lacks(path):
                    continue
                return number, fragments.open(i, path)
            except (AccessError, FragmentNotFoundError, FragmentReadError, UnsupportedError) as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return -1, None

    def _value(self, code: int) -> Any:
        """Return the constant value of a partition, as stored."""
        values = self.aggregation.partitions.values
        if not np.ma.getmaskarray(values)[code]:
            return values[code]
        fill = self._fill()
        return default_fill(self.dtype) if fill is None else fill

    def _fill(self) -> Any:
        """Return the missing value of the array, as stored, or `None` if it has none; text always has one."""
        if self.dtype.kind not in "OS" or "vlen" in (self.dtype.metadata or {}):
            return conform.master_fill(self.aggregation)
        said = [self.attributes.get(name) for name in ("_FillValue", "missing_value")]
        if self.dtype.kind == "O":
            return next((v for v in said if isinstance(v, str)), "")
        characters = [v.encode() if isinstance(v, str) else v for v in said]
        return next((v for v in characters if isinstance(v, bytes) and len(v) == 1), b"")

    def _absent(self, i: int, out: npt.NDArray[Any], target: Sequence[Any]) -> Work:
        """Return the work of writing missing values."""
        fill = self._fill()
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
        """Return the indices to read along every sub-array axis, and the master axis and direction of each."""
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
        layout = fragment.layout or self.aggregation.partitions.layout_of(i)
        if len(layout.dims) == len(header.dims):
            shape = header.shape
        else:
            sizes = dict(zip(header.dims, header.shape, strict=True))
            shape = tuple(sizes.get(d, 1) for d in layout.dims)
        try:
            chosen = part.parse(text, shape)
        except CfaggError as error:
            raise type(error)(f"{fragment.place}: {error.message}", error.problems) from error
        if len(layout.dims) == len(header.dims):
            return list(chosen)
        by_name = dict(zip(layout.dims, chosen, strict=True))
        return [by_name.get(d, w) for d, w in zip(header.dims, whole, strict=True)]


def _conform(recipe: conform.Recipe, where: str, block: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    conform.apply(recipe, block, view, where=where)


def _is_alike(one: Header, other: Header) -> bool:
    """Return whether two headers are equal by a quick check; files of one series share their attributes."""
    return (
        one.attributes is other.attributes
        and one.dims == other.dims
        and one.shape == other.shape
        and one.dtype == other.dtype
    )
