"""Rules of ACDD 1.3, the Attribute Convention for Data Discovery, for ``cfagg check``.

They are an example of a plug-in: install the package, and ``cfagg check`` runs them beside those of CF.  A dataset that
does not claim to follow ACDD is left alone.
"""

from collections.abc import Iterator
from functools import partial

from cfagg.findings import Context, Hit, NotApplicable, Rule, Version

LINK = "https://wiki.esipfed.org/Attribute_Convention_for_Data_Discovery_1-3"

#: Global attributes that ACDD recommends highly, and what they are for.
REQUIRED = {
    "title": "a short phrase that tells what the dataset is",
    "summary": "a paragraph that describes the dataset, as an abstract does a paper",
    "keywords": "words by which the dataset can be found, separated by commas",
}

CDL = """
netcdf stations {{
dimensions:
  station = 2 ;
variables:
  float height(station) ;
    height:long_name = "height of the station above sea level" ;
    height:units = "m" ;
:Conventions = "CF-1.13, ACDD-1.3" ;
{attributes}}}
"""


def has_attribute(c: Context, *, name: str, purpose: str) -> Iterator[Hit]:
    """A dataset that claims ACDD has the attribute, and it is text that is not empty."""
    if "ACDD" not in (c.dataset.root.text("Conventions") or ""):
        raise NotApplicable("the dataset does not claim to follow ACDD")
    if not (c.dataset.root.text(name) or "").strip():
        yield Hit(None, name, f"there is no global attribute {name}; expected is {purpose}: add it")


def cdl(*names: str) -> str:
    """Return an example with these attributes."""
    return CDL.format(attributes="".join(f':{n} = "heights of stations" ;\n' for n in names))


def rules() -> list[Rule]:
    """Return the rules; ``cfagg check`` finds this function by the entry point."""
    return [
        Rule(
            code=f"ACDD{number:03}",
            section="ACDD 1.3",
            title="Highly recommended attributes",
            severity="error",
            since=Version(1, 0),
            summary=f"a dataset that claims ACDD has the global attribute {name}",
            function=partial(has_attribute, name=name, purpose=purpose),
            link=LINK,
            explanation={
                "why": f"Catalogues show and search the {name}: it is {purpose}.",
                "fails": cdl(*(n for n in REQUIRED if n != name)),
                "passes": cdl(*REQUIRED),
            },
        )
        for number, (name, purpose) in enumerate(REQUIRED.items(), 1)
    ]
