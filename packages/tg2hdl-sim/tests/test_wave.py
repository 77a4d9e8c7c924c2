"""Waveforms."""

from __future__ import annotations

import random
import re
import shutil
import sys

import pytest

from tg2hdl_ir import InputError, SimulationError, ToolMissingError, registry, resolve
from tg2hdl_sim import fst, open_simulation


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
    if engine == "verilator":
        pytest.skip("its build takes long: see the slow test")
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


def values_after_edges(path, edges):
    """Value of every variable below the top level after each edge, under its name there."""
    changes = read_vcd(path)
    (clock,) = [name for name in changes if re.fullmatch(r"(bench\.)?(top\.)?clk", name)]
    scope = clock.removesuffix("clk")
    found = {}
    for name, steps in changes.items():
        row = []
        for edge in range(1, edges + 1):
            value = [v for t, v in steps if t <= 10 * edge + 1]
            row.append(int(value[-1], 2) if value else 0)
        found[name.removeprefix(scope)] = row
    return found


def test_the_waveform_equals_that_of_amaranths_simulator(everything, tmp_path):
    reason = resolve(registry().simulator("levelized").available)()
    if reason is not None:
        pytest.skip(reason)
    shown = {}
    for engine in ("amaranth", "levelized"):
        path = tmp_path / f"{engine}.vcd"
        with open_simulation(everything, engine, vcd=path) as sim:
            rng = random.Random(3)
            for _ in range(60):
                for port in sim.ports.values():
                    if port.direction == "in" and rng.random() < 0.5:
                        sim.set(port.name, rng.getrandbits(port.width))
                sim.step()
        shown[engine] = values_after_edges(path, 60)
    common = [name for name in shown["amaranth"] if name.startswith("dut.") and name in shown["levelized"]]
    assert len(common) > 25
    assert sum(len(set(shown["amaranth"][name])) > 1 for name in common) > 20
    for name in common:
        if not name.endswith("clk"):
            assert shown["levelized"][name] == shown["amaranth"][name], name


def test_small_memories_are_in_the_waveform_of_the_levelized_engine(everything, tmp_path):
    reason = resolve(registry().simulator("levelized").available)()
    if reason is not None:
        pytest.skip(reason)
    path = tmp_path / "run.vcd"
    with open_simulation(everything, "levelized", vcd=path) as sim:
        sim.set("wide_w__addr", 3)
        sim.set("wide_w__data", 2**99 + 5)
        sim.set("wide_w__en", 15)
        sim.step(2)
        words, width = sim.read_memory("rom"), sim.memories["rom"].width
    shown = values_after_edges(path, 2)
    assert shown["dut.wide.word3"] == [2**99 + 5] * 2
    assert shown["dut.rom.word1"] == [int(words[1]) % 2**width] * 2


def test_fst_needs_its_converter(everything, tmp_path, monkeypatch):
    monkeypatch.setattr(fst, "CONVERTER", "no-such-vcd2fst")
    path = tmp_path / "run.fst"
    with pytest.raises(ToolMissingError) as caught:
        open_simulation(everything, "amaranth", vcd=path)
    assert str(caught.value) == (
        "missing tool: an FST waveform needs no-such-vcd2fst, a program of GTKWave\n"
        f"  note: looked for: no-such-vcd2fst on PATH\n  note: wanted: {str(path)!r}\n"
        "  hint: install GTKWave, or give a path that ends in .vcd, which Surfer and GTKWave read too"
    )


def converter(path, body):
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_an_fst_file_is_made_of_the_whole_run(everything, tmp_path, monkeypatch):
    # Stands in for GTKWave's: keeps what it was given.
    body = "open(sys.argv[2], 'w').write(open(sys.argv[1]).read())"
    monkeypatch.setattr(fst, "CONVERTER", converter(tmp_path / "convert", body))
    path = tmp_path / "run.fst"
    with open_simulation(everything, "amaranth", vcd=path) as sim:
        sim.step(4)
    assert "#40000" in path.read_text()
    assert not list(tmp_path.glob("*.vcd"))


def test_a_converter_that_fails_is_reported(everything, tmp_path, monkeypatch):
    monkeypatch.setattr(fst, "CONVERTER", converter(tmp_path / "convert", "sys.exit('no space left')"))
    simulation = open_simulation(everything, "amaranth", vcd=tmp_path / "run.fst")
    with pytest.raises(SimulationError) as caught:
        simulation.close()
    assert str(caught.value) == (
        f"simulation: {tmp_path / 'convert'} failed with exit status 1\n  note: no space left\n"
        f"  hint: the waveform is in {str(tmp_path / 'run.fst.vcd')!r}"
    )
    assert (tmp_path / "run.fst.vcd").exists()


@pytest.mark.skipif(shutil.which("vcd2fst") is None, reason="GTKWave is not installed")
def test_gtkwave_makes_the_fst_file(everything, tmp_path):
    with open_simulation(everything, "amaranth", vcd=tmp_path / "run.fst") as sim:
        sim.step(4)
    assert (tmp_path / "run.fst").stat().st_size > 100


def test_a_waveform_needs_a_directory(engine, everything, tmp_path):
    if engine == "verilator":
        pytest.skip("the code is that of CXXRTL")
    path = tmp_path / "none" / "run.vcd"
    with pytest.raises(InputError) as caught:
        open_simulation(everything, engine, vcd=path)
    assert str(caught.value) == (
        f"bad input: cannot write the waveform {str(path)!r}\n  at: everything\n"
        "  hint: give a path in an existing directory that you may write to"
    )


def test_a_waveform_runs_from_power_on_to_the_end(engine, everything, tmp_path):
    if engine == "verilator":
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
