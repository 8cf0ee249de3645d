"""The contents of ``units``: CF section 3.1, with 4.1, 4.2 and 4.4.1 on coordinates that must have units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.kinds_of_units import convertible, is_dimensionless, is_logarithmic, known, meaning, split_reference
from cfagg.cf.roles import LEVEL_UNITS
from cfagg.checking.canonical import expected_units, is_cell
from cfagg.checking.context import Context, variables
from cfagg.checking.rules.calendars import invalid_references
from cfagg.checking.times import TIME_NAMES, time_like
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: Volume fractions that CF lists as units of UDUNITS.
_FRACTIONS = re.compile(r"(?<![A-Za-z])pp[mbtq]?v(?![A-Za-z])")

#: Common spellings of the unit of a pure number.
_NUMBERS = frozenset(
    {
        "-", "--", "none", "n/a", "na", "unitless", "dimensionless", "no units", "no unit", "nondimensional",
        "non-dimensional", "fraction", "ratio", "psu", "pss", "pss-78", "pss78", "proportion", "flag", "index", "code",
        "number", "numeric", "probability", "0-1", "boolean", "bool",
    }
)  # fmt: skip

#: Units by common other spellings, in lower case without blanks, dots and underscores.
_SPELLINGS = {
    **dict.fromkeys(("e", "dege", "degreee", "degreese", "degeast", "degreeeast", "degreeseast", "°e"), "degrees_east"),
    **dict.fromkeys(
        ("n", "degn", "degreen", "degreesn", "degnorth", "degreenorth", "degreesnorth", "°n"), "degrees_north"
    ),
    **dict.fromkeys(("degc", "degsc", "degreec", "degreesc", "degcelsius", "degreecelsius", "degreescelsius"), "degC"),
    **dict.fromkeys(("degf", "degsf", "degreef", "degreesf", "degreefahrenheit", "degreesfahrenheit"), "degF"),
    **dict.fromkeys(("degk", "degreek", "degreesk", "degkelvin", "degreekelvin", "degreeskelvin", "kelvins"), "K"),
}

#: Units of angles, which UDUNITS treats as pure numbers.
_ANGLE = re.compile(r"\b(?:degrees?\w*|rad(?:ian)?s?|sr|steradians?)\b")

#: Parts of units: a name with its power, a power after a bracket, a number on its own.
_PARTS = re.compile(
    r"""
    (?P<name>(?:[^\W\d]|[°%'"])\w*(?:[-+]\d+)?(?:\s*(?:\^|\*\*)\s*[-+]?\d+)?[²³¹]*)
  | \)\s*(?:\^|\*\*)?\s*[-+]?\d+
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s*(?:\^|\*\*)\s*[-+]?\d+)?)
    """,
    re.VERBOSE,
)


@rule("UNI001", each=variables)
def dimensional_quantities_have_units(c: Context, v: Variable) -> Iterator[Hit]:
    """A quantity that is not a pure number has units."""
    if "units" in v.attributes or is_cell(c, v) or v in c.roles.domains:
        return
    expected = expected_units(c, v)
    name = v.words("standard_name")[0] if expected is not None else ""
    angle = bool(expected and _ANGLE.search(expected))
    if angle and name in ("latitude", "longitude"):
        wanted = "degrees_north" if name == "latitude" else "degrees_east"
        yield Hit(v, "units", f"{name} has no units; add units such as {wanted!r}").mended(wanted)
    elif expected and not (known(expected) and is_dimensionless(expected)):
        yield Hit(v, "units", f"{name} has no units; the standard name calls for units that convert to {expected!r}")
    elif angle:
        message = (
            f"{name} has no units, its canonical unit is {expected!r}: without units an angle may be read as "
            "radians; add them"
        )
        yield Hit(v, "units", message, severity="warning")
    elif expected is None and (v.text("axis") or "").strip().upper() == "T" and v.is_coordinate and v.is_numeric:
        yield Hit(v, "units", "a time coordinate has no units; expected e.g. 'days since 2000-01-01'")


@rule("UNI002", each=variables)
def units_are_known(c: Context, v: Variable) -> Iterator[Hit]:
    """``units`` is a string that UDUNITS recognizes, or one of the three names of levels."""
    if "units" not in v.attributes:
        return
    value = v.attributes["units"]
    if isinstance(value, str):
        message = _unknown(c, v, value)
        if message is not None:
            number = value.strip().lower() in _NUMBERS
            yield Hit(v, "units", message, fix=(Edit(v.path, "units", "1", safe=False),) if number else ())
    elif isinstance(value, bytes):
        # Text that is not UTF-8 is a separate error since CF 1.12.
        if c.version < Version(1, 12) and not known(value.decode("latin-1")):
            yield Hit(v, "units", f"units {value.decode('latin-1')!r} are not known to UDUNITS")
    elif not isinstance(value, tuple) or c.version < Version(1, 12):
        yield Hit(v, "units", f"units are {_kind(value)}; expected text such as '1' or 'm s-1'")


def _unknown(c: Context, v: Variable, units: str) -> str | None:
    """Return the error in the text of units, or `None`."""
    text = units.strip()
    if known(text) or text in LEVEL_UNITS or _FRACTIONS.fullmatch(text):
        return None
    reference = split_reference(text)
    if reference is not None and not known(reference[0]):
        reference = None  # such as "mins since", which libraries read
    if reference is not None and v in time_like(c):
        if c.version >= Version(1, 13):
            return None  # the rules on reference times are more specific
        if not reference[2]:
            return None  # TIM001
        if v in invalid_references(c):
            return None  # TIM012
    if is_cell(c, v) and any(r.source.text("units") == units for r in c.references_to(v, "bounds", "climatology")):
        return None  # reported once, for the parent
    if text and text == expected_units(c, v):
        return None  # the standard name table itself has such units, for example dB
    shown = units if len(units) <= 80 else units[:77] + "..."
    if reference is not None:
        return (
            f"units {shown!r} are not known to UDUNITS: {reference[2]!r} is not a datetime such as 2000-01-01 00:00:00"
        )
    if text.lower() in _NUMBERS:
        return f"units {shown!r} are not known to UDUNITS; a pure number has the units '1'"
    if re.fullmatch(r"dB\w*|decibels?", text):
        return f"units {shown!r} are not known to UDUNITS, which writes levels such as '0.1 lg(re 1 mW)'"
    meant = _meant(c, v, text)
    return f"units {shown!r} are not known to UDUNITS" + (f"; write {meant!r}" if meant is not None else "")


def _meant(c: Context, v: Variable, text: str) -> str | None:
    """Return the units that are probably intended, or `None` if no guess is safe."""
    expected = expected_units(c, v)
    spelled = _SPELLINGS.get(re.sub(r"[\s_.]", "", text.lower()))
    candidates = [spelled, text.lower(), text.replace("**", "^"), text.replace("_", " ")]
    for candidate in candidates:
        if candidate is None or candidate == text or not known(candidate):
            continue
        if expected is not None and known(expected):
            if convertible(candidate, expected):
                return candidate
        # A short symbol in lower case may be another unit: 'E' is not 'e', the charge of an electron.
        elif candidate != text.lower() or all(len(word) > 3 for word in re.findall(r"[A-Za-z]+", text)):
            return candidate
    return None


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} texts"
    shown = repr(value.tolist()) if hasattr(value, "tolist") else str(value)
    return f"not text but {shown if len(shown) <= 60 else shown[:57] + '...'}"


@rule("UNI003", each="units")
def named_fractions_have_plain_units(_: Context, v: Variable) -> Iterator[str]:
    """Units of volume fractions such as ``ppmv`` are not used together with a standard name."""
    found = _FRACTIONS.search(v.text("units") or "")
    if found and "standard_name" in v.attributes:
        yield (
            f"{found[0]!r} in units of a variable with a standard_name, which already says what it is a fraction "
            f"of; write {found[0].replace('v', '') if found[0] != 'ppv' else '1'!r}"
        )


@rule("UNI005", each="standard_name")
def units_fit_the_standard_name(c: Context, v: Variable) -> Iterator[Hit]:
    """Units are convertible to the canonical ones of the standard name after modifier and cell methods."""
    units = v.text("units")
    expected = expected_units(c, v) if units is not None else None
    if units is None or expected is None or is_cell(c, v):
        return
    units = units.strip()
    if not expected:
        if meaning(units) is not None and not is_dimensionless(units):
            yield Hit(v, "units", f"units are {units!r}, but {v.text('standard_name')!r} has none: delete them")
        return
    if units in LEVEL_UNITS:
        if not is_dimensionless(expected):
            yield Hit(v, "units", f"units {units!r} cannot be converted to {expected!r}{_why(v, expected)}")
        return
    reference = split_reference(units)
    if reference is not None:
        units, name = reference[0], v.words("standard_name")[0]
        # Names such as time_of_maximum_flood_depth may be of instants too.
        if name not in TIME_NAMES and not name.startswith("time_") and convertible(units, expected):
            message = f"units {v.text('units')!r} are of instants, but {name} is a length of time; expected {units!r}"
            yield Hit(v, "units", message)
            return
    if not known(units) or units == expected or convertible(units, expected):
        return
    if not known(expected) and is_logarithmic(units):
        return
    if v.words("standard_name") == ["ocean_sigma_z_coordinate"] and convertible(units, "m"):
        return  # Appendix D requires a length, the table of names a pure number
    hint = "; to UDUNITS mb is a millibarn, an area: write mbar" if units == "mb" else ""
    levels = is_logarithmic(units) != is_logarithmic(expected) and known(expected)
    if levels and _same_quantity(units, expected):
        message = (
            f"units {v.text('units')!r} convert to {expected!r}{_why(v, expected)} only through a logarithm; by CF "
            "section 3.1 only a factor and an offset are allowed, while UDUNITS takes both for convertible"
        )
        yield Hit(v, "units", message, severity="warning")
    else:
        found = v.text("units")
        yield Hit(v, "units", f"units {found!r} cannot be converted to {expected!r}{_why(v, expected)}{hint}")


def _same_quantity(a: str, b: str) -> bool:
    one, other = meaning(a), meaning(b)
    return one is not None and other is not None and one.dimension == other.dimension


def _why(v: Variable, expected: str) -> str:
    """Return where the expected units come from."""
    changed = " after its modifier and cell_methods" if len(v.words("standard_name")) > 1 or "^" in expected else ""
    return f", the units of standard_name {v.text('standard_name')!r}{changed}"


@rule("UNI009", each="units")
def levels_have_no_units(_: Context, v: Variable) -> Iterator[Hit]:
    """The deprecated units ``level``, ``layer`` and ``sigma_level`` are not used."""
    text = (v.text("units") or "").strip()
    if text in LEVEL_UNITS:
        message = f"units {text!r} are deprecated; a vertical coordinate without dimension needs no units, or '1'"
        yield Hit(v, "units", message).mended("1")


@rule("UNI011", each="units")
def units_have_no_numbers(_: Context, v: Variable) -> Iterator[Hit | str]:
    """There is no number as a factor or offset of a named unit, except in a reference time."""
    text = (v.text("units") or "").strip()
    if not any(ch.isdigit() for ch in text) or not known(text) or split_reference(text) is not None:
        return
    parts = list(_PARTS.finditer(text))
    numbers = [m["number"] for m in parts if m["number"]]
    if not numbers or not any(m["name"] for m in parts):
        return
    if is_logarithmic(text):
        message = (
            f"units {text!r} hold the number {numbers[0]} in a reference level; whether the text on factors "
            "includes these is unclear"
        )
        yield Hit(v, "units", message, severity="warning")
    else:
        yield (
            f"units {text!r} hold the number {numbers[0]} next to a named unit; use a prefix or power, or "
            "scale_factor and add_offset"
        )
