"""File formats: interpretation of their bytes, for all uses."""
