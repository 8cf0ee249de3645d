"""Indexes: which rows of a store have a date."""
