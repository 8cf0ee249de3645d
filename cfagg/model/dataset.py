"""The model of a dataset to be checked: groups, dimensions, variables and attributes, in any format.

The readers in `cfagg.formats.metadata` build it once; nothing here opens a file.  Values are read only when a rule
needs them, through a function that the reader gives each variable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, LimitError

if TYPE_CHECKING:
    from cfagg.model.chunks import ChunkTable

__all__ = ["AttributeValue", "Dataset", "Dimension", "Group", "Kind", "SharedAttributes", "Variable", "enumeration_of"]

#: Values of attributes: text; several texts; numbers, always with one dimension; text that is not UTF-8; or values that
#: netCDF does not have (a mapping or a boolean in JSON).
AttributeValue = str | tuple[str, ...] | npt.NDArray[Any] | bytes | object

#: Kinds of values of a variable, in the terms of the CF conventions.
Kind = Literal["char", "string", "integer", "float", "other"]


class SharedAttributes(dict[str, AttributeValue]):
    """Attributes that many variables of many files share; copy them instead of changing them."""

    #: Derived objects, cached once for all that share the attributes, by user.
    made: dict[Hashable, Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made = {}

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("these attributes are shared by many variables: copy them with dict() to change them")

    __setitem__ = __delitem__ = __ior__ = _refused
    clear = pop = popitem = setdefault = update = _refused

    def __reduce__(self) -> tuple[type[dict[str, AttributeValue]], tuple[dict[str, AttributeValue]]]:
        return dict, (dict(self),)


#: Maximum number of values that are read at once.
BLOCK = 1 << 22

#: Maximum number of characters of a list of names that are considered.
LONGEST = 1 << 18


def enumeration_of(dtype: np.dtype[Any]) -> tuple[tuple[str, int], ...] | None:
    """Return the names and numbers of an enumeration, in the order of numbers, from the metadata of an integer type."""
    found = None if dtype.metadata is None else dtype.metadata.get("enum")
    return None if found is None else tuple(sorted(found.items(), key=lambda item: (item[1], item[0])))


@dataclass(eq=False, slots=True)
class Dimension:
    """A dimension.  Two are the same only if they are the same object.

    Parameters
    ----------
    name : str
        Name within its group.
    size : int
        Its length.
    group : str
        Path of the group that defines it, ``"/"`` for the root.
    unlimited : bool
        Whether it may grow.
    """

    name: str
    size: int
    group: str = "/"
    unlimited: bool = False

    @property
    def path(self) -> str:
        """Name with the path of its group, the bare name in the root."""
        return self.name if self.group == "/" else f"{self.group}/{self.name}"


@dataclass(eq=False)
class Variable:
    """A variable.  Two are the same only if they are the same object.

    Parameters
    ----------
    name : str
        Name within its group.
    group : Group
        The group that contains it.
    dimensions : tuple of Dimension
        In order.  For an aggregation variable, the aggregated dimensions.
    dtype : numpy.dtype
        Stored type; `object` for variable-length strings and types that NumPy does not have. For an enumeration, whose
        kind is other, the type of its numbers, with ``enum`` as metadata.
    kind : {"char", "string", "integer", "float", "other"}
        The kind of its values.
    attributes : dict
        All attributes; see `AttributeValue`.
    stored_dimensions : tuple of Dimension
        Dimensions as stored; none for an aggregation variable.
    read : callable, optional
        Reads a hyperslab of the stored values, given one slice for each stored dimension.
    chunks : callable, optional
        Returns the table of the chunks of the values, if cfagg itself is to read and decode them.
    dialect : {"CF", "CFA", "NCA"}, optional
        How an aggregation variable is described; `None` for other variables.
    fill : number, optional
        A missing value that is not an attribute: the fill value of Zarr v2.
    netcdf : bool
        Whether the netCDF library may have written its default fill values.
    most : int, optional
        Maximum number of values that its file can contain; with more, it is not read in blocks.
    unreadable : str, optional
        Why its values cannot be read, if its metadata would be wrong without them.
    refusals : callable, optional
        Yields the errors that reading its values would raise, as far as metadata tell; asked only by checks.
    """

    name: str
    group: Group
    dimensions: tuple[Dimension, ...]
    dtype: np.dtype[Any]
    kind: Kind
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    stored_dimensions: tuple[Dimension, ...] | None = None
    read: Callable[[tuple[slice, ...]], npt.NDArray[Any]] | None = None
    chunks: Callable[[], ChunkTable] | None = None
    dialect: Literal["CF", "CFA", "NCA"] | None = None
    fill: Any = None
    netcdf: bool = True
    most: int | None = None
    unreadable: str | None = None
    refusals: Callable[[], Iterator[CfaggError]] | None = None

    def __repr__(self) -> str:
        return f"<Variable {self.path}({', '.join(self.dims)})>"

    @cached_property
    def path(self) -> str:
        """Name as shown in findings: bare in the root group, with the group's path elsewhere."""
        return self.name if self.group.path == "/" else f"{self.group.path}/{self.name}"

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return tuple(d.name for d in self.dimensions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(d.size for d in self.dimensions)

    @property
    def stored(self) -> tuple[Dimension, ...]:
        """Dimensions as stored."""
        return self.dimensions if self.stored_dimensions is None else self.stored_dimensions

    @property
    def size(self) -> int:
        """Number of values as stored."""
        return prod(d.size for d in self.stored)

    @property
    def is_text(self) -> bool:
        """Whether its values are characters or strings."""
        return self.kind in ("char", "string")

    @property
    def is_numeric(self) -> bool:
        """Whether its values are integers or floating-point numbers."""
        return self.kind in ("integer", "float")

    @property
    def enumeration(self) -> tuple[tuple[str, int], ...] | None:
        """The names of an enumeration with their numbers, in numerical order; `None` for other types."""
        return enumeration_of(self.dtype)

    @property
    def is_coordinate(self) -> bool:
        """Whether it is a coordinate variable by the netCDF User Guide: one dimension of its own name, and not text."""
        return len(self.dimensions) == 1 and self.dimensions[0].name == self.name and not self.is_text

    def text(self, attribute: str) -> str | None:
        """Return an attribute if it is text, or else `None`."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else None

    def words(self, attribute: str) -> list[str]:
        """Return the words of an attribute if it is text, from at most `LONGEST` characters, or else none."""
        return (self.text(attribute) or "")[:LONGEST].split()

    def numbers(self, attribute: str) -> npt.NDArray[Any] | None:
        """Return an attribute of numbers as a one-dimensional array, or else `None`."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, np.ndarray) else None

    def values(self, limit: int = 1 << 24) -> npt.NDArray[Any]:
        """Return all stored values, at most `limit`; an aggregation variable has no stored values."""
        if self.dialect is not None:
            return np.empty((0,) * max(len(self.dimensions), 1), self.dtype)
        if self.size > limit:
            raise LimitError(f"variable {self.path!r} has {self.size:,} values; at most {limit:,} are read at once")
        shape = tuple(d.size for d in self.stored)
        if self.read is None:
            return np.empty((0,) * max(len(shape), 1), self.dtype)
        return _array(self.read(tuple(slice(0, n, 1) for n in shape)), self.dtype)

    def blocks(self, limit: int = BLOCK) -> Iterator[npt.NDArray[Any]]:
        """Yield all stored values in C order, in blocks of at most `limit`; refuse more than the file can contain."""
        shape = tuple(d.size for d in self.stored)
        if self.read is None or 0 in shape or self.dialect is not None:
            return
        if self.most is not None and self.size > self.most:
            raise LimitError(
                f"variable {self.path!r} has {self.size:,} values, but a file of its size can hold {self.most:,} at "
                "most; it is not read"
            )
        for slices in _slabs(shape, limit):
            yield _array(self.read(slices), self.dtype)

    @property
    def _encoding(self) -> str:
        """The encoding of its characters: UTF-8 where it names none that is known."""
        name = self.text("_Encoding") or "utf-8"
        try:
            b" ".decode(name)
        except (LookupError, ValueError):
            return "utf-8"
        return name

    def texts(self, limit: int = 1 << 20) -> npt.NDArray[Any]:
        """Return the values of a text variable as an `object` array of `str`.

        Characters are joined along the last dimension, and are UTF-8 unless `_Encoding` says otherwise; trailing nulls
        and blanks are dropped.
        """
        values = self.values(limit << 6 if self.kind == "char" else limit)
        if self.kind == "char":
            if values.ndim == 0:
                values = values.reshape(1)
            width = values.shape[-1]
            out = np.full(values.shape[:-1], "", object)
            if out.size and width:
                joined = np.ascontiguousarray(values.astype("S1")).view(f"S{width}")[..., 0]
                encoding = self._encoding
                out[...] = np.reshape(np.array([_decode(b, encoding) for b in joined.ravel()], object), joined.shape)
            return out
        out = np.empty(values.shape, object)
        flat = [_decode(v) if isinstance(v, bytes) else str(v) for v in values.ravel()]
        out[...] = np.reshape(np.array(flat, object), values.shape)
        return out


def _array(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array even if a reader gives the single value of a scalar."""
    if isinstance(values, np.ndarray):
        return values
    out = np.empty((), dtype)
    out[()] = values
    return out


def _decode(raw: bytes, encoding: str = "utf-8") -> str:
    # Other bytes are other texts, also where they are not of this encoding.
    return raw.decode(encoding, "backslashreplace").rstrip("\0 ")


def _slabs(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Yield hyperslabs of at most `limit` values that cover `shape` in C order."""
    if not shape:
        yield ()
        return
    row = prod(shape[1:])
    if row <= limit or len(shape) == 1:
        step = max(1, limit // max(row, 1))
        for start in range(0, shape[0], step):
            stop = min(start + step, shape[0])
            yield (slice(start, stop, 1), *(slice(0, n, 1) for n in shape[1:]))
        return
    for index in range(shape[0]):
        for rest in _slabs(shape[1:], limit):
            yield (slice(index, index + 1, 1), *rest)


@dataclass(eq=False)
class Group:
    """A group of a dataset.

    Parameters
    ----------
    path : str
        ``"/"`` for the root, ``"/a/b"`` below it.
    parent : Group, optional
        The group above.
    typed : bool
        Whether the types of attributes are known; see `Dataset`.
    """

    path: str = "/"
    parent: Group | None = None
    typed: bool = True
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    dimensions: dict[str, Dimension] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def walk(self) -> Iterator[Group]:
        """Yield this group and all below it, parents first, however deep."""
        waiting = [self]
        while waiting:
            group = waiting.pop()
            yield group
            waiting.extend(reversed(group.groups.values()))

    def ancestors(self) -> Iterator[Group]:
        """Yield this group, then those above it up to the root."""
        group: Group | None = self
        while group is not None:
            yield group
            group = group.parent

    def child(self, name: str) -> Group:
        """Return the sub-group of that name, which is created if necessary."""
        if name not in self.groups:
            self.groups[name] = Group(f"{self.path.rstrip('/')}/{name}", self, self.typed)
        return self.groups[name]

    def add_dimension(self, name: str, size: int, *, unlimited: bool = False) -> Dimension:
        """Add a dimension to this group."""
        self.dimensions[name] = Dimension(name, size, self.path, unlimited)
        return self.dimensions[name]

    def dimension(self, name: str) -> Dimension | None:
        """Return the dimension that `name` refers to in this group: its own, or else the nearest ancestor's."""
        return next((g.dimensions[name] for g in self.ancestors() if name in g.dimensions), None)

    def text(self, attribute: str) -> str | None:
        """Return an attribute if it is text, or else `None`."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else None


@dataclass(eq=False)
class Dataset:
    """A dataset to be checked.

    Parameters
    ----------
    source : str
        Its name in findings: its path or URL as given, or a description of the object in memory.
    format : str
        Its storage format: netcdf, zarr, nczarr, xarray, cdl, or the name given by a plug-in.
    root : Group
        The root group.
    typed : bool
        Whether the types of attributes are known. JSON distinguishes integers, reals and text, but no widths.
    path : str, optional
        The file or directory, if there is one.
    close : callable, optional
        Closes the file.
    damage : str, optional
        Damage to a file whose metadata can nevertheless be read.
    """

    source: str
    format: str
    root: Group
    typed: bool = True
    path: str | None = None
    close: Callable[[], None] | None = None
    damage: str | None = None

    @cached_property
    def groups(self) -> list[Group]:
        """All groups, parents first."""
        return list(self.root.walk())

    @cached_property
    def variables(self) -> list[Variable]:
        """All variables of all groups in order."""
        return [v for g in self.groups for v in g.variables.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.close is not None:
            self.close()
