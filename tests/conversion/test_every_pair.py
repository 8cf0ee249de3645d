"""Random datasets from every format into every format: each difference is listed, or is one that the page names."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg
from tests.conversion.datasets import DIALECTS, JSON, SOURCES, TARGETS, Array, Node, nodes, read, write
from tests.conversion.pp_files import Fields, fields
from tests.effort import examples


def target_of(folder: Path, form: str, node: Node) -> tuple[Path, dict]:
    """Return where a target goes, and the options that ask for it."""
    used = {d for _, array in node.walk() for d in array.dims}
    options: dict = {"to": form}
    if form.startswith("zarr") or form == "sharded":
        options = {"to": "zarr", "zarr_format": 2 if form == "zarr 2" else 3}
    if form == "sharded":
        options |= {"chunks": {d: 1 if d == "t" else 2 for d in used}, "shards": dict.fromkeys(used, 4)}
    return folder / f"target{'.nca' if form == 'NCA-0.1' else ''}", options


def differences(before: Node, after: Node) -> list[tuple[str, str]]:
    """Return what differs, each as where and what."""
    first, second = before.growing(), after.growing()
    found = [(path, f"unlimited {d}") for path in first.keys() & second.keys() for d in first[path] ^ second[path]]
    return found + _differences(before, after, "")


def _differences(before: Node, after: Node, path: str) -> list[tuple[str, str]]:
    found = []
    for name in before.attributes.keys() | after.attributes.keys():
        if name != "Conventions":
            found += _attribute(path or "/", name, before.attributes.get(name), after.attributes.get(name))
    found += [(path or "/", f"dimension {dim}") for dim in (before.sizes.keys() - before.used) - after.sizes.keys()]
    for name in before.arrays.keys() ^ after.arrays.keys():
        found.append((path + name, "the variable"))
    for name in before.arrays.keys() & after.arrays.keys():
        found += _array(path + name, before.arrays[name], after.arrays[name])
    for name in before.groups.keys() ^ after.groups.keys():
        found.append((path + name, "the group"))
    for name in before.groups.keys() & after.groups.keys():
        found += _differences(before.groups[name], after.groups[name], f"{path}{name}/")
    return found


def _attribute(where: str, name: str, before: object, after: object) -> list[tuple[str, str]]:
    if before is None or after is None:
        return [(where, f"attribute {name!r}")]
    if isinstance(before, dict | bool):
        return [] if before == after else [(where, f"attribute {name!r}")]
    a, b = (np.asarray(v).reshape(-1) for v in (before, after))
    number = a.dtype.kind in "iuf" and b.dtype.kind in "iuf"
    if a.shape != b.shape or not np.array_equal(a, b, equal_nan=number):
        return [(where, f"attribute {name!r}")]
    return [(where, f"type of attribute {name!r}")] if number and a.dtype != b.dtype else []


def _array(path: str, before: Array, after: Array) -> list[tuple[str, str]]:
    found = []
    if before.dims != after.dims:
        found.append((path, "dimensions"))
    unpacked = before.packed and not after.packed  # an aggregation of packed values is of what they stand for
    skipped = {"scale_factor", "add_offset", "_FillValue", "flag_values", "flag_meanings"} if unpacked else set()
    if before.packed and "_FillValue" not in before.attributes:
        # What missing partitions become: the value that the netCDF library takes for missing anyhow.
        made = after.attributes.get("_FillValue") == netCDF4.default_fillvals[before.data.dtype.str[1:]]
        skipped |= {"_FillValue"} if made else set()
    for name in (before.attributes.keys() | after.attributes.keys()) - skipped:
        found += _attribute(path, name, before.attributes.get(name), after.attributes.get(name))
    if before.data.shape != after.data.shape:
        return [*found, (path, "shape")]
    if unpacked:
        expected, got = _decoded(before), _decoded(after)
        same = np.allclose(got, expected, rtol=1e-6, equal_nan=True)
    else:
        number = before.data.dtype.kind == "f"
        same = np.array_equal(before.data, after.data, equal_nan=number)
        if before.data.dtype != after.data.dtype:
            found.append((path, "type"))
    return found if same else [*found, (path, "values")]


def _decoded(array: Array) -> np.ndarray:
    data = array.data.astype("f8")
    out = data * float(array.attributes.get("scale_factor", 1)) + float(array.attributes.get("add_offset", 0))
    fill = array.attributes.get("_FillValue")
    return out if fill is None else np.where((array.data == fill) | np.isnan(data), np.nan, out)


def is_told(where: str, what: str, source: str, target: str, report: cfagg.conversion.Report) -> bool:
    """Whether a difference is among the losses and notes of a report, or is one of all targets of its kind."""
    losses = {(loss.variable.strip("/"), loss.what) for loss in report.losses}
    if (where.strip("/"), what) in losses or (where.strip("/"), "the variable") in losses:
        return True
    if what.startswith("type of attribute") and (source in JSON or target in JSON):
        return True  # JSON has one type of numbers
    if what.startswith(("unlimited", "dimension ")):
        kind, dim = what.split()
        return any(kind in n and re.search(f"[/']{dim}'", n) for n in report.notes)
    return False


def as_held(node: Node, form: str) -> Node:
    """Return what of a dataset is in a source: of Zarr the dimensions of arrays; none can grow but in netCDF."""
    if form.startswith("netCDF"):
        return node
    own = {d: n for a in node.arrays.values() for d, n in zip(a.dims, a.data.shape, strict=True)}
    sizes = node.sizes if form in DIALECTS else own
    empty = {d for d, n in sizes.items() if not n}
    return replace(node, sizes=sizes, unlimited=empty, groups={k: as_held(g, form) for k, g in node.groups.items()})


def check(made: Node | Fields, source: str, target: str) -> None:
    """Convert a dataset and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write(made, folder, source)
        node, known = (as_held(made, source), None) if isinstance(made, Node) else (read(path, source), made)
        place, options = target_of(folder, target, node)
        # What is refused without this is listed with it.
        report = cfagg.convert(path, place, on_loss="drop", **options)
        after = read(place, target, known)
        missed = [d for d in differences(node, after) if not is_told(*d, source, target, report)]
        assert missed == [], (source, target, report.losses, report.notes)


