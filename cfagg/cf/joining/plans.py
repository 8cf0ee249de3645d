"""Plans for describing similar files: the locations of the parts of each variable in a file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cfagg.cf.references import own_name
from cfagg.model.dataset import AttributeValue, Variable

__all__ = ["ROLES", "AxisPlan", "FieldPlan", "PartPlan", "Variables", "around"]

#: Values of ``cf_role`` for identifiers of features.
ROLES = ("timeseries_id", "trajectory_id", "profile_id")


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """The location of a coordinate: the numbers of its variable and bounds, or its dimension, or its attribute."""

    identity: str
    variable: int | None = None
    bounds: int | None = None
    dimension: int | None = None
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class PartPlan:
    """The location of a companion: the number of its variable, or its attribute."""

    identity: str
    role: str
    axes: tuple[str, ...]
    variable: int | None = None
    attribute: str | None = None
    #: Whether it may be long and differ between files, such as along times.
    varies: bool = False
    #: The number of its last axes that it names itself: scalar coordinates along which it need not vary.
    named: int = 0
    #: Whether the elements of its mesh are its last dimension, as the mesh says, rather than its first.
    turned: bool = False


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How a data variable is described."""

    variable: int
    signature: dict[str, Hashable]
    axes: tuple[AxisPlan, ...]
    along: dict[str, str]
    parts: tuple[PartPlan, ...]
    mappings: tuple[int, ...]
    problem: str | None


def around(variable: Variable) -> dict[str, AttributeValue]:
    """Return the attributes of the dataset and of the groups around a variable, with those of inner groups first."""
    if variable.group.parent is None:
        return variable.group.attributes
    out: dict[str, AttributeValue] = {}
    for group in reversed(list(variable.group.ancestors())):
        out |= group.attributes
    return out


class Variables:
    """All variables of a dataset with their numbers, and those that describe how features are stored."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.all = variables
        self.number = {v: i for i, v in enumerate(variables)}
        self.identifiers = [v for v in variables if v.text("cf_role") in ROLES]
        self.ragged = [v for v in variables if not {"sample_dimension", "instance_dimension"}.isdisjoint(v.attributes)]
        #: Dimensions that several features share, each with a part of it.
        self.shared = {own_name(v.text("sample_dimension")) for v in self.ragged}
        self.shared |= {d for v in self.ragged if "instance_dimension" in v.attributes for d in v.dims}
