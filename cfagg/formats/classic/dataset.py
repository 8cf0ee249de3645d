"""Classic netCDF files (CDF-1, CDF-2 and CDF-5), read without the netCDF library, which takes long to load.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.classic import header as raw
from cfagg.formats.metadata.foreign import name_of, too_long, value_of
from cfagg.model.dataset import AttributeValue, Dataset, Group, Kind, Variable
from cfagg.storage.files import Handle

__all__ = ["Pread", "open_classic", "parse"]

#: Reads bytes: (count, place).
Pread = Callable[[int, int], bytes]

_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}


def open_classic(handle: Handle) -> Dataset:
    """Return the model of a classic file, which is closed with it."""
    source = handle.key.path
    with mmap.mmap(handle.fd, 0, access=mmap.ACCESS_READ) as data:
        read = parse(data, len(data), source, handle.some)
    if read is None:
        raise SourceError(f"{source} changes while it is read; check it again")
    return Dataset(source, "netcdf", read[0], close=handle.close, damage=read[1])


def parse(data: mmap.mmap | bytes, size: int, source: str, pread: Pread) -> tuple[Group, str | None] | None:
    """Return the root group and what is wrong with a file cut off in its values; `None`: `data` must have more."""
    try:
        header = raw.parse(data, size)
    except raw.CutError as error:
        raise SourceError(
            f"{source} is netCDF and ends within its header, after {size:,} bytes: it is cut off; copy or make it again"
        ) from error
    except raw.ShortError:
        return None
    except raw.DamagedError as error:
        raise SourceError(f"{source} is netCDF with a damaged header: {error}; copy or make it again") from error
    short = (
        f"the file is cut off: its values end at byte {header.end:,} and the file at {size:,}; copy or make it again"
        if header.end > size
        else None
    )
    return _root(header, data, source, pread), short


def _root(header: raw.Header, data: mmap.mmap | bytes, source: str, pread: Pread) -> Group:
    """Return the whole."""
    root = Group()
    dimensions = [
        root.add_dimension(name_of(name), length or header.records, unlimited=not length)
        for name, length in header.dims
    ]
    root.attributes = _attributes(header.attributes, data)
    for stored in header.variables:
        dtype = raw.DTYPES[stored.type].newbyteorder("=")
        spans = tuple(dimensions[d] for d in stored.dims)
        variable = Variable(
            name_of(stored.name), root, spans, dtype, _KINDS[dtype.kind], _attributes(stored.attributes, data)
        )
        root.variables[variable.name] = variable
        step = header.record if spans and spans[0].unlimited else None
        variable.read = _Values(variable, stored.begin, step, f"{source}: {variable.path}", pread)
    return root


def _attributes(stored: list[raw.Attribute], data: mmap.mmap | bytes) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for attribute in stored:
        name, dtype = name_of(attribute.name), raw.DTYPES[attribute.type]
        foreign = too_long(name, attribute.end - attribute.begin)
        if foreign is not None:
            found[name] = foreign
            continue
        value = data[attribute.begin : attribute.end]
        found[name] = (
            value_of(value) if dtype.kind == "S" else np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
        )
    return found


class _Values:
    """Reads hyperslabs of one variable."""

    def __init__(self, variable: Variable, begin: int, step: int | None, where: str, pread: Pread) -> None:
        self.variable, self.begin, self.step, self.where, self.pread = variable, begin, step, where, pread

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        from cfagg.formats.values.contiguous import gather
        from cfagg.formats.values.storage import Contiguous
        from cfagg.model.chunks import Encoding

        shape = self.variable.shape
        picked = [slice(*s.indices(n)) for s, n in zip(slices, shape, strict=True)]
        stored = Contiguous(self.begin, self.step or 0, Encoding(self.variable.dtype.newbyteorder(">")))
        return gather(stored, shape, picked, self._take)

    def _take(self, count: int, place: int) -> bytes:
        data = self.pread(count, place) if place < 2**63 else b""
        while data and len(data) < count:
            # The system may give less than asked for.
            more = self.pread(count - len(data), place + len(data))
            if not more:
                break
            data += more
        if len(data) < count:
            raise FragmentReadError(
                f"{self.where}: its values end at byte {place + count:,} and the file before: it is cut off; "
                "copy or make it again"
            )
        return data
