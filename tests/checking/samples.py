"""Small datasets in CDL for tests of what is told about a check."""

from __future__ import annotations

from pathlib import Path

CLEAN = """
netcdf clean {
dimensions:
  station = 2 ;
variables:
  float height(station) ;
    height:long_name = "height of the station above sea level" ;
    height:units = "m" ;
:Conventions = "CF-1.13" ;
}
"""

#: An error (DOC006) of `twice`, a warning (DOC004) of `2m`, and an error (UNI002) of `2m`.
BROKEN = """
netcdf broken {
dimensions:
  x = 2 ;
variables:
  float twice(x, x) ;
    twice:long_name = "covariance" ;
    twice:units = "1" ;
  float 2m(x) ;
    2m:long_name = "temperature at 2 m" ;
    2m:units = "<b>hot</b>" ;
:Conventions = "CF-1.8" ;
}
"""

#: Only a warning (DOC004).
UNTIDY = """
netcdf untidy {
dimensions:
  x = 2 ;
variables:
  float 2m(x) ;
    2m:long_name = "temperature at 2 m" ;
    2m:units = "K" ;
:Conventions = "CF-1.8" ;
}
"""


def written(folder: Path, **texts: str) -> dict[str, str]:
    """Write each text as a file of that name in `folder`, and return their paths."""
    paths = {}
    for name, text in texts.items():
        path = folder / f"{name}.cdl"
        path.write_text(text, encoding="utf-8")
        paths[name] = str(path)
    return paths
