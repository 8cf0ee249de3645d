"""Findings that a user does not want to be told of."""

from __future__ import annotations

import pytest

from cfagg.checking.suppressions import Hiding, Suppression
from cfagg.findings.finding import Finding

A = Finding("UNI001", "error", "a", "units", "")
B = Finding("UNI002", "error", "grp/b", "units", "")
WHOLE = Finding("DOC010", "error", None, "Conventions", "")
INTERNAL = Finding("INT001", "error", None, None, "")
RAN = ("UNI001", "UNI002", "DOC010")


def kept(*suppressions, source="/data/a.nc"):
    hiding = Hiding(source, suppressions)
    return [f for f in (A, B, WHOLE, INTERNAL) if not hiding.hides(f)]


def test_a_code_hides_its_findings_wherever_they_are():
    assert kept(Suppression(("UNI001",))) == [B, WHOLE, INTERNAL]


def test_the_beginning_of_a_code_hides_a_family():
    assert kept(Suppression(("UNI", "DOC"))) == [INTERNAL]


def test_a_variable_is_matched_by_its_whole_path():
    assert kept(Suppression(("UNI",), variables=("b",))) == [A, B, WHOLE, INTERNAL]
    assert kept(Suppression(("UNI",), variables=("*/b",))) == [A, WHOLE, INTERNAL]


def test_findings_about_the_dataset_have_no_variable():
    assert kept(Suppression(("DOC",), variables=("?*",))) == [A, B, WHOLE, INTERNAL]


def test_what_is_told_of_the_check_itself_is_never_hidden():
    assert INTERNAL in kept(Suppression(("INT", "UNI", "DOC")))


@pytest.mark.parametrize(
    ("pattern", "source", "meant"),
    [
        ("*.nc", "/data/raw/a.nc", True),
        ("a.nc", "/data/raw/a.nc", True),
        ("raw/*.nc", "/data/raw/a.nc", True),
        ("raw/*", "/data/raw/deep/a.nc", True),
        ("raw/*", "/data/done/raw/a.nc", False),
        ("/data/*", "/data/raw/a.nc", True),
        ("/other/*", "/data/raw/a.nc", False),
        ("[!a]*", "/data/raw/a.nc", False),
        ("https://example.org/*", "https://example.org/a/b.zarr", True),
        ("b.zarr", "https://example.org/a/b.zarr/", True),
    ],
)
def test_files_are_matched_by_name_by_path_below_the_configuration_or_by_whole_path(pattern, source, meant):
    assert Suppression(("UNI",), files=(pattern,), base="/data").meant_for(source) is meant


def test_each_suppression_counts_what_it_hides():
    hiding = Hiding("/a.nc", [Suppression(("UNI",)), Suppression(("UNI002",))])
    assert [hiding.hides(f) for f in (A, B)] == [True, True]
    assert hiding.counts == {0: 2, 1: 1}
    assert hiding.reached(RAN) == (0, 1)


def test_a_suppression_for_another_file_or_a_rule_that_was_not_run_is_not_reached():
    other = Suppression(("UNI",), files=("b.nc",))
    not_run = Suppression(("TIM",))
    assert Hiding("/a.nc", [other, not_run]).reached(RAN) == ()
