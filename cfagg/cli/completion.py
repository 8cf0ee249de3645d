"""``cfagg completion``: the script by which a shell completes commands, options and file names."""

from __future__ import annotations

import argparse

from cfagg.cli.options import new_command

__all__ = ["add_parser", "run"]

_EPILOG = """\
examples:
  cfagg completion bash > ~/.local/share/bash-completion/completions/cfagg
  cfagg completion zsh > ~/.zfunc/_cfagg
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command to the parser of `cfagg`."""
    parser = new_command(
        subparsers,
        "completion",
        "print a completion script for a shell",
        "Print a script with which a shell completes commands, options and file names of cfagg.",
        _EPILOG,
    )
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "tcsh"), help="bash, zsh or tcsh")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(args.whole_parser(), shell=args.shell))
    return 0
