"""Numba kernels over plain arrays; imported as ``cfagg.kernels``."""

if __name__ != "cfagg.kernels":
    raise ImportError(
        f"this folder is imported as cfagg.kernels, not as {__name__}: write 'from cfagg.kernels import ...'"
    )
