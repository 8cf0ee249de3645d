"""Checking stores: every rule is broken once, and named with its rows."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import FragmentReadError, SourceError
from cfagg.observations import checking
from cfagg.observations.checking import check_store
from cfagg.observations.findings import CODES, finding_of
from tests.observations.written import write_rows


def rows_of(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    epochs = np.sort(rng.integers(0, 20 * 86400, n))
    rows = np.empty((n, 7), "f4")
    rows[:, 0], rows[:, 1] = epochs // 86400, epochs % 86400
    rows[:, 2], rows[:, 3] = rng.uniform(-90, 90, n), rng.uniform(0, 359, n)
    rows[:, 4:] = rng.normal(280, 10, (n, 3))
    rows[::7, 5] = np.nan
    return rows[np.lexsort(rows.T[::-1])]


def write(path, rows=None, layout="zarr2", date_indexing="bisect", **attributes):
    rows = rows_of() if rows is None else rows
    chunk = 500 if layout == "zarr2" else 4096
    return write_rows(
        path, "abc", rows, attributes, format=layout, rows_per_chunk=chunk, date_indexing=date_indexing, overwrite=True
    )


def change(path, row, column, value, array="data"):
    zarr.open_group(path, mode="r+", use_consolidated=False)[array][row, column] = value


def said(report):
    return {f.code: (f.where, f.rows, f.count) for f in report.findings if f.code != "OBS023"}


@pytest.mark.parametrize("layout", ["zarr2", "cfagg"])
@pytest.mark.parametrize("date_indexing", ["bisect", "btree"])
def test_a_good_store_has_no_findings(tmp_path, layout, date_indexing):
    report = check_store(write(tmp_path / "a.zarr", layout=layout, date_indexing=date_indexing), full=True)
    assert report.findings == ()
    assert report.ok
    assert report.checked == report.rows == 3000
    assert date_indexing in report.indexes
    assert str(report) == f"{tmp_path / 'a.zarr'}: nothing wrong in all 3,000 rows"


def test_an_empty_store_is_good(tmp_path):
    report = check_store(write(tmp_path / "a.zarr", rows_of(0)))
    assert (report.findings, report.rows, report.ok) == ((), 0, True)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("column", "value", "code"),
    [(1, 90000, "OBS014"), (2, -90.5, "OBS015"), (3, 360, "OBS016"), (3, np.nan, "OBS016"), (0, 3.5, "OBS013")],
)
def test_values_that_cannot_be_are_found_and_their_rows_named(tmp_path, column, value, code):
    change(write(tmp_path / "a.zarr"), 1234, column, value)
    report = check_store(tmp_path / "a.zarr")
    assert said(report)[code] == ("data", (1234,), 1)
    assert not report.ok
    assert "row 1,234" in str(report)


def test_rows_out_of_order_are_found(tmp_path):
    rows = rows_of()
    change(write(tmp_path / "a.zarr", rows), 500, slice(None), rows[400])
    found = said(check_store(tmp_path / "a.zarr"))
    assert found["OBS011"] == ("data", (500,), 1)


def test_duplicates_are_found(tmp_path):
    rows = rows_of()
    rows[1000, :4] = rows[999, :4]
    rows[999:1001, 4] = 1, 2
    change(write(tmp_path / "a.zarr", rows), 1000, 4, 1)
    change(tmp_path / "a.zarr", 1000, slice(5, 7), rows[999, 5:7])
    found = said(check_store(tmp_path / "a.zarr"))
    assert found["OBS012"] == ("data", (1000,), 1)
    assert "OBS011" not in found


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["mean", "minimum", "maximum", "stdev"])
def test_statistics_of_other_rows_are_found(tmp_path, name):
    path = write(tmp_path / "a.zarr")
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    group[name][2] += 0.001
    report = check_store(path)
    assert [(f.code, f.where) for f in report.findings] == [("OBS031", f"statistics.{name}")]
    assert "c " in report.findings[0].message


def test_statistics_that_cannot_be_are_found_without_reading_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "_SAMPLE_ROWS", 640)
    path = write(tmp_path / "a.zarr")
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    group["mean"][0], group["stdev"][1] = 1000, -1
    report = check_store(path)
    assert [(f.code, f.where) for f in report.findings] == [
        ("OBS031", "statistics.mean"),
        ("OBS031", "statistics.stdev"),
    ]
    assert report.checked < report.rows
    assert not report.full


def test_statistics_are_those_of_the_rows_that_the_store_names(tmp_path):
    rows = rows_of()
    path = write(tmp_path / "a.zarr", rows, statistics_end_date="1970-01-10")
    assert {f.where for f in check_store(path).findings} >= {"statistics.mean", "statistics.stdev"}
    part = rows[rows[:, 0] < 10]
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    wide = part[:, 4:].astype("f8")
    group["mean"][:], group["stdev"][:] = np.nanmean(wide, 0), np.nanstd(wide, 0)
    group["minimum"][:], group["maximum"][:] = np.nanmin(wide, 0), np.nanmax(wide, 0)
    if "nan_count" in group:
        group["nan_count"][:] = np.isnan(wide).sum(0)
    assert check_store(path).findings == ()


def test_absent_statistics_are_a_warning(tmp_path):
    path = write(tmp_path / "a.zarr")
    (path / "stdev" / ".zarray").unlink()
    report = check_store(path)
    assert [(f.code, f.severity) for f in report.findings] == [("OBS032", "warning")]
    assert report.ok


@pytest.mark.few(1)
@pytest.mark.parametrize(("sampled", "code"), [(False, "OBS022"), (True, "OBS022")])
def test_an_index_of_other_rows_is_found(tmp_path, monkeypatch, sampled, code):
    if sampled:
        monkeypatch.setattr(checking, "_SAMPLE_ROWS", 2560)
    path = write(tmp_path / "a.zarr")
    table = zarr.open_group(path, mode="r+", use_consolidated=False)["date_index_ranges"]
    # Consistent in itself: two neighbours change their lengths, and the rows that they begin with.
    i = 1000
    entry = table[i]
    table[i, 0] = entry[0] + (1 if table[i + 1, 0] > entry[0] + 1 else -1)
    found = said(check_store(path))
    assert found[code][0] == "index bisect"
    assert found[code][1] == (int(entry[1]),)


def test_an_index_that_lies_about_lengths_is_found(tmp_path):
    path = write(tmp_path / "a.zarr")
    change(path, 100, 2, 50, array="date_index_ranges")
    report = check_store(path)
    assert {f.code for f in report.findings if f.where == "index bisect"} <= {"OBS021", "OBS022"}
    assert not report.ok


def test_an_index_that_is_not_there_is_found(tmp_path):
    path = write(tmp_path / "a.zarr")
    attributes = json.loads((path / ".zattrs").read_text())
    (path / ".zattrs").write_text(json.dumps(attributes | {"date_indexing": "btree"}))
    assert "OBS021" in said(check_store(path))


@pytest.mark.parametrize("damage", ["absent", "truncated"])
def test_chunks_that_are_absent_or_damaged_are_named(tmp_path, damage):
    path = write(tmp_path / "a.zarr")
    chunk = path / "data" / "2.0"
    if damage == "absent":
        chunk.unlink()
    else:
        chunk.write_bytes(chunk.read_bytes()[:100])
    report = check_store(path)
    found = [f for f in report.findings if f.code == "OBS002"]
    assert len(found) == 1
    assert "2.0" in f"{found[0].where} {found[0].message}"
    assert not report.ok


def test_attributes_that_contradict_the_data_are_a_warning(tmp_path):
    path = write(tmp_path / "a.zarr", shape=[7, 7], index_length=3)
    report = check_store(path)
    assert [(f.code, f.where) for f in report.findings] == [
        ("OBS041", "attribute shape"),
        ("OBS041", "attribute index_length"),
    ]


def test_what_is_no_store_is_a_finding_and_nothing_at_all_an_error(tmp_path):
    path = write(tmp_path / "a.zarr")
    (path / ".zattrs").write_text('{"layout": "tabular", "variables": 3}')
    report = check_store(path)
    assert [f.code for f in report.findings] == ["OBS001"]
    assert "variables" in str(report)
    with pytest.raises(SourceError):
        check_store(tmp_path / "b.zarr")


def test_a_large_store_is_looked_at_in_places(tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "_SAMPLE_ROWS", 640)
    path = write(tmp_path / "a.zarr")
    change(path, 2999, 3, 400)
    change(path, 0, 2, 400)
    report = check_store(path)
    assert report.checked == 640
    assert said(report)["OBS016"] == ("data", (2999,), 1)
    assert said(report)["OBS015"] == ("data", (0,), 1)
    assert "640 of 3,000 rows" in str(report)
    assert check_store(path, full=True).checked == 3000


def test_progress_is_told(tmp_path):
    seen = []
    check_store(write(tmp_path / "a.zarr"), progress=lambda done, rows: seen.append((done, rows)))
    assert seen == [(3000, 3000)]


def test_a_report_is_plain_json(tmp_path):
    change(write(tmp_path / "a.zarr"), 3, 3, 400)
    found = json.loads(json.dumps(check_store(tmp_path / "a.zarr").as_dict()))
    assert found["ok"] is False
    one = next(f for f in found["findings"] if f["code"] == "OBS016")
    assert (one["rows"], one["count"], one["severity"]) == ([3], 1, "error")
    assert all(f["code"] in CODES for f in found["findings"])


def test_a_store_that_cannot_be_reached_is_no_finding(tmp_path):
    with pytest.raises(FragmentReadError, match="127"):
        check_store("http://127.0.0.1:9/a.zarr")
    (tmp_path / "a.zarr").write_text("no directory")
    with pytest.raises(SourceError):
        check_store(tmp_path / "a.zarr")


def test_a_stale_index_beside_the_store_is_a_warning(tmp_path):
    path = write(tmp_path / "a.zarr")
    change(path, 1500, 4, 1)
    report = check_store(path)
    assert [(f.code, f.severity) for f in report.findings if f.where == "index pages"] == [("OBS023", "warning")]


def test_infinite_values_are_no_statistics_to_compare(tmp_path):
    rows = rows_of()
    rows[7, 4] = np.inf
    assert check_store(write(tmp_path / "a.zarr", rows)).findings == ()


def test_every_rule_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "observations.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` | {severity} | {text} |" in page for code, (severity, text) in CODES.items())


def test_a_finding_lists_its_rows_and_marks_those_left_out():
    assert str(finding_of("OBS016", "data", "longitude 360.0", (7,), 1)).endswith("data: longitude 360.0 (1 row: 7)")
    assert finding_of("OBS016", "data", "x", (7, 9), 2).text == "x (2 rows: 7, 9)"
    assert finding_of("OBS016", "data", "x", (7, 1234), 3000).text == "x (3,000 rows: 7, 1,234, …)"
    assert finding_of("OBS032", "statistics", "x").text == "x"
