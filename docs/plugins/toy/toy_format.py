"""A format of text: a first line ``TOY1``, then one line of numbers for each variable, behind its name and units."""

import numpy as np

from cfagg.errors import SourceError
from cfagg.model.dataset import Dataset, Group, Variable


class Toy:
    """What cfagg asks of a format."""

    name = "toy"

    def recognise(self, head, path):  # noqa: ARG002
        """Tell whether a file is of this format."""
        return head.startswith(b"TOY1\n")

    def open(self, handle):
        """Return the description of a file."""
        root = Group()
        for line in handle.exactly(handle.key.size, 0).decode().splitlines()[1:]:
            name, units, *numbers = line.split()
            if not numbers:
                raise SourceError(f"{handle.key.path}: variable {name!r} has no values; write the line again")
            values = np.array(numbers, "f8")
            dimension = root.add_dimension(name, len(values))
            root.variables[name] = Variable(
                name, root, (dimension,), values.dtype, "float", {"units": units}, read=values.__getitem__
            )
        return Dataset(handle.key.path, self.name, root)


toy = Toy()
