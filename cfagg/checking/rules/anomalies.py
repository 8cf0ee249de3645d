"""Anomaly data and their norms: CF section 7.5."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.cell_methods import CellMethods
from cfagg.checking.anomalies import Anomaly, anomalies, coordinates_of, covered, selectors, standard_name, unnamed
from cfagg.checking.context import Context, once
from cfagg.checking.missing import missing_mask, unsigned
from cfagg.checking.rules.cell_methods import methods
from cfagg.checking.times import time_like
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("ANO001", each=methods)
def norm_is_an_ancillary_variable(c: Context, v: Variable, parsed: CellMethods) -> Iterator[Hit]:
    """The name after anomaly_wrt is a variable of the dataset, and ancillary_variables names it."""
    for entry in parsed.entries:
        if not entry.is_anomaly:
            continue
        if entry.norm is None:
            yield Hit(v, "cell_methods", "no norm follows 'anomaly_wrt'; expected the name of a variable")
            continue
        norm, _ = c.resolver.variable(entry.norm, v.group)
        if norm is None or norm is v:
            which = "is the data variable itself" if norm is v else "is not a variable of the dataset"
            yield Hit(v, "cell_methods", f"the norm {entry.norm!r} {which}; name the variable of the norm")
        elif not any(r.target is norm for r in c.references_of(v, "ancillary_variables")):
            yield Hit(
                v, "ancillary_variables", f"the norm {entry.norm!r} is not named by ancillary_variables; add it there"
            )


@rule("ANO002", each=anomalies)
def anomaly_axes_have_standard_names(c: Context, a: Anomaly) -> Iterator[Hit]:
    """The coordinates along which an anomaly was taken have a standard name."""
    for name in unnamed(c, a):
        message = (
            f"{name!r} before 'anomaly_wrt' is not a coordinate of {a.data.path!r}; expected one with a standard_name"
        )
        yield Hit(a.data, "cell_methods", message)
    for x in a.axes:
        if not standard_name(x):
            yield Hit(x, "standard_name", f"anomalies of {a.data.path!r} are along this coordinate; add standard_name")


@rule("ANO003", each=anomalies)
def anomaly_and_norm_have_one_standard_name(_: Context, a: Anomaly) -> Iterator[Hit]:
    """Data and norm have the same standard name, and not one of anomalies."""
    names = {v: standard_name(v) for v in (a.data, a.norm)}
    ending = [v for v, name in names.items() if name.endswith("_anomaly")]
    for v in ending:
        message = f"standard_name is {names[v]!r}; with 'anomaly_wrt' it must be that of the quantity itself"
        yield Hit(v, "standard_name", message)
    if not ending and all(names.values()) and names[a.data] != names[a.norm]:
        message = (
            f"standard_name is {names[a.norm]!r}, that of the anomalies {a.data.path!r} is {names[a.data]!r}; they "
            "must be the same"
        )
        yield Hit(a.norm, "standard_name", message)


@rule("ANO004", each=anomalies)
def norm_has_not_the_anomaly_axes(_: Context, a: Anomaly) -> Iterator[Hit]:
    """The coordinates along which an anomaly was taken are not those of the norm, except for a selected climatology."""
    if a.selecting:
        return
    shared = [x.name for x in a.axes if x.name in a.norm.dims or x in a.scalar_in_norm]
    if shared:
        message = (
            f"the norm of {a.data.path!r} has the coordinate {', '.join(shared)} along which the anomalies were "
            "taken; it must have one of its own"
        )
        yield Hit(a.norm, None, message)


@rule("ANO005", each=anomalies)
def norm_has_coordinates_of_one_of_three_kinds(c: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm has all other coordinates of the data, or none, or only the time of the data."""
    if a.case == 0 and not unnamed(c, a):
        yield Hit(
            a.norm, None, f"the coordinates of the norm of {a.data.path!r} fit none of the three cases: {_why(a)}"
        )


def _why(a: Anomaly) -> str:
    if a.selecting:
        return _not_alone(a)
    return (
        f"it shares {_list(a.shared)} with the data and lacks {_list(a.lacking)}; it must have all of these, or none "
        "if it only describes the norm"
    )


def _not_alone(a: Anomaly) -> str:
    if a.scalar_in_norm:
        return f"a norm that selects times of a climatology has no scalar coordinates, not {_list(a.scalar_in_norm)}"
    return (
        f"a norm that selects times of a climatology must have the time of the anomalies as its only dimension, it has "
        f"({', '.join(a.norm.dims)})"
    )


