"""Parsers of aggregation and accumulation attributes."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from cfagg.errors import CfaggError
from tests.conventions import accumulations, fuzz_nca
from tests.fuzzing.target import target
from tests.json_dialects import DIALECTS, encoded

_SIZES = {"time": 4, "lat": 6, "height": 1}


@target("NCA", seeds=fuzz_nca._seeds, tokens=fuzz_nca._TOKENS)
def nca(text: str) -> None:
    from cfagg.conventions import nca

    made = nca.parse("v", {"nca_array": text, "nca_dimensions": "time lat"}, "f4", _SIZES)
    written = nca.write(made)
    if nca.parse("v", written, "f4", _SIZES) != made:
        raise AssertionError("changed by a round trip")


@target("NCA dimensions", seeds=lambda: ["time lat", "lat", "time  height lat"])
def nca_dimensions(text: str) -> None:
    from cfagg.conventions import nca

    nca.parse("v", {"nca_array": fuzz_nca._seeds()[0], "nca_dimensions": text}, "f4", _SIZES)


@target("tolerant JSON", seeds=fuzz_nca._seeds, tokens=fuzz_nca._TOKENS)
def tolerant_json(text: str) -> None:
    from cfagg.conventions.tolerant_json import repair

    repair(text)


@target("partition stream", seeds=lambda: [*fuzz_nca._seeds()[:1], fuzz_nca._seeds()[2]], tokens=fuzz_nca._TOKENS)
def partition_stream(text: str) -> None:
    from cfagg.conventions.partition_stream import load

    load(text, lambda *_: None)


_PARTS = ["[(0, 2, 1), (0, 6, 1)]", "[[0, 1], (5, -1, -1)]", "(1, 5, 2), [0]", "[(3,-1,-1), [0, 2, 4]]"]


@target("part", seeds=lambda: _PARTS, tokens=["(", ")", "[", "]", ",", "-1", "9" * 30, "None", ":"])
def part(text: str) -> None:
    from cfagg.conventions.part import canonical, parse

    canonical(parse(text, (4, 6)), (4, 6))


def _json(dialect: str) -> None:
    """Make a target of the JSON of one version, named and not."""
    prefix, marks = DIALECTS[dialect]

    def seeds() -> list[str]:
        documents = [json.loads(fuzz_nca._seeds()[k]) for k in (0, 2)]
        return [json.dumps(encoded(d, ["time", "lat"], dialect) | {"base": "parts"}) for d in documents]

    @target(dialect, seeds=seeds, tokens=[*fuzz_nca._TOKENS, "varid", "base", "punits", "flip", "pmshape", "endian"])
    def parse(text: str) -> None:
        from cfagg.conventions.detection import parse
        from cfagg.conventions.scope import Scope

        given = {**marks, f"{prefix}_array": text, f"{prefix}_dimensions": "time lat"}
        for conventions in (dialect, f"CF-1.6 {prefix.upper()}"):
            with contextlib.suppress(CfaggError):
                parse("v", given, "f4", Scope(_SIZES, conventions=conventions))


for _dialect in DIALECTS:
    if _dialect != "NCA-0.1":
        _json(_dialect)


@target("accumulation group", seeds=lambda: [accumulations.GROUP], tokens=["latitude", "_WEIGHTS", "_DATA_WEIGHTED"])
def accumulation_group(document: Any) -> None:
    from cfagg.conventions.accumulation import parse_group

    parse_group(document if isinstance(document, dict) else {"_ACCUMULATION_GROUP": document}, accumulations.DIMS)


@target("accumulation array", seeds=lambda: [accumulations.TIME, accumulations.AREA], tokens=["time", 0, -1])
def accumulation_array(document: Any) -> None:
    from cfagg.conventions.accumulation import parse_array

    attributes = document if isinstance(document, dict) else {}
    parse_array(attributes, ndim=3, dims=accumulations.DIMS, combination=("time",))


def _extra_seeds() -> list[Any]:
    from cfagg.conventions.accumulation_extra import write_extra
    from cfagg.conventions.accumulation_record import example

    return [json.loads(json.dumps(write_extra(example())))]


@target("accumulation record", seeds=_extra_seeds, tokens=["time", "int64", "float64", "double-double", 2**70])
def accumulation_record(document: Any) -> None:
    from cfagg.conventions.accumulation_extra import parse_extra

    parse_extra(document)
