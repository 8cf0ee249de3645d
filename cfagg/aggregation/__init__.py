"""Aggregations built from files: what each file holds, which of them form one array, and how that is written."""
