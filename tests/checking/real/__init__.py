"""Headers of real files, as CDL."""
