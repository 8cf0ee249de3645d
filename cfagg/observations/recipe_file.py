"""Recipes as text: YAML read with care, and recipes as plain values for the record.

YAML 1.1 reads ``1:30`` as the number 90 and keeps the last of two equal keys; neither is meant here.  Aliases
(``*name``) are allowed, but what they unfold to counts against the size of a recipe.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.errors import ConventionError, LimitError, SourceError, SourceNotFoundError
from cfagg.errors.extras import require
from cfagg.storage.files import Context, open_regular

__all__ = ["plain", "read_yaml"]

#: Bytes of a recipe's text, and values in it after aliases are unfolded.
MOST_BYTES, MOST_VALUES, DEEPEST = 4 * 2**20, 200_000, 64

#: Numbers of base 60, which are times of day here.
_BASE_60 = re.compile(r"[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?")


def read_yaml(path: Path) -> Any:
    """Return what a recipe's file says."""
    context = Context("recipe", SourceNotFoundError, SourceError, "check the path")
    with open_regular(str(path), context) as file:
        text = file.some(MOST_BYTES + 1, 0, context)
    if len(text) > MOST_BYTES:
        raise LimitError(f"recipe {path} is larger than {MOST_BYTES} bytes; is it a recipe?")
    return parse_yaml(text, str(path))


def parse_yaml(text: bytes | str, where: str) -> Any:
    """Return what YAML text says; see `read_yaml`."""
    require("recipes in YAML", "yaml")
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Any] = set()
            for key, _ in node.value:
                word = key.value if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge" else None
                if word is not None and word in seen:
                    raise ConventionError(f"recipe {where}, line {key.start_mark.line + 1}: duplicate key {word!r}")
                seen.add(word)
            made: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return made

    Loader.yaml_implicit_resolvers = {
        first: [(tag, _not_base_60(regexp)) for tag, regexp in resolvers]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)  # noqa: S506  # derived from the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConventionError):
            raise
        raise ConventionError(f"recipe {where} is not YAML: {' '.join(str(error).split())}") from error


class _not_base_60:  # noqa: N801  # stands for a regular expression
    """A pattern that takes what another takes, save numbers of base 60."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def match(self, text: str) -> Any:
        """Return a true value where the text is of the pattern's type."""
        return None if _BASE_60.fullmatch(text) else self.pattern.match(text)


def plain(value: Any, where: str = "recipe") -> Any:
    """Return a recipe in values that JSON has: dates and durations as text, functions by name."""
    left = [MOST_VALUES]

    def convert(item: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > DEEPEST:
            raise LimitError(f"{where}: more than {MOST_VALUES} values, or nested deeper than {DEEPEST}")
        if isinstance(item, Mapping):
            return {str(k): convert(v, depth + 1) for k, v in item.items()}
        if isinstance(item, list | tuple):
            return [convert(v, depth + 1) for v in item]
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, datetime | date):
            return item.isoformat()
        if isinstance(item, timedelta):
            return format_duration(parse_duration(item))
        if isinstance(item, Path):
            return str(item)
        if callable(item):
            return f"{getattr(item, '__module__', '')}:{getattr(item, '__qualname__', type(item).__qualname__)}"
        return str(item)

    return convert(value, 0)
