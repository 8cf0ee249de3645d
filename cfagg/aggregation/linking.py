"""What links arrays that share dimensions without coordinates: the features of ragged arrays, and meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.joining import Joined
from cfagg.aggregation.names import content_key
from cfagg.cf.joining import Companion, Described

__all__ = ["Mesh", "large_key", "mesh_of", "ragged_key"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mesh:
    """The dimensions of a mesh or of gathered points in the files, and a key that arrays on equal ones share."""

    dims: frozenset[str] = frozenset()
    key: tuple[Any, ...] = ()


def ragged_key(joined: Joined, rows: Int64, described: Sequence[Described]) -> tuple[Any, ...]:
    """Return a key for how features are stored, if an array is ragged."""
    if not _is_ragged(described[0]):
        return ()
    digest = blake2b(digest_size=16)
    for row, one in zip(rows.tolist(), described, strict=True):
        roots = {one.axes[own.within] for own in one.axes.values() if own.within} if _is_ragged(one) else ()
        for own in (*roots, *(p for p in one.parts.values() if p.role == "ragged")):
            said = content_key(own.values) if own.values is not None else large_key(joined, own, row)
            digest.update(repr(said).encode())
    return (digest.digest(),)


def mesh_of(joined: Joined, rows: Int64, described: Sequence[Described]) -> Mesh:
    """Return the mesh of an array, or the points that it is gathered from.

    The coordinates of its location, such as faces, are coordinates of the array, while those of others are parts of the
    mesh: both are found by the names in the attributes of the mesh.
    """
    mesh = next((m for m in described[0].mappings.values() if m.text("cf_role") == "mesh_topology"), None)
    said = {} if mesh is None else mesh.attributes
    texts = [t for k, t in said.items() if k.endswith(("_connectivity", "_coordinates")) and isinstance(t, str)]
    texts += [p.stated.name for p in described[0].parts.values() if p.role == "gathered"]
    if not texts:
        return Mesh()
    words = sorted({word.rpartition("/")[2] for text in texts for word in text.split()})
    dims: set[str] = set()
    seen: dict[int, Any] = {}
    # Each once, since files share what an index said of them, but have objects of their own when scanned.
    contents: dict[bytes, None] = {}
    for row, one in zip(rows.tolist(), described, strict=True):
        parts: list[Any] = [*one.axes.values(), *one.parts.values()]  # some axes only count
        there = {own.stated.name.rpartition("/")[2]: own for own in parts}
        for word in words:
            own: Any = there.get(word)
            if own is not None and id(own) not in seen:
                seen[id(own)] = own
                dims.update(own.stated.dims)
                known = large_key(joined, own, row) if own.values is None else content_key(_in_order(own))
                contents[blake2b(repr((word, known)).encode(), digest_size=16).digest()] = None
    return Mesh(frozenset(dims), (b"".join(contents),))


def _in_order(own: Any) -> npt.NDArray[Any]:
    """Return values in an order of dimensions that is the same where they were turned for an array at faces."""
    values: npt.NDArray[Any] = own.values
    dims = own.stated.dims
    return values.transpose(sorted(range(len(dims)), key=dims.__getitem__)) if values.ndim == len(dims) else values


def large_key(joined: Joined, own: Companion, row: int) -> bytes | tuple[int, str]:
    """Return a key for values that were not kept: their location, if they were not even compared."""
    return own.digest or (int(joined.file[row]), own.stated.name)


def _is_ragged(one: Described) -> bool:
    return any(p.role == "ragged" for p in one.parts.values())
