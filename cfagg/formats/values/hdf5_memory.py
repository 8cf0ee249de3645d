"""Headers that were parsed before: the files of one series mostly have the same bytes there.

What a parser gives depends on nothing but the bytes that it takes.  Where a file has the very same bytes at the same
places, checksums included, the result is the same too, and only these bytes are compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from cfagg.formats.values.hdf5_bytes import Bytes

__all__ = ["forget", "remembered"]

#: What is remembered: so many questions, and so many answers to each.
_QUESTIONS, _ANSWERS = 64, 4


class _Answer(NamedTuple):
    """What was found, and the bytes that it follows from."""

    bytes: tuple[tuple[slice, bytes], ...]
    found: Any


_lock = threading.Lock()
_known: OrderedDict[Hashable, tuple[_Answer, ...]] = OrderedDict()


def remembered[T](question: Hashable, file: Bytes, parse: Callable[[], T]) -> T:
    """Return what `parse` returns, from before where a file with the same bytes was asked the same question.

    Parameters
    ----------
    question : hashable
        All that `parse` depends on beside the bytes that it takes from `file`.
    file : Bytes
        The file.
    parse : callable
        Parses; its result is shared and must not be changed.
    """
    head = file.head
    for answer in _known.get(question, ()):
        if all(head[place] == data for place, data in answer.bytes):
            return answer.found  # type: ignore[no-any-return]
    file.record()
    found = parse()
    places = file.recorded()
    if places is not None:
        made = _Answer(tuple((place, head[place]) for place in places), found)
        with _lock:
            _known[question] = (made, *_known.get(question, ())[: _ANSWERS - 1])
            _known.move_to_end(question)
            while len(_known) > _QUESTIONS:
                _known.popitem(last=False)
    return found


def forget() -> None:
    """Forget all headers, as in a new process."""
    with _lock:
        _known.clear()
