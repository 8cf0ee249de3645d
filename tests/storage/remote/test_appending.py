"""Appending to stores in object stores; tests of what is appended are in tests/writing/zarr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.cli.main import main
from cfagg.errors import OptionError, TargetError
from cfagg.storage.objects import ObjectStore
from cfagg.writing.zarr.place import CLAIM, place_of
from tests.storage.remote.conftest import Bucket, Container
from tests.writing.zarr.reading import MONTHS, appended_meanwhile, check
from tests.writing.zarr.test_appending import rectilinear, same, series, write
from tests.writing.zarr.test_place import hold

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata:UserWarning", "ignore:.*rectilinear.*:FutureWarning"
)


def fetched(bucket: Bucket, url: str, folder: Path) -> Path:
    """Return a copy of a store on this machine, for xarray and zarr-python."""
    prefix = url.partition(f"{bucket.name}/")[2]
    made = folder / uuid.uuid4().hex
    for key in bucket.keys(prefix):
        path = made / key[len(prefix) + 1 :]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read())
    return made


@pytest.mark.few(1)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_increments_are_appended_and_nothing_else_is_left(keyed: Bucket, tmp_path: Path, zarr_format: int) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, 5), zarr_format), uuid.uuid4().hex)
    at = 5
    for count in (1, 6, 3):
        report = cfagg.append(url, series(at, count), "time")
        at += count
        assert (report.target, report.stop) == (url, at)
        same(fetched(keyed, url, tmp_path), series(0, at))
    assert not [key for key in keyed.keys(url.partition(f"{keyed.name}/")[2]) if ".cfagg" in key]
    xr.testing.assert_equal(cfagg.read(url).load().drop_attrs(), series(0, at).drop_attrs())


def test_each_increment_is_one_edge_of_a_rectilinear_grid(keyed: Bucket, tmp_path: Path) -> None:
    url = keyed.put(rectilinear(tmp_path / "a.zarr", [3, 2]), uuid.uuid4().hex)
    cfagg.append(url, series(5, 4), "time")
    cfagg.append(url, series(9, 1), "time")
    same(fetched(keyed, url, tmp_path), series(0, 10))


def test_options_say_where_the_store_and_the_data_are(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.put(write(tmp_path / "a.zarr", series(0, 5)), uuid.uuid4().hex)
    series(5, 2).to_netcdf(tmp_path / "b.nc")
    data = bucket.put(tmp_path / "b.nc", uuid.uuid4().hex)
    report = cfagg.append(url, data, "time", storage_options=bucket.options, data_options=bucket.options)
    assert (report.start, report.stop) == (5, 7)
    same(fetched(bucket, url, tmp_path), series(0, 7))


def test_a_second_writer_is_refused_and_that_of_a_dead_one_is_taken_back(keyed: Bucket, tmp_path: Path) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, 5)), uuid.uuid4().hex)
    with place_of(url).writer("appending"), pytest.raises(TargetError, match="another process is appending there"):
        cfagg.append(url, series(5, 1), "time")
    other = hold(url)
    other.send_signal(signal.SIGKILL)
    other.wait()
    with pytest.raises(TargetError, match="damaged record"):  # which only this test writes
        cfagg.append(url, series(5, 1), "time")
    place_of(url).delete([CLAIM])
    cfagg.append(url, series(5, 1), "time")


_APPEND = """
import json, sys
import numpy as np
import cfagg
from cfagg.storage.objects import ObjectStore
from tests.writing.zarr.test_appending import series
put, left = ObjectStore.put, [int(sys.argv[2])]
def counted(self, key, *rest, **how):
    left[0] -= 1
    if left[0] < 0:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, key, *rest, **how)
