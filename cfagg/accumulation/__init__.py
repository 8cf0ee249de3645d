"""Accumulations (ZEP 5): cumulative sums beside a Zarr array, and averages over any range from them.

*accumulation*: running sums of an array, stored beside it, from which sums and means over any range are computed.

*sample of sums*: one stored running sum of an accumulation; it ends at an edge of the grid.
"""
