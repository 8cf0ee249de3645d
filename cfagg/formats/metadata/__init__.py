"""Building the metadata model of a check from any representation of a dataset."""
