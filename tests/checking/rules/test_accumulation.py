"""Accumulation groups: what ZEP 5 allows, and defects of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.checking.engine import run
from cfagg.checking.explaining import explanations
from cfagg.checking.options import Options
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset
from tests.effort import examples

GOOD = explanations()["ACC001"]["passes"]


def findings(text: str) -> list[Finding]:
    with parse_cdl(text) as dataset:
        return [f for f in run(dataset, Options(data=True)).findings if f.severity == "error"]


def test_what_the_conventions_of_the_data_ask_for_is_not_asked_of_sums() -> None:
    text = GOOD.replace('      acc_time:long_name = "sums of precipitation flux" ;\n', "      acc_time:units = 7 ;\n")
    with parse_cdl(text) as dataset:
        found = run(dataset, Options(data=True)).findings
    assert [f for f in found if f.variable and "accumulation" in f.variable] == []


def test_an_accumulation_by_cfagg_has_no_error(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    raw = np.random.default_rng(0).normal(285, 5, (60, 6))
    raw[5, 1] = 9.97e36  # kept out of the sums
    zarr.create_array(store, name="tas", data=raw, chunks=(10, 6), dimension_names=["time", "x"])
    cfagg.accumulate(store, "tas", ["time", ("time", "x")])
    found = [f for source in cfagg.check(str(store)).sources for f in source.findings if f.code.startswith("ACC")]
    assert found == []


def test_a_coordinate_that_was_written_since_makes_sums_stale_as_it_does_for_queries(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    time, tas = (
        zarr.create_array(store, name=n, data=np.arange(9.0), dimension_names=["time"]) for n in ("time", "tas")
    )
    cfagg.accumulate(store, "tas", ["time"])
    time[:] = tas[:] + 1
    (found,) = [f for source in cfagg.check(str(store)).sources for f in source.findings if f.code.startswith("ACC")]
    assert found.code == "ACC007"
    assert "a coordinate, or a source of the weights, has changed" in found.message
    assert "coordinate 'time': written at" in found.message


def test_weights_may_have_a_stride_of_their_own() -> None:
    assert findings(GOOD.replace("acc_wt_time:_ACCUMULATION_STRIDE = 1", "acc_wt_time:_ACCUMULATION_STRIDE = 2")) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        (r"\"_WEIGHTS\": \"acc_wt_time\"", r"\"_WEIGHTS\": 5", "ACC001", "string"),
        (r"{\"time\": {\"_DATA", r"[{\"time\": {\"_DATA", "ACC001", "object"),
        (r"\"acc_time\"", r"\"../tas\"", "ACC001", "name"),
        ("_ACCUMULATION_STRIDE = 1 ;\n    double", "_ACCUMULATION_STRIDE = 0.5 ;\n    double", "ACC004", "integer"),
        ("_ACCUMULATION_STRIDE = 1 ;\n    double", "_ACCUMULATION_STRIDE = 1, 1 ;\n    double", "ACC004", "2 strides"),
        ("      acc_time:_ACCUMULATION_STRIDE = 1 ;\n", "", "ACC004", "missing"),
    ],
)
def test_a_defect_is_found_and_named(old: str, new: str, code: str, words: str) -> None:
    assert old in GOOD
    found = findings(GOOD.replace(old, new))
    assert {f.code for f in found} == {code}
    assert words in found[0].message


def test_a_group_without_an_accumulation_is_a_group_like_others() -> None:
    text = GOOD.replace("_ACCUMULATION_GROUP", "_OTHER_GROUP").replace("acc_time:long_name", "acc_time:history")
    with parse_cdl(text) as dataset:
        found = run(dataset, Options()).findings
    assert any(f.variable == "/pr_accumulation_group/acc_time" for f in found)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=6), st.sampled_from(["acc_time", "time"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["time", "_WEIGHTS", "_DATA_UNWEIGHTED", "source", "dims", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(["_ACCUMULATION_GROUP", "cfagg", "_ACCUMULATION_STRIDE"]), JSON)
def test_no_attribute_makes_a_rule_fail(name: str, value: Any) -> None:
    with parse_cdl(GOOD) as dataset:
        group = dataset.root.groups["pr_accumulation_group"]
        owner = group.variables["acc_time"] if name == "_ACCUMULATION_STRIDE" else group
        owner.attributes[name] = value
        found = run(dataset, Options(data=True, select=("ACC",))).findings
    assert [f for f in found if f.code == "INT001"] == []


def test_a_group_that_is_opened_by_itself_has_no_array_beside_it() -> None:
    with parse_cdl(GOOD) as dataset:
        inner = dataset.root.groups["pr_accumulation_group"]
        inner.path, inner.parent = "/", None
        found = run(Dataset("a.zarr", "zarr", inner), Options(select=("ACC",))).findings
    assert [f.code for f in found] == []
