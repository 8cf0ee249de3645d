"""The checksums of HDF5's structures, put right after a change: without that, most changes never get past them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache

from numcodecs.jenkins import jenkins_lookup3

#: How structures begin that have a checksum: at their end, but for blocks of heaps.
_NAMES = (
    *(b"\x89HDF\r\n\x1a\n", b"OHDR", b"OCHK", b"FRHP", b"FHIB", b"BTHD", b"BTIN", b"BTLF", b"SMTB", b"SMLI"),
    *(b"FSHD", b"FSSE", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB"),
)
_BLOCK = b"FHDB"

#: Bytes of one structure.
_LONGEST = 4096


def put_right(data: bytes, seeds: Iterable[bytes]) -> bytes:
    """Return changed bytes with the checksums that they should have, if they are as long as a seed."""
    known = next((places(s) for s in seeds if len(s) == len(data)), ())
    made = bytearray(data)
    for at, end, mark in known:
        made[mark : mark + 4] = bytes(4)
        summed = bytes(made[at:end] if mark < end else made[at:mark])
        made[mark : mark + 4] = struct.pack("<I", int(jenkins_lookup3(summed, 0)))
    return bytes(made)


@cache
def places(data: bytes) -> tuple[tuple[int, int, int], ...]:
    """Return where the structures of a good file begin, end, and have their checksums; found by trying."""
    found = []
    for name in _NAMES:
        for at in _all(data, name):
            for end in range(at + len(name), min(at + _LONGEST, len(data) - 3)):
                if data[end : end + 4] == struct.pack("<I", int(jenkins_lookup3(data[at:end], 0))):
                    found.append((at, end, end))
                    break
    for at in _all(data, _BLOCK):
        for size in (1 << n for n in range(9, 17)):
            marks = (m for m in range(at + 14, at + 22) if at + size <= len(data))
            mark = next((m for m in marks if _is_block(data[at : at + size], m - at)), None)
            if mark is not None:
                found.append((at, at + size, mark))
                break
    return tuple(found)


def _is_block(block: bytes, mark: int) -> bool:
    """Return whether the checksum of a heap's block is at a place, where it is summed as zeros."""
    zeroed = block[:mark] + bytes(4) + block[mark + 4 :]
    return block[mark : mark + 4] == struct.pack("<I", int(jenkins_lookup3(zeroed, 0)))


def _all(data: bytes, name: bytes) -> Iterable[int]:
    at = data.find(name)
    while at >= 0:
        yield at
        at = data.find(name, at + 1)
