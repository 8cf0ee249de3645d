"""Opening files and reading sub-arrays from them."""
