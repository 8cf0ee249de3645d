"""Attributes that the model cannot represent, and how texts of unknown encoding become text.

They stand in the model as what they are called, so that a rule that expects text or numbers finds neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from cfagg.model.dataset import AttributeValue

__all__ = ["LONGEST", "Foreign", "name_of", "too_long", "value_of"]

#: Bytes of the longest attribute that is looked at, and of one that describes an aggregation.
LONGEST = 1 << 24
LONGEST_AGGREGATION = 1 << 28


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that the rules do not look into: `what` it is, for people."""

    what: str

    def __str__(self) -> str:
        return self.what


def too_long(name: str, size: int) -> Foreign | None:
    """Return what stands for an attribute of `size` bytes where that is more than is looked at."""
    longest = LONGEST_AGGREGATION if name.startswith(("nca_", "cfa_", "aggregat")) else LONGEST
    return Foreign(f"an attribute of {size:,} bytes; up to {longest:,} are looked at") if size > longest else None


def name_of(raw: bytes) -> str:
    r"""Return a name; bytes that are not UTF-8 are shown by their numbers, so that names stay distinct.

    >>> name_of(b"temp\xe9rature")
    'temp\\xe9rature'
    """
    return raw.decode("utf-8", "backslashreplace")


def value_of(raw: bytes) -> AttributeValue:
    r"""Return a text without the nulls at its end, or the bytes where they are not UTF-8.

    >>> value_of(b"K\0"), value_of(b"\xb0C")
    ('K', b'\xb0C')
    """
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return raw
