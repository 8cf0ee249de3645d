"""The one place that chooses Numba's options and cache.

Every kernel is decorated with `jit` from here.  Kernels are serial and release the GIL; threads above them run them in
parallel.  Compiled code is cached on disk if a cache directory is writable.  If none is (a read-only installation
without a home directory), the kernel is compiled again in each process.  The same holds if the directory is removed
later or its disk is full: a failing cache must never fail the computation.

Numba notices a change in the source file of a kernel, but not in that of another kernel that it calls and inlines, so
old code could run after an upgrade.  The key of cached code therefore includes a digest of all kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, overload

import numba
import numba.extending
from numba.core.caching import FunctionCache

__all__ = ["OPTIONS", "intrinsic", "jit"]

#: Options of every kernel; `error_model="numpy"` would hide a division by zero, so Numba's default is kept.
OPTIONS: dict[str, Any] = {"nogil": True}


def intrinsic(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that writes machine code; `plain` replaces it if nothing is compiled."""
    if numba.config.DISABLE_JIT:
        return lambda _: plain
    return numba.extending.intrinsic  # type: ignore[no-any-return]  # numba has no types


@cache
def _sources() -> str:
    """Return a digest of the sources of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Numba's cache on disk, shared by all kernels, which may disappear at any moment."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (super()._index_key(sig, codegen), _sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code, or `None` if the directory can no longer be read."""
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code if the directory is still writable."""
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()


@overload
def jit[F: Callable[..., Any]](function: F, /) -> F: ...


@overload
def jit[F: Callable[..., Any]](**options: Any) -> Callable[[F], F]: ...


def jit(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function on its first call, without the GIL and cached on disk if possible.

    Parameters
    ----------
    function : callable
        A function of plain arrays and numbers.
    **options
        Further options of `numba.njit`, such as ``fastmath``; a kernel cannot set ``cache``.

    Returns
    -------
    callable
        The dispatcher; ``.py_func`` is the function itself.

    Examples
    --------
    >>> import numpy as np
    >>> @jit
    ... def total(values):
    ...     s = 0
    ...     for v in values:
    ...         s += v
    ...     return s
    >>> total(np.arange(4))
    6
    """
    if function is None:
        return lambda f: jit(f, **options)
    dispatcher = numba.njit(**OPTIONS, **options)(function)
    if dispatcher is function:  # NUMBA_DISABLE_JIT is set
        return function
    try:
        stored = _Cache(function)
    except RuntimeError as error:
        # Raised if Numba finds no directory that it can write to.
        if "no locator available" not in str(error):
            raise
        return dispatcher
    dispatcher._cache = stored
    return dispatcher
