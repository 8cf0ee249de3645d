"""What the UDUNITS library itself says: an oracle of units."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from cfagg.cf.udunits import bundled

_POINTER = ctypes.c_void_p


@cache
def _library() -> tuple[Any, int]:
    """Return cf-units' copy of the library, and its system of units."""
    found = bundled()
    assert found is not None, "cf-units is not installed"
    library = ctypes.CDLL(str(found[0]))
    for name, arguments, result in (
        ("ut_read_xml", [ctypes.c_char_p], _POINTER),
        ("ut_parse", [_POINTER, ctypes.c_char_p, ctypes.c_int], _POINTER),
        ("ut_get_converter", [_POINTER, _POINTER], _POINTER),
        ("ut_format", [_POINTER, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint], ctypes.c_int),
        ("cv_convert_double", [_POINTER, ctypes.c_double], ctypes.c_double),
        ("ut_set_error_message_handler", [_POINTER], _POINTER),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    library.ut_set_error_message_handler(ctypes.cast(library.ut_ignore, _POINTER))
    return library, library.ut_read_xml(str(found[1]).encode())


def seconds(datetime: str, origin: str = "2000-01-01") -> float | None:
    """Return the seconds from one datetime to another in the mixed Gregorian calendar, `None` where it is not known."""
    library, system = _library()
    ends = [library.ut_parse(system, f"seconds since {text}".encode("ascii"), 2) for text in (datetime, origin)]
    change = library.ut_get_converter(*ends) if all(ends) else None
    return library.cv_convert_double(change, 0.0) if change else None


def definition(text: str) -> str | None:
    """Return units in terms of base units, `None` where they are not known."""
    library, system = _library()
    unit = library.ut_parse(system, text.encode("ascii"), 0)
    buffer = ctypes.create_string_buffer(200)
    return buffer.value.decode() if unit and library.ut_format(unit, buffer, 200, 8) >= 0 else None