def datasets(source: str):
    """Return the strategy of what a format can hold."""
    if source == "PP":
        return fields()
    groups, empty = source not in ("netCDF-3", *DIALECTS), source not in ("CFA-0.6.2", "CF-1.13")
    return nodes(classic=source == "netCDF-3", groups=groups, empty=empty, json=source in JSON)


@settings(max_examples=examples(160), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(SOURCES), st.sampled_from(TARGETS))
def test_every_difference_is_a_listed_loss(data, source, target):
    check(data.draw(datasets(source)), source, target)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(datasets("NCA-0.1"), st.sampled_from(["zarr 2", "zarr 3", "sharded"]))
def test_an_aggregation_that_was_a_zarr_store_is_equal_to_what_it_was(node, form):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place, options = target_of(folder, form, node)
        first = cfagg.convert(write(node, folder, "NCA-0.1"), place, **options)
        second = cfagg.convert(place, folder / "again.nca")
        after = read(folder / "again.nca", "NCA-0.1")
        different = differences(as_held(node, "NCA-0.1"), after)
        missed = [d for d in different if not any(is_told(*d, "NCA-0.1", form, r) for r in (first, second))]
        assert (missed, first.losses, second.losses) == ([], (), ())


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_difference_is_a_listed_loss_of_each_pair(source, target):
    # There are a hundred pairs: as many examples of each would take a sixth of the time of all tests.
    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(datasets(source))
    def of_pair(node):
        check(node, source, target)

    of_pair()
