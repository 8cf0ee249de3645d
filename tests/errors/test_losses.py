"""Lists of losses for people."""

import pickle

from cfagg.errors import LossError
from cfagg.errors.losses import loss_lines
from cfagg.findings.losses import Loss


def test_a_reason_is_said_once_with_the_first_partitions_and_all_losses_stay_listed():
    losses = [Loss("tas", (i,), "packing", f"{i % 5}", "one packing each") for i in range(1200)]
    error = LossError("not written", [*losses, Loss("pr", (7,), "packing", "x", "one packing each")])
    assert len(error.losses) == 1201
    assert pickle.loads(pickle.dumps(error)).losses == error.losses
    assert str(error).splitlines() == [
        "not written",
        "  - variable 'tas', 1,200 partitions ([0], [1], [2], …): packing (0; 1; 2; …) is lost: one packing each",
        "  - variable 'pr', partition [7]: packing (x) is lost: one packing each",
    ]


def test_variables_with_one_reason_share_a_line():
    losses = [Loss(name, None, "attribute 'x'", "1", "it is no text") for name in "abcd"]
    assert loss_lines(losses) == [
        "4 variables ('a', 'b', 'c', …): attribute 'x' (1) is lost: it is no text",
    ]
    assert loss_lines(losses[:1]) == [str(losses[0])]
