"""Plugins that other packages provide as entry points, found without importing slow modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cfagg.storage.files import read_regular

__all__ = ["any_package", "loaders"]


def loaders(group: str) -> list[tuple[str, Callable[[], Any]]]:
    """Return the names of the entry points of a group, each with a function that loads its object.

    >>> loaders("cfagg.nothing")
    []
    """
    if not any_package(group):
        return []
    from importlib.metadata import entry_points

    return [(e.name, e.load) for e in sorted(entry_points(group=group))]


def any_package(group: str) -> bool:
    """Return whether any installed package may have entry points of a group.

    Most packages have none, and importing the module that reads entry points takes longer than checking a small file.
    """
    wanted = f"[{group}]".encode()
    for place in sys.path:
        with suppress(OSError), os.scandir(place or ".") as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if wanted in read_regular(f"{entry.path}/entry_points.txt"):
                            return True
                elif entry.name.endswith((".egg", ".zip")):
                    return True  # importlib determines its contents
    return False
