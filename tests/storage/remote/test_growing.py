"""Aggregations of files in object stores that grow, and aggregation files that are objects themselves."""

from __future__ import annotations

import pytest

import cfagg
from cfagg.errors import AccessError, SourceError, TargetExistsError, UnsupportedError
from cfagg.storage.objects import ObjectStore
from tests.aggregation.months import month

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")


@pytest.fixture
def home(keyed, request) -> str:
    """A place in a bucket for one test alone."""
    return f"s3://{keyed.name}/growing/{abs(hash(request.node.name))}"


def uploaded(home: str, tmp_path, count: int) -> list[str]:
    """Write so many files there."""
    found = []
    for number in range(count):
        path = month(tmp_path / "in" / f"{number}.nc", number)
        ObjectStore(home, {}).put(f"{number}.nc", path.read_bytes())
        found.append(f"{home}/{number}.nc")
    return found


def test_objects_are_added_and_those_that_changed_are_found_by_their_tags(home, tmp_path):
    files = uploaded(home, tmp_path, 4)
    (tmp_path / "a").mkdir()
    out, once = tmp_path / "a" / "OUT.nc", tmp_path / "once"
    once.mkdir()
    cfagg.aggregate(files[:2], output=out)
    with pytest.raises(AccessError, match=f"allow=\\['{home}'\\]"):
        cfagg.aggregate(files[2:3], output=out, append=True)
    found = cfagg.aggregate(files[2:3], output=out, append=True, allow=[home])
    assert found.tas[:, 0, 0].values.tolist() == [0, 6, 100, 106, 200, 206]
    ObjectStore(home, {}).put("1.nc", month(tmp_path / "other.nc", 9).read_bytes())
    with pytest.raises(SourceError, match=r"1 of 3 files .* update=True") as caught:
        cfagg.aggregate(files[3:], output=out, append=True, allow=[home])
    assert [str(p) for p in caught.value.problems] == [f"{files[1]}: it has changed"]
    ObjectStore(home, {}).delete(["0.nc"])
    cfagg.aggregate(files[3:], output=out, append=True, update=True, allow=[home])
    cfagg.aggregate(files[1:], output=once / "OUT.nc")
    for name in ("OUT.nc", "OUT.nc.cfagg-index"):
        assert (out.parent / name).read_bytes() == (once / name).read_bytes()


def test_a_file_that_is_an_object_is_made_if_there_is_none_and_does_not_grow(home, tmp_path):
    files = uploaded(home, tmp_path, 3)
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc")
    assert cfagg.read(f"{home}/OUT.nc").tas[:, 0, 0].values.tolist() == [0, 6, 100, 106]
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.aggregate(files, output=f"{home}/OUT.nc")
    with pytest.raises(UnsupportedError, match="is an object, which does not grow"):
        cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True)
    assert cfagg.read(f"{home}/OUT.nc").sizes["time"] == 4
