"""Recipes: what goes into a store of observations, from where, changed how, and in which parts it is read.

A recipe is a YAML file or a mapping with the schema of the published software::

    dates: {start: 2020-01-01, end: 2020-12-31T23:00:00, frequency: 1h}
    input:
      pipe:
        - csv: {path: stations.csv, flavour: {latitude: lat, longitude: lon}}
        - clip: {precipitation: [0, null]}
    output: {layout: tabular}

The input is a source, a ``pipe`` (a source, then filters), a ``join`` (several inputs for the same dates) or a
``concat`` (inputs for ranges of dates); they may stand inside each other.

Source: "Support irregular observations datasets", "Building datasets"; the recipes of anemoi-datasets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.errors import CfaggError, ConventionError, Problem
from cfagg.errors.arguments import a_path
from cfagg.observations.frames import check_rows
from cfagg.observations.periods import Part, Period
from cfagg.observations.recipe_file import plain, read_yaml
from cfagg.observations.recipe_input import InputReader
from cfagg.observations.recipe_sections import (
    Build,
    Output,
    Statistics,
    read_build,
    read_dates,
    read_output,
    read_statistics,
)
from cfagg.observations.settings import Settings
from cfagg.observations.steps import Step, failed, prepare

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipe", "load_recipe"]

#: The step of dates where a recipe gives none.
FREQUENCY = timedelta(hours=1)

#: Keys that describe a store and are kept with it.
_WORDS = ("name", "description", "licence", "license", "attribution", "purpose", "dataset_status", "version")

#: Keys in which recipes keep parts to be used elsewhere by reference.
_SHELVES = ("common", "aliases", "config_version", "flavour")


@dataclass(frozen=True)
class Recipe:
    """A recipe, read and checked.  Its sources open nothing before frames are asked for.

    Parameters
    ----------
    dates : Period
        The dates.
    input : Step
        What gives the frames.
    output : Output
        Layout, index and chunks of the store.
    build : Build
        Parts and workers.
    statistics : Statistics
        Which records the statistics are of.
    description : dict of str
        ``name``, ``description``, ``licence``, ``attribution`` and the like, as far as given.
    document : dict
        The recipe as given, in values that JSON has.
    """

    dates: Period
    input: Step = field(repr=False)
    output: Output
    build: Build
    statistics: Statistics
    description: dict[str, str] = field(repr=False)
    document: dict[str, Any] = field(repr=False)
    _given: tuple[Mapping[str, Any], Path | None] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_mapping, self._given

    def parts(self) -> list[Part]:
        """Return the ranges of dates that are read one by one, sorted; the ends are not included.

        Raises
        ------
        LimitError
            More than a million parts.

        Examples
        --------
        >>> recipe = load_recipe(
        ...     {
        ...         "dates": {"start": "2020-01-01", "end": "2020-02-29", "frequency": "1d"},
        ...         "input": {"csv": {"path": "a.csv"}},
        ...         "output": {"layout": "tabular"},
        ...     }
        ... )
        >>> [(str(start), str(end)) for start, end in recipe.parts()][0]
        ('2020-01-01 00:00:00', '2020-02-01 00:00:00')
        """
        return self.dates.parts(self.build.group_by)

    def prepare(self, directory: str | Path) -> None:
        """Let the sources read what they read only once, and keep it in a directory.

        Call it once, before the parts, with the directory of the build.  It may be called again: what is there, whole
        and still of the same files is used.

        Raises
        ------
        SourceError
            A file cannot be read, or has rows that are not understood.
        TargetError
            The directory cannot be written.
        """
        prepare(self.input, Path(directory))

    def frames(self, part: Part) -> Iterator[pd.DataFrame]:
        """Give the observations of a part, from the sources through the filters.

        Parameters
        ----------
        part : tuple of datetime
            Start and end, the end not included.

        Yields
        ------
        pandas.DataFrame
            Columns ``date`` (datetime64 without a time zone, each within the part), ``latitude`` and ``longitude``
            (numbers in degrees, checked) and the data, all numeric; attributes of columns in
            ``frame.attrs["variables"]``.  The index labels the rows in messages.

        Raises
        ------
        ConventionError
            A source or filter gave what is not a table of observations; source, dates, column and row are named.
        SourceError
            A source or filter raised something else, or a file cannot be read.
        """
        start, end = part
        for frame in self.input.frames(start, end):
            try:
                checked = check_rows(frame, "it")
            except ConventionError as error:
                names = ", ".join(f"{r.name} ({r.where})" for r in self.input.reads())
                raise failed(error, f"input from {names}", start, end) from error
            yield checked

    def files(self) -> list[dict[str, str]]:
        """Return the sources and the paths that each reads, as far as they tell.

        Raises
        ------
        SourceError
            A file is not there.
        """
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
    """Return a recipe, read and checked.

    Parameters
    ----------
    recipe : path, mapping or Recipe
        A YAML file, or the same as a mapping.  In a mapping, a function may stand where a source or a filter does: it
        is called with the start and the end of a part (not included), or with a frame.  Relative paths in a file
        are looked for beside it, then in the working directory.

    Raises
    ------
    SourceError
        The file cannot be read.
    ConventionError
        The recipe is not valid; all problems are listed with their places.
    LimitError
        The recipe is too large.

    Examples
    --------
    >>> load_recipe({"dates": {"start": 2020, "end": 2019}, "input": {"cvs": {}}, "output": {}})
    Traceback (most recent call last):
    ...
    cfagg.errors.ConventionError: recipe is not valid
      - dates.end: 2019-12-31T23:59:59 is before the start, 2020-01-01T00:00:00
      - input: 'cvs' is not one of the sources (...; a package adds its own with an entry point of the group ...
      - output.layout: is missing; observations need layout: tabular
    """
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Mapping):
        return _from_mapping(recipe, None)
    expected = "name a YAML file, or give a mapping"
    path = Path(os.path.expanduser(a_path(recipe, "recipe", expected=expected))).absolute()  # noqa: PTH111
    found = read_yaml(path)
    if not isinstance(found, Mapping):
        raise ConventionError(f"recipe {path} is not a mapping of keys to values; is it a recipe?")
    return _from_mapping(found, path)


def _from_mapping(given: Mapping[str, Any], path: Path | None) -> Recipe:
    document = plain(given, f"recipe {path}" if path else "recipe")
    settings = Settings(given)
    problems = settings.problems
    for key in ("base_dates", "steps", "data_sources"):
        if settings.take(key):
            settings.wrong(key, "is not for observations" if key != "data_sources" else "is not understood; use join")
    if settings.take("env"):
        settings.wrong("env", "is not set by cfagg; set the variables before it starts")
    description = {key: str(value) for key in _WORDS if (value := settings.take(key)) is not None}
    if "license" in description:
        description.setdefault("licence", description.pop("license"))
    sections = {key: settings.take(key) for key in ("dates", "input", "output", "build", "statistics", "additions")}
    settings.unknown(_SHELVES)

    dates, group_by = sections["dates"], None
    if isinstance(dates, Mapping):
        dates = dict(dates)
        group_by = dates.pop("group_by", None)
    period = None
    if dates is None:
        settings.wrong("dates", "is missing")
    else:
        period = read_dates(dates, "dates", FREQUENCY, problems)
    reader = InputReader(period, path.parent if path else None, problems)
    step = reader.read(sections["input"], "input")
    output = read_output(sections["output"], "output", problems)
    build = read_build(sections["build"], "build", problems, group_by)
    additions = sections["build"].get("additions") if isinstance(sections["build"], Mapping) else None
    statistics = read_statistics(
        sections["statistics"], "statistics", problems, additions, published=output.format == "zarr2"
    )
    _check_groups(build, problems)
    if problems or period is None or step is None:
        raise ConventionError(f"recipe {path} is not valid" if path else "recipe is not valid", problems)
    return Recipe(period, step, output, build, statistics, description, document, (given, path))


def _check_groups(build: Build, problems: list[Problem]) -> None:
    """Try the word for groups on two dates."""
    day = datetime(2000, 1, 1)
    try:
        Period(day, day, FREQUENCY).parts(build.group_by)
    except ValueError:
        problems.append(
            Problem(
                "build.group_by",
                f"{build.group_by!r} is not daily, weekly, monthly, yearly, all, a number of dates or a duration",
            )
        )
