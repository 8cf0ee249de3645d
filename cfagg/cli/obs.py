"""``cfagg obs``: commands for stores of observations."""

from __future__ import annotations

__all__ = ["COMMANDS", "DESCRIPTION", "EPILOG", "OPTIONS"]

#: Command -> (module, one line of help).
COMMANDS = {
    "create": ("cfagg.cli.obs_create", "build a store from a recipe"),
    "show": ("cfagg.cli.obs_show", "print variables, units, statistics, dates, density and index"),
    "window": ("cfagg.cli.obs_window", "print or export the observations around a date"),
    "check": ("cfagg.cli.obs_check", "check order, duplicates, coordinates, indexes and statistics"),
    "index": ("cfagg.cli.obs_index", "add cfagg's fast index to a store"),
}

DESCRIPTION = "Build, show and check stores of observations: irregular data in time and space."

EPILOG = """\
examples:
  cfagg obs create recipe.yaml synop.zarr
  cfagg obs show synop.zarr --plot coverage.png
  cfagg obs window synop.zarr 2020-01-31T12 --window "(-3,+3]"
  cfagg obs check synop.zarr --full
  cfagg obs index synop.zarr

A store of observations is a table with one row per observation, ordered by date, each with a latitude and a longitude,
and an index that finds the rows in any time window quickly.
"""

OPTIONS = ()
