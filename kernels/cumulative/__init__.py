"""Sums of a chunk along any set of dimensions in one pass, and their running sums over the chunks.

`sums` has the functions that are called, `mask` says which elements count. Small blocks are summed by NumPy (`plain`),
large ones by a compiled pass: `layout` finds the fewest axes in which a block can be worked off, `tiles` goes through
the memory once, `compiled` makes of the sums along single axes what was asked for, `spread` measures departures from
known means, and `running` carries sums on from block to block.
"""

from __future__ import annotations

from cfagg.kernels.cumulative.sums import Partials, cumulate, partial_sums, partial_sums_each
from cfagg.kernels.statistics import Statistics, merge, pyramid

__all__ = ["Partials", "Statistics", "cumulate", "merge", "partial_sums", "partial_sums_each", "pyramid"]
