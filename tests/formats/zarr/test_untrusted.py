"""Zarr stores of others: what is not a regular file, links that lead out, codecs that run code, damaged metadata."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import threading
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

import cfagg
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.arrays.chunked import local_reader
from cfagg.cli.main import main
from cfagg.conventions import limits
from cfagg.errors import AccessError, CfaggError, FragmentReadError, LimitError, SourceError, UnsupportedError
from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.zarr import open_zarr
from cfagg.formats.zarr import open_array, read_chunk
from cfagg.formats.zarr.checked_store import CheckedStore
from cfagg.formats.zarr.fallback import open_by_zarr
from cfagg.formats.zarr.vetting import vetted
from cfagg.storage.local import LocalSource
from tests.formats.zarr.stores import create, open_peer

KINDS = ["fifo", "directory", "socket", "device"]


def put(path: Path, kind: str) -> None:
    """Put something that is not a regular file in the place of a file."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(here)
    else:
        path.symlink_to("/dev/null")


def within(seconds, function):
    """Return what a function raises; fail if it does not end."""
    raised = []

    def run():
        try:
            function()
        except Exception as error:  # noqa: BLE001  (whatever it is, the test looks at it)
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return raised[0] if raised else None


def make(store: Path, zarr_format: int) -> None:
    """Write a small dataset."""
    data = xr.Dataset({"tas": ("time", np.arange(6.0))}, coords={"time": np.arange(6)})
    data.to_zarr(store, zarr_format=zarr_format, consolidated=False, encoding={"tas": {"chunks": (3,)}})


READERS = {
    "chunk": lambda store: read_chunk(open_array(store, "tas"), (0,)),
    "read": lambda store: cfagg.read(store).load(),
    "check": lambda store: open_zarr(str(store)).root.variables["tas"].read((slice(0, 6),)),
    "accumulate": lambda store: accumulate(store, "tas"),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("zarr_format", "key"),
    [(2, "tas/.zarray"), (2, "tas/.zattrs"), (2, "tas/0"), (2, ".zgroup"), (3, "tas/zarr.json"), (3, "tas/c/0")],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, reader, kind, zarr_format, key):
    store = tmp_path / "s"
    make(store, zarr_format)
    put(store / key, kind)
    error = within(20, lambda: READERS[reader](store))
    if key == ".zgroup" and reader in ("chunk", "accumulate"):
        return  # these do not look at the group
    assert isinstance(error, CfaggError), error
    assert isinstance(error, AccessError) if kind == "device" else "only regular files" in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["read", "read_range", "read_edge"])
def test_what_is_no_regular_file_is_refused_in_stores_of_observations(tmp_path, kind, method):
    put(tmp_path / "data" / "0.0", kind)
    arguments = {"read": (), "read_range": (0, 4), "read_edge": (4,)}[method]
    error = within(10, lambda: getattr(LocalSource(tmp_path), method)("data/0.0", *arguments))
    assert isinstance(error, (FragmentReadError, AccessError)), error


def linked(store: Path, what: str, key: str) -> Path:
    """Move a part of a store elsewhere, and leave a link; return where it is."""
    away = store.parent / "away" / what
    away.parent.mkdir()
    (store / key).rename(away)
    (store / key).symlink_to(away)
    return away.parent


@pytest.mark.few(5)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("key", ["tas/c/0", "tas/c", "tas", "tas/zarr.json"])
def test_a_link_out_of_the_store_is_refused_with_what_admits_it(tmp_path, reader, key):
    store = tmp_path / "s"
    make(store, 3)
    away = linked(store, "x", key)
    error = within(20, lambda: READERS[reader](store))
    assert isinstance(error, AccessError), error
    assert f"allow=['{away}" in str(error)


@pytest.mark.parametrize("key", ["tas/c/0", "tas/c", "tas", "tas/zarr.json"])
def test_a_link_is_followed_where_it_is_allowed(tmp_path, key):
    store = tmp_path / "s"
    make(store, 3)
    away = linked(store, "x", key)
    assert read_chunk(open_array(store, "tas", allow=away), (0,)).tolist() == [0, 1, 2]
    found = cfagg.read(store, allow=[away])
    assert found.tas.values.tolist() == pytest.approx(list(range(6)))
    assert cfagg.read(store, allow=away, chunks={}).tas.sum().compute() == 15


