"""Datasets in which attributes name anything: each variable is described, and reasons are given, without an error."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cfagg.cf.joining import Options, describe_all, interned, join, members_of, tied, why
from cfagg.cf.references import REFERRING
from cfagg.model.dataset import Dataset, Group, Kind, Variable

NAMES = ("v1", "v2", "v3", "x", "time", "y")
OTHERS = (
    *("standard_name", "units", "calendar", "cf_role", "axis", "positive", "compress", "sample_dimension", "history"),
    *("instance_dimension", "cell_methods", "scale_factor", "add_offset", "_Unsigned", "mesh", "location"),
    *("geometry_type", "flag_values", "flag_meanings", "valid_min", "topology_dimension", "face_node_connectivity"),
)
TEXTS = (
    *("time", "latitude", "degrees_north", "days since 2000-01-01", "days since the flood", "hPa", "", "  ", "m"),
    *("trajectory_id", "timeseries_id", "area: v1", "a: v1 b: v2", "v1: v2", "time: mean", "true", "360_day", "face"),
    *("x", ":", "a:"),
)
VALUES: tuple[Any, ...] = (
    *(np.array([1.0]), np.array([0]), np.array([np.nan, 2]), np.array([], "f8"), ("a", "b"), b"\xff", None, True),
    {"a": 1},
)
TYPES: dict[Kind, Any] = {"float": "f8", "integer": "i2", "string": object, "char": "S1", "other": object}


def dataset(own: random.Random, shift: int) -> Dataset:
    """Return a dataset of a few variables; `shift` is added to times."""
    root = Group()
    if own.random() < 0.3:
        root.attributes = {own.choice(["featureType", "external_variables", "history"]): own.choice([*TEXTS, 3])}
    dimensions = [root.add_dimension(name, own.choice([0, 1, 2, 3])) for name in ("x", "time", "y")]
    for name in NAMES:
        if own.random() < 0.2:
            continue
        spans = tuple(own.choice(dimensions) for _ in range(own.choice([0, 1, 1, 2, 3])))
        if name in root.dimensions and own.random() < 0.7:
            spans = (root.dimensions[name],)
        kind: Kind = own.choice(["float", "float", "integer", "string", "char", "other"])
        values = np.full(
            [d.size for d in spans], b"a" if kind == "char" else "b", TYPES[kind if kind == "char" else "other"]
        )
        if kind in ("float", "integer"):
            counted = np.arange(values.size).reshape(values.shape) * own.choice([1, -1, 0])
            values = np.asarray(counted + (shift if name == "time" else 0)).astype(TYPES[kind])
        attributes: dict[str, Any] = {}
        for _ in range(own.randint(0, 6)):
            key = own.choice([*REFERRING, *OTHERS])
            words = [own.choice(NAMES) for _ in range(own.randint(1, 3))]
            named = " ".join(f"k{i}: {w}" for i, w in enumerate(words)) if own.random() < 0.3 else " ".join(words)
            attributes[key] = own.choice(
                [named if key in REFERRING else own.choice(TEXTS), own.choice(TEXTS), own.choice(VALUES)]
            )
        if own.random() < 0.5:
            attributes.setdefault("standard_name", own.choice(["air_temperature", "time", "latitude", "height"]))
        if own.random() < 0.6:
            attributes.setdefault("units", own.choice(["K", "m", "days since 2000-01-01"]))
        root.variables[name] = Variable(name, root, spans, values.dtype, kind, attributes, read=values.__getitem__)
    return Dataset("a.nc", "netcdf", root)


def options(own: random.Random) -> Options:
    interleave = own.random() < 0.3
    return Options(
        relaxed_identities=own.random() < 0.4,
        relaxed_units=own.random() < 0.6,
        allow_no_identity=own.random() < 0.3,
        variable_identities=own.random() < 0.2,
        interleave=interleave,
        contiguous=not interleave and own.random() < 0.2,
        overlap=interleave or own.random() < 0.7,
        on_overlap=own.choice(["apart", "first", "last"]),
        cells=own.choice([None, True]),
        equal_all=own.random() < 0.2,
        dimension=own.choice([(), ("history",)]),
        field_ancillaries=own.choice([(), ("standard_name",)]),
        axes=own.choice([None, None, ("time", "latitude")]),
    )


def check(seed: int) -> bool:
    """Describe and join a few datasets, mostly alike; return whether any were joined."""
    own = random.Random(seed)
    like, chosen = own.randint(0, 10**9), options(own)
    files = [dataset(random.Random(like + (own.random() < 0.2)), 5 * k) for k in range(own.randint(2, 4))]
    described = interned(tied([one for file in files for one in describe_all(file, chosen)], chosen))
    if not described:
        return False
    members = members_of(described, chosen)
    boxes = join(members, chosen)
    for a in range(len(described)):
        for b in range(len(described)):
            found = why(members, boxes, a, b, chosen)
            assert (found is None) == (boxes.box[a] == boxes.box[b])
            assert found is None or str(found)
    used = boxes.count.prod(axis=1) * ~boxes.dropped
    assert (np.bincount(boxes.box, used, len(boxes)) <= boxes.extent.prod(axis=1)).all()
    return len(boxes) < len(described)


def test_datasets_whose_attributes_name_anything_are_described_and_joined() -> None:
    assert sum(check(seed) for seed in range(40)) > 0


@pytest.mark.soak
def test_many_datasets_whose_attributes_name_anything_are_described_and_joined() -> None:
    assert sum(check(seed) for seed in range(40, 4000)) > 100
