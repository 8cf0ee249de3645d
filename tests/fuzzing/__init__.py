"""Fuzzers of every parser: changed inputs, in processes that outlive a crash, with ceilings of time and memory."""
