"""Aggregations of files in object stores that grow, and aggregation files that are objects themselves."""

from __future__ import annotations

import warnings

import pytest

import cfagg
from cfagg.aggregation import output
from cfagg.aggregation.scanning import Scanner
from cfagg.arrays.index import SUFFIX, building, open_index
from cfagg.errors import (
    AccessError,
    SourceError,
    StaleIndexWarning,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.runtime.paired import PairedObject
from cfagg.storage.handles import handles
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url
from cfagg.writing import aggregation_file
from tests.aggregation.months import month
from tests.arrays.index.test_reading import slow_calls

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


def objects(home: str, name: str = "OUT.nc") -> tuple[bytes | None, bytes | None]:
    """Return what is there of an aggregation and its index."""
    store = ObjectStore(home, {})
    return store.read(name), store.read(f"{name}{SUFFIX}")


def first(home: str) -> list[float]:
    handles.shrink(0)
    return cfagg.read(f"{home}/OUT.nc").tas[:, 0, 0].values.tolist()


def test_an_object_grows_and_is_what_it_would_be_of_all_files_at_once(home, tmp_path):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files, output=f"{home}/ALL.nc")
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc")
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.aggregate(files, output=f"{home}/OUT.nc")
    cfagg.aggregate(files[2:3], output=f"{home}/OUT.nc", append=True)
    grown = cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
    assert grown.tas[:, 0, 0].values.tolist() == [0, 6, 100, 106, 200, 206, 300, 306]
    assert first(home) == [0, 6, 100, 106, 200, 206, 300, 306]
    assert objects(home) == objects(home, "ALL.nc")
    assert [key for key in ObjectStore(home, {}).listed() if key.startswith(".")] == []


def test_old_objects_are_not_opened_when_others_are_added(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files[:3], output=f"{home}/OUT.nc")
    asked = []
    scan = Scanner.scan
    monkeypatch.setattr(Scanner, "scan", lambda self, named, **k: asked.extend(named) or scan(self, named, **k))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
    assert list(map(str, asked)) == files[3:]


def test_what_is_not_there_is_made_and_what_changed_is_taken_in_where_that_is_wanted(home, tmp_path):
    files = uploaded(home, tmp_path, 3)
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc", append=True)
    ObjectStore(home, {}).put("1.nc", month(tmp_path / "other.nc", 9).read_bytes())
    before = objects(home)
    with pytest.raises(SourceError, match=r"1 of 2 files .* update=True"):
        cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True)
    assert objects(home) == before
    cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True, update=True)
    assert first(home) == [0, 6, 200, 206, 900, 906]


