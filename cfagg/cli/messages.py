"""Messages of the library for the command: options instead of Python keywords."""

from __future__ import annotations

import re
import shlex

__all__ = ["KEYWORDS", "as_options"]

#: Keywords of the library that are options of a command, with the same name except for ``_``.
KEYWORDS = frozenset(
    {
        "adopt", "allow", "allow_no_identity", "any_order", "append", "area", "atol", "axes", "cells", "cf_version",
        "chunks", "client", "codec", "concatenate", "contiguous", "ddof", "dimension", "dims", "equal", "equal_all",
        "exist", "exist_all", "field_ancillaries", "field_identity", "full", "ignore", "in_place", "index",
        "interleave", "level", "memory", "missing", "on_loss", "on_overlap", "output", "overlap", "overwrite",
        "packing", "precision", "refresh", "region", "relative_to", "relaxed_identities", "relaxed_units",
        "respect_valid", "resume", "rows", "rtol", "select", "shards", "skip_errors", "statistics", "stride",
        "substitutions", "thin", "timeout", "to", "trust_for", "update", "variable_identities", "variables", "verify",
        "weights", "window", "word_size", "workers", "zarr_format",
    }
)  # fmt: skip

#: Keywords whose option has another name.
_NAMES = {"variables": "variable", "substitutions": "substitute", "client": "dask"}

#: ``overwrite=True (--overwrite)`` and ``allow=['x'] or, on the command line, --allow x``: both forms together.
_BOTH = re.compile(r"\b[a-z_]+=(?:True|\[[^\]]*\]|'[^']*'|\"[^\"]*\")(?: \((--[^)]*)\)| or, on the command line, (--))")

#: A single keyword, with a value that an option can have; after a slash it is the name of a directory, as level=850.
_ALONE = re.compile(
    rf"(?<![\w.&?/-])({'|'.join(sorted(KEYWORDS))})="
    r"(True\b|False\b|None\b|\[([^\]]*)\]|\(([^)]*)\)|'([^']*)'|\"([^\"]*)\"|-?[\d.]+(?:e[-+]?\d+)?\b|-?(?:nan|inf)\b)?(?!=)"
)

#: What a shell would not take as part of a word.
_SPECIAL = re.compile(r"[\s$&;|<>()*?`\\\"'#~]")

#: A part of a store along one dimension.
_REGION = re.compile(r"\bregion=\{'([^']*)': slice\(([^,()]+), ([^,()]+)(?:, None)?\)\}")

#: ``storage_options={'region': 'eu'}``, for which a command has one ``--storage-option`` per key, with a text value.
_PAIR = re.compile(r"\b(storage_|target_|)options=\{'(\w+)': (?:'(\w+)'|(True|False)|(…)|\{…\})\}")
_PAIRS = re.compile(r"\b(storage|target)_options(?:\b(?!=)|=(?!\{))|\boptions=(?!\{)")


def as_options(message: str) -> str:
    """Return a message with command options in place of Python keywords.

    >>> as_options("replace it with overwrite=True (--overwrite)")
    'replace it with --overwrite'
    >>> as_options("pass allow=['/data'] or, on the command line, --allow /data")
    'pass --allow /data'
    >>> as_options("pass missing='fill' to read missing values there")
    'pass --missing fill to read missing values there'
    >>> as_options("the bucket is in the region 'eu', give it as storage_options={'region': …}")
    "the bucket is in the region 'eu', give it as --storage-option region=…"
    >>> as_options("region={'time': slice(31, 31, None)} holds nothing")
    '--region time=31:31 holds nothing'
    """
    message = _BOTH.sub(lambda found: found[1] or found[2], message)
    message = _ALONE.sub(_option, _REGION.sub(r"--region \1=\2:\3", message))
    message = _PAIR.sub(_pair, message)
    return _PAIRS.sub(lambda found: f"--{found[1] or 'storage'}-option", message)


def _pair(found: re.Match[str]) -> str:
    """Return an option for a URL; a mapping contains headers, each of which has its own option."""
    of, name, text, truth, open_ = found.groups()
    value = text or (truth or "").lower() or open_
    return f"--{of.rstrip('_') or 'storage'}-option {name}{f'={value}' if value else '.NAME=…'}"


def _option(found: re.Match[str]) -> str:
    name = _NAMES.get(found[1], found[1]).replace("_", "-")
    value = found[2]
    if value in (None, "True"):
        return f"--{name}"
    if value in ("None", "False"):
        return f"no --{name}" if value == "None" else f"--no-{name}"
    if found[4] is not None:  # a tuple is one value, as for --area
        return f"--{name} {found[4].replace(' ', '')}"
    inner = next((g for g in found.groups()[2:] if g is not None), value)
    words = [word.strip().strip("'\"") for word in inner.split(",")]
    words = [shlex.quote(word) if _SPECIAL.search(word) else word for word in words]
    return f"--{name} {words[0]}" if len(words) == 1 else " ".join(f"--{name} {word}" for word in words)
