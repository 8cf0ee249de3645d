"""Writing aggregation files in every writable dialect, and moving their references."""
