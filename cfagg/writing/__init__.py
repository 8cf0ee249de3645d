"""Writing files: aggregation files of every dialect that is written, and moving their references."""
