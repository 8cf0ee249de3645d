"""Functions for analysis code."""
