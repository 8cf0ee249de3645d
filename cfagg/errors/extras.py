"""Libraries of an extra: whether they are installed, checked before work that needs them begins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
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
    if not (chunks == "auto" if isinstance(chunks, str) else isinstance(chunks, int | Mapping)):
        kind = repr(chunks) if isinstance(chunks, str) else f"an object of type {type(chunks).__name__}"
        raise OptionError(f"chunks: found {kind}; expected 'auto' or lengths by dimension")
    require("arrays in chunks (chunks=)", "dask")


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
