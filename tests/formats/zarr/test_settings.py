"""The setting of zarr-python that unequal chunks need."""

import threading

import pytest
import zarr

from cfagg.formats.zarr.settings import unequal_chunks

NAME = "array.rectilinear_chunks"


def test_it_is_there_as_long_as_any_thread_needs_it_and_then_as_it_was():
    assert zarr.config.get(NAME) is False
    first, second = unequal_chunks(), unequal_chunks()
    first.__enter__()
    for step in (second.__enter__, lambda: first.__exit__(None, None, None)):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
        assert zarr.config.get(NAME) is True
    second.__exit__(None, None, None)
    assert zarr.config.get(NAME) is False


def test_an_error_takes_it_back():
    with pytest.raises(KeyError), unequal_chunks():
        raise KeyError
    assert zarr.config.get(NAME) is False
