"""Files and stores in object stores as input of an aggregation: listed, scanned and read with one set of options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.aggregation.files import places
from cfagg.aggregation.scanning import scan
from cfagg.cli.main import main
from cfagg.errors import FragmentMismatchError, SourceError, SourceNotFoundError
from cfagg.storage.objects import ObjectStore
from tests.aggregation.months import months
from tests.storage.remote.conftest import Bucket

pytest.importorskip("obstore", reason="objects are put there by obstore, which is not installed")


@pytest.fixture
def home(keyed: Bucket, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place in a bucket for one test alone, with three files and a Zarr store of what follows these."""
    home = f"s3://{keyed.name}/scanned/{abs(hash(request.node.name))}"
    store = ObjectStore(home, {})
    for name in months(tmp_path / "files", 3):
        store.put(f"data/{Path(name).name}", Path(name).read_bytes())
    last = xr.open_dataset(months(tmp_path / "more", 4)[3], decode_times=False)
    last.to_zarr(tmp_path / "m3.zarr", zarr_format=2)
    for file in (tmp_path / "m3.zarr").rglob("*"):
        if file.is_file():
            store.put(f"data/m3.zarr/{file.relative_to(tmp_path / 'm3.zarr')}", file.read_bytes())
    store.put("data/README", b"nothing")
    return home


def ends(found: list[str], home: str) -> list[str]:
    return [place.removeprefix(f"{home}/data/") for place in found]


def test_a_pattern_and_a_folder_of_an_object_store_are_listed(home: str) -> None:
    assert ends(places(f"{home}/data/*.nc"), home) == ["m0.nc", "m1.nc", "m2.nc"]
    assert ends(places(f"{home}/**/m[12].*"), home) == ["m1.nc", "m2.nc"]
    assert ends(places(f"{home}/data/"), home) == ["m0.nc", "m1.nc", "m2.nc", "m3.zarr"]
    assert ends(places(f"{home}/data/*"), home) == ["README", "m0.nc", "m1.nc", "m2.nc", "m3.zarr"]
    assert ends(places(f"{home}/data/m3.zarr/"), home) == ["m3.zarr/"]
    for folder in ("m0.nc.fragments", "m0.nc.fragments-2"):
        ObjectStore(home, {}).put(f"data/{folder}/tas.0.nc", ObjectStore(home, {}).read("data/m0.nc"))
    assert ends(places(f"{home}/data/"), home) == ["m0.nc", "m1.nc", "m2.nc", "m3.zarr"]
    assert ends(places(f"{home}/**/*.nc", without=[f"{home}/data/m0.nc"]), home) == ["m1.nc", "m2.nc"]
    with pytest.raises(SourceNotFoundError, match="nothing matches"):
        places(f"{home}/data/*.pp")


def test_objects_become_one_array_with_the_values_of_all(home: str) -> None:
    whole = cfagg.aggregate(f"{home}/data/")["tas"]
    assert whole.sizes["time"] == 8
    expected = [np.arange(12).reshape(2, 2, 3) + 100 * n for n in range(4)]
    np.testing.assert_array_equal(whole.values, np.concatenate(expected))


def test_objects_and_files_of_this_machine_are_put_together(home: str, tmp_path: Path) -> None:
    given = [f"{home}/data/m0.nc", str(tmp_path / "files/m1.nc"), f"{home}/data/m2.nc"]
    cfagg.aggregate(given[:2], output=tmp_path / "a.nc")
    cfagg.aggregate(given[2], output=tmp_path / "a.nc", append=True, allow=[home])
    found = cfagg.read(tmp_path / "a.nc", allow=[home])["tas"]
    assert [*cfagg.open_aggregation(tmp_path / "a.nc", "tas").partitions.files] == [given[0], "files/m1.nc", given[2]]
    np.testing.assert_array_equal(found.values, cfagg.aggregate(given)["tas"].values)
    cfagg.write(cfagg.aggregate(given), tmp_path / "b.nc")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc", allow=[home])["tas"].values, found.values)


def test_the_state_of_an_object_is_its_tag(home: str) -> None:
    first, *_, store = scan(places(f"{home}/data/"))
    assert first.state is not None
    assert first.state.etag
    ObjectStore(f"{home}/data", {}).put("m0.nc", ObjectStore(f"{home}/data", {}).read("m1.nc"))
    (again,) = scan(places(f"{home}/data/m0.nc"))
    assert again.state is not None
    assert again.state.etag != first.state.etag
    assert store.format == "zarr"


def test_bad_objects_are_listed_with_all_others_that_are_bad(home: str) -> None:
    with pytest.raises(SourceError, match="2 of 6 files cannot be read") as raised:
        scan(places([f"{home}/data/*", f"{home}/data/absent.nc"]))
    told = "\n".join(map(str, raised.value.problems))
    assert "README" in told
    assert "absent.nc" in told


def test_the_command_puts_objects_together(
    keyed: Bucket, home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.nc"
    assert main(["aggregate", f"{home}/data/*.nc", "-o", str(out)]) == 0
    assert "1 array of 3 files" in capsys.readouterr().out
    np.testing.assert_array_equal(cfagg.read(out, allow=[home])["tas"].sizes["time"], 6)


def test_a_store_that_was_written_again_is_read_as_it_is_now(home: str, tmp_path: Path) -> None:
    name = f"{home}/data/m3.zarr"
    former = cfagg.aggregate(name)["tas"]
    np.testing.assert_array_equal(former[:, 0, 0].values, [300, 306])
    for key, begin in (("tas/.zattrs", b"{"), (".zmetadata", b'"tas/.zattrs": {')):
        document = (tmp_path / "m3.zarr" / key).read_bytes()
        halved = document.replace(begin, begin + b'"scale_factor": 0.5,', 1)
        assert halved != document
        ObjectStore(home, {}).put(f"data/m3.zarr/{key}", halved)
    with pytest.raises(FragmentMismatchError, match=r"m3\.zarr has changed since it was scanned"):
        former[:, 0, 0].load()
    np.testing.assert_array_equal(cfagg.aggregate(name)["tas"][:, 0, 0].values, [150, 153])
