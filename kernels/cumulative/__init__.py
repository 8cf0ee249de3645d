"""Sums of a chunk along any sets of dimensions in one pass, and their running sums over the chunks.

`sums` has the public functions, `mask` determines which elements count.  Small blocks are summed by NumPy (`plain`),
large ones by a compiled pass: `layout` finds the smallest number of axes in which a block can be processed, `tiles`
passes over the memory once, `compiled` computes all requested sums from those along single axes, and `axis` computes
departures from known means and carries sums from block to block.
"""

from __future__ import annotations

from cfagg.kernels.cumulative.sums import Partials, cumulate, partial_sums, partial_sums_each
from cfagg.kernels.statistics import Statistics, merge, pyramid

__all__ = ["Partials", "Statistics", "cumulate", "merge", "partial_sums", "partial_sums_each", "pyramid"]
