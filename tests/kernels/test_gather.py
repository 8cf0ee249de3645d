"""The gather kernel equals its NumPy twin for all layouts, and the exact oracle for values where casts go wrong."""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cfagg.cf.gather_rule import GatherRule
from cfagg.kernels import gather as kernel
from tests import oracles, strategies
from tests.effort import EFFORT, examples
from tests.kernels import compiled

SLOW = settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

# Cases with different branches of the conversion: (source, target, pure, masked).  Each takes seconds to compile, once
# for each number of fill values, and so one is tried every day; those whose branches are those of others, in other
# places, run in the soak suite, as do all pairs of types.
CASES = [("i2", "f4", False, True)]
OTHERS_OFTEN = [("f4", "i4", True, False)]
OTHERS = [
    ("f8", "f4", True, False),
    ("i2", "i1", True, True),
    ("u8", "i8", True, False),
    ("f8", "u8", True, True),
    ("i8", "i8", False, False),
    ("i2", "f4", False, False),
    ("i8", "f8", True, False),
    ("u4", "f4", True, True),
    ("f4", "f8", False, True),
    ("f8", "f4", False, False),
    ("f4", "i2", False, True),
    ("f8", "f8", True, True),
]


def gather(source, target, **arguments):
    """Call the kernel as the CF layer does."""
    rule = GatherRule.make(source.dtype, target.dtype, **arguments)
    low, high, fill = (rule.low, rule.high, rule.fill) if rule.masked else (None, None, None)
    fill = None if rule.lost else fill
    return kernel.gather(source, target, rule.scale, rule.offset, rule.fills, low, high, fill, checked=rule.checked)


