"""The collector of reference cycles is paused, and runs again."""

import gc

import pytest

from tg2hdl_ir import InputError
from tg2hdl_ir.collection import paused_collection, rare_collection


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


def test_a_rare_collector_has_its_thresholds_again_after_an_error():
    before = gc.get_threshold()
    with rare_collection():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    with pytest.raises(InputError), rare_collection():
        raise InputError("bad", hint="good")
    assert gc.get_threshold() == before


def test_a_collector_whose_threshold_was_zero_stays_off():
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with rare_collection():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
