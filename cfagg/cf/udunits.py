"""The UDUNITS library, wherever it is: the only importer of cfunits.

cfunits loads the system's library ``udunits2`` as it is imported, and fails where there is none.  The wheels of
cf-units carry the library and its tables, so that copy stands in.  Nothing is changed for good: the search for
libraries and the environment are as before once cfunits is imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from cfagg.errors import UnitsError, UnsupportedError

__all__ = ["bundled", "converter", "load"]

_LOCK = threading.Lock()
_XML = "UDUNITS2_XML_PATH"

#: Patterns of the library's file beside or in the cf_units package, on Linux, macOS and Windows.
_PATTERNS = (
    "../cf_units.libs/libudunits2*.so*",
    ".dylibs/libudunits2*.dylib",
    "../cf_units.libs/*udunits2*.dll",
    "../cf_units.libs/*udunits2*.dylib",
)

#: UDUNITS reads these signs in UTF-8, but cfunits hands it ASCII.
_SIGNS = {
    "°C": "degC", "°F": "degF", "°K": "K", "°": "degree", "µ": "u", "μ": "u", "·": ".", "⁻": "-",
    "¹": "1", "²": "2", "³": "3", "⁴": "4",
}  # fmt: skip


def bundled() -> tuple[Path, Path] | None:
    """Return the library and the table of units that cf-units carries, without importing it; `None` if it has none."""
    spec = importlib.util.find_spec("cf_units")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        table = Path(folder) / "etc" / "share" / "udunits2.xml"
        found = [path for pattern in _PATTERNS for path in sorted(Path(folder).glob(pattern))]
        if found and table.is_file():
            return found[0].resolve(), table
    return None


def load() -> ModuleType:
    """Return the module cfunits, importing it with the system's library or the one that cf-units carries.

    A ``UDUNITS2_XML_PATH`` that the user has set stays in force for either library.

    Raises
    ------
    UnsupportedError
        cfunits or the library is not there, or the library does not load.

    Examples
    --------
    >>> load().Units("K @ 273.15").equals(load().Units("degC"))
    True
    """
    with _LOCK:
        # The search may start a compiler; once is enough.
        with nullcontext() if "cfunits" in sys.modules else _library_at_hand():
            try:
                import cfunits
            except (ImportError, OSError, AssertionError) as error:
                raise UnsupportedError(
                    f"units cannot be converted because cfunits does not load ({error}); install UDUNITS-2 or "
                    f"cf-units, and see that {_XML}, where it is set, names the table udunits2.xml"
                ) from error
        module: ModuleType = cfunits
        return module


@contextmanager
def _library_at_hand() -> Iterator[None]:
    """Let ``find_library("udunits2")`` find cf-units' copy where the system has none, for the time of the context."""
    import ctypes.util  # slow to import, and not needed by those who only ask where the copy is

    search = ctypes.util.find_library
    copy = bundled() if search("udunits2") is None else None
    if copy is None:
        yield
        return
    library, table = copy
    own = os.environ.get(_XML)

    def find_library(name: str) -> str | None:
        return str(library) if name == "udunits2" else search(name)

    ctypes.util.find_library = find_library
    if own is None:
        os.environ[_XML] = str(table)
    try:
        yield
    finally:
        ctypes.util.find_library = search
        if own is None:
            os.environ.pop(_XML, None)


@lru_cache(maxsize=256)
def converter(source: str, target: str) -> Callable[[float], float]:
    """Return the function that converts one value from `source` to `target` units.

    Raises
    ------
    UnitsError
        One of them is not known to UDUNITS, or they do not convert into each other.

    Examples
    --------
    >>> converter("hPa", "Pa")(2.5)
    250.0
    """
    units = load().Units
    ends = []
    for text in (source, target):
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise UnitsError(f"units {text!r} are not text in UTF-8 (converting {source!r} to {target!r})")
        end = units(_ascii(text))
        if not end.isvalid:
            raise UnitsError(f"units {text!r} are not known to UDUNITS (converting {source!r} to {target!r})")
        ends.append(end)
    if not ends[0].equivalent(ends[1]):
        raise UnitsError(f"units {source!r} cannot be converted to {target!r}")
    return lambda value: float(units.conform(value, *ends))


def _ascii(text: str) -> str:
    """Return units with the signs that UDUNITS knows in UTF-8 only written in ASCII."""
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    return text
