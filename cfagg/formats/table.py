"""The file formats that cfagg reads by itself, one line each; those of other packages come behind them."""

from __future__ import annotations

from cfagg.formats import cdl, classic, hdf5
from cfagg.formats.protocol import Format

__all__ = ["FORMATS"]

FORMATS: tuple[Format, ...] = (classic.FORMAT, hdf5.FORMAT, cdl.FORMAT)
