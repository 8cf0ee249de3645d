"""References to the bytes of fragments in formats that other libraries read: kerchunk and Icechunk."""
