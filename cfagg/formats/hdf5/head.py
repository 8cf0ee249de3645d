"""Cache of parsed headers: the files of one series mostly have the same bytes there.

The result of a parser depends only on the bytes that it reads.  If a file has exactly the same bytes at the same
positions, including checksums, the result is the same, too, and only these bytes are compared.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from cfagg.formats.hdf5.space import BrokenError, TooManyError
from cfagg.storage.files import Handle
from cfagg.storage.locks import forkable

__all__ = ["Head", "forget", "remembered"]

#: Longest structure, and most bytes and requests for the header of one variable.
_LONGEST, _BYTES, _REQUESTS = 2**18, 2**22, 256

#: Bytes that are read at once, since related structures are mostly close together.
_BLOCK = 2**10

#: Limits of the cache: number of questions, and of answers to each.
_QUESTIONS, _ANSWERS = 64, 4

#: Most bytes after the first ones on which an answer may depend.
_BEHIND = 2**14


class Head:
    """The bytes of an open local or remote file: the first are in memory, a bounded number are read."""

    def __init__(self, handle: Handle, head: bytes = b"") -> None:
        self.size = handle.key.size
        self.head = head[: self.size]
        self._remote = handle.data
        self._fd = handle.fd if self._remote is None else -1
        self.bytes = self.requests = 0
        self._taken: list[tuple[int, int]] = []
        self._read: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, where: slice) -> bytes:
        at, end = where.start, where.stop
        # The full range, since another file may have more bytes there.
        self._taken.append((at, end))
        if end <= len(self.head):
            return self.head[where]
        end = min(end, self.size)
        if at >= end:
            return b""
        for begin, data in self._read:
            if begin <= at and end <= begin + len(data):
                return data[at - begin : end - begin]
        if end - at > _LONGEST:
            raise TooManyError
        size = min(max(end - at, _BLOCK), self.size - at)
        self.bytes += size
        self.requests += 1
        if self.bytes > _BYTES or self.requests > _REQUESTS:
            raise TooManyError
        data = os.pread(self._fd, size, at) if self._remote is None else bytes(self._remote[at : at + size])
        if len(data) != size:
            raise BrokenError
        self._read.append((at, data))
        return data[: end - at]

    def record(self) -> list[tuple[int, int]]:
        """Start recording which bytes are read; return the previous record."""
        before, self._taken = self._taken, []
        return before

    def take(self, places: Iterable[slice]) -> None:
        """Record bytes that were read elsewhere."""
        self._taken += [(place.start, place.stop) for place in places]

    def recorded(self, before: list[tuple[int, int]]) -> list[slice] | None:
        """Return the positions of the bytes read since `record`, or `None` if many are beyond the first bytes."""
        # Those beyond come last, in the order in which they were read, as they will be when the same is read again.
        taken, first = self._taken, len(self.head)
        self._taken = before + taken
        places: list[slice] = []
        for at, end in sorted(place for place in taken if place[1] <= first):
            if places and at <= places[-1].stop:
                places[-1] = slice(places[-1].start, max(end, places[-1].stop))
            else:
                places.append(slice(at, end))
        behind = [slice(*place) for place in dict.fromkeys(taken) if place[1] > first]
        return places + behind if sum(place.stop - place.start for place in behind) <= _BEHIND else None


class _Answer(NamedTuple):
    """The result of a parser, and the bytes on which it depends."""

    bytes: tuple[tuple[slice, bytes], ...]
    value: Any


_lock = forkable()
_known: OrderedDict[Hashable, tuple[_Answer, ...]] = OrderedDict()


def remembered[T](question: Hashable, file: Head, parse: Callable[[], T]) -> T:
    """Return the result of `parse`, from the cache if the question was asked about a file with the same bytes."""
    # The question includes everything on which `parse` depends besides the bytes that it reads; its result is shared
    # and must not be changed.  `parse` may ask further questions.
    head, first = file.head, len(file.head)

    def taken(place: slice) -> bytes:
        return head[place] if place.stop <= first else file[place]

    for answer in _known.get(question, ()):
        if all(taken(place) == data for place, data in answer.bytes):
            file.take(place for place, _ in answer.bytes)
            return answer.value  # type: ignore[no-any-return]
    before = file.record()
    value = parse()
    places = file.recorded(before)
    if places is not None:
        made = _Answer(tuple((place, taken(place)) for place in places), value)
        with _lock:
            _known[question] = (made, *_known.get(question, ())[: _ANSWERS - 1])
            _known.move_to_end(question)
            while len(_known) > _QUESTIONS:
                _known.popitem(last=False)
    return value


def forget() -> None:
    """Forget all headers, as in a new process."""
    with _lock:
        _known.clear()
