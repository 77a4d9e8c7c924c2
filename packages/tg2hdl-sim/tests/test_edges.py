"""The loop over clock edges: registers in the state, or variables of the function, and the port that ends a run."""

import random

import pytest

from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim.levelized import emit
from tg2hdl_sim.testing.designs import RandomDesign


def run(model, engine):
    """Edges that runs until a bit is set take, odd and even numbers of steps, and all outputs after each."""
    rng, seen = random.Random(5), []
    with open_simulation(model, engine, cache=False) as sim:
        outputs = [port for port in sim.ports.values() if port.direction == "out"]
        for _ in range(12):
            for port in sim.ports.values():
                if port.direction == "in":
                    sim.set(port.name, rng.getrandbits(port.width))
            sim.step(rng.choice([1, 2, 3]))
            seen.append([sim.get(port.name) for port in outputs])
            for port in outputs:
                before, wanted = sim.cycles, sim.get(port.name)
                assert sim.run_until(port.name, wanted) == 0
                sim.step(2)
                ahead = sim.get(port.name)
                sim.step(3)
                limited = sim.run_until(port.name, sim.get(port.name), 0)
                seen.append((before, wanted, ahead, limited, sim.cycles))
    return seen


@pytest.mark.parametrize("most", [0, emit.MOST_LOCAL])
def test_registers_in_the_state_and_as_variables_give_the_same(most, monkeypatch):
    """Both forms of the function agree with Amaranth's simulator."""
    monkeypatch.setattr(emit, "MOST_LOCAL", most)
    model = SimulationModel(RandomDesign(11))
    assert run(model, "levelized") == run(model, "amaranth")


def test_a_run_ends_at_the_first_edge_in_both_forms(monkeypatch, everything):
    """The number of edges that a run takes, odd and even, is that of Amaranth's simulator."""
    found = []
    for engine, most in (("amaranth", 0), ("levelized", 0), ("levelized", emit.MOST_LOCAL)):
        monkeypatch.setattr(emit, "MOST_LOCAL", most)
        with open_simulation(everything, engine, cache=False) as sim:
            used = []
            for target in (1, 2, 3, 8, 9):
                sim.set("target", target)
                sim.set("start", 1)
                sim.step()
                sim.set("start", 0)
                used.append((sim.run_until("count", target), sim.run_until("done"), sim.cycles))
        found.append(used)
    assert found[1] == found[2] == found[0]
