"""``cfagg completion``: the script with which a shell completes commands, options and file names."""

from __future__ import annotations

from cfagg.cli.options import Arguments, option

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Print a script with which a shell completes commands, options and file names of cfagg."

EPILOG = """\
examples:
  cfagg completion bash > ~/.local/share/bash-completion/completions/cfagg
  cfagg completion zsh > ~/.zfunc/_cfagg
"""

OPTIONS = (option("shell", ("bash", "zsh", "tcsh"), "bash, zsh or tcsh", metavar="SHELL"),)


def run(args: Arguments) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(args.whole_parser(), shell=args.shell))
    return 0
