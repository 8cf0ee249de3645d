"""Types and storage of discrete sampling geometries: CF chapter 9 and appendix H."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.checking.context import Context
from cfagg.checking.features import ROLES, SPELLINGS, TYPES, Features, features
from cfagg.checking.rules.groups import left_to_search
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule, shared
from cfagg.model.dataset import Dimension, Variable


@rule("DSG001")
def feature_type_is_known(c: Context) -> Iterator[Hit]:
    """A featureType is one of table 9.1 in any case."""
    value = c.dataset.root.attributes.get("featureType")
    if value is None or (isinstance(value, str) and value.lower() in TYPES):
        return
    if not isinstance(value, str):
        if not faulty_text(value, c.version):
            yield Hit(None, "featureType", f"featureType is not text; expected one of {', '.join(SPELLINGS.values())}")
        return
    meant = SPELLINGS.get("".join(ch for ch in value.lower() if ch.isalpha()))
    fix = (Edit(None, "featureType", meant),) if meant else ()
    hint = f"; did you mean {meant!r}?" if meant else ""
    yield Hit(None, "featureType", f"{value!r} is not one of {', '.join(SPELLINGS.values())}{hint}", None, fix)


@rule("DSG002")
def ragged_arrays_have_a_feature_type(c: Context) -> Iterator[Hit]:
    """A dataset with ragged or incomplete arrays of features has a featureType."""
    if "featureType" in c.dataset.root.attributes:
        return
    f = features(c)
    ragged = [v for v, _ in f.counts + f.indices]
    if ragged:
        message = f"{ragged[0].path!r} belongs to a ragged array, but there is no featureType; add the global attribute"
        yield Hit(None, "featureType", message)
        return
    own = _of_each_feature(f)
    if own is not None:
        message = f"each feature has its own {own.path!r}, so there must be a featureType; add the global attribute"
        yield Hit(None, "featureType", message)


def _of_each_feature(f: Features) -> Variable | None:
    """Return a time or height of elements that differ among features, which orthogonal arrays do not have."""
    for placed in f.data if f.identifiers else ():
        for t in placed.axes["T"] + placed.axes["Z"]:
            own = set(t.dimensions)
            if own & f.instances and own - f.instances and own <= set(placed.variable.dimensions):
                return t
    return None


@rule("DSG003")
def features_have_a_feature_type(c: Context) -> Iterator[Hit]:
    """A dataset whose features are identified by cf_role has a featureType."""
    f = features(c)
    if "featureType" in c.dataset.root.attributes or f.counts or f.indices:
        return
    if f.identifiers and _of_each_feature(f) is None:
        message = (
            f"{f.identifiers[0].path!r} identifies features, but there is no featureType; add the global attribute"
        )
        yield Hit(None, "featureType", message)


def _names_a_dimension(c: Context, attribute: str) -> Iterator[Hit]:
    what = attribute.replace("_", " ")
    for v in c.with_attribute(attribute):
        words = v.words(attribute)
        if faulty_text(v.attributes[attribute], c.version):
            continue
        if len(words) != 1:
            yield Hit(v, attribute, f"{attribute} is not one name; expected that of the {what}")
        elif c.resolver.dimension(words[0], v.group) is None and not left_to_search(c, v, words[0]):
            yield Hit(v, attribute, f"there is no dimension {words[0]!r}; expected the {what}")


shared(_names_a_dimension, DSG004="sample_dimension", DSG006="instance_dimension")


@rule("DSG005", each=lambda c: features(c).counts)
def counts_are_integers_for_each_instance(_: Context, v: Variable, sample: Dimension | None) -> Iterator[Hit]:
    """A count variable holds integers along the instance dimension alone."""
    if v.kind != "integer":
        yield Hit(v, None, f"the count variable is of type {v.dtype}; expected an integer type")
    elif len(v.dimensions) != 1:
        message = f"the count variable has dimensions ({', '.join(v.dims)}); expected the instance dimension alone"
        yield Hit(v, None, message)
    elif v.dimensions[0] is sample:
        yield Hit(v, None, f"the count variable has the sample dimension {sample.name!r}; expected the instances'")


@rule("DSG007", each=lambda c: features(c).indices)
def indices_are_integers_for_each_sample(_: Context, v: Variable, instance: Dimension | None) -> Iterator[Hit]:
    """An index variable holds integers along the sample dimension alone."""
    if v.kind != "integer":
        yield Hit(v, None, f"the index variable is of type {v.dtype}; expected an integer type")
    elif len(v.dimensions) != 1:
        yield Hit(
            v, None, f"the index variable has dimensions ({', '.join(v.dims)}); expected the sample dimension alone"
        )
    elif v.dimensions[0] is instance:
        yield Hit(v, None, f"the index variable has the instance dimension {instance.name!r}; expected the samples'")


#: The roles defined by SGRID (of ROMS, for example), by NCA 0.2 to 0.2.2, and by CFA 0.3 and 0.4.
_OTHERS = ("grid_topology", "nca", "nca_variable", "nca_private", "cfa_variable", "cfa_private")


@rule("DSG010", each="cf_role")
def cf_role_is_known(c: Context, v: Variable) -> Iterator[Hit]:
    """A cf_role is one of those for features, or one of UGRID, SGRID, NCA or CFA."""
    value = v.attributes["cf_role"]
    known = ("timeseries_id", "profile_id", "trajectory_id", "mesh_topology", "location_index_set")
    if (isinstance(value, str) and (value in (*known, *_OTHERS) or value.endswith("_connectivity"))) or (
        faulty_text(value, c.version)
    ):
        return
    meant = value.strip().lower() if isinstance(value, str) else ""
    fix = (Edit(v.path, "cf_role", meant),) if meant in known else ()
    shown = repr(value) if isinstance(value, str) else "it"
    yield Hit(v, "cf_role", f"{shown} is not one of timeseries_id, profile_id, trajectory_id", None, fix)


@rule("DSG011")
def cf_roles_fit_the_feature_type(c: Context) -> Iterator[Hit]:
    """Each cf_role occurs once and is defined for the featureType."""
    f = features(c)
    allowed = ROLES.get(f.type or "")
    if allowed is None:
        return
    seen: dict[str, str] = {}
    for v in f.identifiers:
        role = v.text("cf_role") or ""
        name = c.dataset.root.text("featureType")
        if role not in allowed:
            yield Hit(v, "cf_role", f"featureType is {name!r}, so {' and '.join(allowed)} fit; found {role!r}")
        elif role in seen:
            yield Hit(v, "cf_role", f"{seen[role]!r} is {role} too; only one variable should be")
        else:
            seen[role] = v.path


@rule("DSG012")
def features_are_identified(c: Context) -> Iterator[Hit]:
    """A variable with cf_role identifies the features."""
    f = features(c)
    wanted = ROLES.get(f.type or "")
    if wanted and f.data and not c.with_attribute("cf_role"):
        message = f"no variable identifies the features; give one of them the cf_role {wanted[0]}"
        yield Hit(None, "featureType", message)


@rule("DSG019")
def profiles_in_ragged_arrays_are_both_counted_and_indexed(c: Context) -> Iterator[Hit]:
    """In ragged arrays of series of profiles the count and the index variable share the profile dimension."""
    f = features(c)
    if f.type not in ("timeseriesprofile", "trajectoryprofile") or not f.counts or not f.indices:
        return
    counted = {v.dimensions[0] for v, sample in f.counts if len(v.dimensions) == 1 and v.dimensions[0] is not sample}
    for v, _ in f.indices if counted else ():
        if len(v.dimensions) == 1 and v.dimensions[0] not in counted:
            names = ", ".join(sorted(d.name for d in counted))
            yield Hit(
                v, None, f"the index variable has dimension {v.dims[0]!r}; expected that of the counts, {names!r}"
            )
