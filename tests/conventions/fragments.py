"""Two fragments that aggregation variables of CF-1.13 and CFA-0.6.2 refer to."""

from __future__ import annotations

import netCDF4
import numpy as np

import cfagg

VALUES = np.arange(48, dtype="f8").reshape(12, 4)
ROWS = [[3, 9], [4]]


def edited(path, change):
    with netCDF4.Dataset(path, "a") as root:
        change(root)
    return path


def data(path, name="tas", **options):
    return cfagg.read(path, **options)[name].values