def test_a_link_within_the_store_and_to_the_store_is_followed(tmp_path):
    make(tmp_path / "s", 3)
    (tmp_path / "s/tas/c/0").rename(tmp_path / "s/kept")
    (tmp_path / "s/tas/c/0").symlink_to("../../kept")
    (tmp_path / "link").symlink_to("s")
    for name in ("s", "link", "link"):
        assert read_chunk(open_array(tmp_path / name, "tas"), (0,)).tolist() == [0, 1, 2]
        assert cfagg.read(tmp_path / name).tas.values.tolist() == list(range(6))


def test_a_link_to_nothing_is_no_absent_chunk(tmp_path):
    make(tmp_path / "s", 3)
    (tmp_path / "s/tas/c/0").unlink()
    assert read_chunk(open_array(tmp_path / "s", "tas"), (0,)) is None
    (tmp_path / "s/tas/c/0").symlink_to("nowhere")
    with pytest.raises(FragmentReadError, match="broken link"):
        read_chunk(open_array(tmp_path / "s", "tas"), (0,))


def test_the_root_may_be_linked_to_another_store_between_reads(tmp_path):
    for n, name in enumerate(("a", "b")):
        create(tmp_path / name, "x", (2,), (2,), dtype="i4")[...] = [n, n + 5]
    (tmp_path / "link").symlink_to("a")
    array = open_array(tmp_path / "link", "x")
    assert [read_chunk(array, (0,)).tolist() for _ in range(3)] == [[0, 5]] * 3
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    assert [read_chunk(array, (0,)).tolist() for _ in range(3)] == [[1, 6]] * 3


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("reader", READERS)
def test_a_codec_that_runs_code_is_never_run(tmp_path, reader):
    store = tmp_path / "s"
    make(store, 2)
    document = json.loads((store / "tas/.zarray").read_text())
    document.update(compressor=None, filters=[{"id": "pickle", "protocol": 5}])
    (store / "tas/.zarray").write_text(json.dumps(document))
    for key in ("0", "1"):
        (store / "tas" / key).write_bytes(pickle.dumps(Trap(tmp_path / "run")))
    error = within(20, lambda: READERS[reader](store))
    assert isinstance(error, FragmentReadError if reader == "check" else UnsupportedError), error
    assert "pickle" in str(error)
    assert not (tmp_path / "run").exists()


def test_a_codec_that_runs_code_is_not_run_through_consolidated_metadata(tmp_path):
    store = tmp_path / "s"
    make(store, 2)
    cfagg.read(store)
    import zarr

    zarr.consolidate_metadata(store)
    text = (store / ".zmetadata").read_text()
    document = json.loads(text)
    document["metadata"]["tas/.zarray"]["filters"] = [{"id": "pickle", "protocol": 5}]
    (store / ".zmetadata").write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="pickle"):
        cfagg.read(store)


