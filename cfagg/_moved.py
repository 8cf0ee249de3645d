"""Documented modules that have moved: the old name still works, with a warning.

An old name is kept for the minor version in which it moved, and is removed in the next one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["MOVED", "MOVED_IN", "install"]

#: Minor version that introduced the new names -> old name -> new name.
MOVED_IN = {
    "0.2": {
        "cfagg.accessor": "cfagg.api.accessor",
        "cfagg.backend": "cfagg.labelled.engine",
        "cfagg.checking.findings": "cfagg.findings",
        "cfagg.checking.rule": "cfagg.findings",
        "cfagg.checking.versions": "cfagg.findings",
        "cfagg.observations.exchange.parquet_read": "cfagg.observations.exchange.parquet",
        "cfagg.observations.filters.thin": "cfagg.observations.filters.choosing",
        "cfagg.observations.sources.arrow": "cfagg.observations.sources.parquet",
        "cfagg.plan": "cfagg.arrays.plan",
        "cfagg.readers": "cfagg.formats.values",
        "cfagg.readers.counters": "cfagg.storage.counters",
    },
}

#: Old name -> new name.
MOVED = {old: new for moved in MOVED_IN.values() for old, new in moved.items()}


class _Moved:
    """Finds and loads the modules in the table; Python only asks it for modules that it finds nowhere else.

    It is not a subclass of those in `importlib.abc`, whose import takes longer than that of the whole package.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in MOVED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # it has all that a loader needs

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        import warnings

        name = MOVED[module.__name__]
        # With the frames of importlib skipped, the warning points to the importing code.
        warnings.warn(f"{module.__name__} is now {name}; import that", DeprecationWarning, stacklevel=2)
        now = import_module(name)
        module.__path__ = []  # it may have been a package whose other modules are requested
        vars(module).update({n: getattr(now, n) for n in now.__all__}, __all__=now.__all__, __doc__=now.__doc__)


def install() -> None:
    """Make moved modules importable."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
