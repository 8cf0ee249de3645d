"""The writable dialects of aggregation files by name, and what each of them cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

from cfagg.conventions.encoded import Encoded, Lack, Names
from cfagg.model import Aggregation

__all__ = [
    "conventions_of",
    "encode",
    "has_addresses",
    "has_own_fragments",
    "has_parts",
    "has_terms",
    "has_versions",
    "lacks",
    "notes",
]

_MODULES = {
    "NCA-0.1": "nca_write",
    "CFA-0.4": "cfa_write",
    "CFA-0.6.2": "cfa06_write",
    "CF-1.13": "cf113_write",
}


def _module(to: str) -> ModuleType:
    return import_module(f"cfagg.conventions.{_MODULES[to]}")


def encode(aggregation: Aggregation, to: str, names: Names) -> Encoded:
    """Return the encoding of an aggregation in a dialect."""
    writer: Callable[..., Encoded] = getattr(_module(to), "encode" if to == "NCA-0.1" else "write")
    return writer(aggregation, names)


def lacks(aggregation: Aggregation, to: str) -> Iterator[Lack]:
    """Yield what a dialect cannot express."""
    found: Iterator[Lack] = _module(to).lacks(aggregation)
    return found


def notes(aggregation: Aggregation, to: str) -> list[str]:
    """Return what is not written because it is recorded in the files of fragments."""
    found: list[str] = _module(to).notes(aggregation)
    return found


def has_own_fragments(to: str) -> bool:
    """Return whether fragments may be arrays of the aggregation file itself."""
    return to != "CF-1.13"


def has_parts(to: str) -> bool:
    """Return whether a partition may be a part of a fragment."""
    return to in ("NCA-0.1", "CFA-0.4")


def has_addresses(to: str) -> bool:
    """Return whether a fragment may be a field of a PP file, given by its address."""
    return to in ("NCA-0.1", "CFA-0.4")


def has_versions(to: str) -> bool:
    """Return whether a fragment may have several versions."""
    return to == "CFA-0.6.2"


def has_terms(to: str) -> bool:
    """Return whether fragments may have properties of other terms than those of the convention."""
    return to == "CFA-0.6.2"


def conventions_of(given: object, to: str) -> str:
    """Return the attribute ``Conventions`` of a file in a dialect, from that of the source without its dialect mark.

    >>> conventions_of("CF-1.5", "NCA-0.1"), conventions_of("CF-1.6 ACDD-1.3", "CF-1.13")
    ('CF-1.5 NCA', 'CF-1.13 ACDD-1.3')
    >>> conventions_of(None, "CFA-0.4")
    'CF-1.6 CFA-0.4'
    """
    text = given if isinstance(given, str) else ""
    separator = "," if "," in text else None
    words = [w.strip() for w in text.split(separator) if w.strip()]
    words = [w for w in words if not w.startswith(("NCA", "CFA"))]
    if to == "CF-1.13":
        later = [w for w in words if w.startswith("CF-1.") and w[5:].isdecimal() and int(w[5:]) > 13]
        words = [later[0] if later else to, *(w for w in words if not w.startswith("CF-"))]
    else:
        words = words or ["CF-1.6"]
        words.append("NCA" if to == "NCA-0.1" else to)
    return (", " if separator else " ").join(words)
