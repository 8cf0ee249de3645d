"""The small grammars of CF attributes that name variables.

Every function returns `None` if the text does not conform to the grammar, or is longer than any list can be.
"""

from __future__ import annotations

from cfagg.model.dataset import LONGEST

__all__ = ["grid_mappings", "interpolations", "pairs"]


def pairs(text: str) -> list[tuple[str, list[str]]] | None:
    """Return the groups of ``key: name [name ...] [key: name ...]``.

    >>> pairs("area: areacella volume: vol")
    [('area', ['areacella']), ('volume', ['vol'])]
    >>> pairs("areacella") is None
    True
    """
    found: list[tuple[str, list[str]]] = []
    if len(text) > LONGEST:
        return None
    for word in text.split():
        if word.endswith(":"):
            if word == ":" or (found and not found[-1][1]):
                return None
            found.append((word[:-1], []))
        elif not found:
            return None
        else:
            found[-1][1].append(word)
    return found if not found or found[-1][1] else None


def grid_mappings(text: str) -> list[tuple[str, list[str]]] | None:
    """Return (grid mapping variable, coordinates) of each part of a ``grid_mapping`` (CF section 5.6).

    >>> grid_mappings("crs")
    [('crs', [])]
    >>> grid_mappings("crsOSGB: x y crsWGS84: lat lon")
    [('crsOSGB', ['x', 'y']), ('crsWGS84', ['lat', 'lon'])]
    """
    if len(text) > LONGEST:
        return None
    words = text.split()
    if len(words) == 1 and not words[0].endswith(":"):
        return [(words[0], [])]
    return pairs(text) or None


def interpolations(text: str) -> list[tuple[list[str], str]] | None:
    """Return (tie point variables, interpolation variable) of each part of a ``coordinate_interpolation`` (CF 8.3).

    >>> interpolations("lat: lon: bi_linear")
    [(['lat', 'lon'], 'bi_linear')]
    """
    found: list[tuple[list[str], str]] = []
    ties: list[str] = []
    if len(text) > LONGEST:
        return None
    for word in text.split():
        if word.endswith(":"):
            ties.append(word[:-1])
        elif not ties:
            return None
        else:
            found.append((ties, word))
            ties = []
    return None if ties or not found else found
