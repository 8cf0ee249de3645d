"""What tests need of the system beside POSIX."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["needs_proc", "proc"]

#: For tests of what is done by the names of open files, which only Linux tells; elsewhere cfagg does without.
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells the names of open files")


def proc(name: str) -> Path:
    """Return a path in /proc; the test is skipped on systems without it."""
    path = Path("/proc", name)
    if not path.exists():
        pytest.skip(f"the system has no {path}")
    return path
