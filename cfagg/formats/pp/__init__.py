"""PP files and fields files of the Met Office's Unified Model: records, headers, packed values, and CF metadata."""
