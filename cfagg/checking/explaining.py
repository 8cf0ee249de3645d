"""Explanations of rules: the reason, and examples that fail and pass.

They are in ``explanations/*.toml``, one table for each rule::

    [DOC006]
    why = "Programs distinguish the dimensions of a variable by their names."
    fails = '''
    netcdf twice { ... }
    '''
    passes = '''
    netcdf once { ... }
    '''

Further keys: ``version`` (the version of CF to check against, instead of the one that the examples claim), ``also``
(codes of other errors that the failing example cannot avoid), ``more_fails`` and ``more_passes`` (lists of further
examples) and ``references`` (true to search for fragments).  An example without braces is the name of a file.  Rules
about the check itself have no explanation; those of jobs and plug-ins have the same keys in `Rule.explanation`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from cfagg.checking.registry import registered

__all__ = ["explanations"]


@lru_cache(maxsize=1)
def explanations() -> Mapping[str, Mapping[str, Any]]:
    """Return the explanations of all rules by their codes."""
    found: dict[str, Mapping[str, Any]] = {}
    folder = resources.files("cfagg.checking").joinpath("explanations")
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml") and file.is_file():
            found.update(tomllib.loads(file.read_text(encoding="utf-8")))
    return found | {code: rule.explanation for code, rule in registered().items() if rule.explanation is not None}
