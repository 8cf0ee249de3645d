"""Decoding a chunk's bytes for the codecs that scientific stores use; others are left to zarr-python.

Supported here: ``bytes`` in either byte order, dimensions in any order, zstd, gzip, zlib, blosc, lz4, bz2, lzma,
crc32c, the filters shuffle and fletcher32 of Zarr v2, and those that change numbers.  The expensive steps run in C
libraries without the GIL, the last one directly into the chunk's memory.  The size of the result of every step is known
before it runs and checked afterwards (`cfagg.formats.codecs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError
from cfagg.formats import codecs
from cfagg.formats.codecs import Bytes, DamagedError, strip_crc32c
from cfagg.formats.zarr.numeric import Sizes, Step, numeric

__all__ = ["DamagedError", "Decoder", "chain", "decoder", "named", "strip_crc32c"]


@dataclass(frozen=True)
class Decoder:
    """The conversion of the bytes of a stored chunk to its elements."""

    steps: tuple[Step, ...]  # in decoding order; empty if elements are stored uncompressed
    swap: bool  # elements are stored in non-native byte order
    order: tuple[int, ...] | None = None  # dimensions in storage order, the slowest first; `None` for the array's order

    @property
    def plain(self) -> bool:
        """Whether elements are stored uncompressed, so that parts of a chunk can be read separately."""
        return not self.steps and self.order is None

    def decode(self, stored: Any, nbytes: int, out: Bytes | None = None) -> Bytes:
        """Return the `nbytes` bytes of a chunk, writable, in the stored byte order; any other number means damage."""
        # They are in `out`, contiguous memory of the same size, if given.
        if out is not None:
            self._into(stored, nbytes, out)
            return out
        if len(self.steps) == 1:
            one = self.steps[0].undo(stored, nbytes, nbytes)
            if type(one) is np.ndarray and one.size == nbytes and one.flags.writeable:
                return one
            return self._whole(one, nbytes)
        if self.steps:
            stored = self.steps[-1].undo(self._before_last(stored, nbytes), nbytes, nbytes)
        return self._whole(stored, nbytes)

    def _into(self, stored: Any, nbytes: int, out: Bytes) -> None:
        """Decode into memory."""
        if self.steps:
            stored = self._before_last(stored, nbytes)
            last = self.steps[-1]
            if last.places:
                last.undo(stored, nbytes, nbytes, out)
                return
            stored = last.undo(stored, nbytes, nbytes)
        out[...] = self._checked(stored, nbytes)

    def _before_last(self, stored: Any, nbytes: int) -> Any:
        """Return the input of the last step, by running all steps before it, with bounds derived from the last one."""
        if len(self.steps) == 1:
            return stored
        bounds = [(nbytes, nbytes)]
        for step in self.steps[:0:-1]:
            bounds.append(step.sizes(bounds[-1]))
        for step, (fewest, most) in zip(self.steps[:-1], bounds[:0:-1], strict=True):
            stored = step.undo(stored, fewest, most)
        return stored

    @staticmethod
    def _checked(decoded: Any, nbytes: int) -> Bytes:
        """Return decoded bytes, if their number is as expected."""
        found: Bytes = np.frombuffer(decoded, np.uint8)
        if found.size != nbytes:
            raise DamagedError(f"it decodes to {found.size:,} bytes, expected {nbytes:,}")
        return found

    @classmethod
    def _whole(cls, decoded: Any, nbytes: int) -> Bytes:
        """Return decoded bytes in writable memory."""
        out = cls._checked(decoded, nbytes)
        return out if out.flags.writeable else out.copy()

    def placed(self, elements: npt.NDArray[Any], lengths: Sequence[int]) -> npt.NDArray[Any]:
        """Return decoded elements in the shape of their chunk."""
        if self.order is None:
            return elements.reshape(lengths)
        turned = elements.reshape([lengths[axis] for axis in self.order])
        return turned.transpose(np.argsort(self.order))


def decoder(document: Mapping[str, Any], zarr_format: int, dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder for chunks of an array, or `None` if it has a codec that is not supported here."""
    shape, codecs_ = document.get("shape", []), document.get("codecs")
    if not isinstance(shape, list):
        return None
    if zarr_format == 2:
        return _v2(document, dtype, len(shape))
    return chain(codecs_, dtype, len(shape)) if isinstance(codecs_, list) else None


