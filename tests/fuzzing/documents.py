"""Parsers of longer documents: recipes, journals."""

from __future__ import annotations

from typing import Any

from tests.fuzzing.target import target
from tests.observations.test_recipe import PUBLISHED

_SMALL = """\
dates: {start: 2020-01-01, end: 2020-01-02, frequency: 6h}
input:
  join:
    - csv: {path: a.csv}
    - parquet: {path: "b*.parquet"}
output: {layout: tabular}
"""
_TOKENS = [
    *(
        "dates:",
        "start:",
        "end:",
        "frequency:",
        "input:",
        "pipe:",
        "join:",
        "csv:",
        "- ",
        "  ",
        "\n",
        "{",
        "}",
        "[",
        "]",
    ),
    *("&a", "*a", "*area", "!!python/object:os.system", "!!binary", "? ", "|", ">", "<<: *a", "---", "1:30:00", "~"),
    *("2020-02-30", "0000-00-00", "99999999d", "-6h", "tabular", "btree", "group_by: monthly", "12e99", "0x10", "0o9"),
]


@target("recipes", seeds=lambda: [PUBLISHED, _SMALL], tokens=_TOKENS)
def recipes(text: str) -> None:
    from cfagg.observations.recipe import load_recipe
    from tests.fuzzing.files import stored

    load_recipe(stored(text.encode("utf-8", "surrogatepass"), ".yaml"))


def _mappings() -> list[Any]:
    import json

    from cfagg.observations.recipe import parse_yaml

    return [json.loads(json.dumps(parse_yaml(t, "recipe"), default=str)) for t in (PUBLISHED, _SMALL)]


@target("recipes as mappings", seeds=_mappings, tokens=["6h", "2020-01-01", "daily", {"csv": {"path": "a"}}, [1, 2]])
def mappings(given: Any) -> None:
    from cfagg.observations.recipe import load_recipe

    load_recipe(given)


_JOURNAL = '{"version": 1, "target": "a"}\n{"array": 0, "first": 0, "last": 3}\n{"array": 1, "first": 0, "last": 1}\n'


@target("journal lines", seeds=lambda: _JOURNAL.splitlines())
def journal(text: str) -> None:
    from cfagg.conversion.journal import _is_entry, _parsed

    _is_entry(_parsed(text.encode("utf-8", "surrogatepass")), [4, 2])


@target("Zarr documents", seeds=lambda: ['{"zarr_format": 3, "node_type": "group", "attributes": {"a": [1, NaN]}}'])
def json_documents(text: str) -> None:
    from cfagg.formats.metadata.json_values import value_of_json
    from cfagg.formats.zarr.documents import parse as document

    for value in document(text.encode("utf-8", "surrogatepass"), "a document").values():
        for type_ in (None, "<i4", ">S1", "<f8"):
            value_of_json(value, type_)
