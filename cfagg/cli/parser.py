"""The parser of the command line: options in full only, and suggestions for misspelt ones."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

__all__ = ["Parser"]

#: Lines of a usage that is printed with an error.
_SHORT = 6


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that takes no abbreviated options and suggests the nearest name.

    Sub-commands get parsers of the same kind.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `argparse` does it; but a sub-command itself says which of its arguments it does not know."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and " " in self.prog:
            self.error(f"unrecognized arguments: {' '.join(map(_without_value, rest))}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, with a suggestion where a name is nearly right, and exit with status 2.

        The usage comes first where it is short; a long one would hide the message.
        """
        said = f"{self.prog}: error: {message}{self._suggestion(message)}\n"
        usage = self.format_usage()
        is_long = usage.count("\n") > _SHORT
        self.exit(2, f"{said}see {self.prog} --help\n" if is_long else usage + said)

    def _suggestion(self, message: str) -> str:
        from difflib import get_close_matches

        wrong: list[str] = []
        known: list[str] = []
        if found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            wrong, known = [found[1]], re.findall(r"[\w.-]+", found[2])
        elif found := re.fullmatch(r"unrecognized arguments: (.*)", message):
            wrong = [word.partition("=")[0] for word in found[1].split() if word.startswith("-")]
            known = [option for action in self._actions for option in action.option_strings]
        near = [(word, get_close_matches(word, known, n=1, cutoff=0.7)) for word in wrong]
        meant = [f"{match[0]} instead of {word}" for word, match in near if match]
        return f"; did you mean {', '.join(meant)}?" if meant else ""


def _without_value(word: str) -> str:
    """Return an argument that is not known without what may be a key, as after a misspelt ``--storage-option``."""
    name, equals, value = word.partition("=")
    return f"{name}=…" if equals and value else word