def _v2(document: Mapping[str, Any], dtype: np.dtype[Any], rank: int) -> Decoder | None:
    """Return the decoder of a Zarr v2 array."""
    order = tuple(range(rank))[::-1] if document.get("order", "C") == "F" and rank > 1 else None
    filters, given = document.get("filters") or [], document.get("dtype")
    # Metadata with another type than that of the elements do not describe this array.
    if not isinstance(filters, list) or not isinstance(given, str):
        return None
    if (given[1:] if given[:1] in _ORDERS else given) != dtype.str[1:]:
        return None
    stages = [*filters, *([document["compressor"]] if document.get("compressor") else [])]
    steps: list[Step] = []
    for k, stage in reversed(list(enumerate(stages))):
        if not isinstance(stage, dict) or not isinstance(stage.get("id"), str):
            return None
        # numcodecs' own form of crc32c may have the checksum at either end.
        step = None if stage["id"] == "crc32c" else _step(stage["id"], stage)
        if step is None and k < len(filters):
            step = numeric(stage)
        if step is None:
            return None
        steps.append(step)
    return Decoder(_bounded(steps), np.dtype(given) != dtype, order)


def chain(given: Sequence[Any], dtype: np.dtype[Any], rank: int = 0) -> Decoder | None:
    """Return the decoder for codecs of Zarr v3, or `None` if unsupported, as is another order without `rank`."""
    order = tuple(range(rank))
    rest = [named(c) for c in given]
    while rest and rest[0][0] == "transpose":
        turned = rest.pop(0)[1].get("order")
        if not isinstance(turned, list) or not all(type(n) is int for n in turned) or sorted(turned) != sorted(order):
            return None
        order = tuple(order[n] for n in turned)
    if not rest:
        return None
    (first, configuration), *rest = rest
    endian = configuration.get("endian")
    if first != "bytes" or (endian not in ("little", "big") and (dtype.itemsize > 1 or endian is not None)):
        return None
    steps = [_step(name.removeprefix("numcodecs."), c) if name in _V3_NAMES else None for name, c in reversed(rest)]
    if any(step is None for step in steps):
        return None
    stored = dtype.newbyteorder("<" if endian == "little" else ">")
    swap = dtype.itemsize > 1 and stored != dtype
    return Decoder(
        _bounded([s for s in steps if s is not None]), swap, None if order == tuple(range(len(order))) else order
    )


def _step(name: str, configuration: Mapping[str, Any]) -> Step | None:
    """Return the decoding step of one codec, or `None` if it is not supported here."""
    if name == "shuffle":
        size = configuration.get("elementsize", 4)
        return _shuffle(size) if type(size) is int and 0 <= size < 2**31 else None
    if name == "lzma" and (configuration.get("format", 1) not in (1, 2) or configuration.get("filters")):
        return None  # without a header
    return _STEPS.get(name)


def _bounded(steps: list[Step]) -> tuple[Step, ...]:
    if len(steps) > _MOST_STEPS:
        raise LimitError(f"a chunk goes through {len(steps)} codecs, expected at most {_MOST_STEPS}")
    return tuple(steps)


def named(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and configuration of an extension point of Zarr v3, which may be written as only its name."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        configuration = given.get("configuration", {})
        return given["name"], configuration if isinstance(configuration, dict) else {}
    return "", {}


def _exact(undo: Callable[[Any], Any]) -> Callable[[Any, int, int], Any]:
    """Return the function of a step whose number of bytes does not depend on the requested bounds."""
    return lambda stored, fewest, most: undo(stored)  # noqa: ARG005


def _same(sizes: Sizes) -> Sizes:
    return sizes


def _longer(sizes: Sizes) -> Sizes:
    return sizes[0] + 4, sizes[1] + 4


def _packed(sizes: Sizes) -> Sizes:
    return 0, codecs.encoded_most(sizes[1])


def _shuffle(size: int) -> Step:
    """Return the step that undoes numcodecs' shuffle: bytes were sorted by their position within the element."""

    def unshuffle(stored: Any) -> Any:
        nbytes = memoryview(stored).nbytes
        if size > 1 and nbytes % size:
            raise DamagedError(f"its {nbytes:,} bytes are not a whole number of elements of {size} bytes")
        return codecs.unshuffle(stored, size)

    return Step(_exact(unshuffle), _same)


_STEPS: Mapping[str, Step] = {
    "zstd": Step(codecs.unzstd, _packed, True),
    "blosc": Step(codecs.unblosc, _packed, True),
    "lz4": Step(codecs.unlz4, _packed, True),
    "gzip": Step(codecs.inflate, _packed, True),
    "zlib": Step(codecs.inflate, _packed, True),
    "bz2": Step(codecs.bunzip2, _packed),
    "lzma": Step(codecs.unlzma, _packed),
    "crc32c": Step(_exact(codecs.strip_crc32c), _longer),
    "fletcher32": Step(_exact(codecs.strip_fletcher32), _longer),
}
#: NumPy's characters for the byte order.
_ORDERS = ("<", ">", "|")

_V3_NAMES = frozenset({"zstd", "blosc", "gzip", "crc32c"}) | {
    f"numcodecs.{n}" for n in ("blosc", "bz2", "fletcher32", "gzip", "lz4", "lzma", "shuffle", "zlib", "zstd")
}
#: Most codecs of one array, since each may let a damaged chunk grow a little.
_MOST_STEPS = 32