def bits(array):
    """Return the bits of an array, all NaN alike."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"u{array.dtype.itemsize}")


def check_values(data, source, target, pure, masked):
    shape = data.draw(st.sampled_from([(), (7,), (3, 70), (5, 1, 13), (300,)]))
    values = data.draw(strategies.telling_values(shape, source))
    arguments = data.draw(strategies.gather_arguments(target, pure, masked))
    block = data.draw(strategies.views(shape, source, swapped=True))
    block[...] = values
    place = data.draw(strategies.views(shape, target))
    assume(len(GatherRule.make(block.dtype, place.dtype, **arguments).fills) <= (2 if EFFORT >= 1 else 1))
    expected, wrong = oracles.gather(values, np.dtype(target), **arguments)
    assert gather(block, place, **arguments) == wrong.any()
    assert np.array_equal(bits(place)[~wrong], bits(expected)[~wrong])


@pytest.mark.parametrize(
    ("source", "target", "pure", "masked"),
    [
        *CASES,
        *(pytest.param(*o, marks=pytest.mark.full) for o in OTHERS_OFTEN),
        *(pytest.param(*o, marks=pytest.mark.soak) for o in OTHERS),
    ],
)
@SLOW
@given(data=st.data())
def test_values_and_bad_elements_are_those_of_exact_arithmetic(source, target, pure, masked, data):
    check_values(data, source, target, pure, masked)


@pytest.mark.soak
@pytest.mark.parametrize("target", strategies.REAL_TYPES)
@pytest.mark.parametrize("source", strategies.REAL_TYPES)
@SLOW
@given(data=st.data())
def test_values_of_every_pair_of_types_are_those_of_exact_arithmetic(source, target, data):
    check_values(data, source, target, None, None)


SIZES = st.sampled_from([1, 2, 3, 7, 8, 9, 17, 63, 64, 65, 130, 700])


@st.composite
def large_shapes(draw):
    """Shapes around the sides of squares, tiles and buffers."""
    shape, left = [], 40000
    for _ in range(draw(st.integers(0, 5))):
        shape.append(min(draw(SIZES), left))
        left //= shape[-1]
    return tuple(draw(st.permutations(shape)))


@pytest.mark.parametrize(
    ("source", "target", "scale"),
    [
        ("i2", "i2", 1),
        ("i2", "f4", 0.1),
        pytest.param("f8", "f8", 1, marks=pytest.mark.soak),
        pytest.param("i1", "i1", 1, marks=pytest.mark.soak),
        pytest.param("f4", "f4", 1, marks=pytest.mark.soak),
    ],
)
@settings(SLOW, max_examples=examples(40))
@given(data=st.data())
def test_any_strides_and_byte_order_give_the_values_of_numpy(source, target, scale, data):
    shape = data.draw(large_shapes())
    block = data.draw(strategies.views(shape, source, swapped=True))
    place = data.draw(strategies.views(shape, target))
    block[...] = np.random.default_rng(block.size).integers(-128, 128, shape)
    whole = place.base if place.base is not None else place
    around = np.count_nonzero(whole)
    arguments = {} if scale == 1 else {"scale": scale, "offset": 3.0, "fills": [5]}
    assert not gather(block, place, **arguments)
    assert np.array_equal(bits(place), bits(oracles.gather_whole(block, np.dtype(target), **arguments)))
    assert around == 0
    assert np.count_nonzero(whole) == np.count_nonzero(place), "wrote outside the view"


@pytest.mark.full
def test_a_read_only_source_and_one_without_strides_are_read():
    source = np.broadcast_to(np.int16(7), (300, 200))
    out = np.zeros((200, 300), "f4")
    assert not gather(source, out.T, scale=0.5, offset=0.5)
    assert (out == 4).all()


@pytest.mark.full
@compiled
def test_read_only_and_writable_sources_share_one_compiled_signature():
    source, out = np.arange(10, dtype="i2"), np.zeros(10, "f4")
    gather(source, out, scale=0.5)
    before = len(kernel._run.signatures)
    source.flags.writeable = False
    gather(source[::-1], out, scale=0.5)
    gather(source[::2].reshape(5, 1), out.reshape(2, 5).T[:, :1], scale=0.5)
    assert len(kernel._run.signatures) == before


def test_an_empty_block_is_not_read():
    assert not gather(np.zeros((0, 3), "i2"), np.zeros((0, 3), "f4"))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.zeros(9, "u1")[1:].view("i2"), np.zeros(4, "f4")),
        (np.zeros(4, [("a", "i1"), ("b", "i2")])["b"], np.zeros(4, "f4")),
        (np.zeros(4, "i2"), np.zeros(4, np.dtype("f4").newbyteorder())),
        (np.zeros(4, "i2"), np.broadcast_to(np.float32(1), 4)),
        (np.zeros(4, "M8[s]"), np.zeros(4, "f4")),
    ],
    ids=["unaligned", "odd step", "swapped target", "read-only target", "dates"],
)
def test_arrays_that_the_kernel_does_not_take_are_told_and_refused(source, target):
    assert not kernel.can_gather(source, target)
    with pytest.raises(ValueError, match="cannot be gathered"):
        kernel.gather(source, target)


@pytest.mark.parametrize("shape", [(3,), (5,), (2, 2), ()])
def test_arrays_of_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="differ in shape"):
        kernel.gather(np.zeros(4, "i2"), np.zeros(shape, "f4"))


def test_more_than_two_fills_are_left_to_numpy():
    source, target = np.zeros(4, "i2"), np.zeros(4, "f4")
    assert kernel.can_gather(source, target, (1, 2))
    assert not kernel.can_gather(source, target, (1, 2, 3))


def test_blocks_are_gathered_by_threads_at_once():
    source = (np.arange(400_000) % 30_000).astype("i2").reshape(400, 1000)
    out = np.zeros((1000, 400), "f4")
    places = [out[:, k : k + 100] for k in range(0, 400, 100)]
    threads = [
        threading.Thread(target=gather, args=(source[k : k + 100].T, place), kwargs={"scale": 2.0})
        for k, place in zip(range(0, 400, 100), places, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(out, source.T * 2.0)
