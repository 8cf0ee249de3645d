"""Formats that other packages bring: found by their entry points, read as any other."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.arrays.opening import open_reader
from cfagg.checking.opening import open_dataset
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import CfaggError, FragmentMismatchError, SourceError
from cfagg.formats import plugins
from cfagg.formats.opening import FORMATS
from cfagg.formats.protocol import Format, Locating
from tests import nca_files

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "docs/plugins/toy/toy_format.py").read_text(encoding="utf-8")

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Work in a directory that is in the path of modules; return what puts a package there as pip would."""
    info = tmp_path / "cfagg_toy-0.1.dist-info"

    def put(code: str) -> None:
        (tmp_path / "toy_format.py").write_text(code)
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cfagg_toy\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text("[cfagg.formats]\ntoy = toy_format:toy\n")

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.loaded.cache_clear()
    yield put
    plugins.loaded.cache_clear()
    sys.modules.pop("toy_format", None)


def test_a_file_of_a_plug_in_is_checked_with_its_values(install: Install) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat nonsense 1 3 2\n")
    assert any("'nonsense'" in finding.message for finding in cfagg.check("a.toy").findings)
    with open_dataset("a.toy") as dataset:
        assert dataset.format == "toy"
        assert dataset.variables[0].values().tolist() == [1, 3, 2]


def test_a_file_of_a_plug_in_is_shown(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3 2\n")
    assert main(["show", "a.toy"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == str(cfagg.show("a.toy")).strip()
    assert "a.toy (toy)" in shown
    assert re.search(r"lat +\(lat: 3\) +float64", shown)


@pytest.mark.parametrize("function", [cfagg.check, cfagg.show])
def test_what_is_damaged_is_told_in_the_words_of_the_plug_in(
    install: Install, function: Callable[[str], object]
) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat degrees_north\n")
    with pytest.raises(SourceError, match=r"a\.toy: variable 'lat' has no values; write the line again$"):
        function("a.toy")


def test_a_file_of_a_plug_in_is_read_lazily_with_its_attributes(install: Install) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3 2\nlon degrees_east 0.5 -7\n")
    dataset = cfagg.read("a.toy")
    assert dict(dataset.sizes) == {"lat": 3, "lon": 2}
    assert dataset.lon.attrs == {"units": "degrees_east"}
    assert dataset.lat[::-2].values.tolist() == [2, 1]
    assert cfagg.read("a.toy", variables=["lon"], chunks={}).lon.values.tolist() == [0.5, -7]


def test_a_file_of_a_plug_in_is_converted(install: Install) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3 2\n")
    assert cfagg.convert("a.toy", "out.zarr", verify=True).variables == ("lat",)
    found = zarr.open_group("out.zarr", mode="r")["lat"]
    assert found[...].tolist() == [1, 3, 2]
    assert found.attrs["units"] == "degrees_north"


def test_what_reads_a_file_of_a_plug_in_opens_it_again_where_it_was_sent(install: Install) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3 2\n")
    sent = pickle.dumps(open_reader("a.toy", "lat"))
    assert pickle.loads(sent).read([slice(1, None)]).tolist() == [3, 2]
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3\n")
    with pytest.raises(FragmentMismatchError, match=r"a\.toy, variable 'lat': the file has changed; open it again"):
        pickle.loads(sent).read([slice(1, None)])


@pytest.mark.parametrize("function", [cfagg.read, lambda name: cfagg.convert(name, "out.zarr")])
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("lambda s: values[:1]", r"\(1,\) values were read, expected \(3,\)"),
        ("lambda s: values[s].astype('i4')", "its values are int32, but it is described as float64"),
        ("None", "its format does not give its values"),
        ("lambda s: 1 / 0", "plug-in 'toy' failed: ZeroDivisionError"),
    ],
)
def test_values_that_are_not_those_that_were_described_are_refused(
    install: Install, function: Callable[[str], object], values: str, told: str
) -> None:
    install(EXAMPLE.replace("read = values.__getitem__", f"read = {values}"))
    Path("a.toy").write_text("TOY1\nlat degrees_north 1 3 2\n")
    with pytest.raises(SourceError, match=told):
        function("a.toy")
    assert not Path("out.zarr").exists()


def test_a_partition_of_such_a_format_is_a_finding_as_it_cannot_be_read(install: Install) -> None:
    install(EXAMPLE)
    path = nca_files.simple(".", np.arange(3.0), ["t"], [[0, 3]])
    for part in Path("parts").iterdir():
        part.write_text("TOY1\ntas K 1 2 3\n")
    found = cfagg.check(path, references=True).findings
    assert any("is not a netCDF file: it starts with b'TOY1" in finding.message for finding in found), found


@pytest.mark.parametrize("function", [cfagg.check, cfagg.show])
def test_a_file_that_no_plug_in_knows_is_refused(install: Install, function: Callable[[str], object]) -> None:
    install(EXAMPLE)
    Path("a.toy").write_text("TOY2\n")
    with pytest.raises(SourceError, match="is not a netCDF file: it starts with b'TOY2"):
        function("a.toy")


def toy(recognise: str = "return True", opened: str = "pass", name: str = "toy") -> str:
    """Return the code of a format."""
    return (
        f"class Toy:\n    name = {name!r}\n    def recognise(self, head, path): {recognise}\n"
        f"    def open(self, handle): {opened}\ntoy = Toy()\n"
    )


@pytest.mark.parametrize("function", [cfagg.check, cfagg.show])
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("toy = 5", "int is not a cfagg.formats.protocol.Format"),
        (toy("raise SystemExit(3)"), "SystemExit: 3"),
        (toy(opened="raise KeyError('gone')"), "KeyError: 'gone'"),
        (toy(opened="return 5"), "it opens a file as int"),
        (toy(opened="import cfagg.model.dataset as m; return m.Dataset('a', 'x', m.Group())", name="zarr"), "'zarr'"),
    ],
)
def test_a_plug_in_that_fails_is_named(
    install: Install, function: Callable[[str], object], code: str, told: str
) -> None:
    install(code)
    Path("a.toy").write_text("TOY1\n")
    with pytest.raises(SourceError, match=rf"a\.toy: the format plug-in 'toy' failed: .*{re.escape(told)}"):
        function("a.toy")


