"""Files that overlap in any way along two axes, and every choice: against what plain NumPy says of each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import netcdf_file

import cfagg
from cfagg.errors import OptionError

TIMES, LATITUDES = 6, 4
DAYS, DEGREES = np.array([0.0, 1, 2, 4, 8, 9]), np.array([-60.0, -20, 20, 70])


@dataclass(frozen=True)
class Part:
    """One file: the times and latitudes that it has, whether these are stored backwards, and how times are counted."""

    times: tuple[int, ...]
    latitudes: tuple[int, ...]
    late: bool = False
    north: bool = False
    hours: bool = False

    def value(self, number: int) -> np.ndarray:
        """Return values that say of which file, time and latitude they are, as stored."""
        t = np.array(self.times)[:: -1 if self.late else 1]
        y = np.array(self.latitudes)[:: -1 if self.north else 1]
        return number * 100 + t[:, None] * 10 + y

    def write(self, path: Path, number: int, *, bounds: bool) -> str:
        """Write the file."""
        t = DAYS[list(self.times)][:: -1 if self.late else 1]
        y = DEGREES[list(self.latitudes)][:: -1 if self.north else 1]
        scale, origin = (24.0, 24.0 * 31) if self.hours else (1.0, 0.0)
        with netcdf_file(path, "w", version=2) as file:
            for name, size in (("time", len(t)), ("lat", len(y)), ("two", 2)):
                file.createDimension(name, size)
            since = "hours since 1999-12-01" if self.hours else "days since 2000-01-01"
            for name, values, standard, units in (
                ("time", t * scale + origin, "time", since),
                ("lat", y, "latitude", "degrees_north"),
            ):
                own = file.createVariable(name, "f8", (name,))
                own.standard_name, own.units = standard, units
                own[:] = values
                if bounds:
                    own.bounds = f"{name}_bnds"
                    half = 0.5 * (scale if name == "time" else 1.0)
                    ends = np.stack([values - half, values + half], axis=1)
                    file.createVariable(own.bounds, "f8", (name, "two"))[:] = ends[:, :: -1 if self.north else 1]
            tas = file.createVariable("tas", "f8", ("time", "lat"))
            tas.standard_name, tas.units = "air_temperature", "K"
            tas[:] = self.value(number)
        return str(path)


def ranges(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    ends = st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(sorted).filter(lambda e: e[0] < e[1])
    return ends.map(lambda e: tuple(range(*e)))


def parts(latitudes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[list[Part]]:
    flag = st.booleans()
    return st.lists(st.builds(Part, ranges(TIMES), latitudes, flag, flag, flag), min_size=1, max_size=5)


def arrays(
    names: list[str], choice: str, *, interleave: bool = False
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the values of each array with the numbers of its times and latitudes."""
    found = cfagg.aggregate(names, on_overlap=choice, interleave=interleave, decode_times=False)
    out = []
    for name in found.data_vars:
        if str(name).startswith("tas"):
            own = found[name]
            time, lat = (own[d] for d in own.dims)
            days = time.values if "days" in time.units else (time.values - 24.0 * 31) / 24
            out.append((own.values, np.searchsorted(DAYS, days - 1e-6), np.searchsorted(DEGREES, lat.values)))
            for coordinate in (time, lat):
                bounds = coordinate.attrs.get("bounds")
                if bounds is not None:
                    ends = np.sort(found[bounds].values, axis=1)
                    np.testing.assert_allclose(ends.mean(axis=1), coordinate.values)
    return out


def owners(made: list[Part], choice: str) -> dict[tuple[int, int], int]:
    """Return which file has each place first, or last."""
    out: dict[tuple[int, int], int] = {}
    for number, part in enumerate(made):
        for place in ((t, y) for t in part.times for y in part.latitudes):
            if choice == "last" or place not in out:
                out[place] = number
    return out


def check(made: list[Part], choice: str, *, bounds: bool, turn: Callable[[list[str]], list[str]] = list) -> int:
    """Check that each value of each array is one of a file at its place; return how many arrays there are."""
    with TemporaryDirectory() as folder:
        names = turn([p.write(Path(folder) / f"{k}.nc", k, bounds=bounds) for k, p in enumerate(made)])
        wanted = {k * 100 + t * 10 + y for k, p in enumerate(made) for t in p.times for y in p.latitudes}
        if choice == "error":
            first = arrays(names, "first")
            kept = {int(v) for values, *_ in first for v in values.ravel()}
            if kept != wanted:
                with pytest.raises(OptionError, match=r"in common|has all coordinates"):
                    arrays(names, "error")
                return -1
        found = arrays(names, choice)
        seen: list[int] = []
        for values, times, latitudes in found:
            place = times[:, None] * 10 + latitudes
            np.testing.assert_array_equal(values % 100, place)
            seen += values.ravel().astype(int).tolist()
            own = {int(v) // 100 for v in values.ravel()}
            if choice in ("first", "last"):
                inside = owners([p if k in own else Part((), ()) for k, p in enumerate(made)], choice)
                for v, p in zip(values.ravel().astype(int), place.ravel(), strict=True):
                    assert inside[divmod(int(p), 10)] == v // 100
        assert len(seen) == len(set(seen))
        if choice in ("apart", "error"):
            assert set(seen) == wanted
        else:
            assert {v % 100 for v in seen} == {v % 100 for v in wanted}
        return len(found)


@given(parts(st.just(tuple(range(LATITUDES)))), st.sampled_from(["first", "last"]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_files_that_overlap_in_time_are_one_array_of_which_each_value_is_of_the_first_or_the_last(
    made: list[Part], choice: str, bounds: bool
) -> None:
    assert check(made, choice, bounds=bounds) == 1


@given(parts(ranges(LATITUDES)), st.sampled_from(["apart", "error", "first", "last"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_files_that_overlap_along_two_axes_are_arrays_of_which_each_value_stands_at_its_place(
    made: list[Part], choice: str, bounds: bool
) -> None:
    check(made, choice, bounds=bounds)


@pytest.mark.full
@given(parts(ranges(LATITUDES)), st.sampled_from(["apart", "error", "first", "last"]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_files_that_overlap_along_two_axes_are_arrays_of_which_each_value_stands_at_its_place_always(
    made: list[Part], choice: str, bounds: bool
) -> None:
    check(made, choice, bounds=bounds)
