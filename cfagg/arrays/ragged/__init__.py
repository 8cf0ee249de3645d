"""Rows of different lengths in a store, as in compressed sparse rows (CSR): read row by row or batch by batch.

A group has the arrays ``data``, perhaps ``indices`` (columns), and ``indptr`` (where each row begins).
"""

from __future__ import annotations

from cfagg.arrays.ragged.batch import Batch, Row
from cfagg.arrays.ragged.opening import PARTS, open_rows
from cfagg.arrays.ragged.rows import Rows

__all__ = ["PARTS", "Batch", "Row", "Rows", "open_rows"]
