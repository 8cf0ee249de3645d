"""Datasets made strange: their metadata changed at random, whatever that breaks."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np

from cfagg.model.dataset import Dataset, Dimension, Group, Variable

__all__ = ["ATTRIBUTES", "mutate"]

_NAMES = """
    Conventions featureType external_variables title history comment _FillValue missing_value valid_min valid_max
    valid_range actual_range units units_metadata standard_name long_name ancillary_variables flag_values flag_masks
    flag_meanings axis positive formula_terms computed_standard_name calendar month_lengths leap_year leap_month
    coordinates grid_mapping grid_mapping_name crs_wkt towgs84 standard_parallel indexing_scheme refinement_level
    dimensions bounds climatology cell_measures cell_methods select geometry geometry_type node_coordinates node_count
    part_node_count interior_ring nodes scale_factor add_offset compress coordinate_interpolation interpolation_name
    interpolation_description computational_precision tie_point_mapping interpolation_parameters bounds_tie_points
    quantization quantization_nsb quantization_nsd algorithm implementation cf_role sample_dimension instance_dimension
    aggregated_dimensions aggregated_data aggregation_location aggregation_file mesh location nca_array cfa_array
    latitude_dimension points_per_latitude grid_subtype semi_major_axis
"""

#: Attributes that some rule looks at.
ATTRIBUTES = tuple(_NAMES.split())

#: Texts that grammars of CF attributes meet, well formed or not.
TEXTS = (
    *("", " ", ":", "a:", ": a", "a: b", "a: b c:", "a:b", "/", "//", "../..", "/a/b", ".", "x" * 3000, "(" * 500),
    *("[" * 500, "a: " * 500, "\0", "\u0301", "\ud7ff", "é" * 3, '{"a": 1}', "[1, 2", "null", "a: b c: d"),
    *("time: mean", "time: mean (", "time: mean (interval: 1 h", "area: mean where land over", "T", "up", "64"),
    *("time: mean within days time: mean over years", "days since", "days since 0000-00-00", "days since 1582-10-10"),
    *("days since 1-1-1 99:99:99 +99:99", "seconds since 2016-13-40", "K", "m s-1", "m^99999999999", "1e400 K", "hPa"),
    *("degrees_north", "Pa @ 3", "lat lon", "time", "lat", "GEOGCS[", 'GEOGCS["a"]', "PROJCRS" + "[" * 99, "linear"),
    *("standard", "utc", "tai", "none", "360_day", "CF-1.13", "CF-1.6", "CF-99.99", "polygon", "line", "point"),
    *("latitude_longitude", "healpix", "nested", "timeSeries", "profile_id", "region", "area_type", "healpix_index"),
    *("ocean_sigma_z_coordinate", "atmosphere_sigma_coordinate", "map: m uris: u identifiers: i"),
)  # fmt: skip

#: Variables that would be larger have no values.
LARGEST = 1 << 16

_TYPES = ("i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8", "S1")


def mutate(dataset: Dataset, random: Random, changes: int = 3) -> None:
    """Change a dataset in place, so many times.

    Parameters
    ----------
    dataset : Dataset
        As read from CDL.
    random : random.Random
        Decides what is changed.
    changes : int
        How often.
    """
    for _ in range(changes):
        variables = [v for g in dataset.root.walk() for v in g.variables.values()]
        change = random.choice(
            (_attribute, _attribute, _attribute, _attribute, _swap, _remove, _retype, _reshape, _move)
        )
        change(dataset, variables, random)
    # What the model keeps of itself is worked out again.
    for name in ("groups", "variables"):
        dataset.__dict__.pop(name, None)


def value(dataset: Dataset, variables: list[Variable], random: Random) -> Any:
    """Return a value of an attribute, of any type that a reader may give."""
    kind = random.randrange(9)
    if kind < 3:
        names = [v.name for v in variables] + [d for g in dataset.root.walk() for d in g.dimensions] + list(TEXTS)
        return random.choice((" ", ": ", "  ", ": x ")).join(random.choices(names, k=random.randint(1, 3)))
    if kind == 3:
        return random.choice(TEXTS)
    if kind == 4:
        return tuple(random.choices(TEXTS, k=random.randint(0, 3)))
    if kind == 5:
        return random.choice((b"\xff\xfe", b"", b"\x80" * 20))
    if kind == 6:
        return random.choice(({}, {"a": [1, {"b": None}]}, [], [1, "a"], None, True, 3.5))
    size = random.choice((0, 1, 1, 2, 3, 12))
    dtype = np.dtype(random.choice(_TYPES))
    if dtype.kind == "S":
        return np.full(size, b"x", dtype)
    special = [0, 1, 2, 12, -1, 127, 2**31 - 1, np.nan, np.inf, -np.inf, 1e30]
    with np.errstate(all="ignore"):
        return np.array(random.choices(special, k=size), "f8").astype(dtype)


def _attribute(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    owner: Group | Variable = random.choice([*variables, *list(dataset.root.walk())])
    has = list(owner.attributes)
    name = random.choice(has) if has and random.random() < 0.6 else random.choice(ATTRIBUTES)
    owner.attributes[name] = value(dataset, variables, random)


def _swap(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    if variables:
        one, other = random.choice(variables), random.choice(variables)
        one.attributes, other.attributes = other.attributes, one.attributes


def _remove(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    group = random.choice(list(dataset.root.walk()))
    if group.variables and random.random() < 0.5:
        group.variables.pop(random.choice(list(group.variables)))
    elif variables:
        owner = random.choice(variables)
        if owner.attributes:
            owner.attributes.pop(random.choice(list(owner.attributes)))


def _retype(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    if not variables:
        return
    variable = random.choice(variables)
    dtype = np.dtype(random.choice((*_TYPES, "O")))
    _replace(variable, variable.dimensions, dtype, random)


def _reshape(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    known = [d for g in dataset.root.walk() for d in g.dimensions.values()]
    known.append(Dimension("new", random.choice((0, 1, 2, 7))))
    if variables:
        variable = random.choice(variables)
        _replace(variable, tuple(random.choices(known, k=random.randint(0, 4))), variable.dtype, random)


def _move(dataset: Dataset, variables: list[Variable], random: Random) -> None:
    """Move a variable to a group below."""
    if not variables:
        return
    variable = random.choice(variables)
    child = variable.group.child(random.choice(("g", "lat", "time", ".", "é")))
    variable.group.variables.pop(variable.name, None)
    child.variables[variable.name] = variable
    variable.group = child
    variable.__dict__.pop("path", None)


def _replace(variable: Variable, dimensions: tuple[Dimension, ...], dtype: np.dtype[Any], random: Random) -> None:
    """Give a variable other dimensions and another type, and values of them."""
    variable.dimensions, variable.dtype, variable.stored_dimensions = dimensions, dtype, None
    kinds: Any = {"i": "integer", "u": "integer", "f": "float", "S": "char", "O": "string"}
    variable.kind = kinds[dtype.kind]
    variable.__dict__.pop("dims", None)
    shape = tuple(d.size for d in dimensions)
    variable.read = None
    if prod(shape) > LARGEST:
        return
    if dtype.kind == "O":
        values = np.full(shape, random.choice(TEXTS), object)
    elif dtype.kind == "S":
        values = np.full(shape, random.choice((b"", b"a", b"\xff")), dtype)
    else:
        with np.errstate(all="ignore"):
            values = np.full(shape, random.choice((0, 1, -1, np.nan, np.inf, 1e30, 100))).astype(dtype)
    variable.read = values.__getitem__
