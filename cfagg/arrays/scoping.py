"""The scope of aggregation variables in their file: other variables by name, and the values that describe them."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.characters import joined
from cfagg.conventions import limits
from cfagg.conventions.scope import Described, Scope
from cfagg.errors import ConventionError, LimitError, SourceError

if TYPE_CHECKING:
    from cfagg.model import Aggregation
    from cfagg.storage.files import Handle

__all__ = ["Scoping", "Stated", "Variable"]


@dataclass(frozen=True)
class Variable:
    """An ordinary variable, whose values are in the file itself."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    # Stored type in native byte order; strings are `object` with metadata ``{"element_type": str}``, other types of
    # variable length `object` with ``{"vlen": base type}``.
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # as stored, `_FillValue` included

    @property
    def is_text(self) -> bool:
        """Whether it has strings or characters."""
        metadata: Mapping[str, Any] = self.dtype.metadata or {}
        return (self.dtype.kind == "O" and metadata.get("element_type") is str) or (
            self.dtype.kind == "S" and self.dtype.itemsize == 1
        )


@dataclass(frozen=True)
class Stated:
    """One group as stored in its file, with an aggregation as a scalar with attributes."""

    path: str
    dimensions: dict[str, int]
    unlimited: frozenset[str]
    attributes: dict[str, Any]
    variables: dict[str, Variable]
    groups: dict[str, Stated]

    def child(self, path: str) -> Stated | None:
        """Return a group below this one, or `None` if there is none."""
        here: Stated | None = self
        for name in filter(None, path.split("/")):
            here = None if here is None else here.groups.get(name)
        return here


class Scoping:
    """Creates the scopes of the aggregation variables of one file, and notes what describes them (`used`, by path)."""

    def __init__(self, root: Stated, handle: Handle | None, conventions: str, substitutions: Mapping[str, str]) -> None:
        self.root = root
        self.handle = handle
        self.conventions = conventions
        self.substitutions = substitutions
        self.used: set[str] = set()
        self._values: dict[str, npt.NDArray[Any]] = {}

    def scope(
        self,
        chain: tuple[Stated, ...],
        sizes: Mapping[str, int],
        private: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]],
        seen: set[str],
    ) -> Scope:
        """Return the scope of variables in the last group of a `chain` from the root; `seen` records its use."""

        def find(name: str) -> Described | None:
            found = self.find(chain, name)
            if found is None:
                return None
            group, variable = found
            seen.add(_path(group, variable))
            return _described(variable)

        def values(name: str) -> npt.NDArray[Any]:
            found = self.find(chain, name)
            if found is None:
                raise ConventionError(f"the file has no variable {name!r}")
            return self._read(*found)

        def leave(name: str) -> None:
            if (found := self.find(chain, name)) is not None:
                seen.discard(_path(*found))

        def dimension(name: str) -> str:
            where, _, last = _absolute(name, chain).rpartition("/")
            nearest = next((group.path for group in reversed(chain) if last in group.dimensions), None)
            return last if nearest == (where or "/") else name

        return Scope(sizes, private, find, values, self.conventions, self.substitutions, leave, dimension)

    def find(self, chain: tuple[Stated, ...], name: str) -> tuple[Stated, Variable] | None:
        """Return the variable of a name or path, and its group, searched from the group upwards."""
        if name.startswith("../"):
            name = _absolute(name, chain)
        where, _, last = name.rpartition("/")
        for start in [self.root] if name.startswith("/") else reversed(chain):
            group = start.child(where)
            if group is not None and last in group.variables:
                return group, group.variables[last]
        return None

    def note(self, chain: tuple[Stated, ...], made: Aggregation, seen: set[str]) -> None:
        """Note the variables that describe an aggregation, and those in its own file that have its values."""
        if not seen:
            return
        self.used |= seen
        for partitions in (made.partitions, *made.partitions.versions):
            for code in np.unique(partitions.address[(partitions.file < 0) & partitions.present]).tolist():
                found = self.find(chain, partitions.addresses[code]) if code >= 0 else None
                # Coordinates are more than just values of partitions.
                if found is not None and found[1].dims != (found[1].name,):
                    self.used.add(_path(*found))

    def _read(self, group: Stated, variable: Variable) -> npt.NDArray[Any]:
        """Return the values of a variable, with missing ones masked and text joined."""
        path = _path(group, variable)
        if path not in self._values:
            self._values[path] = _masked(variable, self._stored(path, variable))
        return self._values[path]

    def _stored(self, path: str, variable: Variable) -> npt.NDArray[Any]:
        from cfagg.formats.values import locate, read
        from cfagg.storage.files import CONTEXT_SOURCE

        described = _described(variable)
        count, most, longest = math.prod(described.shape), limits.MAX_VALUES, limits.MAX_CHARACTERS
        characters = math.prod(variable.shape) if variable.dtype.kind == "S" else 0
        if count > most or characters > longest:
            of, many, bound = ("values", count, most) if count > most else ("characters", characters, longest)
            raise LimitError(
                f"variable {path!r}, which describes fragments, has {many:,} {of}, at most {bound:,} are read"
            )
        if self.handle is None:
            raise ConventionError(f"variable {path!r} describes fragments, and its values are not read here")
        found = locate(self.handle.key.path, path, CONTEXT_SOURCE)
        if found.key != self.handle.key or found.header.shape != variable.shape:
            raise SourceError(f"{self.handle.key.path} was changed while it was read; open it again")
        return read(found, [slice(0, n, 1) for n in variable.shape], CONTEXT_SOURCE)


def _absolute(name: str, chain: tuple[Stated, ...]) -> str:
    """Return the absolute path that a path means in the last group of a chain from the root."""
    return posixpath.normpath(posixpath.join(chain[-1].path, name))


def _path(group: Stated, variable: Variable) -> str:
    return f"{group.path.rstrip('/')}/{variable.name}"


def _described(variable: Variable) -> Described:
    """Return the description of a variable for conventions."""
    if not variable.is_text:
        kind = np.dtype("V8") if variable.dtype.kind == "O" else variable.dtype
        return Described(variable.dims, variable.shape, kind, variable.attributes)
    inner = slice(0, -1) if variable.dtype.kind == "S" and variable.shape else slice(None)
    return Described(variable.dims[inner], variable.shape[inner], np.dtype(object), variable.attributes)


def _masked(variable: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values with missing ones masked: empty texts, and those that the attributes define."""
    if variable.is_text:
        fills = {f for n in ("_FillValue", "missing_value") for f in _texts(variable.attributes.get(n))}
        texts = values if values.dtype.kind == "O" else joined(values, fills)
        flat = texts.ravel().tolist()
        fills.add("")
        # No text is hashed if only empty ones are missing.
        if "" not in flat if len(fills) == 1 else fills.isdisjoint(flat):
            return texts
        gone = np.fromiter((t in fills for t in flat), np.bool_, len(flat)).reshape(texts.shape)
        return np.ma.MaskedArray(texts, gone)
    if values.dtype.kind not in "iuf":
        return values
    from cfagg.cf.missing import Missing
    from cfagg.cf.packing import Packing, read_as

    stored = values.dtype
    meant = read_as(stored, variable.attributes)
    packing = Packing.of(variable.attributes, where=variable.name)
    missing = Missing.of(
        variable.attributes, stored, meant, scale=packing.scale, offset=packing.offset, warn=False, where=variable.name
    )
    values = values.view(meant)
    return np.ma.MaskedArray(values, missing.mask(values))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of an attribute."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str | bytes):
            yield one if isinstance(one, str) else one.decode("utf-8", "replace")
