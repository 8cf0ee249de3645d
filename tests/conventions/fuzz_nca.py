"""Mutations of ``nca_array`` texts, and what the parser makes of any text."""

import json
import random
import warnings

from cfagg.conventions import nca, nca_write
from cfagg.errors import CfaggError, RepairWarning

KEYS = [
    *("directions", "pdimensions", "pshape", "Partitions", "index", "location", "dimensions", "format", "units"),
    *(
        "calendar",
        "part",
        "data",
        "shape",
        "file",
        "dtype",
        "ncvar",
        "file_offset",
        "lbpack",
        "scale_factor",
        "add_offset",
    ),
    *("time", "lat", "punits", "colour"),
]
SIZES = {"time": 4, "lat": 6, "height": 1}
_TOKENS = [
    *"{}[]:,\"'\\",
    *(
        "null",
        "true",
        "false",
        "1e400",
        "-1",
        "0",
        "1",
        "2.0",
        "NaN",
        "-Infinity",
        "1" + "0" * 30,
        "[]",
        "{}",
        "\\u0000",
    ),
    *("\\ud800", "\ud800", "\0", "\ufeff", "\n", "été", "[(0, 2, 1), (0, 6, 1)]", "(5,-1,-1)", "9" * 5000, "[" * 2000),
    *(f'"{key}"' for key in KEYS),
]


def _seeds():
    """Good texts that together hold every key."""
    whole = {
        "directions": {"time": True, "lat": False},
        "pdimensions": ["lat", "time"],
        "pshape": [2, 1],
        "Partitions": [
            {
                "index": [0, 0],
                "location": [[0, 4], [0, 2]],
                "dimensions": ["lat", "height", "time"],
                "format": "PP",
                "directions": {"lat": True, "height": True},
                "units": "degC",
                "calendar": "noleap",
                "part": "[(1, 5, 2), [0], (3, -1, -1)]",
                "data": {
                    "shape": [5, 1, 4],
                    "file": "a.pp",
                    "dtype": "double",
                    "file_offset": 10,
                    "lbpack": 1,
                    "scale_factor": 2.0,
                    "add_offset": -1,
                },
            },
            {"index": [1, 0], "location": [[0, 4], [2, 6]], "data": {"shape": [4, 4], "ncvar": "v"}},
        ],
    }
    text = json.dumps(whole)
    return [text, text.replace('"', "'"), json.dumps(whole, indent=1), text.replace('"time": true', '"time", true')]


def mutations(count, seed):
    """Yield `count` texts, each a good one with one to six changes of characters, tokens, or pieces."""
    rng = random.Random(seed)
    seeds = _seeds()
    for _ in range(count):
        text = rng.choice(seeds)
        for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
            i = rng.randrange(len(text) + 1)
            j = min(len(text), i + rng.choice([0, 1, 1, 2, 5, 40]))
            kind = rng.randrange(7)
            if kind == 0:
                piece = ""
            elif kind == 1:
                piece = rng.choice(_TOKENS)
            elif kind == 2:
                piece = chr(rng.choice([rng.randrange(128), rng.randrange(0x110000)]))
            elif kind == 3:
                piece = text[i:j] * 2
            elif kind == 4:
                k = rng.randrange(len(text) + 1)
                piece = text[k : k + rng.randrange(60)]
            elif kind == 5:  # one digit
                digits = [k for k, c in enumerate(text) if c.isdigit()]
                i = rng.choice(digits or [0])
                j, piece = i + 1, rng.choice(["0", "1", "-2", "9", "1.0", "true", "99999999999999999999"])
            else:  # one quoted word
                words = text.split('"')
                k = rng.randrange(len(words))
                words[k] = rng.choice(KEYS)
                text, piece, i, j = '"'.join(words), "", 0, 0
            text = text[:i] + piece + text[j:]
        yield text


def outcome(text):
    """Return "read" or "refused"; anything but an error of cfagg passes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RepairWarning)
        try:
            aggregation = nca.parse("v", {"nca_array": text, "nca_dimensions": "time lat"}, "f4", SIZES)
        except CfaggError as error:
            str(error)
            return "refused"
        written = nca_write.write(aggregation)
        again = nca.parse("v", written, "f4", SIZES)
    if again != aggregation or nca_write.write(again) != written:
        return "changed by a round trip"
    return "read"
