"""The settings in cfagg.toml and pyproject.toml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from cfagg.checking.checking import options_of
from cfagg.checking.config import KEYS, Finder, Reader, Settings, load
from cfagg.errors import OptionError, SourceError
from tests.effort import examples

WHOLE = """
[tool.other]
x = 1

[tool.cfagg.check]
cf-version = "1.8"
select = ["UNI", "TIM"]
ignore = "TIM013"
data = true
references = false
strict = true
allow = ["archive", "/elsewhere", "https://example.org/data/"]
tables = { standard-names = "names.xml" }

[tool.cfagg.check.per-file-ignores]
"legacy/*.nc" = ["UNI001"]

[tool.cfagg.check.per-variable-ignores]
"qc_*" = ["FLG"]

[[tool.cfagg.check.suppress]]
codes = ["BND004"]
files = ["legacy/*.nc"]
variables = ["lon"]
reason = "known"
"""


def test_every_setting_is_read(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text(WHOLE)
    settings = load(path)
    assert settings.options == {
        "cf_version": "1.8",
        "select": ("UNI", "TIM"),
        "ignore": ("TIM013",),
        "data": True,
        "allow": (str(tmp_path / "archive"), "/elsewhere", "https://example.org/data/"),
        "tables": {"standard_names": tmp_path / "names.xml"},
    }
    assert settings.strict
    assert [str(s) for s in settings.suppressions] == [
        "UNI001 in legacy/*.nc",
        "FLG of qc_*",
        "BND004 in legacy/*.nc of lon",
    ]
    assert settings.suppressions[2].reason == "known"
    assert {s.base for s in settings.suppressions} == {str(tmp_path)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[check]\nselct = ['A']", "'selct' is not a setting"),
        ("[check]\nselect = [1]", "select must be a list of strings"),
        ("[check]\nselect = ['']", "select must be"),
        ("[check]\nignore = ''", "ignore must be"),
        ("[check]\ndata = 'yes'", "data must be true or false"),
        ("[check]\ncf-version = 1.8", "cf-version must be"),
        ("[check]\ntables = { names = 'a' }", "tables must be"),
        ("[check]\nsuppress = [{ files = ['a'] }]", r"suppress\[0\] must be a table with codes"),
        ("[check]\nsuppress = 1", "suppress must be"),
        ("[check]\nper-file-ignores = ['a']", "per-file-ignores must be"),
        ("[check]\ncf-version = '9.9'", "cf-version must be a version such as"),
        ("check = 1", "the section check must be"),
        ("[check\n", "is not TOML"),
        ("[checks]\nignore = ['UNI']", r"'checks' is not a section of cfagg; settings are in \[check\]"),
        ("[tool.cfagg.check]\nignore = ['UNI']", r"'tool' is not a section of cfagg; settings are in \[check\]"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(tmp_path, text, told):
    path = tmp_path / "cfagg.toml"
    path.write_text(text)
    with pytest.raises(SourceError, match=told) as error:
        load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[check.per-file-ignores]\n'*.nc' = ['UNI01X']", r"cfagg\.toml: no rule has a code that begins with 'UNI01X'"),
        ("[check]\nselect = ['XYZ']", r"cfagg\.toml: no rule has a code that begins with 'XYZ'"),
    ],
)
def test_codes_that_no_rule_has_are_refused(tmp_path, text, told):
    path = tmp_path / "cfagg.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=told):
        options_of(load(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SourceError, match=r"cfagg\.toml"):
        load(tmp_path / "cfagg.toml")


def test_text_that_is_not_utf8_is_an_error(tmp_path):
    path = tmp_path / "cfagg.toml"
    path.write_bytes(b"[check]\nselect = ['\xff']")
    with pytest.raises(SourceError, match="not TOML"):
        load(path)


def test_a_file_without_the_section_has_no_settings(tmp_path):
    path = tmp_path / "cfagg.toml"
    path.write_text("# nothing yet\n")
    assert load(path) == Settings(path)


def test_another_section_of_cfagg_in_a_pyproject_is_refused(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.cfagg.chek]\nignore = ['UNI']\n")
    with pytest.raises(SourceError, match=r"'chek' is not a section of cfagg; settings are in \[tool\.cfagg\.check\]"):
        load(path)


def settings(folder: Path, name: str, code: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    section = "check" if name == "cfagg.toml" else "tool.cfagg.check"
    (folder / name).write_text(f'[{section}]\nignore = ["{code}"]\nallow = ["/"]\ntables = {{ regions = "r.xml" }}\n')


def ignored(folder: Path, source: str) -> object:
    return Finder(folder).settings(source).options.get("ignore")


def test_the_nearest_file_above_the_source_counts(tmp_path):
    settings(tmp_path, "cfagg.toml", "UNI")
    settings(tmp_path / "a", "pyproject.toml", "TIM")
    assert ignored(tmp_path, str(tmp_path / "a/b/c.nc")) == ("TIM",)
    assert ignored(tmp_path, str(tmp_path / "b/c.nc")) == ("UNI",)


def test_without_a_file_above_the_source_that_of_the_working_directory_counts(tmp_path):
    settings(tmp_path / "project", "cfagg.toml", "UNI")
    assert ignored(tmp_path / "project", str(tmp_path / "data/a.nc")) == ("UNI",)


def test_sources_without_a_place_use_that_of_the_working_directory(tmp_path):
    settings(tmp_path, "cfagg.toml", "UNI")
    assert ignored(tmp_path, "https://example.org/a.zarr") == ("UNI",)
    assert Finder(tmp_path).settings(object()).options["ignore"] == ("UNI",)


def test_cfagg_toml_counts_before_pyproject_toml(tmp_path):
    settings(tmp_path, "pyproject.toml", "TIM")
    settings(tmp_path, "cfagg.toml", "UNI")
    assert ignored(tmp_path, str(tmp_path / "a.nc")) == ("UNI",)


def test_a_pyproject_without_the_section_is_passed_over(tmp_path):
    settings(tmp_path, "cfagg.toml", "UNI")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/pyproject.toml").write_text("[tool.other]\ncfagg = 1\n")
    assert ignored(tmp_path, str(tmp_path / "a/b.nc")) == ("UNI",)


def test_dots_in_a_path_do_not_lead_past_a_neighbour(tmp_path):
    settings(tmp_path / "a", "cfagg.toml", "UNI")
    assert ignored(tmp_path, str(tmp_path / "a/../b.nc")) is None


def test_a_file_beside_foreign_data_opens_no_further_places_and_names_no_tables(tmp_path):
    settings(tmp_path / "download", "cfagg.toml", "UNI")
    (tmp_path / "work").mkdir()
    found = Finder(tmp_path / "work").settings(str(tmp_path / "download/a.nc"))
    assert found.options == {"ignore": ("UNI",)}


def test_a_file_above_the_working_directory_may_open_places(tmp_path):
    settings(tmp_path, "cfagg.toml", "UNI")
    assert "allow" in Finder(tmp_path).settings(str(tmp_path / "a.nc")).options


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(["codes"]), inner)
    ),
    max_leaves=6,
)


@tried(max_examples=examples(100))
@given(section=values | st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
def test_whatever_stands_in_the_section_is_read_or_refused_by_name(section):
    try:
        found = Reader(Path("/project/cfagg.toml")).settings(section)
    except SourceError as error:
        assert str(error).startswith("/project/cfagg.toml: ")  # noqa: PT017 - one or the other
    else:
        assert all(isinstance(c, str) for s in found.suppressions for c in s.codes)


def test_a_configuration_beyond_a_size_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "cfagg.toml"
    path.write_text("[check]\n" + "#" * (1 << 20), encoding="utf-8")
    with pytest.raises(SourceError, match=r"cfagg\.toml has more than 1,048,576 bytes"):
        load(path)


def test_a_fifo_in_the_place_of_a_configuration_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "cfagg.toml")
    with pytest.raises(SourceError, match="a FIFO"):
        load(tmp_path / "cfagg.toml")
