"""From a partition to its sub-array: its file, its variable, and the file's description of it.

References are resolved by the access policy before anything is opened.  A partition may itself be an aggregation, to a
limited depth and without cycles.

*fragment*: the stored variable or field, by file and address, that a partition refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy.typing as npt

from cfagg.arrays.canonical import layout_of
from cfagg.arrays.characters import as_texts, is_characters
from cfagg.arrays.fragment_files import (
    identity_in,
    identity_of,
    names_in,
    refuse_changed_files,
    source_in,
    units_of_coordinate,
)
from cfagg.arrays.identity import UNKNOWN, Identity, check_order, is_square
from cfagg.arrays.index.schema import FIELD
from cfagg.arrays.stated_formats import field_at, is_field, is_read
from cfagg.arrays.store_fragments import STORES, changed, open_array
from cfagg.arrays.subarray import Fragment, place_of
from cfagg.cf.header import Header
from cfagg.conventions.marks import mark_of
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConventionError,
    FragmentNotFoundError,
    LimitError,
    UnsupportedError,
)
from cfagg.formats.values import locate, read, scan
from cfagg.model import Aggregation, Layout
from cfagg.storage.access import Access, NamedAccess
from cfagg.storage.files import Context, FileKey, Handle
from cfagg.storage.handles import handles

if TYPE_CHECKING:
    from cfagg.arrays.index.lookup import IndexLookup
    from cfagg.formats.values.by_table import Part
    from cfagg.formats.values.storage import StoredVariable

__all__ = ["MAX_NESTING", "Fragments"]

#: Levels of nested aggregations that are followed, including the outermost.
MAX_NESTING = 8

#: The file and the path of a variable.
Place = tuple[str, str]


@dataclass(frozen=True)
class Fragments:
    """The sub-arrays of one aggregation."""

    aggregation: Aggregation
    access: Access
    reader: Callable[..., Any]  # creates the reader of a sub-array that is itself an aggregation
    group: str = "/"  # of the aggregation variable: private variables are searched from there upwards
    chain: tuple[Place, ...] = ()  # the enclosing aggregations, outermost first, excluding this one
    word_size: int | None = None  # of addresses in PP files, if set by the user
    substitutions: Mapping[str, str] = field(default_factory=dict)  # in names of files of inner aggregations
    lookup: IndexLookup | None = None  # locations of chunks, so that files need not be searched for them
    identities: dict[str, Identity] = field(default_factory=dict, compare=False)  # of dimensions, filled on demand
    missing: Literal["error", "fill"] = "error"  # in inner aggregations, where a file is missing
    has_gaps: bool = False  # whether their partitions that are declared missing are read as missing values

    def index(self, i: int) -> tuple[int, ...]:
        """Return the index of partition `i` in the partition matrix."""
        index = []
        for n in reversed(self.aggregation.grid.matrix_shape):
            i, k = divmod(i, n)
            index.append(k)
        return tuple(reversed(index))

    def where(self, i: int) -> str:
        """Return the place of partition `i` for messages."""
        return f"file {self.access.parent}, variable {self.aggregation.name!r}, partition {self.index(i)}"

    def where_indexed(self, i: int) -> str:
        """Return the place of partition `i` for messages about what an index says of it, which may be wrong."""
        name = None if self.lookup is None else self.lookup.name
        if name is None:
            return self.where(i)
        # Rows of files that have not changed are kept when an index is refreshed.
        return f"{self.where(i)} (by the index {name}: if its file is right, remove that and run cfagg index again)"

    def path(self, i: int) -> str:
        """Return the absolute path of the file of partition `i`, which the policy allows and which is not a URL."""
        try:
            return self.access.resolve(self.aggregation.partitions.file_name(i))
        except (AccessError, UnsupportedError) as error:
            raise type(error)(f"{self.where(i)}: {error.message}") from error

    def _judge(self, i: int, real: str) -> None:
        """Raise an error if the file opened for partition `i` is not the one that the policy allowed."""
        try:
            self.access.judge(real, self.aggregation.partitions.file_name(i))
        except AccessError as error:
            raise AccessError(f"{self.where(i)}: {error.message}") from error

    def open(self, i: int, path: str | None = None) -> Fragment:
        """Find the sub-array of partition `i`; its values are not read."""
        partitions = self.aggregation.partitions
        where = self.where(i)
        self.check_format(i, where)
        path = self.path(i) if path is None else path
        if self._is_array(i):
            return self._array(i, path, where)
        judge = partial(self._judge, i)
        address = partitions.address_name(i)
        field_wanted = is_field(partitions.layout_of(i).format)
        # A name refers to a variable of the file as a whole.
        if field_wanted and (address is None or address.isdecimal()):
            stored = self._addressed_field(i, path, where)
            if stored is not None:
                return self.field(stored, self.where_indexed(i), lambda: self._opened_field(i, path, where))
            return self._opened_field(i, path, where)
        if address is None:
            address = self._numbered(i, path, where)
        own = bool(partitions.file[i] < 0)
        context = Context(where)
        of_name = Context(f"{where}: {address!r} is not the address of a field") if field_wanted else context
        group = self.group if own else "/"
        found = None
        if self.lookup is not None and not own:
            handle = handles.get(path, of_name)
            judge(handle.real)
            found = self.lookup.stored(handle, path, address, group)
        if found is not None:
            return self.made(i, found, self.where_indexed(i), partial(locate, path, address, of_name, group, judge))
        return self.made(i, locate(path, address, of_name, group, judge), where)

    def _opened_field(self, i: int, path: str, where: str) -> Fragment:
        from cfagg.arrays.fields import open_field

        handle = self._file_of_field(i, path, where)
        return open_field(self.aggregation, i, handle, where, self._identity, self.word_size)

    def _file_of_field(self, i: int, path: str, where: str) -> Handle:
        """Return the file of a field, which may be read and has not changed."""
        handle = handles.get(path, Context(where))
        self._judge(i, handle.real)
        self._check_state(i, handle.key)
        return handle

    def _addressed_field(self, i: int, path: str, where: str) -> StoredVariable | None:
        """Return the field of partition `i` from an index."""
        at = field_at(self.aggregation.partitions, i)
        if at < 0 or self.lookup is None or self.word_size is not None:
            return None
        found = self.lookup.stored(self._file_of_field(i, path, where), path, f"{FIELD}{at}", "/")
        return None if found is None else self.fitted_field(i, found)

    def fitted_field(self, i: int, located: StoredVariable) -> StoredVariable | None:
        """Return a field from an index in the dimensions of partition `i`, or `None` if its file has to be opened."""
        from cfagg.arrays.fields import addressed_field

        return addressed_field(self.aggregation, i, located, self.where(i), self._identity)

    def field(self, located: StoredVariable, where: str, again: Callable[[], Fragment] | None = None) -> Fragment:
        """Return the sub-array of a field found in an index; `again` opens it without the index."""
        context = Context(where)

        def values(slices: Sequence[slice]) -> npt.NDArray[Any]:
            try:
                return read(located, slices, context)
            except CfaggError:
                if again is None:
                    raise
                return again().read(slices)

        return Fragment(located.header, located.header.shape, values, where)

    def made(
        self, i: int, located: StoredVariable, where: str, again: Callable[[], StoredVariable] | None = None
    ) -> Fragment:
        """Return the sub-array of partition `i` at a known location; `again` finds it without the index."""
        own, address = bool(self.aggregation.partitions.file[i] < 0), located.address
        context = Context(where)
        self._check_state(i, located.key)
        if mark_of(located.header.attributes, located.header.dims) is not None:
            return self._nested(i, located.key, address, own, where)
        header, chunks = located.header, located.chunks

        values: Callable[[Sequence[slice]], npt.NDArray[Any]] = partial(_read, located, context, again)
        texts = self.aggregation.dtype.kind == "O" and is_characters(header)
        if texts:
            header, values = as_texts(header, values, where)
            chunks = None
        layout = self._layout(i, header, where)
        group = self.group if own else "/"
        judge = partial(self._judge, i)
        known = located.identities
        of_file: Callable[[str], Identity] = (
            partial(identity_in, located.key, address, context, group, judge)
            if known is None
            else lambda dim: known.get(dim, UNKNOWN)
        )
        self._check_order(layout, header, of_file, i)
        if self.aggregation.bounds_of is not None and layout.units is None and "units" not in header.attributes:
            found = units_of_coordinate(located.key, address, group)
            header = replace(header, attributes={**header.attributes, **found})
        parts = None if texts else partial(_scan, located, context, again)
        return Fragment(header, chunks, values, where, parts, layout, None if texts else located)

    def _check_state(self, i: int, key: FileKey) -> None:
        """Raise an error if a file has changed since it was scanned: its values would get outdated coordinates."""
        if not isinstance(self.access, NamedAccess):
            return
        name = self.aggregation.partitions.file_name(i)
        if name is not None and self.access.states.is_changed(name, key.size, key.modified, key.inode):
            raise changed(name, self.where(i))

    def refuse_changed(self) -> None:
        """Raise an error if one of the files has changed, or is gone, since it was scanned."""
        if isinstance(self.access, NamedAccess):
            refuse_changed_files(self.aggregation.partitions, self.access, self.where)

    def _is_array(self, i: int) -> bool:
        """Return whether partition `i` is an array of a Zarr store, which only the user can name, not a file."""
        return self.aggregation.partitions.layout_of(i).format in STORES and isinstance(self.access, NamedAccess)

    def _array(self, i: int, path: str, where: str) -> Fragment:
        """Return the array of a Zarr store that partition `i` names."""
        partitions = self.aggregation.partitions
        address = partitions.address_name(i) or ""
        access = cast("NamedAccess", self.access)
        header, reader = open_array(path, address, access, partitions.file_name(i), where)
        layout = self._layout(i, header, where)
        return Fragment(header, reader.chunks, lambda slices: reader.read(list(slices)), where, layout=layout)

    def _layout(self, i: int, header: Header, where: str) -> Layout:
        """Return the layout of partition `i` according to the aggregation and the file."""
        layout = self.aggregation.partitions.layout_of(i)
        if layout.dims == header.dims:
            return layout
        extent = [b - a for a, b in self.aggregation.grid.extent(self.index(i))]
        return layout_of(self.aggregation, layout, extent, header, where)

    def _numbered(self, i: int, path: str, where: str) -> str:
        """Return the name of the variable that partition `i` gives by its number in its file (CFA 0.3, ``varid``)."""
        number, context = int(self.aggregation.partitions.offset[i]), Context(where)
        if number < 0:
            raise FragmentNotFoundError(f"{where}: the partition names no variable of {path}; give its 'ncvar'")
        handle = handles.get(path, context)
        self._judge(i, handle.real)
        if handle.data is not None:
            raise UnsupportedError(
                f"{where}: the partition gives a variable of {path} by its number {number}, which is known for local "
                "files only; give its 'ncvar'"
            )
        names = names_in(handle.key)
        if number >= len(names):
            raise FragmentNotFoundError(
                f"{where}: {path} has no variable of number {number}, but {len(names)} variables; correct 'varid'"
            )
        return f"/{names[number]}"

    def _check_order(self, layout: Layout, header: Header, of_file: Callable[[str], Identity], i: int) -> None:
        """Raise an error if the coordinates of a sub-array show that two of its dimensions are interchanged."""
        if len(layout.dims) == len(header.dims):
            pairs = tuple(zip(layout.dims, header.dims, header.shape, strict=True))
        else:  # dimensions are matched by name
            pairs = tuple((d, d, n) for d, n in zip(header.dims, header.shape, strict=True) if d in layout.dims)
        if self.aggregation.partitions.part_text(i) is not None:
            extent = dict(zip(self.aggregation.dims, self.aggregation.grid.extent(self.index(i)), strict=True))
            pairs = tuple((d, here, b - a) for d, here, _ in pairs for a, b in [extent.get(d, (0, 1))])
        if is_square([n for _, _, n in pairs]):
            declared, found, sizes = zip(*pairs, strict=True)
            place = place_of(self.where(i), header.variable, header.file)
            check_order(declared, found, sizes, self._identity, of_file, place)

    def _identity(self, dim: str) -> Identity:
        """Return the identity of the coordinates of a dimension of the aggregation."""
        if isinstance(self.access, NamedAccess):
            return UNKNOWN  # the coordinates of each were checked when it was built
        known = self.identities.get(dim)
        if known is None:
            key = handles.get(self.access.resolve(None), Context(self.access.parent)).key
            known = self.identities[dim] = identity_of(source_in(key), self.group, dim)
        return known

    def check_format(self, i: int, where: str) -> None:
        """Raise an error for formats that only later versions can read."""
        layout = self.aggregation.partitions.layout_of(i)
        if layout.format is not None and not is_read(layout.format) and not self._is_array(i):
            raise UnsupportedError(
                f"{where}: the format {layout.format!r} of {self.aggregation.partitions.file_name(i)!r} cannot be "
                "read; expected netCDF or PP: convert the file to netCDF and refer to the result"
            )
        if layout.packing and not is_field(layout.format):
            raise UnsupportedError(
                f"{where}: the PP packing {layout.packing} of {self.aggregation.partitions.file_name(i)!r} cannot be "
                "read from a netCDF file; remove 'lbpack' or unpack the file"
            )

    def _nested(self, i: int, key: FileKey, address: str, own: bool, where: str) -> Fragment:
        """Return a sub-array that is itself an aggregation, in a file that may be read."""
        source, path = source_in(key, tuple(self.substitutions.items())), key.path
        group, inner = source.find_from(self.group if own else "/", address)
        if not isinstance(inner, Aggregation):
            raise ConventionError(f"{where}: {address!r} of {path} looks like an aggregation but is not one")
        me = (self.access.resolve(None), _join(self.group, self.aggregation.name))
        # No file can refer to one that is not in a file.
        chain = self.chain if isinstance(self.access, NamedAccess) else (*self.chain, me)
        there = (path, _join(group.path, inner.name))
        if there in chain:
            circle = " -> ".join(f"{v} of {p}" for p, v in (*chain, there))
            raise ConventionError(f"{where}: the aggregation refers to itself: {circle}; correct the reference")
        if len(chain) >= MAX_NESTING:
            raise LimitError(f"{where}: aggregations of aggregations are followed at most {MAX_NESTING} levels deep")
        attributes = dict(inner.attributes)
        attributes.update({k: v for k, v in (("units", inner.units), ("calendar", inner.calendar)) if v is not None})
        header = Header(path, address, inner.dims, inner.shape, inner.dtype, attributes)
        # The inner aggregation is read by the thread that needs it.
        reader = self.reader(
            replace(inner, source=path),
            self.access.nested(path),
            missing=self.missing,
            workers=1,
            group=group.path,
            chain=chain,
            word_size=self.word_size,
            substitutions=self.substitutions,
        )
        if self.has_gaps:
            reader = reader.with_gaps()
        layout = self._layout(i, header, where)
        self._check_order(layout, header, partial(identity_of, source, group.path), i)
        return Fragment(header, None, lambda slices: reader.read(list(slices)), where, layout=layout)


def _read(
    located: StoredVariable, context: Context, again: Callable[[], StoredVariable] | None, slices: Sequence[slice]
) -> npt.NDArray[Any]:
    """Return a hyperslab of stored values; if they are not where an index locates them, they are searched for."""
    try:
        return read(located, slices, context)
    except CfaggError:
        if again is None:
            raise
        return read(again(), slices, context)


def _scan(
    located: StoredVariable, context: Context, again: Callable[[], StoredVariable] | None, slices: Sequence[slice]
) -> Iterator[Part]:
    """Yield the same in parts; those that were given before an error are given again."""
    try:
        yield from scan(located, slices, context)
    except CfaggError:
        if again is None:
            raise
        yield from scan(again(), slices, context)


def _join(group: str, name: str) -> str:
    return f"{group.rstrip('/')}/{name}"
