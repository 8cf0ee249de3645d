"""Formats that are mistaken for netCDF, recognised by their first bytes."""

from __future__ import annotations

from cfagg.storage.store import is_page

__all__ = ["kind"]

#: First bytes of a file -> its format.
_MARKS = {
    b"GRIB": "GRIB",
    b"BUFR": "BUFR",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
    b"\x0e\x03\x13\x01": "HDF4",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"%PDF": "PDF",
    b"version https://git-lfs": "a pointer of Git LFS: fetch the file itself",
}

#: Length in bytes of a PP header, its record marker: 64 words of 4 or of 8 bytes.
_PP = {256: 4, 512: 8}


def kind(head: bytes) -> str | None:
    r"""Return the format of a file by its first 8 bytes, or `None` if unknown."""
    found = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if is_page(head):
        return "a web page"
    if found is None and len(head) >= 8:
        for order, name in (("big", "big"), ("little", "little")):
            word = _PP.get(int.from_bytes(head[:4], order))  # type: ignore[arg-type]
            # The first word of a header is a year, or missing.
            if word is not None and -32768 <= int.from_bytes(head[4:8], order, signed=True) <= 9999:  # type: ignore[arg-type]
                return f"PP, {name}-endian with words of {word} bytes"
    return found
