"""Counters of what the readers did: `cfagg.storage.counters` under the name that the documentation teaches."""

from __future__ import annotations

from cfagg.storage.counters import Counts, add, snapshot

__all__ = ["Counts", "add", "snapshot"]