def test_a_second_writer_is_refused_and_nothing_of_it_is_left(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc")
    write, seen = output.write_file, []

    def later(*args, **options):
        monkeypatch.setattr(output, "write_file", write)
        cfagg.aggregate(files[2:3], output=f"{home}/OUT.nc", append=True)
        seen.append(objects(home))
        return write(*args, **options)

    monkeypatch.setattr(output, "write_file", later)
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
    assert objects(home) == seen[0]
    assert [key for key in ObjectStore(home, {}).listed() if key.startswith(".")] == []
    cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
    assert len(first(home)) == 8


def test_only_one_of_two_who_make_a_new_object_does(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 2)
    write = output.write_file

    def later(*args, **options):
        monkeypatch.setattr(output, "write_file", write)
        cfagg.aggregate(files[:1], output=f"{home}/OUT.nc", append=True)
        return write(*args, **options)

    monkeypatch.setattr(output, "write_file", later)
    with pytest.raises(TargetExistsError):
        cfagg.aggregate(files[1:], output=f"{home}/OUT.nc", append=True)
    assert first(home) == [0, 6]


@pytest.mark.few(1)
@pytest.mark.parametrize("exists", [False, True])
def test_of_two_who_write_values_beside_an_object_none_touches_those_of_the_other(home, tmp_path, monkeypatch, exists):
    stores = []
    for number in range(4):
        stores.append(tmp_path / f"{number}.zarr")
        cfagg.convert(month(tmp_path / f"{number}.nc", number), stores[-1])
    if exists:
        cfagg.aggregate(stores[:1], output=f"{home}/OUT.nc")
    check = aggregation_file._check_references

    def later(*args):
        monkeypatch.setattr(aggregation_file, "_check_references", check)
        cfagg.aggregate(stores[:2], output=f"{home}/OUT.nc", append=True)
        check(*args)

    monkeypatch.setattr(aggregation_file, "_check_references", later)
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        cfagg.aggregate([*stores[:1], *stores[2:]], output=f"{home}/OUT.nc", append=True)
    assert first(home) == [0, 6, 100, 106]
    cfagg.aggregate(stores, output=f"{home}/OUT.nc", append=True)
    assert first(home) == [0, 6, 100, 106, 200, 206, 300, 306]


@pytest.mark.full
def test_a_file_that_is_there_though_the_answer_was_lost_keeps_its_values_and_index(home, tmp_path, monkeypatch):
    stores = []
    for number in range(2):
        stores.append(tmp_path / f"{number}.zarr")
        cfagg.convert(month(tmp_path / f"{number}.nc", number), stores[-1])
    cfagg.aggregate(stores[:1], output=f"{home}/OUT.nc")
    put = ObjectStore.put

    def twice(self, key, data, **options):
        """Put an object once more than the caller knows, as a client does whose connection was lost."""
        if key == "OUT.nc":
            put(self, key, data, **options)
        return put(self, key, data, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", twice)
        cfagg.aggregate(stores, output=f"{home}/OUT.nc", append=True)
    assert first(home) == [0, 6, 100, 106]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cfagg.aggregate(stores, output=f"{home}/OUT.nc", append=True)
    assert [key for key in ObjectStore(home, {}).listed() if key.startswith(".")] == []


class Killed(BaseException):
    """What ends a run as a signal would: nothing is done afterwards."""


@pytest.mark.few(1)
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_killed_at_any_request_leaves_the_old_or_the_new(home, tmp_path, monkeypatch, fails):
    files = uploaded(home, tmp_path, 3)
    cfagg.aggregate(files, output=f"{home}/ALL.nc")
    cfagg.aggregate(files[:2], output=f"{home}/START.nc")
    store, old, new = ObjectStore(home, {}), objects(home, "START.nc"), objects(home, "ALL.nc")
    put, delete = ObjectStore.put, ObjectStore.delete
    ends, number = set(), 0
    while not ends or number <= max(ends):
        store.put("OUT.nc", old[0])
        store.put(f"OUT.nc{SUFFIX}", old[1])
        store.delete(list(store.listed(".OUT.nc.cfagg-partial")))
        calls = iter(range(99))

        def killed(call, calls=calls, number=number):
            def one(*args, **options):
                if next(calls) >= number:
                    raise TargetError("no network") if fails else Killed
                return call(*args, **options)

            return one

        with monkeypatch.context() as patch:
            patch.setattr(ObjectStore, "put", killed(put))
            patch.setattr(ObjectStore, "delete", killed(delete))
            handles.shrink(0)
            try:
                cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True)
                ends.add(number - 1)
            except (Killed, TargetError):
                ends.add(number + 1)
        assert len(first(home)) in (4, 6)
        assert objects(home)[0] in (old[0], new[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True)
        assert objects(home) == new
        number += 1
    assert number > 3


def test_without_its_index_the_files_of_an_object_are_scanned_again(home, tmp_path):
    files = uploaded(home, tmp_path, 3)
    cfagg.aggregate(files, output=f"{home}/ALL.nc")
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc", index=False)
    assert objects(home)[1] is None
    with pytest.warns(StaleIndexWarning, match=r"2 files of .*OUT.nc were scanned again: .* does not exist"):
        cfagg.aggregate(files[2:], output=f"{home}/OUT.nc", append=True)
    assert objects(home) == objects(home, "ALL.nc")


def test_an_index_of_a_former_file_does_not_stay_beside_one_without(home, tmp_path):
    files = uploaded(home, tmp_path, 2)
    cfagg.aggregate(files[:1], output=f"{home}/OUT.nc")
    cfagg.aggregate(files, output=f"{home}/OUT.nc", overwrite=True, index=False)
    assert objects(home)[1] is None


def test_an_object_elsewhere_is_not_asked_for_what_nobody_allowed(home, tmp_path):
    files = uploaded(home, tmp_path, 3)
    cfagg.aggregate(files[:2], output=f"{home}/sub/OUT.nc")
    with pytest.raises(AccessError, match=r"allow=\["):
        cfagg.aggregate(files[2:], output=f"{home}/sub/OUT.nc", append=True)
    cfagg.aggregate(files[2:], output=f"{home}/sub/OUT.nc", append=True, allow=[home])


def test_files_on_a_web_server_do_not_grow(tmp_path):
    with pytest.raises(UnsupportedError, match="cannot be written"):
        cfagg.aggregate(month(tmp_path / "a.nc", 0), output="https://example.org/OUT.nc", append=True)


def test_the_index_of_an_object_is_read_with_it_and_made_anew(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 6)
    cfagg.aggregate(files, output=f"{home}/OUT.nc")
    handles.shrink(0)
    found, calls = cfagg.read(f"{home}/OUT.nc").tas, slow_calls(monkeypatch)
    assert found[:, 1, 2].values.tolist() == [100 * k + n for k in range(6) for n in (5, 11)]
    assert calls == []
    ObjectStore(home, {}).put("1.nc", month(tmp_path / "other.nc", 9).read_bytes())
    handles.shrink(0)
    with pytest.warns(StaleIndexWarning, match=r"1\.nc has changed"):
        assert cfagg.read(f"{home}/OUT.nc").tas[2:4, 0, 0].values.tolist() == [900, 906]
    report = cfagg.index(f"{home}/OUT.nc")
    assert (report.changed, report.unchanged) == ((files[1],), 5)
    handles.shrink(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cfagg.read(f"{home}/OUT.nc").tas[2:4, 0, 0].values.tolist() == [900, 906]


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [lambda d: d[:-30], lambda d: d[:50] + b"x" + d[51:]])
def test_a_damaged_index_of_an_object_is_not_used(home, tmp_path, damage):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files, output=f"{home}/OUT.nc")
    ObjectStore(home, {}).put(f"OUT.nc{SUFFIX}", damage(objects(home)[1]))
    handles.shrink(0)
    with pytest.warns(StaleIndexWarning, match="is not used"):
        assert cfagg.read(f"{home}/OUT.nc").tas[:, 0, 0].values.tolist() == [0, 6, 100, 106, 200, 206, 300, 306]


def test_an_index_stays_true_where_all_objects_are_copied_to_another_place(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files, output=f"{home}/OUT.nc")
    index = open_index(Url(f"{home}/OUT.nc{SUFFIX}"))
    assert list(index.path) == ["0.nc", "1.nc", "2.nc", "3.nc"]
    assert list(index.files) == files


@pytest.mark.few(1)
@pytest.mark.parametrize("exists", [True, False])
def test_an_index_that_grew_meanwhile_is_not_replaced_by_an_older_one(home, tmp_path, monkeypatch, exists):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc", index=exists)
    index_files = building.index_files

    def later(*args, **options):
        monkeypatch.setattr(building, "index_files", index_files)
        cfagg.aggregate(files[:3], output=f"{home}/OUT.nc", append=exists, overwrite=not exists)
        return index_files(*args, **options)

    monkeypatch.setattr(building, "index_files", later)
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        cfagg.index(f"{home}/OUT.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
    assert cfagg.index(f"{home}/OUT.nc").files == 4


def test_a_slow_writer_does_not_replace_the_index_of_a_later_one(home, tmp_path, monkeypatch):
    files = uploaded(home, tmp_path, 4)
    cfagg.aggregate(files[:2], output=f"{home}/OUT.nc")
    publish = PairedObject.publish

    def later(self):
        monkeypatch.setattr(PairedObject, "publish", publish)
        cfagg.aggregate(files[3:], output=f"{home}/OUT.nc", append=True)
        publish(self)

    monkeypatch.setattr(PairedObject, "publish", later)
    cfagg.aggregate(files[2:3], output=f"{home}/OUT.nc", append=True)
    cfagg.aggregate(files, output=f"{home}/ALL.nc")
    assert objects(home) == objects(home, "ALL.nc")
