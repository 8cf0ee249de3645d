"""The attribute ``cfagg``: information missing from ZEP 5 that keeps an accumulation exact and never stale.

It accompanies ``_ACCUMULATION_GROUP`` and records the summed array (shape, chunks, type, encoding), how its values are
packed and masked, the weights and other arrays that matter, the number type of the sums, the cells excluded from the
sums, the further arrays of the group, and the checksums that detect damage to any of this.  This is version 2, or
version 3 for groups that grow in place; keys that a reader does not know do not change the meaning of the others.
"""

from __future__ import annotations

from typing import Any

from cfagg.conventions.accumulation_fields import Place, integer, record
from cfagg.conventions.accumulation_model import Combinations, Dims
from cfagg.conventions.accumulation_record import GROWING, Extra
from cfagg.conventions.accumulation_schema import path_text
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import UnsupportedError

__all__ = ["KEY", "check_together", "parse_extra", "write_extra"]

#: Name of the attribute.
KEY = "cfagg"

_EXTRA = record(Extra)

_REMEDY = "the attribute cfagg is not understood; rebuild the accumulation with --overwrite"


def parse_extra(value: Any, *, combinations: Combinations | None = None, source: str = "") -> Extra:
    """Return the parsed attribute ``cfagg`` of an accumulation group; `combinations` must agree with it."""
    place = Place((KEY,), Findings(source or "accumulation group"))
    findings = place.findings
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is int and version > GROWING:
        raise UnsupportedError(
            f"{findings.subject}: written in version {shorten(version)} of cfagg's form of accumulations, while this "
            f"cfagg reads version {GROWING}; read it with a newer cfagg, or rebuild it with --overwrite"
        )
    extra: Extra = _EXTRA.read(value, place)
    if isinstance(value, dict):
        if "version" not in value:
            place.at("version").problem("missing")
        elif integer(1).read(version, place.at("version")) != extra.version:
            place.at("version").problem(f"version {extra.version} expected")
    if not findings.problems:
        # Only values of the right type can be compared with each other.
        _check_together(extra, combinations, findings)
    findings.check(_REMEDY)
    return extra


def write_extra(extra: Extra) -> dict[str, Any]:
    """Return the value of the attribute ``cfagg``, ready for JSON."""
    value = {"version": extra.version, **_EXTRA.write(extra)}
    parse_extra(value, source="accumulation group to be written")
    return value


def check_together(extra: Extra, combinations: Combinations, *, source: str = "") -> None:
    """Raise an error if the attribute ``cfagg``, read alone, contradicts the group attribute."""
    findings = Findings(source or "accumulation group")
    _check_together(extra, combinations, findings)
    findings.check(_REMEDY)


def _check_together(extra: Extra, combinations: Combinations | None, findings: Findings) -> None:
    """Note every contradiction in the attribute ``cfagg``, and between it and the group attribute."""
    _check_dims(extra, findings)
    _check_keys(extra, findings)
    _check_numbers(extra, findings)
    taken: set[str] = set(combinations.arrays if combinations else ())
    for name in extra.arrays:
        if name in taken:
            findings.problem("cfagg", f"the array {shorten(name)} is named twice")
        taken.add(name)
    if combinations is not None:
        _check_combinations(extra, combinations, findings)


def _check_dims(extra: Extra, findings: Findings) -> None:
    """Note lists of dimensions that are not in the order of the source, or name others."""
    known = extra.source.dims
    lists: list[tuple[tuple[str | int, ...], Dims]] = [
        (("statistics", i, "dims"), level.dims) for i, level in enumerate(extra.statistics)
    ]
    lists += [(("counts", i, "dims"), dims) for i, dims in enumerate(extra.counts)]
    lists += [] if extra.weights is None else [(("weights", "dims"), extra.weights.dims)]
    for steps, dims in lists:
        unknown = [(i, d) for i, d in enumerate(dims) if d not in known]
        for i, d in unknown:
            message = f"the source has no dimension {shorten(d)}, only {shorten(list(known))}"
            findings.problem(path_text([KEY, *steps, i]), message)
        if not unknown and list(dims) != sorted(dims, key=known.index):
            message = f"expected the dimensions in the order of the source, {shorten(list(known))}"
            findings.problem(path_text([KEY, *steps]), message)


def _check_keys(extra: Extra, findings: Findings) -> None:
    """Note dimensions that the source does not have, and levels that occur twice."""
    dims = extra.source.dims
    for key, table in (("stride", extra.stride), ("boundaries", extra.boundaries)):
        for d in table:
            if d not in dims:
                message = f"the source has no dimension {shorten(d)}, only {shorten(list(dims))}"
                findings.problem(path_text(["cfagg", key, d]), message)
    # Along the growing dimension the chunks alone determine them; an array would have to be rewritten each time.
    grows = set() if extra.growth is None else {extra.growth.dim}
    if not extra.boundaries.keys() <= extra.stride.keys() or set(extra.stride) - set(extra.boundaries) - grows:
        message = f"edges are given along {sorted(extra.boundaries)}, strides along {sorted(extra.stride)}"
        findings.problem("cfagg.boundaries", message)
    if not grows <= set(dims):
        findings.problem("cfagg.growth.dim", f"the source has no such dimension, only {shorten(list(dims))}")
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
    """Note contradictions between the two attributes."""
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
