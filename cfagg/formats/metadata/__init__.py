"""Building the metadata model of a check from whatever holds the dataset."""
