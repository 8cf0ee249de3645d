"""Who may import what reads or decodes untrusted bytes: named modules only, deferred imports included."""

from __future__ import annotations

import ast

import pytest

from tests.test_layers import SOURCES, facts, imports, name_of, naming, within

#: Library -> the modules of the package that import it.
IMPORTERS = {
    "netCDF4": {
        "cfagg/formats/values/netcdf.py",  # reads what `check_file` admitted
        "cfagg/formats/values/filters.py",  # asks which filters it writes, in memory
        "cfagg/observations/exchange/netcdf_write.py",  # writes
        "cfagg/demo.py",  # its own files
        "cfagg/arrays/netcdf_source.py",  # a type only
        "cfagg/cli/output.py",  # writes
        "cfagg/writing/aggregation_file.py",  # writes
        "cfagg/conversion/netcdf_file.py",  # writes, and reads that back
        "cfagg/writing/fragments.py",  # writes
        "cfagg/writing/rebasing.py",  # changes the copy of what was read through the gate
    },
    "h5py": {
        "cfagg/conversion/netcdf_file.py",  # writes into its own file
        "cfagg/formats/hdf5/library.py",  # opens
        "cfagg/formats/hdf5/links.py",  # lists what leads out of a file
        "cfagg/formats/hdf5/proof.py",  # proves attributes
        "cfagg/formats/hdf5/library_variables.py",  # finds variables, and opens what the gate admitted
        "cfagg/formats/hdf5/chunks.py",  # asks where the chunks are of what the gate admitted
        "cfagg/formats/hdf5/listing.py",  # asks how the library lists chunks
        "cfagg/formats/hdf5/proof_values.py",  # proves values of variable length
        "cfagg/formats/hdf5/library_dataset.py",  # follows no link out of a file
        "cfagg/formats/hdf5/untyped.py",  # asks for types, and follows no link out of a file
        "cfagg/formats/hdf5/values.py",  # reads what the gate admitted
        "cfagg/formats/hdf5/reordering.py",  # changes a copy of what the gate admitted
    },
    "numcodecs": {
        "cfagg/formats/codecs.py",  # decodes, within bounds
        "cfagg/formats/fastzstd.py",  # decodes, within bounds
        "cfagg/formats/hdf5/lookup3.py",  # checksums
        "cfagg/formats/zarr/numeric.py",
        "cfagg/formats/zarr/encoding.py",  # writes, as all below
        "cfagg/formats/zarr/written_codecs.py",
        "cfagg/conversion/slab_writer.py",
        "cfagg/writing/exports/kerchunk.py",
    },
    "zarr": {
        "cfagg/formats/zarr/checked_store.py",  # stores that are not directories
        "cfagg/formats/zarr/zipped.py",  # members of bounded size
        "cfagg/formats/zarr/settings.py",  # opens what is not decoded here
        "cfagg/formats/zarr/consolidated.py",  # completes documents in memory
        "cfagg/formats/metadata/stores.py",
        "cfagg/formats/metadata/remote_store.py",
        "cfagg/arrays/given.py",  # arrays that users give
        "cfagg/labelled/zarr.py",  # gives xarray what this library reads
        "cfagg/accumulation/provenance.py",
        "cfagg/conversion/verify.py",
        "cfagg/writing/exports/icechunk.py",  # writes
        "cfagg/writing/zarr/text.py",  # decodes text in memory
    },
    "google_crc32c": {
        "cfagg/formats/codecs.py",
        "cfagg/formats/zarr/encoding.py",  # writes
        "cfagg/formats/zarr/checksums.py",
    },
    "isal": {"cfagg/formats/fastzlib.py"},
    "deflate": {"cfagg/formats/fastzlib.py"},
    "bz2": {"cfagg/formats/codecs.py"},
    "lzma": {"cfagg/formats/codecs.py"},
    "zlib": {
        "cfagg/formats/fastzlib.py",
        "cfagg/checking/lookup.py",
        "cfagg/formats/kerchunk/references.py",  # gzip, within bounds
        "cfagg/formats/pp/stash.py",  # its own table
        "cfagg/formats/zarr/written_codecs.py",
        "cfagg/formats/zarr/zipped.py",  # its error, which Zip files raise
    },
}


@pytest.mark.parametrize("library", IMPORTERS)
def test_only_these_modules_import_the_library(library):
    users = {name_of(p) for p in naming([library]) for _, module in imports(p) if within(module, {library})}
    assert users == IMPORTERS[library]


def test_no_module_gets_the_libraries_by_another_way():
    found = []
    for path in naming(["import_module", "__import__"]):
        found += [
            f"{name_of(path)}:{line}"
            for line, called, constants in facts(path)[1]
            if called in ("import_module", "__import__")
            and any(str(c).partition(".")[0] in IMPORTERS for c in constants)
        ]
    assert not found


#: Functions that read values of untrusted files, by module: each takes the token of the gate.
READERS = {
    "cfagg/formats/values/contiguous.py": {"read"},
    "cfagg/formats/hdf5/chunks.py": {"read", "scan", "raw"},
    "cfagg/formats/hdf5/proof_values.py": {"prove_named", "prove_values"},
    "cfagg/formats/hdf5/library_variables.py": {"dataset"},
    "cfagg/formats/values/netcdf.py": {"read"},
    "cfagg/formats/hdf5/values.py": {"_read"},
}


@pytest.mark.parametrize("module", READERS)
def test_what_reads_values_takes_the_token_of_the_gate(module):
    (path,) = [p for p in SOURCES if name_of(p) == module]
    functions = {f.name: f for f in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(f, ast.FunctionDef)}
    assert READERS[module] <= set(functions)
    for name in READERS[module]:
        first = functions[name].args.args[0]
        assert (first.arg, ast.unparse(first.annotation)) == ("checked", "Checked")


def test_tokens_are_asked_for_in_named_modules_only():
    """Everybody else reads through `cfagg.formats.values.read`, which asks the gate itself."""
    users = {name_of(p) for p in SOURCES if "admit(" in p.read_text(encoding="utf-8")}
    assert users == {
        "cfagg/storage/gate.py",
        "cfagg/arrays/index/tables.py",
        "cfagg/formats/values/find.py",
        "cfagg/formats/values/open_variable.py",
        "cfagg/formats/hdf5/library_variables.py",
        "cfagg/formats/values/netcdf.py",
        "cfagg/formats/hdf5/small.py",  # what stands in the file itself
        "cfagg/formats/hdf5/values.py",
        "cfagg/formats/metadata/netcdf4.py",
    }
