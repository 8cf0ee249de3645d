"""Accumulations (ZEP 5): cumulative sums beside a Zarr array, and averages over any range from them."""
