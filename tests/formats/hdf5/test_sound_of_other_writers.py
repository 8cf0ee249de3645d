"""Whatever a sound file of another writer holds, it is not refused, and its values and attributes are proven."""

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.checking.opening import open_dataset
from cfagg.formats.hdf5.bytes import Shifted
from cfagg.formats.hdf5.sound import Sound

VERSIONS = [("earliest", "v108"), ("earliest", "latest"), ("v108", "v110"), ("v110", "v112"), ("latest", "latest")]


def compound():
    kind = np.dtype([("n", "i4"), ("text", h5py.string_dtype()), ("list", h5py.vlen_dtype("f4"), (2,)), ("s", "S3")])
    values = np.empty(3, kind)
    for i in range(3):
        values[i]["n"], values[i]["text"], values[i]["s"] = i, "text" * i, b"abc"
        values[i]["list"][:] = [np.arange(i, dtype="f4"), np.arange(3, dtype="f4")]
    return values


def everything(file):
    """Fill a file with every kind of type, storage and link that h5py writes."""
    values = {
        "int": np.arange(6).reshape(2, 3),
        "half": np.arange(3, dtype="f2"),
        "bool": np.array([True, False]),
        "complex": np.array([1 + 2j, 3]),
        "bytes": np.array([b"a", b"bcd"]),
        "opaque": np.array([b"abc", b"def"], "V3"),
        "empty": np.empty((0, 3)),
        "scalar": 1.5,
        "compound": compound(),
    }
    for name, value in values.items():
        file[name] = value
        file.attrs[f"of {name}"] = value
    file.create_dataset("texts", data=["one", "", "three"], dtype=h5py.string_dtype())
    file.create_dataset("texts in chunks", (4,), h5py.string_dtype(), chunks=(2,), maxshape=(None,))
    file["texts in chunks"][0] = "first"
    file.create_dataset("enum", data=[0, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, "u1"))
    lists = file.create_dataset("lists", (3,), h5py.vlen_dtype("i2"))
    lists[0], lists[2] = [1, 2, 3], []
    file.create_dataset("references", data=np.array([file["int"].ref, file.ref], h5py.Reference), dtype=h5py.ref_dtype)
    regions = file.create_dataset("regions", (2,), h5py.regionref_dtype)
    regions[0] = file["int"].regionref[:, 1]
    file.attrs["reference"], file.attrs["null"] = file["int"].ref, h5py.Empty("f4")
    file.attrs.create("words", ["a", "bc"], dtype=h5py.string_dtype())
    file.create_dataset("null", data=h5py.Empty("f8"))
    for k, options in enumerate(
        (
            {"chunks": (2, 3)},
            {"chunks": (4, 6), "compression": "gzip", "shuffle": True, "fletcher32": True},
            {"chunks": (2, 3), "maxshape": (None, 6), "compression": "lzf"},
            {"chunks": (2, 3), "maxshape": (None, None), "scaleoffset": 2},
            {"chunks": (1, 1), "maxshape": (None, None)},
        )
    ):
        file.create_dataset(f"chunks{k}", data=np.arange(24).reshape(4, 6), **options)
    file["named"] = np.dtype([("a", "i4"), ("b", "f8")])
    file.create_dataset("of named", data=np.zeros(2, file["named"].dtype), dtype=file["named"])
    file["named text"] = h5py.string_dtype()
    file["int"].attrs.create("named", "text", dtype=file["named text"])
    file["soft"], file["nowhere"] = h5py.SoftLink("/int"), h5py.SoftLink("/nothing")
    file["outside"] = h5py.ExternalLink("other.h5", "/x")
    group = file.create_group("many", track_order=True)
    for k in range(30):
        group[f"member{k}"] = k
        group.attrs[f"attribute{k}"] = "x" * k
    file["many/large"] = 1
    file["many/large"].attrs["large"] = np.zeros(7000)
    file.create_dataset("scale", data=[1.0, 2]).make_scale("scale")
    file["int"].dims[0].attach_scale(file["scale"])


def written(path, libver=("earliest", "latest"), **options):
    with h5py.File(path, "w", libver=libver, **options) as file:
        everything(file)
    return path


def addresses(path):
    with h5py.File(path) as file:
        found = {"/": int(h5py.h5o.get_info(file.id).addr)}
        file.visititems(lambda name, item: found.update({name: int(h5py.h5o.get_info(item.id).addr)}))
        return found, file.userblock_size


KINDS = {
    **{"-".join(v): {"libver": v} for v in VERSIONS},
    "order": {"track_order": True},
    "user block": {"userblock_size": 1024},
    "user block, latest": {"userblock_size": 512, "libver": "latest"},
    "pages": {"fs_strategy": "page", "fs_page_size": 4096, "fs_persist": True},
    "aggregated, latest": {"fs_strategy": "aggregate", "libver": "latest"},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_object_and_attribute_is_proven(tmp_path, kind):
    path = written(tmp_path / "a.h5", **KINDS[kind])
    found, begin = addresses(path)
    sound = Sound(Shifted(path.read_bytes(), begin))
    sound.check()
    assert {name: sound.unproven(at) for name, at in found.items()} == dict.fromkeys(found, frozenset())


@pytest.mark.parametrize("kind", ["earliest-v108", "latest-latest", "user block"])
def test_every_value_is_read_as_h5py_does(tmp_path, kind):
    path = written(tmp_path / "a.h5", **KINDS[kind])
    with h5py.File(path) as file, open_dataset(str(path)) as dataset:
        for variable in dataset.variables:
            expected = file[variable.path][()]
            if isinstance(expected, h5py.Empty) or variable.path in ("references", "regions"):
                continue
            assert repr(variable.values().tolist()) == repr(np.asarray(expected).tolist()), variable.path


def test_files_of_the_netcdf_library_with_types_of_their_own_are_proven(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        kind = file.createCompoundType(np.dtype([("a", "f4"), ("b", "i2", (3,))]), "kind")
        file.createVariable("c", kind, ("x",))[:] = np.zeros(2, kind.dtype)
        lists = file.createVLType(np.int16, "list")
        file.createVariable("l", lists, ("x",))[0] = np.arange(3, dtype="i2")
        enum = file.createEnumType(np.uint8, "enum", {"no": 0, "yes": 1})
        file.createVariable("e", enum, ("x",), fill_value=1)[0] = 0
        file.createVariable("s", str, ("x",), fill_value="none")[0] = "a"
        file["c"].setncattr_string("words", ["a", "b"])
    sound = Sound((tmp_path / "a.nc").read_bytes())
    sound.check()
    found, _ = addresses(tmp_path / "a.nc")
    assert {sound.unproven(at) for at in found.values()} == {frozenset()}
