"""``cfagg obs create``: a store of observations from a recipe."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from cfagg.cli.bars import step_bar
from cfagg.cli.storage_options import add_storage_option, storage_options

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
    parser = subparsers.add_parser(
        "create",
        help="build a store from a recipe",
        description="Build a store of observations from a recipe: sources, filters and dates.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file")
    parser.add_argument("store", metavar="STORE", help="directory or URL of the new store, such as synop.zarr")
    existing = parser.add_argument_group("if there is a store already")
    one = existing.add_mutually_exclusive_group()
    one.add_argument("--append", action="store_true", help="add the dates of RECIPE that it does not cover yet")
    one.add_argument("--overwrite", action="store_true", help="replace it, or an unfinished build")
    how = parser.add_argument_group("how to run")
    how.add_argument("--resume", action="store_true", help="finish a killed run with the same recipe")
    how.add_argument(
        "--dry-run", action="store_true", help="check the recipe and print what would be read; write nothing"
    )
    how.add_argument(
        "--workers", type=int, metavar="N", help="threads (default: as in the recipe, or one per processor)"
    )
    how.add_argument(
        "--memory", metavar="SIZE", default="512MiB", help="memory for rows, such as 2GiB (default: 512MiB)"
    )
    how.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler whose workers read and sort")
    add_storage_option(how, of="target", where="STORE")
    how.add_argument("--json", action="store_true", help="print strict JSON for machines")
    how.add_argument("-q", "--quiet", action="store_true", help="no progress bar or summary")
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
    if args.json:
        from cfagg.display.as_json import dump, encode

        print(dump({"form": "cfagg obs create", "form_version": 1, **encode(report.to_dict())}))
    elif not args.quiet:
        from cfagg.display.escape import printable

        for note in report.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        print(printable(str(replace(report, notes=()))))
    return 0
