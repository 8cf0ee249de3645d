"""Entries of rows, and pages of packed entries, against plain searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels import lookup, lookup_compiled
from cfagg.kernels.lookup import HEAD, PART, entries_of_rows, pack_page, page_words, row_in_page, unpack_page
from tests import strategies as s
from tests.effort import examples
from tests.oracles import rows_between

SEARCHES = {"plain": lookup.rows_in_pages, "compiled": lookup_compiled.rows_in_pages}


def found_by(search, pages, asked, wanted):
    """Rows that a search finds in several pages, each asked for its part of `wanted`."""
    words = np.frombuffer(np.concatenate(pages).tobytes(), np.int64)  # read-only, as pages of an index are
    starts = np.cumsum([0, *map(len, pages)])[:-1]
    out = np.full(len(wanted), -1, np.int64)
    search(words, starts, np.array(asked, np.int64), wanted, out)
    return out.tolist()


@settings(max_examples=examples(50))
@given(s.index_entries().filter(lambda e: len(e[0])))
def test_a_page_gives_its_entries_back(entries):
    epoch, start, length = entries
    page = pack_page(*entries)
    assert page_words(page[:HEAD].tolist()) == len(page)
    assert [page[i] for i in (1, 2, 3, 7, 8)] == [epoch[0], start[0], len(epoch), epoch[-1], start[-1] + length[-1]]
    if page[6]:
        found = unpack_page(page)
        assert (found[0] == epoch).all()
        assert (found[1] == np.append(start, start[-1] + length[-1])).all()
    else:
        assert len(page) == HEAD
        assert (epoch == epoch[0] + page[4] * np.arange(len(epoch))).all()
        assert (length == page[5]).all()


@settings(max_examples=examples(30))
@given(s.index_entries().filter(lambda e: len(e[0])))
def test_part_of_a_page_gives_some_of_its_entries(entries):
    page = pack_page(*entries)
    if not page[6]:
        return
    epoch, start = unpack_page(page)
    for part in range(-(-len(epoch) // PART)):
        cut = slice(part * PART, (part + 1) * PART)
        found = unpack_page(page, part)
        assert (found[0] == epoch[cut]).all()
        assert (found[1] == start[cut.start : cut.stop + 1]).all()


@settings(max_examples=examples(50))
@given(s.index_entries().filter(lambda e: len(e[0])), st.data())
def test_searches_in_pages_find_what_a_scan_finds(entries, data):
    epoch, start, length = entries
    lo, hi = data.draw(s.intervals(epoch))
    # Windows of any kind are two searches each.
    wanted = np.unique(np.concatenate([lo, hi]))
    expected = [rows_between(epoch, start, length, e, e)[0] for e in wanted.tolist()]
    page = pack_page(*entries)
    for search in SEARCHES.values():
        assert found_by(search, [page], [0, len(wanted)], wanted) == expected
    stored = np.frombuffer(page.tobytes(), np.int64)
    singly = [lookup_compiled.row_in_page(stored, e) for e in wanted.tolist()]
    assert singly == expected
    if page[6]:
        within = [(e, row) for e, row in zip(wanted.tolist(), expected, strict=True) if e <= epoch[-1]]
        assert [row_in_page(page, e) for e, _ in within] == [row for _, row in within]


@pytest.mark.parametrize("search", SEARCHES)
def test_several_pages_are_searched_each_for_its_own_part(search):
    pages = [
        pack_page(np.array([10, 20, 30]), np.array([0, 1, 2]), np.array([1, 1, 1])),
        pack_page(np.array([40, 41, 90]), np.array([3, 5, 9]), np.array([2, 4, 1])),
    ]
    wanted = np.array([5, 21, 31, 41, 42, 91])
    assert found_by(SEARCHES[search], pages, [0, 3, 6], wanted) == [0, 2, 3, 5, 9, 10]
    assert found_by(SEARCHES[search], pages, [0, 0, 6], wanted)[:2] == [3, 3]


def test_entries_of_equal_steps_take_a_head_only():
    n = 4096
    assert len(pack_page(np.arange(n) * 60, np.arange(n) * 2, np.full(n, 2))) == HEAD


def test_a_gap_does_not_widen_all_other_steps():
    steps = np.ones(4096, np.int64)
    steps[1000] = 10**9
    page = pack_page(np.cumsum(steps), np.arange(4096), np.ones(4096, np.int64))
    assert len(page) < 40


def test_heads_that_cannot_be_right_have_no_words():
    page = pack_page(np.array([40, 41, 90]), np.array([3, 5, 9]), np.array([2, 4, 1]))
    good = page[:HEAD].tolist()
    bad = []
    for place, value in [(3, 0), (3, 2**40), (4, -1), (5, 0), (2, -1), (8, 3), (7, 39), (6, 57), (6, 1 << 60), (6, -1)]:
        head = list(good)
        head[place] = value
        bad.append(head)
    assert page_words(good) == len(page)
    assert [page_words(head) for head in bad] == [0] * len(bad)
    assert page_words(np.array([good, *bad]).T).tolist() == [len(page), *[0] * len(bad)]


def test_a_head_with_more_exceptions_than_16_bits_can_count_has_no_words():
    n = lookup.MAX_PACKED
    page = pack_page(np.arange(n) ** 2, np.arange(n) * 2, np.where(np.arange(n) % 99, 2, 10**6))
    head = page[:HEAD].tolist()
    assert page_words(head) == len(page)
    kinds = head[6] & (1 << 32) - 1
    assert page_words([*head[:6], kinds | (n - 1) << 32, *head[7:]]) > 0
    assert page_words([*head[:6], kinds | n << 32, *head[7:]]) == 0


@pytest.mark.parametrize("spread", [2, 2**40])
def test_a_page_of_the_most_entries_gives_them_back(spread):
    n = lookup.MAX_PACKED
    length = np.where(np.arange(n) == n // 2, 1, np.arange(n) % spread + 2)
    start, epoch = np.cumsum(length) - length, np.cumsum(np.arange(n) % spread)
    found = unpack_page(pack_page(epoch, start, length))
    assert (found[0] == epoch).all()
    assert (found[1] == np.append(start, start[-1] + length[-1])).all()


@settings(max_examples=examples(30))
@given(s.index_entries(most=40, distinct=True), st.integers(0, 99))
def test_entries_of_rows_are_runs_of_their_dates(entries, first):
    epoch, _, length = entries[0] % 10**9, entries[1], np.minimum(entries[2], 3)
    epoch = np.sort(np.repeat(epoch, length))
    rows = np.stack([epoch // 86400, epoch % 86400, np.zeros(len(epoch))], axis=1).astype("f4")
    found = entries_of_rows(rows, first)
    values, start, count = np.unique(epoch, return_index=True, return_counts=True)
    assert [c.tolist() for c in found] == [values.tolist(), (start + first).tolist(), count.tolist()]
