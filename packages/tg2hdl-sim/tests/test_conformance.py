"""The conformance suite: on the engines of this package, and on engines with one fault each."""

from __future__ import annotations

import dataclasses

import pytest

from tg2hdl_ir import InputError, registry, resolve
from tg2hdl_sim.amaranth_engine import AmaranthSimulation
from tg2hdl_sim.testing import conformance
from tg2hdl_sim.testing.conformance import engine_checks

CHECKS = pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)


@CHECKS
def test_engine(check, engine, tmp_path):
    check(registry().simulator(engine), tmp_path)


def test_every_check_is_in_the_suite():
    defined = {name for name in vars(conformance) if name.startswith("check_")}
    assert defined == {check.__name__ for check in engine_checks()}


def faulty(**methods):
    """Amaranth's engine with other methods."""
    engine = type("Faulty", (AmaranthSimulation,), methods)

    def open_faulty(model, *, vcd=None, cache=True, progress=None):
        return engine(model.elaboration, vcd)

    return dataclasses.replace(registry().simulator("amaranth"), open=open_faulty)


def truncated(self, port, value):
    AmaranthSimulation._set(self, port, value & 0xFFFFFFFF >> 4)


def forgetful(self):
    self._cycles = 0


def one_more(self, count):
    AmaranthSimulation._step(self, count + (count > 1))


def late(self, port, value, limit):
    used = AmaranthSimulation._run_until(self, port, value, limit)
    return used and used + 1


FAULTS = {
    "values without their top bits": ({"_set": truncated}, "check_ports"),
    "a reset of the time only": ({"_reset": forgetful}, "check_reset"),
    "an edge too many": ({"_step": one_more}, "check_no_registers"),
    "a wrong count of edges": ({"_run_until": late}, "check_run_until"),
    "no initial contents": (
        {"_read_memory": lambda self, m, o, n, c: super(type(self), self)._read_memory(m, o, n, c) * 0},
        "check_initial_values",
    ),
    "a step that does nothing": ({"_edge": lambda self: None}, "check_random_designs"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, tmp_path):
    methods, name = FAULTS[fault]
    (check,) = [c for c in engine_checks() if c.__name__ == name]
    with pytest.raises((AssertionError, InputError)):
        check(faulty(**methods), tmp_path)
    check(registry().simulator("amaranth"), tmp_path)


def test_an_engine_that_cannot_run_is_named():
    engine = dataclasses.replace(registry().simulator("amaranth"), available=lambda: "no display")
    assert resolve(engine.available)() == "no display"
    with pytest.raises(AssertionError, match="engine amaranth cannot run here: no display"):
        conformance.check_no_registers(engine, None)
