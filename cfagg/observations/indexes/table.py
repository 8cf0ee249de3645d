"""Tables of 64-bit integers in a Zarr store, read a few rows at a time.

Indexes of observations are stored as arrays of two dimensions in chunks of tens of megabytes, of which a search needs
single rows.  Chunks compressed with Blosc are made of blocks that decode on their own, so only blocks with the rows
asked for are read and decoded.  Chunks of other codecs are decoded whole.

Sources: the Zarr v2 and v3 core specifications; the format of Blosc chunks (``README_CHUNK_FORMAT.rst`` of c-blosc).
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from cfagg.errors import FragmentReadError, SourceError, UnsupportedError
from cfagg.observations.indexes.protocol import Files, Int64
from cfagg.zarrs.codecs import DamagedError, Decoder, decoder, named

__all__ = ["Table", "read_json"]

_INT64 = np.dtype(np.int64)

#: Decoded bytes that a table keeps; one block is always kept, whatever its size.
KEPT = 16 * 2**20

#: A chunk has at most so many bytes: more than any software writes, and small enough for memory.
MAX_CHUNK = 2**31


class Table:
    """An array of int64 with two dimensions and chunks over rows.

    Parameters
    ----------
    source : Files
        The stored objects.
    name : str
        Name of the array.
    where : str
        Path of the store, for messages.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    attributes : mapping
        Attributes as written.

    Raises
    ------
    SourceError
        There is no such array, or it is no table of int64.
    UnsupportedError
        Its codecs are not read here.
    """

    def __init__(self, source: Files, name: str, where: str) -> None:
        self._source, self.name, self.where = source, name, f"{where}: array {name!r}"
        document = read_json(source, f"{name}/zarr.json", self.where)
        self.zarr_format = 3 if document is not None else 2
        if document is None:
            document = read_json(source, f"{name}/.zarray", self.where)
        if document is None:
            raise SourceError(f"{where} has no array {name!r}")
        try:
            found = self._describe(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SourceError(f"{self.where} has metadata that are no table of int64: {error!r}") from error
        self.shape, self._chunk, self._prefix, self._separator = found
        made = decoder(document, self.zarr_format, _INT64)
        if made is None:
            raise UnsupportedError(f"{self.where} is stored with codecs that are not read here; write the index again")
        self._decoder: Decoder = made
        self._blosc = self._is_blosc(document)
        self._heads: dict[int, _Head | None] = {}
        self._kept: dict[tuple[int, int], Any] = {}
        self._held = 0
        if self.zarr_format == 3:
            self.attributes: dict[str, Any] = document.get("attributes") or {}
        else:
            self.attributes = read_json(source, f"{name}/.zattrs", self.where) or {}

    def _describe(self, document: dict[str, Any]) -> tuple[tuple[int, int], int, str, str]:
        """Return shape, rows of a chunk, and how keys are made."""
        shape, fill = document["shape"], document.get("fill_value")
        if self.zarr_format == 3:
            name, grid = named(document["chunk_grid"])
            kind, dtype = document["node_type"], document["data_type"]
            encoding, configuration = named(document["chunk_key_encoding"])
            prefix, separator = ("c", "/") if encoding == "default" else ("", ".")
            separator = configuration.get("separator", separator)
            chunks = grid["chunk_shape"]
            right = kind == "array" and name == "regular" and dtype == "int64" and encoding in ("default", "v2")
        else:
            prefix, separator, chunks = "", document.get("dimension_separator", "."), document["chunks"]
            right = document["zarr_format"] == 2 and document["dtype"] in ("<i8", ">i8")
        sizes = [*shape, *chunks]
        right = right and len(shape) == len(chunks) == 2 and all(type(n) is int and 0 <= n < 2**62 for n in sizes)
        right = right and chunks[0] > 0 and chunks[1] == shape[1] and fill in (0, None) and separator in (".", "/")
        if not right or chunks[0] * chunks[1] * 8 > MAX_CHUNK:
            raise ValueError(f"shape {shape}, chunks {chunks}, fill value {fill!r}")
        return (shape[0], shape[1]), chunks[0], prefix, separator

    def _is_blosc(self, document: dict[str, Any]) -> bool:
        """Return whether chunks are Blosc's and nothing else."""
        if self._decoder.swap:
            return False
        if self.zarr_format == 2:
            return not document.get("filters") and (document.get("compressor") or {}).get("id") == "blosc"
        return [named(c)[0] for c in document["codecs"]] == ["bytes", "blosc"]

    def __getstate__(self) -> dict[str, Any]:
        # Decoded blocks are not sent to other processes.
        return self.__dict__ | {"_heads": {}, "_kept": {}, "_held": 0, "_decoder": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(Table(state["_source"], state["name"], state["where"].rpartition(": array ")[0]).__dict__)

    @property
    def block_rows(self) -> int:
        """Rows that are decoded together, about."""
        return self._chunk

    def read(self, start: int, stop: int) -> Int64:
        """Return rows.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Returns
        -------
        int64 array, shape (stop - start, columns)
            C-contiguous.

        Raises
        ------
        FragmentReadError
            A chunk is damaged, truncated or not readable.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"{self.where} has {self.shape[0]:,} rows, not {start:,} to {stop:,}")
        out = np.empty((stop - start, self.shape[1]), _INT64)
        flat, width = out.reshape(-1).view(np.uint8), self.shape[1] * 8
        at = 0
        while start < stop and width:
            number, inside = divmod(start, self._chunk)
            n = min(stop - start, self._chunk - inside) * width
            self._fill(number, inside * width, flat[at : at + n])
            at, start = at + n, start + n // width
        return out

    def _fill(self, number: int, start: int, out: Any) -> None:
        """Copy bytes of a chunk."""
        head = self._head(number)
        if head is None:
            out[:] = 0
            return
        block, done = start // head.block, 0
        while done < len(out):
            decoded = self._block(number, head, block)
            inside = start + done - block * head.block
            n = min(len(decoded) - inside, len(out) - done)
            out[done : done + n] = decoded[inside : inside + n]
            done, block = done + n, block + 1

    def _key(self, number: int) -> str:
        tail = f"{number}{self._separator}0"
        return f"{self.name}/{self._prefix}{self._separator}{tail}" if self._prefix else f"{self.name}/{tail}"

    def _head(self, number: int) -> _Head | None:
        """Return how a chunk is made of blocks; `None` where it is not stored."""
        if number in self._heads:
            return self._heads[number]
        key, nbytes = self._key(number), self._chunk * self.shape[1] * 8
        size = self._source.size(key)
        head = None
        if size is not None:
            head = _Head(nbytes, nbytes, 0, b"", np.empty(0, np.int64), size)
            if self._blosc:
                head = self._blosc_head(key, size, nbytes)
        if len(self._heads) >= 4096:
            self._heads = {}
        self._heads[number] = head
        return head

    def _blosc_head(self, key: str, size: int, nbytes: int) -> _Head:
        """Return how a chunk of Blosc is made of blocks."""
        raw = self._source.read_range(key, 0, min(size, 16))
        if len(raw) < 16:
            raise self._damaged(key, f"its {len(raw)} bytes have no room for the header of blosc")
        found, block, packed = np.frombuffer(raw, "<u4", 3, 4).tolist()
        if found != nbytes or packed != size or not 0 < block <= nbytes:
            raise self._damaged(key, f"its header gives {found:,} bytes from {packed:,}, not {nbytes:,} from {size:,}")
        starts = np.empty(0, np.int64)
        if not raw[2] & 2:
            count = -(-nbytes // block)
            listed = self._source.read_range(key, 16, 4 * count)
            if len(listed) != 4 * count:
                raise self._damaged(key, "it ends within the places of its blocks")
            starts = np.frombuffer(listed, "<i4").astype(np.int64)
            if (starts < 16 + 4 * count).any() or (starts >= size).any():
                raise self._damaged(key, "it has blocks outside of itself")
        return _Head(nbytes, block, raw[2], raw[:4], starts, size)

    def _block(self, number: int, head: _Head, block: int) -> Any:
        """Return the bytes of one block, or of the whole chunk where it has no blocks."""
        kept = self._kept.get((number, block))
        if kept is not None:
            return kept
        key = self._key(number)
        try:
            decoded = head.decode(self._source, key, block) if self._blosc else self._whole(key, head.nbytes)
        except DamagedError as error:
            raise self._damaged(key, str(error)) from error
        held = self._held + len(decoded)
        if held > KEPT:
            # A new dictionary and not a smaller one: other threads may be reading the old.
            self._kept, held = {}, len(decoded)
        self._kept[number, block] = decoded
        self._held = held
        return decoded

    def _whole(self, key: str, nbytes: int) -> Any:
        stored = self._source.read(key)
        if stored is None:
            raise DamagedError("it is gone")
        decoded = self._decoder.decode(stored, nbytes)
        return decoded.view(_INT64).byteswap().view(np.uint8) if self._decoder.swap else decoded

    def _damaged(self, key: str, problem: str) -> FragmentReadError:
        return FragmentReadError(f"{self.where}, chunk {key} is damaged: {problem}; write the index again")


class _Head:
    """How a chunk is made of blocks."""

    __slots__ = ("_ends", "block", "first", "flags", "nbytes", "size", "starts")

    def __init__(self, nbytes: int, block: int, flags: int, first: bytes, starts: Int64, size: int) -> None:
        self.nbytes, self.block, self.flags, self.first, self.starts, self.size = (
            nbytes, block, flags, first, starts, size,
        )  # fmt: skip
        # Blocks lie in any order: one ends where the next in the file starts.
        order = np.argsort(starts)
        self._ends = np.empty_like(starts)
        self._ends[order] = np.append(starts[order][1:], size)[: len(starts)]

    def decode(self, source: Files, key: str, block: int) -> Any:
        """Return the decoded bytes of a block."""
        from numcodecs import blosc

        first, last = block * self.block, min((block + 1) * self.block, self.nbytes)
        if self.flags & 2:  # stored as it is
            raw = source.read_range(key, 16 + first, last - first)
            if len(raw) != last - first:
                raise DamagedError("it ends early")
            return np.frombuffer(raw, np.uint8)
        # A last block that is shorter is packed in another way, which the decoder knows from whole blocks before it.
        blocks = [block] if last - first == self.block or block == 0 else [block - 1, block]
        parts = []
        for b in blocks:
            start, end = int(self.starts[b]), int(self._ends[b])
            parts.append(source.read_range(key, start, end - start))
            if len(parts[-1]) != end - start:
                raise DamagedError("it ends early")
        # The blocks alone make a chunk of Blosc.
        table = 16 + 4 * len(blocks)
        places = np.cumsum([table, *map(len, parts)])
        nbytes = last - blocks[0] * self.block
        header = self.first + np.array([nbytes, self.block, places[-1]], "<u4").tobytes()
        out = np.empty(nbytes, np.uint8)
        try:
            blosc.decompress(b"".join([header, places[:-1].astype("<i4").tobytes(), *parts]), out)
        except (RuntimeError, ValueError) as error:
            raise DamagedError(str(error)) from error
        return out[first - blocks[0] * self.block :]


def read_json(source: Files, key: str, where: str) -> dict[str, Any] | None:
    """Return a JSON object of a store, `None` where there is none.

    Raises
    ------
    SourceError
        It is too large, or no JSON object.
    """
    size = source.size(key)
    if size is None:
        return None
    text = source.read(key) if size <= 2**24 else None
    try:
        found = json.loads(text) if text is not None else None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where}: {key} is not JSON: {error}") from error
    if not isinstance(found, dict) or not all(math.isfinite(v) for v in found.values() if isinstance(v, float)):
        raise SourceError(f"{where}: {key} is no JSON object of less than 16 MiB")
    return found
