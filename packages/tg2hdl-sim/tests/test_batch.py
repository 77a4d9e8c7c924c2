"""Many inputs at a time: each gives what it gives alone in Amaranth's simulator."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_sim import BATCH_SIZE, InputsDifferError, SimulationModel, batch_size, open_batch, open_simulation
from tg2hdl_sim.testing.designs import RandomDesign


def drive(rng, design, varying, steps):
    """Values of the inputs in each step: a number, or one for each input of the batch."""
    for _ in range(steps):
        row = {}
        for name, shape in design.inputs:
            if name in varying:
                row[name] = [rng.getrandbits(shape.width) for _ in range(BATCH_SIZE)]
            else:
                row[name] = rng.getrandbits(shape.width)
        yield row, rng.choice([1, 1, 2])


@pytest.mark.parametrize("seed", range(4))
def test_every_input_of_a_batch_gives_what_it_gives_alone(seed):
    check_batch(seed)


def check_batch(seed, steps=40):
    rng = random.Random(seed)
    design = RandomDesign(seed, 20 + 10 * (seed % 8))
    varying = [name for name, _ in design.inputs if rng.random() < 0.6] or ["i0"]
    plan = list(drive(rng, design, varying, steps))
    outputs = [name for name, _ in design.outputs]
    with open_batch(SimulationModel(design), varying) as batch:
        found = []
        for row, edges in plan:
            for name, value in row.items():
                (batch.set_each if name in varying else batch.set)(name, value)
            before = [batch.get_each(name) for name in outputs]
            batch.step(edges)
            found.append((before, [batch.get_each(name) for name in outputs]))
        memories = {name: batch.read_memory_each(name) for name in batch.memories}
    for lane in range(0, BATCH_SIZE, 5):
        with open_simulation(SimulationModel(RandomDesign(seed, 20 + 10 * (seed % 8))), "amaranth") as one:
            for (row, edges), (before, after) in zip(plan, found, strict=True):
                for name, value in row.items():
                    one.set(name, value[lane] if name in varying else value)
                assert [one.get(name) for name in outputs] == [each[lane] for each in before]
                one.step(edges)
                assert [one.get(name) for name in outputs] == [each[lane] for each in after]
            for name, words in memories.items():
                np.testing.assert_array_equal(one.read_memory(name), words[lane])


@pytest.mark.parametrize("size", [BATCH_SIZE, 64])
def test_streams_of_a_batch(everything, size):
    rng = np.random.default_rng(1)
    words = rng.integers(-32, 32, (size, 100))
    with open_batch(everything, ["deep_w__data"], size=size) as batch:
        port = "deep_w__addr", "deep_w__data", "deep_w__en"
        assert batch.write_stream_each(*port, range(100), words) == 100
        for lane, read in enumerate(batch.read_stream_each("deep_r__addr", "deep_r__data", range(100))):
            np.testing.assert_array_equal(read, words[lane])
        for lane, read in enumerate(
            batch.read_stream_each("deep_q__addr", "deep_q__data", range(100), latency=0)
        ):
            np.testing.assert_array_equal(read, words[lane])
        np.testing.assert_array_equal(batch.read_stream("deep_r__addr", "deep_r__data", range(100)), words[0])
        assert batch.cycles == 400
        assert batch.read_memory("rom")[1] == -97


def test_inputs_that_end_at_different_times_are_refused(everything):
    with open_batch(everything, ["target"]) as batch:
        batch.set_each("target", range(1, BATCH_SIZE + 1))
        batch.set("start", 1)
        batch.step()
        batch.set("start", 0)
        with pytest.raises(InputsDifferError) as caught:
            batch.run_until("done")
    assert str(caught.value) == (
        "simulation: port 'done' changes in other cycles for other inputs of the batch\n"
        "  at: everything, cycle 2\n  hint: it depends on the data: run the inputs one by one"
    )


def test_control_that_varies_is_right_when_the_inputs_agree(everything):
    with open_batch(everything, ["target"]) as batch:
        batch.set_each("target", [37] * BATCH_SIZE)
        batch.set("start", 1)
        batch.step()
        batch.set("start", 0)
        assert batch.run_until("done") == 37


def test_ports_that_do_not_vary_have_one_value(everything):
    with open_batch(everything, ["a"]) as batch, pytest.raises(InputError) as caught:
        batch.set_each("target", [1] * BATCH_SIZE)
    assert str(caught.value) == (
        "bad input: port 'target' has the same value for all inputs of the batch\n  at: everything\n"
        "  hint: name it when the batch is opened; ports that vary: a"
    )
    with pytest.raises(InputError) as caught:
        open_batch(everything, ["done"])
    assert str(caught.value).startswith("bad input: 'done' is not an input port of the design\n")
    with open_batch(everything, ["a"]) as batch, pytest.raises(InputError) as caught:
        batch.set_each("a", [1])
    assert str(caught.value) == (
        "bad input: 1 values for a batch of 16\n  at: everything\n  hint: give one for each input"
    )


def test_the_size_of_a_batch():
    small = SimulationModel(RandomDesign(3, 5))
    assert [batch_size(small, inputs) for inputs in (1, 16, 32, 33, 1000)] == [16, 16, 16, 64, 64]
    with pytest.raises(InputError) as caught:
        open_batch(small, ["i0"], size=40)
    assert str(caught.value) == (
        "bad input: a batch cannot have 40 inputs\n  at: top\n"
        "  hint: give a multiple of 16, the inputs in one vector"
    )
