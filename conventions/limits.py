"""Limits on the resources that a file may use.  `LimitError` is raised beyond them; assign to a name to change it."""

from __future__ import annotations

import os

from cfagg.errors import OptionError

__all__ = [
    "MAX_CHARACTERS",
    "MAX_CHUNK",
    "MAX_COMBINATIONS",
    "MAX_DEPTH",
    "MAX_INDEX",
    "MAX_PARTITIONS",
    "MAX_PART_LIST",
    "MAX_PROBLEMS",
    "MAX_RANK",
    "MAX_REPAIR_WARNINGS",
    "MAX_TEXT",
    "MAX_VALUES",
]


def _given(name: str, default: int) -> int:
    """Return a limit that the environment may set."""
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise OptionError(
            f"the environment variable {name}={text!r} is not a number of bytes above 0, such as {default}"
        )
    return int(text)


#: Characters of one JSON text.
MAX_TEXT = 2**31
#: Levels of nested lists and objects; the convention needs five.
MAX_DEPTH = 64
#: Cells of one partition matrix, and elements of one ``Partitions`` list.
MAX_PARTITIONS = 2**26
#: Indices written out one by one in one `part`; ranges cost nothing and have no cap.
MAX_PART_LIST = 1_000_000
#: Values of one variable that describes the fragments of an aggregation.
MAX_VALUES = 2**24
#: Characters of one such variable.
MAX_CHARACTERS = 2**30
#: Dimensions of one array (NumPy has the same limit).
MAX_RANK = 64
#: Problems that one error lists; the last entry states that there were more.
MAX_PROBLEMS = 1000
#: Warnings about one kind of repair; the last one counts the rest.
MAX_REPAIR_WARNINGS = 20
#: Objects inside one ``_ACCUMULATION_GROUP``: all combinations of fourteen dimensions.
MAX_COMBINATIONS = 2**14
#: Bytes of one decoded chunk; the environment variable CFAGG_MAX_CHUNK sets another limit for every process.
MAX_CHUNK = _given("CFAGG_MAX_CHUNK", 2**30)
#: Bytes of the index of one shard.
MAX_INDEX = 2**28
