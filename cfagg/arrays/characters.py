"""Characters along a last dimension as texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.errors import ConventionError, FragmentReadError

__all__ = ["as_texts", "is_characters", "joined"]

_TEXT = np.dtype(object, metadata={"element_type": str})


def is_characters(header: Header) -> bool:
    """Return whether a variable has characters along its last dimension."""
    return header.dtype.kind == "S" and header.dtype.itemsize == 1 and bool(header.dims)


def as_texts(
    header: Header, read: Callable[[Sequence[slice]], npt.NDArray[Any]], where: str
) -> tuple[Header, Callable[[Sequence[slice]], npt.NDArray[Any]]]:
    """Return a variable of characters and its read function as those of texts; trailing blanks are kept."""
    length = header.shape[-1]
    fill = header.attributes.get("_FillValue")
    fills = {fill.decode("latin-1") if isinstance(fill, bytes) else str(fill)} if fill is not None else set()
    given = header.attributes.get("_Encoding")
    encoding = given if isinstance(given, str) else "utf-8"
    kept = {k: v for k, v in header.attributes.items() if k not in ("_FillValue", "_Encoding")}

    def texts(slices: Sequence[slice]) -> npt.NDArray[Any]:
        try:
            return joined(read((*slices, slice(0, length, 1))), fills, encoding, blanks=True)
        except (ConventionError, LookupError) as error:
            raise FragmentReadError(f"{where}: {header.variable!r} of {header.file}: {error}") from None

    return replace(header, dims=header.dims[:-1], shape=header.shape[:-1], dtype=_TEXT, attributes=kept), texts


def joined(
    values: npt.NDArray[Any], fills: Collection[str], encoding: str = "utf-8", *, blanks: bool = False
) -> npt.NDArray[Any]:
    """Return characters as texts along their last dimension, without padding; those with only fill are empty."""
    if not values.ndim:
        values = values.reshape(1)
    length, shape = values.shape[-1], values.shape[:-1]
    texts = np.empty(shape, object)
    if not length or not texts.size:
        texts[...] = ""
        return texts
    found = np.ascontiguousarray(values).view(f"S{length}").ravel().tolist()
    try:
        decoded = [t.split(b"\0", 1)[0].decode(encoding) for t in found]
    except UnicodeDecodeError as error:
        raise ConventionError(f"its text is not {encoding.upper()}: {error}") from None
    if not blanks:
        decoded = [t.rstrip(" ") for t in decoded]
    for fill in {*fills} - {"", " "}:
        if len(fill) == 1:
            decoded = ["" if t and not t.strip(fill) else t for t in decoded]
    texts.ravel()[...] = decoded
    return texts
