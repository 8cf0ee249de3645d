"""What a user names in an object store is read as if it were here, with the keys of the environment."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import traceback
from pathlib import Path
from typing import Any

import boto3
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import AccessError, SourceError, StaleError, TargetError, UnsupportedError
from cfagg.formats.values.pool import close_files
from cfagg.storage.credentials import from_environment
from cfagg.storage.objects import ObjectStore
from cfagg.storage.places import make_source
from tests.observations.servers import Page, served
from tests.storage.remote.conftest import Bucket

SAMPLES = Path(sample("sst.nca")).parent


@pytest.fixture
def samples(bucket: Bucket, once) -> Bucket:
    once("samples", lambda: [bucket.put(p, "samples") for p in (*SAMPLES.glob("*.nc*"), SAMPLES / "sst")])
    return bucket


def here_and_there(name: str, **options: Any) -> tuple[xr.Dataset, xr.Dataset]:
    there = cfagg.read(f"s3://archive/samples/{name}", **options).load()
    return cfagg.read(SAMPLES / name).load(), there


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["temperature.nca", "temperature2.nca", "packed.nca", "storms.nc", "profiles.nc"])
def test_a_file_in_a_bucket_is_what_it_is_here(samples, monkeypatch, name) -> None:
    for variable, value in samples.environment.items():
        monkeypatch.setenv(variable, value)
    xr.testing.assert_identical(*here_and_there(name))


@pytest.mark.parametrize("name", ["umfile.pp", "wgdos_73x96_le.pp"])
def test_a_pp_file_in_a_bucket_is_what_it_is_here(keyed, once, name) -> None:
    once("pp", lambda: keyed.put(SAMPLES / "pp", "samples"))
    xr.testing.assert_identical(*here_and_there(f"pp/{name}"))
    assert (
        str(cfagg.show(f"s3://archive/samples/pp/{name}")).splitlines()[1:]
        == str(cfagg.show(SAMPLES / "pp" / name)).splitlines()[1:]
    )


def test_an_aggregation_in_a_bucket_reads_fields_of_a_pp_file_in_it(keyed, tmp_path) -> None:
    shutil.copy(SAMPLES / "pp" / "umfile.pp", tmp_path)
    cfagg.convert(tmp_path / "umfile.pp", tmp_path / "of_pp.nca")
    for made in ("umfile.pp", "of_pp.nca"):
        url = keyed.put(tmp_path / made, "of_pp")
    here = cfagg.read(tmp_path / "umfile.pp").surface_air_pressure
    np.testing.assert_array_equal(cfagg.read(url).surface_air_pressure, here)


def test_an_aggregation_in_a_bucket_reads_its_fragments_in_it(samples) -> None:
    found = cfagg.read("s3://archive/samples/sst.nca", storage_options=samples.options)
    variable = next(v for v in found.data_vars if found[v].size > 1000)
    here = cfagg.read(SAMPLES / "sst.nca")[variable]
    assert np.array_equal(found[variable][3:5].values, here[3:5].values, equal_nan=True)


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.filterwarnings("ignore:Consolidated metadata", "error:Failed to open Zarr")
def test_a_zarr_store_in_a_bucket_is_what_it_is_here(bucket, tmp_path, zarr_format, consolidated) -> None:
    made = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3), {"units": "m"})}, attrs={"title": "t"})
    name = f"z{zarr_format}{consolidated}.zarr"
    made.to_zarr(tmp_path / name, zarr_format=zarr_format, consolidated=consolidated)
    url = bucket.put(tmp_path / name, "stores")
    found = cfagg.read(url, storage_options=bucket.options, chunks={})
    xr.testing.assert_identical(found.load(), cfagg.read(tmp_path / name).load())
    assert "v" in str(cfagg.show(url, storage_options=bucket.options))


def test_keys_come_from_a_profile_where_the_environment_has_none(samples, tmp_path, monkeypatch) -> None:
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"
        f"[mine]\naws_access_key_id = {samples.key}\naws_secret_access_key = {samples.secret}\n"
    )
    (tmp_path / "config").write_text(f"[profile mine]\nregion = eu-west-2\nendpoint_url = {samples.endpoint}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    xr.testing.assert_identical(*here_and_there("packed.nca"))
    monkeypatch.setenv("AWS_PROFILE", "absent")
    with pytest.raises(AccessError, match="AWS_PROFILE=absent names a profile"):
        cfagg.read("s3://archive/samples/packed.nca", storage_options={"endpoint": samples.endpoint})


def test_a_profile_that_is_damaged_is_named_without_its_keys(tmp_path, monkeypatch) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key unlikely\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with pytest.raises(AccessError, match="credentials is not a valid file of profiles") as caught:
        from_environment()
    assert "unlikely" not in "".join(traceback.format_exception(caught.value))


def test_options_override_the_environment(samples, monkeypatch) -> None:
    for variable, value in {**samples.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(AccessError, match="answers 403"):
        cfagg.read("s3://archive/samples/packed.nca/")
    xr.testing.assert_identical(*here_and_there("packed.nca", storage_options=samples.options))


@pytest.mark.parametrize("skipped", [True, False])
def test_requests_are_signed_unless_that_is_switched_off(keyed, tmp_path, skipped) -> None:
    with served(tmp_path) as server:
        with pytest.raises(SourceError, match="nor a Zarr store"):
            cfagg.read("s3://b1/x.nc", storage_options={"skip_signature": skipped, "endpoint": server.url})
        assert server.seen
        assert all(("authorization" in headers) is not skipped for _, _, headers in server.seen)


def provided() -> dict[str, str]:
    """Return keys from where the tests put them."""
    return {"access_key_id": os.environ["MY_KEY"], "secret_access_key": os.environ["MY_SECRET"]}


def test_a_provider_gives_the_keys_of_each_moment_and_pickles_by_its_name(samples, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", samples.key)
    monkeypatch.setenv("MY_SECRET", samples.secret)
    options = {"endpoint": samples.endpoint, "credentials": provided}
    here, there = here_and_there("packed.nca", storage_options=options)
    xr.testing.assert_identical(here, there)
    lazy = pickle.dumps(cfagg.read("s3://archive/samples/packed.nca", storage_options=options))
    assert samples.secret.encode() not in lazy
    xr.testing.assert_identical(pickle.loads(lazy).load(), here)
    monkeypatch.setenv("MY_SECRET", "expired")
    close_files()
    with pytest.raises(AccessError, match="answers 403"):
        pickle.loads(lazy).load()


def test_explicit_secrets_are_not_pickled_and_stand_in_no_text(samples) -> None:
    found = cfagg.read("s3://archive/samples/packed.nca", storage_options=samples.options)
    with pytest.raises(AccessError, match=r"secret_access_key.*not sent to other processes.*provider.*environment"):
        pickle.dumps(found)
    assert samples.secret not in repr(found) + repr(found.encoding) + repr([v.encoding for v in found.values()])


def _first(dataset: xr.Dataset) -> float:
    return float(next(iter(dataset.data_vars.values())).values.ravel()[0])


def test_a_forked_process_reads_what_its_parent_opened(samples, keyed) -> None:
    found = cfagg.read("s3://archive/samples/temperature2.nca")
    expected = _first(found)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_first, (found,)) == expected


def test_a_file_that_is_written_while_it_is_read_is_an_error_and_new_when_opened_again(keyed, tmp_path) -> None:
    for n in range(2):
        with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("x", 100_000)
            file.createVariable("v", "f8", ("x",))[:] = n
        if not n:
            url = keyed.put(tmp_path / "a.nc", "changing")
            found = cfagg.read(url)
            assert found.v[0] == 0
    keyed.put(tmp_path / "a.nc", "changing")
    with pytest.raises(StaleError, match="written since"):
        found.v[50_000:].values  # noqa: B018
    assert (cfagg.read(url).v == 1).all()


def test_a_file_that_a_check_may_not_read_is_named_itself(bucket, samples) -> None:
    options = {**bucket.options, "secret_access_key": "wrong"}
    with pytest.raises(AccessError, match=r"samples/test1\.nc may not be read: .* 403 \(SignatureDoesNotMatch\)"):
        cfagg.check("s3://archive/samples/test1.nc", storage_options=options)


@pytest.mark.parametrize("name", ["absent.nc", "absent.zarr", "absent/deep"])
def test_what_is_not_there_is_told_in_one_sentence(keyed, name) -> None:
    with pytest.raises(FileNotFoundError, match=f"s3://archive/samples/{name} is neither a file that can be read"):
        cfagg.read(f"s3://archive/samples/{name}")


def test_the_command_reads_urls(keyed, samples, capsys) -> None:
    url = "s3://archive/samples/temperature.nca"
    assert main(["show", url]) == 0
    assert url in capsys.readouterr().out
    assert main(["check", "s3://archive/samples/test1.nc"]) in (0, 1)
    assert "test1.nc" in capsys.readouterr().out


def test_wrong_keys_are_told_without_the_secret(bucket) -> None:
    options = {**bucket.options, "secret_access_key": "an unlikely secret"}
    with pytest.raises(AccessError, match="may not be read: the server answers 403") as caught:
        cfagg.read("s3://archive/x.zarr", storage_options=options)
    assert "unlikely" not in str(caught.value)


def test_an_unconsolidated_store_is_listed_with_zarr_as_oracle(keyed, tmp_path) -> None:
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=3)
    for name in ("a b", "c+d", "é"):
        group.create_array(name, data=np.arange(3), dimension_names=("x",))
    url = keyed.put(tmp_path / "g.zarr", "listed")
    assert sorted(map(str, cfagg.read(url).variables)) == sorted(dict(group.arrays()))


def test_boto3_is_the_judge_of_what_is_stored(bucket) -> None:
    unsigned = boto3.client("s3", endpoint_url=bucket.endpoint, region_name="us-east-1", aws_access_key_id="x",
                            aws_secret_access_key="y")  # fmt: skip
    with pytest.raises(unsigned.exceptions.ClientError):
        unsigned.list_objects_v2(Bucket=bucket.name)


@pytest.mark.parametrize("name", ["a b", "a*b", "a~b", "ä+b", "a%20b", "a=b&c'(1)"])
def test_objects_below_a_place_of_any_name_are_written_listed_and_removed(bucket, name) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    store = ObjectStore(f"s3://{bucket.name}/{name}", bucket.options)
    store.put("f/k", b"abc")
    assert (list(store.listed()), list(store.children("")), store.read("f/k")) == (["f/k"], ["f"], b"abc")
    store.delete(["f/k"])
    assert not list(store.listed())


#: Names that S3 takes, and obstore does not, or takes for others.
ODD = ["a//b", "dir/", "/lead", "a\x01b", "a\tb", "a\x7fb", ".", "../x", "a/./b"]


def test_objects_of_odd_names_are_listed_as_boto3_does_and_never_taken_for_others(bucket) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    names = [
        *ODD,
        "dir",
        "b",
        "a b",
        "a+b",
        "a%20b",
        "%2F",
        "日本/x",
        "a&b<c>",
        "a\"b'",
        "a?b#c",
        "e\u0301",
        "\U0001f600",
        "a;b",
    ]
    for name in names:
        bucket.client.put_object(Bucket=bucket.name, Key=f"odd names/{name}", Body=name.encode())
    store = ObjectStore(f"s3://{bucket.name}/odd names", bucket.options)
    assert sorted(store.listed()) == sorted(names) == [k.removeprefix("odd names/") for k in bucket.keys("odd names/")]
    for name in names:
        if name in ODD:
            for act in (lambda n: store.put(n, b"x"), lambda n: store.delete([n]), lambda n: store.copy("b", n)):
                with pytest.raises(TargetError, match="rename or remove it with a tool"):
                    act(name)
        else:
            assert store.read(name) == name.encode()
            store.copy(name, "copied")
            assert store.read("copied") == name.encode()
            store.delete([name, "copied"])
    assert sorted(store.listed()) == sorted(ODD)


def test_a_store_beside_which_an_odd_name_stands_is_not_removed_in_part(keyed, tmp_path) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    url = f"s3://{keyed.name}/odd.zarr"
    cfagg.convert(SAMPLES / "test1.nc", url)
    keyed.client.put_object(Bucket=keyed.name, Key="odd.zarr/note/", Body=b"of somebody")
    before = keyed.keys("odd.zarr/")
    with pytest.raises(TargetError, match=r"'note/' can be neither written nor removed"):
        cfagg.convert(SAMPLES / "test1.nc", url, overwrite=True)
    assert keyed.keys("odd.zarr/") == before


@pytest.mark.parametrize("page", [b"<html>Please log in.</html>", b"", b"<ListBucketResult><Contents><Key>a</Key>"])
def test_a_page_in_place_of_a_listing_is_no_empty_place(tmp_path, page) -> None:
    with served(tmp_path) as server:
        server.rules = {"": [Page(200, page)] * 9}
        store = make_source("s3://b1/x", {"endpoint": server.url, "skip_signature": True})
        for ask in (lambda: list(store.objects("")), lambda: list(store.children(""))):
            with pytest.raises(UnsupportedError, match="cannot be listed"):
                ask()
