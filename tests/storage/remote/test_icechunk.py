"""Icechunk repositories in S3; icechunk and zarr-python say what is in them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import AccessError, SourceError, TargetError, TargetExistsError, UnsupportedError
from cfagg.formats.opening import is_repository
from cfagg.storage.urls import Url
from tests.conversion.test_to_icechunk import SLOWLY

icechunk = pytest.importorskip("icechunk")

VALUES = np.random.default_rng(0).normal(size=(40, 30)).astype("f4")


@pytest.fixture
def source(tmp_path):
    """A store of Zarr on this machine."""
    made = xr.Dataset({"v": (("y", "x"), VALUES, {"units": "K"})}, {"y": np.arange(40)}, {"title": "t"})
    made.chunk(y=10).to_zarr(tmp_path / "a.zarr", consolidated=False)
    return tmp_path / "a.zarr"


@pytest.fixture
def url(bucket, request):
    """A prefix of each test."""
    return f"s3://{bucket.name}/ice/{request.node.name.partition('[')[0]}.icechunk"


def group(bucket, url):
    """What the branch holds."""
    return zarr.open_group(_repository(bucket, url).readonly_session("main").store, mode="r")


def _repository(bucket, url):
    icechunk.set_logs_filter("error")
    return icechunk.Repository.open(
        icechunk.s3_storage(
            bucket=bucket.name,
            prefix=url.partition(bucket.name + "/")[2],
            region="us-east-1",
            endpoint_url=bucket.endpoint,
            allow_http=True,
            force_path_style=True,
            access_key_id=bucket.key,
            secret_access_key=bucket.secret,
        )
    )


def test_a_conversion_is_one_commit_and_is_read_by_its_url(source, bucket, url):
    report = cfagg.convert(source, url, chunks={"y": 10}, target_options=bucket.options, verify=True)
    assert (report.target, report.verified) == (url, True)
    np.testing.assert_array_equal(group(bucket, url)["v"][...], VALUES)
    assert len(list(_repository(bucket, url).ancestry(branch="main"))) == 2
    with cfagg.read(url, storage_options=bucket.options) as found:
        assert (found.attrs, found.v.attrs) == ({"title": "t"}, {"units": "K"})
        np.testing.assert_array_equal(found.v[::3, ::-2].values, VALUES[::3, ::-2])
    assert cfagg.open_array(url, "v", storage_options=bucket.options).chunks == ((10,) * 4, (30,))


def test_one_that_is_there_is_replaced_only_when_asked_and_by_a_second_commit(source, keyed, url):
    cfagg.convert(source, url, variables=["y"])
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.convert(source, url)
    cfagg.convert(source, url, overwrite=True)
    assert set(group(keyed, url)) == {"y", "v"}
    assert len(list(_repository(keyed, url).ancestry(branch="main"))) == 3


@pytest.mark.full
@pytest.mark.parametrize("exists", [True, False])
def test_a_run_that_is_killed_before_its_commit_leaves_the_branch_as_it_was(source, keyed, url, exists):
    url = f"{url.removesuffix('.icechunk')}-{exists}.icechunk"
    if exists:
        cfagg.convert(source, url, variables=["y"])
        before = _repository(keyed, url).lookup_branch("main")
    code = SLOWLY.replace('"time"', '"y"')
    with subprocess.Popen([sys.executable, "-c", code, source, url], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"!"
        process.kill()
    if exists:
        assert _repository(keyed, url).lookup_branch("main") == before
        assert set(group(keyed, url)) == {"y"}
    else:
        assert is_repository(Url(url))
        with pytest.raises(SourceError, match="not a Zarr store"):
            cfagg.read(url)
    cfagg.convert(source, url, overwrite=exists)  # an empty one is taken without a word
    np.testing.assert_array_equal(group(keyed, url)["v"][...], VALUES)


def test_what_is_open_can_be_sent_without_keys_and_never_with_them(source, bucket, url, monkeypatch):
    cfagg.convert(source, url, target_options=bucket.options)
    with pytest.raises(AccessError, match="environment of the workers"):
        pickle.dumps(cfagg.open_array(url, "v", storage_options=bucket.options))
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    sent = pickle.dumps(cfagg.open_array(url, "v"))
    assert bucket.secret.encode() not in sent
    assert bucket.key.encode() not in sent
    np.testing.assert_array_equal(pickle.loads(sent)[5:25:7], VALUES[5:25:7])


@pytest.mark.full  # Icechunk tries again for seconds
def test_without_keys_or_with_wrong_ones_it_is_an_error_that_repeats_none(source, bucket, url):
    wrong = {**bucket.options, "secret_access_key": "unlikely-to-be-said"}
    for options in (wrong, {"endpoint": bucket.endpoint, "skip_signature": True}):
        with pytest.raises(TargetError, match="Icechunk reports") as caught:
            cfagg.convert(source, url, target_options=options)
        assert "unlikely" not in str(caught.value)


def test_what_is_no_repository_is_not_written_into(source, bucket, url):
    bucket.client.put_object(Bucket=bucket.name, Key=f"{url.partition(bucket.name + '/')[2]}/mine", Body=b"x")
    with pytest.raises(TargetError, match="Icechunk reports"):
        cfagg.convert(source, url, target_options=bucket.options)
    assert len(bucket.keys(url.partition(bucket.name + "/")[2])) == 1


def test_two_runs_at_once_leave_the_commit_of_the_first(source, keyed, url):
    cfagg.convert(source, url, variables=["y"])

    def meanwhile(done, total):
        if done == total:
            cfagg.convert(source, url, overwrite=True, variables=["y"])

    with pytest.raises(TargetError, match="branch is unchanged"):
        cfagg.convert(source, url, overwrite=True, progress=meanwhile)
    assert set(group(keyed, url)) == {"y"}


def test_a_lazy_array_is_written_with_its_chunks_byte_for_byte(source, bucket, url):
    twice = cfagg.concatenate([cfagg.open_array(source, "v")] * 2)
    report = cfagg.write(twice, url, target_options=bucket.options)
    assert (report.copied, report.referenced) == (8, 0)
    np.testing.assert_array_equal(group(bucket, url)["v"][...], np.concatenate([VALUES] * 2))
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        cfagg.write(twice, url, target_options=bucket.options)


def test_steps_are_appended_in_one_commit_each(source, keyed, url):
    cfagg.convert(source, url)
    more = xr.Dataset({"v": (("y", "x"), VALUES[:5], {"units": "K"})}, {"y": np.arange(40, 45)})
    report = cfagg.append(url, more, "y")
    assert (report.target, report.start, report.stop) == (url, 40, 45)
    np.testing.assert_array_equal(group(keyed, url)["v"][...], np.concatenate([VALUES, VALUES[:5]]))
    assert len(list(_repository(keyed, url).ancestry(branch="main"))) == 3
    keys = keyed.keys(url.partition(keyed.name + "/")[2])
    assert not [k for k in keys if ".cfagg-append" in k]


def test_a_session_of_a_writer_is_never_sent(source, keyed, url):
    from cfagg.writing.zarr.session_place import SessionPlace

    cfagg.convert(source, url)
    place = SessionPlace(Url(url))
    with place.writer("appending"), pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(place)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_is_refused_and_does_not_wait_for_ever(source, keyed, url):
    cfagg.convert(source, url)
    found = cfagg.open_array(url, "v")
    child = os.fork()
    if child == 0:
        try:
            found[0]
        except UnsupportedError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.full
def test_workers_of_a_cluster_write_one_commit_with_the_keys_of_their_environment(source, keyed, url):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        cfagg.convert(source, url, chunks={"y": 1}, client=client, verify=True)
    np.testing.assert_array_equal(group(keyed, url)["v"][...], VALUES)
    assert len(list(_repository(keyed, url).ancestry(branch="main"))) == 2


def test_keys_are_not_sent_to_workers(source, bucket, url):
    with pytest.raises(AccessError, match="environment of the workers"):
        cfagg.convert(source, url, client="tcp://127.0.0.1:9", target_options=bucket.options)
    assert bucket.keys(url.partition(bucket.name + "/")[2]) == []


def test_a_session_that_is_sent_holds_no_key(keyed, url):
    from cfagg.conversion.to_icechunk import SessionPut
    from cfagg.writing.zarr.repository import Place

    sent = pickle.dumps(SessionPut(Place(Url(url)).create().writable_session("main")))
    assert keyed.secret.encode() not in sent
    assert keyed.key.encode() not in sent
