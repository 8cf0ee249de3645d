"""NCA 0.1: from the attributes of a netCDF variable to an aggregation.

An NCA variable is a scalar netCDF variable.  Its attribute ``nca_dimensions`` names the dimensions of the master array,
``nca_array`` has the partitions in JSON.  Variables with a non-zero ``nca_private`` are sub-arrays in the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits, partition_stream, tolerant_json
from cfagg.conventions.closure import close
from cfagg.conventions.columns import MISSING, integers_problem
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.marks import ROLES
from cfagg.conventions.nca_keys import MEANT, foreign
from cfagg.conventions.nca_layouts import resolve_layouts
from cfagg.conventions.nca_records import Records
from cfagg.conventions.nca_shapes import Private
from cfagg.conventions.versions import NCA_0_1, Version
from cfagg.errors import ConventionError, LimitError
from cfagg.model import Aggregation, Partitions, Strings
from cfagg.model.partitions import in_order_of_use

if TYPE_CHECKING:
    from cfagg.conventions.nca_write import write

__all__ = ["based", "dimensions", "parse", "text_of", "write"]


def parse(
    name: str,
    attributes: Mapping[str, Any],
    dtype: npt.DTypeLike,
    sizes: Mapping[str, int],
    *,
    private: Private | None = None,
    source: str = "",
    version: Version = NCA_0_1,
) -> Aggregation:
    """Return the aggregation that an NCA variable describes, or a CFA variable in JSON.

    Parameters
    ----------
    name : str
        Name of the variable.
    attributes : mapping
        All its attributes; text may be ``str``, ``numpy.str_`` or UTF-8 ``bytes``.  ``nca_array``, ``nca_dimensions``
        and, if they are text, ``units`` and ``calendar`` become fields of the result, the others its ``attributes``.
    dtype : dtype_like
        Data type of the variable, which is that of the master array.
    sizes : mapping of str to int
        Sizes of all dimensions that the variable can see.
    private : mapping, optional
        ``{variable: (dims, shape)}`` of the variables in the aggregation file itself; if partitions refer to them, the
        shapes must agree.
    source : str, optional
        The file, for messages and for relative references.
    version : Version, optional
        How the JSON is interpreted; NCA 0.1 by default.

    Returns
    -------
    Aggregation
        With partitions in C order over the matrix; tables of files, variables, parts and layouts in order of first use.

    Raises
    ------
    ConventionError
        The attributes break the convention; ``problems`` lists everything found, with key paths.
    LimitError
        A size, depth or count is above a cap of `cfagg.conventions.limits`.

    Warns
    -----
    RepairWarning
        Once for each repair: misprints in the JSON, unknown keys, values that had to be inferred.

    Notes
    -----
    NCA 0.1, "A complete description of NCA attributes describing the aggregated data".

    Examples
    --------
    >>> text = '''{"directions": {"time": true}, "pdimensions": ["time"], "pshape": [2], "Partitions": [
    ...   {"index": [0], "location": [[0, 12]], "data": {"shape": [12], "file": "test1.nc", "ncvar": "tas"}},
    ...   {"index": [1], "location": [[12, 48]], "data": {"shape": [36], "file": "test2.nc", "ncvar": "tas2"}}]}'''
    >>> tas = parse("tas", {"units": "K", "nca_dimensions": "time", "nca_array": text}, "f4", {"time": 48})
    >>> tas
    <Aggregation 'tas' (time: 48) float32, 2 partitions>
    >>> tas.grid.edges, tas.partitions.file_name(1), tas.partitions.address_name(1)
    ((array([ 0, 12, 48]),), 'test2.nc', 'tas2')
    """
    subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
    others = dict(attributes)
    array = f"{version.prefix}_array"
    text = text_of(others.pop(array, MISSING), array, subject)
    dims, shape = dimensions(others.pop(f"{version.prefix}_dimensions", ""), sizes, subject, version)
    if version.defaults:
        others = {k: v for k, v in others.items() if k != "cf_role" or str(v) not in ROLES}
    units, calendar = (
        text_of(others.pop(key), key, subject) if isinstance(others.get(key), str | bytes) else None
        for key in ("units", "calendar")
    )
    findings, records, head = _load(text, subject, dims, sizes, private or {}, version)
    pdims, pshape = _matrix(head, dims, records, findings)
    grid = order = None
    if pdims is not None and pshape is not None:
        index, location, number = (records.column(c) for c in ("index", "location", "number"))
        whole = len(index) == records.count
        try:
            closed = close(
                *(dims, shape, pdims, pshape, index, location, number, findings),
                complete=whole,
                inclusive=version.inclusive,
            )
        except LimitError as error:
            raise LimitError(f"{subject}: {error.message}") from None
        grid, order = closed if closed is not None else (None, None)
    directions, known = _directions(head.get("directions", MISSING), dims, findings, version)
    layouts, layout_codes = resolve_layouts(records, dims, directions, known, units, calendar, findings)
    findings.check(f"{array} does not describe an aggregation")
    if grid is None or order is None:  # a problem has been noted in any case
        raise ConventionError(f"{subject}: {array} does not describe a partition matrix")
    partitions = _partitions(records, order, layout_codes, layouts, based(head.get("base", MISSING), version, findings))
    findings.check(f"{array} does not describe an aggregation")
    findings.warn()
    return Aggregation(
        name=name,
        dims=dims,
        shape=shape,
        dtype=np.dtype(dtype),
        grid=grid,
        partitions=partitions,
        units=units,
        calendar=calendar,
        directions=directions,
        attributes=others,
        source=source,
        dialect=version.name,
    )


def text_of(value: Any, attribute: str, subject: str) -> str:
    """Return an attribute's text."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConventionError(f"{subject}: the attribute {attribute} is not UTF-8 at byte {error.start}") from None
    if isinstance(value, str):
        return str(value)
    found = "none" if value is MISSING else f"{shorten(value)} ({type(value).__name__})"
    raise ConventionError(f"{subject}: the attribute {attribute} should be text; found {found}")


