"""Datasets as plain text, to be compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfagg.model.dataset import Dataset

__all__ = ["seen"]


def seen(dataset: Dataset, *, values: bool = False) -> list[str]:
    """Return a line for each group and variable with everything that the model tells of it."""
    lines = []
    for group in dataset.groups:
        dimensions = [(d.name, d.size, d.unlimited) for d in group.dimensions.values()]
        lines.append(f"{group.path} {dimensions} {_attributes(group.attributes)}")
        for v in group.variables.values():
            dims = [(d.path, d.size) for d in v.dimensions]
            line = f"{v.path} {dims} {v.dtype} {v.kind} {_attributes(v.attributes)}"
            if values and v.kind != "other":
                read = v.texts() if v.is_text else v.values()
                line += f" {read.shape} {read.ravel().tolist()}"
            lines.append(line)
    return lines


def _attributes(attributes: dict[str, Any]) -> list[Any]:
    return [
        (name, (str(value.dtype), value.tolist()) if isinstance(value, np.ndarray) else value)
        for name, value in attributes.items()
    ]
