"""What tests need of the system beside POSIX."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["needs_proc"]

#: For tests of what is done by the names of open files, which only Linux tells; elsewhere cfagg does without.
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells the names of open files")
