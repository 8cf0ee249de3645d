"""Reading of any selection of any array: locating its parts and reading them into one buffer."""
