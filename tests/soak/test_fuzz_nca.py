"""The NCA parser on a hundred thousand and more broken texts: nothing but an error of cfagg ever comes out."""

import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conventions import fuzz_nca
from tests.effort import examples


@pytest.mark.soak
def test_100_000_mutations_are_read_or_refused_by_an_error_of_cfagg():
    seen = collections.Counter(fuzz_nca.outcome(text) for text in fuzz_nca.mutations(100_000, seed=2))
    assert set(seen) == {"read", "refused"}
    assert min(seen.values()) > 1000


@pytest.mark.soak
@settings(max_examples=examples(20_000))
@given(st.data())
def test_20_000_recombinations_are_read_or_refused_by_an_error_of_cfagg(data):
    tokens = st.sampled_from(fuzz_nca._TOKENS) | st.sampled_from(fuzz_nca._seeds()).flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.integers(0, 80)).map(lambda t: text[t[0] : t[0] + t[1]])
    )
    assert fuzz_nca.outcome("".join(data.draw(st.lists(tokens, max_size=12)))) in ("read", "refused")
