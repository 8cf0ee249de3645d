"""The gate: who makes the token, for what it holds, and that nobody reads without it."""

from __future__ import annotations

import ast
import copy
import pickle

import pytest

from cfagg.errors import AccessError
from cfagg.storage.files import Context, open_regular
from cfagg.storage.gate import WHOLE, Checked, Reference, admit
from tests.test_layers import SOURCES, imports, name_of


@pytest.fixture
def handle(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"abc")
    with open_regular(str(tmp_path / "a.nc")) as handle:
        yield handle


def test_a_dataset_without_references_is_admitted(handle):
    checked = admit(handle, "g/tas", ())
    assert (checked.dataset, checked.handle) == ("g/tas", handle)


def test_a_dataset_with_a_reference_is_refused_and_the_message_names_it(handle):
    with pytest.raises(
        AccessError, match=r"partition 3: variable 'tas' of .*a\.nc .*external storage to '/etc/passwd'"
    ):
        admit(handle, "tas", [Reference("external storage", "/etc/passwd")], Context("partition 3"))


@pytest.mark.parametrize(("count", "listed", "more"), [(3, 3, ""), (4, 3, "; and 1 more"), (9, 3, "; and 6 more")])
def test_up_to_three_references_are_listed_and_the_others_counted(handle, count, listed, more):
    with pytest.raises(AccessError) as caught:
        admit(handle, "tas", [Reference("a link", f"{k}.nc") for k in range(count)])
    names = "; ".join(f"a link to '{k}.nc'" for k in range(listed))
    assert f"({names}{more});" in str(caught.value)


def test_a_file_as_a_whole_is_named_without_a_variable(handle):
    with pytest.raises(AccessError, match=rf"^{handle.key.path} takes its values"):
        admit(handle, WHOLE, [Reference("a link", "b.nc")])


def test_what_is_not_known_is_refused(handle):
    with pytest.raises(AccessError, match="it is unclear whether"):
        admit(handle, "tas", None)


@pytest.mark.parametrize("key", [None, object(), "key", 1])
def test_only_the_gate_makes_the_token(handle, key):
    with pytest.raises(TypeError, match="only the gate"):
        Checked(key, handle, "tas")


def test_the_token_cannot_be_copied_or_carried_to_another_process(handle):
    checked = admit(handle, "tas", ())
    for carry in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            carry(checked)


def test_the_token_ends_with_its_file(handle):
    checked = admit(handle, "tas", ())
    handle.close()
    with pytest.raises(AccessError, match="closed after it was checked"):
        _ = checked.handle


def test_the_key_of_the_gate_is_used_nowhere_else():
    users = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if "gate" in text and "_KEY" in text:
            tree = ast.walk(ast.parse(text))
            users |= {name_of(path) for n in tree if isinstance(n, ast.Name) and n.id == "_KEY"}
            assert not any("cfagg.storage.gate._KEY" in m for _, m in imports(path))
    assert users == {"cfagg/storage/gate.py"}
