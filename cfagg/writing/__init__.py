"""Writing aggregation files of every dialect that can be written, and moving their references."""