def test_a_plug_in_that_fails_while_values_are_read_is_named(install: Install) -> None:
    install(EXAMPLE.replace("read = values.__getitem__", "read = lambda s: 1 / 0"))
    Path("a.toy").write_text("TOY1\nlat degrees_north 1\n")
    with open_dataset("a.toy") as dataset, pytest.raises(SourceError, match="plug-in 'toy' failed: ZeroDivision"):
        dataset.variables[0].values()


def test_a_plug_in_is_not_asked_about_formats_of_cfagg(install: Install) -> None:
    install("1 / 0")
    shutil.copy(sample("figure1.nca"), "a.toy")
    cfagg.show("a.toy")
    cfagg.check("a.toy")
    Path("a.cdl").write_text("netcdf a {\n}\n")
    cfagg.check("a.cdl")


def test_the_example_of_the_architecture_is_a_plug_in(install: Install) -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("## Formats of other packages")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    install(found[1])
    Path("a.toy").write_text("TOY1 winds")
    assert str(cfagg.show("a.toy")).startswith("a.toy (toy)")
    with open_dataset("a.toy") as dataset:
        assert dataset.root.attributes == {"title": "winds"}


def packed(path: str = "a.toy") -> np.ndarray:
    """Write six numbers in chunks of two, of which the second was never written; return the values."""
    chunks = [zlib.compress(np.array(pair).tobytes()) for pair in ([1.0, 3.0], [2.0, 8.0])]
    head = "TOY1\ntas K 6 2 @{}+{} - @{}+{}\n\n"
    at = len(head.format(100, *map(len, chunks[:1]), 100, len(chunks[1])))
    text = head.format(f"{at:03}", len(chunks[0]), f"{at + len(chunks[0]):03}", len(chunks[1]))
    Path(path).write_bytes(b"".join([text.encode(), *chunks]))
    return np.array([1, 3, np.nan, np.nan, 2, 8])


