"""Planning a build of sums, without reading data.

`plan_build` collects the inputs of the accumulation (`Input`) and its present state (`State`), from which `decide`
chooses the `Action`.  The plan lists the chunks to read, the quantities to compute from them, and the arrays to write.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from cfagg._version import __version__
from cfagg.accumulation.coordinates import labelled_array
from cfagg.accumulation.description import Neighbour, check_listed, encoding_of, find_neighbours
from cfagg.accumulation.freshness import Changes, changes
from cfagg.accumulation.group import Group, command, group_path, standing_of, whole_objects
from cfagg.accumulation.layout import Layout, build_layout
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Order, Settings, check_same
from cfagg.accumulation.recipe import Recipe, Window
from cfagg.accumulation.source import Meaning, horizontal_dims, read_meaning
from cfagg.accumulation.weights import Weights, find_weights
from cfagg.accumulation.writing import Basis, codec_of
from cfagg.conventions.accumulation_record import Extra
from cfagg.conventions.accumulation_schema import KINDS, is_dimension
from cfagg.errors import ConventionError, NotAccumulatedError, StaleError, TargetExistsError, UnsupportedError
from cfagg.formats.zarr import ZarrArray, open_array
from cfagg.formats.zarr.documents import node_folder, read_identity
from cfagg.model import Regular
from cfagg.storage.urls import Url

__all__ = ["Action", "Input", "Plan", "assemble", "existing_group", "plan_build", "settings_of", "weights_stay"]


class Action(Enum):
    """What to do with an accumulation."""

    BUILD = "built"
    REBUILD = "rebuilt"
    APPEND = "appended"
    #: Nothing is summed; only the record of related arrays is rewritten.
    RENEW = "renewed"
    NOTHING = "up to date"

    @property
    def word(self) -> str:
        """The action as reports name it."""
        return Action.NOTHING.value if self is Action.RENEW else self.value

    @property
    def sums(self) -> bool:
        """Whether data are read and summed."""
        return self not in (Action.RENEW, Action.NOTHING)


@dataclass(frozen=True)
class State:
    """The state before a build on which the choice of the action depends."""

    exists: bool
    #: Whether the array and the weights are those that were summed.
    fresh: bool = False
    #: Whether coordinates, or the arrays that weights were made from, have changed.
    related_changed: bool = False
    #: Whether the existing accumulation has the requested settings.
    alike: bool = False
    #: Whether the array has only grown along one dimension, so that some of the sums remain valid.
    grown: bool = False


def decide(order: Order, state: State, where: str) -> Action:
    """Return the action; refuse to discard an accumulation unless asked to replace it."""
    if order.append or order.refresh:
        if state.fresh:
            return Action.RENEW if state.related_changed else Action.NOTHING
        return Action.APPEND if state.grown else Action.REBUILD
    if not state.exists:
        return Action.BUILD
    if order.overwrite:
        return Action.REBUILD
    if order.resume and state.fresh and state.alike and not state.related_changed:
        return Action.NOTHING
    raise TargetExistsError(
        f"{where} has an accumulation; extend it with append=True (--append), bring it up to date with "
        "refresh=True (--refresh), or replace it with overwrite=True (--overwrite)"
    )


@dataclass(frozen=True, eq=False)
class Input:
    """The inputs of an accumulation."""

    array: ZarrArray
    meaning: Meaning
    settings: Settings
    weights: Weights | None
    related: tuple[Neighbour, ...]


@dataclass(frozen=True, eq=False)
class Plan(Input):
    """A planned build."""

    folder: Path
    existing: tuple[int, ...] | None
    recipe: Recipe
    layout: Layout
    basis: Basis | None
    action: Action
    notes: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return the properties that must be the same for another run to finish the build."""
        array, meaning = self.array, self.recipe.meaning
        grid = [list(map(int, np.diff(e))) if isinstance(e, np.ndarray) else e.chunk for e in array.grid.axes]
        return {
            "version": __version__,
            "array": [array.path, list(array.dims), list(array.shape), grid, array.dtype.name],
            "meaning": repr((meaning.mask, meaning.packing)),
            "encoding": dict(encoding_of(array, None)),
            "options": self.settings.identity(),
            "grows": self.layout.grows,
            "weights": None if self.weights is None else self.weights.digest(),
            "accumulation to extend": None
            if self.basis is None
            else [list(self.basis.group.identity), self.basis.axis, self.basis.chunk],
        }


