"""References of kerchunk and VirtualiZarr are read as what they refer to; whatever they say, only what is allowed."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import parquet

import cfagg
from cfagg.cli.main import main
from cfagg.conventions import limits
from cfagg.errors import (
    AccessError,
    CfaggError,
    FragmentNotFoundError,
    FragmentReadError,
    LimitError,
    SourceError,
    UnsupportedError,
)
from cfagg.formats.kerchunk import references
from cfagg.formats.kerchunk.store import open_references
from tests.formats.kerchunk.making import placed

ALL = ("kerchunk-d.json", "kerchunk-c.json", "kerchunk-d.parq", "virtualizarr-d.json", "virtualizarr-d.parquet")
SINGLE = ("kerchunk-d-single.json", "kerchunk-c-single.json", "virtualizarr-d-single.json")


def files(folder: Path, name: str) -> xr.Dataset:
    """Return what the files themselves hold."""
    kind = "c" if name == "c" or "-c" in name else "d"
    found = [xr.open_dataset(folder / f"{kind}{k}.nc") for k in range(1 if "single" in name else 2)]
    whole = xr.concat(found, "time", data_vars="minimal", coords="minimal", compat="override")
    return whole.load()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [*ALL, *SINGLE])
def test_references_are_read_as_the_files(tmp_path, name):
    folder = placed(tmp_path)
    found = cfagg.read(folder / name)
    xr.testing.assert_equal(found.load(), files(folder, name))


def test_of_virtualizarr_a_fill_value_is_that_of_its_metadata_as_xarray_takes_it(tmp_path):
    folder = placed(tmp_path)
    # It writes 0 where a classic file declares none.
    found, own = cfagg.read(folder / "virtualizarr-c.json").tas.values, files(folder, "c").tas.values
    np.testing.assert_array_equal(found, np.where(own == 0, np.nan, own))


@pytest.mark.parametrize("name", ["kerchunk-d.json", "virtualizarr-d.parquet"])
def test_parts_of_chunks_are_read_in_any_order(tmp_path, name):
    folder = placed(tmp_path)
    found, own = cfagg.read(folder / name).tas, files(folder, name).tas
    for key in ({"time": slice(1, 7, 3)}, {"time": [6, 1], "lat": 2}, {"lon": slice(None, None, -1)}):
        np.testing.assert_array_equal(found.isel(key).values, own.isel(key).values)


@pytest.mark.parametrize("pack", [gzip.compress, numcodecs.Zstd().encode])
def test_packed_references_are_read(tmp_path, pack):
    folder = placed(tmp_path)
    (folder / "a").write_bytes(pack((folder / "kerchunk-d.json").read_bytes()))
    np.testing.assert_array_equal(cfagg.read(folder / "a").tas.values, files(folder, "d").tas.values)


def changed(folder: Path, change: Any, name: str = "a.json") -> Path:
    """Return references after a function has changed their table."""
    found = json.loads((folder / "kerchunk-d.json").read_text())
    made = change(found)
    (folder / name).write_text(json.dumps(found if made is None else made))
    return folder / name


def test_references_of_version_0_are_read(tmp_path):
    path = changed(placed(tmp_path), lambda found: found["refs"])
    assert cfagg.read(path).tas.shape == (8, 5, 6)


@pytest.mark.few(1)
@pytest.mark.parametrize("slash", ["/", "\\/"])
@pytest.mark.parametrize("first", ["tas/0.0.0", "lat/0"])
def test_references_of_version_0_may_begin_with_a_chunk(tmp_path, first, slash):
    folder = placed(tmp_path)
    path = changed(folder, lambda found: {first: found["refs"].pop(first), **found["refs"]})
    path.write_text(path.read_text().replace("/", slash))
    np.testing.assert_array_equal(cfagg.read(path).tas.values, files(folder, "d").tas.values)


@pytest.mark.parametrize("reference", ["base64:AAAAAAAAAEA=", ["scalar.bin", 0, 8]])
def test_the_chunk_of_a_scalar_is_read_by_the_key_that_virtualizarr_gives_it(tmp_path, reference):
    folder = placed(tmp_path)
    (folder / "scalar.bin").write_bytes(np.float64(2).tobytes())
    document = {
        "zarr_format": 2, "shape": [], "chunks": [], "dtype": "<f8", "fill_value": 9.5, "order": "C", "filters": None,
        "compressor": None,
    }  # fmt: skip
    path = changed(folder, lambda found: found["refs"].update({"height/": reference, "height/.zarray": document}))
    assert cfagg.read(path).height.values == 2
    assert cfagg.open_aggregation(path, "height").partitions.present.all()


def templated(found: dict[str, Any]) -> None:
    found["templates"] = {"u": "d"}
    for value in found["refs"].values():
        if isinstance(value, list):
            value[0] = value[0].replace("d", "{{ u }}", 1)


def test_plain_templates_are_filled_in(tmp_path):
    folder = placed(tmp_path)
    assert '["{{ u }}0.nc", ' in changed(folder, templated).read_text()
    np.testing.assert_array_equal(cfagg.read(folder / "a.json").tas.values, files(folder, "d").tas.values)


def with_tas(reference: Any) -> Any:
    def change(found: dict[str, Any]) -> None:
        found["refs"]["tas/0.0.0"] = reference

    return change


def with_template(text: str, url: str) -> Any:
    def change(found: dict[str, Any]) -> None:
        found["templates"] = {"u": text}
        found["refs"]["tas/0.0.0"] = [url, 1, 2]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_template("{{ 7 * 7 }}", "{{u}}"), "'u' is not plain text"),
        (with_template("{% set a = 1 %}", "{{u}}"), "'u' is not plain text"),
        (with_template("d0", "{{ u.__class__ }}.nc"), "'tas/0.0.0' has the template"),
        (with_template("d0", "{{ u('a') }}.nc"), "only plain names"),
        (lambda found: found.update(gen=[{"key": "a", "url": "b", "dimensions": {}}]), "generates references"),
        (lambda found: found.update(version=2), "version '2'"),
    ],
)
def test_what_would_be_evaluated_is_refused_by_its_name(tmp_path, change, message):
    with pytest.raises(UnsupportedError, match=message):
        _ = cfagg.read(changed(placed(tmp_path), change)).tas.values


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (["d0.nc", -1, 2], "whole numbers"),
        (["d0.nc", 1.5, 2], "whole numbers"),
        (["d0.nc", 1], "expected text, or a list"),
        ([7, 1, 2], "expected text, or a list"),
        (True, "expected text, or a list"),
        ("base64:***", "base64"),
    ],
)
def test_a_damaged_reference_is_named(tmp_path, reference, message):
    with pytest.raises(SourceError, match=f"'tas/0.0.0' is damaged: .*{message}"):
        _ = cfagg.read(changed(placed(tmp_path), with_tas(reference))).tas.values


def test_a_file_that_is_gone_is_named(tmp_path):
    folder = placed(tmp_path)
    (folder / "d1.nc").unlink()
    found = cfagg.read(folder / "kerchunk-d.json").tas
    assert found[:4].values.shape == (4, 5, 6)
    with pytest.raises(FragmentNotFoundError, match=r"reference 'tas/[23].0.0'.*d1\.nc"):
        _ = found.values


def test_a_file_that_became_shorter_is_named(tmp_path):
    folder = placed(tmp_path)
    (folder / "d1.nc").write_bytes((folder / "d1.nc").read_bytes()[:100])
    with pytest.raises(FragmentReadError, match=r"d1\.nc is truncated: it has 100 bytes"):
        _ = cfagg.read(folder / "kerchunk-d.json").tas.values


def test_bytes_of_a_file_that_do_not_decode_are_an_error(tmp_path):
    folder = placed(tmp_path)
    with pytest.raises(FragmentReadError, match="damaged"):
        _ = cfagg.read(changed(folder, with_tas(["d0.nc", 0, 83]))).tas.values


SECRETS = (
    "../secret.bin",
    "{}/secret.bin",
    "file://{}/secret.bin",
    "FILE://localhost{}/secret.bin",
    "local://{}/secret.bin",
)


@pytest.mark.few(2)
@pytest.mark.parametrize("url", SECRETS)
def test_a_file_elsewhere_is_read_where_that_is_allowed_and_nowhere_else(tmp_path, url):
    (tmp_path / "in").mkdir()
    folder = placed(tmp_path / "in")
    values = np.arange(60, dtype="<f4")
    (tmp_path / "secret.bin").write_bytes(numcodecs.Zlib().encode(numcodecs.Shuffle(4).encode(values)))
    path = changed(folder, with_tas([url.format(tmp_path)]))
    with pytest.raises(AccessError, match=r"secret\.bin"):
        _ = cfagg.read(path).tas.values
    found = cfagg.read(path, allow=[tmp_path]).tas[:2].values
    np.testing.assert_array_equal(found.reshape(-1), values)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "in").mkdir()
    folder = placed(tmp_path / "in")
    (tmp_path / "secret.bin").write_bytes(bytes(100))
    (folder / "link").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(AccessError, match=r"secret\.bin"):
        _ = cfagg.read(changed(folder, with_tas(["link"]))).tas.values


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/a", "https://example.org/a.nc", "s3://bucket/a.nc", "ftp://a/b", "memory://a"]
)
def test_urls_that_were_not_allowed_are_not_asked(tmp_path, url):
    with pytest.raises((AccessError, UnsupportedError), match=r"reference 'tas/0\.0\.0'"):
        _ = cfagg.read(changed(placed(tmp_path), with_tas([url, 0, 10]))).tas.values


def test_a_codec_that_runs_code_is_refused(tmp_path):
    def change(found: dict[str, Any]) -> None:
        document = json.loads(found["refs"]["tas/.zarray"])
        document["filters"] = [{"id": "pickle"}]
        found["refs"]["tas/.zarray"] = json.dumps(document)

    with pytest.raises(FragmentReadError, match="pickle"):
        _ = cfagg.read(changed(placed(tmp_path), change)).tas.values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"refs": {".zgroup": "{}"}}', "'refs', but no 'version'.* write \"version\": 1"),
        ('{"version": 1}', "'version', but no 'refs'"),
    ],
)
def test_a_table_with_half_of_the_keys_of_version_1_is_named(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SourceError, match=message):
        cfagg.read(tmp_path / "a.json")


@pytest.mark.parametrize("text", ['{"version": 1, "refs": ', '{"refs": 7, "version": 1}', '{"version": 1, "refs": []}'])
def test_what_is_no_table_is_an_error_of_ours(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SourceError):
        cfagg.read(tmp_path / "a.json")


def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(references, "MOST", 2**20)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"version": 1, "refs": {' + b" " * 2**20))
    with pytest.raises(LimitError, match="Parquet"):
        cfagg.read(tmp_path / "a.json.gz")


@pytest.mark.parametrize("name", ["kerchunk-d.json", "virtualizarr-d.parquet"])
def test_a_reader_of_references_goes_to_other_processes(tmp_path, name):
    folder = placed(tmp_path)
    found = pickle.loads(pickle.dumps(cfagg.read(folder / name).tas))
    np.testing.assert_array_equal(found.values, files(folder, name).tas.values)


@pytest.mark.parametrize("name", ["kerchunk-d.json", "virtualizarr-d.parquet"])
def test_the_aggregation_of_references_has_a_partition_for_each_chunk(tmp_path, name):
    folder = placed(tmp_path)
    found = cfagg.open_aggregation(folder / name, "tas")
    assert found.grid.sizes == ((2, 2, 2, 2), (5,), (6,))
    assert [Path(f).name for f in found.partitions.files] == ["d0.nc", "d1.nc"]
    assert found.partitions.file.tolist() == [0, 0, 1, 1]
    raw = (folder / "d0.nc").read_bytes()
    start = int(found.partitions.offset[0])
    first = np.frombuffer(numcodecs.Shuffle(4).decode(numcodecs.Zlib().decode(raw[start : start + 83])), "<f4")
    np.testing.assert_array_equal(first, np.arange(60))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["kerchunk-d.json", "virtualizarr-d.parquet"])
def test_references_are_shown_checked_and_converted(tmp_path, name):
    folder = placed(tmp_path)
    assert "tas (time: 8, lat: 5, lon: 6) float32" in str(cfagg.show(folder / name))
    codes = {f.code for f in cfagg.check(folder / name).findings}
    assert codes >= {f.code for f in cfagg.check(folder / "d0.nc").findings}
    cfagg.convert(folder / name, tmp_path / "out.zarr")
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "out.zarr", consolidated=False).load(), files(folder, name))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("key", "value"), [("record_size", 0), ("record_size", "ten"), ("record_size", 2**40), ("record_size", -1)]
)
def test_a_directory_of_parquet_with_damaged_sizes_is_refused(tmp_path, key, value):
    folder = placed(tmp_path)
    mark = folder / "virtualizarr-d.parquet" / ".zmetadata"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {key: value}))
    with pytest.raises(SourceError, match="record_size"):
        cfagg.read(folder / "virtualizarr-d.parquet")


def test_damaged_parquet_is_named(tmp_path):
    folder = placed(tmp_path)
    (folder / "virtualizarr-d.parquet" / "tas" / "refs.0.parq").write_bytes(b"PAR1" + bytes(30) + b"PAR1")
    with pytest.raises(SourceError, match=r"tas/refs\.0\.parq is damaged"):
        _ = cfagg.read(folder / "virtualizarr-d.parquet").tas.values


def rows(folder: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    """Write the references to one array anew; return the directory."""
    place = folder / "virtualizarr-d.parquet" / "tas" / "refs.0.parq"
    parquet.write_table(change(parquet.read_table(place)), place)
    return folder / "virtualizarr-d.parquet"


@pytest.mark.parametrize("limits", [{"_BYTES": 100}, {"_FEW_BYTES": 100, "_UNPACKED": 0}])
def test_parquet_of_more_bytes_than_are_read_is_refused_before_arrow_sees_it(tmp_path, monkeypatch, limits):
    path = placed(tmp_path) / "virtualizarr-d.parquet"
    for name, limit in limits.items():
        monkeypatch.setattr(f"cfagg.formats.kerchunk.parquet.{name}", limit)
    monkeypatch.setattr(parquet, "ParquetFile", None)
    with pytest.raises(SourceError, match=r"/refs\.0\.parq is damaged: .*too many"):
        _ = cfagg.read(path).tas.values


def test_a_few_bytes_of_parquet_do_not_become_millions_of_references(tmp_path, monkeypatch):
    def many(table):
        return table.take(pa.array(np.zeros(3 << 19, np.int32)))

    path = rows(placed(tmp_path), many)
    mark = path / ".zmetadata"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"record_size": 1 << 24}))
    monkeypatch.setattr(parquet, "ParquetFile", None)
    with pytest.raises(SourceError, match=r"/refs\.0\.parq is damaged: .*too many"):
        open_references(str(path)).table.get("tas/0.0.0")


@pytest.mark.parametrize(
    ("pack", "said"),
    [(gzip.compress, "has .* decompresses to more than"), (numcodecs.Zstd(3).encode, "is damaged, .* 4,2")],
)
def test_a_few_compressed_bytes_do_not_become_millions_of_values(tmp_path, pack, said):
    table = b'{"version": 1, "refs": {".zgroup": "", "x": [' + b"[]," * (2 << 20) + b"1]}}"
    (tmp_path / "refs.json").write_bytes(pack(table))
    with pytest.raises(CfaggError, match=rf"refs\.json {said}"):
        cfagg.read(tmp_path / "refs.json")


def test_parquet_whose_pages_are_not_where_its_footer_says_is_refused(tmp_path):
    path = placed(tmp_path) / "virtualizarr-d.parquet"
    place = path / "tas" / "refs.0.parq"
    place.write_bytes(b"PAR1" + bytes(9) + place.read_bytes()[4:])
    with pytest.raises(SourceError, match=r"tas/refs\.0\.parq is damaged: its footer"):
        _ = cfagg.read(path).tas.values


def test_what_many_rows_of_parquet_share_is_held_once(tmp_path):
    def long(table):
        codes = pa.array(np.zeros(len(table), np.int32))
        raw = pa.DictionaryArray.from_arrays(codes, pa.array([b"a" * 10**5], pa.binary()))
        return table.set_column(table.column_names.index("raw"), "raw", raw)

    folder = placed(tmp_path)
    table = open_references(str(rows(folder, long))).table
    assert len({id(table.get(f"tas/{k}.0.0")) for k in range(2)}) == 1


@pytest.mark.parametrize("name", ["offset", "path"])
def test_parquet_with_a_column_twice_is_damaged(tmp_path, name):
    path = rows(placed(tmp_path), lambda table: table.append_column(name, table.column(name)))
    with pytest.raises(SourceError, match="damaged"):
        _ = cfagg.read(path).tas.values


def test_parquet_with_no_offset_beside_a_path_is_read_from_the_beginning(tmp_path):
    path = rows(placed(tmp_path), lambda t: t.set_column(1, "offset", pa.array([None] * len(t), pa.int64())))
    found = open_references(str(path)).table.get("tas/0.0.0")
    assert isinstance(found, references.Place)
    assert found.offset == 0


def test_text_that_is_no_unicode_is_a_damaged_reference(tmp_path):
    path = changed(placed(tmp_path), lambda found: found["refs"].update({"tas/0.0.0": "\udc80"}))
    with pytest.raises(SourceError, match=r"'tas/0\.0\.0' is damaged: its text"):
        _ = cfagg.read(path).tas.values


def test_templates_do_not_make_names_of_any_length(tmp_path):
    def long(found):
        found["version"], found["templates"] = 1, {"u": "x" * 10**4}
        found["refs"]["tas/0.0.0"] = ["{{u}}" * 10, 0, 1]

    with pytest.raises(SourceError, match="URL has more than"):
        _ = cfagg.read(changed(placed(tmp_path), long)).tas.values


def test_groups_within_groups_without_end_are_refused(tmp_path):
    groups = {f"{'/'.join('g' * k)}/.zgroup": '{"zarr_format": 2}' for k in range(1, 1500)}
    path = changed(placed(tmp_path), lambda found: found["refs"].update(groups))
    for look in (cfagg.read, cfagg.show):
        with pytest.raises(LimitError, match="nested more than"):
            look(path)


def test_groups_within_groups_are_read_as_deep_as_they_may_be(tmp_path):
    groups = {f"{'/'.join('g' * k)}/.zgroup": '{"zarr_format": 2}' for k in range(1, 400)}
    path = changed(placed(tmp_path), lambda found: found["refs"].update(groups))
    assert cfagg.read(path).tas.shape == (8, 5, 6)
    assert str(cfagg.show(path))


def test_inline_values_are_those_of_base64_and_of_text(tmp_path):
    values = np.arange(60, dtype="<f4") + 7
    raw = numcodecs.Zlib().encode(numcodecs.Shuffle(4).encode(values))
    path = changed(placed(tmp_path), with_tas(f"base64:{base64.b64encode(raw).decode()}"))
    np.testing.assert_array_equal(cfagg.read(path).tas[:2].values.reshape(-1), values)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["kerchunk-d-single.json", "virtualizarr-d-single.json", "kerchunk-c-single.json"])
def test_references_are_joined_with_files(tmp_path, name):
    folder = placed(tmp_path)
    found = cfagg.aggregate([folder / name, folder / f"{name[name.index('-') + 1]}1.nc"])
    whole = files(folder, name.replace("-single", ""))
    xr.testing.assert_equal(found[["tas", "pr"]].load(), whole[["tas", "pr"]])


def test_a_directory_of_references_in_parquet_is_one_of_the_files_to_join(tmp_path):
    folder = placed(tmp_path)
    found = cfagg.aggregate([folder / "virtualizarr-d.parquet"])
    np.testing.assert_array_equal(found.tas.values, files(folder, "d").tas.values)


def test_references_beside_files_are_not_counted_a_second_time(tmp_path):
    folder = placed(tmp_path)
    for path in folder.glob("c*.nc"):
        path.unlink()
    found = cfagg.aggregate(folder)
    np.testing.assert_array_equal(found.tas.values, files(folder, "d").tas.values)


@pytest.mark.parametrize("name", ["kerchunk-d.json", "virtualizarr-d.parquet"])
def test_the_files_that_references_name_are_listed_with_what_may_be_read(tmp_path, capsys, name):
    folder = placed(tmp_path)
    assert main(["show", "--references", "--variable", "tas", str(folder / name)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(a, n, Path(f).name) for a, n, f in lines] == [("inside", "2", "d0.nc"), ("inside", "2", "d1.nc")]


def test_a_place_outside_is_listed_without_being_opened(tmp_path, capsys):
    path = changed(placed(tmp_path), with_tas(["/nowhere/a.nc", 0, 1]))
    main(["show", "--references", "--variable", "tas", str(path)])
    assert "/nowhere/a.nc" in capsys.readouterr().out


#: What takes the place of parts of references.
HOSTILE = (
    None, 0, -1, 2**63, 1.5, float("nan"), True, "", "\0", "..", [], {}, [[]], "|O", "|S0", "NaN", ["/dev/zero"], [""],
    [{"id": "pickle"}], [{"id": "vlen-utf8"}], "base64:AAAA", ["d0.nc", 0, 2**61], ["{{u}}"], ["~", 0, 1],
)  # fmt: skip


def distorted(found: Any, draw: random.Random) -> None:
    """Replace, remove or rename one part of nested objects and lists."""
    while True:
        keys = list(found) if isinstance(found, dict) else list(range(len(found)))
        if not keys:  # all was removed
            return
        key = draw.choice(keys)
        if isinstance(found[key], dict | list) and found[key] and draw.random() < 0.8:
            found = found[key]
            continue
        if draw.random() < 0.2:
            del found[key]
        else:
            found[key] = json.loads(json.dumps(draw.choice(HOSTILE)))
        return


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 400))])
def test_whatever_references_say_only_errors_of_ours_are_raised(tmp_path, seed):
    folder, draw = placed(tmp_path), random.Random(seed)
    found = json.loads((folder / "kerchunk-d.json").read_text())
    for key, value in found["refs"].items():
        found["refs"][key] = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    for _ in range(draw.choice([1, 2, 4])):
        distorted(found, draw)
    path = folder / "a.json"
    path.write_text(json.dumps(found))
    for look in (str, lambda p: str(cfagg.show(p)), lambda p: str(cfagg.check(p)), values_of):
        with contextlib.suppress(CfaggError):
            look(path)


def values_of(path: Path) -> None:
    dataset = cfagg.read(path, decode_times=False)
    for name in dataset.variables:
        with contextlib.suppress(CfaggError):
            if dataset[name].size < 10**6:
                _ = dataset[name].values


def test_no_part_of_a_reference_is_larger_than_any_chunk(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "MAX_CHUNK", 1000)
    (tmp_path / "a").write_bytes(bytes(6000))
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": {"v/0": ["a", 0, 6000]}}))
    keys = open_references(str(tmp_path / "r.json"))
    for read in (lambda: keys.read("v/0"), lambda: keys.read_range("v/0", 5, 5000)):
        with pytest.raises(LimitError, match=r"v/0 takes .* bytes of memory at once"):
            read()
    assert keys.read_range("v/0", 5, 1000) == bytes(1000)
    assert keys.read_range("v/0", 5995, 1000) == bytes(5)
