"""Filters of numcodecs that change numbers, decoded one by one so that each size is known in advance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cfagg.formats.codecs import DamagedError

__all__ = ["Sizes", "Step", "numeric"]

#: The fewest and the most bytes.
Sizes = tuple[int, int]


class Step(NamedTuple):
    """One codec."""

    # from stored bytes, and the fewest and most of the result, to decoded bytes; with `places`, into given memory
    undo: Callable[..., Any]
    sizes: Callable[[Sizes], Sizes]  # from the sizes of decoded bytes to those of encoded bytes
    places: bool = False  # `undo` has an additional argument, the memory for its result


#: Names of numcodecs' classes by identifier, and the keys of their encoded and decoded types.
_CODECS = {
    "delta": ("Delta", "astype", "dtype"),
    "fixedscaleoffset": ("FixedScaleOffset", "astype", "dtype"),
    "quantize": ("Quantize", "astype", "dtype"),
    "astype": ("AsType", "encode_dtype", "decode_dtype"),
}


def numeric(stage: Mapping[str, Any]) -> Step | None:
    """Return the decoding step of a Zarr v2 filter, by its configuration, or `None` if not supported here."""
    name = stage["id"]
    if name == "bitround":
        return Step(lambda stored, fewest, most: stored, lambda sizes: sizes)  # noqa: ARG005
    if name == "packbits":
        return Step(_unpack_bits, lambda sizes: ((sizes[0] + 7) // 8 + 1, (sizes[1] + 7) // 8 + 1))
    if name not in _CODECS:
        return None
    kind, *keys = _CODECS[name]
    given = [stage.get(key, stage.get(keys[1])) for key in keys]
    types = [_number(g) for g in given]
    numbers = [stage[key] for key in ("scale", "offset", "digits") if key in stage]
    inner, outer = types
    if inner is None or outer is None or any(type(n) not in (int, float) for n in numbers):
        return None
    import numcodecs

    try:
        codec = getattr(numcodecs, kind)(**{k: v for k, v in stage.items() if k != "id"})
    except (TypeError, ValueError):
        return None

    def undo(stored: Any, fewest: int, most: int) -> Any:  # noqa: ARG001
        raw = np.frombuffer(stored, np.uint8)
        if raw.size % inner.itemsize:
            raise DamagedError(f"its {raw.size:,} bytes are not a whole number of elements of {inner.itemsize}")
        # Overflowing sums and scaled values beyond a type's range are as in numcodecs.
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(codec.decode(raw.view(inner))).view(np.uint8)

    def sizes(decoded: Sizes) -> Sizes:
        fewest, most = (n // outer.itemsize * inner.itemsize for n in decoded)
        return fewest, most

    return Step(undo, sizes)


def _number(given: Any) -> np.dtype[Any] | None:
    """Return a numeric type, or `None` for any other."""
    if not isinstance(given, str) or len(given) > 8:
        return None
    try:
        found = np.dtype(given)
    except (TypeError, ValueError, SyntaxError):
        return None
    return found if found.kind in "iuf" else None


def _unpack_bits(stored: Any, fewest: int, most: int) -> Any:
    """Undo numcodecs' packbits: the number of unused bits in the last byte, then truth values bit by bit."""
    raw = np.frombuffer(stored, np.uint8)
    if not raw.size or raw[0] > 7:
        raise DamagedError("it does not begin with a number of bits below 8")
    count = 8 * (raw.size - 1) - int(raw[0])
    if not fewest <= count <= most:
        raise DamagedError(f"it decodes to {count:,} bytes, expected {most:,}")
    return np.unpackbits(raw[1:], count=count)
