"""Recipes: the sources of a store of observations, their filters, and the parts in which they are read.

A YAML file or a mapping with the schema of anemoi-datasets.  The input is a source, a ``pipe`` (a source, then
filters), a ``join`` (inputs for the same dates) or a ``concat`` (inputs for ranges of dates), nested as needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator, ValidationInfo, field_validator, model_validator

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.errors import CfaggError, ConventionError, LimitError, Problem, SourceError, SourceNotFoundError
from cfagg.errors.arguments import a_path
from cfagg.errors.extras import require
from cfagg.observations.dates import Part, Period
from cfagg.observations.frames import check_rows, file_of
from cfagg.observations.recipe_input import InputReader, Step, failed, prepare
from cfagg.observations.recipe_sections import NO_VARIABLES, Build, Output, Statistics, period_of
from cfagg.observations.settings import Section, parse, refused
from cfagg.storage.files import Context, open_regular
from cfagg.storage.urls import Url, refuse_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipe", "load_recipe", "plain", "read_yaml"]

#: Keys that describe a store and are kept with it.
_WORDS = ("name", "description", "licence", "license", "attribution", "purpose", "dataset_status", "version")

#: Keys in which recipes keep parts that are used elsewhere by reference.
_SHELVES = ("common", "aliases", "config_version", "flavour")


@dataclass(frozen=True)
class Recipe:
    """A recipe, read and checked.  Its sources open nothing until frames are requested."""

    dates: Period
    input: Step = field(repr=False)
    output: Output
    build: Build
    statistics: Statistics
    description: dict[str, str] = field(repr=False)
    #: The recipe as given, in JSON values.
    document: dict[str, Any] = field(repr=False)
    _given: tuple[Mapping[str, Any], Path | None] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The recipe is pickled as given, if its sources allow pickling their options.
        sources = [read.source for read in self.input.reads()]
        for place in (p for s in sources for key in ("places", "beside") for p in getattr(s, key, ())):
            if isinstance(place, Url):
                place.options.__getstate__()
        return _from_mapping, self._given

    @property
    def published_statistics(self) -> bool:
        """Whether statistics cover the first part of the period, as in the published software without the section."""
        return self.document.get("statistics") is None and self.output.format == "zarr2"

    def parts(self) -> list[Part]:
        """Return the ranges of dates that are read one by one, sorted; their ends are exclusive."""
        return self.dates.parts(self.build.group_by)

    def prepare(self, directory: str | Path) -> None:
        """Let the sources read data that they read only once, and keep them in a directory."""
        # It may be called again; complete data of unchanged files are reused.
        prepare(self.input, Path(directory))

    def frames(self, part: Part) -> Iterator[pd.DataFrame]:
        """Yield the observations of a part, read from the sources, filtered, checked and all numeric."""
        start, end = part
        for frame in self.input.frames(start, end):
            try:
                checked = check_rows(frame, file_of(frame) or "it")
            except ConventionError as error:
                names = ", ".join(f"{r.name} ({r.where})" for r in self.input.reads())
                raise failed(error, f"input from {names}", start, end) from error
            yield checked

    def files(self) -> list[dict[str, str]]:
        """Return the sources and the paths that each reads, if known."""
        found = []
        for read in self.input.reads():
            files = getattr(read.source, "files", None)
            try:
                paths = [] if files is None else list(files())
            except CfaggError as error:
                raise type(error)(f"source {read.name} ({read.where}): {error.message}", error.problems) from error
            named = [p if isinstance(p, Url) else str(p) for p in paths or [""]]
            found += [{"source": read.name, "where": read.where, "path": p} for p in named]
        return found


def load_recipe(recipe: str | Path | Mapping[str, Any] | Recipe) -> Recipe:
    """Return a checked recipe from a YAML file or a mapping."""
    # In a mapping, functions may replace sources and filters.  Relative paths in a file are searched for beside it,
    # then in the working directory.
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Mapping):
        return _from_mapping(recipe, None)
    expected = "name a YAML file, or give a mapping"
    refuse_url(recipe, "read as a recipe")
    path = Path(os.path.expanduser(a_path(recipe, "recipe", expected=expected))).absolute()  # noqa: PTH111
    found = read_yaml(path)
    if not isinstance(found, Mapping):
        raise ConventionError(f"recipe {path} is not a mapping of keys to values; is it a recipe?")
    return _from_mapping(found, path)


def _period(values: Any) -> Period:
    return period_of(values)


def _default(values: dict[str, Any], section: str, key: str, value: Any) -> None:
    """Set a key of a section that has no value for it."""
    given = values.get(section, {})
    if isinstance(given, Mapping) and given.get(key) is None:
        values[section] = {**given, key: value}


class _Document(Section):
    """A whole recipe; the context is the recipe's directory."""

    ignored: ClassVar[tuple[str, ...]] = (*_WORDS, *_SHELVES, "additions")

    dates: Annotated[Period, PlainValidator(_period)]
    input: Any = Field(None, validate_default=True)
    output: Output = Field({}, validate_default=True)
    build: Build = Build()
    statistics: Statistics = Statistics()
    base_dates: Annotated[Any, refused("is not for observations")] = None
    steps: Annotated[Any, refused("is not for observations")] = None
    data_sources: Annotated[Any, refused("is not understood; use join")] = None
    env: Annotated[Any, refused(NO_VARIABLES)] = None

    @model_validator(mode="before")
    @classmethod
    def _older(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Move settings of older recipes, ``group_by`` and ``tendencies``, to their present sections."""
        dates, build = values.get("dates"), values.get("build")
        if isinstance(dates, Mapping) and "group_by" in dates:
            values["dates"] = {k: v for k, v in dates.items() if k != "group_by"}
            _default(values, "build", "group_by", dates["group_by"])
        if isinstance(build, Mapping) and build.get("additions") is not None:
            _default(values, "statistics", "tendencies", build["additions"])
        return values

    @field_validator("input")
    @classmethod
    def _steps(cls, values: Any, info: ValidationInfo) -> Step:
        problems: list[Problem] = []
        step = InputReader(info.data.get("dates"), (info.context or {}).get("directory"), problems).read(
            values, "input"
        )
        if problems or step is None:
            raise ConventionError("input is not understood", problems)
        return step


def _from_mapping(given: Mapping[str, Any], path: Path | None) -> Recipe:
    document = plain(given, f"recipe {path}" if path else "recipe")
    problems: list[Problem] = []
    found = parse(_Document, given, "", problems, directory=path.parent if path else None)
    if found is None:
        raise ConventionError(f"recipe {path} is not valid" if path else "recipe is not valid", problems)
    description = {key: str(given[key]) for key in _WORDS if given.get(key) is not None}
    if "license" in description:
        description.setdefault("licence", description.pop("license"))
    sections = found.output, found.build, found.statistics
    return Recipe(found.dates, found.input, *sections, description, document, (given, path))


#: Largest size of a recipe in bytes of text, and in values after aliases are expanded.
MOST_BYTES, MOST_VALUES, DEEPEST = 4 * 2**20, 200_000, 64

#: Numbers of base 60 in YAML, which are times of day here.
_BASE_60 = re.compile(r"[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?")


def read_yaml(path: Path) -> Any:
    """Return the contents of a recipe's file."""
    context = Context("recipe", SourceNotFoundError, SourceError, "check the path")
    with open_regular(str(path), context) as file:
        text = file.some(MOST_BYTES + 1, 0, context)
    if len(text) > MOST_BYTES:
        raise LimitError(f"recipe {path} is larger than {MOST_BYTES} bytes; is it a recipe?")
    return parse_yaml(text, str(path))


def parse_yaml(text: bytes | str, where: str) -> Any:
    """Return the contents of YAML text; see `read_yaml`."""
    require("recipes in YAML", "yaml")
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Any] = set()
            for key, _ in node.value:
                word = key.value if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge" else None
                if word is not None and word in seen:
                    raise ConventionError(f"recipe {where}, line {key.start_mark.line + 1}: duplicate key {word!r}")
                seen.add(word)
            made: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return made

    Loader.yaml_implicit_resolvers = {
        first: [(tag, _not_base_60(regexp)) for tag, regexp in resolvers]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)  # noqa: S506  # derived from the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConventionError):
            raise
        raise ConventionError(f"recipe {where} is not YAML: {' '.join(str(error).split())}") from error


class _not_base_60:  # noqa: N801  # stands for a regular expression
    """A pattern that matches what another matches, except numbers of base 60."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def match(self, text: str) -> Any:
        """Return a true value if the text matches the pattern and is not a number of base 60."""
        return None if _BASE_60.fullmatch(text) else self.pattern.match(text)


def plain(value: Any, where: str = "recipe") -> Any:
    """Return a recipe in JSON values: dates and durations as text, functions by name."""
    left = [MOST_VALUES]

    def convert(item: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > DEEPEST:
            raise LimitError(f"{where}: more than {MOST_VALUES} values, or nested deeper than {DEEPEST}")
        if isinstance(item, Mapping):
            return {str(k): convert(v, depth + 1) for k, v in item.items()}
        if isinstance(item, list | tuple):
            return [convert(v, depth + 1) for v in item]
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, datetime | date):
            return item.isoformat()
        if isinstance(item, timedelta):
            return format_duration(parse_duration(item))
        if isinstance(item, Path):
            return str(item)
        if callable(item):
            return f"{getattr(item, '__module__', '')}:{getattr(item, '__qualname__', type(item).__qualname__)}"
        return str(item)

    return convert(value, 0)