def plan_build(order: Order) -> Plan:
    """Return the plan of a build, without reading data."""
    array = open_array(order.store, order.variable, allow=order.allow)
    where = f"{array.store}: array {array.path!r}"
    if not array.path:
        raise UnsupportedError(
            f"{array.store} is itself an array; an accumulation is stored beside its array, which must be in a group"
        )
    reserved = [d for d in array.dims if not is_dimension(d)]
    if reserved:
        raise UnsupportedError(
            f"{where} has the dimension {reserved[0]!r}; the convention (ZEP 5) does not allow dimensions whose names "
            f"contain line breaks or begin with {', '.join(KINDS)}: rename it"
        )
    meaning = read_meaning(array)
    check_listed(array)
    existing = existing_group(array)
    plan = _plan_update if order.append or order.refresh else _plan_new
    return plan(order, array, meaning, existing, where)


def _plan_new(order: Order, array: ZarrArray, meaning: Meaning, existing: tuple[int, ...] | None, where: str) -> Plan:
    """Return the plan of an accumulation with the requested settings."""
    default = [(d,) for d in array.dims]
    if order.dims is None and (pair := horizontal_dims(array)):
        default.append(pair)  # type: ignore[arg-type]
    integer = meaning.dtype.kind in "iu" and order.weights is None
    settings = Settings.build(order, where, array.dims, default, integer=integer)
    # Before weights are read, so that anything written from here on is noticed once the sums are done.
    related = find_neighbours(array, order.weights)
    # Coordinates that cannot be decoded raise an error: every question about the sums would be refused.
    labelled_array(array, array.dims)
    given = Input(array, meaning, settings, find_weights(array, order.weights, order.memory), related)
    state = State(exists=existing is not None)
    if existing and order.resume and not order.overwrite:
        state = _existing_state(given)
    return assemble(given, existing, None, decide(order, state, where))


def _existing_state(given: Input) -> State:
    """Return how an existing group compares with the one that would be built."""
    try:
        group = open_group(given.array.store, given.array.path, allow=given.array.allow)
    except (ConventionError, NotAccumulatedError, StaleError):
        return State(exists=True)
    if group.extra is None:
        return State(exists=True)
    found = changes(group)
    alike = settings_of(group, group.extra).identity() == given.settings.identity()
    return State(True, not found and weights_stay(group, given.weights), bool(found.related), alike)


def _plan_update(
    order: Order, array: ZarrArray, meaning: Meaning, existing: tuple[int, ...] | None, where: str
) -> Plan:
    """Return the plan for updating an existing accumulation with its present settings."""
    group = open_group(array.store, array.path, check=False, allow=array.allow)
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{where} has an accumulation by another program, which cannot be brought up to date; replace it with: "
            f"{command(array.store, array.path, '--overwrite')}"
        )
    if extra.source.dims != array.dims:
        raise StaleError(
            f"{where} has the dimensions {list(array.dims)}, its accumulation {list(extra.source.dims)}; rebuild it "
            f"with: {command(array.store, array.path, '--overwrite')}"
        )
    settings = settings_of(group, extra)
    check_same(order, settings, extra, where)
    found = changes(group)
    asked: Any = order.weights
    if extra.weights is not None and asked is None:
        kind, name = extra.weights.kind, extra.weights.name
        asked = {"area": "area", "variable": name}.get(kind)
        if asked is None and group.weights is not None:
            asked = Weights("array", name, group.weights.array, group.weights.axes)
    related = find_neighbours(array, asked)
    weights = find_weights(array, asked, order.memory)
    integer = meaning.dtype.kind in "iu" and weights is None
    if (settings.sums == "int64") != integer and (settings.sums == "int64" or array.dtype.name != extra.source.dtype):
        settings = replace(settings, sums="int64" if integer else "float64")
    basis = None
    if found:
        try:
            basis = _find_basis(group, array, settings.stride, found)
            _same_weights(basis, group, weights, where)
        except StaleError:
            if order.append:
                raise
            basis = None
    fresh = not found and weights_stay(group, weights)
    if order.append and not found and not fresh:
        raise _other_weights(where)
    state = State(True, fresh, bool(found.related), alike=True, grown=basis is not None)
    given = Input(array, meaning, settings, weights, related)
    dim = order.grows or (None if extra.growth is None else extra.growth.dim)
    return assemble(given, existing, basis, decide(order, state, where), None if dim is None else array.dims.index(dim))


def settings_of(group: Group, extra: Extra) -> Settings:
    """Return the settings with which an existing accumulation was built."""
    return Settings.of(extra, group.sums, codec_of(next(iter(group.sums.values())).data.document))


