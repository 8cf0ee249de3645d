"""Mutation testing by hand: change the source in one place, and see whether a test notices.

python -m tests.mutation GROUP… [--count N] [--seed S] [--only MODULE] [--guards] [--again] [--tests TEST…]

`changes` makes the mutants, `groups` says which modules and tests belong together, `bench` tries the mutants in a copy
of the tree, `equivalents` explains those that no test can tell from the original.
"""
