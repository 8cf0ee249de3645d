"""Values of single fields: type, shape, missing value and packing from the header, and the bytes after it."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, UnsupportedError
from cfagg.formats.codecs import DamagedError, check_chunk
from cfagg.formats.pp import packing
from cfagg.formats.pp.fields import Fields, Form
from cfagg.model.chunks import Decode
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle

__all__ = [
    "Storage",
    "attributes_of",
    "boundary_of",
    "conformed",
    "decode_stored",
    "masks_for",
    "masks_of",
    "packed_decoder",
    "read_extra",
    "read_land",
    "read_stored",
    "refusal_of",
    "sizes_of",
    "storage_of",
]

#: Types of values in LBUSER1; anything else means reals, and negative numbers mean the same as positive ones.
_INTEGER, _LOGICAL = 2, 3

#: Digits of LBPACK, from the last but one: points omitted by a land-sea mask; points that are stored.
_MASKED, _LAND, _SEA = 2, 1, 2

#: The fourth digit of LBPACK, from the last: number formats other than IEEE.
_FOREIGN = {1: "IBM", 4: "GRIB", 5: "VAX"}

#: LBHEM of lateral boundary conditions: the rim of an area, whose positions are not in the header.
_BOUNDARY = 99

#: STASH code of the land-sea mask, in which 1 is land, and words of its header that locate its points.
_LAND_MASK = 30
_MASK_GRID = ("BPLAT", "BPLON", "BZY", "BDY", "BZX", "BDX")


class Storage(NamedTuple):
    """How one field is stored."""

    #: Type of its values in native byte order, as `read_stored` returns them.
    dtype: np.dtype[Any]
    #: Rows and columns, or only the number of values if the header gives no shape.
    shape: tuple[int, ...]
    #: The last digit of LBPACK.
    method: int
    #: 1 or 2 if only land or sea points are stored, else 0.
    points: int
    #: The missing value, if its type can represent it.
    fill: Any
    #: Bytes of its values, without those of extra data, and of the extra data that follow.
    size: int
    extra: int


def storage_of(fields: Fields, i: int, where: str = "") -> Storage:
    """Return the storage of field `i`; raise `UnsupportedError` if it cannot be read."""
    boundary = boundary_of(fields, i, where)
    if boundary is not None:
        raise UnsupportedError(f"{boundary}; read other fields")
    code, words = int(fields["LBPACK"][i]), int(fields["LBLREC"][i])
    method, left_out, points = code % 10, code // 10 % 10, code // 100 % 10
    if code < 0 or method not in packing.METHODS or left_out not in (0, _MASKED) or (left_out and points not in (1, 2)):
        raise UnsupportedError(
            f"{where}: the packing LBPACK = {code} cannot be read; expected the methods 0, 1, 2 and 4, of all points "
            "or of those of a land-sea mask (120, 220): unpack the file"
        )
    if code // 1000 % 10 in _FOREIGN:
        raise UnsupportedError(
            f"{where}: LBPACK = {code}, numbers as {_FOREIGN[code // 1000 % 10]} has them, cannot be read; convert the "
            "file to IEEE numbers"
        )
    real = abs(int(fields["LBUSER1"][i])) not in (_INTEGER, _LOGICAL)
    if left_out and method == packing.WGDOS:
        raise UnsupportedError(
            f"{where}: LBPACK = {code}, WGDOS packing of some points, cannot be read; unpack the file"
        )
    if method == packing.RUNS and not real:
        raise UnsupportedError(f"{where}: run length packing of integers cannot be read; unpack the file")
    width = 4 if method == packing.SHORT else fields.word_size
    dtype = np.dtype(f"{'f' if real or method == packing.WGDOS else 'i'}{width}")
    extra = max(int(fields["LBEXT"][i]), 0)
    rows, columns = int(fields["LBROW"][i]), int(fields["LBNPT"][i])
    shape = (rows, columns) if rows > 0 and columns > 0 else (max(words - extra, 0),)
    length, extra = int(fields.data_length[i]), extra * fields.word_size
    # In fields files, padding to a sector follows the values; packed data may have another length.
    size = min(words * fields.word_size, length) if method == packing.NONE else length
    fill = _fill(dtype, float(fields["BMDI"][i]), bool(left_out))
    return Storage(dtype, shape, method, points if left_out else 0, fill, max(size - extra, 0), min(extra, size))


def boundary_of(fields: Fields, i: int, where: str) -> str | None:
    """Return the reason why field `i` has no grid if it contains boundary conditions, or `None`."""
    if fields["LBHEM"][i] != _BOUNDARY:
        return None
    return (
        f"{where} holds lateral boundary conditions (LBHEM = {_BOUNDARY}), which cover only the rim of its grid and "
        "cannot be read"
    )


def sizes_of(fields: Fields) -> npt.NDArray[np.int64]:
    """Return the bytes of the values of all fields, as `storage_of` does one by one."""
    whole = np.minimum(fields["LBLREC"] * fields.word_size, fields.data_length)
    size = np.where(fields["LBPACK"] % 10 == packing.NONE, whole, fields.data_length)
    found: npt.NDArray[np.int64] = np.maximum(size - np.maximum(fields["LBEXT"], 0) * fields.word_size, 0)
    return found


def attributes_of(fields: Fields, i: int) -> dict[str, Any]:
    """Return missing value and packing of the result of `read_stored`, as netCDF attributes."""
    storage = storage_of(fields, i)
    found = {} if storage.fill is None else {"_FillValue": storage.fill}
    kind = np.dtype(f"f{fields.word_size}").type
    scale, offset = fields["BMKS"][i], fields["BDATUM"][i]
    if scale not in (0, 1):
        found["scale_factor"] = kind(scale)
    if offset != 0:
        found["add_offset"] = kind(offset)
    return found


def read_stored(
    handle: Handle,
    fields: Fields,
    i: int,
    context: Context = CONTEXT_SOURCE,
    land: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[Any]:
    """Return the values of field `i` as stored, in rows from the first to the last; missing ones are BMDI."""
    # `land` is the land-sea mask, which is required, and gives the shape, if only some points of the field are stored.
    storage = storage_of(fields, i, context.said(f"field {i:,} of {handle.key.path}"))
    raw = handle.exactly(storage.size, int(fields.data_offset[i]), context)
    return decode_stored(raw, handle.key.path, fields, i, context, land)


def decode_stored(
    raw: bytes, path: str, fields: Fields, i: int, context: Context, land: npt.NDArray[np.bool_] | None
) -> npt.NDArray[Any]:
    """Return the values of field `i` of the file at a path like `read_stored`, from their bytes."""
    where = context.said(f"field {i:,} of {path}")
    storage = storage_of(fields, i, where)
    shape = storage.shape
    chosen = None
    if storage.points:
        chosen = _points(land, storage, where, context)
        shape = (int(np.count_nonzero(chosen)),)
    count = math.prod(shape)
    check_chunk(count * storage.dtype.itemsize, where)
    form, fill = fields.form, storage.fill
    stored = storage.dtype.newbyteorder(form.byteorder)
    try:
        if storage.method == packing.WGDOS:
            return packing.wgdos(raw, form, shape, fill, where)
        if storage.method == packing.RUNS:
            values = packing.run_length(raw, stored, count, fill)
        else:
            values = packing.plain(raw, stored, count)
    except packing.PackedError as error:
        raise _damaged(where, error, context) from error
    if chosen is not None:
        return packing.scatter(values, chosen, fill)
    return values.reshape(shape)


def refusal_of(path: str, fields: Fields, i: int, *, masked: bool) -> CfaggError | None:
    """Return the error that `decode_stored` would raise for field `i`, as far as its header tells."""
    # `masked` says whether the file has a land-sea mask for it.
    where = CONTEXT_SOURCE.said(f"field {i:,} of {path}")
    try:
        storage = storage_of(fields, i, where)
        if storage.points and not masked:
            _points(None, storage, where, CONTEXT_SOURCE)
        if not storage.points:
            check_chunk(math.prod(storage.shape) * storage.dtype.itemsize, where)
        if storage.method in (packing.NONE, packing.SHORT) and not storage.points:
            packing.check_size(storage.size, storage.dtype, math.prod(storage.shape))
    except packing.PackedError as error:
        return _damaged(where, error, CONTEXT_SOURCE)
    except CfaggError as error:
        return error
    return None


def _damaged(where: str, error: packing.PackedError, context: Context) -> CfaggError:
    return context.broken(f"{where} has {error}; copy or write it again")


def packed_decoder(code: int, dtype: np.dtype[Any], fill: Any, shape: tuple[int, ...]) -> Decode | None:
    """Return a decoder for the packing (LBPACK) of a field, or `None` if its bytes alone do not determine values."""
    method = code % 10
    if method not in (packing.WGDOS, packing.RUNS) or code // 10 % 10 or dtype.kind != "f" or fill is None:
        return None
    order: Literal["<", ">"] = ">" if dtype.newbyteorder(">") == dtype else "<"
    form = Form(4 if dtype.itemsize == 4 else 8, order, 0)

    def decode(raw: npt.NDArray[np.uint8], _: int) -> npt.NDArray[Any]:
        """Return the values of the field, or raise the reason why it cannot be decoded."""
        check_chunk(math.prod(shape) * dtype.itemsize, "a field")
        try:
            if method == packing.WGDOS:
                return packing.wgdos(raw.tobytes(), form, shape, fill, None)
            return packing.run_length(raw.tobytes(), dtype, math.prod(shape), fill).reshape(shape)
        except packing.PackedError as error:
            raise DamagedError(str(error)) from error

    return decode


def conformed(stored: npt.NDArray[Any], fields: Fields, i: int, dtype: np.dtype[Any], fill: Any) -> npt.NDArray[Any]:
    """Return the stored values of field `i` in the form of a variable of many fields."""
    # BMKS and BDATUM are applied, and missing values become `fill`, if there is one.
    own = attributes_of(fields, i)
    missing = own.get("_FillValue")
    plain = len(own) == (missing is not None)
    same = missing is None or (fill is not None and missing == fill)
    if plain and same and stored.dtype == dtype:
        return stored
    values: npt.NDArray[Any] = stored
    if not plain:
        values = stored.astype(np.float64) * float(own.get("scale_factor", 1)) + float(own.get("add_offset", 0))
    values = values.astype(dtype)
    if missing is not None and fill is not None:
        values[stored == missing] = fill
    return values


def read_extra(handle: Handle, fields: Fields, i: int) -> dict[int, Any]:
    """Return the vectors after the values of field `i` by code: reals, or for 10 and 11 a list of texts."""
    # Codes are those of documentation paper F3: 1 x, 2 y, 3 to 8 lower and upper bounds of domains, 12 to 15 bounds of
    # x and y.
    storage = storage_of(fields, i)
    if not storage.extra:
        return {}
    where = CONTEXT_SOURCE.said(f"field {i:,} of {handle.key.path}")
    raw = handle.exactly(storage.extra, int(fields.data_offset[i]) + storage.size, CONTEXT_SOURCE)
    form = fields.form
    integers = np.frombuffer(raw, form.integer, len(raw) // form.word_size)
    found: dict[int, Any] = {}
    at = 0
    while at < len(integers) and integers[at]:
        count, code = divmod(int(integers[at]), 1000)
        begin, end = (at + 1) * form.word_size, (at + 1 + count) * form.word_size
        if count < 1 or end > len(raw):
            raise _no_vector(where, at, int(integers[at]), CONTEXT_SOURCE)
        part = raw[begin:end]
        if code in (10, 11):
            text = np.frombuffer(part, form.integer).astype(f">i{form.word_size}").tobytes()
            found.setdefault(code, []).append(text.rstrip(b"\0 ").decode("utf-8", "backslashreplace"))
        else:
            values = np.frombuffer(part, form.real).astype(form.real.newbyteorder("="))
            found[code] = values if code not in found else np.concatenate([found[code], values])
        at += 1 + count
    return found


def masks_of(fields: Fields) -> Fields:
    """Return those of the fields that are land-sea masks of the atmosphere, with rows and columns."""
    own = (fields["LBUSER4"] == _LAND_MASK) & np.isin(fields["LBUSER7"], (0, 1)) & (fields["LBPACK"] // 10 % 10 == 0)
    own &= fields["LBHEM"] != _BOUNDARY
    return fields.take(own & (fields["LBROW"] > 0) & (fields["LBNPT"] > 0))


def masks_for(fields: Fields, i: int, masks: Fields) -> tuple[int, ...]:
    """Return the indices of the masks for field `i`: those of its shape and grid, or of one grid if it has no shape."""
    words: tuple[str, ...] = ("LBROW", "LBNPT", *_MASK_GRID)
    has_shape = fields["LBROW"][i] > 0 and fields["LBNPT"][i] > 0
    same = np.logical_and.reduce([masks[w] == fields[w][i] for w in (words if has_shape else _MASK_GRID)])
    chosen = np.flatnonzero(same if has_shape or same.any() else ~same).tolist()
    return tuple(chosen) if len({tuple(masks[w][k] for w in words) for k in chosen}) == 1 else ()


def read_land(
    handle: Handle, masks: Fields, numbers: tuple[int, ...], context: Context = CONTEXT_SOURCE
) -> npt.NDArray[np.bool_]:
    """Return some land-sea masks, which have to be equal, as booleans (true is land); missing values are sea."""
    found: npt.NDArray[np.bool_] | None = None
    for k in numbers:
        stored, fill = read_stored(handle, masks, k, context), storage_of(masks, k).fill
        land: npt.NDArray[np.bool_] = (stored != 0) & (True if fill is None else stored != fill)
        if found is not None and not np.array_equal(found, land):
            first, other = (f"{masks.header_offset[n]:,}" for n in (numbers[0], k))
            raise context.broken(
                context.said(
                    f"{handle.key.path} has different land-sea masks of a grid, with headers at bytes {first} and "
                    f"{other}; keep the one that tells the places of the stored points"
                )
            )
        found = land
    assert found is not None  # noqa: S101 - there is at least one number
    return found


def _points(
    land: npt.NDArray[np.bool_] | None, storage: Storage, where: str, context: Context
) -> npt.NDArray[np.bool_]:
    """Return a mask of the stored points."""
    name = "land" if storage.points == _LAND else "sea"
    if land is None:
        raise context.missing(
            f"{where} holds {name} points only, and the file has no land-sea mask (STASH m01s00i030) of its grid; "
            "append its field to the file, for instance with cat"
        )
    if len(storage.shape) == 2 and storage.shape != land.shape:
        raise context.broken(
            f"{where} has shape {storage.shape}, and the land-sea mask {land.shape}; add the right mask"
        )
    chosen = land if storage.points == _LAND else ~land
    count, stored = int(np.count_nonzero(chosen)), storage.size // storage.dtype.itemsize
    # Some writers leave the rest of the whole grid behind the points.
    if storage.method == packing.NONE and count < stored < land.size:
        raise context.broken(
            f"{where} holds {stored:,} values of {name} points, and its land-sea mask has {count:,}; add the right mask"
        )
    return chosen


def _fill(dtype: np.dtype[Any], missing: float, needed: bool) -> Any:
    """Return the missing value in a type, or another one if it cannot be represented and one is needed."""
    if dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return dtype.type(missing)
    info = np.iinfo(dtype)
    if missing.is_integer() and info.min <= missing <= info.max:
        return dtype.type(int(missing))
    return dtype.type(info.min) if needed else None


def _no_vector(where: str, at: int, found: int, context: Context) -> CfaggError:
    return context.broken(f"{where} has extra data with {found} at word {at:,}, where no vector begins; write it again")