def test_values_read_through_xarray_are_decoded_within_bounds(tmp_path):
    store = tmp_path / "s"
    create(store, "x", (6,), (6,), dtype="f8", dimension_names=["i"])[...] = np.arange(6.0)
    (store / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    (store / "x/c/0").write_bytes(numcodecs.Zstd().encode(bytes(100_000_000)))
    with pytest.raises(FragmentReadError, match="decodes to 100,000,000 bytes, expected 48"):
        cfagg.read(store).x.load()


def test_a_coordinate_of_too_many_bytes_is_refused_when_the_dataset_is_opened(tmp_path):
    make(tmp_path / "s", 3)
    (tmp_path / "s/time/c/0").write_bytes(numcodecs.Zstd().encode(bytes(1_000_000)))
    with pytest.raises(FragmentReadError, match="decodes to 1,000,000 bytes"):
        cfagg.read(tmp_path / "s")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_dataset_is_what_xarray_makes_of_the_store(tmp_path, zarr_format):
    make(tmp_path / "s", zarr_format)
    ours, theirs = cfagg.read(tmp_path / "s"), xr.open_zarr(tmp_path / "s", consolidated=False, chunks=None)
    xr.testing.assert_identical(ours.load(), theirs.load())
    for name in ("tas", "time"):
        for key, value in theirs[name].encoding.items():
            assert ours[name].encoding[key] == value or np.isnan(value), key
    assert pickle.loads(pickle.dumps(cfagg.read(tmp_path / "s", chunks={}))).tas.sum().compute() == 15
    assert ours.encoding["source"] == theirs.encoding["source"]


def test_an_accumulation_answers_for_a_dataset_read_by_cfagg(tmp_path):
    make(tmp_path / "s", 3)
    accumulate(tmp_path / "s", "tas")
    assert cfagg.read(tmp_path / "s").tas.cfagg.mean("time", explain=True).accumulated
    assert open_accumulated(tmp_path / "s", "tas").mean() == 2.5


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_very_many_chunks_are_refused_before_they_are_listed(tmp_path, zarr_format):
    create(tmp_path, "x", (2**62 - 1,), (3,), dtype="i1", zarr_format=zarr_format)
    marker = {"zarr_format": 3, "node_type": "group"} if zarr_format == 3 else {"zarr_format": 2}
    (tmp_path / ("zarr.json" if zarr_format == 3 else ".zgroup")).write_text(json.dumps(marker))
    attributes = tmp_path / "x" / ("zarr.json" if zarr_format == 3 else ".zattrs")
    document = json.loads(attributes.read_text()) if attributes.exists() else {}
    document |= {"dimension_names": ["i"]} if zarr_format == 3 else {"_ARRAY_DIMENSIONS": ["i"]}
    attributes.write_text(json.dumps(document))
    error = within(60, lambda: cfagg.read(tmp_path, chunks={}))
    assert isinstance(error, LimitError), error
    assert "'x' has 1,537,228,672,809,129,301 chunks" in str(error)


DAMAGE = [
    {"shape": [2**63]}, {"shape": [-1]}, {"shape": "6"}, {"shape": [6.5]}, {"shape": None}, {"chunks": [0]},
    {"chunks": [2**70]}, {"chunks": []}, {"dtype": "<f9"}, {"dtype": 7}, {"fill_value": [1]}, {"fill_value": "x"},
    {"order": "Q"}, {"compressor": {"id": "nobody"}}, {"compressor": 5}, {"filters": {"id": 1}}, {"filters": [5]},
    {"zarr_format": 4}, {"zarr_format": None}, {"dimension_separator": "!"},
    {"compressor": {"id": "zlib", "level": 10**30}}, {"filters": [{"id": "delta", "dtype": "nothing"}]},
]  # fmt: skip


@pytest.mark.few(12)
@pytest.mark.parametrize("damage", DAMAGE, ids=str)
@pytest.mark.parametrize("reader", READERS)
def test_damaged_metadata_are_errors_of_cfagg(tmp_path, reader, damage):
    store = tmp_path / "s"
    make(store, 2)
    path = store / "tas/.zarray"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    error = within(20, lambda: READERS[reader](store))
    assert error is None or isinstance(error, CfaggError), error
    if error is not None:
        assert str(store) in str(error)


def test_a_store_is_only_read(tmp_path):
    make(tmp_path / "s", 3)
    store = CheckedStore(tmp_path / "s")
    assert store.read_only
    assert store.with_read_only(False).read_only
    with pytest.raises(ValueError, match="read-only"):
        open_by_zarr(store, "tas", 3)[0] = 1


@pytest.mark.few(12)
@pytest.mark.parametrize("dtype", [">f4", "<i2", "?", "f2", "c8", "U5"])
@pytest.mark.parametrize("kind", ["v2", "v2-F", "v3", "v3-shards", "v3-transposed"])
def test_arrays_that_are_decoded_here_have_the_values_of_zarr_python(tmp_path, dtype, kind):
    import zarr.codecs as zc

    values = (np.arange(35) % 11).reshape(5, 7).astype(dtype)
    more = {
        "v2": {"zarr_format": 2}, "v2-F": {"zarr_format": 2, "order": "F"}, "v3": {}, "v3-shards": {"shards": (4, 6)},
        "v3-transposed": {"filters": [zc.TransposeCodec(order=(1, 0))]},
    }[kind]  # fmt: skip
    fill = "" if dtype == "U5" else 0
    peer = create(tmp_path, "g/x", (5, 7), (2, 3), dtype=dtype, fill_value=fill, **more)
    peer[:, :5] = values[:, :5]
    peer = open_peer(tmp_path, "g/x")
    found = local_reader(LocalStore(str(tmp_path)), "g/x")
    assert (found is None) == (dtype in ("c8", "U5"))
    if found is not None:
        np.testing.assert_array_equal(found.read(np.s_[:, :]), peer[...])
        np.testing.assert_array_equal(found.read(np.s_[1:4, ::2]), peer[1:4, ::2])
        np.testing.assert_array_equal(found.read(np.s_[0:5:4, 2:3]), peer[0:5:4, 2:3])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).read(np.s_[2:3, :]), peer[2:3, :])


