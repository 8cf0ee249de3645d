"""What is kept of a rule with very many findings."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

from cfagg.checking import engine
from cfagg.checking.options import Options
from cfagg.checking.registry import registered
from cfagg.checking.suppressions import Hiding, Suppression
from cfagg.findings import Hit
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.formats.metadata.foreign import LONGEST, Foreign, too_long


def ran(hits):
    rule = replace(next(iter(registered().values())), function=lambda context: iter(hits))
    result = SimpleNamespace(findings=[], dropped=Counter(), skipped={}, unfinished={})
    engine._run_one(rule, SimpleNamespace(aside=()), result, Hiding("a.nc"), engine.KEPT)
    return rule.code, result


def test_an_error_after_thousands_of_warnings_of_one_rule_is_kept():
    hits = [Hit(None, None, f"warning {k}", severity="warning") for k in range(engine.KEPT + 5)]
    hits += [Hit(None, None, message, severity="error") for message in ("the only error", "another")]
    code, result = ran(hits)
    assert [f.message for f in result.findings if f.severity == "error"] == ["the only error"]
    assert result.dropped[code] == 6


def test_what_a_rule_finds_in_one_place_by_two_ways_is_reported_once():
    _, result = ran([Hit(None, None, "wrong"), Hit(None, None, "wrong"), Hit(None, None, "lacking")])
    assert [f.message for f in result.findings] == ["wrong", "lacking"]
    assert not result.dropped


def test_an_error_after_thousands_that_are_suppressed_is_kept():
    names = [*(f"qc_{k}" for k in range(engine.KEPT + 5)), "t"]
    declared = "".join(f'float {name} ; {name}:standard_name = "air_pressure" ;' for name in names)
    with parse_cdl(f'netcdf a {{ variables: {declared} :Conventions = "CF-1.13" ; }}') as dataset:
        hiding = Hiding("a.nc", [Suppression(("UNI",), variables=("qc_*",))])
        result = engine.run(dataset, Options(select=("UNI001",)), hiding)
    assert [f.variable for f in result.findings] == ["t"]
    assert not result.dropped
    assert hiding.counts == {0: engine.KEPT + 5}


def test_a_rule_that_is_left_early_says_so(monkeypatch):
    monkeypatch.setattr(engine, "COUNTED", 1500)
    hits = [Hit(None, None, f"warning {k}", severity="warning") for k in range(1501)]
    code, result = ran(hits)
    assert result.unfinished == {"it has more than 1,500 findings; the rest was not searched for": [code]}
    _, complete = ran(hits[:1500])
    assert complete.unfinished == {}


def test_an_attribute_that_is_too_long_to_be_read_is_reported_as_that():
    text = 'netcdf a { variables: float t ; t:long_name = "t" ; t:units = "K" ; :Conventions = "CF-1.13" ; }'
    names = ("units", "coordinates", "cell_methods", "flag_meanings", "axis", "comment")
    with parse_cdl(text) as dataset:
        dataset.root.variables["t"].attributes.update({name: too_long(name, LONGEST + 1) for name in names})
        dataset.root.attributes["history"] = too_long("history", LONGEST + 1)
        found = engine.run(dataset, Options()).findings
    assert {f.code for f in found} == {"INT004"}
    for place in (*(f"{name} of t" for name in names), "history of /"):
        assert sum(f"{place} is an attribute of 16,777,217 bytes; up to" in f.message for f in found) == 1


def test_a_value_of_a_type_that_the_model_does_not_have_is_named_in_words():
    with parse_cdl('netcdf a { variables: float t ; t:long_name = "t" ; :Conventions = "CF-1.13" ; }') as dataset:
        foreign = Foreign("a value of a user-defined type")
        dataset.root.variables["t"].attributes.update(units=foreign, grid_mapping_name=foreign, semi_major_axis=foreign)
        dataset.root.attributes["Conventions"] = foreign
        found = engine.run(dataset, Options()).findings
    assert not [f for f in found if "Foreign" in f.message]
    said = {f.attribute for f in found if "a value of a user-defined type" in f.message}
    assert said == {"units", "grid_mapping_name", "semi_major_axis", "Conventions"}
