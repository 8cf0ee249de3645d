"""``cfagg obs create``: create a store of observations from a recipe."""

from __future__ import annotations

import sys
from dataclasses import replace

from cfagg.cli import output
from cfagg.cli.bars import step_bar
from cfagg.cli.options import JSON, Arguments, either, flag, group, option, storage_option, workers

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Build a store of observations from a recipe: sources, filters and dates."

EPILOG = """\
examples:
  cfagg obs create recipe.yaml synop.zarr
  cfagg obs create recipe.yaml synop.zarr --dry-run
  cfagg obs create recipe.yaml synop.zarr --resume
  cfagg obs create recipe.yaml synop.zarr --append

RECIPE is a YAML file with dates, input, output, build and statistics, as in anemoi-datasets. The store appears once
it is complete. To finish a run that was killed, repeat the command with --resume. --append reads only the dates that
the store does not cover yet.
"""

OPTIONS = (
    option("recipe", "RECIPE", "a YAML file"),
    option("store", "STORE", "directory or URL of the new store, such as synop.zarr"),
    group(
        "if the store already exists",
        either(
            flag("--append", "add the dates in RECIPE that it does not cover yet"),
            flag("--overwrite", "replace it, or an unfinished build"),
        ),
    ),
    group(
        "how to run",
        flag("--resume", "finish a killed run with the same recipe"),
        flag("--dry-run", "check the recipe and print what would be read; write nothing"),
        workers(default="as in the recipe, or one per processor"),
        option("--memory", "SIZE", "memory for rows, such as 2GiB (default: 512MiB)", default="512MiB"),
        option("--dask", "ADDRESS", "address of a Dask scheduler whose workers read and sort"),
        storage_option("target", "STORE"),
        JSON,
        flag("--quiet", "no progress bar or summary"),
    ),
)


def run(args: Arguments) -> int:
    """Build the store; the summary goes to stdout."""
    from cfagg.observations.creating import create_observations

    shown = not args.quiet and not args.dry_run and sys.stderr.isatty()
    with step_bar("create", shown) as progress:
        report = create_observations(
            args.recipe, args.store, client=args.dask, progress=progress,
            target_options=args.options("target"),
            **args.some("overwrite", "resume", "append", "workers", "memory", "dry_run"),
        )  # fmt: skip
    output.print_report(args, "obs create", report.to_dict(), str(replace(report, notes=())), report.notes)
    return 0
