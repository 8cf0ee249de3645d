"""CDL texts put together from a few common axes and what is particular to a dataset."""

from __future__ import annotations

__all__ = ["AXES", "cdl"]

#: Axes that many datasets share: size, declaration and values.
AXES = {
    "time": (
        "2",
        """double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2001-01-01 00:00:00" ;
    time:calendar = "standard" ;
    time:axis = "T" ;""",
        "0.5, 1.5",
    ),
    "lev": (
        "3",
        """float lev(lev) ;
    lev:standard_name = "air_pressure" ;
    lev:units = "hPa" ;
    lev:positive = "down" ;
    lev:axis = "Z" ;""",
        "1000, 850, 500",
    ),
    "lat": (
        "3",
        """float lat(lat) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:axis = "Y" ;""",
        "-45, 0, 45",
    ),
    "lon": (
        "4",
        """float lon(lon) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:axis = "X" ;""",
        "0, 90, 180, 270",
    ),
    "y": (
        "2",
        """double y(y) ;
    y:standard_name = "projection_y_coordinate" ;
    y:units = "m" ;
    y:axis = "Y" ;""",
        "0, 1000",
    ),
    "x": (
        "3",
        """double x(x) ;
    x:standard_name = "projection_x_coordinate" ;
    x:units = "m" ;
    x:axis = "X" ;""",
        "0, 1000, 2000",
    ),
}


def cdl(
    dimensions: str, variables: str, data: str = "", *, attributes: str = "", groups: str = "", version: str = "CF-1.13"
) -> str:
    """Return a CDL text.

    Parameters
    ----------
    dimensions : str
        Names of `AXES`, and ``name=size`` for other dimensions, separated by blanks.
    variables, data : str
        Declarations with attributes, and values.
    attributes : str
        Attributes of the dataset beside ``Conventions``.
    groups : str
        Groups, whole.
    version : str
        What ``Conventions`` says.
    """
    sizes, declared, values = [], [], []
    for word in dimensions.split():
        if "=" in word:
            sizes.append("  {} = {} ;".format(*word.split("=")))
        else:
            size, declaration, numbers = AXES[word]
            sizes.append(f"  {word} = {size} ;")
            declared.append(f"  {declaration}")
            values.append(f"  {word} = {numbers} ;")
    lines = ["netcdf a {"]
    lines += ["dimensions:", *sizes] if sizes else []
    lines += ["variables:", *declared, variables.strip("\n")]
    lines += [f':Conventions = "{version}" ;'] if version else []
    lines += [attributes.strip("\n")] if attributes else []
    lines += ["data:", *values, data.strip("\n")] if values or data else []
    lines += [groups.strip("\n")] if groups else []
    return "\n".join([*lines, "}", ""])
