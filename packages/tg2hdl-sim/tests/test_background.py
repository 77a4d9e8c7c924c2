"""Models that are optimized while they run."""

from __future__ import annotations

import random

import pytest

from tg2hdl_ir import registry, resolve
from tg2hdl_sim import SimulationModel, estimate_engines, open_simulation
from tg2hdl_sim.levelized import engine as levelized
from tg2hdl_sim.testing.designs import RandomDesign

STEPS = 40


@pytest.fixture(autouse=True)
def every_model_is_large(monkeypatch, tmp_path):
    reason = resolve(registry().simulator("levelized").available)()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(levelized, "LARGE", 0)
    monkeypatch.setattr(levelized, "BYTES_PER_SECOND", 1e-3)  # so that no run is long enough by itself


def run(simulation, between=lambda: None):
    rng, seen = random.Random(7), []
    with simulation as sim:
        for step in range(2 * STEPS):
            if step == STEPS:
                between()
            for port in sim.ports.values():
                if port.direction == "in":
                    sim.set(port.name, rng.getrandbits(port.width))
            sim.step(rng.choice([1, 2, 5]))
            seen.append([sim.get(port) for port in sim.ports])
        seen += [sim.cycles, *(sim.read_memory(name).tolist() for name in sim.memories)]
    return seen


@pytest.mark.parametrize("cache", [False, True])
def test_a_run_continues_in_the_optimized_model(cache):
    model = SimulationModel(RandomDesign(5))
    expected = run(open_simulation(model, "amaranth"))
    simulation = open_simulation(model, "levelized", cache=cache)
    first = simulation._library

    def take_over():
        simulation._improve(simulation._better.wait())
        assert simulation._library is not first
        assert simulation._better is None

    assert run(simulation, take_over) == expected
    again = open_simulation(model, "levelized", cache=cache)
    assert (again._better is None) == cache  # the optimized model is kept
    assert run(again) == expected


def test_a_short_run_starts_no_compiler(monkeypatch):
    model = SimulationModel(RandomDesign(6))
    with open_simulation(model, "levelized") as sim:
        sim.step(10)
        assert sim._better._process is None
    monkeypatch.setattr(levelized, "generate", None)  # neither does another short run translate again
    assert estimate_engines(model, 100)[0].build_seconds == 0
    with open_simulation(model, "levelized") as sim:
        sim.step(10)


def test_a_long_run_starts_the_compiler_and_looks_for_its_result(monkeypatch):
    monkeypatch.setattr(levelized, "BYTES_PER_SECOND", 1e12)
    with open_simulation(SimulationModel(RandomDesign(6)), "levelized") as sim:
        sim.step()
        assert sim._better._process is not None
        sim._better._process.wait()
        sim.step()
        assert sim._better is None
        assert sim.cycles == 2


def test_a_model_runs_on_when_the_compiler_fails(monkeypatch, caplog):
    model = SimulationModel(RandomDesign(6))
    expected = run(open_simulation(model, "amaranth"))
    simulation = open_simulation(model, "levelized", cache=False)
    monkeypatch.setattr(levelized.cc, "shared_command", lambda *_, **__: ["false"])
    assert run(simulation, lambda: simulation._improve(simulation._better.wait())) == expected
    assert "the compiler failed with exit status 1" in caplog.text
