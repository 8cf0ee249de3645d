"""A format of text, and of numbers behind it.

Its first line is ``TOY1``.  Each line after it is a variable of one dimension: its name and units, then either its
numbers, or its size, the size of a chunk, and where its chunks stand, as ``@offset+bytes``: zlib of 8-byte reals, or
``-`` where a chunk was never written.  An empty line ends the text.
"""

import numpy as np

from cfagg.errors import SourceError
from cfagg.model import Grid
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.model.dataset import Dataset, Group, Variable

#: 8-byte reals behind zlib, which is filter number 1 of those that The HDF Group registers.
PACKED = Encoding(np.dtype("<f8"), ((1, ()),), fill=np.nan)


class Toy:
    """What cfagg asks of a format."""

    name = "toy"

    def recognise(self, head, path):  # noqa: ARG002
        """Tell whether a file is of this format."""
        return head.startswith(b"TOY1\n")

    def open(self, handle):
        """Return the description of a file."""
        root = Group()
        text = handle.exactly(handle.key.size, 0).partition(b"\n\n")[0].decode()
        for line in text.splitlines()[1:]:
            name, units, *numbers = line.split()
            if not numbers:
                raise SourceError(f"{handle.key.path}: variable {name!r} has no values; write the line again")
            if any(n.startswith("@") for n in numbers):
                size, chunk, *places = numbers
                variable = self.variable(root, name, units, int(size))
                variable.chunks = lambda size=size, chunk=chunk, places=places: table(int(size), int(chunk), places)
            else:
                values = np.array(numbers, "f8")
                variable = self.variable(root, name, units, len(values))
                variable.read = values.__getitem__
        return Dataset(handle.key.path, self.name, root)

    def variable(self, root, name, units, size):
        """Add a variable without values."""
        dimension = root.add_dimension(name, size)
        root.variables[name] = Variable(name, root, (dimension,), np.dtype("f8"), "float", {"units": units})
        return root.variables[name]


def table(size, chunk, places):
    """Return where the chunks of a variable stand."""
    cells = [i for i, place in enumerate(places) if place != "-"]
    offset, length = zip(*(map(int, places[i][1:].split("+")) for i in cells), strict=True)
    return ChunkTable(Grid.regular((size,), (chunk,)), PACKED, cells, offset, length)


toy = Toy()
