"""Detection of the convention that describes an aggregation: the common entry point of all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.marks import ROLES, mark_of
from cfagg.conventions.scope import Scope
from cfagg.errors import ConventionError
from cfagg.model import Aggregation

__all__ = ["detect", "named_version", "parse"]

_VERSION = re.compile(r"(NCA|CFA)-([0-9]+(?:\.[0-9]+)*)")
_CF = re.compile(r"CF-1\.(1[3-9]|[2-9][0-9])")


def named_version(conventions: str) -> str | None:
    """Return the version of NCA or CFA that the attribute ``Conventions`` names.

    >>> named_version("CF-1.6 CFA-0.4"), named_version("CF-1.5 NCA")
    ('CFA-0.4', None)
    """
    words = conventions.replace(",", " ").split()
    return next((word for word in words if _VERSION.fullmatch(word)), None)


def detect(attributes: Mapping[str, Any], conventions: str = "") -> str | None:
    """Return the dialect in which the attributes of a variable describe an aggregation, `None` if they do not.

    >>> detect({"cfa_array": '{"Partitions": [{"reverse": ["x"]}]}'}), detect({"units": "K"})
    ('CFA-0.4', None)
    """
    if "aggregated_dimensions" in attributes or "aggregated_data" in attributes:
        return _by_instructions(attributes, conventions)
    if "cfa_group" in attributes:
        return "CFA-0.5"
    if "nca_array" in attributes or "cfa_array" in attributes:
        from cfagg.conventions import cfa

        return cfa.version_of(attributes, named_version(conventions))[0].name
    if (role := str(attributes.get("cf_role"))) in ROLES:
        return ROLES[role]
    if "cfa_dimensions" in attributes or "cfa_variable" in attributes:
        return "CFA-0.4"
    return "NCA-0.1" if "nca_dimensions" in attributes else None


def _by_instructions(attributes: Mapping[str, Any], conventions: str) -> str:
    """Return whether instruction variables are those of CF-1.13 or of CFA-0.6.2."""
    text = str(attributes.get("aggregated_data", ""))
    terms = {word[:-1].lower() for word in text.split() if word.endswith(":")}
    if terms & {"map", "uris", "identifiers", "unique_values", "unique_value"}:
        return "CF-1.13"
    if terms & {"file", "address", "location", "format"}:
        return "CFA-0.6.2"
    words = conventions.replace(",", " ").split()
    return "CFA-0.6.2" if any(w.startswith("CFA") for w in words) and not any(map(_CF.fullmatch, words)) else "CF-1.13"


def parse(
    name: str, attributes: Mapping[str, Any], dtype: npt.DTypeLike, scope: Scope, *, source: str = ""
) -> Aggregation:
    """Return the aggregation that a variable describes in any of the conventions.

    Parameters
    ----------
    name : str
        Name of the variable.
    attributes : mapping
        All its attributes.
    dtype : dtype_like
        Data type of the variable, which is that of the master array.
    scope : Scope
        The parts of its file that are visible to the variable.
    source : str, optional
        The file, for messages and for relative references.

    Returns
    -------
    Aggregation
        `dialect` names the convention.

    Raises
    ------
    ConventionError
        The attributes describe no aggregation, or break their convention.
    LimitError
        A size, depth or count is above a cap of `cfagg.conventions.limits`.

    Warns
    -----
    RepairWarning
        Once for each repair, and if the version is ambiguous.

    Examples
    --------
    >>> text = '{"Partitions": [{"subarray": {"file": "test1.nc", "ncvar": "tas", "shape": [12]}}]}'
    >>> attributes = {"cfa_dimensions": "time", "cfa_array": text}
    >>> tas = parse("tas", attributes, "f4", Scope({"time": 12}, conventions="CF-1.6 CFA-0.4"))
    >>> tas.dialect, tas.partitions.file_name(0)
    ('CFA-0.4', 'test1.nc')
    """
    # The modules of other dialects are not loaded.
    subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
    dialect = detect(attributes, scope.conventions)
    if dialect is None:
        raise ConventionError(f"{subject}: no attribute marks an aggregation")
    if "nca_array" in attributes or "cfa_array" in attributes:
        from cfagg.conventions import cfa

        named = named_version(scope.conventions)
        return cfa.parse_json(name, attributes, np.dtype(dtype), scope, named, source=source)
    if {"aggregated_dimensions", "aggregated_data"} <= attributes.keys():
        from cfagg.conventions import cf113, cfa06

        instructed = cf113.parse if dialect == "CF-1.13" and not cfa06.is_draft(attributes) else cfa06.parse
        return replace(instructed(name, attributes, dtype, scope, source=source), dialect=dialect)
    if "cfa_group" in attributes:
        from cfagg.conventions import cfa05

        return cfa05.parse(name, attributes, dtype, scope, source=source)
    wanted = f"{dialect[:3].lower()}_array"
    if dialect in ("CF-1.13", "CFA-0.6.2"):
        wanted = next(k for k in ("aggregated_data", "aggregated_dimensions") if k not in attributes)
    why = f"but {wanted!r} of {dialect} is not read" if wanted in attributes else f"but it has no {wanted!r}"
    raise ConventionError(
        f"{subject} is an aggregation that cannot be read: its attribute {mark_of(attributes)!r} marks it as "
        f"{dialect}, {why}"
    )
