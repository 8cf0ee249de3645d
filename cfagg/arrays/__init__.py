"""Any selection of any array: what of it is stored where, and how it is read into one buffer."""
