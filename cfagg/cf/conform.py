"""Bring sub-arrays into the master array's form: order of dimensions, direction, missing values, units, type.

A `Recipe` is derived once for each distinct (layout, header) and then applied to any number of blocks.  The order of
operations is: mask, unpack, units and calendar, direction, order of dimensions, size-1 dimensions, packing and type of
the master.  Masking, unpacking, units and packing are one multiplication and addition in one pass over the values.

Sources: NCA 0.1, "Partitions"; CF sections 2.5.1 (missing data), 3.1 (units), 4.4.1 (calendar), 8.1 (packing).

*conform*: to bring a sub-array into the form of the master array: its dimensions, directions, units, packing and
type.
"""

from cfagg.cf.apply import apply
from cfagg.cf.recipe import Recipe, master_fill, recipe

__all__ = ["Recipe", "apply", "master_fill", "recipe"]
