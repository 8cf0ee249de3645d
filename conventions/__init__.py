"""Codecs from a convention's attributes to the data model and back; imported as ``cfagg.conventions``."""

if __name__ != "cfagg.conventions":
    raise ImportError(
        f"this folder is imported as cfagg.conventions, not as {__name__}: write 'from cfagg.conventions import ...'"
    )
