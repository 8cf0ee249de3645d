"""Checks of accumulation groups: the schemas of ZEP 5, and whether the sums still belong to their data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.findings.context import Context
from cfagg.findings.finding import Hit
from cfagg.findings.rule import Explanation, Rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Group, Variable

if TYPE_CHECKING:
    from cfagg.conventions.accumulation import Combinations

#: The attribute that marks a group, and the suffix of its name.
_KEY, _END = "_ACCUMULATION_GROUP", "_accumulation_group"

#: The longest JSON text that is parsed.
_LONGEST = 1 << 24


@dataclass(eq=False)
class _Accumulation:
    """One accumulation group."""

    group: Group
    source: Variable | None
    attributes: Mapping[str, Any]
    combinations: Combinations | None
    problems: list[str]


def _plain(value: Any) -> Any:
    """Return an attribute as JSON types; netCDF stores objects as text."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) <= _LONGEST:
        import json  # most datasets have no accumulations

        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _tried[T](parse: Callable[..., T], *given: Any, **options: Any) -> tuple[T | None, list[str]]:
    """Return the result of a parser, and the problems that it finds."""
    from cfagg.errors import CfaggError

    try:
        return parse(*given, **options), []
    except CfaggError as error:
        return None, [str(p) for p in error.problems] or [error.message]


def _accumulations(c: Context) -> list[_Accumulation]:
    """Return the accumulation groups of a dataset, with parsed attributes."""
    found = []
    for group in (g for g in c.dataset.groups if _KEY in g.attributes):
        from cfagg.conventions.accumulation import parse_group

        name, source = group.path.rpartition("/")[2], None
        if group.parent is not None and name.endswith(_END):
            source = group.parent.variables.get(name.removesuffix(_END))
        attributes = {k: _plain(v) for k, v in group.attributes.items()}
        dims = _dims(attributes) or (source.dims if source is not None else ())
        combinations, problems = _tried(parse_group, attributes, dims) if dims else (None, [])
        found.append(_Accumulation(group, source, attributes, combinations, problems))
    return found


