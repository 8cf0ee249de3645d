"""Which files are meant by paths, patterns, directories and URLs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.aggregation.files import places
from cfagg.aggregation.report import explain
from cfagg.errors import OptionError, SourceError, SourceNotFoundError
from tests.aggregation.months import month, months
from tests.rights import unprivileged


def test_files_are_absolute_and_in_the_order_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    months(tmp_path, 2)
    monkeypatch.chdir(tmp_path)
    assert places(["m1.nc", Path("m0.nc")]) == [f"{tmp_path}/m1.nc", f"{tmp_path}/m0.nc"]


def test_an_iterator_is_taken(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    assert places(iter(names)) == names


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    assert places([names[0], f"{tmp_path}/*.nc", f"{tmp_path}/../{tmp_path.name}/m0.nc"]) == names


def test_a_file_with_two_names_counts_once_under_the_first(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    (tmp_path / "a.nc").symlink_to(names[0])
    (tmp_path / "z.nc").hardlink_to(names[1])
    assert places(tmp_path) == [f"{tmp_path}/a.nc", names[1]]


def test_a_pattern_sorts_numbers_by_their_size(tmp_path: Path) -> None:
    for name in ("m10.nc", "m9.nc", "m2.nc"):
        (tmp_path / name).touch()
    assert [Path(p).name for p in places(f"{tmp_path}/m*.nc")] == ["m2.nc", "m9.nc", "m10.nc"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].nc").touch()
    (tmp_path / "a1.nc").touch()
    assert places(f"{tmp_path}/a[1].nc") == [f"{tmp_path}/a[1].nc"]


def test_two_asterisks_go_down_into_directories(tmp_path: Path) -> None:
    names = [str(month(tmp_path / f"{year}" / "m.nc", year)) for year in (2000, 2001)]
    assert places(f"{tmp_path}/**/*.nc") == names


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"no file matches .*\*\.nc"):
        places(f"{tmp_path}/*.nc")


def test_a_directory_stands_for_files_of_known_formats_below_it(tmp_path: Path) -> None:
    month(tmp_path / "sub" / "b", 0)  # known by its first bytes
    month(tmp_path / "a.nc", 1)
    month(tmp_path / ".hidden.nc", 2)
    (tmp_path / "README").write_text("nothing")
    (tmp_path / "a.nc.cfagg-index").write_bytes(b"PAR1")
    (tmp_path / "broken.nc").write_bytes(b"nothing")  # named as one, so that it is told of
    assert places(tmp_path) == [f"{tmp_path}/{n}" for n in ("a.nc", "broken.nc", "sub/b")]


def test_a_zarr_store_is_one_place_in_a_directory_a_pattern_and_by_itself(tmp_path: Path) -> None:
    store = tmp_path / "d" / "a.zarr"
    zarr.create_array(str(store), name="x", data=np.arange(3), dimension_names=("x",))
    for given in (tmp_path / "d", f"{tmp_path}/d/*", f"{tmp_path}/**", store):
        assert places(given) == [str(store)]


def test_the_output_is_left_out_however_it_is_named(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    for given in (tmp_path, f"{tmp_path}/*.nc", names):
        assert places(given, without=[names[1]]) == names[:1]


@pytest.mark.parametrize("fragments", ["fragments", "fragments-2", "fragments-13"])
def test_what_is_written_beside_the_output_is_left_out_however_it_is_named(tmp_path: Path, fragments: str) -> None:
    name, output = months(tmp_path, 2)
    (tmp_path / "m1.nc.cfagg-index").write_bytes(b"PAR1")
    inside = month(tmp_path / f"m1.nc.{fragments}" / "tas.0.nc", 3)
    for given in (tmp_path, f"{tmp_path}/*", f"{tmp_path}/**", [*tmp_path.iterdir()], [name, inside, inside.parent]):
        assert places(given, without=[output]) == [name]
    # A directory never stands for the fragments in it.
    assert places(tmp_path) == [name, output]
    assert places(inside.parent) == [str(inside)]


def test_a_directory_below_that_may_not_be_listed_is_reported_as_files_are(tmp_path: Path) -> None:
    months(tmp_path, 2)
    (tmp_path / "secret").mkdir(mode=0)
    with unprivileged():
        with pytest.raises(SourceError, match=r"1 of 3 files cannot be read(.|\n)*secret.*Permission denied"):
            cfagg.aggregate(tmp_path)
        found = cfagg.aggregate(tmp_path, skip_errors=True)
    assert "secret" in str(found.cfagg.report)
    assert found.sizes["time"] == 4


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (name,) = months(tmp_path, 1)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert places(tmp_path) == [name]


def test_a_directory_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no netCDF, PP or fields file"):
        places(tmp_path)


def test_a_web_server_lists_nothing() -> None:
    with pytest.raises(SourceError, match="name each file"):
        places("http://example.org/data/*.nc")


@pytest.mark.parametrize("given", [3, [3], {"a": 1}, [None]])
def test_what_is_no_name_is_refused_by_its_type(given: object) -> None:
    with pytest.raises(OptionError, match=r"^files: "):
        places(given)
    with pytest.raises(OptionError, match=r"^path_or_files: "):
        cfagg.index(given, output="x.cfagg-index")  # type: ignore[arg-type]


def test_no_files_at_all_are_an_error() -> None:
    with pytest.raises(SourceNotFoundError, match="no files were given"):
        places([])


@pytest.mark.parametrize("url", ["s3://bucket", "http://host", "https://[bad", "s3://"])
def test_a_url_without_a_key_is_never_a_directory_here(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s3:", "http:", "https:"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.nc").write_bytes(b"CDF\1")
    with pytest.raises(SourceError, match="names neither a"):
        explain([url])


def test_a_link_to_itself_in_a_directory_is_a_file_that_the_scan_tells_of(tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_bytes(b"CDF\x01")
    (tmp_path / "loop.nc").symlink_to("loop.nc")
    assert places(tmp_path) == [str(tmp_path / "a.nc"), str(tmp_path / "loop.nc")]
