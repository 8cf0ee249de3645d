"""Profiles of stations and trajectories in files of each form that CF gives them, and read from these by its text.

A profile is known as CF means it: the name of its feature, its time and place, and what was measured at which height.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import netCDF4
import numpy as np

TIME = {"standard_name": "time", "units": "days since 2000-01-01"}
LATITUDE = {"standard_name": "latitude", "units": "degrees_north"}
LONGITUDE = {"standard_name": "longitude", "units": "degrees_east"}
ALTITUDE = {"standard_name": "altitude", "units": "m", "positive": "up", "axis": "Z"}
DATA = {"standard_name": "air_temperature", "units": "K"}

#: The role of the name of each kind of feature, and the dimension of features.
KINDS = {"timeSeriesProfile": ("timeseries_id", "station"), "trajectoryProfile": ("trajectory_id", "trajectory")}


class Profile(NamedTuple):
    """One profile."""

    feature: str
    time: float
    latitude: float
    longitude: float
    levels: tuple[tuple[float, float], ...]  # height and value


class How(NamedTuple):
    """How a file says what it holds."""

    kind: str = "timeSeriesProfile"
    fill: float = -999.0
    heights: str = "m"
    down: bool = False
    packed: bool = False
    since: str = "days since 2000-01-01"


class _File:
    """A file while it is written."""

    def __init__(self, path: Path, how: How, **sizes: int) -> None:
        self.path, self.how, self.sizes = path, how, sizes
        self.role, self.features = KINDS[how.kind]
        self.variables: list[tuple[str, Any, tuple[str, ...], Any, dict[str, Any]]] = []

    def add(self, name: str, dims: tuple[str, ...], values: Any, said: dict[str, Any], dtype: Any = "f8") -> None:
        self.variables.append((name, dtype, dims, values, said))

    def coordinates(self, places: tuple[str, ...], profiles: tuple[str, ...], levels: tuple[str, ...], of: Any) -> None:
        """Add time, place and height along dimensions; `of` has the values of each."""
        self.add("time", profiles, of["time"], TIME)
        self.add("lat", places, of["latitude"], LATITUDE)
        self.add("lon", places, of["longitude"], LONGITUDE)
        self.add("alt", levels, of["height"], ALTITUDE)

    def write(self) -> str:
        with netCDF4.Dataset(self.path, "w") as file:
            file.featureType = self.how.kind
            for name, size in self.sizes.items():
                file.createDimension(name, size)
            for name, dtype, dims, values, said in self.variables:
                real = dtype == "f8"
                packed = self.how.packed and name == "ta"
                fill = {"fill_value": self.how.fill} if real and not packed else {"fill_value": -1} if packed else {}
                own = file.createVariable(name, "i4" if packed else dtype, dims, **fill)
                own.setncatts(said)
                if packed:
                    own.setncatts({"scale_factor": 0.5, "add_offset": 200.0})
                if name == "alt" and self.how.heights == "km":
                    own.units, values = "km", np.asarray(values) / 1000
                if name == "time" and self.how.since.startswith("hours"):
                    own.units, values = self.how.since, np.asarray(values) * 24
                if dtype is str:
                    own[...] = np.array(values, object)
                else:
                    own[...] = np.ma.masked_invalid(values) if real else values
        return str(self.path)


def _names(profiles: Sequence[Profile]) -> list[str]:
    return list(dict.fromkeys(p.feature for p in profiles))


def one_feature(path: Path, profiles: Sequence[Profile], how: How, *, levels: bool) -> str:
    """Write profiles of one feature; `levels` says that all have the same, which is an axis."""
    deepest = max(len(p.levels) for p in profiles)
    file = _File(path, how, profile=len(profiles), z=deepest)
    heights, values = _tables(profiles, deepest, how)
    moving = how.kind == "trajectoryProfile"
    place = ("profile",) if moving else ()
    of = {
        "time": [p.time for p in profiles],
        "latitude": [p.latitude for p in profiles] if moving else profiles[0].latitude,
        "longitude": [p.longitude for p in profiles] if moving else profiles[0].longitude,
        "height": heights[0] if levels else heights,
    }
    file.coordinates(place, ("profile",), ("z",) if levels else ("profile", "z"), of)
    file.add(file.features, (), profiles[0].feature, {"cf_role": file.role}, str)
    file.add("ta", ("profile", "z"), values, DATA | {"coordinates": f"time lat lon alt {file.features}"})
    return file.write()


def many_features(path: Path, profiles: Sequence[Profile], how: How, *, levels: bool) -> str:
    """Write the profiles of several features as an incomplete array, or an orthogonal one along `levels`."""
    names = _names(profiles)
    of_each = [[p for p in profiles if p.feature == n] for n in names]
    most, deepest = max(map(len, of_each)), max(len(p.levels) for p in profiles)
    file = _File(path, how, **{KINDS[how.kind][1]: len(names)}, profile=most, z=deepest)
    time, lat, lon = (np.full((len(names), most), np.nan) for _ in range(3))
    heights, values = np.full((2, len(names), most, deepest), np.nan)
    for i, own in enumerate(of_each):
        n = len(own)
        time[i, :n], lat[i, :n], lon[i, :n] = np.transpose([(p.time, p.latitude, p.longitude) for p in own])
        heights[i, :n], values[i, :n] = _tables(own, deepest, how)
    both = (file.features, "profile")
    moving = how.kind == "trajectoryProfile"
    of = {
        "time": time,
        "latitude": lat if moving else lat[:, 0],
        "longitude": lon if moving else lon[:, 0],
        "height": heights[0, 0] if levels else heights,
    }
    file.coordinates(both if moving else both[:1], both, ("z",) if levels else (*both, "z"), of)
    file.add("name", both[:1], names, {"cf_role": file.role}, str)
    file.add("ta", (*both, "z"), values, DATA | {"coordinates": "time lat lon alt name"})
    return file.write()


def ragged(path: Path, profiles: Sequence[Profile], how: How) -> str:
    """Write profiles as a contiguous ragged array, with an index of their features."""
    names = _names(profiles)
    sizes = [len(p.levels) for p in profiles]
    file = _File(path, how, **{KINDS[how.kind][1]: len(names)}, profile=len(profiles), obs=sum(sizes))
    moving = how.kind == "trajectoryProfile"
    place = ("profile",) if moving else (file.features,)
    standing = profiles if moving else [next(p for p in profiles if p.feature == n) for n in names]
    of = {
        "time": [p.time for p in profiles],
        "latitude": [p.latitude for p in standing],
        "longitude": [p.longitude for p in standing],
        "height": [z for p in profiles for z, _ in p.levels],
    }
    file.coordinates(place, ("profile",), ("obs",), of)
    file.add("name", (file.features,), names, {"cf_role": file.role}, str)
    file.add("which", ("profile",), [names.index(p.feature) for p in profiles],
             {"instance_dimension": file.features}, "i4")  # fmt: skip
    file.add("size", ("profile",), sizes, {"sample_dimension": "obs"}, "i4")
    file.add("ta", ("obs",), [v for p in profiles for _, v in p.levels], DATA | {"coordinates": "time lat lon alt"})
    return file.write()


def _tables(profiles: Sequence[Profile], deepest: int, how: How) -> Any:
    """Return heights and values, one profile in each row, in the direction in which they are written."""
    out = np.full((2, len(profiles), deepest), np.nan)
    for k, own in enumerate(profiles):
        if own.levels:
            out[:, k, : len(own.levels)] = np.transpose(own.levels)
    return out[:, :, ::-1] if how.down else out


def profiles_of(found: Any, name: str) -> Iterator[Profile]:
    """Yield the profiles of a variable of a dataset of xarray, whichever form it has."""
    variable = found[name]
    named = str(variable.encoding.get("coordinates") or variable.attrs.get("coordinates") or "").split()
    beside = {*named, *(d for d in variable.dims if d in found.variables)}
    own = {found[n].attrs.get("standard_name"): _in_units(found[n]) for n in sorted(beside)}
    sizes = [v for v in found.variables.values() if v.attrs.get("sample_dimension") in variable.dims]
    if not sizes:
        label = next(found[n] for n in sorted(beside) if found[n].attrs.get("cf_role", "").endswith("_id"))
        of = {k: own[k] for k in ("time", "latitude", "longitude", "altitude")} | {"name": label}
        full = {k: _spread(v, variable) for k, v in of.items()}
        levels = next(d for d in variable.dims if d in of["altitude"].dims and d not in of["time"].dims)
        axis = variable.dims.index(levels)
        rows = {k: np.moveaxis(v, axis, -1).reshape(-1, variable.shape[axis]) for k, v in full.items()}
        data = np.moveaxis(variable.values, axis, -1).reshape(-1, variable.shape[axis])
        for k, values in enumerate(data):
            if not np.isnan(rows["time"][k, 0].astype(float)):
                yield _profile(*(rows[n][k] for n in ("name", "time", "latitude", "longitude", "altitude")), values)
        return
    # Nothing but dimensions tells which counts, indices and names are those of a ragged array.
    (size,) = sizes
    (across,) = size.dims
    (which,) = [v for v in found.variables.values() if "instance_dimension" in v.attrs and v.dims == (across,)]
    instances = which.attrs["instance_dimension"]
    (label,) = [v for v in found.variables.values() if v.attrs.get("cf_role") and v.dims == (instances,)]
    stop = np.cumsum(size.values)
    for k, (last, count) in enumerate(zip(stop, size.values, strict=True)):
        row = slice(last - count, last)
        f = int(which.values[k])
        place = [own[n].values[k if own[n].dims == (across,) else f] for n in ("latitude", "longitude")]
        yield _profile([label.values[f]], [own["time"].values[k]], *([p] for p in place),
                       own["altitude"].values[row], variable.values[row])  # fmt: skip


def _in_units(part: Any) -> Any:
    """Return heights in metres and times in days since 2000, whatever their units."""
    units = part.attrs.get("units", "")
    return part * 1000 if units == "km" else part / 24 if units.startswith("hours") else part


def _spread(part: Any, over: Any) -> Any:
    """Return values of something along dimensions of an array for each of its places."""
    turned = part.transpose(*(d for d in over.dims if d in part.dims))
    shape = [over.sizes[d] if d in part.dims else 1 for d in over.dims]
    return np.broadcast_to(turned.values.reshape(shape), over.shape)


def _profile(feature: Any, time: Any, latitude: Any, longitude: Any, heights: Any, values: Any) -> Profile:
    pairs = sorted(
        (round(float(z), 6), round(float(v), 6)) for z, v in zip(heights, values, strict=True) if not np.isnan(v)
    )
    one = (round(float(np.asarray(x).ravel()[0]), 6) for x in (time, latitude, longitude))
    return Profile(str(np.asarray(feature, object).ravel()[0]), *one, tuple(pairs))


def counted(profiles: Sequence[Profile] | Iterator[Profile]) -> Counter[Profile]:
    """Return how often each profile is there; what no height or value is known of is not."""
    return Counter(p._replace(levels=tuple(sorted(p.levels))) for p in profiles)
