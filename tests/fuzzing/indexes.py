"""What stands beside files and is not believed: rows of byte-offset indexes, records of files, references to chunks."""

from __future__ import annotations

import base64
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.errors import CfaggError
from tests.fuzzing.files import _folder, read
from tests.fuzzing.target import target

#: Types, filters and places that rows and references may speak of.
_PLACES = [0, 1, 2**31, 2**40, 2**62 - 1, "a.pp", "../../etc/passwd", "/etc/passwd", "https://example.org/a.nc", [0, 8]]
_HEADERS = [
    '{"path":"tas","dims":[],"dtype":"<f4","codecs":[[-1,[]]],"attributes":{},"packing":1}',
    "<f8",
    ">i2",
    "|S1",
]
_REFERENCES = [
    ["/etc/passwd", 0, 48], ["file:///etc/passwd"], ["https://example.org/a.nc", 0, 48], ["{{u}}/a.nc", 0, 9],
    "base64:AAAA", "{{ f(x=1) }}", {"id": "pickle"}, {"id": "zlib"}, "../a.nc", ["a.nc", 2**62, 2**62], ["a.nc", -1, 5],
]  # fmt: skip

#: The columns of an index that hold bytes, and those that tell the state of a file, which differs between machines.
_BYTES, _STATES = ("digest", "description", "shared"), ("size", "mtime_ns", "ctime_ns", "inode")


@cache
def _indexed() -> tuple[Path, Any, list[dict[str, Any]]]:
    """Return a folder with files of several kinds, what aggregates them, and the rows of its index."""
    import pyarrow as pa
    from pyarrow import parquet

    from cfagg.arrays.index import build_index
    from cfagg.arrays.index.parquet import _encoded
    from tests.arrays.index.test_reading import MIXED, make

    folder = _folder() / "indexed"
    folder.mkdir(exist_ok=True)
    made, _, places = make(folder, MIXED)
    rows = parquet.read_table(pa.BufferReader(_encoded(build_index(places), str(folder)))).to_pylist()
    return folder, made, rows


def _as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the state of their files, which is that of the files that are there."""
    plain = [{k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in row.items()} for row in rows]
    return [{k: v for k, v in row.items() if k not in (*_STATES, "ranges", "digest")} for row in plain]


@target("rows of indexes", seeds=lambda: [{"rows": _as_json(_indexed()[2])}], tokens=[*_PLACES, *_HEADERS])
def index_rows(given: Any) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from cfagg.arrays.index import open_index
    from cfagg.arrays.index.parquet import _sealed
    from cfagg.arrays.index.schema import COLUMNS, FORMAT, VERSION
    from tests.arrays.index.test_reading import reader_of

    folder, made, good = _indexed()
    states = {row["path"]: row for row in good}
    rows = given.get("rows") if isinstance(given, dict) else None
    if not isinstance(rows, list):
        return
    whole = []
    for row in rows:
        if not isinstance(row, dict):
            continue
        known = states.get(row.get("path")) if isinstance(row.get("path"), str) else None
        state = {k: (known or good[0])[k] for k in (*_STATES, "ranges", "digest")}
        whole.append({**state, **{k: _decoded(v) if k in _BYTES else v for k, v in row.items()}})
    kinds = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary(), "list<int64>": pa.list_(pa.int64())}
    schema = pa.schema([pa.field(c.name, kinds[c.type], c.nullable) for c in COLUMNS], {FORMAT: str(VERSION)})
    sink = pa.BufferOutputStream()
    try:
        parquet.write_table(pa.Table.from_pylist(whole, schema), sink)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return  # no Parquet file says this
    aside = folder / "index"
    aside.write_bytes(_sealed(bytes(sink.getvalue())))
    reader = reader_of(folder, made, open_index(aside))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for selection in ([slice(None), 2, 4], [slice(None)] * 3, [3, slice(None, None, 2), slice(1, 3)]):
            try:
                assert reader.read(selection).dtype == made.dtype
            except CfaggError:
                continue


def _decoded(value: Any) -> Any:
    try:
        return base64.b64decode(value) if isinstance(value, str) else value
    except ValueError:
        return value


@cache
def _records() -> list[Any]:
    from cfagg.aggregation.records import encode
    from tests.aggregation.test_records import ODD, a_file

    own, shared = encode([a_file(0, ODD), a_file(1, ODD)])
    return [{"own": [base64.b64encode(one).decode() for one in own], "shared": base64.b64encode(shared).decode()}]


@target("records of files", seeds=_records)
def records(given: Any) -> None:
    from cfagg.aggregation.records import decode, encode

    own, shared = (given.get(k) for k in ("own", "shared")) if isinstance(given, dict) else (None, None)
    if not isinstance(own, list) or not all(isinstance(one, str) for one in own) or not isinstance(shared, str):
        return
    found = [_decoded(one + "=" * (-len(one) % 4)) for one in (*own, shared)]
    if all(isinstance(one, bytes) for one in found):
        assert encode(decode(found[:-1], found[-1]))


@cache
def _references() -> list[Any]:
    values = np.arange(12, dtype="<f4")
    (_folder() / "a.nc").write_bytes(bytes(16) + values.tobytes())
    array = {
        "zarr_format": 2, "shape": [6, 4], "chunks": [3, 4], "dtype": "<f4", "compressor": None, "fill_value": None,
        "order": "C", "filters": None,
    }  # fmt: skip
    own = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "a/.zarray": json.dumps(array),
        "a/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}),
        "a/0.0": ["a.nc", 16, 48],
        "a/1.0": "base64:" + base64.b64encode(values.tobytes()).decode(),
    }
    filled = {
        **own,
        "a/0.0": ["{{u}}", 16, 48],
        "a/.zarray": {**array, "filters": [{"id": "shuffle", "elementsize": 4}]},
    }
    return [own, {"version": 1, "refs": own}, {"version": 1, "templates": {"u": "a.nc"}, "refs": filled}]


@target("references to chunks", seeds=_references, tokens=_REFERENCES)
def references(given: Any) -> None:
    path = _folder() / "references.json"
    aside = _folder() / "aside.json"
    aside.write_text(json.dumps(given), "utf-8", "surrogatepass")
    aside.replace(path)
    read(str(path))
