"""Lossy compression by quantization: CF section 8.4."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfagg.cf.attribute_types import holds, said, said_type
from cfagg.checking.context import Context, once, variables
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule, shared
from cfagg.model.dataset import Variable

#: Each algorithm and the attribute that gives the precision it keeps.
_ALGORITHMS = {
    "bitround": "quantization_nsb",
    "bitgroom": "quantization_nsd",
    "digitround": "quantization_nsd",
    "granular_bitround": "quantization_nsd",
}

#: Prefixes of the attributes in which the netCDF library records quantization.
_BY_LIBRARY = {
    "_QuantizeBitRound": "bitround",
    "_QuantizeBitGroom": "bitgroom",
    "_QuantizeGranularBitRound": "granular_bitround",
}

#: The largest number of bits or digits by the size of the type in bytes.
_LARGEST = {"quantization_nsb": {4: 23, 8: 52}, "quantization_nsd": {4: 7, 8: 15}}


@once
def _containers(c: Context) -> list[Variable]:
    """Return the variables that ``quantization`` attributes name, each once."""
    named = c.roles.named_by("quantization")
    return [v for v in c.dataset.variables if v in named]


@rule("QNT001", each=_containers)
def container_tells_algorithm_and_implementation(_: Context, v: Variable) -> Iterator[Hit]:
    """A quantization variable has the texts ``algorithm`` and ``implementation``."""
    for name in ("algorithm", "implementation"):
        if name not in v.attributes:
            yield Hit(v, name, f"the quantization variable has no attribute {name}: add it")
        elif holds(v.attributes[name]) not in ("text", "texts", "bytes"):
            yield Hit(v, name, f"it holds {said(v.attributes[name])}; expected text")


@rule("QNT002", each=_containers)
def algorithm_is_known(_: Context, v: Variable) -> Iterator[Hit]:
    """``algorithm`` is one of the four standardized ones."""
    name = v.text("algorithm")
    if name is None or name.strip() in _ALGORITHMS:
        return
    meant = name.strip().lower()
    if meant in _ALGORITHMS:
        fix = (Edit(v.path, "algorithm", meant),)
        yield Hit(v, "algorithm", f"{name[:60]!r} has capital letters; expected {meant!r}", None, fix)
    else:
        yield Hit(v, "algorithm", f"{name[:60]!r} is not known; expected one of {', '.join(_ALGORITHMS)}")


@rule("QNT003", each=variables)
def only_real_numbers_are_quantized(_: Context, v: Variable) -> Iterator[Hit]:
    """Quantized variables are of a floating-point type, and are marked as quantized by ``quantization``."""
    if "quantization" in v.attributes:
        if holds(v.attributes["quantization"]) not in ("text", "texts", "bytes"):
            yield Hit(v, "quantization", f"it holds {said(v.attributes['quantization'])}; expected text")
        elif v.kind != "float":
            message = f"the variable is of type {said_type(v)}; only floating-point variables can be quantized"
            yield Hit(v, "quantization", f"{message}: remove the attribute")
    else:
        system = next((n for n in v.attributes if n.startswith("_Quantize")), None)
        if system is not None:
            message = "the library has quantized the variable, but it has no attribute quantization"
            yield Hit(v, system, f"{message}: add it, a quantization variable, and how much was kept")


@rule("QNT004", each="quantization")
def quantization_names_a_variable(c: Context, v: Variable) -> Iterator[str]:
    """``quantization`` names one variable that is in the dataset."""
    text = v.text("quantization")
    if text is None:
        return
    found = c.references_of(v, "quantization")
    if len(found) != 1:
        yield (f"{text[:60]!r} is not the name of one variable")
    elif found[0].target is None:
        message = f"variable {found[0].name!r} is not in the dataset"
        yield (f"{message}; expected a variable with algorithm and implementation")


def _parameter(c: Context, v: Variable) -> str | None:
    """Return the required attribute for the precision kept, or `None` if the algorithm is unknown."""
    target = c.target(v, "quantization")
    return _ALGORITHMS.get((target.text("algorithm") or "").strip().lower()) if target is not None else None


@rule("QNT005", each="quantization")
def parameter_of_the_quantization_is_there(c: Context, v: Variable) -> Iterator[Hit | str]:
    """A quantized variable has the integer ``quantization_nsb`` or ``quantization_nsd``, as the algorithm needs."""
    if v.kind != "float" or v.text("quantization") is None:
        return
    name = _parameter(c, v)
    if name is None:
        if not any(n in v.attributes for n in _LARGEST):
            message = "neither quantization_nsb nor quantization_nsd says how much was kept: add the one that applies"
            yield (message)
        names = [n for n in _LARGEST if n in v.attributes]
    else:
        if name not in v.attributes:
            other = next((n for n in _LARGEST if n != name and n in v.attributes), None)
            kept = f", not {other}" if other else ", which is missing"
            yield Hit(v, name, f"the algorithm needs this attribute{kept}: add it")
        names = [name] if name in v.attributes else []
    yield from _otherwise(c, v, names)
    for one in names:
        value = v.attributes[one]
        if holds(value) != "integer" or not isinstance(value, np.ndarray) or value.size != 1:
            message = said(value, typed=c.dataset.typed)
            yield Hit(v, one, f"it holds {message}; expected one integer")


def _otherwise(c: Context, v: Variable, names: list[str]) -> Iterator[Hit]:
    """Yield contradictions to the attribute that the netCDF library adds to quantized variables."""
    system = next((n for n in v.attributes if n.startswith("_Quantize")), None)
    kept = v.numbers(system) if system is not None else None
    if system is None or kept is None or kept.size != 1:
        return
    meant = next((a for n, a in _BY_LIBRARY.items() if system.startswith(n)), None)
    target = c.target(v, "quantization")
    algorithm = (target.text("algorithm") or "").strip() if target is not None else ""
    if meant is not None and algorithm in _ALGORITHMS and algorithm != meant:
        message = f"the algorithm is {algorithm!r}, and according to {system} the library used {meant!r}"
        yield Hit(v, "quantization", message, "warning")
        return
    for name in names:
        own = v.numbers(name)
        if own is not None and own.size == 1 and own[0] != kept[0]:
            message = f"it is {own[0]}, and according to {system} the library kept {kept[0]}; the two must agree"
            yield Hit(v, name, message, "warning")


def _out_of_range(c: Context, name: str) -> Iterator[Hit]:
    for v in c.with_attribute(name):
        value = v.numbers(name)
        largest = _LARGEST[name].get(v.dtype.itemsize) if v.kind == "float" else None
        if value is None or value.dtype.kind not in "iu" or value.size != 1 or largest is None:
            continue
        if not 1 <= int(value[0]) <= largest:
            yield Hit(v, name, f"it is {value[0]}; expected 1 to {largest} for {v.dtype.name}")


shared(_out_of_range, QNT006="quantization_nsb", QNT007="quantization_nsd")


@rule("QNT008", each="quantization")
def coordinates_are_not_quantized(c: Context, v: Variable) -> Iterator[str]:
    """Coordinates, terms of formulas and cell measures are not quantized."""
    what = None
    if v.is_coordinate:
        what = "a coordinate variable"
    else:
        for attribute in ("coordinates", "formula_terms", "cell_measures"):
            by = next((r.source for r in c.references_to(v, attribute) if r.source is not v), None)
            if by is not None:
                what = f"named by {attribute} of {by.path!r}"
                break
    if what is not None:
        yield (f"the variable is {what} and must keep all its digits: store it unquantized")


@rule("QNT009", each=_containers)
def implementation_tells_name_and_version(_: Context, v: Variable) -> Iterator[Hit]:
    """``implementation`` reads ``name version number``, optionally with more in parentheses."""
    text = v.text("implementation")
    if text is not None and not _tells_version(text):
        message = "expected 'name version number', such as 'libnetcdf version 4.9.2', and more only in parentheses"
        yield Hit(v, "implementation", f"it is {text[:80]!r}; {message}")


def _tells_version(text: str) -> bool:
    words = text.split()
    at = next((n for n, word in enumerate(words) if word.lower() == "version" and n > 0), None)
    if at is None or at + 1 >= len(words):
        return False
    rest = " ".join(words[at + 2 :])
    return not rest or (rest.startswith("(") and rest.endswith(")"))
