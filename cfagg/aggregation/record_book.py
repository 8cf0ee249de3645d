"""Nodes of records, each stored once, with the files that use them; those used by one file are kept as bytes."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.record_nodes import LEAVES, MAGIC, SUM, WITH_BYTES, Node, checksum
from cfagg.aggregation.record_types import schema

__all__ = ["Book"]

#: Number of files whose nodes are kept as objects at the same time.
_TOGETHER = 256

#: Number of shared objects that are remembered before all are forgotten, and so visited again.
_REMEMBERED = 2**14

#: Size in bytes of the digest of a node and of all nodes that it refers to.
_DIGEST = 16

#: The user of nodes that several files use.
_SEVERAL = -1


class Book:
    """Nodes by number, in the order in which they are added.

    After some files, nodes used by only one of them are set aside as bytes; if one occurs again, its digest matches.
    """

    def __init__(self) -> None:
        #: Nodes of objects by identity, and of texts: those used by several files, and all of the current file. The
        #: caller keeps the objects alive.
        self.shared: dict[int | str, int] = {}
        self.own: dict[int | str, int] = {}
        self._file = self._count = 0
        self._known: dict[Node, int] = {}
        #: For nodes in memory: how many nodes each contains, and the one file that uses it.
        self._nodes: dict[int, Node] = {}
        self._weights: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self._digests: dict[int, bytes] = {}
        self._roots: list[int | None] = []
        #: Numbers and nodes that only one file used when they were set aside, for each file.
        self._rows: list[bytes] = []
        self._aside = _Aside()

    def begin(self, nodes: Iterable[Node]) -> None:
        """Add nodes that several earlier files use."""
        self._file = _SEVERAL
        for node in nodes:
            self.node(node)
        self._file = 0

    def node(self, node: Node) -> int:
        """Return the number of a node, and mark it as used by the current file."""
        number = self._known.setdefault(node, self._count)
        if number == self._count:
            self._count += 1
            self._nodes[number] = node
            self._weights[number] = 1 + sum([self._weights[k] for k in node[1]])
            self._users[number] = self._file
        elif self._users[number] != self._file:
            self._use(number)
        return number

    def _use(self, number: int) -> None:
        """Record that the current file uses a node and all nodes that it refers to."""
        waiting = [number]
        while waiting:
            one = waiting.pop()
            if self._users[one] not in (_SEVERAL, self._file):
                self._users[one] = _SEVERAL
                waiting += self._nodes[one][1]

    def note(self, key: int | str, number: int) -> None:
        """Record the node of an object, so that it is not visited again, in this file or in any."""
        (self.shared if self._users[number] == _SEVERAL else self.own)[key] = number

    def weight(self, number: int) -> int:
        """Return how many nodes a node in memory contains."""
        return self._weights[number]

    def end(self, root: int | None) -> None:
        """End a file, whose root node is `root`, or `None` if it cannot be recorded."""
        self.own.clear()
        self._roots.append(root)
        self._file += 1
        if self._file - len(self._rows) >= _TOGETHER:
            self._set_aside()

    def _set_aside(self) -> None:
        """Keep only nodes used by several files as objects, including nodes that were set aside before."""
        first, digests = len(self._rows), self._digests
        fresh = [n for n in self._nodes if n not in digests]
        for n in fresh:
            tag, kids, data = self._nodes[n]
            said = b"%d %d %b%b" % (tag, len(kids), b"".join([digests[k] for k in kids]), data)
            digests[n] = blake2b(said, digest_size=_DIGEST).digest()
        found = self._aside.find([digests[n] for n in fresh])
        same = {n: before for n, before in zip(fresh, found, strict=True) if before >= 0}
        rows: list[list[tuple[int, Node]]] = [[] for _ in range(first, self._file)]
        alone: dict[int, bytes] = {}
        for n in fresh:
            node, user, weight, digest = self._nodes.pop(n), self._users.pop(n), self._weights.pop(n), digests.pop(n)
            del self._known[node]
            if same:
                node = node[0], tuple([same.get(k, k) for k in node[1]]), node[2]
            if user != _SEVERAL and n not in same:
                rows[user - first].append((n, node))
                alone[n] = digest
                continue
            number = self._known[node] = same.get(n, n)
            self._nodes[number], self._users[number] = node, _SEVERAL
            self._weights[number], digests[number] = weight, digest
        self._aside.add(alone)
        self._rows += map(_packed, rows)
        if len(self.shared) > _REMEMBERED:
            self.shared.clear()
        if same:
            self.shared.update({key: same[n] for key, n in self.shared.items() if n in same})
            self._roots[first:] = [None if n is None else same.get(n, n) for n in self._roots[first:]]

    def written(self) -> tuple[list[bytes], bytes]:
        """Return a record for each file, and their shared part."""
        self._set_aside()
        self._aside = _Aside()
        places = {n: place for place, n in enumerate(sorted(self._nodes))}
        body = b"".join([MAGIC, schema(), *_listed([self._nodes[n] for n in places], places)])
        shared = body + checksum(body)
        records, common = self._rows, len(places)
        for file, root in enumerate(self._roots):
            if root is None:
                records[file] = b""
                continue
            own = {n: node for n, node in _unpacked(records[file]) if n not in self._nodes}
            places.update(zip(own, range(common, common + len(own)), strict=True))
            body = b"".join([*_listed(own.values(), places), _number(places[root])])
            # It belongs to this shared part only.
            records[file] = body + checksum(body, shared[-SUM:])
            for n in own:
                del places[n]
        return records, shared


class _Aside:
    """Numbers of nodes by digest, in a few arrays, each of which is at least twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64]]] = []

    def find(self, digests: Sequence[bytes]) -> list[int]:
        """Return the number of each digest, or -1 if unknown."""
        wanted = np.array(digests, f"S{_DIGEST}")
        found = np.full(len(wanted), -1)
        for known, numbers in self._runs:
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found = np.where(known[at] == wanted, numbers[at], found)
        return found.tolist()

    def add(self, digests: Mapping[int, bytes]) -> None:
        """Add digests by number, none of which was present."""
        if not digests:
            return
        self._runs.append((np.array(list(digests.values()), f"S{_DIGEST}"), np.array(list(digests), np.int64)))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            joined = [np.concatenate(pair) for pair in zip(self._runs.pop(), self._runs.pop(), strict=True)]
            self._runs.append((joined[0], joined[1]))
        known, own = self._runs[-1]
        order = np.argsort(known)
        self._runs[-1] = known[order], own[order]


