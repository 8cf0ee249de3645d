"""`cfagg.show` and ``cfagg show`` of Zarr stores."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.cli.main import main
from cfagg.errors import SourceError, UnsupportedError


@pytest.fixture(params=[2, 3])
def store(request, tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=request.param, attributes={"title": "<b>"})
    v3 = request.param == 3
    for name, dtype in (("tas", "f4"), ("flag", "?"), ("z", "c16")):
        made = root.create_array(
            name,
            data=np.zeros((3, 2), dtype),
            attributes={"units": "K"} if v3 else {"units": "K", "_ARRAY_DIMENSIONS": ["time", "lat"]},
            **({"dimension_names": ("time", "lat")} if v3 else {}),
        )
        assert made.shape == (3, 2)
    return tmp_path / "a.zarr"


def test_text_shows_dimensions_variables_and_types(store):
    text = str(cfagg.show(store))
    for line in ("time  3", "tas (time: 3, lat: 2) float32", "flag (time: 3, lat: 2) bool"):
        assert line in text
    assert "complex128" in text or "<c16" in text


def test_json_shows_attributes(store, capsys):
    assert main(["show", str(store), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (group,) = shown["groups"]
    assert group["attributes"] == {"title": "<b>"}
    assert {v["name"]: v["shape"] for v in group["variables"]}["tas"] == [3, 2]


def test_html_is_escaped(store):
    page = cfagg.show(store)._repr_html_()
    assert "tas" in page
    assert "<b>" not in page


def test_a_directory_that_is_no_store_is_refused(tmp_path):
    with pytest.raises((SourceError, UnsupportedError), match="not a Zarr store"):
        cfagg.show(tmp_path)
