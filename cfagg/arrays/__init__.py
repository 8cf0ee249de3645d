"""Any selection of any array: where its parts are stored, and how they are read into one buffer."""
