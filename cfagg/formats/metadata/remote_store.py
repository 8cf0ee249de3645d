"""A remote store for zarr-python; it is read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, RangeByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from cfagg.formats.zarr.checked_store import cut
from cfagg.formats.zarr.refused import read_or_absent
from cfagg.formats.zarr.vetting import vetted

__all__ = ["KeyStore"]


class KeyStore(Store):
    """A read-only remote store; it can be pickled if its source can.  `coarse` is as for `vetted`."""

    #: Nothing points out of a remote store.
    allow = ()

    def __init__(self, source: Any, path: str = "", *, coarse: bool = False) -> None:
        super().__init__(read_only=True)
        self.source, self.path, self.coarse = source, path or source.path, coarse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyStore) and self.source is other.source

    def __hash__(self) -> int:
        return id(self.source)

    def __str__(self) -> str:
        return str(self.source.path)

    def __repr__(self) -> str:
        return f"KeyStore({self.source!r})"

    def _read(self, key: str) -> bytes | None:
        raw = read_or_absent(self.source.read, key)
        name = key.rpartition("/")[2]
        return (
            raw if raw is None or name not in (".zarray", "zarr.json") else vetted(name, raw, key, coarse=self.coarse)
        )

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key or a part of it."""
        from zarr.core.buffer import default_buffer_prototype

        raw = await asyncio.to_thread(self._part, key, byte_range)
        if raw is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(raw)

    def _part(self, key: str, part: ByteRequest | None) -> bytes | None:
        if isinstance(part, RangeByteRequest):
            found: bytes = self.source.read_range(key, part.start, part.end - part.start)
            return found
        whole = self._read(key)
        return None if whole is None else cut(whole, part)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the values of several keys."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether a key exists."""
        return await asyncio.to_thread(self._read, key) is not None

    @property
    def supports_writes(self) -> bool:
        """Nothing can be written."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Nothing can be deleted."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Whether the server can list its objects."""
        return bool(self.source.lists)

    async def set(self, key: str, value: Buffer) -> None:  # noqa: ARG002
        """Raise an error: nothing can be written."""
        raise PermissionError(f"{key} cannot be written: the store is only read")

    async def delete(self, key: str) -> None:
        """Raise an error: nothing can be deleted."""
        raise PermissionError(f"{key} cannot be deleted: the store is only read")

    async def list(self) -> AsyncIterator[Any]:
        """List nothing."""
        nothing: tuple[Any, ...] = ()
        for name in nothing:
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[Any]:  # noqa: ARG002 - the signature is zarr's
        """List nothing."""
        nothing: tuple[Any, ...] = ()
        for name in nothing:
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[Any]:
        """Yield the names below a prefix."""
        for name in await asyncio.to_thread(list, self.source.children(prefix.strip("/")) if self.source.lists else ()):
            yield name
