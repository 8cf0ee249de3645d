"""Bring sub-arrays into the master array's form: order of dimensions, direction, missing values, units, type.

A `Recipe` is derived once for each distinct (layout, header) and then applied to any number of blocks.  The order of
operations is: mask, unpack, units and calendar, direction, order of dimensions, size-1 dimensions, packing and type of
the master.  Masking, unpacking, units and packing take a single multiply-add in one pass over the values.

Sources: NCA 0.1, "Partitions"; CF sections 2.5.1 (missing data), 3.1 (units), 4.4.1 (calendar), 8.1 (packing).

*conform*: to bring a sub-array into the form of the master array: its dimensions, directions, units, packing and
type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.axes import Axes
from cfagg.cf.gather import gather, gather_by
from cfagg.cf.gather_rule import EXACT
from cfagg.cf.recipe import Recipe, inverse, master_fill, recipe
from cfagg.errors import ConformError, FragmentMismatchError

__all__ = ["Recipe", "apply", "master_fill", "recipe"]


def apply(recipe: Recipe, block: npt.NDArray[Any], target: npt.NDArray[Any], *, where: str) -> None:
    """Write a block, in the order and direction of the sub-array, to its place `target` in a master array."""
    view = Axes(recipe.axes, recipe.flips, recipe.extra).view(block, target.shape, where=where)
    if view.dtype.kind not in "iuf" or target.dtype.kind not in "iuf":
        np.copyto(target, view if recipe.texts is None else _with_texts(*recipe.texts, view, where))
        return
    if view.dtype.itemsize != recipe.source.itemsize or (view.dtype.kind == "f") != (recipe.source.kind == "f"):
        raise FragmentMismatchError(
            f"{where}: values of type {view.dtype.name} were read, but the file's header says {recipe.source.name}; "
            "the file has changed since it was opened: read it again"
        )
    out = target.view(recipe.target) if target.dtype.isnative else np.empty(target.shape, recipe.target)
    view = view.view(recipe.source if view.dtype.isnative else recipe.source.newbyteorder(view.dtype.byteorder))
    if recipe.identity:
        gather_by(view, out, recipe.rule)
    elif recipe.dates is not None:
        _apply_dates(recipe, view, out, where)
    elif recipe.whole:
        _apply_whole(recipe, view, out, where)
    else:
        bad, first = gather_by(view, out, recipe.rule)
        if bad:
            raise _refused(recipe, view, bad, first, where)
    if recipe.clash is not None:
        _check_clash(recipe, view, out, where)
    if not target.dtype.isnative:
        target.view(recipe.target.newbyteorder(target.dtype.byteorder))[...] = out


def _with_texts(own: tuple[Any, ...], wanted: tuple[Any, ...], view: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return texts of which those that are missing are those of the master."""
    texts = view.ravel().tolist()
    valid = [text for text in texts if text in wanted and text not in own]
    if valid:
        raise ConformError(
            f"{where}: the valid text {valid[0]!r} of the part read is a missing one of the aggregation ({len(valid)} "
            "such texts); declare another _FillValue on the aggregation"
        )
    made = np.empty(len(texts), view.dtype)
    made[:] = [wanted[0] if text in own else text for text in texts]
    return made.reshape(view.shape)


def _apply_whole(recipe: Recipe, view: npt.NDArray[Any], out: npt.NDArray[Any], where: str) -> None:
    """Compute integers, and refuse results that are not whole numbers."""
    bad, first = _integers(recipe, view, out) or _rounded(recipe, view, out)
    if bad:
        raise _refused(recipe, view, bad, first, where)


