"""Zarr v2 and v3 as datasets: groups, arrays with named dimensions, and NCZarr's metadata.

Dimensions have names if ``dimension_names``, ``_ARRAY_DIMENSIONS`` or NCZarr give them; within a group, and those below
it, equal names and lengths are one dimension.

Source: the Zarr v2 and v3 core specifications; "NCZarr" in the netCDF user guide; xarray's Zarr encoding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import AccessError, CfaggError, FragmentReadError, LimitError, SourceError
from cfagg.formats.metadata.foreign import too_long
from cfagg.formats.metadata.json_values import value_of_json
from cfagg.formats.metadata.nczarr import HIDDEN, Notes, notes_of
from cfagg.formats.metadata.stores import LocalStore, Store
from cfagg.formats.metadata.zarr_nodes import Node, tree
from cfagg.formats.metadata.zarr_times import MISSING, times_of
from cfagg.formats.metadata.zarr_types import fill_attribute, give_types, kind_of
from cfagg.formats.zarr.settings import no_codec, text_of
from cfagg.model.dataset import Dataset, Dimension, Group, Variable
from cfagg.storage.store import raise_ours

__all__ = ["ZarrValues", "open_store", "open_zarr", "reading"]

#: Most chunks that zarr-python reads at once.
_AT_ONCE = 1 << 14

#: Most dimensions of an array, as in NumPy.
_RANK = 64


def open_zarr(path: str, allow: Iterable[str] = ()) -> Dataset:
    """Return the model of a Zarr store in a directory, in which links may point to allowed places."""
    dataset = open_store(LocalStore(path, allow))
    dataset.path = path
    return dataset


def open_store(store: Store, *, times: bool = False, flawed: bool = False) -> Dataset:
    """Return the model of a Zarr store.

    With `times`, those of NumPy's types are numbers with units, as in CF.  With `flawed`, damaged metadata of an array
    make only that array unreadable; they are an error otherwise.
    """
    top = tree(store, flawed=flawed)
    notes = notes_of(top.attributes, top.document)
    root = Group(typed=notes.typed)
    if top.is_array:
        _Builder(store, times).array(root, top, top.path.rpartition("/")[2] or "data")
    else:
        _Builder(store, times, flawed=flawed).group(root, top)
    return Dataset(store.source, "nczarr" if notes.found else "zarr", root, typed=notes.typed)


class _Builder:
    """Builds the model from the nodes."""

    def __init__(self, store: Store, times: bool, *, flawed: bool = False) -> None:
        self.store, self._times, self._flawed = store, times, flawed
        self._phony = 0

    def group(self, root: Group, top: Node) -> None:
        """Fill a group and all below it."""
        waiting = [(root, top)]
        arrays: list[tuple[Group, Node, str]] = []
        while waiting:
            group, node = waiting.pop()
            notes = notes_of(node.attributes, node.document)
            for name, (size, unlimited) in notes.dimensions.items():
                group.add_dimension(name, size, unlimited=unlimited)
            _give_attributes(group, node, notes)
            below = []
            for name, member in _ordered(node.below, notes):
                if member.is_array:
                    arrays.append((group, member, name))
                else:
                    below.append((group.child(name), member))
            waiting.extend(reversed(below))
        # NCZarr may define a dimension in a later group.
        for group, member, name in arrays:
            flaw = member.flaw
            if flaw is None:
                try:
                    self.array(group, member, name)
                except SourceError as error:
                    if not self._flawed:
                        raise
                    flaw = error.message
            if flaw is not None:
                group.variables[name] = Variable(name, group, (), np.dtype(object), "other", unreadable=flaw)

    def array(self, group: Group, node: Node, name: str) -> None:
        """Add an array to its group."""
        found, notes = node.document, notes_of(node.attributes, node.document)
        where = f"{self.store.source}: array {node.path or '/'}"
        shape = found.get("shape")
        if (
            not isinstance(shape, list)
            or len(shape) > _RANK
            or any(not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 2**63 for n in shape)
        ):
            raise SourceError(f"{where} has the shape {str(shape)[:60]}, expected a list of sizes; write it again")
        dtype, kind = kind_of(found, node.format)
        times = times_of(found, node.format, node.attributes) if self._times else None
        if times is not None:
            dtype, kind = np.dtype(np.int64), "integer"
        variable = Variable(name, group, (), dtype, kind)
        if notes.scalar or (shape == [1] and node.attributes.get("_ARRAY_DIMENSIONS") == ["_scalar_"]):
            shape = []  # the netCDF library writes a scalar as an array of one element
        variable.dimensions = self._dimensions(group, node, notes, shape)
        _give_attributes(variable, node, notes)
        if times is None:
            give_types(variable, notes.types)
            fill_attribute(variable, found, node.format, nczarr=notes.found)
        else:
            variable.attributes.update(times)
            if variable.dims != (name,):  # a coordinate has no missing values (CF section 2.5.1)
                variable.attributes["_FillValue"] = np.array([MISSING])
        variable.read = ZarrValues(self.store, node, tuple(shape), where, notes.found and kind == "string")
        variable.read.times = None if times is None else variable.dims == (name,)
        group.variables[name] = variable

    def _dimensions(self, group: Group, node: Node, notes: Notes, shape: list[int]) -> tuple[Dimension, ...]:
        names = notes.references
        if names is None:
            names = node.document.get("dimension_names") if node.format == 3 else None
        if names is None:
            names = node.attributes.get("_ARRAY_DIMENSIONS")
        if not isinstance(names, list) or len(names) != len(shape):
            names = [None] * len(shape)
        taken: tuple[Dimension, ...] = ()
        for name, size in zip(names, shape, strict=True):
            taken = (*taken, self._dimension(group, name if isinstance(name, str) and name else None, size, taken))
        return taken

    def _dimension(self, group: Group, name: str | None, size: int, taken: tuple[Dimension, ...]) -> Dimension:
        if name is None:
            for known in group.dimensions.values():
                if known.name.startswith("phony_dim_") and known.size == size and known not in taken:
                    return known
            self._phony += 1
            return group.add_dimension(f"phony_dim_{self._phony - 1}", size)
        at = group
        if name.startswith("/"):
            home, _, name = name.rpartition("/")
            at = _group_at(group, home) or group
        found = next((g.dimensions[name] for g in at.ancestors() if name in g.dimensions), None)
        if found is not None and (found.size == size or found.unlimited):
            return found
        if name in at.dimensions:
            # Two lengths with the same name in one group are impossible in netCDF, so both are shown.
            return Dimension(name, size, at.path)
        return at.add_dimension(name, size)


def _group_at(group: Group, path: str) -> Group | None:
    at = next(g for g in group.ancestors() if g.parent is None)
    for word in filter(None, path.split("/")):
        if word not in at.groups:
            return None
        at = at.groups[word]
    return at


def _ordered(below: dict[str, Node], notes: Notes) -> list[tuple[str, Node]]:
    """Return the members of a group, with those that NCZarr lists first, in its order."""
    first = [n for n in notes.order if n in below]
    listed = set(first)
    return [(n, below[n]) for n in (*first, *(n for n in below if n not in listed))]


def _give_attributes(owner: Group | Variable, node: Node, notes: Notes) -> None:
    hidden = HIDDEN if notes.found else ("_ARRAY_DIMENSIONS",)
    owner.attributes = {
        name: (too_long(name, len(value)) if isinstance(value, str) else None)
        or value_of_json(value, notes.types.get(name))
        for name, value in node.attributes.items()
        if name not in hidden
    }


def _chunk_shape(node: Node, rank: int) -> list[int] | None:
    """Return the shape of all chunks of an array, or `None` if they differ."""
    found = node.document.get("chunks")
    if node.format == 3:
        grid = node.document.get("chunk_grid")
        inner = grid.get("configuration") if isinstance(grid, dict) else None
        found = inner.get("chunk_shape") if isinstance(inner, dict) else None
    if not isinstance(found, list) or len(found) != rank or not all(type(n) is int and n > 0 for n in found):
        return None
    return found


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Convert any error that prevents reading the values of an array to `FragmentReadError`."""
    try:
        yield
    except (FragmentReadError, LimitError, AccessError):
        raise
    except CfaggError as error:
        raise FragmentReadError(f"{where}: its values cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        how = "is cut within a character" if error.end == len(error.object) else "is not UTF-8"
        raise FragmentReadError(
            f"{where}: one of its texts {how} (byte {error.object[error.start]:#x} at position {error.start}: "
            f"{error.reason}); write the array again, with room for all bytes of its texts"
        ) from error
    except Exception as error:  # codecs may raise any exception for damaged bytes
        raise_ours(error)
        if (lacking := no_codec(error)) is not None:
            raise FragmentReadError(f"{where}: it {lacking}") from error
        raise FragmentReadError(
            f"{where}: its values cannot be decoded as its metadata describe: metadata or chunks are damaged; write "
            "the array again"
        ) from error


class ZarrValues:
    """Reads hyperslabs of one array through zarr-python, which is loaded when the first values are read."""

    def __init__(self, store: Store, node: Node, shape: tuple[int, ...], where: str, text: bool = False) -> None:
        #: Whether bytes are text: the netCDF library writes strings in this form, padded to one length.
        self.text = text
        self.store, self.path, self.format, self.shape, self.where = store, node.path, node.format, shape, where
        self.chunks = _chunk_shape(node, len(shape))
        #: Whether times become numbers (not `None`), of which none may be missing.
        self.times: bool | None = None
        self._opened: Any = None

    def limited(self) -> None:
        """Raise an error for arrays with too many chunks."""
        total = math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks or self.shape, strict=True) if c)
        if total > limits.MAX_PARTITIONS:
            raise LimitError(
                f"{self.where} has {total:,} chunks; values are read only from arrays of up to "
                f"{limits.MAX_PARTITIONS:,}"
            )

    def flaw(self) -> str | None:
        """Return why no values can be read, as far as the metadata tell, or `None`."""
        try:
            with reading(self.where):
                self._open()
                self.limited()
        except LimitError as error:
            return error.message
        except FragmentReadError as error:
            return error.__cause__.message if isinstance(error.__cause__, CfaggError) else error.message
        return None

    def _open(self) -> None:
        """Open the array by zarr-python, once."""
        if self._opened is None:
            self._opened = self.store.array(self.path, self.format)

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return a hyperslab."""
        with reading(self.where):
            self._open()
            if not self.shape and self._opened.ndim:
                # NCZarr writes a scalar as an array of one element.
                found = np.asarray(self._opened[...]).reshape(-1)[0:1].reshape(())
            else:
                self.limited()
                found = self._read(slices)
            text_of(found, self.where)
            if self.text and found.dtype.kind == "S":
                found = np.strings.decode(found, "utf-8")
        if self.times is not None:
            return self._numbers(found)
        if found.dtype.kind in "UTS" and found.dtype != np.dtype("S1"):
            return found.astype(object)
        return found if found.dtype.kind in "OSV" else found.astype(found.dtype.newbyteorder("="), copy=False)

    def _numbers(self, found: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return times as numbers."""
        numbers = found.astype(found.dtype.newbyteorder("="), copy=False).view(np.int64)
        if self.times and (numbers == MISSING).any():
            raise SourceError(
                f"{self.where} is a coordinate with missing times, which CF does not allow (section 2.5.1); write it "
                "without them, or leave it out"
            )
        return numbers

    def _read(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Read a hyperslab, in parts if it has so many chunks that zarr-python would use a lot of memory."""
        chunks = self.chunks
        if not slices or chunks is None:
            return np.asarray(self._opened[slices])
        counts = [-(-(s.stop - s.start) // c) for s, c in zip(slices, chunks, strict=True)]
        if math.prod(counts) <= _AT_ONCE:
            return np.asarray(self._opened[slices])
        axis = counts.index(max(counts))
        whole, rest = slices[axis], math.prod(counts) // counts[axis]
        step = max(_AT_ONCE // rest, 1) * chunks[axis]
        starts = range(whole.start, whole.stop, step)
        parts = [
            self._read((*slices[:axis], slice(i, min(i + step, whole.stop), 1), *slices[axis + 1 :])) for i in starts
        ]
        return np.concatenate(parts, axis)
