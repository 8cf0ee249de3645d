"""NCA 0.1 documents rewritten as the other versions have them, by their texts: an oracle without any code of cfagg."""

from __future__ import annotations

import re

#: Version, the attribute it is in, and what names the version.
DIALECTS = {
    "NCA-0.1": ("nca", {}),
    "NCA-0.2": ("nca", {"cf_role": "nca"}),
    "NCA-0.2.1": ("nca", {"cf_role": "nca_variable"}),
    "NCA-0.2.2": ("nca", {"cf_role": "nca_variable"}),
    "CFA-0.3": ("cfa", {"cf_role": "cfa_variable"}),
    "CFA-0.4": ("cfa", {"cf_role": "cfa_variable"}),
}

_SUBARRAY = {"NCA-0.2": "data", "NCA-0.2.1": "sub_array"}
_BRACKET = re.compile(r"[(\[]([^()\[\]]*)[)\]]")


def attributes(document, dims, dialect):
    """Return the attributes but the JSON, and the document, of an aggregation in a dialect."""
    prefix, marks = DIALECTS[dialect]
    return {**marks, f"{prefix}_dimensions": " ".join(dims)}, f"{prefix}_array", encoded(document, dims, dialect)


def encoded(document, dims, dialect):
    """Return an NCA 0.1 document in another version, as that version's text says."""
    if dialect == "NCA-0.1":
        return document
    early = dialect.startswith("NCA")
    out = {} if dialect == "CFA-0.4" else {"directions": document["directions"]}
    out |= {"pmdimensions": document["pdimensions"], "pmshape": document["pshape"], "Partitions": []}
    for record in document["Partitions"]:
        made = {"index": record["index"], "location": [[a, b - 1] for a, b in record["location"]]}
        data = dict(record["data"])
        for key in ("shape", "dtype"):
            if early and key in data:
                data[f"p{key}"] = data.pop(key)
        if "format" in record:
            (made if early else data)["format"] = record["format"]
        if "dimensions" in record:
            made["pdimensions"] = record["dimensions"]
        for key in ("units", "calendar"):
            if key in record:
                made[key if early else f"p{key}"] = record[key]
        if "part" in record:
            made["part"] = part(record["part"], square=dialect == "CFA-0.4")
        if dialect == "CFA-0.4":
            if turned := reverse(document["directions"], record.get("directions", {})):
                made["reverse"] = turned
        elif "directions" in record:
            made["pdirections"] = record["directions"]
        made[_SUBARRAY.get(dialect, "subarray")] = data
        out["Partitions"].append(made)
    return out


def reverse(master, own):
    """Return the dimensions that run the other way than the master array's."""
    if isinstance(own, bool) or isinstance(master, bool):
        return []
    return [dim for dim, direction in own.items() if dim in master and master[dim] != direction]


def part(text, *, square):
    """Return a part whose ranges include their ends, in the brackets of CFA 0.4 where they are `square`."""

    def bracket(match):
        body = match[1]
        if match[0][0] == "[":
            return f"({body})" if square else match[0]
        start, stop, step = (int(n) for n in body.split(","))
        last = stop - 1 if step > 0 else stop + 1
        return f"[{start}, {last}, {step}]" if square else f"({start}, {last}, {step})"

    return "[" + _BRACKET.sub(bracket, text.strip()[1:-1]) + "]"
