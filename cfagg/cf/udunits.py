"""The UDUNITS-2 library: units in base units, and values in other units.

The library of the system is preferred; the wheel of cf-units includes a copy with its tables.  Definitions are
requested through ctypes, which loads in a hundredth of a second; cfunits converts with the same library.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import lru_cache, reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from cfagg.errors import MissingExtraError, UnitsError
from cfagg.storage.locks import forkable

__all__ = ["LONGEST", "XML", "bundled", "converter", "definition", "load"]

#: Longer texts are not units.
LONGEST = 1000

#: The environment variable with which users set another table of units.
XML = "UDUNITS2_XML_PATH"
_ASCII, _UTF8, _DEFINITION = 0, 2, 8

#: UDUNITS is not thread-safe; the second lock is held while it is loaded, which the holder of the first may ask for.
_LOCK, _LOADING = forkable(), forkable()

#: Names of the system's library on Linux and macOS; `ctypes.util.find_library` would start processes.
_NAMES = ("libudunits2.so.0", "libudunits2.so", "libudunits2.0.dylib", "libudunits2.dylib")

#: Patterns of the library's file beside or in the cf_units package, on Linux and macOS.
_PATTERNS = (
    "../cf_units.libs/libudunits2*.so*",
    ".dylibs/libudunits2*.dylib",
    "../cf_units.libs/*udunits2*.dylib",
)

#: UDUNITS reads these signs in UTF-8, but cfunits passes it ASCII.
_SIGNS = {
    "°C": "degC", "°F": "degF", "°K": "K", "°": "degree", "µ": "u", "μ": "u", "·": ".", "⁻": "-",
    "¹": "1", "²": "2", "³": "3", "⁴": "4",
}  # fmt: skip

#: Superscript digits and signs, which UDUNITS does not accept in all places where Unicode users write them.
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")


def definition(text: str) -> str | None:
    """Return units in base units as UDUNITS prints them, or `None` if they are unknown."""
    library, _ = _library()
    buffer = ctypes.create_string_buffer(1024)
    with _LOCK:
        unit = _parsed(text)
        if unit is None:
            return None
        length = library.ut_format(unit, buffer, len(buffer), _DEFINITION)
        library.ut_free(unit)
    return buffer.value.decode("ascii", "replace") if 0 <= length < len(buffer) else None


@lru_cache(maxsize=256)
def converter(source: str, target: str) -> Callable[[float], float]:
    """Return the function that converts a value; raise `UnitsError` for units that are unknown or do not convert."""
    units = load().Units
    for text in (source, target):
        if "\0" in text or len(text) > LONGEST:  # UDUNITS would read only what is before the NUL
            raise UnitsError(f"{text[:60]!r} is unknown to UDUNITS")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise UnitsError(f"{text!r} is not UTF-8 text")
    with _LOCK:
        ends = [units(reduce(lambda text, sign: text.replace(*sign), _SIGNS.items(), end)) for end in (source, target)]
        for text, end in zip((source, target), ends, strict=True):
            if not end.isvalid:
                raise UnitsError(f"{text!r} is unknown to UDUNITS")
        if not ends[0].equivalent(ends[1]):
            raise UnitsError(f"{source!r} and {target!r} measure different quantities")

    def convert(value: float) -> float:
        with _LOCK:
            return float(units.conform(value, *ends))

    return convert


def load() -> ModuleType:
    """Return the module cfunits, whose search for the library is redirected during the import."""
    library, _ = _library()
    import ctypes.util  # slow to import, and not needed for definitions

    with _LOCK:
        search, own = ctypes.util.find_library, os.environ.get(XML)
        copy = bundled()
        if "cfunits" not in sys.modules:
            ctypes.util.find_library = lambda name: library._name if name == "udunits2" else search(name)
            if own is None and copy is not None and library._name == str(copy[0]):
                os.environ[XML] = str(copy[1])
        try:
            import cfunits
        except (ImportError, OSError, AssertionError) as error:
            raise MissingExtraError(f"units cannot be converted because cfunits does not load: {error}") from error
        finally:
            ctypes.util.find_library = search
            if own is None:
                os.environ.pop(XML, None)
        module: ModuleType = cfunits
        return module


def _parsed(text: str) -> Any:
    """Return the parsed unit, which the caller frees, or `None`; the lock must be held."""
    library, system = _library()
    # UDUNITS echoes a line break to the output instead of treating it as a space.
    text = text.replace("\n", " ").strip()
    if len(text) > LONGEST or "\0" in text:
        return None
    for form in dict.fromkeys((text, text.translate(_RAISED))):
        raw = form.encode("utf-8", "replace")
        unit = library.ut_parse(system, raw, _ASCII if form.isascii() else _UTF8)
        if unit:
            return unit
    return None


def bundled() -> tuple[Path, Path] | None:
    """Return the library and the table of units bundled with cf-units, without importing it; `None` if missing."""
    spec = importlib.util.find_spec("cf_units")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        table = Path(folder) / "etc" / "share" / "udunits2.xml"
        found = [path for pattern in _PATTERNS for path in sorted(Path(folder).glob(pattern))]
        if found and table.is_file():
            return found[0].resolve(), table
    return None


def _library() -> tuple[Any, int]:
    """Return the library and its system of units; a ``UDUNITS2_XML_PATH`` set by the user remains in effect."""
    with _LOADING:
        return _opened()


@lru_cache(maxsize=1)
def _opened() -> tuple[Any, int]:
    table = ""
    library = next(filter(None, map(_loaded, _NAMES)), None)
    if library is None and (copy := bundled()) is not None:
        library, table = _loaded(str(copy[0])), str(copy[1])
    remedy = f"install UDUNITS-2 or cf-units, and if {XML} is set, make sure that it names the table udunits2.xml"
    if library is None:
        raise MissingExtraError(f"units cannot be parsed because the library UDUNITS-2 was not found; {remedy}")
    pointer = ctypes.c_void_p
    for name, result, *arguments in (
        ("ut_set_error_message_handler", pointer, pointer),
        ("ut_read_xml", pointer, ctypes.c_char_p),
        ("ut_parse", pointer, pointer, ctypes.c_char_p, ctypes.c_int),
        ("ut_format", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint),
        ("ut_free", None, pointer),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    library.ut_set_error_message_handler(ctypes.cast(library.ut_ignore, pointer))
    table = os.environ.get(XML, table)
    system = library.ut_read_xml(os.fsencode(table) if table else None)
    if not system:
        raise MissingExtraError(f"units cannot be parsed because UDUNITS-2 cannot read its table {table!r}; {remedy}")
    return library, system


def _loaded(name: str) -> Any:
    """Return a shared library, or `None` if there is none of that name."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
