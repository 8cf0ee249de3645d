"""The common base of remote stores: several objects are read at a time, and two states of one are never mixed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from cfagg.errors import AccessError, FragmentReadError, StaleError, UnsupportedError
from cfagg.storage.store import Part, State

__all__ = ["RemoteSource"]

#: Number of objects that are requested at the same time.
_AT_ONCE = 16
#: Up to this many objects, their states are requested one by one even if the server has listings.
_ASKED = 32


class RemoteSource(ABC):
    """A store on a web server or in an object store."""

    remote = True
    #: Whether the server can list its objects.
    lists = False
    path: str
    #: Size and tag of each object when it was first read.
    _known: dict[str, tuple[int, str]]

    @abstractmethod
    def part(self, key: str, start: int | None, count: int) -> Part | None:
        """Return `count` bytes from `start` on, or the last ones, and the object's state; `None` if it is missing."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, or `None` if it does not exist."""

    @abstractmethod
    def _state(self, key: str) -> State | None:
        """Return the state of an object; `UnsupportedError` if the server gives no tag for it."""

    def objects(self, folder: str) -> Iterator[tuple[str, State]]:  # noqa: ARG002
        """Yield the keys and states of all objects below a folder, if the server lists them."""
        return iter(())

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only if the object ends before that."""
        if not count:
            return b""
        found = self.part(key, start, count)
        if found is None:
            raise FragmentReadError(f"{self.path}/{key} no longer exists; open the store again")
        self._check_known(key, found)
        return found.body

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of an object, or the last, and its size; or `None` if it does not exist."""
        found = self.part(key, None if last else 0, count)
        if found is None:
            return None
        self._check_known(key, found)
        if len(found.body) != min(count, found.size):
            raise FragmentReadError(f"{self.path}/{key}: the server does not send the requested bytes")
        return found.body, found.size

    def _check_known(self, key: str, found: Part) -> None:
        if found.tag is None:  # a response to a range beyond the end
            return
        state = found.size, found.tag
        if self._known.setdefault(key, state) != state:
            raise StaleError(f"{self.path}/{key} has been written since the store was opened; open the store again")

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one object, requested at the same time."""
        if len(ranges) < 2:
            return [self.read_range(key, start, count) for start, count in ranges]
        with ThreadPoolExecutor(min(len(ranges), _AT_ONCE)) as pool:
            return list(pool.map(lambda r: self.read_range(key, *r), ranges))

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of objects below a folder, or `None` for those that do not exist."""
        if (found := self._by_listing(folder)) is not None:
            return [found[name].size if name in found else None for name in names]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda name: self.size(f"{folder}/{name}"), names))

    def states(self, folder: str, names: Sequence[str]) -> list[State | None]:
        """Return the states of objects below a folder, `None` for missing ones; many are found by a listing."""
        if len(names) > _ASKED and (found := self._by_listing(folder)) is not None:
            untold = next((name for name in names if name in found and not found[name].tag), None)
            if untold is not None:
                raise self.untold(f"{folder}/{untold}")
            return [found.get(name) for name in names]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda name: self._state(f"{folder}/{name}"), names))

    def _by_listing(self, folder: str) -> dict[str, State] | None:
        """Return the states of all objects below a folder, or `None` if they can be read but not listed completely."""
        if not self.lists:
            return None
        try:
            return {key[len(folder) + 1 :]: state for key, state in self.objects(folder)}
        except (AccessError, UnsupportedError):
            return None

    def untold(self, key: str) -> UnsupportedError:
        """Return the error about an object whose state the server does not report."""
        return UnsupportedError(
            f"{self.path}/{key}: the server gives no strong ETag and size, so changes would go unnoticed; copy the "
            "store to this machine or to another server"
        )
