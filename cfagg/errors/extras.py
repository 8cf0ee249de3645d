"""Libraries of an extra: whether they are installed, checked before work that needs them begins."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from cfagg.errors import MissingExtraError

__all__ = ["require"]

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


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