def _find_basis(group: Group, array: ZarrArray, stride: tuple[int, ...], found: Changes) -> Basis | None:
    """Return the part of an accumulation that remains if its array has only grown along one dimension."""
    where = f"{group.store}: array {group.variable!r}"
    extra = group.extra
    if extra is None or found.other or len(found.grown) != 1 or found.written is None:
        raise StaleError(
            f"{where} has not only grown along one dimension since its accumulation was built, so nothing can be "
            "appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    (dim,) = found.grown
    axis, old = array.dims.index(dim), extra.source.shape[array.dims.index(dim)]
    # Objects entirely within the old array; one at its end may have been filled up since.
    early = found.written[found.written[:, axis] < whole_objects(array, axis, old)]
    if len(early):
        raise StaleError(
            f"{where}: {len(early):,} of the chunks that were summed have been written since the accumulation was "
            "built, so nothing can be appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    stays = standing_of(array, axis, old, stride[axis], sampled=any(dim in c for c in group.sums))
    return Basis(**vars(stays), group=group) if stays.chunk else None


def weights_stay(group: Group, weights: Weights | None, cut: tuple[slice, ...] = ()) -> bool:
    """Return whether the weights, or a part of them, are those with which an accumulation was built."""
    if group.weights is None or weights is None:
        return group.weights is None and weights is None
    return group.weights.axes == weights.axes and np.array_equal(group.weights.array[cut], weights.values[cut])


def _same_weights(basis: Basis | None, group: Group, weights: Weights | None, where: str) -> None:
    """Refuse to extend sums that were built with other weights."""
    same = (group.weights is None) == (weights is None)
    if same and basis is not None and group.weights is not None:
        cut = tuple(slice(0, basis.position) if a == basis.axis else slice(None) for a in group.weights.axes)
        same = weights_stay(group, weights, cut)
    if not same:
        raise _other_weights(where)


def _other_weights(where: str) -> StaleError:
    return StaleError(
        f"{where}: the weights have changed since its accumulation was built, so nothing can be appended; rebuild it "
        "with refresh=True (--refresh)"
    )


def assemble(
    given: Input,
    existing: tuple[int, ...] | None,
    basis: Basis | None,
    action: Action,
    grows: int | None = None,
    suffix: str | None = None,
) -> Plan:
    """Return a plan; array names end with the `suffix`, or in object stores with a new one if none is given."""
    array, settings, weights, mask = given.array, given.settings, given.weights, given.meaning.mask
    window = Window(array) if basis is None else Window(array, basis.axis, basis.chunk)
    every = tuple(range(array.ndim))
    combinations = [tuple(array.dims.index(d) for d in c) for c in settings.dims]
    statistics = [every] if settings.statistics else []
    if len(settings.statistics) > 1:
        statistics += [c for c in combinations if c != every]
    recipe = Recipe(
        window,
        given.meaning,
        tuple(dict.fromkeys([*combinations, *statistics])),
        tuple(statistics),
        settings.sums,
        None if weights is None else weights.values,
        () if weights is None else weights.axes,
    )
    objects = sum(n.record.objects for n in given.related)
    axes = None if weights is None else weights.axes
    if axes is not None and grows in axes:
        grows = None  # weights that grow are rewritten as a whole
    # If the group grows in place, the chunks do not depend on the earlier arrays.
    earlier = () if basis is None or grows is not None else basis.group.arrays()
    previous = {a.name: _chunks_of(a) for a in earlier}
    if suffix is None:
        suffix = f".{secrets.token_hex(4)}" if isinstance(array.store, Url) else ""
    layout = build_layout(array, given.meaning, settings, axes, previous, objects, suffix, grows)
    folder = Path(node_folder(array.store, group_path(array.path)))
    notes = []
    if mask.valid_min is not None or mask.valid_max is not None:
        notes.append("values outside the valid range given by the attributes count as missing; xarray keeps them")
    return Plan(**vars(given), folder=folder, existing=existing, recipe=recipe, layout=layout, basis=basis,
                action=action, notes=tuple(notes))  # fmt: skip


def _chunks_of(array: ZarrArray) -> tuple[int, ...]:
    return tuple(axis.chunk for axis in array.grid.axes if isinstance(axis, Regular))


def existing_group(array: ZarrArray) -> tuple[int, ...] | None:
    """Return the identity of the existing group, or `None` if there is none."""
    if isinstance(array.store, Url):
        name = "zarr.json" if array.zarr_format == 3 else ".zattrs"
        return read_identity(node_folder(array.store, group_path(array.path)), name, array.store)
    folder = node_folder(array.store, group_path(array.path))
    if not os.path.lexists(folder):
        return None
    status = os.lstat(folder)
    return status.st_ino, status.st_mtime_ns
