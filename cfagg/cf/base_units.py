"""The UDUNITS library as far as a check needs it: what a text means in base units.

The library is called through ctypes, which is ready in a hundredth of a second; values are never converted here.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from cfagg.cf.common_units import COMMON
from cfagg.findings.finding import NotApplicable

__all__ = ["Meaning", "meaning"]

#: Longer texts are not units.
LONGEST = 1000

_XML = "UDUNITS2_XML_PATH"
_ASCII, _UTF8, _DEFINITION = 0, 2, 8
_LOCK = Lock()

#: A base unit with its exponent in what UDUNITS prints, as in ``0.1 kg.s-3.K-1``; not the e of ``1e-06``.
_BASE = re.compile(r"(?<!\w)([A-Za-z]+)(-?\d+)?")

#: A plain reference time.
_SINCE = re.compile(
    r"(\w+) since \d{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|1\d|2[0-8])"
    r"(?:[T ](?:[01]?\d|2[0-3]):[0-5]?\d(?::[0-5]?\d(?:\.\d{1,6})?)?Z?)?",
    re.ASCII,
)

#: Raised digits and signs, which UDUNITS does not read everywhere that Unicode users write them.
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")


class Meaning(NamedTuple):
    """What units mean.

    Parameters
    ----------
    dimension : frozenset of (str, int)
        Base units with their exponents; radians are left out as they are numbers.
    logarithmic : bool
        Whether values are logarithms of ratios to a reference level of that dimension.
    reference : bool
        Whether values are times since an instant.
    """

    dimension: frozenset[tuple[str, int]]
    logarithmic: bool
    reference: bool


@lru_cache(maxsize=4096)
def meaning(text: str) -> Meaning | None:
    """Return what `text` means to UDUNITS, `None` for a text that it does not know.

    Raises
    ------
    NotApplicable
        If the library is not there.

    Examples
    --------
    >>> sorted(meaning("hPa").dimension), meaning("hectopascals") == meaning("mbar"), meaning("furlongz")
    ([('kg', 1), ('m', -1), ('s', -2)], True, None)
    """
    # UDUNITS prints a line break that it meets instead of taking it for a blank.
    text = text.replace("\n", " ").strip()
    if len(text) > LONGEST or "\0" in text:
        return None
    definition = _common(text) or _definition(text)
    if definition is None and not text.isascii():
        definition = _definition(text.translate(_RAISED))
    if definition is None:
        return None
    plain, _, origin = definition.partition("@")
    found = _BASE.findall(plain.partition("(re ")[2] if "(re " in plain else plain)
    dimension = frozenset((unit, int(power or 1)) for unit, power in found if unit != "rad")
    return Meaning(dimension, "(re " in plain, origin.endswith("UTC"))


def _common(text: str) -> str | None:
    """Return the definition of common units, and of times since a day that every calendar of UDUNITS has."""
    if _XML in os.environ:
        return None  # other units may be meant
    if text in COMMON:
        return COMMON[text]
    since = _SINCE.fullmatch(text)
    unit = COMMON.get(since[1], "") if since else ""
    return f"({unit}) @ UTC" if re.fullmatch(r"(\d+ )?s", unit) else None


def _definition(text: str) -> str | None:
    """Return what UDUNITS prints for units in terms of base units."""
    library, system = _library()
    raw = text.encode("utf-8", "replace")
    buffer = ctypes.create_string_buffer(1024)
    with _LOCK:
        unit = library.ut_parse(system, raw, _ASCII if text.isascii() else _UTF8)
        if not unit:
            return None
        length = library.ut_format(unit, buffer, len(buffer), _DEFINITION)
        library.ut_free(unit)
    return buffer.value.decode("ascii", "replace") if 0 <= length < len(buffer) else None


@lru_cache(maxsize=1)
def _library() -> tuple[Any, int]:
    """Return the library and its system of units: the copy of cf-units, else the computer's own."""
    from cfagg.cf.udunits import bundled

    copy = bundled()
    if copy is not None:
        name, table = str(copy[0]), str(copy[1])
    else:
        from ctypes.util import find_library

        name, table = find_library("udunits2") or "", ""
    table = os.environ.get(_XML, table)
    try:
        library = ctypes.CDLL(name) if name else None
    except OSError:
        library = None
    if library is None:
        raise NotApplicable("units cannot be checked because the library UDUNITS-2 is not found; install cf-units")
    pointer = ctypes.c_void_p
    library.ut_set_error_message_handler.argtypes = [pointer]
    library.ut_set_error_message_handler(ctypes.cast(library.ut_ignore, pointer))
    library.ut_read_xml.argtypes, library.ut_read_xml.restype = [ctypes.c_char_p], pointer
    library.ut_parse.argtypes, library.ut_parse.restype = [pointer, ctypes.c_char_p, ctypes.c_int], pointer
    library.ut_format.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
    library.ut_free.argtypes, library.ut_free.restype = [pointer], None
    system = library.ut_read_xml(os.fsencode(table) if table else None)
    if not system:
        raise NotApplicable(f"units cannot be checked because UDUNITS-2 does not read its table {table!r}")
    return library, system
