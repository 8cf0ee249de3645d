"""The data model: plain descriptions that open nothing."""

from __future__ import annotations

from cfagg.model.aggregation import Aggregation
from cfagg.model.grid import Grid, Regular
from cfagg.model.partitions import Layout, Partitions, Strings

__all__ = ["Aggregation", "Grid", "Layout", "Partitions", "Regular", "Strings"]
