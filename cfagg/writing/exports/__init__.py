"""References to the bytes of fragments where they are, in forms that other libraries read: kerchunk and Icechunk."""
