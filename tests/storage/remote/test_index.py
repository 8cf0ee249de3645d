"""Fragments behind URLs that are read by an index: one request each, and none that is not allowed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.arrays.index.parquet import index_bytes, open_index
from cfagg.errors import AccessError, StaleIndexWarning
from cfagg.storage.directory import RemoteDirectory
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url
from tests.nca_files import fragment
from tests.observations.servers import Page, Server, served

from .test_fragments import parted

VALUES = np.arange(20, dtype="f4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for i in range(10):
        how = ({"zlib": True}, {}, {"format": "NETCDF3_CLASSIC"})[i % 3]
        made = fragment(tmp_path / "data" / f"{i}.nc", "v", VALUES[2 * i : 2 * i + 2], ["x"], **how)
        written(made, -10)
    return tmp_path


def written(path: Path, seconds: float) -> None:
    """Make a file one that was written so long after now."""
    os.utime(path, (time.time() + seconds,) * 2)


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with served(folder) as made:
        made.dated = True
        yield made


@pytest.fixture
def path(folder: Path, server: Server) -> Path:
    return parted(folder / "x.nca", [f"{server.url}/data/{i}.nc" for i in range(10)])


def test_each_fragment_takes_one_request(path: Path, server: Server) -> None:
    report = cfagg.index(path, allow=[server.url])
    assert (report.files, report.left_out) == (10, ())
    ds = cfagg.read(path, allow=[server.url])
    server.seen.clear()
    assert np.array_equal(ds.v.values, VALUES)
    assert len(server.seen) == 10


def test_an_index_allows_no_other_server(path: Path, server: Server) -> None:
    cfagg.index(path, allow=[server.url])
    server.seen.clear()
    with pytest.raises(AccessError, match="outside"):
        _ = cfagg.read(path).v.values
    assert not server.seen


def test_an_object_that_changed_is_read_as_it_is(path: Path, server: Server, folder: Path) -> None:
    cfagg.index(path, allow=[server.url])
    handles.shrink(0)  # what was looked at within a second is not asked for again
    (folder / "data" / "4.nc").unlink()
    fragment(folder / "data" / "4.nc", "v", np.array([-1, -2], "f4"), ["x"], format="NETCDF3_CLASSIC")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = cfagg.read(path, allow=[server.url]).v.values
    assert np.array_equal(found, [*VALUES[:8], -1, -2, *VALUES[10:]])
    assert [w.category for w in caught] == [StaleIndexWarning]


def test_an_object_of_equal_size_that_is_described_otherwise_is_read_as_it_is(path, server, folder) -> None:
    for scale in (2.0, 0.5):
        packing = {"format": "NETCDF3_CLASSIC", "attributes": {"scale_factor": scale}}
        (folder / "data" / "2.nc").unlink()
        written(fragment(folder / "data" / "2.nc", "v", VALUES[4:6], ["x"], **packing), -10 * scale)
        if scale == 2.0:
            cfagg.index(path, allow=[server.url])
            size = (folder / "data" / "2.nc").stat().st_size
    assert (folder / "data" / "2.nc").stat().st_size == size
    handles.shrink(0)
    with pytest.warns(StaleIndexWarning):
        found = cfagg.read(path, allow=[server.url]).v.values
    assert np.array_equal(found, [*VALUES[:4], *VALUES[4:6] / 2, *VALUES[6:]])


@pytest.mark.parametrize("tag", [None, ""])
def test_nothing_is_asked_for_by_an_index_that_has_no_tag_of_an_object(server: Server, folder: Path, tag) -> None:
    size = (folder / "data" / "2.nc").stat().st_size
    there = RemoteDirectory(Url(f"{server.url}/data/2.nc"))
    assert there.read("2.nc", (size, tag), [(4, 0)]) is None
    assert not server.seen


def test_a_refreshed_index_has_what_changed(path: Path, server: Server, folder: Path) -> None:
    cfagg.index(path, allow=[server.url])
    handles.shrink(0)  # what was looked at within a second is not asked for again
    (folder / "data" / "4.nc").unlink()
    fragment(folder / "data" / "4.nc", "v", np.array([-1, -2], "f4"), ["x"], format="NETCDF3_CLASSIC")
    report = cfagg.index(path, allow=[server.url])
    assert report.changed == (f"{server.url}/data/4.nc",)
    assert np.array_equal(cfagg.read(path, allow=[server.url]).v.values[8:10], [-1, -2])


def test_an_index_that_is_named_is_asked_for_though_it_was_not_there_a_moment_ago(
    path: Path, server: Server, folder: Path
) -> None:
    place = f"{server.url}/x.nca"
    assert np.array_equal(cfagg.read(place).v.values, VALUES)
    cfagg.index(path, allow=[server.url])
    ds = cfagg.read(place, index=f"{place}.cfagg-index")
    server.seen.clear()
    assert np.array_equal(ds.v.values, VALUES)
    assert len(server.seen) == 10


def test_what_no_server_can_prove_is_read_without_the_index(path: Path, server: Server) -> None:
    server.dated = False
    report = cfagg.index(path, allow=[server.url])
    assert len(report.left_out) == 10
    assert np.array_equal(cfagg.read(path, allow=[server.url]).v.values, VALUES)


def test_a_file_that_may_yet_change_within_the_second_of_its_last_change_has_no_row(
    path: Path, server: Server, folder: Path
) -> None:
    written(folder / "data" / "4.nc", 3600)
    assert cfagg.index(path, allow=[server.url]).left_out == (f"{server.url}/data/4.nc: v",)


def test_a_server_that_gives_no_times_is_believed_by_its_tags(path: Path, server: Server, folder: Path) -> None:
    server.dated, server.tag = False, '"one"'
    assert cfagg.index(path, allow=[server.url]).left_out == ()
    assert np.array_equal(cfagg.read(path, allow=[server.url]).v.values, VALUES)
    handles.shrink(0)
    server.tag = '"two"'
    (folder / "data" / "4.nc").unlink()
    fragment(folder / "data" / "4.nc", "v", np.array([-1, -2], "f4"), ["x"], format="NETCDF3_CLASSIC")
    with pytest.warns(StaleIndexWarning):
        assert np.array_equal(cfagg.read(path, allow=[server.url]).v.values[8:10], [-1, -2])
    server.tag = 'W/"weak"'
    handles.shrink(0)
    assert len(cfagg.index(path, allow=[server.url]).left_out) == 10


WEB_PAGE = Page(200, b"<html>" + b" " * 3000)


@pytest.mark.few(3)
@pytest.mark.parametrize("head", [[], [""]], ids=["no answer", "only its first bytes"])
@pytest.mark.parametrize("answer", [500, 403, WEB_PAGE, "cut"])
def test_a_server_that_fails_for_the_index_alone_is_no_matter_for_values(folder, server, monkeypatch, head, answer):
    monkeypatch.setattr("cfagg.storage.transport.time.sleep", lambda _: None)
    places = [f"{server.url}/data/{i}.nc" for i in range(10)]
    shutil.copy(parted(folder / "here.nca", places), folder / "x.nca")
    cfagg.index(folder / "x.nca", allow=[server.url])
    name = folder / "x.nca.cfagg-index"
    # More than comes with the first answer.
    large = dataclasses.replace(open_index(name), shared=os.urandom(300_000))
    name.write_bytes(index_bytes(large, str(folder)))
    handles.shrink(0)
    server.rules = {"cfagg-index$": [*head, *[answer] * 99]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        found = cfagg.read(f"{server.url}/x.nca").v
        for k in range(0, 20, 4):
            assert found[k] == VALUES[k]
            handles.shrink(0)  # as after a second: it is asked for again
    # One attempt, each of four requests, and not one for each value.
    assert sum(where.endswith("index") for _, where, _ in server.seen) <= 1 + 2 * 4
