"""Names, keys and codecs of the arrays of an accumulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cfagg.accumulation.layout import ArraySpec, own_dims, raw_dims
from cfagg.accumulation.writing import array_documents, chunk_key, codec_of


def test_dimensions_of_another_length_have_names_of_their_own() -> None:
    assert own_dims(("time", "lat"), (0,), "accumulated") == ("time_accumulated", "lat")
    assert own_dims(("time", "time_accumulated"), (0,), "accumulated") == ("time_accumulated_", "time_accumulated")


def test_names_of_dimensions_are_traced_to_those_of_the_data_in_any_order() -> None:
    assert raw_dims(("lat", "time_accumulated"), ("time", "lat"), (0,), "accumulated") == ("lat", "time")


def test_a_chunk_has_the_key_of_its_format() -> None:
    assert (chunk_key((2, 0), 3), chunk_key((2, 0), 2), chunk_key((), 3), chunk_key((), 2)) == (
        "c.2.0",
        "2.0",
        "c",
        "0",
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"zarr_format": 2, "compressor": None}, "none"),
        ({"zarr_format": 2, "compressor": {"id": "zstd"}}, "zstd"),
        ({"zarr_format": 2, "compressor": {"id": "lz4"}}, "blosc"),
        ({"zarr_format": 3, "codecs": [{"name": "bytes"}, {"name": "gzip"}]}, "gzip"),
        ({"zarr_format": 3, "codecs": [{"name": "bytes"}]}, "none"),
    ],
)
def test_the_compression_of_an_array_is_known_by_its_metadata(document: dict[str, Any], expected: str) -> None:
    assert codec_of(document) == expected


def test_the_metadata_of_an_array_name_its_compression() -> None:
    spec = ArraySpec("s", "sums", ("time",), (5,), (5,), np.dtype("f8"), {})
    codec = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    assert array_documents(spec, "zstd", 3)["zarr.json"]["codecs"][1] == codec
