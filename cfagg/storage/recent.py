"""Objects of a remote store that a writer has just read or written, so that it need not request them again."""

from __future__ import annotations

from threading import Lock

from cfagg.storage.store import Part, State

__all__ = ["Recent"]

#: Bytes of objects that are kept, and number of objects whose tags are kept.
_BYTES, _TAGS = 1 << 26, 100_000


class Recent:
    """Objects as one call last saw them, by key; no other reader of the store ever gets them."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._sure: set[str] = set()
        self._room = _BYTES
        self._lock = Lock()

    def keep(self, key: str, body: bytes | memoryview, tag: str | None) -> None:
        """Keep an object; of a large one, only the tag is kept."""
        self.forget(key)
        with self._lock:
            if not tag or len(self._parts) >= _TAGS:
                return
            kept = bytes(body) if len(body) <= self._room else b""
            self._room -= len(kept)
            self._parts[key] = Part(kept, len(body), tag.strip('"'))

    def forget(self, key: str) -> None:
        """Forget an object, which may have changed."""
        with self._lock:
            self._sure.discard(key)
            found = self._parts.pop(key, None)
            self._room += 0 if found is None else len(found.body)

    def clear(self) -> None:
        """Forget all objects."""
        for key in list(self._parts):
            self.forget(key)

    def tag(self, key: str) -> str | None:
        """Return the tag of an object, or `None` if unknown."""
        found = self._parts.get(key)
        return None if found is None else found.tag

    def part(self, key: str) -> Part | None:
        """Return a whole object, or `None` if it is not kept."""
        found = self._parts.get(key)
        return found if found is not None and len(found.body) == found.size else None

    def look(self, key: str, state: State | None) -> None:
        """Forget an object if its state on the server is another."""
        found = self._parts.get(key)
        if found is None or state is None or (state.size, state.tag) != (found.size, found.tag):
            self.forget(key)
        else:
            self._sure.add(key)

    def is_sure(self, key: str) -> bool:
        """Whether the server was checked since an object was kept, so that its bytes are known to be current."""
        return key in self._sure and self.part(key) is not None
