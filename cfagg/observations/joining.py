"""`join_observations`: several datasets, of observations and of fields, as one, whose samples have a part from each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np

from cfagg.cf.instants import epoch_text
from cfagg.errors import OptionError, Problem, SelectionError
from cfagg.errors.arguments import is_one, shown
from cfagg.formats.values.locks import LIBRARY
from cfagg.observations.dataset import Observations
from cfagg.observations.dates import sample_numbers

__all__ = ["Joined", "JoinedSample", "join_observations"]

type Int64 = np.ndarray[Any, np.dtype[np.int64]]


class JoinedSample(Mapping[str, Any]):
    """The parts of one sample by the names of their datasets."""

    __slots__ = ("_parts", "dates")

    def __init__(self, dates: np.ndarray[Any, np.dtype[np.datetime64]], parts: Mapping[str, Any]) -> None:
        self.dates = dates
        self._parts = dict(parts)

    @property
    def date(self) -> np.datetime64:
        """Date of the sample, datetime64[s]."""
        if len(self.dates) != 1:
            raise OptionError(f"{len(self.dates)} samples have no one date: see dates")
        date: np.datetime64 = self.dates[0]
        return date

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedSample, (self.dates, self._parts)

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        parts = [(name, f"shape {part.shape}") for name, part in self._parts.items()]
        return facts_html(f"Sample of {', '.join(map(str, self.dates[:3]))}", parts)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {part.shape}" for name, part in self._parts.items())
        return f"<JoinedSample of {', '.join(map(str, self.dates[:3]))}: {parts}>"


class Joined:
    """Several datasets with the same dates as one, created by `cfagg.join_observations`.

    ``joined[i]`` is a `JoinedSample`: a mapping of the datasets' names to their samples at ``joined.dates[i]``.

    Parameters
    ----------
    members : mapping of str to Observations or Fields
        The datasets.
    epochs : int64 (samples,)
        Dates of the samples in seconds since 1970.
    positions : mapping of str to int64 (samples,)
        For each dataset, the number of its sample at each date.
    """

    def __init__(self, members: Mapping[str, Any], epochs: Int64, positions: Mapping[str, Int64]) -> None:
        self.members = dict(members)
        self._epochs = epochs
        self._positions = dict(positions)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def dates(self) -> np.ndarray[Any, np.dtype[np.datetime64]]:
        """Dates of the samples, datetime64[s] (samples,)."""
        return self._epochs.view("datetime64[s]")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return tuple(self.members)

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Variables of each dataset."""
        return {name: tuple(member.variables) for name, member in self.members.items()}

    @property
    def statistics(self) -> dict[str, dict[str, Any]]:
        """Statistics of each dataset that has any, which are those of observations."""
        return {n: m.statistics for n, m in self.members.items() if isinstance(m, Observations)}

    def __getitem__(self, key: Any) -> JoinedSample:
        """Return a sample, or the rows and fields of several selected by slice, consecutive numbers or mask."""
        numbers = self._numbers(key)
        parts = {name: member[_of(self._positions[name], numbers)] for name, member in self.members.items()}
        return JoinedSample(np.atleast_1d(self.dates[numbers]), parts)

    def __iter__(self) -> Iterator[JoinedSample]:
        return (self[i] for i in range(len(self)))

    def details(self, key: int) -> dict[str, Any]:
        """Return places and dates of each part of ``joined[key]``."""
        number = self._numbers(key)
        if not isinstance(number, int):
            raise SelectionError(f"details of {key!r:.80}: ask for one sample by its number")
        return {name: member.details(_of(self._positions[name], number)) for name, member in self.members.items()}

    def prefetch(self, *keys: Any) -> None:
        """Start reading samples in the background, so that ``joined[i]`` finds their rows in memory."""
        for name, member in self.members.items():
            if isinstance(member, Observations):
                member.prefetch(*(_of(self._positions[name], self._numbers(key)) for key in keys))

    def metadata(self) -> dict[str, Any]:
        """Return the metadata that inference needs, those of each dataset, in JSON types."""
        ends = [epoch_text(e) for e in self._epochs[[0, -1]]] if len(self) else [None, None]
        return {
            "kind": "joined",
            "start": ends[0],
            "end": ends[1],
            "samples": len(self),
            "members": {name: member.metadata() for name, member in self.members.items()},
        }

    def _numbers(self, key: Any) -> int | Int64:
        """Return the number of a sample, or the numbers of several, int64 (k,)."""
        return sample_numbers(key, len(self))

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        return facts_html("Joined observations", [("samples", f"{len(self):,}")], [("datasets", self.names)])

    def __repr__(self) -> str:
        return f"<Joined: {len(self)} samples of {', '.join(self.names)}>"


def _of(positions: Int64, numbers: Any) -> Any:
    found = positions[numbers]
    return int(found) if np.ndim(found) == 0 else found


