"""Recipes: what goes into a store of observations, from where, changed how, and in which parts it is read.

A YAML file or a mapping with the schema of anemoi-datasets.  The input is a source, a ``pipe`` (a source, then
filters), a ``join`` (inputs for the same dates) or a ``concat`` (inputs for ranges of dates), also inside each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator, ValidationInfo, field_validator, model_validator

from cfagg.errors import CfaggError, ConventionError, Problem
from cfagg.errors.arguments import a_path
from cfagg.observations.frames import check_rows
from cfagg.observations.periods import Part, Period
from cfagg.observations.recipe_file import plain, read_yaml
from cfagg.observations.recipe_input import InputReader, Step, failed, prepare
from cfagg.observations.recipe_sections import NO_VARIABLES, Build, Output, Statistics, period_of
from cfagg.observations.settings import Section, parse, refused
from cfagg.storage.urls import refuse_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipe", "load_recipe"]

#: Keys that describe a store and are kept with it.
_WORDS = ("name", "description", "licence", "license", "attribution", "purpose", "dataset_status", "version")

#: Keys in which recipes keep parts to be used elsewhere by reference.
_SHELVES = ("common", "aliases", "config_version", "flavour")


@dataclass(frozen=True)
class Recipe:
    """A recipe, read and checked. Its sources open nothing before frames are asked for."""

    dates: Period
    input: Step = field(repr=False)
    output: Output
    build: Build
    statistics: Statistics
    description: dict[str, str] = field(repr=False)
    #: The recipe as given, in values that JSON has.
    document: dict[str, Any] = field(repr=False)
    _given: tuple[Mapping[str, Any], Path | None] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_mapping, self._given

    @property
    def published_statistics(self) -> bool:
        """Whether statistics are of the first part of the period, as in the published software without the section."""
        return self.document.get("statistics") is None and self.output.format == "zarr2"

    def parts(self) -> list[Part]:
        """Return the ranges of dates that are read one by one, sorted; the ends are not included."""
        return self.dates.parts(self.build.group_by)

    def prepare(self, directory: str | Path) -> None:
        """Let the sources read what they read only once, and keep it in a directory."""
        # It may be called again: what is there, whole and still of the same files is used.
        prepare(self.input, Path(directory))

    def frames(self, part: Part) -> Iterator[pd.DataFrame]:
        """Give the observations of a part, from the sources through the filters, checked and all numeric."""
        start, end = part
        for frame in self.input.frames(start, end):
            try:
                checked = check_rows(frame, "it")
            except ConventionError as error:
                names = ", ".join(f"{r.name} ({r.where})" for r in self.input.reads())
                raise failed(error, f"input from {names}", start, end) from error
            yield checked

    def files(self) -> list[dict[str, str]]:
        """Return the sources and the paths that each reads, as far as they tell."""
        found = []
        for read in self.input.reads():
            files = getattr(read.source, "files", None)
            try:
                paths = [] if files is None else list(files())
            except CfaggError as error:
                raise type(error)(f"source {read.name} ({read.where}): {error.message}", error.problems) from error
            found += [{"source": read.name, "where": read.where, "path": str(p)} for p in paths or [""]]
        return found


def load_recipe(recipe: str | Path | Mapping[str, Any] | Recipe) -> Recipe:
    """Return a recipe, read and checked, of a YAML file or the same as a mapping."""
    # In a mapping, functions may stand where sources and filters do.  Relative paths in a file are looked for beside
    # it, then in the working directory.
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
    """Set a key of a section that does not say anything else."""
    given = values.get(section, {})
    if isinstance(given, Mapping) and given.get(key) is None:
        values[section] = {**given, key: value}


class _Document(Section):
    """A whole recipe; the recipe's directory comes as context."""

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
        """Put settings into the section in which recipes have them now: ``group_by`` and ``tendencies``."""
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
