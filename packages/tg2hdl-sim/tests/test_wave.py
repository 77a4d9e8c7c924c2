"""Waveforms."""

from __future__ import annotations

import re

import pytest

from tg2hdl_ir.errors import InputError, SimulationError
from tg2hdl_sim import open_simulation


def read_vcd(path):
    """Values of every variable by time, in nanoseconds."""
    header, _, body = path.read_text().partition("$enddefinitions $end")
    scale = {"ns": 1.0, "ps": 1e-3, "fs": 1e-6}[re.search(r"\$timescale\s+1\s*(\w+)", header)[1]]
    scopes, names = [], {}
    for kind, rest in re.findall(r"\$(scope|upscope|var)\b(.*?)\$end", header, flags=re.S):
        fields = rest.split()
        if kind == "scope":
            scopes.append(fields[1])
        elif kind == "upscope":
            scopes.pop()
        else:
            names.setdefault(fields[2], []).append(".".join([*scopes, fields[3]]))
    time, changes = 0.0, {}
    for line in body.split("\n"):
        if line.startswith("#"):
            time = int(line[1:]) * scale
        elif match := re.fullmatch(r"b([01x]+) (\S+)|([01x])(\S+)", line):
            value, code = match[1] or match[3], match[2] or match[4]
            for name in names.get(code, ()):
                changes.setdefault(name, []).append((time, value.replace("x", "0")))
    return changes


def test_the_waveform_shows_the_run(engine, everything, tmp_path):
    if engine in ("verilator", "levelized"):
        pytest.skip("its build takes long: see the slow test; the levelized engine has none")
    check_wave(engine, everything, tmp_path / "run.vcd")


@pytest.mark.slow
def test_the_waveform_of_verilator(engine, everything, tmp_path):
    if engine != "verilator":
        pytest.skip("others are tested by default")
    check_wave(engine, everything, tmp_path / "run.vcd")


def check_wave(engine, model, path):
    with open_simulation(model, engine, vcd=path) as sim:
        sim.set("target", 5)
        sim.set("start", 1)
        sim.step()
        sim.set("start", 0)
        assert sim.run_until("done") == 5
        sim.step(2)
    changes = read_vcd(path)
    (clock,) = [name for name in changes if re.fullmatch(r"(bench\.)?(top\.)?clk", name)]
    assert [t for t, v in changes[clock] if v == "1"] == [10.0 * n for n in range(1, 9)]
    scope = clock.removesuffix("clk")
    count = [(t, int(v, 2)) for t, v in changes[scope + "count"] if t]
    assert count == [(20.0, 1), (30.0, 2), (40.0, 3), (50.0, 4), (60.0, 5)]
    done = [(t, v) for t, v in changes[scope + "done"] if t]
    assert done == [(60.0, "1")]
    assert any(name.endswith("dut.running") for name in changes), "inner signals are missing"


def test_a_waveform_needs_a_directory(engine, everything, tmp_path):
    if engine in ("verilator", "levelized"):
        pytest.skip("the code is that of CXXRTL")
    path = tmp_path / "none" / "run.vcd"
    with pytest.raises(InputError) as caught:
        open_simulation(everything, engine, vcd=path)
    assert str(caught.value) == (
        f"bad input: cannot write the waveform {str(path)!r}\n  at: everything\n"
        "  hint: give a path in an existing directory that you may write to"
    )


def test_a_waveform_runs_from_power_on_to_the_end(engine, everything, tmp_path):
    if engine in ("verilator", "levelized"):
        pytest.skip("the code is that of CXXRTL")
    with (
        open_simulation(everything, engine, vcd=tmp_path / "run.vcd") as sim,
        pytest.raises(SimulationError) as caught,
    ):
        sim.reset()
    assert str(caught.value) == (
        "simulation: a simulation with a waveform cannot be reset\n  at: everything\n"
        "  hint: open another simulation with another file"
    )
