"""What the attributes of an accumulation group must say together, each being well formed for itself."""

from __future__ import annotations

from cfagg.conventions.accumulation_model import Combinations
from cfagg.conventions.accumulation_record import Extra
from cfagg.conventions.accumulation_schema import path_text
from cfagg.conventions.findings import Findings, shorten

__all__ = ["check_together"]


def check_together(extra: Extra, combinations: Combinations | None, findings: Findings) -> None:
    """Note every contradiction in the attribute ``cfagg``, and between it and the group attribute.

    Parameters
    ----------
    extra : Extra
        The attribute ``cfagg``.
    combinations : Combinations, optional
        The group attribute.
    findings : Findings
        Collects the problems.
    """
    _check_keys(extra, findings)
    _check_numbers(extra, findings)
    taken: set[str] = set(combinations.arrays if combinations else ())
    for name in extra.arrays:
        if name in taken:
            findings.problem("cfagg", f"the array {shorten(name)} is named twice")
        taken.add(name)
    if combinations is not None:
        _check_combinations(extra, combinations, findings)


def _check_keys(extra: Extra, findings: Findings) -> None:
    """Note dimensions that the source does not have, and levels that occur twice."""
    dims = extra.source.dims
    for key, table in (("stride", extra.stride), ("boundaries", extra.boundaries)):
        for d in table:
            if d not in dims:
                message = f"the source has no dimension {shorten(d)}, only {shorten(list(dims))}"
                findings.problem(path_text(["cfagg", key, d]), message)
    if set(extra.stride) != set(extra.boundaries):
        message = f"edges are given along {sorted(extra.boundaries)}, strides along {sorted(extra.stride)}"
        findings.problem("cfagg.boundaries", message)
    seen = set()
    for i, level in enumerate(extra.statistics):
        where = path_text(["cfagg", "statistics", i])
        if (level.dims, level.level) in seen:
            findings.problem(where, f"level {level.level} of {list(level.dims)} occurs twice")
        elif level.level and (level.dims, level.level - 1) not in seen:
            findings.problem(
                where, f"level {level.level} of {list(level.dims)} does not follow level {level.level - 1}"
            )
        if "count" not in level.arrays:
            findings.problem(where, "statistics without their count")
        if not level.dims:
            findings.problem(f"{where}.dims", "statistics along no dimension")
        seen.add((level.dims, level.level))


def _check_numbers(extra: Extra, findings: Findings) -> None:
    """Note kinds of sums that the source or the weights do not allow."""
    integers = "int" in extra.source.dtype or extra.source.dtype == "bool"
    if extra.sums == "int64" and (extra.weights or not integers):
        found = "weighted sums" if extra.weights else f"a source of type {extra.source.dtype}"
        findings.problem("cfagg.sums", f"int64 sums need integers without weights; found {found}")
    if extra.low and extra.sums != "double-double":
        findings.problem("cfagg.low", f"low parts of {extra.sums} sums; only double-double sums have low parts")
    if extra.sums == "int64" and (extra.outliers or extra.magnitudes):
        findings.problem("cfagg.sums", "int64 sums are exact; outliers and magnitudes belong to sums of real numbers")
    if extra.outliers and (extra.magnitudes is None or extra.magnitudes.largest > extra.outliers.limit):
        findings.problem(
            "cfagg.outliers",
            "the magnitudes of the values that are summed are missing, or beyond the limit for outliers",
        )
    if extra.counts and not extra.weights:
        findings.problem("cfagg.counts", "counts beside sums without weights, whose weights are counts themselves")


def _check_combinations(extra: Extra, combinations: Combinations, findings: Findings) -> None:
    """Note where the two attributes disagree."""
    for key, names in combinations.items():
        where = path_text(["_ACCUMULATION_GROUP", *key])
        for d in key:
            if d not in extra.stride:
                findings.problem(path_text(["cfagg", "stride", d]), f"missing; {where} is accumulated along it")
        wanted = names.weighted if extra.weights else names.unweighted
        if wanted is None or names.weights is None:
            kinds = "_DATA_WEIGHTED" if extra.weights else "_DATA_UNWEIGHTED"
            findings.problem(where, f"{kinds} and _WEIGHTS expected, found {sorted(names.as_dict())}")
    arrays = set(combinations.arrays)
    for name in extra.low:
        if name not in arrays:
            findings.problem(path_text(["cfagg", "low", name]), "low part of an array that the group does not name")
    for key in extra.counts:
        if key not in combinations:
            findings.problem("cfagg.counts", f"counts of {list(key)}, which the group does not name")
