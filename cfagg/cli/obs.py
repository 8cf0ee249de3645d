"""``cfagg obs``: stores of observations; picks the command of its own that is asked for."""

from __future__ import annotations

import argparse

from cfagg.cli import obs_check, obs_create, obs_index, obs_show, obs_window
from cfagg.cli.options import new_command
from cfagg.cli.parser import add_common

__all__ = ["add_parser", "run"]

_COMMANDS = (obs_create, obs_show, obs_window, obs_check, obs_index)

_EPILOG = """\
examples:
  cfagg obs create recipe.yaml synop.zarr
  cfagg obs show synop.zarr --plot coverage.png
  cfagg obs window synop.zarr 2020-01-31T12 --window "(-3,+3]"
  cfagg obs check synop.zarr --full
  cfagg obs index synop.zarr

A store of observations is a table with one row per observation, ordered by date, each with a latitude and a longitude,
and an index that finds the rows in any time window quickly.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "obs",
        "build, show and check stores of observations",
        "Build, show and check stores of observations: irregular data in time and space.",
        _EPILOG,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        command = module.add_parser(commands)
        command.set_defaults(run_obs=module.run)
        add_common(command)


def run(args: argparse.Namespace) -> int:
    """Run the command that was picked, and return its exit status."""
    status: int = args.run_obs(args)
    return status
