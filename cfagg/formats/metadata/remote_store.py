"""A store for zarr-python over anything that gives bytes by key; nothing can be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

__all__ = ["KeyStore"]


class KeyStore(Store):
    """A read-only store.

    Parameters
    ----------
    read : callable
        Returns the bytes under a key, `None` where there are none.
    read_range : callable, optional
        Returns bytes under a key by start and count; without it they are cut from the whole.
    """

    def __init__(
        self, read: Callable[[str], bytes | None], read_range: Callable[[str, int, int], bytes] | None = None
    ) -> None:
        super().__init__(read_only=True)
        self._read, self._read_range = read, read_range

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

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
        if isinstance(part, RangeByteRequest) and self._read_range is not None:
            return self._read_range(key, part.start, part.end - part.start)
        whole = self._read(key)
        if whole is None or part is None:
            return whole
        if isinstance(part, RangeByteRequest):
            return whole[part.start : part.end]
        if isinstance(part, OffsetByteRequest):
            return whole[part.offset :]
        return whole[-part.suffix :] if part.suffix else b""

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the values of several keys."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Tell whether there is something under a key."""
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
        """What there is is not told."""
        return False

    async def set(self, key: str, value: Buffer) -> None:  # noqa: ARG002
        """Refuse to write."""
        raise PermissionError(f"{key} cannot be written: the store is only read")

    async def delete(self, key: str) -> None:
        """Refuse to delete."""
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

    async def list_dir(self, prefix: str) -> AsyncIterator[Any]:  # noqa: ARG002
        """List nothing."""
        nothing: tuple[Any, ...] = ()
        for name in nothing:
            yield name
