"""What is in a store, in numbers."""

import math

import numpy as np

from cfagg.observations.describe import describe
from cfagg.observations.store import open_store
from tests.observations.small_stores import epochs_of, hourly, table, write
from tests.observations.written import write_rows


def test_a_store_is_described_by_its_metadata_and_index(tmp_path):
    path, rows = hourly(tmp_path / "a.zarr", licence="CC-BY-4.0", variables_metadata={"t": {"units": "K"}})
    found = describe(open_store(path))
    epochs = epochs_of(rows)
    assert (found.rows, found.first, found.last) == (720, epochs[0], epochs[-1])
    assert found.entries == len(np.unique(epochs))
    assert [(v.name, v.units) for v in found.variables] == [("t", "K"), ("u", ""), ("v", "")]
    assert found.variables[1].statistics["mean"] == rows[:, 5].astype("f8").mean()
    assert (found.chunk, found.held, found.codecs, found.attributes["licence"]) == (
        50,
        50,
        "blosc zstd bitshuffle",
        "CC-BY-4.0",
    )
    step, most = found.busiest
    assert most == np.unique(epochs // step, return_counts=True)[1].max()
    assert math.isclose(found.per_day, 720 / ((epochs[-1] - epochs[0] + 1) / 86400))


def test_a_store_without_rows_is_described(tmp_path):
    found = describe(open_store(write(tmp_path / "a.zarr", table([]))))
    assert (found.rows, found.first, found.entries, found.busiest[1]) == (0, None, 0, 0)
    assert math.isnan(found.per_day)


def test_statistics_of_the_wrong_shape_are_left_out(tmp_path):
    path, _ = hourly(tmp_path / "a.zarr")
    (path / "mean" / ".zarray").write_text((path / "mean" / ".zarray").read_text().replace("3", "2", 2))
    assert describe(open_store(path)).variables[0].statistics == {}


def test_codecs_are_those_of_the_chunks_within_shards(tmp_path):
    write_rows(tmp_path / "a.zarr", "abc", table(range(5)), format="cfagg")
    found = describe(open_store(tmp_path / "a.zarr"))
    assert found.codecs.startswith("blosc lz4 ")
    assert found.held > found.chunk
