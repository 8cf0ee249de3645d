"""`cfagg.check` and the report that it returns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import cfagg
from cfagg.checking.outcome import most_severe_first
from cfagg.checking.report import Report, SourceReport
from cfagg.demo import sample
from cfagg.errors import OptionError, SourceError, TargetError
from cfagg.findings.finding import Finding
from tests.checking.samples import BROKEN, CLEAN, UNTIDY, written


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    return written(tmp_path, broken=BROKEN, clean=CLEAN, untidy=UNTIDY)


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def test_a_clean_dataset_is_ok_and_has_no_findings(paths):
    report = cfagg.check(paths["clean"])
    assert report.ok
    assert report.findings == []
    assert report.cf_version == "1.13"


def test_errors_make_a_report_not_ok(paths):
    report = cfagg.check(paths["broken"])
    assert not report.ok
    assert {f.code for f in report.errors} == {"DOC006", "UNI002"}
    assert [f.code for f in report.warnings] == ["DOC004"]


def test_warnings_alone_leave_a_report_ok(paths):
    report = cfagg.check(paths["untidy"])
    assert report.ok
    assert codes(report) == ["DOC004"]


def test_a_list_gives_one_result_for_each_source_in_order(paths):
    report = cfagg.check([paths["clean"], paths["broken"]])
    assert [s.source for s in report] == [paths["clean"], paths["broken"]]
    assert [s.ok for s in report] == [True, False]
    assert len(report) == 2


def test_a_path_object_is_a_source(paths):
    assert cfagg.check(Path(paths["clean"]))[0].source == paths["clean"]


def test_the_only_source_that_cannot_be_opened_raises(tmp_path):
    with pytest.raises(SourceError, match="nothing"):
        cfagg.check(tmp_path / "nothing.nc")


def test_one_of_several_that_cannot_be_opened_is_reported_and_the_others_are_checked(paths, tmp_path):
    report = cfagg.check([str(tmp_path / "nothing.nc"), paths["clean"]])
    first, second = report
    assert not report.ok
    assert "nothing.nc" in first.failure
    assert first.findings[0].code == "INT003"
    assert first.cf_version is None
    assert second.ok


def test_something_that_is_no_dataset_is_reported_among_others(paths):
    report = cfagg.check([object(), paths["clean"]])
    assert report[0].failure is not None
    assert report[0].source == "object object"


def test_select_and_ignore_take_text_or_lists(paths):
    assert set(codes(cfagg.check(paths["broken"], select="DOC"))) == {"DOC006", "DOC004"}
    assert set(codes(cfagg.check(paths["broken"], ignore=["DOC", "UNI001"]))) == {"UNI002"}
    assert set(codes(cfagg.check(paths["broken"], ignore="DOC, UNI001"))) == {"UNI002"}


def test_a_version_can_be_asked_for(paths):
    assert cfagg.check(paths["broken"], cf_version="CF-1.6").cf_version == "1.6"


@pytest.mark.parametrize("options", [{"cf_version": "3.0"}, {"select": "NONE"}, {"ignore": ["DOC", "XYZ"]}])
def test_options_that_are_not_understood_are_refused(paths, options):
    with pytest.raises(OptionError):
        cfagg.check(paths["clean"], **options)


def test_a_table_that_is_not_there_is_refused_before_anything_is_checked(paths, tmp_path):
    with pytest.raises(SourceError, match=r"missing\.xml"):
        cfagg.check(paths["clean"], tables={"standard_names": tmp_path / "missing.xml"})


def test_rules_about_values_are_told_as_skipped_without_data(paths):
    skipped = cfagg.check(paths["clean"]).skipped
    assert any("--data" in why for why in skipped.values())
    assert not any("--data" in why for why in cfagg.check(paths["clean"], data=True).skipped.values())


def test_the_versions_of_the_tables_are_told(paths):
    assert cfagg.check(paths["clean"]).tables["standard_names"] == "94"


def test_a_configuration_is_honoured(paths, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text('[check]\nignore = ["UNI", "DOC004"]\n[check.per-variable-ignores]\ntwice = ["DOC006"]\n')
    report = cfagg.check(paths["broken"], config=config)
    assert report.ok
    assert report[0].suppressed == {0: 1}
    assert report.unused == ()


def test_no_configuration_is_looked_for(paths, tmp_path, monkeypatch):
    (tmp_path / "cfagg.toml").write_text('[check]\nignore = ["DOC", "UNI"]\n')
    monkeypatch.chdir(tmp_path)
    assert not cfagg.check(paths["broken"]).ok


def test_suppressions_that_hide_nothing_are_told(paths, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text('[check.per-file-ignores]\n"clean.cdl" = ["DOC006"]\n"other.cdl" = ["DOC006"]\n')
    assert cfagg.check([paths["clean"]], config=config).unused == ("DOC006 in clean.cdl",)


def test_as_list_has_exactly_the_documented_members(paths):
    (found,) = cfagg.check(paths["broken"]).as_list()
    assert list(found) == ["source", "cf_version", "findings"]
    assert found["source"] == paths["broken"]
    assert found["cf_version"] == "1.8"
    assert all(list(f) == ["code", "severity", "variable", "attribute", "message"] for f in found["findings"])
    assert {"twice", "2m"} == {f["variable"] for f in found["findings"]}


def test_as_dict_can_be_written_as_json(paths):
    told = json.loads(json.dumps(cfagg.check(paths["broken"]).as_dict()))
    assert told["ok"] is False
    assert told["statistics"]["DOC006"] == 1


def test_printed_it_is_the_text_of_the_command(paths):
    text = str(cfagg.check(paths["untidy"]))
    assert text.splitlines()[0] == f"{paths['untidy']}: CF-1.8, 1 warning"
    assert "warning DOC004" in text


def test_the_repr_is_short(paths):
    assert repr(cfagg.check([paths["broken"], paths["untidy"]])) == "<Report of 2 sources: 2 errors, 2 warnings>"


def test_to_html_writes_the_page(paths, tmp_path):
    target = tmp_path / "report.html"
    page = cfagg.check(paths["broken"]).to_html(target)
    assert target.read_text(encoding="utf-8") == page
    assert page.startswith("<!DOCTYPE html>")


def test_to_html_says_when_it_cannot_write(paths, tmp_path):
    with pytest.raises(TargetError, match="no/such"):
        cfagg.check(paths["clean"]).to_html(tmp_path / "no/such/place.html")


def test_a_page_does_not_replace_the_file_that_was_checked(tmp_path):
    shutil.copy(sample("test1.nc"), tmp_path / "a.nc")
    before = (tmp_path / "a.nc").read_bytes()
    with pytest.raises(TargetError, match="is data"):
        cfagg.check(tmp_path / "a.nc").to_html(tmp_path / "a.nc")
    assert (tmp_path / "a.nc").read_bytes() == before


def test_an_unknown_format_is_refused(paths):
    with pytest.raises(OptionError, match="yaml"):
        cfagg.check(paths["clean"]).to_text("yaml")


def test_an_xarray_dataset_is_checked_in_memory():
    import xarray as xr

    ds = xr.Dataset({"t": ("x", [1.0, 2.0], {"units": "nonsense", "long_name": "t"})}, attrs={"Conventions": "CF-1.8"})
    report = cfagg.check(ds)
    assert "UNI002" in codes(report)
    assert report.cf_version == "1.8"


def test_findings_are_grouped_by_variable_and_the_gravest_come_first():
    def finding(code, severity, variable):
        return Finding(code, severity, variable, None, "")

    given = [
        finding("A001", "info", "a"),
        finding("B001", "warning", "b"),
        finding("C001", "warning", "c"),
        finding("C002", "error", "c"),
        finding("D001", "warning", "a"),
    ]
    assert [f.code for f in most_severe_first(given)] == ["C002", "C001", "D001", "A001", "B001"]


def test_a_failure_makes_a_result_not_ok():
    assert not SourceReport("a.nc", None, failure="damaged").ok
    assert SourceReport("a.nc", None, failure="damaged").failed


def test_the_statistics_count_findings_that_are_left_out():
    checked = SourceReport("a.nc", "1.13", (Finding("DOC004", "warning", "a", None, ""),), dropped={"DOC004": 5})
    assert Report((checked,)).statistics == {"DOC004": 6}
