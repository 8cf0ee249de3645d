"""Sources for builds in tests: functions of a module, so that other processes can call them, too."""

import os
import pathlib

import numpy as np
import pandas as pd

START = np.datetime64("2020-01-01", "s")


def table(days: int = 10, per_day: int = 400) -> pd.DataFrame:
    """Observations in no order, some of them twice, some between two seconds."""
    chance = np.random.default_rng(days)
    n = days * per_day
    seconds = chance.integers(0, days * 86400 * 2, n) / 2
    # Rows that round into the next day, and equal ones in both of the days they are near to.
    seconds[:days] = np.arange(1, days + 1) * 86400 - 0.5
    frame = pd.DataFrame(
        {
            "date": START.astype("M8[ms]") + (seconds * 1000).astype("i8").astype("m8[ms]"),
            "latitude": chance.integers(-900, 901, n) / 10,
            "longitude": chance.integers(-1800, 1800, n) / 10,
            "t": chance.normal(280, 10, n).astype("f4"),
            "wind": chance.choice([0.0, -0.0, 5.5, np.nan], n),
        }
    )
    # The last of them round to no next midnight: the store ends with the recipe's dates.
    frame = frame[frame["date"] < START + np.timedelta64(days, "D") - np.timedelta64(1, "s")]
    return pd.concat([frame, frame.iloc[::7]], ignore_index=True)


ALL = table()


def reports(start, end):
    """Return the rows of some dates."""
    return ALL[(ALL["date"] >= np.datetime64(start)) & (ALL["date"] < np.datetime64(end))]


def small_frames(start, end):
    """Give the same in many frames, with columns in turn in another order."""
    rows = reports(start, end)
    for i in range(0, len(rows), 97):
        frame = rows.iloc[i : i + 97]
        yield frame[frame.columns[::-1]] if i % 2 else frame


def failing(start, end):
    """Return the same, but raise on the fourth day as long as a file is there."""
    if start.day == 4 and pathlib.Path(os.environ["CFAGG_TEST_FAIL"]).exists():
        raise RuntimeError("the tape is broken")
    return reports(start, end)


def recipe(function=reports, *, start="2020-01-01", end="2020-01-10", group_by="daily", statistics=None, **output):
    """Return a recipe."""
    return {
        "dates": {"start": start, "end": end, "frequency": "1d"},
        "input": function,
        "output": {"layout": "tabular", "rows_per_chunk": 700, "format": "zarr2", **output},
        "build": {"group_by": group_by},
        "statistics": statistics or {},
    }


def expected(frame: pd.DataFrame = ALL) -> np.ndarray:
    """Return the rows of a store of these observations, by plain means."""
    from tests import oracles

    ms = frame["date"].to_numpy().astype("M8[ms]").astype("i8")
    seconds = np.round(ms / 1000).astype("i8")
    columns = [
        seconds // 86400,
        seconds % 86400,
        frame["latitude"],
        frame["longitude"] % 360,
        frame["t"],
        frame["wind"],
    ]
    rows = np.stack([np.asarray(c, "f8").astype("f4") for c in columns], axis=1)
    rows[rows[:, 3] == 360, 3] = 0
    return oracles.sorted_rows(rows)


def contents(store) -> dict[str, bytes]:
    """Return all files of a store."""
    root = pathlib.Path(store)
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def from_file(folder: pathlib.Path, **output) -> dict:
    """Write the observations into a file, and return a recipe that reads it."""
    ALL.to_csv(folder / "reports.csv", index=False)
    return recipe(**output) | {"input": {"csv": {"path": str(folder / "reports.csv")}}}
