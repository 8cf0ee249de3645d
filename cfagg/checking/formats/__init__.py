"""Forms in which a report is printed."""