@LIBRARY.keeping_files()
def join_observations(
    datasets: Mapping[str, Any] | Sequence[Any], *, dates: Literal["same", "common"] = "same"
) -> Joined:
    """Join several datasets as one, whose samples have a part from each.

    Parameters
    ----------
    datasets : mapping of str, or sequence
        Datasets of `cfagg.open_observations`, and gridded fields: an `xarray.Dataset` with a time, such as `cfagg.read`
        returns, or its `cfagg.observations.fields.Fields`.  In a sequence, datasets are named after their stores, and
        fields ``fields``.
    dates : {"same", "common"}
        ``"same"`` requires that all observations have the same dates, and the fields have all of them.  ``"common"``
        uses the dates that all datasets have.

    Returns
    -------
    Joined
        ``joined[i]`` maps names to samples: ``joined[i]["synop"]`` (rows, columns), ``joined[i]["fields"]``
        (variables, …).

    Raises
    ------
    OptionError
        Dates differ, with all differences listed; there is no common date; or names occur twice.

    Notes
    -----
    Source: "Support irregular observations datasets": combining several types of observations, or fields and
    observations, is left to the data loader at training time.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import xarray as xr
    >>> from cfagg import create_observations, open_observations
    >>> def reports(start, end):
    ...     date = pd.to_datetime(["2020-01-01T03:00"])
    ...     return pd.DataFrame({"date": date, "latitude": 51.5, "longitude": -0.25, "pressure": 1013})
    >>> recipe = {"dates": {"start": 2020, "end": 2020}, "input": reports, "output": {"layout": "tabular"}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = create_observations(recipe, f"{folder.name}/synop.zarr").path
    >>> synop = open_observations(store, "2020-01-01", "2020-01-01", "(-3,+3]", "12h")
    >>> times = np.array(["2020-01-01T00", "2020-01-01T12"], "datetime64[ns]")
    >>> analysis = xr.Dataset({"t": (("time", "cell"), [[280.0, 281.0], [290.0, 291.0]])}, {"time": times})
    >>> joined = join_observations({"synop": synop, "analysis": analysis})
    >>> len(joined), joined[0]["synop"].tolist(), joined[1]["analysis"].tolist()
    (2, [[1013.0]], [[290.0, 291.0]])
    >>> folder.cleanup()
    """
    if not is_one(dates, ("same", "common")):
        raise OptionError(f"dates={shown(dates)} must be 'same' or 'common'")
    members = {name: _member(name, value) for name, value in _named(datasets).items()}
    held = {name: _epochs(member) for name, member in members.items()}
    if dates == "common":
        epochs = None
        for own in held.values():
            epochs = np.sort(own) if epochs is None else np.intersect1d(epochs, own)
        if epochs is None or not len(epochs):
            raise OptionError(
                "the datasets have no date in common",
                [Problem(name, f"has {_extent(own)}") for name, own in held.items()],
            )
    else:
        epochs = _same(members, held)
    return Joined(members, epochs, {name: _positions(own, epochs) for name, own in held.items()})


def _named(datasets: Any) -> dict[str, Any]:
    if isinstance(datasets, Mapping):
        named = {str(k): v for k, v in datasets.items()}
        if len(named) < len(datasets):
            raise OptionError(
                f"several datasets have the same name as text: {', '.join(map(repr, datasets))}; rename one"
            )
    elif isinstance(datasets, (str, bytes)) or not isinstance(datasets, Sequence):
        raise OptionError(
            f"datasets: found an object of type {type(datasets).__name__}; expected a mapping of names to datasets, "
            "or a list of datasets"
        )
    else:
        names = [PurePosixPath(d.path.rstrip("/")).stem if isinstance(d, Observations) else "fields" for d in datasets]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise OptionError(
                f"several datasets are named {', '.join(twice)}: give names, join_observations({{'a': ..., 'b': ...}})"
            )
        named = dict(zip(names, datasets, strict=True))
    if not named:
        raise OptionError("datasets: there is no dataset to join")
    return named


def _member(name: str, value: Any) -> Any:
    from cfagg.observations.fields import Fields

    if isinstance(value, (Observations, Fields)):
        return value
    xarray = sys.modules.get("xarray")
    if xarray is not None and isinstance(value, xarray.Dataset):
        return Fields(value)
    raise OptionError(
        f"datasets: {name!r} is {type(value).__name__}: it must be a dataset of cfagg.open_observations, an "
        "xarray.Dataset or Fields of one"
    )


def _epochs(member: Any) -> Int64:
    epochs: Int64 = member.plan.dates.epochs() if isinstance(member, Observations) else member.epochs
    return epochs


def _same(members: Mapping[str, Any], held: Mapping[str, Int64]) -> Int64:
    """Return the dates of all observations, which the fields must have too."""
    leading = next((n for n, m in members.items() if isinstance(m, Observations)), next(iter(members)))
    epochs = held[leading]
    problems = []
    for name, own in held.items():
        if isinstance(members[name], Observations):
            if not np.array_equal(own, epochs):
                problems.append(Problem(name, f"has {_extent(own)}; expected those of {leading!r}, {_extent(epochs)}"))
        elif len(missing := np.setdiff1d(epochs, own)):
            problems.append(
                Problem(
                    name, f"has no field at {len(missing)} of {len(epochs)} dates, the first {epoch_text(missing[0])}"
                )
            )
    if problems:
        raise OptionError(
            "the datasets have different dates: open them with the same start, end and frequency, or join them with "
            "dates='common'",
            problems,
        )
    return epochs


def _positions(own: Int64, epochs: Int64) -> Int64:
    """Return the positions of dates, all of which exist, among those of a dataset."""
    order = np.argsort(own, kind="stable")
    return order[np.searchsorted(own, epochs, sorter=order)]


def _extent(epochs: Int64) -> str:
    if not len(epochs):
        return "no date"
    return f"{len(epochs)} dates from {epoch_text(epochs.min())} to {epoch_text(epochs.max())}"
