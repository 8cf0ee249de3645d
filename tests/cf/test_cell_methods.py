"""The grammar of cell methods."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.cell_methods import METHODS, Entry, Interval, parse
from tests.effort import examples

WORDS = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
    lambda w: w not in ("where", "over", "within", "days", "years", "anomaly_wrt")
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    names = tuple(draw(st.lists(WORDS, min_size=1, max_size=3)))
    if draw(st.booleans()):
        where = over = within = period = None
        norm = draw(WORDS)
        method = "anomaly_wrt"
    else:
        norm = None
        method = draw(st.sampled_from(sorted(set(METHODS) - {"anomaly_wrt"})))
        where = draw(st.none() | WORDS)
        over = draw(st.none() | WORDS) if where else None
        within = draw(st.none() | st.sampled_from(["within", "over"]))
        period = draw(st.sampled_from(["days", "years"])) if within else None
    comment = draw(st.none() | WORDS)
    intervals: tuple[Interval, ...] = ()
    if comment is not None:
        count = draw(st.sampled_from([0, 1, len(names)]))
        intervals = tuple(Interval(draw(st.sampled_from(["1", "0.5", "1e-3"])), draw(WORDS)) for _ in range(count))
    return Entry(names, method, where, over, within, period, norm, intervals, comment)


def written(entry: Entry) -> str:
    words = [f"{name}:" for name in entry.names] + [entry.method]
    words += [entry.norm] if entry.norm else []
    words += ["where", entry.where] if entry.where else []
    words += ["over", entry.over] if entry.over else []
    words += [entry.within, entry.period or ""] if entry.within else []
    if entry.comment is not None:
        inside = [f"interval: {i.value} {i.unit}" for i in entry.intervals]
        inside += ["comment:", entry.comment] if entry.intervals else [entry.comment]
        words.append("(" + " ".join(inside) + ")")
    return " ".join(words)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(entries(), min_size=1, max_size=4))
def test_what_is_written_by_the_grammar_is_read_as_it_was_meant(said: list[Entry]) -> None:
    parsed = parse(" ".join(written(e) for e in said))
    assert parsed.entries == tuple(said)
    assert not parsed.problems
    assert not parsed.comment_problems


@settings(max_examples=examples(100), deadline=None)
@given(st.text("ab:() where over interval comment days 1", max_size=120))
def test_any_text_is_read_to_its_end(text: str) -> None:
    parsed = parse(text)
    assert parsed.entries or parsed.problems or parsed.comment_problems


@pytest.mark.parametrize(
    "text",
    [
        "time: mean",
        "lat: lon: standard_deviation",
        "time: maximum (interval: 1 hr comment: sampled instantaneously)",
        "area: mean where sea_ice over sea",
        "area: mean where all_area_types over land time: mean",
        "time: minimum within years time: mean over years",
        "time: mean within days time: mean over days time: mean over years (ENSO years)",
        "lat: lon: standard_deviation (interval: 0.1 degree_N interval: 0.2 degree_E)",
        "lat: mean (area-weighted)",
        "area: mean where land over years",
        "time: maximum time: anomaly_wrt climatological_tas",
        "time:\n mean  lat:\tmean",
        "time: mean (a comment (with parentheses) in it)",
    ],
)
def test_what_the_text_allows_has_no_problem(text: str) -> None:
    parsed = parse(text)
    assert not parsed.problems + parsed.comment_problems


@pytest.mark.parametrize(
    "text",
    ["", "mean", "time:mean", "time:", "time: (mean)", "time: mean where", "time: mean over land",
     "time: mean within hours", "time: mean max", "(of rain) time: mean", "time: mean (a) (b)",
     "time: mean where a over b over c"],
)  # fmt: skip
def test_what_breaks_the_grammar_is_told_once(text: str) -> None:
    parsed = parse(text)
    assert len(parsed.problems) == 1
    assert not parsed.comment_problems


@pytest.mark.parametrize(
    "text",
    ["time: mean (interval: day)", "time: mean (interval: 1)", "time: mean (interval: nan day)",
     "time: mean (interval: 1 d", "time: mean interval: 1 day comment: of rain",
     "lat: lon: t: mean (interval: 1 m interval: 2 m)", "time: mean)"],
)  # fmt: skip
def test_what_breaks_the_grammar_of_comments_is_told_once(text: str) -> None:
    parsed = parse(text)
    assert len(parsed.comment_problems) == 1
    assert not parsed.problems


def test_a_text_of_any_length_is_read_in_bounded_time() -> None:
    assert len(parse("time: mean " * 100_000).entries) == 1000
    assert parse("(" * 1_000_000).comment_problems
    assert len(parse("a: b c " * 100_000).problems) == 20
