"""Accumulations (ZEP 5): cumulative sums stored next to a Zarr array, for averages over any range.

*accumulation*: running sums of an array, stored next to it, from which sums and means over any range are computed.

*sample of sums*: one stored running sum of an accumulation; it ends at an edge of the grid.
"""
