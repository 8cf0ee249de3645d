"""Parsers of aggregation and accumulation attributes."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from cfagg.errors import CfaggError, ConventionError
from tests.conventions import accumulations, fuzz_nca
from tests.fuzzing.target import target
from tests.json_dialects import DIALECTS, encoded

_SIZES = {"time": 4, "lat": 6, "height": 1}


@target("NCA", seeds=fuzz_nca._seeds, tokens=fuzz_nca._TOKENS)
def nca(text: str) -> None:
    from cfagg.conventions import nca, nca_write

    made = nca.parse("v", {"nca_array": text, "nca_dimensions": "time lat"}, "f4", _SIZES)
    written = nca_write.write(made)
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


def _described(document: Any) -> Any:
    """Return what a variable sees in a file that an object as JSON has them stands for."""
    import numpy as np

    from cfagg.conventions.scope import Described, Scope

    held = document.get("variables") if isinstance(document, dict) else None
    held = held if isinstance(held, dict) else {}

    def masked(name: str) -> Any:
        one = held[name] if isinstance(held.get(name), dict) else {}
        try:
            if one.get("type") == "text":
                texts = np.array(one.get("values"), object)
                if all(isinstance(t, str) for t in texts.ravel()):
                    return np.ma.MaskedArray(texts, texts == "")
            if one.get("type") not in ("i2", "i4", "i8", "u8", "f4", "f8"):
                return None
            values = np.array(one.get("values"), one["type"])
            return np.ma.MaskedArray(values, values == -1)
        except (TypeError, ValueError, OverflowError):
            return None

    def find(name: str) -> Any:
        values = masked(name)
        attributes = held[name].get("attributes") if values is not None else None
        dims = () if values is None else tuple(f"d{k}" for k in range(values.ndim))
        known = attributes if isinstance(attributes, dict) else {}
        return None if values is None else Described(dims, values.shape, values.dtype, known)

    return Scope(_SIZES, find=find, values=masked, conventions="CF-1.13")


def _instructed_seeds() -> list[Any]:
    def made(data: str, **variables: Any) -> dict[str, Any]:
        attributes = {"aggregated_dimensions": "time lat", "aggregated_data": data, "units": "K"}
        return {"attributes": attributes, "variables": variables}

    sizes = {"type": "i8", "values": [[1, 3], [6, -1]]}
    names = {"type": "text", "values": [["a.nc"], ["file:///b%20c.nc"]]}
    several = {
        "type": "text",
        "values": [[["${x}a.nc", ""]], [["", "b.nc"]]],
        "attributes": {"substitutions": "${x}: d/"},
    }
    addresses = {"type": "text", "values": [[["tas", ""]], [["tas", "tas"]]]}
    one = {"type": "text", "values": "tas"}
    return [
        made("map: m uris: u identifiers: i", m=sizes, u=names, i=one),
        made("uris: u identifiers: i map: m", m=sizes, u=names, i={"type": "text", "values": [["a"], ["b"]]}),
        made("map: m unique_values: v", m=sizes, v={"type": "f8", "values": [[1.5], [-1]]}),
        made("location: m file: u format: f address: i", m=sizes, u=names, f={"type": "text", "values": "nc"}, i=one),
        made("LOCATION: m file: u address: a x: m y: u", m=sizes, u=several, a=addresses),
        made("map: m location: u variable: i", m=sizes, u=names, i=one),
        made("shape: m value: v", m=sizes, v={"type": "i2", "values": [[3], [-1]]}),
    ]


_INSTRUCTED_TOKENS = [
    "map:",
    "uris:",
    "file:",
    "m",
    "u",
    0,
    -1,
    2**31,
    2**63 - 1,
    65536,
    "${x}",
    "%2F",
    "urn:x",
    "text",
    "f4",
]


@target("instructions", seeds=_instructed_seeds, tokens=_INSTRUCTED_TOKENS)
def instructions(document: Any) -> None:
    from cfagg.conventions import cf113, cfa06, detection

    attributes = document.get("attributes") if isinstance(document, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    scope = _described(document)
    for parse in (cf113.parse, cfa06.parse, detection.parse):
        for dtype in ("f4", "i2"):
            try:
                parse("v", attributes, dtype, scope)
            except CfaggError:
                continue


_URIS = [
    "file:///a/b%20c.nc",
    "../x%2Fy.nc",
    "http://host/a%20b.nc",
    "file://localhost/x",
    "a:b",
    "./a%3Ab",
    "%C3%A9.nc",
]


@target("URIs", seeds=lambda: _URIS, tokens=["%", "%00", "%2e%2e/", "file:", "//", "://", ":", "\udcff"])
def uris(text: str) -> None:
    from cfagg.conventions.uris import is_opaque, path_of, paths_of, uri_of

    if paths_of([text])[0] != path_of(text):
        raise AssertionError("one of several is another")
    is_opaque(text)
    path = path_of(text)
    # What begins with a scheme as it stands is a URL, or none of ours.
    with contextlib.suppress(ConventionError):
        if path and ":" not in text and path_of(uri_of(path)) != path:
            raise AssertionError("a path does not stay what it is")


_GROUP = {
    "location": [[[[0, 2], [0, 6]]], [[[2, 4], [0, 6]]]],
    "shape": [[[2, 6]], [[2, 6]]],
    "pmshape": [2, 1],
    "pmdimensions": "time, lat",
    "ncvar": [["tas"], [""]],
    "file": [["a.nc"], ["http://host/b.nc"]],
    "format": [["NETCDF4"], [""]],
    "base": "parts",
}


@target("CFA-0.5", seeds=lambda: [_GROUP], tokens=["lat", "", -1, 2**40, [], [[0, 2]]])
def group_of_partitions(document: Any) -> None:
    import numpy as np

    from cfagg.conventions.detection import parse
    from cfagg.conventions.scope import Described, Scope

    held: dict[str, Any] = {}
    for name, value in document.items() if isinstance(document, dict) else ():
        try:
            made = np.array(value)
        except (ValueError, OverflowError):  # ragged: no variable of netCDF
            continue
        if made.dtype.kind in "iufU":
            held[f"g/{name}"] = made.astype(object) if made.dtype.kind == "U" else made

    def find(name: str) -> Described | None:
        found = held.get(name)
        return None if found is None else Described(("d",) * found.ndim, found.shape, found.dtype, {})

    scope = Scope(_SIZES, {}, find, held.__getitem__, "CFA-0.5")
    parse("v", {"cfa_group": "g", "cfa_dimensions": "time lat"}, "f4", scope)


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

    return [json.loads(json.dumps(write_extra(accumulations.example())))]


@target("accumulation record", seeds=_extra_seeds, tokens=["time", "int64", "float64", "double-double", 2**70])
def accumulation_record(document: Any) -> None:
    from cfagg.conventions.accumulation_extra import parse_extra

    parse_extra(document)
