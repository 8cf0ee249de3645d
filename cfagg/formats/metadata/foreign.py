"""Attributes that the model cannot represent, and decoding of texts of unknown encoding.

The model has a description in place of such a value, so that rules find neither text nor numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from cfagg.model.dataset import AttributeValue

__all__ = ["LONGEST", "SEVERAL", "Foreign", "decides", "name_of", "too_long", "value_of"]

#: Bytes of the longest attribute that is read, and of one that describes an aggregation.
LONGEST = 1 << 24
LONGEST_AGGREGATION = 1 << 28
_AGGREGATION = ("nca_", "cfa_", "aggregat")


@dataclass(frozen=True, slots=True, repr=False)
class Foreign:
    """A value that rules do not examine; `what` describes it for people, `unread` is for one that is too long."""

    what: str
    unread: bool = False

    def __repr__(self) -> str:
        return self.what


#: In place of an attribute of several dimensions, which HDF5 has, and on which the netCDF library fails.
SEVERAL = Foreign("values along several dimensions")


#: Attributes without which the values of a variable would be others.
_DECIDING = frozenset(
    {
        "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range", "scale_factor", "add_offset",
        "_Unsigned", "units", "calendar",
    }
)  # fmt: skip


def decides(name: str) -> bool:
    """Whether the values of a variable depend on an attribute."""
    return name in _DECIDING or name.startswith(_AGGREGATION)


def too_long(name: str, size: int) -> Foreign | None:
    """Return the replacement of an attribute of `size` bytes if it is too long to be read."""
    longest = LONGEST_AGGREGATION if name.startswith(_AGGREGATION) else LONGEST
    return (
        Foreign(f"an attribute of {size:,} bytes; up to {longest:,} are read", unread=True) if size > longest else None
    )


def name_of(raw: bytes) -> str:
    r"""Return a name; bytes that are not UTF-8 are shown as numbers, so that names stay distinct."""
    return raw.decode("utf-8", "backslashreplace")


def value_of(raw: bytes) -> AttributeValue:
    r"""Return a text without trailing nulls, or the bytes if they are not UTF-8.

    >>> value_of(b"K\0"), value_of(b"\xb0C")
    ('K', b'\xb0C')
    """
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return raw
