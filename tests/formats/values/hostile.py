"""HDF5 files that name a secret outside the allowed places in every way that HDF5 knows, and what tries to read them.

Run as a program it makes one attempt after the other on the files of a folder, and writes what came out.  It ends
with status 1 where an attempt does not come back.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import pathlib
import struct
import sys
import warnings

import h5py
import numpy as np

from tests import nca_files

#: The values of the secret, and what gives them away.
SECRET = np.array([271828.25, 271829.25, 271830.25, 271831.25])

#: Seconds that one attempt may take.
PATIENCE = 40

BARE = "This is a netCDF dimension but not a netCDF variable         4"


def secrets(folder):
    """Write the secret, as HDF5, as bytes, and a FIFO that nobody writes to."""
    folder.mkdir()
    with h5py.File(folder / "secret.nc", "w") as file:
        file["x"] = SECRET
        file["time"] = SECRET
    (folder / "secret.bin").write_bytes(SECRET.tobytes())
    os.mkfifo(folder / "fifo")


def stored(file, outside, name="x", target="secret.bin", dtype="f8", **options):
    return file.create_dataset(name, (4,), dtype, external=[(str(outside / target), 0, 32)], **options)


def virtual(file, outside, name="x", target="secret.nc"):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(outside / target), "x", (4,))
    return file.create_virtual_dataset(name, layout)


def unlimited(file, outside, target="fifo"):
    layout = h5py.VirtualLayout((4,), "f8", maxshape=(None,))
    source = h5py.VirtualSource(str(outside / target), "x", (4,), maxshape=(None,))
    layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
    file.create_virtual_dataset("x", layout)


def printf(file, outside):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
    space.select_hyperslab((0,), (h5py.h5s.UNLIMITED,), (4,), (4,))
    plist.set_virtual(space, str(outside / "fif%b").encode(), b"x", h5py.h5s.create_simple((4,)))
    h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F64LE, space, plist)


def named(name, kind=b"DIMENSION_SCALE"):
    def build(file, outside):
        dataset = stored(file, outside)
        dataset.attrs["NAME"] = name
        dataset.attrs["CLASS"] = kind

    return build


def null_name(file, outside):
    stored(file, outside).attrs["NAME"] = h5py.Empty("S10")
    file["x"].attrs["CLASS"] = np.bytes_("DIMENSION_SCALE")


def external_link(file, outside, name="x", target="secret.nc", path="/x"):
    file[name] = h5py.ExternalLink(str(outside / target), path)


def soft_to_external(file, outside):
    external_link(file, outside, "e", path="/")
    file["x"] = h5py.SoftLink("/e/x")


def soft_chain(file, outside):
    external_link(file, outside, "e", path="/")
    file["f"] = h5py.SoftLink("e")
    file["g/h"] = h5py.SoftLink("/f")
    file["x"] = h5py.SoftLink("/g/h/x")


def linked_group(file, outside):
    external_link(file, outside, "g", path="/")


def enumeration(file, outside):
    stored(file, outside, dtype=h5py.enum_dtype({"a": 1}, "i8"))


def compound(file, outside):
    stored(file, outside, dtype=np.dtype([("a", "f8")]))


def coordinate(file, outside):
    stored(file, outside, "time").make_scale("time")
    file["x"] = np.arange(4.0)
    file["x"].dims[0].attach_scale(file["time"])


def virtual_coordinate(file, outside):
    virtual(file, outside, "time")
    file["time"].make_scale("time")
    file["x"] = np.arange(4.0)
    file["x"].dims[0].attach_scale(file["time"])


def in_group(file, outside):
    stored(file.create_group("g"), outside)


def circle(file, outside):
    group = file.create_group("g")
    group["again"] = group
    file["x"] = np.arange(4.0)


def soft_circle(file, outside):
    file.create_group("g")["again"] = h5py.SoftLink("/g")
    file["x"] = h5py.SoftLink("/y")
    file["y"] = h5py.SoftLink("/x")


def hidden(file, outside):
    """A variable that is read by another name than it has."""
    stored(file, outside, "_nc4_non_coord_x")


def unrelated(file, outside):
    file["x"] = np.arange(4.0)
    file["x"].make_scale("x")
    external_link(file, outside, "other", "fifo")
    external_link(file, outside, "g", "fifo", "/")


#: Name -> how the file is built and the size of its user block.
FILES = {
    "storage": (stored, 0),
    "storage_block_512": (stored, 512),
    "storage_block_4096": (stored, 4096),
    "storage_fifo": (lambda f, o: stored(f, o, target="fifo"), 0),
    "storage_fifo_block": (lambda f, o: stored(f, o, target="fifo"), 1024),
    "bare": (named(np.bytes_(BARE)), 0),
    "bare_text": (named(BARE, BARE), 0),
    "bare_number": (named(np.bytes_(BARE), 5), 0),
    "bare_block": (named(np.bytes_(BARE)), 512),
    "name_2d": (named(np.full((2, 2), BARE, "S70")), 0),
    "name_number": (named(7), 0),
    "name_numbers": (named(np.arange(3.0), np.arange(3)), 0),
    "name_texts": (named([BARE, BARE], [BARE]), 0),
    "name_null": (null_name, 0),
    "link": (external_link, 0),
    "link_block": (external_link, 512),
    "link_fifo": (lambda f, o: external_link(f, o, target="fifo"), 0),
    "link_fifo_block": (lambda f, o: external_link(f, o, target="fifo"), 512),
    "unrelated": (unrelated, 0),
    "soft": (soft_to_external, 0),
    "soft_chain": (soft_chain, 0),
    "group": (linked_group, 0),
    "virtual": (virtual, 0),
    "virtual_block": (virtual, 512),
    "virtual_fifo": (lambda f, o: virtual(f, o, target="fifo"), 0),
    "unlimited": (lambda f, o: unlimited(f, o, "secret.nc"), 0),
    "unlimited_fifo": (unlimited, 0),
    "printf_fifo": (printf, 0),
    "enumeration": (enumeration, 0),
    "compound": (compound, 0),
    "coordinate": (coordinate, 0),
    "virtual_coordinate": (virtual_coordinate, 0),
    "in_group": (in_group, 0),
    "circle": (circle, 0),
    "soft_circle": (soft_circle, 0),
    "hidden": (hidden, 0),
}


def build(folder, names=tuple(FILES)):
    """Write the secret, the hostile files, and aggregations that refer to them or hold them."""
    outside, home = folder / "outside", folder / "home"
    secrets(outside)
    (outside / "fif0").symlink_to("fifo")
    home.mkdir()
    for name in names:
        make, block = FILES[name]
        with h5py.File(home / f"{name}.nc", "w", userblock_size=block, libver=("earliest", "v110")) as file:
            make(file, outside)
        for address in ("x", "g/x"):
            suffix = address.replace("/", "_")
            content = nca_files.array(
                ["t"],
                [[0, 4]],
                lambda *_: {"data": {"file": f"{name}.nc", "ncvar": address, "shape": [4]}},  # noqa: B023
            )
            nca_files.aggregation(home / f"{name}.{suffix}.nca", "tas", "f8", {"t": 4}, content)
        # The sub-array is in the aggregation file itself.
        content = nca_files.array(["t"], [[0, 4]], lambda *_: {"data": {"ncvar": "x", "shape": [4]}})
        own = nca_files.aggregation(home / f"{name}.own.nca", "tas", "f8", {"t": 4}, content)
        with h5py.File(own, "a") as file:
            make(file, outside)
            if isinstance(file.get("x", getlink=True), h5py.HardLink):
                file["x"].attrs["nca_private"] = np.int32(1)


def attempts(home, name):
    """Yield the name of every public entry with a callable that tries it on one file."""
    import xarray

    import cfagg
    from cfagg.arrays.aggregated import AggregationReader
    from cfagg.arrays.stored import NetcdfReader
    from cfagg.checking.opening import open_dataset
    from cfagg.cli.main import main
    from cfagg.observations.sources.netcdf import read_netcdf

    path = str(home / f"{name}.nc")
    own, other, below = (str(home / f"{name}.{kind}.nca") for kind in ("own", "x", "g_x"))

    def command(*words):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main([str(w) for w in words])
        return out.getvalue()

    def whole(ds):
        # One variable after the other: that one is refused does not save the next.
        found = []
        for v in ds.variables:
            with contextlib.suppress(cfagg.errors.CfaggError):
                found.append(ds[v].values)
        return found

    def converted(source):
        import zarr

        target = str(home / f"{name}.zarr")
        try:
            cfagg.convert(source, target, overwrite=True)
        except cfagg.errors.CfaggError as error:
            return str(error)
        return [a[...] for _, a in zarr.open_group(target, mode="r").arrays()]

    def checked(source):
        found = []
        with open_dataset(source) as dataset:
            for v in dataset.variables:
                with contextlib.suppress(cfagg.errors.CfaggError):
                    found.append(np.asarray(v.read(tuple(slice(0, d.size) for d in v.dimensions))))
        return found

    for variable, group in (("x", "/"), ("x", "/g"), ("/x", "/g"), ("time", "/"), ("_nc4_non_coord_x", "/")):
        yield (
            f"reader {group} {variable}",
            lambda v=variable, g=group: NetcdfReader(path, g, v).read([slice(None)]),
        )
    yield "read", lambda: whole(cfagg.read(path))
    yield "read group", lambda: whole(cfagg.read(path, group="g"))
    yield "engine", lambda: whole(xarray.open_dataset(path, engine="cfagg"))
    yield "guess", lambda: cfagg.labelled.engine.CfaggBackendEntrypoint().guess_can_open(path)
    yield "convert", lambda: converted(path)
    yield "checked values", lambda: checked(path)
    yield "observations", lambda: [f.to_numpy() for f in read_netcdf(path, flavour={"date": "time"})]
    yield "show", lambda: command("show", path)
    yield "check", lambda: command("check", "--data", path)
    for source in (own, other, below):
        short = source.rpartition(".")[0].rpartition(".")[2]
        yield f"{short} read", lambda s=source: whole(cfagg.read(s))
        yield (
            f"{short} reader",
            lambda s=source: AggregationReader(cfagg.open_aggregation(s, "tas"), cfagg.storage.access.Access(s)).read(
                [slice(None)]
            ),
        )
        yield f"{short} convert", lambda s=source: converted(s)
        yield f"{short} show", lambda s=source: command("show", "--references", s)
        yield f"{short} check", lambda s=source: command("check", "--data", "--references", s)


def gives_away(found):
    """Return whether a secret is in what came out."""
    if isinstance(found, list | tuple):
        return any(map(gives_away, found))
    if isinstance(found, str | bytes):
        text = found if isinstance(found, bytes) else found.encode("utf-8", "replace")
        return any(str(int(v)).encode() in text for v in SECRET) or SECRET.tobytes()[:8] in text
    data = np.asarray(found)
    if data.dtype.kind == "O":
        return gives_away([repr(v) for v in data.reshape(-1).tolist()])
    raw = data.tobytes()
    return any(struct.pack("<d", v) in raw for v in SECRET)


def run(folder, names):
    """Try everything on some files; print one line for each attempt."""
    import cfagg.errors
    import cfagg.labelled.engine
    import cfagg.storage.access

    warnings.simplefilter("ignore")
    home = pathlib.Path(folder) / "home"
    for name in names:
        for what, attempt in attempts(home, name):
            faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)
            print(f"{name}\t{what}\t", end="", flush=True)
            try:
                found = attempt()
            except cfagg.errors.CfaggError as error:
                print(f"{'SECRET' if gives_away(str(error)) else 'refused'}\t{type(error).__name__}", flush=True)
            except Exception as error:  # noqa: BLE001 - to be shown
                print(f"FOREIGN\t{type(error).__name__}: {error}", flush=True)
            else:
                print("SECRET" if gives_away(found) else "done", flush=True)
            faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:] or FILES)
