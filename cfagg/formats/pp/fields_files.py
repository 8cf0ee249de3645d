"""The look-up table of a fields file of the Unified Model: the same headers as in a PP file, all in one place.

A file begins with 256 words, some of which locate the table and the data; there are no record markers.
Source: Met Office, Unified Model documentation paper F3.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, LimitError
from cfagg.formats.pp.fields import HEADER_WORDS, WORDS, Fields, Form
from cfagg.formats.pp.records import MOST_FIELDS
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle

__all__ = ["FIXED_WORDS", "lookup_form", "scan_lookup"]

#: Words of the fixed header, and indices of some from 0: sub-model, type of dataset, start (from 1), words of an entry
#: and entries of the table, start of the data (from 1).
FIXED_WORDS = 256
_MODEL, _TYPE, _TABLE, _WORDS, _ENTRIES, _DATA = 1, 4, 149, 150, 151, 159

#: The type of dataset whose fields are all boundary conditions, and the LBHEM that marks a single field as one.
_BOUNDARIES, _BOUNDARY = 5, 99

#: Marks unused entries of the table.
_UNUSED = -99

_FORMS = (Form(8, ">", 0), Form(8, "<", 0), Form(4, ">", 0), Form(4, "<", 0))


def lookup_form(head: bytes) -> Form | None:
    """Return the form of the words of a fields file, by its fixed header, or `None` for any other file."""
    for form in _FORMS:
        if len(head) < FIXED_WORDS * form.word_size:
            continue
        words = np.frombuffer(head, form.integer, FIXED_WORDS)
        if (
            1 <= words[_MODEL] <= 4
            and 1 <= words[_TYPE] <= 10
            and words[_TABLE] > FIXED_WORDS
            and words[_WORDS] in (HEADER_WORDS, 2 * HEADER_WORDS)
            and words[_ENTRIES] >= 0
        ):
            return form
    return None


def scan_lookup(handle: Handle, context: Context = CONTEXT_SOURCE) -> Fields:
    """Return all fields of a fields file; ``context.broken`` reports fields outside the file."""
    head = handle.some(FIXED_WORDS * 8, 0, context)
    form = lookup_form(head)
    if form is None:
        raise context.broken(
            context.said(f"{handle.key.path} is not a fields file: it does not begin with a fixed header")
        )
    fixed = np.frombuffer(head, form.integer, FIXED_WORDS)
    size, words, entries = form.word_size, int(fixed[_WORDS]), int(fixed[_ENTRIES])
    begin = (int(fixed[_TABLE]) - 1) * size
    if begin + entries * words * size > handle.key.size:
        raise _damaged(handle, context, f"a table of {entries:,} fields at byte {begin:,}, beyond the end of the file")
    if entries > MOST_FIELDS:
        raise LimitError(context.said(f"{handle.key.path} has more than {MOST_FIELDS:,} fields; split it"))
    table = np.frombuffer(handle.exactly(entries * words * size, begin, context), form.integer).reshape(-1, words)
    used = np.flatnonzero((table[:, 0] != _UNUSED) & (table[:, WORDS["LBEGIN"]] != _UNUSED))
    headers = np.ascontiguousarray(table[used, :HEADER_WORDS])
    if fixed[_TYPE] == _BOUNDARIES:
        headers[:, WORDS["LBHEM"]] = _BOUNDARY
    offsets, lengths = _places(headers.astype(np.int64), size, (min(max(int(fixed[_DATA]), 0), 2**48) - 1) * size)
    # Only the padding of the last sector may be missing at the end.
    end = handle.key.size
    wrong = np.flatnonzero((offsets < 0) | (lengths < 0) | (offsets > end))
    if not len(wrong):
        lengths = np.where(headers[:, WORDS["LBPACK"]] != 0, np.minimum(lengths, end - offsets), lengths)
        wrong = np.flatnonzero(lengths > end - offsets)
    if len(wrong):
        i = int(wrong[0])
        raise _damaged(
            handle, context, f"field {used[i]:,} with {lengths[i]:,} bytes at byte {offsets[i]:,}, of {end:,} bytes"
        )
    return Fields.parse(headers.tobytes(), begin + used * words * size, offsets, lengths, form)


def _places(
    headers: npt.NDArray[np.int64], size: int, data: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return start and length of the data of the fields, in bytes; too large or negative if damaged."""

    def column(name: str) -> npt.NDArray[np.int64]:
        # Impossible numbers are clipped, so that nothing overflows; they are still beyond any file.
        return np.clip(headers[:, WORDS[name]], -(2**48), 2**48)

    packed, records, words = column("LBPACK"), column("LBNREC"), column("LBLREC")
    points = np.clip(column("LBROW"), 0, 2**24) * np.clip(column("LBNPT"), 0, 2**24)
    short = np.where(points > 0, points, words) * 4
    lengths = np.where(packed % 10 == 2, short, words * size)
    lengths = np.where((packed != 0) & (records != 0), records * size, lengths)
    lengths = np.clip(lengths, -1, 2**42)
    begins = column("LBEGIN")
    follow = data + np.concatenate([np.zeros(min(len(headers), 1), np.int64), np.cumsum(lengths)[:-1]])
    return np.where(begins != 0, begins * size, follow), lengths


def _damaged(handle: Handle, context: Context, found: str) -> CfaggError:
    return context.broken(
        context.said(f"{handle.key.path} is a damaged or truncated fields file: it has {found}; copy or write it again")
    )
