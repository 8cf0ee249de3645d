"""The exception hierarchy."""

import inspect
import pickle

import pytest

from cfagg import errors

CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.CfaggError)]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_listed_and_drawn_in_the_docstring(cls):
    assert cls.__name__ in errors.__all__
    assert cls.__name__ in errors.__doc__


@pytest.mark.parametrize("cls", [c for c in CLASSES if c is not errors.CfaggError])
def test_every_error_is_also_the_builtin_drawn_beside_it(cls):
    line = next((x for x in errors.__doc__.splitlines() if f" {cls.__name__} " in x and "(" in x), None)
    if line is None:  # drawn below ConformError
        assert issubclass(cls, errors.ConformError)
    else:
        builtin = line.split("(")[1].split(")")[0]
        assert any(base.__name__ == builtin for base in cls.__mro__)


@pytest.mark.parametrize("cls", [c for c in CLASSES if c is not errors.LossError])
def test_errors_survive_pickling_with_their_problems(cls):
    error = cls("no such thing", [errors.Problem("a[0]", "found 1")])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert copy.problems == error.problems
    assert str(copy) == "no such thing\n  - a[0]: found 1"


def test_long_lists_of_problems_are_cut_in_the_message_but_kept():
    error = errors.ConventionError("many", [errors.Problem(str(i), "bad") for i in range(50)])
    assert str(error).count("\n") == 21
    assert "and 30 more" in str(error)
    assert len(error.problems) == 50
