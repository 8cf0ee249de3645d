"""Plain NumPy and standard-library twins of kernels and codecs.

Slow, obvious, and written without looking at the code they check.
"""

from __future__ import annotations