def test_a_store_in_the_wrong_group_is_an_error_of_cfagg(tmp_path):
    make(tmp_path / "s", 3)
    with pytest.raises(SourceError, match="nothing"):
        cfagg.read(tmp_path / "s", group="nothing")


@pytest.mark.parametrize("reader", READERS)
def test_the_environment_may_allow_what_links_lead_to(tmp_path, monkeypatch, reader):
    make(tmp_path / "s", 3)
    away = linked(tmp_path / "s", "x", "tas/c/0")
    monkeypatch.setenv("CFAGG_ALLOW", f"/nowhere{os.pathsep}{away}")
    assert within(20, lambda: READERS[reader](tmp_path / "s")) is None


def test_a_check_reads_links_that_are_allowed(tmp_path):
    make(tmp_path / "s", 3)
    away = linked(tmp_path / "s", "x", "tas/zarr.json")
    found = cfagg.check(tmp_path / "s", allow=away)
    assert not [f for f in found.findings if f.code.startswith("INT")]
    with pytest.raises(AccessError, match="outside the store"):
        open_zarr(str(tmp_path / "s"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_coordinate_that_is_no_regular_file_is_refused_at_once_by_statistics(tmp_path, kind):
    make(tmp_path / "s", 3)
    accumulate(tmp_path / "s", "tas")
    put(tmp_path / "s/time/c/0", kind)
    error = within(30, lambda: open_accumulated(tmp_path / "s", "tas").mean("time"))
    assert isinstance(error, CfaggError), error


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_a_recipe_that_is_no_regular_file_is_refused_at_once(tmp_path, kind):
    put(tmp_path / "recipe.yaml", kind)
    error = within(20, lambda: cfagg.create_observations(tmp_path / "recipe.yaml", tmp_path / "out.zarr"))
    assert isinstance(error, SourceError), error


def test_a_store_in_a_zip_file_is_read_and_runs_no_code(tmp_path):
    import zarr

    make(tmp_path / "s", 2)
    with zarr.storage.ZipStore(tmp_path / "good.zip", mode="w") as store:
        xr.Dataset({"tas": ("time", np.arange(6.0))}).to_zarr(store, zarr_format=2, consolidated=False)
    assert cfagg.read(tmp_path / "good.zip").tas.values.tolist() == list(range(6))
    document = json.loads((tmp_path / "s/tas/.zarray").read_text())
    document.update(compressor=None, filters=[{"id": "pickle", "protocol": 5}])
    (tmp_path / "s/tas/.zarray").write_text(json.dumps(document))
    for key in ("0", "1"):
        (tmp_path / "s/tas" / key).write_bytes(pickle.dumps(Trap(tmp_path / "run")))
    shutil.make_archive(str(tmp_path / "bad"), "zip", tmp_path / "s")
    with pytest.raises(UnsupportedError, match="pickle"):
        cfagg.read(tmp_path / "bad.zip").load()
    assert not (tmp_path / "run").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("key", ["tas/c/0", "tas", "time", "time/c/0"])
def test_sums_are_made_extended_and_asked_through_links_that_are_allowed(tmp_path, key):
    make(tmp_path / "s", 3)
    away = linked(tmp_path / "s", "x", key)
    accumulate(tmp_path / "s", "tas", allow=away)
    assert accumulate(tmp_path / "s", "tas", refresh=True, allow=[away]).action == "up to date"
    assert accumulate(tmp_path / "s", "tas", adopt=True, allow=[away]).action == "up to date"
    assert open_accumulated(tmp_path / "s", "tas", allow=away).mean().item() == 2.5
    with pytest.raises(CfaggError, match=r"allow=\['"):
        open_accumulated(tmp_path / "s", "tas").mean("time", isel={"time": slice(0, 2)})


@pytest.mark.parametrize("key", ["tas/c/0", "tas"])
def test_the_commands_follow_links_that_are_allowed(tmp_path, key, capsys):
    make(tmp_path / "s", 3)
    away = linked(tmp_path / "s", "x", key)
    assert main(["accumulate", str(tmp_path / "s"), "tas", "--dims", "time"]) == 2
    assert f"--allow {away}" in capsys.readouterr().err
    assert main(["accumulate", str(tmp_path / "s"), "tas", "--dims", "time", "--resume", "--allow", str(away)]) == 0
    command = ["mean", str(tmp_path / "s"), "tas", "--select", "time=[0:2]"]
    assert main(command) == 2
    assert main([*command, "--allow", str(away)]) == 0
    assert "0.5" in capsys.readouterr().out


@pytest.mark.parametrize("allow", ["", ["/data", ""]])
def test_an_empty_place_allows_nothing_to_sums(tmp_path, allow):
    make(tmp_path / "s", 3)
    with pytest.raises(AccessError, match="empty prefix"):
        accumulate(tmp_path / "s", "tas", allow=allow)
    with pytest.raises(AccessError, match="empty prefix"):
        open_accumulated(tmp_path / "s", "tas", allow=allow)


def test_the_accessor_asks_sums_through_the_links_that_were_allowed_on_reading(tmp_path):
    make(tmp_path / "s", 3)
    away = linked(tmp_path / "s", "x", "tas/c/0")
    accumulate(tmp_path / "s", "tas", allow=away)
    found = cfagg.read(tmp_path / "s", allow=away).tas.isel(time=slice(0, 2)).cfagg.mean("time")
    assert found.item() == 0.5
    assert found.encoding["cfagg"] == "from the accumulation"


def endless(folder: Path, entry: object, name: str = "rectilinear") -> Path:
    """Write a store whose one array tells more chunks than any array has, in a few bytes."""
    size = 2**33
    create(folder, "v", (size,), (size,), dtype="i1", dimension_names=("x",))
    document = json.loads((folder / "v/zarr.json").read_text())
    key = "chunk_shape" if name == "regular" else "chunk_shapes"
    document["chunk_grid"] = {"name": name, "configuration": {key: [entry]}}
    if name != "regular":
        document["chunk_grid"]["configuration"]["kind"] = "inline"
    (folder / "v/zarr.json").write_text(json.dumps(document))
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    held = {"kind": "inline", "must_understand": False, "metadata": {"v": document}}
    (folder / "zarr.json").write_text(json.dumps({**root, "consolidated_metadata": held}))
    return folder


@pytest.mark.parametrize("entry", [[[1, 2**33]], 1])
def test_runs_of_endless_chunks_are_refused_before_another_library_lists_them(tmp_path: Path, entry: object) -> None:
    path = endless(tmp_path / "a.zarr", entry)
    with pytest.raises(LimitError, match=r"dimension 0 has 8,589,934,592 chunks, more than"):
        cfagg.read(path)
    # What is read here needs no list of them.
    assert cfagg.open_array(path, "v")[[2**32, 5]].tolist() == [0, 0]


@pytest.mark.few(1)
@pytest.mark.parametrize("chunked", [{}, {"chunks": {}}])
def test_more_unequal_chunks_than_another_library_lists_are_read(tmp_path, chunked):
    path = endless(tmp_path / "a.zarr", [[1, 2**20], [8191, 2**20]])
    (path / "v/c").mkdir()
    (path / f"v/c/{2**20 + 1}").write_bytes(numcodecs.Zstd().encode(np.full(8191, 3, "i1")))
    first = 2**20 + 8191
    asked = [first - 1, first, first + 8190, first + 8191]
    assert cfagg.read(path, **chunked).v[asked].values.tolist() == [0, 3, 3, 0]
    assert cfagg.open_array(path, "v")[asked].tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize(("entry", "name"), [([[1, 2**33]], "rectilinear"), (1, "regular")])
def test_edges_of_endless_chunks_are_not_listed(tmp_path: Path, entry: object, name: str) -> None:
    lazy = cfagg.open_array(endless(tmp_path / "a.zarr", entry, name), "v")
    for ask in (lambda: lazy.chunks, lazy.to_dask, lambda: cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.zarr")):
        with pytest.raises(LimitError):
            ask()
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("point", [0x110000, 0xFFFFFFFF, 0xD800])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_with_code_points_that_unicode_lacks_is_refused_by_name(
    tmp_path: Path, zarr_format: int, point: int, order: str
) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    names = {"dimension_names": ["x"]} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
    group.create_array("v", shape=(4,), chunks=(2,), dtype=f"{order}U2", compressors=None, **names)[:] = "é"
    chunk = tmp_path / "a.zarr" / ("v/1" if zarr_format == 2 else "v/c/1")
    own = "little" if chunk.read_bytes()[0] else "big"
    chunk.write_bytes(point.to_bytes(4, own) + chunk.read_bytes()[4:])
    said = f"v'? (of .*)?is damaged: its text has the code point {point:#x}, which Unicode lacks"
    for ask in (
        lambda: cfagg.read(tmp_path / "a.zarr").v[2:].load(),
        lambda: cfagg.open_array(tmp_path / "a.zarr", "v")[2:],
        lambda: cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.zarr"),
        lambda: cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.nc"),
    ):
        with pytest.raises(FragmentReadError, match=said):
            ask()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]
    assert cfagg.open_array(tmp_path / "a.zarr", "v")[:2].tolist() == ["é", "é"]


@pytest.mark.parametrize("name", ["pickle", "Pickle", "numcodecs.pickle"])
@pytest.mark.parametrize(
    "document",
    [
        lambda name: {"filters": [{"id": name}]},
        lambda name: {"codecs": ["bytes", name]},
        lambda name: {"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": name}]}}]},
        lambda name: {"consolidated_metadata": {"metadata": {"a": {"codecs": [{"name": name}]}}}},
    ],
    ids=["filters", "codecs", "shards", "consolidated"],
)
def test_no_document_that_names_a_codec_that_runs_code_gets_to_zarr_python(document, name):
    with pytest.raises(UnsupportedError, match=r"'pickle', which executes code from the store and is never used"):
        vetted("zarr.json", json.dumps(document(name)).encode(), "a.zarr/zarr.json")


@pytest.mark.parametrize("part", [None, RangeByteRequest(5, 5000), OffsetByteRequest(5), SuffixByteRequest(4000)])
def test_no_part_of_a_file_is_larger_than_any_chunk(tmp_path, monkeypatch, part) -> None:
    monkeypatch.setattr(limits, "MAX_CHUNK", 1000)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0").write_bytes(bytes(6000))
    store = CheckedStore(tmp_path)
    with pytest.raises(LimitError, match=r"c/0 takes .* bytes of memory at once"):
        store.part("c/0", part)
    assert store.part("c/0", RangeByteRequest(5, 1005)) == bytes(1000)
