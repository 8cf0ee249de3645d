"""What a writer has just seen of objects: served until the server tells of another state."""

from __future__ import annotations

import pickle

import pytest

from cfagg.storage import recent
from cfagg.storage.recent import Recent
from cfagg.storage.store import State
from cfagg.storage.urls import Url


def test_an_object_is_at_hand_and_sure_once_the_server_has_told_the_same_state():
    seen = Recent()
    seen.keep("a", memoryview(b"123"), '"t1"')
    assert (seen.part("a").body, seen.tag("a"), seen.is_sure("a")) == (b"123", "t1", False)
    seen.look("a", State(3, "t1", 5, 9))
    assert seen.is_sure("a")
    seen.keep("a", b"456", "t2")  # read again, after the look
    assert (seen.part("a").body, seen.is_sure("a")) == (b"456", False)


@pytest.mark.parametrize("state", [None, State(3, "t2", 5, 9), State(4, "t1", 5, 9)])
def test_what_the_server_has_in_another_state_is_forgotten(state):
    seen = Recent()
    seen.keep("a", b"123", "t1")
    seen.look("a", state)
    assert (seen.part("a"), seen.tag("a"), seen.is_sure("a")) == (None, None, False)


def test_of_what_does_not_fit_the_tag_is_known_and_room_comes_back(monkeypatch):
    monkeypatch.setattr(recent, "_BYTES", 5)
    seen = Recent()
    seen.keep("a", b"1234", "t1")
    seen.keep("b", b"56", "t2")
    seen.look("b", State(2, "t2", 5, 9))
    assert (seen.part("b"), seen.tag("b"), seen.is_sure("b")) == (None, "t2", False)
    seen.forget("a")
    seen.keep("b", b"56", "t2")
    assert seen.part("b").body == b"56"
    seen.keep("c", b"1", "")  # a server that gives no tag
    assert seen.part("c") is None
    seen.clear()
    seen.keep("a", b"12345", "t1")
    assert seen.part("a").size == 5


def test_nothing_that_was_seen_goes_with_a_url_elsewhere():
    url = Url("s3://a/b")
    url.recent = Recent()
    assert (url.anew, url.anew.recent, pickle.loads(pickle.dumps(url)).recent) == (url, None, None)
