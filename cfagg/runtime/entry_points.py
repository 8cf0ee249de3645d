"""What other packages bring under a group of entry points, looked for without loading what reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cfagg.storage.files import read_regular

__all__ = ["any_package", "loaders"]


def loaders(group: str) -> list[tuple[str, Callable[[], Any]]]:
    """Return the name of each entry point of a group, and what loads its object.

    >>> loaders("cfagg.nothing")
    []
    """
    if not any_package(group):
        return []
    from importlib.metadata import entry_points

    return [(e.name, e.load) for e in sorted(entry_points(group=group))]


def any_package(group: str) -> bool:
    """Tell whether any installed package may have entry points of a group.

    Most have none, and the module that reads entry points takes longer to load than a small file to check.
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
                    return True  # what is inside is for importlib to tell
    return False
