"""The records of a PP file, one by one: header, data, header, data, each between two markers of its length.

Only records that the structure confirms are accepted: both markers of every record agree and are within the file.

    [64 words] header [64 words] [n] data [n]          (markers count bytes)
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from functools import partial

from cfagg.errors import CfaggError, LimitError
from cfagg.formats.pp.fields import Fields, Form
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle

__all__ = ["FORMS", "LONGEST_RECORD", "MOST_FIELDS", "form_of", "record_at", "scan_records"]

#: Possible forms of words and markers; narrow markers come last, as they may be the lower half of wide ones.
FORMS = (
    Form(4, ">", 4),
    Form(4, "<", 4),
    Form(8, ">", 8),
    Form(8, "<", 8),
    Form(8, ">", 4),
    Form(8, "<", 4),
)

#: Most fields of one file.
MOST_FIELDS = 2**20

#: Bytes of data between two headers that count as near, and bytes that are then fetched at once from remote files.
_NEAR, _AHEAD = 2**17, 2**21

#: Most bytes from the beginning of a header record to the first byte of data.
LONGEST_RECORD = 3 * 8 + 64 * 8


def form_of(head: bytes) -> Form | None:
    r"""Return the form of the words of a PP file, by its first record, or `None` for any other file."""
    for form in FORMS:
        size, marker = form.header_size, form.marker_size
        wanted = struct.pack(form.marker, size)
        if head.startswith(wanted) and head[marker + size : 2 * marker + size] == wanted:
            return form
    return None


def record_at(handle: Handle, at: int, form: Form, context: Context) -> tuple[bytes, int, int] | None:
    """Return the header, and position and length of the data, of the field whose header record begins at byte `at`."""
    # `None` if the markers do not agree, so that no field begins there.
    size, marker = form.header_size, form.marker_size
    step = size + 3 * marker
    data = at + step
    if at < 0 or data + marker > handle.key.size:
        return None
    block = handle.some(step, at, context)
    lengths = _lengths(block, form)
    if lengths is None or lengths[:2] != (size, size) or lengths[2] > handle.key.size - data - marker:
        return None
    if handle.some(marker, data + lengths[2], context) != block[-marker:]:
        return None
    return block[marker : marker + size], data, lengths[2]


def scan_records(handle: Handle, context: Context = CONTEXT_SOURCE) -> Fields:
    """Return all fields of a PP file; ``context.broken`` reports a damaged or truncated record."""
    head = handle.some(LONGEST_RECORD, 0, context)
    form = form_of(head)
    if form is None:
        raise context.broken(
            context.said(f"{handle.key.path} is not a PP file: it does not begin with a header record")
        )
    headers = bytearray()
    header_offset, data_offset, data_length = array("q"), array("q"), array("q")
    for header, at, data, length in _fields(handle, form, context):
        headers += header
        header_offset.append(at + form.marker_size)
        data_offset.append(data)
        data_length.append(length)
    return Fields.parse(headers, header_offset, data_offset, data_length, form)


def _fields(handle: Handle, form: Form, context: Context) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield header, offset of its record, and position and length of the data of each field."""
    size, marker, end = form.header_size, form.marker_size, handle.key.size
    step = size + 3 * marker
    at = count = ahead = 0
    is_remote = handle.data is not None and _is_remote(handle.data)
    block, damaged = handle.some(step, 0, context), partial(_damaged, handle, context)
    while at < end:
        lengths = _lengths(block, form)
        if lengths is None:
            # Some writers add bytes after the last field, which a file that was cut off would have, too.
            rest = (
                f"; or, if its writer put the last {end - at:,} bytes after its {count:,} whole fields, cut them off "
                f"with truncate -s {at}"
            )
            raise damaged(count, at, f"a header that goes on beyond the end, byte {end:,}", rest if count else "")
        first, second, length = lengths
        if first != size or second != size:
            raise damaged(count, at, f"markers {first:,} and {second:,} around its header, expected {size}")
        data = at + step
        if length > end - data - marker:
            raise damaged(count, at, f"{length:,} bytes of data, for which the file of {end:,} bytes is too short")
        if count >= MOST_FIELDS:
            raise LimitError(context.said(f"{handle.key.path} has more than {MOST_FIELDS:,} fields; split it"))
        if is_remote and length < _NEAR and data + length > ahead:
            # One request for many headers, when most of the bytes between them are fetched anyway.
            ahead = data + length + _AHEAD
            handle.some(_AHEAD, data + length, context)
        # The closing marker of the data, and the next header with its markers, are read at once.
        more = handle.some(marker + step, data + length, context)
        if more[:marker] != block[-marker:]:
            raise damaged(count, at, f"a marker of {length:,} bytes before its data and a different one after them")
        yield block[marker : marker + size], at, data, length
        at, block, count = data + length + marker, more[marker:], count + 1


def _is_remote(data: object) -> bool:
    """Return whether bytes are read from another machine."""
    from cfagg.storage.remote_file import RemoteBytes

    return isinstance(data, RemoteBytes)


def _lengths(block: bytes, form: Form) -> tuple[int, int, int] | None:
    """Return the markers before and after a header and before its data, or `None` if the block is too short."""
    size, marker = form.header_size, form.marker_size
    if len(block) != size + 3 * marker:
        return None
    unpack = struct.Struct(form.marker).unpack_from
    return unpack(block, 0)[0], unpack(block, marker + size)[0], unpack(block, 2 * marker + size)[0]


def _damaged(handle: Handle, context: Context, field: int, at: int, found: str, rest: str = "") -> CfaggError:
    return context.broken(
        context.said(
            f"{handle.key.path} is damaged or truncated PP: field {field:,} at byte {at:,} has {found}; copy or write "
            f"it again{rest}"
        )
    )