ObjectStore.put = counted
cfagg.append(sys.argv[1], series(5, 6), "time", storage_options=json.loads(sys.argv[3]))
"""


def killed_at(number: int, url: str, options: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    """Append in another process, which dies before its put of this number."""
    command = [sys.executable, "-c", _APPEND, url, str(number), json.dumps(options)]
    return subprocess.run(command, env=dict(os.environ), check=False)


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [4, 9, 1, 12, 0, 2, 3, 5, 6, 7, 8, 10, 11])
def test_a_run_killed_before_any_put_leaves_the_store_as_it_was(keyed: Bucket, tmp_path: Path, number: int) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, 5)), uuid.uuid4().hex)
    done = killed_at(number, url, {})
    found = fetched(keyed, url, tmp_path)
    if done.returncode == 0:
        same(found, series(0, 11))
        return
    assert done.returncode == -signal.SIGKILL
    xr.testing.assert_equal(xr.open_zarr(found, consolidated=True).load(), series(0, 5))
    cfagg.append(url, series(5, 2), "time")
    found = fetched(keyed, url, tmp_path)
    same(found, series(0, 7))
    # What the killed run had written beyond is gone.
    assert sorted(p.name for p in (found / "tas/c").iterdir()) == ["0", "1"]
    assert not list(found.rglob(".cfagg*"))


@pytest.fixture
def azure(container: Container, tmp_path: Path) -> str:
    """A store of five steps in a container of Azure."""
    store = write(tmp_path / "a.zarr", series(0, 5))
    url = f"az://{container.name}/{uuid.uuid4().hex}"
    place = place_of(url, container.options)
    for path in store.rglob("*"):
        if path.is_file():
            place.put(path.relative_to(store).as_posix(), path.read_bytes())
    return url


def whole(url: str, container: Container, steps: int) -> list[str]:
    """Compare what is stored with so many steps; return the keys."""
    found = cfagg.read(url, storage_options=container.options).load()
    xr.testing.assert_equal(found.drop_attrs(), series(0, steps).drop_attrs())
    return list(ObjectStore(url, container.options).listed())


def test_azure_takes_appends(azure: str, container: Container) -> None:
    cfagg.append(azure, series(5, 6), "time", storage_options=container.options)
    assert not [key for key in whole(azure, container, 11) if ".cfagg" in key]


@pytest.mark.soak
@pytest.mark.parametrize("number", range(14))
def test_a_run_killed_before_any_put_leaves_a_store_of_azure_as_it_was(azure, container, number: int) -> None:
    if killed_at(number, azure, container.options).returncode == 0:
        whole(azure, container, 11)
        return
    whole(azure, container, 5)
    cfagg.append(azure, series(5, 2), "time", storage_options=container.options)
    keys = whole(azure, container, 7)
    # What the killed run had written beyond is gone.
    assert {key.split("/")[2] for key in keys if key.startswith("tas/c/")} == {"0", "1"}
    assert not [key for key in keys if ".cfagg" in key]


@pytest.mark.soak
def test_of_two_who_append_in_azure_at_once_each_step_is_of_one_of_them(azure: str, container: Container) -> None:
    def append(_: int) -> bool:
        try:
            cfagg.append(azure, series(5, 2), "time", storage_options=container.options)
        except (TargetError, OptionError):
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert any(pool.map(append, range(2)))
    assert not [key for key in whole(azure, container, 7) if ".cfagg" in key]


def test_accumulations_in_object_stores_are_extended(keyed: Bucket, tmp_path: Path) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, 8)), uuid.uuid4().hex)
    cfagg.accumulate(url, "tas", dims="time")
    cfagg.append(url, series(8, 5), "time")
    mean = cfagg.open_accumulated(url, "tas").mean("time")
    np.testing.assert_allclose(mean, series(0, 13).tas.mean("time"), rtol=1e-6)


def test_the_command_appends_to_a_url(keyed: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, 5)), uuid.uuid4().hex)
    series(5, 2).to_netcdf(tmp_path / "b.nc")
    assert main(["append", url, str(tmp_path / "b.nc"), "--dim", "time"]) == 0
    assert "2 steps of 'time' appended to 2 arrays, 7 now" in capsys.readouterr().out


@pytest.mark.full
def test_xarray_sees_whole_months_of_an_object_store_while_they_are_appended(keyed: Bucket, tmp_path: Path) -> None:
    url = keyed.put(write(tmp_path / "a.zarr", series(0, MONTHS[0]), chunk=16), uuid.uuid4().hex)
    check(list(appended_meanwhile(url, tmp_path, keyed.options)))
