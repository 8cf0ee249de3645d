"""References to the bytes of fragments in forms that other libraries read: kerchunk and Icechunk."""