def _dims(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the dimensions of the array as recorded in the group; those of the array may have changed since."""
    own = attributes.get("cfagg")
    source = own.get("source") if isinstance(own, dict) else None
    dims = source.get("dims") if isinstance(source, dict) else None
    return tuple(dims) if isinstance(dims, list) and all(isinstance(d, str) for d in dims) else ()


def group_follows_its_schema(c: Context) -> Iterator[Hit]:
    """``_ACCUMULATION_GROUP`` follows its schema and names each combination of dimensions and each array once."""
    for a in c.once(_accumulations):
        for problem in a.problems:
            yield Hit(a.group, _KEY, problem)


def array_is_beside_its_group(c: Context) -> Iterator[Hit]:
    """The array that is accumulated is next to its group."""
    for a in c.once(_accumulations):
        if a.source is None and a.group.parent is not None:
            message = f"no variable beside it is named like it without '{_END}'; name the group after its variable"
            yield Hit(a.group, None, message)


def arrays_of_sums_exist(c: Context) -> Iterator[Hit]:
    """Every array that the group names is in it."""
    for a in c.once(_accumulations):
        for name in () if a.combinations is None else a.combinations.arrays:
            if name not in a.group.variables:
                yield Hit(a.group, _KEY, f"the array {name!r} is not in the group; rebuild the accumulation")


def arrays_follow_their_schema(c: Context) -> Iterator[Hit]:
    """Arrays of sums have the dimensions of their source, and strides along those that their group names."""
    for a in c.once(_accumulations):
        dims = _dims(a.attributes) or (a.source.dims if a.source is not None else None)
        for combination, names in ({} if a.combinations is None else a.combinations).items():
            from cfagg.conventions.accumulation import parse_array

            for v in (a.group.variables[n] for n in names.as_dict().values() if n in a.group.variables):
                attributes = {k: _plain(value) for k, value in v.attributes.items()}
                if not any(d.startswith("phony_dim_") for d in v.dims):  # otherwise they have no names
                    # Accumulated dimensions may have other names, to avoid clashes with those of the data.
                    own = [d if d in (dims or ()) else d.removesuffix("_accumulated") for d in v.dims]
                    attributes["_ARRAY_DIMENSIONS"] = own
                expected = {} if v.name == names.weights else {"dims": dims, "combination": combination}
                for problem in _tried(parse_array, attributes, **expected)[1]:
                    yield Hit(v, "_ACCUMULATION_STRIDE", problem)


def record_is_consistent(c: Context) -> Iterator[Hit]:
    """Cfagg's own record of an accumulation agrees with itself and with the group."""
    for a in c.once(_accumulations):
        if "cfagg" in a.attributes and a.combinations is not None:
            from cfagg.conventions.accumulation import parse_extra

            for problem in _tried(parse_extra, a.attributes["cfagg"], combinations=a.combinations)[1]:
                yield Hit(a.group, "cfagg", problem)


def _groups(c: Context) -> list[tuple[_Accumulation, Any]]:
    """Return the accumulations of a local Zarr store, each with its opened group or the error raised on opening."""
    store = c.dataset.path if c.dataset.format in ("zarr", "nczarr") else None
    if store is None or not c.once(_accumulations):
        return []
    from cfagg.accumulation.opening import open_group
    from cfagg.errors import CfaggError

    found: list[tuple[_Accumulation, Any]] = []
    for a in c.once(_accumulations):
        if a.source is None or a.combinations is None or ("cfagg" not in a.attributes and not c.options.data):
            continue  # sums of other writers are compared with the data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append((a, open_group(store, a.source.path, check=False, allow=c.options.allow)))
            except (CfaggError, OSError) as error:
                found.append((a, error))
    return found


def group_is_whole(c: Context) -> Iterator[Hit]:
    """Sums, boundaries and statistics have the shapes and values that follow from the chunks of their source."""
    for a, opened in c.once(_groups):
        if isinstance(opened, Exception):
            problems = [str(p) for p in getattr(opened, "problems", ())] or [getattr(opened, "message", str(opened))]
            for problem in problems:
                yield Hit(a.group, None, f"{problem}; rebuild the accumulation")
        elif opened.foreign:
            yield Hit(a.group, None, opened.foreign, "info")


def group_is_fresh(c: Context) -> Iterator[Hit]:
    """The data, their coordinates and the sources of their weights have not changed since they were summed."""
    for a, opened in c.once(_groups):
        if isinstance(opened, Exception) or opened.extra is None:
            continue
        from cfagg.accumulation.freshness import changes
        from cfagg.accumulation.group import command

        found = changes(opened)
        if problems := [*found.problems, *found.related]:
            what = "the data have" if found else "a coordinate, or a source of the weights, has"
            shown = "; ".join(map(str, problems[:3])) + ("; …" if len(problems) > 3 else "")
            remedy = command(opened.store, opened.variable, "--refresh")
            yield Hit(a.group, None, f"{what} changed since they were added up ({shown}); run: {remedy}")


_ZEP5 = ("ZEP 5", "Accumulation group")
_OWN = ("cfagg", "Accumulations")

#: Section, title, summary and function of each rule.
_TABLE = {
    "ACC001": (
        *_ZEP5,
        "_ACCUMULATION_GROUP follows its schema and does not contradict itself",
        group_follows_its_schema,
    ),
    "ACC002": (*_ZEP5, "the accumulated array is next to the group", array_is_beside_its_group),
    "ACC003": (*_ZEP5, "every array that the group names is in it", arrays_of_sums_exist),
    "ACC004": (
        "ZEP 5",
        "Accumulation data array",
        "arrays of sums follow their schema and the dimensions of their source",
        arrays_follow_their_schema,
    ),
    "ACC005": (*_OWN, "the record of an accumulation agrees with itself and with its group", record_is_consistent),
    "ACC006": (*_OWN, "sums and boundaries fit the chunks of the source", group_is_whole),
    "ACC007": (*_OWN, "the data have not changed since they were summed", group_is_fresh),
}

#: The rules, which ``cfagg check`` finds by the name of this module, as it does those of other packages.
RULES = [
    Rule(
        code,
        section,
        title,
        "error",
        Version(1, 0),
        summary,
        function=function,
        explanation=Explanation(Path(__file__).with_suffix(".toml"), code),
    )
    for code, (section, title, summary, function) in _TABLE.items()
]