def test_chunks_of_a_plug_in_are_read_by_their_table(install: Install) -> None:
    install(EXAMPLE)
    expected = packed()
    np.testing.assert_array_equal(cfagg.read("a.toy").tas.values, expected)
    np.testing.assert_array_equal(cfagg.read("a.toy").tas[::-2].values, expected[::-2])
    sent = pickle.loads(pickle.dumps(open_reader("a.toy", "tas")))
    np.testing.assert_array_equal(sent.read([np.array([5, 0, 3])]), expected[[5, 0, 3]])
    with open_dataset("a.toy") as dataset:
        np.testing.assert_array_equal(dataset.variables[0].values(), expected)
    cfagg.convert("a.toy", "out.zarr", verify=True)
    np.testing.assert_array_equal(zarr.open_group("out.zarr", mode="r")["tas"][...], expected)


def read_one(name: str) -> object:
    return open_reader(name, "tas").read([slice(None)])


def check_one(name: str) -> object:
    with open_dataset(name) as dataset:
        return dataset.variables[0].values()


@pytest.mark.few(8)
@pytest.mark.parametrize("function", [read_one, check_one])
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("cells, offset, length)", "cells, [o + 9 for o in offset], length)", r"chunk \(0,\) of 'tas' .* is damaged"),
        ("cells, offset, length)", "cells, [o + 99 for o in offset], length)", r"is truncated: it has .* chunk \(0,\)"),
        ("cells, offset, length)", "cells, -1, length)", "cannot be where the file says(.|\n)*offset"),
        ("cells, offset, length)", "cells, offset, length, keys=['b.toy'])", "another file .a chunk to 'b.toy'"),
        ("return ChunkTable(", "return (", "plug-in 'toy' failed: TypeError: the chunks of 'tas' are tuple"),
        ("(size,)", "(size - 1,)", r"its chunks are float64 of shape \(5,\), but it is described as float64"),
        ('Encoding(np.dtype("<f8")', 'Encoding(np.dtype("<f4")', "its chunks are float32 of shape"),
        ("((1, ()),)", "((32004, ()),)", r"its chunks passed the filters \[32004\]"),
        ("fill=np.nan", "fill=None", r"chunk \(1,\) of 'tas' .* is damaged: it is not stored"),
        ("((1, ()),)", "()", r"it decodes to at most .* bytes, expected 16|it decodes to .* bytes, expected 16"),
        ("fill=np.nan", "fill=0, decode=lambda data, cell: 1 / 0", "plug-in 'toy' failed: ZeroDivisionError"),
        ("fill=np.nan", "fill=0, decode=lambda data, cell: np.zeros(3)", r"it decodes to float64 of shape \(3,\)"),
    ],
)  # fmt: skip
def test_a_chunk_table_that_cannot_be_is_refused(
    install: Install, function: Callable[[str], object], old: str, new: str, told: str
) -> None:
    assert old in EXAMPLE
    install(EXAMPLE.replace(old, new))
    packed()
    with pytest.raises(CfaggError, match=told):
        function("a.toy")


def test_a_plug_in_decodes_its_chunks_itself_by_their_cell(install: Install) -> None:
    own = "fill=0, decode=lambda data, cell: cell + np.frombuffer(__import__('zlib').decompress(data))"
    install(EXAMPLE.replace("fill=np.nan", own))
    packed()
    assert cfagg.read("a.toy").tas.values.tolist() == [1, 3, 0, 0, 4, 10]


def test_formats_of_cfagg_are_objects_of_the_same_protocol() -> None:
    assert [form.name for form in FORMATS] == ["classic netCDF", "HDF5", "CDL", "PP", "kerchunk"]
    assert all(isinstance(form, Format) for form in FORMATS)
    assert [isinstance(form, Locating) for form in FORMATS] == [True, True, False, True, False]
