"""What is done to an accumulation, by what is asked for and what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cfagg.accumulation.build_plan import Action, State, decide
from cfagg.accumulation.options import Order
from cfagg.errors import TargetExistsError

NEW = Order("a.zarr", "tas", 1 << 20)
FRESH = State(exists=True, fresh=True, alike=True)
STALE = State(exists=True, alike=True)


@pytest.mark.parametrize(
    ("options", "state", "expected"),
    [
        ((), State(exists=False), Action.BUILD),
        (("overwrite",), State(exists=False), Action.BUILD),
        (("resume",), State(exists=False), Action.BUILD),
        (("overwrite",), FRESH, Action.REBUILD),
        (("overwrite", "resume"), FRESH, Action.REBUILD),
        (("resume",), FRESH, Action.NOTHING),
        (("append",), FRESH, Action.NOTHING),
        (("refresh",), FRESH, Action.NOTHING),
        (("refresh",), replace(FRESH, related_changed=True), Action.RENEW),
        (("append",), replace(STALE, grown=True), Action.APPEND),
        (("refresh",), replace(STALE, grown=True), Action.APPEND),
        (("refresh",), STALE, Action.REBUILD),
        (("refresh",), replace(STALE, related_changed=True), Action.REBUILD),
    ],
)
def test_what_is_done_follows_from_what_is_asked_for_and_what_is_there(options, state, expected):
    assert decide(replace(NEW, **dict.fromkeys(options, True)), state, "tas") is expected


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ((), FRESH),
        (("resume",), STALE),
        (("resume",), replace(FRESH, alike=False)),
        (("resume",), replace(FRESH, related_changed=True)),
    ],
)
def test_an_accumulation_that_nobody_asks_to_replace_is_not_lost(options, state):
    with pytest.raises(TargetExistsError, match="--overwrite"):
        decide(replace(NEW, **dict.fromkeys(options, True)), state, "tas")


def test_reports_say_up_to_date_of_what_needs_no_sums():
    assert {a: a.word for a in Action if not a.sums} == {Action.RENEW: "up to date", Action.NOTHING: "up to date"}
