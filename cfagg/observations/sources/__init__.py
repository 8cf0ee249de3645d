"""Sources of observations: tables for ranges of dates."""
