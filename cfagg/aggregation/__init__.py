"""Aggregations built from files: what each file holds, which of them are one array, and how that is written."""
