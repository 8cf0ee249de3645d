"""Kernels against their plain twins; with NUMBA_DISABLE_JIT=1 as plain Python, so that coverage sees their lines."""

import numba
import pytest

__all__ = ["compiled"]

#: Marks what looks at compiled code.
compiled = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled: NUMBA_DISABLE_JIT is set")
