"""The accessor ``.cfagg`` of xarray's Dataset: the report of an aggregation of many files.

It is registered by `cfagg.aggregate`, by `cfagg.read` and with the accessor of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from cfagg.errors import OptionError

if TYPE_CHECKING:
    from cfagg.aggregation.report import Report

__all__ = ["DatasetAccessor", "with_report"]

#: Where a dataset stores its report; xarray passes it on to selections.
_REPORT = "cfagg report"


class NoReportError(OptionError, AttributeError):
    """Raised for a dataset that was not aggregated from files."""


@xr.register_dataset_accessor("cfagg")  # type: ignore[no-untyped-call]
class DatasetAccessor:
    """The information that cfagg has about a dataset.

    Parameters
    ----------
    dataset : xarray.Dataset
        The dataset.

    Examples
    --------
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> print(cfagg.aggregate(sorted(sample("sst").glob("*.nc"))).cfagg.report.groups[0].rule)
    54 joined along time
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        found = self._dataset.encoding.get(_REPORT)
        return "<cfagg: no report>" if found is None else f"<cfagg: {found!r}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        found: Report | None = self._dataset.encoding.get(_REPORT)
        return facts_html(repr(self), ()) if found is None else found._repr_html_()

    @property
    def report(self) -> Report:
        """Which arrays were made of the files, how, and why others are separate; `.why(a, b)` explains any two files.

        Raises
        ------
        OptionError
            The dataset was not aggregated from files by `cfagg.aggregate`, or by `cfagg.read` of several.
        """
        found: Report | None = self._dataset.encoding.get(_REPORT)
        if found is None:
            raise NoReportError("this dataset has no report: it was not returned by cfagg.aggregate")
        return found


def with_report(dataset: xr.Dataset, report: Report) -> xr.Dataset:
    """Return a dataset with its report."""
    dataset.encoding[_REPORT] = report
    return dataset
