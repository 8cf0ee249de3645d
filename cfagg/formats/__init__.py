"""File formats: what their bytes mean, whichever job asks."""
