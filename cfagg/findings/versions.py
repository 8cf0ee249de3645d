"""Versions of the CF conventions, and the one that a dataset claims to follow."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["DRAFT", "LATEST", "PUBLISHED", "Version", "claimed", "parse"]


class Version(NamedTuple):
    """A version of the CF conventions; later ones are greater.

    Examples
    --------
    >>> str(Version(1, 9)), Version(1, 9) < Version(1, 13)
    ('CF-1.9', True)
    """

    major: int
    minor: int

    def __str__(self) -> str:
        return f"CF-{self.major}.{self.minor}" + ("-draft" if self == DRAFT else "")


#: All published versions.
PUBLISHED = tuple(Version(1, minor) for minor in range(14))

#: The newest published version.
LATEST = PUBLISHED[-1]

#: The version in preparation.
DRAFT = Version(1, 14)

_TOKEN = re.compile(r"CF-(\d{1,3})\.(\d{1,3})(-draft)?")


def parse(text: str) -> Version | None:
    """Return the version named by a text such as ``"CF-1.8"`` or ``"1.14-draft"``, or `None` if it is unknown.

    >>> parse("1.8"), parse("CF-1.99")
    (Version(major=1, minor=8), None)
    """
    match = _TOKEN.fullmatch(text if text.startswith("CF-") else f"CF-{text}")
    if match is None:
        return None
    version = Version(int(match[1]), int(match[2]))
    if version == DRAFT:
        return DRAFT
    return version if version in PUBLISHED and not match[3] else None


def claimed(conventions: str) -> list[str]:
    """Return the known and the unknown versions of CF named in a ``Conventions`` attribute.

    >>> claimed("CF-1.8 ACDD-1.3"), claimed("ACDD-1.3, CF-9.9")
    (['CF-1.8'], ['CF-9.9'])
    """
    # No real list of conventions is longer, and each word is reported once.
    words = dict.fromkeys(conventions[: 1 << 16].replace(",", " ").split())
    return [w for w in words if re.fullmatch(r"CF-\d+\.\d+(-draft)?", w)]
