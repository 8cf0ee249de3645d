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


def ran(hits):
    rule = replace(next(iter(registered().values())), function=lambda context: iter(hits))
    result = SimpleNamespace(findings=[], dropped=Counter(), skipped={}, unfinished={})
    engine._run_one(rule, SimpleNamespace(aside=()), result, Hiding("a.nc"), engine.KEPT)
    return rule.code, result


def test_an_error_after_thousands_of_warnings_of_one_rule_is_kept():
    hits = [Hit(None, None, f"warning {k}", severity="warning") for k in range(engine.KEPT + 5)]
    hits += [Hit(None, None, "the only error", severity="error")] * 2
    code, result = ran(hits)
    assert [f.message for f in result.findings if f.severity == "error"] == ["the only error"]
    assert result.dropped[code] == 6


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
