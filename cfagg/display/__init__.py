"""Displaying aggregations: text, HTML and pictures of the partition matrix."""
