"""Loops over two arrays are few and in a good order, and visit no other memory."""

import sys

import numpy as np

from cfagg.kernels.loops import loops_of, window


def test_axes_contiguous_on_both_sides_are_one_loop():
    source, target = np.zeros((4, 1, 5, 6), "i2"), np.zeros((4, 1, 5, 6), "f4")
    assert loops_of(source, target)[0] == [1, 120]
    assert loops_of(source[::-1], target[::-1])[0] == [1, 120]


def test_the_loop_that_the_source_prefers_stands_next_to_the_innermost():
    source, target = np.zeros((20, 30, 40), "i2"), np.zeros((40, 30, 20), "f4")
    shape, s_step, t_step, _, _ = loops_of(source.transpose(2, 1, 0), target)
    assert (shape, s_step, t_step) == ([30, 40, 20], [40, 1, 1200], [20, 600, 1])


def test_memory_windows_span_just_the_view():
    source = np.arange(100, dtype="i2")[90:10:-7]
    target = np.zeros(source.size, "i2")
    shape, s_step, _, s_start, _ = loops_of(source, target)
    others = sys.getrefcount(source)
    memory, start = window(source, source.dtype, shape, s_step, s_start)
    assert (memory[0], memory[-1], memory[start]) == (source[-1], source[0], source[0])
    assert sys.getrefcount(source) == others + 1  # the window holds its owner
