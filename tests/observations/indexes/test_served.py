"""Indexes of stores on a web server."""

from __future__ import annotations

import pickle

import pytest

from cfagg.observations.indexes import open_index
from cfagg.storage.places import make_source
from tests.observations.indexes.made import Store, uneven, write
from tests.observations.servers import served


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server(tmp_path):
    for zarr_format in (2, 3):
        for kind in ("pages", "bisect", "btree"):
            write(tmp_path / f"v{zarr_format}.zarr", kind, uneven(50_000), zarr_format)
    with served(tmp_path) as made:
        yield made


def remote(server, name: str) -> Store:
    """The store as seen through the server."""
    store = Store(server.folder / name, int(uneven(50_000)[2].sum()))
    store.path = f"{server.url}/{name}"
    store.source = make_source(store.path)
    return store


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["v2.zarr", "v3.zarr"])
@pytest.mark.parametrize("kind", ["pages", "bisect", "btree"])
def test_the_same_is_found_as_here(server, kind, name):
    index = open_index(remote(server, name), kind)
    here = open_index(Store(server.folder / name, index.rows), kind)
    asked = [(1000, 2000), (600_000, 700_000), (-5, 10**7), (10**7, 10**8)]
    assert [index.find(a, b) for a, b in asked] == [here.find(a, b) for a, b in asked]
    assert pickle.loads(pickle.dumps(index)).find(1000, 2000) == here.find(1000, 2000)


@pytest.mark.parametrize("name", ["v2.zarr", "v3.zarr"])
def test_a_window_takes_two_requests_and_the_next_one_near_it_none(server, name):
    index = open_index(remote(server, name))
    assert index.kind == "pages"
    before = len(server.seen)
    index.find(600_000, 700_000)
    assert len(server.seen) - before <= 2
    before = len(server.seen)
    index.find(600_001, 700_001)
    assert len(server.seen) == before


@pytest.mark.parametrize("name", ["v2.zarr", "v3.zarr"])
def test_a_server_that_hides_what_is_not_there_does_no_harm(server, name):
    hidden = r"zarr\.json" if name == "v2.zarr" else r"\.z(array|attrs|group)"
    server.rules = {rf"index_pages/{hidden}": [403] * 9}
    assert open_index(remote(server, name)).kind == "pages"