def _packed(nodes: Sequence[tuple[int, Node]]) -> bytes:
    """Return nodes and their numbers as bytes: the count, the heads, and the data of all."""
    heads = array("I", [len(nodes)])
    for n, (tag, kids, data) in nodes:
        heads.extend((n, tag, len(data), len(kids), *kids))
    return heads.tobytes() + b"".join([node[2] for _, node in nodes])


def _unpacked(row: bytes) -> Iterator[tuple[int, Node]]:
    """Yield nodes and their numbers."""
    heads = memoryview(row[: len(row) // 4 * 4]).cast("I")
    at, heads_of = 1, []
    for _ in range(heads[0]):
        n, tag, size, count = heads[at : at + 4]
        heads_of.append((n, tag, size, tuple(heads[at + 4 : at + 4 + count])))
        at += 4 + count
    at *= 4
    for n, tag, size, kids in heads_of:
        yield n, (tag, kids, row[at : at + size])
        at += size


def _listed(nodes: Collection[Node], places: Mapping[int, int]) -> Iterable[bytes]:
    """Yield nodes in written form."""
    yield _number(len(nodes))
    for tag, kids, data in nodes:
        yield bytes([tag])
        if tag not in LEAVES:
            yield _number(len(kids)) + b"".join([_number(places[k]) for k in kids])
        if tag in WITH_BYTES:
            yield _number(len(data)) + data


def _number(value: int) -> bytes:
    """Return a count or position as bytes: seven bits each, lowest first."""
    if value < 128:
        return bytes([value])
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
