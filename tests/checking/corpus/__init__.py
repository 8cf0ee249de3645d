"""Clean datasets, one for each feature of the CF conventions, and the same datasets with one defect each."""

from __future__ import annotations

from tests.checking.corpus import anomalies, chapter2, chapter3, chapter5, chapter7, chapter8, clean, features

__all__ = ["CLEAN", "DOCUMENT"]

#: Datasets after the examples of the CF conventions; the key starts with the number of the example or section.
DOCUMENT: dict[str, str] = {
    **chapter2.EXAMPLES,
    **chapter3.EXAMPLES,
    **chapter5.EXAMPLES,
    **chapter7.EXAMPLES,
    **anomalies.EXAMPLES,
    **chapter8.EXAMPLES,
    **features.EXAMPLES,
}

#: All datasets that have no defect.
CLEAN: dict[str, str] = {**DOCUMENT, **clean.EXAMPLES}
