"""Parsers of aggregation and accumulation attributes."""

from __future__ import annotations

import json
from typing import Any

from tests.conventions import accumulations, fuzz_nca
from tests.fuzzing.target import target

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


def _cfa_seeds() -> list[str]:
    partitions = [
        {"index": [0], "location": [[0, 1]], "subarray": {"shape": [2], "file": "a.nc", "ncvar": "tas"}},
        {
            "index": [1],
            "location": [[2, 3]],
            "pdimensions": ["time"],
            "reverse": ["time"],
            "subarray": {"shape": [2], "file": "b.nc", "ncvar": "tas", "format": "netCDF", "part": "((0, 2, 1),)"},
        },
    ]
    head = {"pmdimensions": ["time"], "pmshape": [2], "base": "parts", "Partitions": partitions}
    return [json.dumps(head), json.dumps(head, indent=1), json.dumps({**head, "base": ""})]


@target("CFA", seeds=_cfa_seeds, tokens=fuzz_nca._TOKENS)
def cfa(text: str) -> None:
    from cfagg.conventions.cfa import parse_array

    parse_array("v", {"cfa_array": text, "cfa_dimensions": "time"}, "f4", _SIZES)


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
