"""Tests of what is written need not wait for the disk; those of how it is forced to disk do."""

from __future__ import annotations

import os

import pytest

from cfagg.runtime import publishing

#: Modules whose tests write to disk as users do.
_REAL = ("test_place", "test_new_store")


@pytest.fixture(autouse=True)
def no_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system write to disk when it likes."""
    if request.module.__name__.rpartition(".")[2] not in _REAL:
        monkeypatch.setattr(os, "fsync", lambda _: None)
        monkeypatch.setattr(publishing, "sync_file_system", lambda _: True)