def _integers(recipe: Recipe, view: npt.NDArray[Any], out: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Compute integers from integers without rounding, if the results fit in 8 bytes; return which are refused."""
    if recipe.exact is None:
        return None
    factor, shift, divisor = recipe.exact
    missing = recipe.missing.mask(view)
    values = np.where(missing, 0, view)
    most = max(1, *(abs(int(v)) for v in (values.min(initial=0), values.max(initial=0))))
    if most * abs(factor) + abs(shift) + divisor >= 2**63:
        return None
    whole, rest = (np.where(missing, 0, v) for v in np.divmod(values.astype(np.int64) * factor + shift, divisor))
    bad, first = _count((rest != 0) | missing if recipe.fill is None else rest != 0)
    if not bad:
        bad, first = gather(whole, out)
        if not bad and recipe.fill is not None:
            np.copyto(out, recipe.fill, where=missing)
    return bad, first


def _rounded(recipe: Recipe, view: npt.NDArray[Any], out: npt.NDArray[Any]) -> tuple[int, int]:
    """Compute integers in reals of 8 bytes; return which are refused."""
    exact = np.empty(view.shape, np.float64)
    missing = recipe.missing
    bad, first = gather(view, exact, recipe.scale, recipe.offset, missing.fills, missing.low, missing.high)
    if not bad:
        whole = np.rint(exact)
        # Possible error of the computation itself: scale, product and sum are each rounded once.
        slack = np.abs(exact)
        slack += 2 * abs(recipe.offset)
        slack *= 2.0**-51
        lossy = np.abs(exact - whole) > slack
        # Beyond 2**53 fractions cannot be represented.
        lossy |= slack > 2.0
        if view.dtype.kind in "iu":
            lossy |= ((view > EXACT) | (view < -EXACT)) & ~np.isnan(exact)
        bad, first = _count(lossy)
        if not bad:
            bad, first = gather(whole, out, fill=recipe.fill)
    return bad, first


def _apply_dates(recipe: Recipe, view: npt.NDArray[Any], out: npt.NDArray[Any], where: str) -> None:
    """Convert the calendar of reference times."""
    dates, missing = recipe.dates, recipe.missing
    if dates is None:
        return
    times = np.empty(view.shape, np.float64)
    bad, first = gather(view, times, recipe.scale, recipe.offset, missing.fills, missing.low, missing.high)
    if bad:
        raise _refused(recipe, view, bad, first, where)
    changed = dates(times, where=where)
    if recipe.pack or out.dtype.kind == "f":
        scale, offset = inverse(recipe.pack)
        bad, first = gather(changed, out, float(scale), float(offset), fill=recipe.fill)
    else:
        whole = np.rint(changed)
        # Beyond 2**53 fractions cannot be represented.
        bad, first = _count((np.abs(changed - whole) > dates.tolerance(changed)) | (np.abs(changed) > 2.0**53))
        if not bad:
            bad, first = gather(whole, out, fill=recipe.fill)
    if bad:
        raise _refused(recipe, view, bad, first, where)


def _check_clash(recipe: Recipe, view: npt.NDArray[Any], out: npt.NDArray[Any], where: str) -> None:
    """Refuse a valid value that has become equal to the master's missing value."""
    if recipe.clash is None:
        return
    near = out == recipe.fill
    if not near.any():
        return
    low, high = recipe.clash
    near &= (view >= low) & (view <= high)
    for fill in recipe.missing.fills:
        near &= view != fill
    bad, first = _count(near)
    if bad:
        index, value = _element(view, first)
        raise ConformError(
            f"{where}: the valid value {value} at {index} of the part read would become {recipe.fill}, the missing "
            f"value of the aggregation ({bad} such values); declare another _FillValue on the aggregation"
        )


def _refused(recipe: Recipe, view: npt.NDArray[Any], bad: int, first: int, where: str) -> ConformError:
    """Return the error for values that the master array cannot represent, naming the first."""
    index, value = _element(view, first)
    if recipe.missing.mask(np.array(value, view.dtype)):
        reason = f"is a missing value, and the aggregation, of type {recipe.dtype.name}, declares none"
        remedy = "declare a _FillValue on the aggregation"
    else:
        becomes = value * recipe.scale + recipe.offset
        reason = "" if becomes == value else f"would become {becomes:.15g} and "
        reason += f"cannot be held by type {recipe.dtype.name} without loss"
        remedy = "give the aggregation a type that can represent it"
    return ConformError(
        f"{where}: the value {value} at {index} of the part read {reason} ({bad} such values); {remedy}"
    )


def _element(view: npt.NDArray[Any], flat: int) -> tuple[tuple[int, ...], Any]:
    """Return the index and the value of an element by its flat index in C order."""
    index = tuple(int(i) for i in np.unravel_index(flat, view.shape))
    return index, view[index].item()


def _count(flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the number of flags that are set, and the flat index of the first or -1."""
    count = int(np.count_nonzero(flags))
    return count, int(np.argmax(flags)) if count else -1
