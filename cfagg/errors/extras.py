"""Libraries of an extra: whether they are installed, checked before work that needs them begins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any

from cfagg.errors import MissingExtraError, OptionError

__all__ = ["check_chunks", "require"]

#: Library -> extra of cfagg that installs it.
_EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "icechunk": "icechunk",
    "matplotlib": "plot",
    "obstore": "cloud",
    "pandas": "observations",
    "pyarrow": "observations",
    "torch": "torch",
    "yaml": "observations",
}


def require(what: str, *libraries: str) -> None:
    """Raise if one of these libraries is not installed, without importing them.

    `what` is the part that needs them: the subject of a sentence with a plural verb.

    >>> require("tables", "pandas")
    """
    for name in libraries:
        if not _is_there(name):
            raise MissingExtraError(f"{what} need {name}: pip install 'cfagg[{_EXTRAS[name]}]'", name=name)


def check_chunks(chunks: Any) -> None:
    """Raise an error if chunks for xarray are neither lengths nor ``"auto"``, or if there is no dask."""
    if chunks is None:
        return
    if not (chunks == "auto" if isinstance(chunks, str) else isinstance(chunks, Integral | Mapping)):
        raise OptionError(f"chunks: found {_shown(chunks)}; expected 'auto' or lengths by dimension")
    for dim, lengths in (chunks if isinstance(chunks, Mapping) else {"all": chunks}).items():
        for length in lengths if isinstance(lengths, tuple | list) else (lengths,):
            if not _is_length(length):
                found = f"{_shown(length)} for {dim!r}"
                raise OptionError(f"chunks: found {found}; expected a length, -1 for all of it, or 'auto'")
    require("arrays in chunks (chunks=)", "dask")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | Real) else f"an object of type {type(value).__name__}"


def _is_length(value: Any) -> bool:
    """Return whether this may be the length of a chunk; sizes in bytes are understood by Dask."""
    if isinstance(value, str):
        return value == "auto" or value[:1].isdecimal()
    return value is None or (isinstance(value, Integral) and -1 <= int(value) < 2**63)


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
