"""Moved references of aggregation files behind URLs, and such files in object stores."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.cli.main import main
from cfagg.errors import AccessError, OptionError, TargetExistsError, UnsupportedError
from cfagg.storage.objects import ObjectStore
from tests import nca_files
from tests.observations.servers import served

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

VALUES = np.arange(12, dtype="f4").reshape(4, 3)


@pytest.fixture(params=["NCA-0.1", "CF-1.13"])
def here(request, tmp_path: Path) -> Path:
    """An aggregation with its fragments in ``parts``."""
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})
    if request.param == "NCA-0.1":
        return made
    cfagg.convert(made, tmp_path / "agg.nc", to=request.param)
    return tmp_path / "agg.nc"


@pytest.fixture
def there(here: Path, bucket, request) -> str:
    """The same in a bucket, for one test alone."""
    prefix = f"rebasing/{abs(hash(request.node.name))}"
    bucket.put(here, prefix)
    bucket.put(here.parent / "parts", prefix)
    return f"s3://{bucket.name}/{prefix}/{here.name}"


def files(path, **options):
    return sorted(cfagg.open_aggregation(path, "tas", **options).partitions.files)


def stored(bucket, url: str) -> bytes:
    return bucket.client.get_object(Bucket=bucket.name, Key=url[len("s3://archive/") :])["Body"].read()


def test_a_file_in_a_bucket_is_replaced_and_its_other_references_stay(there, bucket, tmp_path) -> None:
    home, options = there.rpartition("/")[0], {"storage_options": bucket.options}
    report = cfagg.rebase(there, "parts/0_0.nc", "other/0_0.nc", **options)
    assert (report.target, report.partitions) == (there, 2)
    assert files(there, **options) == ["other/0_0.nc", "parts/1_0.nc"]
    cfagg.rebase(there, f"{home}/other", f"{home}/parts", **options)
    np.testing.assert_array_equal(cfagg.read(there, **options)["tas"], VALUES)
    (tmp_path / "copy.nc").write_bytes(
        bucket.client.get_object(Bucket=bucket.name, Key=there[len("s3://archive/") :])["Body"].read()
    )
    with netCDF4.Dataset(tmp_path / "copy.nc") as file:
        assert "tas" in file.variables
    assert bucket.secret not in repr(report) + str(report)


def test_a_file_that_was_written_meanwhile_is_left_as_it_is(there, bucket, monkeypatch) -> None:
    put = ObjectStore.put

    def late(self, key, data, **how):
        bucket.client.put_object(Bucket=bucket.name, Key=there[len("s3://archive/") :], Body=b"of somebody else")
        return put(self, key, data, **how)

    monkeypatch.setattr(ObjectStore, "put", late)
    with pytest.raises(TargetExistsError, match="another process"):
        cfagg.rebase(there, "parts", "other", storage_options=bucket.options)
    assert stored(bucket, there) == b"of somebody else"


def test_a_file_is_written_from_a_web_server_to_this_machine(here) -> None:
    with served(here.parent) as server:
        cfagg.rebase(f"{server.url}/{here.name}", "parts/0_0.nc", "x/0_0.nc", output=here.parent / "out.nc")
        assert files(here.parent / "out.nc") == [f"{server.url}/parts/1_0.nc", "x/0_0.nc"]
        with pytest.raises(UnsupportedError, match="cannot be written yet"):
            cfagg.rebase(f"{server.url}/{here.name}", "parts", "x")


def test_a_file_of_this_machine_is_written_to_a_bucket_with_references_that_it_may_have(here, bucket) -> None:
    target, options = f"s3://{bucket.name}/rebasing/{here.name}.out.nc", {"target_options": bucket.options}
    with pytest.raises(OptionError, match="never read: move it to a URL"):
        cfagg.rebase(here, "parts/0_0.nc", "x/0_0.nc", output=target, **options)
    with pytest.raises(OptionError, match="never read: move it to a URL"):
        cfagg.rebase(here, here.parent / "parts", here.parent / "x", output=target, **options)
    cfagg.rebase(here, here.parent / "parts", f"s3://{bucket.name}/parts", output=target, **options)
    assert files(target, storage_options=bucket.options) == [f"s3://{bucket.name}/parts/{n}_0.nc" for n in (0, 1)]
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.rebase(here, "parts", "x", output=target, **options)
    cfagg.rebase(here, "parts", "x", output=target, overwrite=True, **options)
    assert files(target, storage_options=bucket.options) == ["x/0_0.nc", "x/1_0.nc"]


def test_the_command_moves_references_with_the_options_of_both(there, bucket, capsys) -> None:
    given = [w for k, v in bucket.options.items() for w in ("--storage-option", f"{k}={v}")]
    assert main(["rebase", there, "--from", "parts", "--to", "elsewhere", *given]) == 0
    assert bucket.secret not in "".join(capsys.readouterr())
    assert files(there, storage_options=bucket.options) == ["elsewhere/0_0.nc", "elsewhere/1_0.nc"]
    with pytest.raises(AccessError):
        cfagg.rebase(there, "elsewhere", "x", storage_options={**bucket.options, "secret_access_key": "wrong"})
