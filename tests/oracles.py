"""Plain NumPy and standard-library twins of kernels and codecs: slow, obvious, written without looking at the code they check."""

from __future__ import annotations
