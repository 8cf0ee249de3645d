"""What an accumulation needs to be exact and never stale, and ZEP 5 has no place for: the attribute ``cfagg``.

It stands beside ``_ACCUMULATION_GROUP``: of which array the sums are (shape, chunks, type, encoding), how its values
are packed and masked, which weights were used and which other arrays matter, in which numbers was summed, which cells
are kept out of the sums, which further arrays the group has, and by which checksums all of this is known to be
undamaged.  This is version 2; keys that a reader does not know do not change the meaning of the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cfagg.conventions import limits
from cfagg.conventions.accumulation_fields import Fields, json_number
from cfagg.conventions.accumulation_model import Combinations, Dims, Table
from cfagg.conventions.accumulation_record import (
    KINDS_OF_SUMS,
    KINDS_OF_WEIGHTS,
    STATISTICS,
    USES,
    VERSION,
    Checks,
    Chunks,
    Extra,
    LevelNames,
    MagnitudesRecord,
    MaskRecord,
    OutliersRecord,
    Packing,
    Related,
    Source,
    WeightsRecord,
)
from cfagg.conventions.accumulation_schema import path_text
from cfagg.conventions.dtypes import is_known, numpy_dtype
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import ModelError, UnsupportedError

__all__ = ["KEY", "check_together", "parse_extra", "write_extra"]


def check_together(extra: Extra, combinations: Combinations | None, findings: Findings) -> None:
    """Note every contradiction in the attribute ``cfagg``, and between it and the group attribute."""
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


#: Name of the attribute.
KEY = "cfagg"

_TOKEN = re.compile(r"[0-9a-f]{8,128}").fullmatch


def parse_extra(value: Any, *, combinations: Combinations | None = None, source: str = "") -> Extra:
    """Return what the attribute ``cfagg`` of an accumulation group says; `combinations` must agree with it."""
    findings = Findings(source or "accumulation group")
    top = Fields(value, (KEY,), findings)
    findings.check("the attribute cfagg is not understood; rebuild the accumulation with --overwrite")
    version = top.values.get("version")
    if type(version) is int and version > VERSION:
        raise UnsupportedError(
            f"{findings.subject}: written in version {shorten(version)} of cfagg's form of accumulations, while this "
            f"cfagg reads version {VERSION}; read it with a newer cfagg, or rebuild it with --overwrite"
        )
    if top.integer("version", 1) != VERSION:
        findings.problem(f"{KEY}.version", f"version {VERSION} expected")
    described = _source(top.object("source"))
    dims = described.dims
    packing, weights, excluded = top.optional("packing"), top.optional("weights"), top.object("excluded")
    mask = top.object("mask")
    magnitudes = top.object("magnitudes") if "magnitudes" in top.values else None
    outliers = top.object("outliers") if "outliers" in top.values else None
    extra = Extra(
        source=described,
        packing=None if packing is None else Packing(packing.number("scale_factor", 1), packing.number("add_offset")),
        mask=MaskRecord(mask.numbers("fills"), mask.bound("valid_min"), mask.bound("valid_max"), mask.flag("unsigned")),
        weights=None if weights is None else _weights(weights, dims),
        sums=top.choice("sums", KINDS_OF_SUMS),
        stride=Table(top.integer_table("stride", 1)),
        missing=excluded.integer("missing"),
        nonfinite=excluded.integer("nonfinite"),
        low=Table(top.nodes("low", limits.MAX_COMBINATIONS)),
        counts=_counts(top, dims),
        statistics=tuple(_level(f, dims) for f in top.objects("statistics", limits.MAX_COMBINATIONS)),
        stamps=top.node("stamps"),
        checks=_checks(top.object("checks")),
        related=tuple(_related(f) for f in top.objects("related", limits.MAX_COMBINATIONS)),
        boundaries=Table(top.nodes("boundaries", limits.MAX_RANK)),
        created_by=top.text("created_by"),
        magnitudes=None if magnitudes is None else _magnitudes(magnitudes),
        outliers=None if outliers is None else _outliers(outliers),
    )
    if not findings.problems:
        # Only values of the right type can be compared with each other.
        check_together(extra, combinations, findings)
    findings.check("the attribute cfagg is not understood; rebuild the accumulation with --overwrite")
    return extra


def _source(fields: Fields) -> Source:
    """Return the description of the accumulated array."""
    dims, shape = fields.dims("dims", None), fields.integers("shape")
    before = len(fields.findings.problems)
    chunks = tuple(_chunks(fields, i, v) for i, v in enumerate(fields.items("chunks", limits.MAX_RANK)))
    dtype = fields.text("dtype")
    if dtype and (not is_known(dtype) or getattr(numpy_dtype(dtype), "kind", "O") not in "biuf"):
        fields.wrong(("dtype",), "a numeric type", dtype)
    encoding = Table(fields.texts("encoding", limits.MAX_COMBINATIONS))
    source = Source(fields.text("name"), dims, shape, chunks, dtype, encoding, fields.integer("objects"))
    if not fields.broken and len(fields.findings.problems) == before:
        if not len(dims) == len(shape) == len(chunks):
            fields.problem((), f"{len(dims)} dims, {len(shape)} sizes in shape and {len(chunks)} chunks")
        else:
            try:
                _ = source.grid
            except ModelError as error:
                for problem in error.problems:
                    fields.problem(("chunks",), str(problem))
    return source


def _chunks(fields: Fields, axis: int, value: Any) -> Chunks:
    """Return the chunks of one dimension: one length, or runs of lengths, whose number is bounded."""
    if type(value) is int and 0 < value < 2**63:
        return value
    if not isinstance(value, list):
        fields.wrong(("chunks", axis), "a length of at least 1 or a list of [length, run] pairs", value)
        return 1
    runs: list[tuple[int, int]] = []
    count = reach = 0
    for i, pair in enumerate(value):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair)):
            fields.wrong(("chunks", axis, i), "a pair [length, run] of integers of at least 1", pair)
            return 1
        runs.append((pair[0], pair[1]))
        count, reach = count + pair[1], reach + pair[0] * pair[1]
        if count > limits.MAX_PARTITIONS or reach >= 2**63:
            fields.problem(("chunks", axis), f"more than {limits.MAX_PARTITIONS} chunks, or a length beyond 64 bits")
            return 1
    return tuple(runs)


def _weights(fields: Fields, dims: Dims) -> WeightsRecord:
    name = fields.get("name")
    if name is not None and not isinstance(name, str):
        fields.wrong(("name",), "text or null", name)
        name = None
    return WeightsRecord(fields.choice("kind", KINDS_OF_WEIGHTS), name, fields.node("array"), fields.dims("dims", dims))


def _magnitudes(fields: Fields) -> MagnitudesRecord:
    found = MagnitudesRecord(*(float(fields.number(key)) for key in ("small", "largest", "heaviest")))
    if not (0 <= found.small <= found.largest and found.heaviest >= 0):
        fields.problem((), f"0 <= small <= largest and heaviest >= 0 expected, found {found}")
    return found


def _outliers(fields: Fields) -> OutliersRecord:
    limit = fields.number("limit", 1)
    if limit <= 0:
        fields.wrong(("limit",), "a number above 0", limit)
    return OutliersRecord(limit, fields.node("positions"), fields.node("values"))


def _checks(fields: Fields) -> Checks:
    build = fields.text("build")
    if build and not _TOKEN(build):
        fields.wrong(("build",), "8 to 128 hexadecimal digits", build)
    places = [(name, tuple(numbers)) for name, numbers in fields.number_lists("places", limits.MAX_COMBINATIONS)]
    for name, numbers in places:
        if len(numbers) != 3:
            fields.wrong(("places", name), "a list of 3 numbers", list(numbers))
    own = [(name, tuple(numbers)) for name, numbers in fields.number_lists("own", 2)]
    return Checks(build, fields.node("array"), Table(places), Table(own))  # type: ignore[arg-type]


def _related(fields: Fields) -> Related:
    description = Table(fields.texts("description", limits.MAX_COMBINATIONS))
    return Related(fields.text("path"), fields.choice("use", USES), description, fields.integer("objects"))


def _counts(fields: Fields, dims: Dims) -> Table[Dims, str]:
    out: dict[Dims, str] = {}
    for entry in fields.objects("counts", limits.MAX_COMBINATIONS):
        key = entry.dims("dims", dims)
        if key in out:
            entry.problem(("dims",), f"the counts of {list(key)} occur twice")
        out[key] = entry.node("array")
    return Table(out)


def _level(fields: Fields, dims: Dims) -> LevelNames:
    arrays = [(kind, fields.node(kind)) for kind in STATISTICS if kind in fields.values]
    return LevelNames(fields.dims("dims", dims), fields.integer("level"), Table(arrays))


def write_extra(extra: Extra) -> dict[str, Any]:
    """Return the value of the attribute ``cfagg``, ready for JSON."""
    source, mask, weights = extra.source, extra.mask, extra.weights
    value = {
        "version": VERSION,
        "source": {
            "name": source.name,
            "dims": list(source.dims),
            "shape": list(source.shape),
            "chunks": [c if isinstance(c, int) else [list(pair) for pair in c] for c in source.chunks],
            "dtype": source.dtype,
            "encoding": dict(source.encoding),
            "objects": source.objects,
        },
        "packing": extra.packing
        and {"scale_factor": extra.packing.scale_factor, "add_offset": extra.packing.add_offset},
        "mask": {
            "fills": [json_number(v) for v in mask.fills],
            "valid_min": None if mask.valid_min is None else json_number(mask.valid_min),
            "valid_max": None if mask.valid_max is None else json_number(mask.valid_max),
            "unsigned": mask.unsigned,
        },
        "weights": weights
        and {"kind": weights.kind, "name": weights.name, "array": weights.array, "dims": list(weights.dims)},
        "sums": extra.sums,
        "stride": dict(extra.stride),
        "excluded": {"missing": extra.missing, "nonfinite": extra.nonfinite},
        "low": dict(extra.low),
        "counts": [{"dims": list(key), "array": name} for key, name in extra.counts.items()],
        "statistics": [{"dims": list(level.dims), "level": level.level, **level.arrays} for level in extra.statistics],
        "stamps": extra.stamps,
        "boundaries": dict(extra.boundaries),
        "related": [
            {"path": r.path, "use": r.use, "description": dict(r.description), "objects": r.objects}
            for r in extra.related
        ],
        "checks": {
            "build": extra.checks.build,
            "array": extra.checks.array,
            "places": {name: list(numbers) for name, numbers in extra.checks.places.items()},
            "own": {name: list(numbers) for name, numbers in extra.checks.own.items()},
        },
        "created_by": extra.created_by,
    }
    if extra.magnitudes is not None:
        value["magnitudes"] = {key: getattr(extra.magnitudes, key) for key in ("small", "largest", "heaviest")}
    if extra.outliers is not None:
        kept_out = extra.outliers
        value["outliers"] = {"limit": kept_out.limit, "positions": kept_out.positions, "values": kept_out.values}
    _plain(value)
    parse_extra(value, source="accumulation group to be written")
    return value


def _plain(value: Any) -> None:
    """Turn the numbers of NumPy in a JSON value into Python's own, in place; JSON has no others."""
    waiting: list[Any] = [value]
    while waiting:
        node = waiting.pop()
        for key, item in list(node.items() if isinstance(node, Mapping) else enumerate(node)):
            if hasattr(item, "item") and getattr(item, "shape", None) == ():
                node[key] = item.item()
            elif isinstance(item, (dict, list)):
                waiting.append(item)
