"""The metadata of one file or store: its groups and variables, and which of these are aggregations.

They are plain, immutable data (`Source`, `Group`, `Variable` and `cfagg.model.Aggregation`) that outlive the open file.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cfagg.arrays.scoping import Variable
from cfagg.display.sizes import count_text
from cfagg.errors import (
    Problem,
    SourceError,
    UnreadableAggregationError,
)
from cfagg.errors.arguments import closest, some
from cfagg.model.aggregation import Aggregation
from cfagg.storage.access import Access

__all__ = ["BOUNDS", "Group", "OtherSource", "Source", "Variable", "refuse_unreadable"]

#: Attributes by which a coordinate variable names the variable with the bounds of its cells.
BOUNDS = ("bounds", "climatology")


_MARK = re.compile(r"(NCA|CFA)(-[0-9.]+)?")


@dataclass(frozen=True)
class Group:
    """One group of a file, or a whole file without groups."""

    path: str  # "/" is the root
    dimensions: dict[str, int]  # defined in this group itself, in file order
    unlimited: frozenset[str] = frozenset()
    attributes: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Variable | Aggregation] = field(default_factory=dict)  # public ones in file order
    # variables that only contain the values of partitions, or describe them
    private: dict[str, Variable] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    # facts about every fragment, each with the name of its aggregation
    facts: dict[str, tuple[str, Aggregation]] = field(default_factory=dict)
    # aggregations and lookalikes that cannot be read, with the reason
    unreadable: dict[str, UnreadableAggregationError] = field(default_factory=dict)
    # variables that the library leaves out because netCDF lacks their types, with the reason
    untyped: dict[str, UnreadableAggregationError] = field(default_factory=dict)

    def walk(self) -> Iterator[Group]:
        """Yield this group and all below it, parents first."""
        yield self
        for group in self.groups.values():
            yield from group.walk()

    @property
    def lacking(self) -> dict[str, UnreadableAggregationError]:
        """Everything of this group that cannot be read, with the reason."""
        return self.unreadable | self.untyped

    @property
    def public_dimensions(self) -> dict[str, int]:
        """Dimensions of this group without those that only private variables span."""
        hidden = {d for g in self.walk() for v in g.private.values() for d in v.dims}
        shown = {d for g in self.walk() for v in g.variables.values() for d in v.dims}
        return {d: n for d, n in self.dimensions.items() if d in shown or d not in hidden}

    def with_facts(self, name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes of a variable, with the facts about its fragments among its coordinates."""
        found = dict(attributes)
        own = [fact for fact, (of, _) in self.facts.items() if of == name]
        if own:
            found["coordinates"] = " ".join(filter(None, (found.get("coordinates"), *own)))
        return found

    @property
    def public_attributes(self) -> dict[str, Any]:
        """Attributes that apply to the data as read: `Conventions` without the mark of an aggregation file.

        >>> Group("/", {}, attributes={"Conventions": "CF-1.5 NCA"}).public_attributes
        {'Conventions': 'CF-1.5'}
        """
        found = dict(self.attributes)
        value = found.get("Conventions")
        if isinstance(value, str):
            separator = "," if "," in value else None
            words = [word.strip() for word in value.split(separator)]
            kept = [word for word in words if not _MARK.fullmatch(word)]
            if kept and kept != words:
                found["Conventions"] = (", " if separator else " ").join(kept)
            elif words and not kept:
                del found["Conventions"]
        return found

    @property
    def has_aggregations(self) -> bool:
        """Whether this group or one below it contains an aggregation."""
        return any(isinstance(v, Aggregation) for g in self.walk() for v in g.variables.values())


@dataclass(frozen=True)
class Source:
    """The metadata of one file."""

    path: str  # as named by the user
    format: str  # as named by the netCDF library, for instance "NETCDF4"
    root: Group
    #: Substitutions in file names, set by the user.
    substitutions: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    #: Attributes that are not read, with their types, by the path of their variable or group.
    unread: Mapping[str, Mapping[str, str]] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        return f"<Source {self.path!r} ({self.format}): {count_text(len(self.root.variables), 'variable')}>"

    @property
    def is_one(self) -> bool:
        """Whether `path` names a file or store, beside which its index may be, and is no label of several."""
        return True

    @property
    def has_default_fills(self) -> bool:
        """Whether the netCDF library may have written its default fill values."""
        return True

    def access(self, allow: Iterable[str | os.PathLike[str]] = ()) -> Access:
        """Return the policy by which fragments of its aggregations are read."""
        return Access(self.path, allow)

    def group(self, path: str) -> Group:
        """Return the group at `path`."""
        group = self.root
        for name in path.split("/"):
            if not name:
                continue
            if name not in group.groups:
                raise SourceError(f"{self.path} has no group {path!r}; its groups are {self.group_paths()}")
            group = group.groups[name]
        return group

    def group_paths(self) -> list[str]:
        """Return the paths of all groups, the root first."""
        return [g.path for g in self.root.walk()]

    def find(self, variable: str) -> tuple[Group, Variable | Aggregation]:
        """Return a variable, including private ones, by its name or path, and its group."""
        where, _, name = variable.rpartition("/")
        group = self.group(where)
        found = group.variables.get(name) or group.facts.get(name, (None, None))[1] or group.private.get(name)
        if found is None and name in group.lacking:
            error = group.lacking[name]
            raise UnreadableAggregationError(error.message, error.problems, error.variables)
        if found is None:
            known = f"{some(group.variables)}{closest(name, group.variables)}"
            raise SourceError(
                f"{self.path} has no variable {variable!r}; the variables of group {group.path} are: {known}"
            )
        return group, found

    def find_from(self, group: str, variable: str) -> tuple[Group, Variable | Aggregation]:
        """Return a variable like `find`, but search a name or relative path from `group` upwards."""
        if variable.startswith("/"):
            return self.find(variable)
        parts = [name for name in group.split("/") if name]
        for depth in range(len(parts), 0, -1):
            try:
                return self.find("/".join([*parts[:depth], variable]))
            except SourceError:
                continue
        return self.find(variable)


@dataclass(frozen=True)
class OtherSource(Source, ABC):
    """The metadata of a source other than netCDF, which creates the readers of its variables itself."""

    @abstractmethod
    def reader(self, group: str, variable: Variable, workers: int | None = None) -> Any:
        """Return the `cfagg.arrays.reader.Reader` of a variable."""

    def flaw(self, group: str, variable: Variable) -> str | None:  # noqa: ARG002
        """Return why the values of a variable cannot be read, as far as its metadata tell, or `None`."""
        return None

    def fingerprint(self) -> str | None:
        """Return a digest of the state of everything that it consists of, or `None` for a single file."""
        return None


def refuse_unreadable(errors: Iterable[UnreadableAggregationError], remedy: str) -> None:
    """Raise one error about everything that cannot be read, if anything; `remedy` is the alternative."""
    found = list(errors)
    if not found:
        return
    names = [name for error in found for name in error.variables]
    if len(found) == 1:
        raise UnreadableAggregationError(f"{found[0].message}; {remedy}", found[0].problems, names)
    problems = [
        Problem(name, "; ".join(map(str, (error.message, *error.problems[:1]))))
        for error in found
        for name in error.variables
    ]
    raise UnreadableAggregationError(
        f"{len(found)} variables cannot be read: {', '.join(map(repr, names[:20]))}; {remedy}", problems, names
    )
