"""Parsers of short texts: attributes of CF, options, durations, dates."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import Any

from cfagg.errors import CfaggError
from tests.checking.corpus import CLEAN
from tests.checking.mutations import ATTRIBUTES, TEXTS
from tests.fuzzing.target import target

_METHODS = [
    "time: mean",
    "time: lat: mean (interval: 1 h comment: sampled)",
    "area: mean where land over all_area_types time: maximum within days time: mean over years",
    "time: standard_deviation (interval: 20 minutes interval: 2 hours)",
]
_METHOD_TOKENS = ["mean", "within", "over", "where", "(", ")", ":", "interval:", "comment:", "days", "area:", "1 day"]


@target("cell_methods", seeds=lambda: _METHODS, tokens=_METHOD_TOKENS)
def cell_methods(text: str) -> None:
    from cfagg.cf.cell_methods import parse

    parse(text)


_LISTS = [
    "a: var1 b: var2",
    "crs: lat lon rotated: rlat rlon",
    "lat: lon: linear_var time: quadratic",
    "sigma: s ps: p",
]


@target("lists of pairs", seeds=lambda: _LISTS, tokens=[":", " ", "a:", "::", "/a/b"])
def pairs(text: str) -> None:
    from cfagg.cf import lists

    lists.pairs(text)
    lists.grid_mappings(text)
    lists.interpolations(text)


_WKT = [
    (
        'GEODCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["WGS 84",6378137,298.257223563]],'
        'CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],ANGLEUNIT["degree",0.0174532925199433]]'
    ),
    'PROJCS["a",GEOGCS["b",DATUM["c",SPHEROID["d",6371000,0]],PRIMEM["Greenwich",0]],PARAMETER["e",1E-3]]',
]


@target("WKT", seeds=lambda: _WKT, tokens=['"', "[", "]", ",", "(", ")", "DATUM", "PARAMETER", '""'])
def wkt(text: str) -> None:
    from cfagg.cf.wkt import problems

    problems(text)


_UNITS = ["K", "m s-1", "kg m-2 s^-1", "degrees_north", "1e-3 hPa", "lg(re 1 mW)", "days since 2000-01-01", "m/s @ 3"]


@target("units", seeds=lambda: _UNITS, tokens=["^", "@", "since", "per", "lg(re", ")", "10^-9", "µ", "°"])
def units(text: str) -> None:
    from cfagg.cf import kinds_of_units as units
    from cfagg.cf.calendars import transform
    from cfagg.cf.units import linear_exact

    for function in (units.known, units.is_time, units.is_reference_time, units.split_reference, units.is_temperature):
        function(text)
    units.is_dimensionless(text)
    units.is_logarithmic(text)
    units.convertible(text, "K")
    for function, rest in ((linear_exact, ("K",)), (transform, (None, "K", None))):
        try:
            function(text, *rest)
        except CfaggError:
            continue


_TIMES = [
    *("days since 2000-01-01", "hours since 1850-1-1 12:00:00.5 +01:30", "seconds since 0001-01-01T00:00:00Z"),
    *("months since 1970-01-01 1200", "minutes since -4712-01-01", "days since 1582-10-15 24:00"),
]


@target("reference times", seeds=lambda: _TIMES, tokens=["since", "T", "Z", "UTC", "+", "-", ":", "99999", "1200"])
def reference_times(text: str) -> None:
    from cfagg.cf.calendars import parse, time_transform
    from cfagg.cf.datetimes import parse_datetime

    parse_datetime(text.partition("since ")[2])
    for calendar in (None, "360_day", "noleap"):
        try:
            parse(text, calendar)
            time_transform(text, calendar, "days since 1900-01-01", calendar)
        except CfaggError:
            continue


@target("calendars", seeds=lambda: ["standard", "360_day", "proleptic_gregorian", "noleap"])
def calendars(text: str) -> None:
    from cfagg.cf.calendars import canonical

    canonical(text)


_DURATIONS = ["6h", "1d12h", "90s", "1 day", "PT6H", "P1DT12H", "1.5h", "2w", "30min", "00:30:00"]


@target("durations", seeds=lambda: _DURATIONS, tokens=["P", "T", "h", "d", "-", ".", "e9", "mo", "inf", "nan"])
def durations(text: str) -> None:
    from cfagg.cf.durations import format_duration, parse_duration
    from cfagg.observations.dates import as_duration, parse_frequency

    for function in (parse_duration, parse_frequency, as_duration):
        try:
            found = function(text)
        except CfaggError:
            continue
        except ValueError as error:  # recipes make a problem of their messages
            if function is as_duration and type(error) is ValueError:
                continue
            raise
        if function is parse_duration:
            format_duration(found)


_DATES = [
    "2020-01-01",
    "2020-01-01T12:30:45",
    "20200101",
    "2020-02",
    "2020",
    "2020-01-01 06:00",
    "1969-12-31T23:59:59Z",
]


@target("dates", seeds=lambda: _DATES, tokens=["-", ":", "T", "Z", "+01:00", "99999", "-0001", "NaT", "now"])
def dates(text: str) -> None:
    from cfagg.observations.dates import as_date, first_second, last_second

    for function in (first_second, last_second, as_date):
        try:
            function(text)
        except CfaggError:
            continue
        except ValueError as error:  # recipes make a problem of their messages
            if function is as_date and type(error) is ValueError:
                continue
            raise


@target("windows", seeds=lambda: ["(-6,0]", "[-1d, 12h)", "(-3h,3h)", "6h"], tokens=["(", "[", ")", "]", ",", "-", "h"])
def windows(text: str) -> None:
    from cfagg.observations.dates import parse_window

    str(parse_window(text))


@target("areas", seeds=lambda: ["90,-180,-90,180", "60/-10/40/10"], tokens=[",", "/", "nan", "-"])
def areas(text: str) -> None:
    from cfagg.observations.selection import parse_area, parse_thinning

    for function in (parse_area, parse_thinning):
        for value in (text, text.split(","), tuple(text.split("/"))):
            try:
                function(value)
            except CfaggError:
                continue


@target(
    "options of the command",
    seeds=lambda: [
        "time=1990/1999",
        "lat=30:60",
        "time=[10:500]",
        "a,b",
        "lon=-10:20",
        "time=[1,5,9]",
        "512MiB",
        "1e9",
    ],
    tokens=["=", "[", "]", ":", "/", ",", "KiB", "GB"],
    allowed=(CfaggError, argparse.ArgumentTypeError),
)
def options(text: str) -> None:
    from cfagg.cli import selecting
    from cfagg.runtime.budget import parse_size

    for function in (selecting.names, selecting.selection, parse_size):
        try:
            function(text)
        except (CfaggError, argparse.ArgumentTypeError):
            continue
    array = _series()
    try:
        selecting.positions([selecting.selection(text)], array, {"time": "time", "lat": "latitude", "lon": "longitude"})
    except (CfaggError, argparse.ArgumentTypeError):
        return


@cache
def _series() -> Any:
    import numpy as np
    import pandas as pd
    import xarray as xr

    coords = {"time": pd.date_range("1990", periods=40, freq="YS"), "lat": np.arange(-60.0, 61, 30)}
    coords["lon"] = np.arange(0.0, 360, 60)
    return xr.DataArray(np.zeros((40, 5, 6)), coords, ("time", "lat", "lon"))


_CONFIG = [
    (
        '[check]\nselect = ["AGG", "UNI001"]\ncf-version = "1.8"\ndata = true\nallow = ["../data"]\nstrict = false\n'
        '[check.per-file-ignores]\n"*.nc" = ["DOC"]\n[[check.suppress]]\ncodes = ["TIM"]\nvariables = ["t*"]\n'
    ),
    '[check]\nignore = "DOC"\ntables = {standard-names = "names.csv"}\n[check.per-variable-ignores]\ntas = ["UNI"]\n',
]


@target(
    "cfagg.toml", seeds=lambda: _CONFIG, tokens=["[", "]", "=", "select", "check", "suppress", "true", '"', "{", "}"]
)
def config(text: str) -> None:
    from cfagg.checking.config import load
    from tests.fuzzing.files import stored

    load(Path(stored(text.encode("utf-8", "surrogatepass"), ".toml")))


@cache
def _checked() -> list[Any]:
    return [[key, "tas", name, text] for key in ("grid",) for name, text in zip(ATTRIBUTES, TEXTS * 3, strict=False)]


@target("rules", seeds=_checked, tokens=[*TEXTS, *ATTRIBUTES, *CLEAN])
def rules(change: Any) -> None:
    """Give an attribute of a clean dataset another value, as `[dataset, variable, attribute, value]`."""
    from cfagg.checking.engine import run
    from cfagg.checking.options import Options
    from cfagg.formats.cdl.parsing import parse_cdl

    if not isinstance(change, list) or len(change) < 4 or not all(isinstance(c, str) for c in change[:4]):
        return
    key, variable, name, value = change[:4]
    with parse_cdl(CLEAN.get(key, CLEAN["grid"])) as dataset:
        known = {v.name: v for v in dataset.variables}
        owner = known.get(variable) or dataset.root
        owner.attributes[name] = value
        crashed = [f for f in run(dataset, Options(data=True)).findings if f.is_failure]
    if crashed:
        raise AssertionError(str(crashed[0]))
