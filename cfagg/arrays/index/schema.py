"""The columns of an index file, in Parquet: see docs/byte_offset_index.md, which a test compares with this."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COLUMNS", "FIELD", "FORMAT", "LONGEST", "RANGES", "VERSION", "Column"]

#: The key of the version in the file's metadata, and the version that is written and read.
FORMAT = "cfagg-index"
VERSION = 1

#: Prefix of the address of a field of a PP file, which its position in the file follows.
FIELD = "@"

#: Most ranges of bytes of a file that are in a digest, and the bytes of all of them.
RANGES, LONGEST = 64, 2**22


class Column(NamedTuple):
    """A column: its name, its Arrow type, whether it may be null, and its meaning."""

    name: str
    type: str
    nullable: bool
    meaning: str


#: One row is one variable of one file.  A file without any that can be indexed has one row of null variable columns.
COLUMNS = (
    Column("path", "string", False, "the file, from the directory of the index or absolute; or its URL"),
    Column("size", "int64", False, "its size in bytes"),
    Column("mtime_ns", "int64", True, "time of its last modification; null for remote files"),
    Column("ctime_ns", "int64", True, "time of its inode's last change; null for remote files"),
    Column("inode", "int64", True, "its inode; null for remote files"),
    Column("etag", "string", True, "the tag that the server gives it; null for local files"),
    Column("digest", "binary", True, "BLAKE2b (16 bytes) of what describes its variables; null where unknown"),
    Column("ranges", "list<int64>", False, "begin and end of each range of bytes in the digest"),
    Column("description", "binary", True, "the file's description for `aggregate --append`, in its first row"),
    Column("shared", "binary", True, "what the descriptions of all files share, in the first row"),
    Column("variable", "string", True, "name or path of the variable; of a field of a PP file, `@` and its address"),
    Column("header", "string", True, "JSON: path, dims, dtype, codecs, fill and attributes of the variable"),
    Column("shape", "list<int64>", True, "its shape"),
    Column("chunks", "list<int64>", True, "shape of a chunk; empty where values are in one block, or one a record"),
    Column("record", "int64", True, "bytes from one record to the next; 0 where values follow each other"),
    Column("cell", "list<int64>", True, "numbers of the stored chunks in C order; empty where all are stored"),
    Column("offset", "list<int64>", True, "where each chunk begins in the file, in bytes"),
    Column("length", "list<int64>", True, "size of each there, in bytes"),
    Column("mask", "list<int64>", True, "bits of the codecs that each skipped; empty where none was skipped"),
)