def dimensions(
    value: Any, sizes: Mapping[str, int], subject: str, version: Version
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the master array's dimensions and shape."""
    attribute = f"{version.prefix}_dimensions"
    dims = tuple(text_of(value, attribute, subject).split())
    findings = Findings(subject)
    if len(dims) > limits.MAX_RANK:
        raise LimitError(f"{subject}: {len(dims)} dimensions in {attribute}; at most {limits.MAX_RANK} are read")
    for i, dim in enumerate(dims):
        if dim in dims[:i]:
            findings.problem(attribute, f"{dim!r} occurs twice")
        elif dim not in sizes:
            findings.problem(attribute, f"the file has no dimension {dim!r}")
        elif not 0 <= int(sizes[dim]) < 2**63:
            findings.problem(attribute, f"{dim!r} has the impossible size {sizes[dim]}")
    findings.check(f"{attribute} does not name the dimensions of the master array")
    return dims, tuple(int(sizes[d]) for d in dims)


def _load(
    text: str, subject: str, dims: tuple[str, ...], sizes: Mapping[str, int], private: Private, version: Version
) -> tuple[Findings, Records, dict[str, Any]]:
    """Return the content of the JSON, repaired if necessary, with the top-level keys of NCA 0.1."""
    array = f"{version.prefix}_array"
    findings = Findings(subject, version.place)
    records = Records(dims, sizes, private, findings, version)
    try:
        try:
            return findings, records, _renamed(partition_stream.load(text, records.add), version, findings)
        except partition_stream.NotJSONError as error:
            strict = error.message
        try:
            text, repairs = tolerant_json.repair(text)
        except ConventionError as error:
            raise partition_stream.BrokenJSONError(
                f"{subject}: {array} is not JSON ({strict}) and has misprints that are not repaired: {error.message}"
            ) from None
        findings = Findings(subject, version.place)
        for repair in repairs:
            findings.repair(repair.kind, f"{array} was repaired: {repair.message}", tolerant_json.MisprintWarning)
        records = Records(dims, sizes, private, findings, version)
        return findings, records, _renamed(partition_stream.load(text, records.add), version, findings)
    except LimitError as error:
        raise LimitError(f"{subject}: {array}: {error.message}") from None
    except ConventionError as error:
        if error.message.startswith(subject):
            raise
        raise type(error)(f"{subject}: {array}: {error.message}", error.problems) from None


def _renamed(head: dict[str, Any], version: Version, findings: Findings) -> dict[str, Any]:
    """Return the top-level keys by their names in NCA 0.1, without unknown ones."""
    names = {own[0]: key for key, own in version.head.items()}
    found = {}
    for key, value in head.items():
        if key in names or key == "Partitions":
            found[names.get(key, key)] = value
        elif key in MEANT:
            findings.problem(key, foreign(version))
        else:
            findings.repair(
                "unknown key",
                f"the key {shorten(key)} of {version.prefix}_array is not a key of {version.title} and is ignored",
            )
    return found


def _matrix(
    head: dict[str, Any], dims: tuple[str, ...], records: Records, findings: Findings
) -> tuple[list[str] | None, list[int] | None]:
    """Return the partitioned dimensions and the shape of the matrix, None if they are invalid."""
    version, names = records.version, {key: own[0] for key, own in records.version.head.items()}
    if version.defaults:
        pdims = head.setdefault("pdimensions", [])
        head.setdefault("pshape", [1] * (len(pdims) if type(pdims) is list else 0))
        if pdims == [] and head["pshape"] == [1]:
            head["pshape"] = []
    before = len(findings.problems)
    for key in ("pdimensions", "pshape", "Partitions"):
        if key not in head:
            findings.problem(key, "the key is missing")
    if "Partitions" in head and type(head["Partitions"]) is not range:
        findings.problem("Partitions", f"list expected, found {shorten(head['Partitions'])}")
    pdims, pshape = head.get("pdimensions", []), head.get("pshape", [])
    if type(pdims) is not list or not {str}.issuperset(map(type, pdims)):
        findings.problem("pdimensions", f"list of strings expected, found {shorten(pdims)}")
        return None, None
    if len(pdims) > len(dims):
        findings.problem("pdimensions", f"{len(pdims)} partitioned dimensions, but the array has {len(dims)}")
        return None, None
    for i, dim in enumerate(pdims):
        if dim not in dims:
            findings.problem(
                f"{names['pdimensions']}[{i}]",
                f"{shorten(dim)} is not among {version.prefix}_dimensions ({' '.join(dims)})",
            )
        elif dim in pdims[:i]:
            findings.problem(f"{names['pdimensions']}[{i}]", f"{dim!r} occurs twice")
    if (message := integers_problem(pshape, len(pdims), names["pdimensions"])) is not None:
        findings.problem("pshape", message)
    elif any(n < 0 for n in pshape):
        findings.problem("pshape", f"a negative number in {shorten(pshape)}")
    records.fit(len(pdims))
    if records.width not in (None, len(pdims)):
        findings.problem(
            "Partitions", f"the first index has {records.width} entries for {len(pdims)} partitioned dimensions"
        )
    if len(findings.problems) > before:
        return None, None
    if records.width is None:
        records.width = len(pdims)
    return pdims, pshape


def _directions(
    value: Any, dims: tuple[str, ...], findings: Findings, version: Version
) -> tuple[tuple[bool, ...] | bool, frozenset[str]]:
    """Return the master array's directions, and the dimensions for which the text gives one."""
    if version.reverses:  # only reversed dimensions are known
        return (True,) * len(dims) if dims else True, frozenset(dims)
    if not dims:
        if type(value) is bool:
            return value, frozenset()
        if value not in ({}, MISSING):
            findings.problem("directions", f"true or false expected for a scalar, found {shorten(value)}")
        findings.repair("directions", "directions of a scalar should be true or false; taken as increasing")
        return True, frozenset()
    if value is MISSING:
        value = {}
    if type(value) is not dict:
        findings.problem(
            "directions", f"expected an object with true or false for each dimension, found {shorten(value)}"
        )
        return (True,) * len(dims), frozenset(dims)
    for dim, direction in value.items():
        if dim not in dims:
            findings.problem(
                "directions", f"{shorten(dim)} is not among {version.prefix}_dimensions ({' '.join(dims)})"
            )
        elif type(direction) is not bool:
            findings.problem(f"directions.{dim}", f"true or false expected, found {shorten(direction)}")
    for dim in dims:
        if dim not in value:
            findings.repair("directions", f"directions says nothing about {dim!r}; taken as increasing")
    return tuple(value.get(d) is not False for d in dims), frozenset(value)


def based(base: Any, version: Version, findings: Findings) -> Callable[[list[str]], list[str]]:
    """Return a function that resolves file names against their base (CFA 0.4, ``base`` and ``file``)."""
    if base is not MISSING and type(base) is not str:
        findings.problem("base", f"string expected, found {shorten(base)}")
    if type(base) is not str or not base:
        return list
    start = base if base.endswith("/") else f"{base}/"

    def whole(name: str) -> str:
        if not name.startswith("/") and "://" not in name:
            return start + name
        if version.name not in ("NCA-0.2", "NCA-0.2.1"):
            findings.repair(
                "base", f"there is a base, but the file name {shorten(name)} is absolute; the base is not applied"
            )
        return name

    return lambda names: [whole(name) for name in names]


def _partitions(
    records: Records,
    order: npt.NDArray[np.int64],
    layout: npt.NDArray[np.int32],
    layouts: list[Any],
    whole: Callable[[list[str]], list[str]],
) -> Partitions:
    """Return the partition table in C order, with every table in order of first use."""
    columns = {name: records.column(name)[order] for name in ("file", "address", "part", "offset")}
    file, files = in_order_of_use(columns["file"], list(records.files))
    address, addresses = in_order_of_use(columns["address"], list(records.addresses))
    part, parts = in_order_of_use(columns["part"], list(records.parts))
    codes, used = in_order_of_use(layout[order], layouts)
    return Partitions.build(
        len(order),
        file=file,
        address=address,
        part=part,
        offset=columns["offset"],
        layout=codes,
        files=Strings(whole(files)),
        addresses=Strings(addresses),
        parts=Strings(parts),
        layouts=used,
    )


def __getattr__(name: str) -> Any:
    """Return `write`, whose module reading does without."""
    if name != "write":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cfagg.conventions.nca_write import write

    return write
