"""HDF5 without its library: object headers, heaps, trees and checksums, read from bytes that are not trusted."""
