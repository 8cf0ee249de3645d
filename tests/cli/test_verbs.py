"""What every verb prints: with `--json` one strict document on stdout and nothing else there, sizes in one unit."""

import json
import re
from pathlib import Path

import pytest

from cfagg.cli import main as cli

VERBS = {
    "show": ["show", "{nca}"],
    "show --references": ["show", "{nca}", "--references"],
    "show of a store": ["show", "{zarr}"],
    "convert": ["convert", "{nca}", "{out}", "--overwrite"],
    "aggregate": ["aggregate", "{sst}"],
    "aggregate -o": ["aggregate", "{sst}", "-o", "{out}.nc", "--overwrite"],
    "aggregate --why": ["aggregate", "{sst}", "--why", "2006-04.nc", "2006-05.nc"],
    "check": ["check", "{nca}"],
    "check --statistics": ["check", "{nca}", "--statistics"],
    "explain": ["explain", "UNI001"],
    "accumulate": ["accumulate", "{zarr}", "surface_temperature", "--overwrite"],
    "accumulate --dry-run": ["accumulate", "{zarr}", "surface_temperature", "--overwrite", "--dry-run"],
    "mean": ["mean", "{zarr}", "surface_temperature", "--over", "time"],
    "mean --explain": ["mean", "{zarr}", "surface_temperature", "--over", "time", "--explain"],
    "obs create": ["obs", "create", "{recipe}", "{out}", "--overwrite"],
    "obs create --dry-run": ["obs", "create", "{recipe}", "{out}", "--overwrite", "--dry-run"],
    "obs show": ["obs", "show", "{storms}"],
    "obs window": ["obs", "window", "{storms}", "2004-09-01"],
    "obs check": ["obs", "check", "{storms}"],
    "obs index": ["obs", "index", "{storms}"],
}

#: The members of each object of version 1.  More may come; none goes or gets another name without another version.
MEMBERS = {
    "show": "form form_version path format groups",
    "show --references": "form form_version path variables",
    "show of a store": "form form_version path format groups",
    "convert": "form form_version target variables bytes stored chunks resumed verified notes losses",
    "aggregate": "form form_version target files variables groups apart unread losses notes",
    "aggregate -o": "form form_version target files variables groups apart unread losses notes",
    "aggregate --why": "form form_version target a b joined answers problem",
    "check": "form form_version source cf_version findings",
    "check --statistics": "form form_version code severity count summary",
    "explain": (
        "form form_version code severity section title older_sections since until needs checked summary link why "
        "fails passes"
    ),
    "accumulate": (
        "form form_version store variable group action arrays source_bytes source_stored scratch chunks "
        "resumed missing nonfinite notes bytes stored share"
    ),
    "accumulate --dry-run": (
        "form form_version store variable group action arrays source_bytes source_stored scratch chunks "
        "resumed missing nonfinite notes bytes stored share"
    ),
    "mean": (
        "form form_version store variable statistic over group weights selected units dims shape coordinates "
        "attributes missing values"
    ),
    "mean --explain": "form form_version store variable statistic over group weights selected plan",
    "obs create": (
        "form form_version path format date_indexing parts resumed variables rows read duplicates first last "
        "nbytes rounded notes seconds dry_run"
    ),
    "obs create --dry-run": (
        "form form_version path format date_indexing parts resumed variables rows read duplicates first last "
        "nbytes rounded notes seconds dry_run"
    ),
    "obs show": (
        "form form_version path zarr_format rows variables first last entries busiest indexes used_index "
        "index_problem chunk held codecs stored_bytes statistics_of attributes per_day"
    ),
    "obs window": (
        "form form_version store date window first last rows columns variables dates timedeltas latitudes "
        "longitudes values"
    ),
    "obs check": "form form_version store rows checked full indexes ok findings",
    "obs index": "form form_version store kind entries rows",
}


def refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


@pytest.mark.parametrize("verb", VERBS)
def test_json_of_a_verb_is_strict_and_its_form_only_grows_within_one_version(
    verb: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*(a.format(**places) for a in VERBS[verb]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    is_list = verb in ("check", "check --statistics", "explain")  # of datasets or rules
    assert found
    assert isinstance(found, list) is is_list
    for one in found if is_list else [found]:
        assert one["form"].startswith("cfagg ")
        assert one["form_version"] == 1
        assert set(MEMBERS[verb].split()) <= set(one)


@pytest.mark.few(8)
@pytest.mark.parametrize("verb", VERBS)
def test_sizes_are_in_powers_of_1024_everywhere(
    verb: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([a.format(**places) for a in VERBS[verb]]) == 0
    said = "".join(capsys.readouterr())
    assert re.findall(r"[\d.,]+ ?(?:B|[kKMGT]B)\b", said) == []
    assert verb not in ("convert", "accumulate", "mean --explain") or re.search(r"\d (bytes|KiB|MiB)\b", said)


def test_a_bar_counts_bytes_in_the_same_unit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stderr for a terminal
    monkeypatch.setenv("COLUMNS", "100")
    from cfagg.cli.bars import byte_bar

    with byte_bar("convert", True) as progress:
        assert progress is not None
        progress(3 << 20, 5 << 20)
    assert "3.0 MiB of 5.0 MiB" in capsys.readouterr().err
