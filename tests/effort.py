"""How hard the tests try: property tests are short in `make test`, whole in `make test-all`, long in `make soak`."""

from __future__ import annotations

import os

__all__ = ["EFFORT", "examples", "types"]

#: The share of the examples of each property test that are tried.
EFFORT = float(os.environ.get("CFAGG_TEST_EFFORT", "0.1"))

#: Fewer than these are no trial at all.
_LEAST = 8


def examples(number: int) -> int:
    """Return how many examples a property test tries whose full trial has `number`."""
    return max(min(number, _LEAST), round(number * EFFORT))


def types[T](*names: T, daily: int = 2) -> tuple[T, ...]:
    """Return the types that a property test draws from: each is compiled apart, and so the first ones every day."""
    return names if EFFORT >= 1 else names[:daily]
