"""The collector of reference cycles is paused, and runs again."""

import gc

import pytest

from tg2hdl_ir.errors import InputError
from tg2hdl_sim.collection import paused_collection


def test_the_collector_runs_again_after_an_error():
    assert gc.isenabled()
    with pytest.raises(InputError), paused_collection():
        raise InputError("bad", hint="good")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
