"""Building aggregations from files: scanning the files, joining their variables into arrays, and writing the result."""
