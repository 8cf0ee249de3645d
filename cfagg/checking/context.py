"""The context of rules: the dataset, the version of CF it is checked against, and facts that several rules need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from cfagg.cf.references import Reference, Resolver, references
from cfagg.cf.variable_roles import Roles
from cfagg.conventions.aside import set_aside
from cfagg.findings.versions import LATEST, Version
from cfagg.model.dataset import LONGEST, Dataset, Group, Variable

if TYPE_CHECKING:
    from cfagg.checking.options import Options

__all__ = ["Context", "groups", "once", "variables"]

T = TypeVar("T")


def once[*Given, T](function: Callable[[Context, *Given], T]) -> Callable[[Context, *Given], T]:
    """Cache a function of a context and further arguments, so that all rules share one computation."""

    @wraps(function)
    def known(c: Context, *given: *Given) -> T:
        key = (function, *given)
        if key not in c.known:
            c.known[key] = function(c, *given)
        found: T = c.known[key]
        return found

    return known


def variables(c: Context) -> list[Variable]:
    """Return all variables of a dataset, for rules about single variables."""
    return c.dataset.variables


def groups(c: Context) -> list[Group]:
    """Return all groups of a dataset, for rules about single groups."""
    return c.dataset.groups


class Context:
    """One dataset under check, the version of CF that it is checked against, and the options of the user."""

    def __init__(self, dataset: Dataset, version: Version = LATEST, options: Options | None = None) -> None:
        if options is None:
            from cfagg.checking.options import Options

            options = Options()
        self.dataset = dataset
        self.version = version
        self.options = options
        self.resolver = Resolver(dataset)
        #: The results cached by `once`, by function and arguments.
        self.known: dict[Any, Any] = {}

    @cached_property
    def references(self) -> list[Reference]:
        """All references between variables."""
        return references(self.dataset, self.resolver)

    @cached_property
    def _by_source(self) -> dict[tuple[int, str], list[Reference]]:
        found: dict[tuple[int, str], list[Reference]] = {}
        for reference in self.references:
            found.setdefault((id(reference.source), reference.attribute), []).append(reference)
        return found

    @cached_property
    def _by_target(self) -> dict[int, list[Reference]]:
        found: dict[int, list[Reference]] = {}
        for reference in self.references:
            if reference.target is not None:
                found.setdefault(id(reference.target), []).append(reference)
        return found

    def references_of(self, variable: Variable, attribute: str) -> list[Reference]:
        """Return the references in an attribute of `variable`."""
        return self._by_source.get((id(variable), attribute), [])

    def references_to(self, variable: Variable, *attributes: str) -> list[Reference]:
        """Return the references to `variable`, only those from `attributes` if any are given."""
        found = self._by_target.get(id(variable), [])
        return [r for r in found if r.attribute in attributes] if attributes else found

    def targets(self, variable: Variable, *attributes: str) -> list[Variable]:
        """Return the existing variables that attributes of `variable` name."""
        named = (r.target for name in attributes for r in self.references_of(variable, name))
        return [target for target in named if target is not None]

    def target(self, variable: Variable, attribute: str) -> Variable | None:
        """Return the variable that an attribute of `variable` names, or `None` if it names none or several."""
        named = self.references_of(variable, attribute)
        return named[0].target if len(named) == 1 else None

    @cached_property
    def roles(self) -> Roles:
        """The role of each variable."""
        return Roles(self.dataset, self.references)

    @cached_property
    def external(self) -> frozenset[str]:
        """Names of external variables (CF section 2.6.3)."""
        return frozenset((self.dataset.root.text("external_variables") or "")[:LONGEST].split())

    @cached_property
    def aside(self) -> frozenset[Group | Variable]:
        """Groups and variables that follow another convention than CF."""
        return set_aside(self.dataset)

    def once(self, function: Callable[[Context], T]) -> T:
        """Return ``function(self)``, computed once for all rules that use it."""
        if function not in self.known:
            self.known[function] = function(self)
        found: T = self.known[function]
        return found

    @cached_property
    def _by_attribute(self) -> dict[str, list[Variable]]:
        found: dict[str, list[Variable]] = {}
        for variable in self.dataset.variables:
            for name in variable.attributes:
                found.setdefault(name, []).append(variable)
        return found

    @cached_property
    def _places(self) -> dict[Variable, int]:
        return {variable: n for n, variable in enumerate(self.dataset.variables)}

    @cached_property
    def _by_standard_name(self) -> dict[str, list[Variable]]:
        found: dict[str, list[Variable]] = {}
        for variable in self.with_attribute("standard_name"):
            for name in variable.words("standard_name")[:1]:
                found.setdefault(name, []).append(variable)
        return found

    def with_attribute(self, *names: str) -> Iterable[Variable]:
        """Yield the variables that have any of these attributes, in order."""
        return self._of(self._by_attribute, names)

    def with_standard_name(self, *names: str) -> Iterable[Variable]:
        """Yield the variables that have any of these standard names, with any modifier, in order."""
        return self._of(self._by_standard_name, names)

    def _of(self, known: Mapping[str, list[Variable]], names: Iterable[str]) -> Iterable[Variable]:
        found = [known[name] for name in names if name in known]
        if len(found) < 2:
            return found[0] if found else []
        variables = self.dataset.variables
        return [variables[n] for n in sorted({self._places[v] for some in found for v in some})]
