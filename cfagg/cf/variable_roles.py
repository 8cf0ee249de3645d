"""The roles of the variables of a dataset, from the references to them.

A variable to which nothing refers, and that is neither a coordinate variable nor a container, is a data variable.
"""

from __future__ import annotations

from functools import cached_property

from cfagg.cf.references import KEYED, LISTS, WITH_A_GRAMMAR, Reference
from cfagg.model.dataset import Dataset, Variable

__all__ = ["Roles"]

#: Attributes whose targets serve the referring variable and are not data variables.
_SUBORDINATE = {*LISTS, *KEYED, *WITH_A_GRAMMAR} - {"ancillary_variables", "cell_measures", "select"}

#: Attributes that make a variable a container or an index even if nothing refers to it.
_STRUCTURAL = frozenset(
    {
        "geometry_type",
        "interpolation_name",
        "interpolation_description",
        "compress",
        "sample_dimension",
        "instance_dimension",
        "cf_role",
        "nca_private",
    }
)


class Roles:
    """The roles of a dataset's variables, from its references, each as a set of identities: ``v in roles.bounds``."""

    def __init__(self, dataset: Dataset, references: list[Reference]) -> None:
        self._dataset = dataset
        self._targets: dict[str, set[Variable]] = {}
        self._keyed: dict[tuple[str, str | None], set[Variable]] = {}
        for reference in references:
            if reference.target is not None:
                self._targets.setdefault(reference.attribute, set()).add(reference.target)
                self._keyed.setdefault((reference.attribute, reference.key), set()).add(reference.target)

    def named_by(self, attribute: str) -> set[Variable]:
        """Return the variables that any attribute of this name refers to."""
        return self._targets.get(attribute, set())

    @cached_property
    def coordinate_variables(self) -> set[Variable]:
        """Coordinate variables: one dimension of the same name, and not text."""
        return {v for v in self._dataset.variables if v.is_coordinate}

    @cached_property
    def auxiliary(self) -> set[Variable]:
        """Auxiliary coordinates, scalar coordinates and labels, as named by ``coordinates`` attributes."""
        return self.named_by("coordinates") - self.coordinate_variables

    @cached_property
    def coordinates(self) -> set[Variable]:
        """Coordinate variables, auxiliary coordinates and scalar coordinates."""
        return (
            self.coordinate_variables
            | self.auxiliary
            | self._keyed.get(("coordinate_interpolation", "tie_point"), set())
        )

    @cached_property
    def bounds(self) -> set[Variable]:
        """Bounds variables of cells."""
        return self.named_by("bounds")

    @cached_property
    def climatology(self) -> set[Variable]:
        """Bounds variables of climatologies."""
        return self.named_by("climatology")

    @cached_property
    def grid_mappings(self) -> set[Variable]:
        """Grid mapping variables; not data that have the name of their mapping as an attribute of their own."""
        named = self._keyed.get(("grid_mapping", None), set())
        said = {v for v in self._dataset.variables if "grid_mapping_name" in v.attributes}
        return named | {v for v in said if v.size <= 1 and "grid_mapping" not in v.attributes}

    @cached_property
    def geometries(self) -> set[Variable]:
        """Geometry containers."""
        return self.named_by("geometry") | {v for v in self._dataset.variables if "geometry_type" in v.attributes}

    @cached_property
    def interpolations(self) -> set[Variable]:
        """Interpolation variables of coordinate subsampling."""
        return self._keyed.get(("coordinate_interpolation", "interpolation"), set())

    @cached_property
    def domains(self) -> set[Variable]:
        """Domain variables: scalar, with a ``dimensions`` attribute, and not a container of another kind."""
        return {
            v
            for v in self._dataset.variables
            if "dimensions" in v.attributes and not v.stored and v not in self.grid_mappings | self.geometries
        }

    @cached_property
    def fragments(self) -> set[Variable]:
        """Variables that only describe the locations of the values of an aggregation variable."""
        return self.named_by("aggregated_data")

    @cached_property
    def meshes(self) -> set[Variable]:
        """Mesh topologies and location index sets of UGRID, and the variables that they name."""
        found = {v for v in self._dataset.variables if v.text("cf_role") in ("mesh_topology", "location_index_set")}
        named = set()
        for mesh in found:
            for name in mesh.attributes:
                if name.endswith(("_coordinates", "_connectivity")) or name in ("mesh", "volume_shape_type"):
                    named |= {mesh.group.variables[w] for w in mesh.words(name) if w in mesh.group.variables}
        return found | named

    @cached_property
    def data(self) -> set[Variable]:
        """Data variables, including cell measures and ancillary variables."""
        subordinate = set().union(*(self.named_by(a) for a in _SUBORDINATE)) if self._targets else set()
        return {
            v
            for v in self._dataset.variables
            if v not in subordinate
            and v not in self.coordinate_variables
            and v not in self.domains
            and v not in self.grid_mappings
            and v not in self.meshes
            and (_STRUCTURAL.isdisjoint(v.attributes) or v.text("cf_role") in ("nca_variable", "cfa_variable"))
        }
