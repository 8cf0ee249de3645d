"""One field of a file by its address, whose unit the conventions do not define."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from cfagg.errors import OptionError
from cfagg.formats.pp.fields import Fields, Form
from cfagg.formats.pp.fields_files import FIXED_WORDS, lookup_form, scan_lookup
from cfagg.formats.pp.records import FORMS, record_at, scan_records
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle

__all__ = ["UNITS", "FieldAt", "addresses_of", "find_field", "scan_fields"]

#: Possible units of an address, in bytes.
UNITS = (1, 4, 8)

#: What an address may refer to: its name, and how many bytes before it the record of the header begins.
_PLACES: tuple[tuple[str, Callable[[Form], int]], ...] = (
    ("the record of its header", lambda form: 0),  # noqa: ARG005
    ("its data", lambda form: form.header_size + 3 * form.marker_size),
    ("its header", lambda form: form.marker_size),
)


#: The tables of open fields files, in which their fields are found.
_tables: WeakKeyDictionary[Handle, Fields] = WeakKeyDictionary()


class FieldAt(NamedTuple):
    """A field found by an address."""

    #: Only that field.
    fields: Fields
    #: How the address was interpreted, for messages and users.
    rule: str


def scan_fields(handle: Handle, context: Context = CONTEXT_SOURCE) -> Fields:
    """Return all fields of a PP file or a fields file."""
    if lookup_form(handle.some(FIXED_WORDS * 8, 0, context)) is not None:
        return scan_lookup(handle, context)
    return scan_records(handle, context)


def addresses_of(fields: Fields, data: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Return the byte offsets of the header records of fields, given those of their data."""
    # In fields files they are those of the headers in the table.  `None` if fields share their data.
    order = np.argsort(fields.data_offset, kind="stable")
    known = fields.data_offset[order]
    first = np.searchsorted(known, data)
    if (np.searchsorted(known, data, "right") - first != 1).any():
        return None
    found: npt.NDArray[np.int64] = fields.header_offset[order[first]] - fields.marker_size
    return found


def find_field(
    handle: Handle, address: int, context: Context = CONTEXT_SOURCE, word_size: int | None = None
) -> FieldAt:
    """Return the field at an address, in the first interpretation that the structure of the file confirms."""
    # The record of a header begins at this byte, or data, or a header; then the same with `address` in words of 4
    # bytes, then of 8; in fields files, in their own words.  `word_size` (1, 4 or 8) selects one of these units.
    if word_size is not None and word_size not in UNITS:
        raise OptionError(f"word_size={word_size!r}: expected 1, 4 or 8, the bytes by which addresses count")
    known = _table(handle, context)
    # The word size of a fields file is known, and is the unit of its addresses on disk.
    units = (word_size,) if word_size is not None else UNITS if known is None else (1, known.word_size)
    for unit in units:
        at = address * unit
        counted = "bytes" if unit == 1 else f"words of {unit} bytes"
        if known is not None:
            for name, column in (("its header", known.header_offset), ("its data", known.data_offset)):
                found = np.flatnonzero(column == at) if at < 2**63 else ()
                if len(found):
                    return FieldAt(known.take(found[:1]), f"address of {name} in {counted}")
            continue
        for name, before in _PLACES:
            for form in FORMS:
                begin = at - before(form)
                record = record_at(handle, begin, form, context)
                if record is not None:
                    header, data, length = record
                    fields = Fields.parse(header, [begin + form.marker_size], [data], [length], form)
                    return FieldAt(fields, f"address of {name} in {counted}")
    raise context.missing(
        context.said(
            f"no field of {handle.key.path} begins at the address {address:,}, counted in "
            f"{' or '.join(f'{u}' for u in units)} bytes; correct it{'' if word_size is None else ' or word_size='}"
        )
    )


def _table(handle: Handle, context: Context) -> Fields | None:
    """Return the fields of a fields file, or `None` for any other file."""
    found = _tables.get(handle)
    if found is None and lookup_form(handle.some(FIXED_WORDS * 8, 0, context)) is not None:
        found = _tables[handle] = scan_lookup(handle, context)
    return found