def _list(variables: list[Variable]) -> str:
    return ", ".join(v.name for v in variables)


@rule("ANO006", each=anomalies)
def norm_data_have_all_other_coordinates(c: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm that is data has all coordinates of the anomalies except those along which they were taken."""
    if a.case == 0 and not a.selecting and a.is_data and not unnamed(c, a):
        yield Hit(a.norm, None, f"the norm of {a.data.path!r} lacks its coordinates {_list(a.lacking)}; add them")


@rule("ANO007", each=anomalies)
def norm_description_has_no_other_coordinates(c: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm that is only described has none of the coordinates of the anomalies."""
    if a.case == 0 and not a.selecting and not a.is_data and not unnamed(c, a):
        yield Hit(a.norm, None, f"the norm of {a.data.path!r} has its coordinates {_list(a.shared)}; remove them")
    elif a.case == 2 and "_FillValue" not in a.norm.attributes:
        message = (
            f"the norm of {a.data.path!r} only describes how it was taken, and has no _FillValue; add it, and "
            "let its value be missing (section 7.5.2, not in the conformance document)"
        )
        yield Hit(a.norm, "_FillValue", message, "warning")


@rule("ANO008", each=anomalies)
def norm_of_a_climatology_has_only_the_time(_: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm that selects times of a climatology has only the time of the anomalies."""
    if a.case == 0 and a.selecting:
        yield Hit(a.norm, None, _not_alone(a))


@rule("ANO009", each=anomalies)
def norm_has_cells_of_its_own(c: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm has, for each axis of the anomalies, a single coordinate of that standard name with bounds."""
    if a.selecting:
        return
    for x in a.axes:
        name = standard_name(x)
        partner = a.partners.get(x)
        if not name or x.name in a.norm.dims:
            continue  # ANO002, ANO004
        if partner is None:
            message = (
                f"the norm of {a.data.path!r} has no single coordinate with the standard_name {name!r}; add one, "
                "scalar or of size one, whose bounds say over what the norm was taken"
            )
            yield Hit(a.norm, None, message)
        elif not {"bounds", "climatology"} & partner.attributes.keys():
            message = (
                f"the norm {a.norm.path!r} was taken over this coordinate, which has no bounds and no climatology; "
                "add one of them"
            )
            yield Hit(partner, "bounds", message)
        else:
            yield from _doubts(c, a, partner)


def _doubts(c: Context, a: Anomaly, partner: Variable) -> Iterator[Hit]:
    """Yield violations of section 7.5 by a coordinate of the norm that the conformance document does not list."""
    if partner not in coordinates_of(c, a.data):
        message = (
            f"{partner.name!r}, over which the norm {a.norm.path!r} was taken, is not a coordinate of the anomalies; "
            "add it (section 7.5, not in the conformance document)"
        )
        yield Hit(a.data, "coordinates", message, "warning")
    said = _said(c, a.norm)
    within = said is not None and any(e.within and partner in covered(c, a.norm, [e]) for e in said.entries)
    if within and "climatology" not in partner.attributes:
        message = (
            f"the norm {a.norm.path!r} is a climatology by its cell_methods, and this time has bounds; rename the "
            "attribute to climatology (section 7.5, not in the conformance document)"
        )
        yield Hit(partner, "climatology", message, "warning")


@once
def _all_said(c: Context) -> dict[Variable, CellMethods]:
    return dict(methods(c))


def _said(c: Context, v: Variable) -> CellMethods | None:
    """Return the cell methods of a variable, with names in place of paths."""
    return _all_said(c).get(v)


@rule("ANO010", each=anomalies)
def norm_says_how_it_was_taken(c: Context, a: Anomaly) -> Iterator[Hit]:
    """The cell methods of a norm have an entry for its own coordinates."""
    if a.selecting:
        return
    said = _said(c, a.norm)
    own = set(a.partners.values())
    if said is None:
        message = (
            f"the norm of {a.data.path!r} has no cell_methods; expected an entry such as "
            f"'{': '.join(n.name for n in a.partners.values()) or 'time'}: mean'"
        )
        yield Hit(a.norm, "cell_methods", message)
    elif own and not said.problems and not any(own <= covered(c, a.norm, [e]) for e in said.entries):
        yield Hit(a.norm, "cell_methods", f"cell_methods has no entry for {_list(list(a.partners.values()))} together")


@rule("ANO011", each=anomalies)
def norm_of_a_climatology_says_within_and_over(c: Context, a: Anomaly) -> Iterator[Hit]:
    """The cell methods of a norm that selects times of a climatology have entries with within and over."""
    if not a.selecting:
        return
    said = _said(c, a.norm)
    entries = list(said.entries) if said is not None else []
    if _selects(c, a):
        entries = [e for e in entries if _climatological(c, a, e.names)]
    if not {"within", "over"} <= {e.within for e in entries}:
        message = (
            "cell_methods has no entries with within and over for the time of the climatology; expected for "
            "instance 'time: mean within years time: mean over years'"
        )
        yield Hit(a.norm, "cell_methods", message)


def _selects(c: Context, a: Anomaly) -> bool:
    """Whether the times that a norm selects from are known; if not, ANO013 reports it."""
    found = [_selected(c, s) for s in selectors(c, a.norm)]
    return bool(found) and None not in found


def _selected(c: Context, s: Variable) -> Variable | None:
    """Return the time coordinate variable that a coordinate selects from."""
    words = s.words("select")
    target = c.resolver.variable(words[0], s.group)[0] if len(words) == 1 else None
    return target if target is not None and target.is_coordinate and target in time_like(c) else None


def _climatological(c: Context, a: Anomaly, names: tuple[str, ...]) -> bool:
    """Whether the names are the dimension of the norm, the times that it selects from, or time itself."""
    selected = {_selected(c, s) for s in selectors(c, a.norm)} - {None}
    return all(n in a.norm.dims or n == "time" or c.resolver.variable(n, a.norm.group)[0] in selected for n in names)


@rule("ANO012", each=anomalies)
def described_norm_says_nothing_else(c: Context, a: Anomaly) -> Iterator[Hit]:
    """The cell methods of a norm that is only described have no further entries."""
    said = _said(c, a.norm)
    if said is None or said.problems or a.case not in (2, 3):
        return
    if a.case == 3:
        if not _selects(c, a):
            return  # ANO013
        both = {"within", "over"} <= {e.within for e in said.entries}
        further = [e for e in said.entries if not _climatological(c, a, e.names) or (both and e.within is None)]
    else:
        own = set(a.partners.values())
        further = [e for e in said.entries if not covered(c, a.norm, [e]) & own] if own else []
        about = [e for e in said.entries if e not in further]
        if len(about) > 1 and not all(e.within for e in about):
            further = further or about[1:]
    for entry in further:
        message = (
            f"the entry '{': '.join(entry.names)}: {entry.method}' is not about the coordinates of the norm; delete it"
        )
        yield Hit(a.norm, "cell_methods", message)


@rule("ANO013", each=anomalies)
def norm_of_a_climatology_selects_its_times(c: Context, a: Anomaly) -> Iterator[Hit]:
    """A norm of a climatology has an integer coordinate that selects existing times of it."""
    if not a.selecting:
        return
    found = selectors(c, a.norm)
    if not found:
        message = (
            "the norm has the time of the anomalies and no auxiliary coordinate with the attribute select; add one "
            "that holds the indices of the times of the climatology"
        )
        yield Hit(a.norm, "coordinates", message)
    for s in found:
        yield from _selector(c, s)


def _selector(c: Context, s: Variable) -> Iterator[Hit]:
    """Yield the errors of a coordinate that selects times."""
    if s.kind != "integer":
        yield Hit(s, None, f"a coordinate with select is of type {s.dtype.name}; expected integers")
        return
    target = _selected(c, s)
    if target is None:
        yield Hit(
            s, "select", f"select is {s.attributes['select']!r:.80}; expected the name of a time coordinate variable"
        )
        return
    if "climatology" not in target.attributes:
        bounded = "bounds" in target.attributes
        message = f"{s.path!r} selects from these times, which have no climatology" + (
            "; the conformance document asks for it, the example of section 7.5.2 has bounds" if bounded else ""
        )
        yield Hit(target, "climatology", message, "warning" if bounded else None)
    if c.options.data and s.dialect is None:
        size = target.dimensions[0].size
        for block in s.blocks():
            values = unsigned(s, block)[~missing_mask(s, block)]
            bad = values[(values < 0) | (values >= size)]
            if bad.size:
                yield Hit(
                    s, None, f"there is the index {bad.ravel()[0]}; expected 0 to {size - 1}, as {target.path!r} has"
                )
                break
