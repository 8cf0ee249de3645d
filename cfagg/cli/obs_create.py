"""``cfagg obs create``: a store of observations from a recipe."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from cfagg.cli.bars import step_bar
from cfagg.cli.options import (
    add_flag,
    add_json,
    add_storage_option,
    add_workers,
    new_command,
    print_report,
    storage_options,
)

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg obs create recipe.yaml synop.zarr
  cfagg obs create recipe.yaml synop.zarr --dry-run
  cfagg obs create recipe.yaml synop.zarr --resume
  cfagg obs create recipe.yaml synop.zarr --append

RECIPE is a YAML file with dates, input, output, build and statistics, as in anemoi-datasets. The store appears when
it is complete. To finish a run that was killed, repeat the command with --resume. --append reads only the dates that
the store does not cover yet.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the command to the parser of `cfagg obs`, and return its own."""
    parser = new_command(
        subparsers,
        "create",
        "build a store from a recipe",
        "Build a store of observations from a recipe: sources, filters and dates.",
        _EPILOG,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file")
    parser.add_argument("store", metavar="STORE", help="directory or URL of the new store, such as synop.zarr")
    existing = parser.add_argument_group("if there is a store already")
    one = existing.add_mutually_exclusive_group()
    add_flag(one, "--append", "add the dates of RECIPE that it does not cover yet")
    add_flag(one, "--overwrite", "replace it, or an unfinished build")
    how = parser.add_argument_group("how to run")
    add_flag(how, "--resume", "finish a killed run with the same recipe")
    add_flag(how, "--dry-run", "check the recipe and print what would be read; write nothing")
    add_workers(how, default="as in the recipe, or one per processor")
    how.add_argument(
        "--memory", metavar="SIZE", default="512MiB", help="memory for rows, such as 2GiB (default: 512MiB)"
    )
    how.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler whose workers read and sort")
    add_storage_option(how, of="target", where="STORE")
    add_json(how)
    add_flag(how, "--quiet", "no progress bar or summary")
    return parser


def run(args: argparse.Namespace) -> int:
    """Build the store; the summary goes to stdout."""
    from cfagg.observations.creating import create_observations

    shown = not args.quiet and not args.dry_run and sys.stderr.isatty()
    with step_bar("create", shown) as progress:
        report = create_observations(
            args.recipe,
            args.store,
            overwrite=args.overwrite,
            resume=args.resume,
            append=args.append,
            workers=args.workers,
            memory=args.memory,
            client=args.dask,
            progress=progress,
            dry_run=args.dry_run,
            target_options=storage_options(args, of="target"),
        )
    print_report(args, "obs create", report.to_dict(), str(replace(report, notes=())), report.notes)
    return 0
