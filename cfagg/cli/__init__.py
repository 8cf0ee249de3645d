"""The `cfagg` command."""
