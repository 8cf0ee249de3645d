"""Limits for a job: memory and workers, as given by users."""

from __future__ import annotations

import os
import re

from cfagg.errors import LimitError
from cfagg.errors.arguments import a_number, an_integer

__all__ = ["parse_size", "processors", "worker_count"]

#: More threads than any machine can use.
_WORKERS = 1 << 12

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def parse_size(value: float | str) -> int:
    """Return a number of bytes, given as a number or as text; `LimitError` if it is not a size.

    >>> parse_size("256MiB"), parse_size("1.5 GB"), parse_size(1e3)
    (268435456, 1500000000, 1000)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([kmg]?i?)b?\s*", value.lower())
        if match is None or match[2] not in _UNITS:
            raise LimitError(f"memory={value!r} is not a size; write bytes or, for instance, '256MiB'")
        value = int(float(match[1]) * _UNITS[match[2]])
    if a_number(value, "memory", "a number of bytes or, for instance, '256MiB'", LimitError) < 1:
        raise LimitError(f"memory={value!r} is not a positive number of bytes")
    return int(value)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(workers: int | None, spare: int = 0) -> int:
    """Return the number of threads: as requested, or else the processors this process may use and some to spare."""
    if workers is None:
        return processors() + spare
    if not 1 <= an_integer(workers, "workers") <= _WORKERS:
        raise LimitError(f"workers={workers} is {'less than 1' if workers < 1 else f'more than {_WORKERS:,}'}")
    return int(workers)
