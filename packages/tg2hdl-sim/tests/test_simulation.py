"""The interface, on every engine."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_sim import open_simulation
from tg2hdl_sim.testing.designs import ROM


def test_ports_are_named_by_their_path_and_know_their_shape(sim):
    assert sim.ports["deep_w__data"].width == 6
    assert sim.ports["deep_w__data"].signed
    assert sim.ports["deep_w__data"].direction == "in"
    assert sim.ports["lanes__1__x"].direction == "out"
    assert sim.ports["target"].init == 9
    assert "clk" not in sim.ports


def test_combinational_outputs_follow_inputs_without_an_edge(sim):
    for value in (-16, -1, 0, 5, 15):
        sim.set("s", value)
        assert sim.get("t") == value * 3
    assert sim.cycles == 0


def test_wide_ports(sim):
    rng = random.Random(1)
    for _ in range(20):
        value = rng.getrandbits(70)
        sim.set("a", value)
        sim.step()
        assert sim.get("a") == value
        assert sim.get("b") == (value + 1) % 2**70


def test_interface_arrays(sim):
    sim.set("lanes__0__y", 0)
    sim.set("lanes__1__y", 0xFF)
    sim.step()
    assert [sim.get("lanes__0__x"), sim.get("lanes__1__x")] == [0x55, 0xAA]


@pytest.mark.parametrize("target", [1, 9, 1000])
def test_run_until_counts_edges(sim, target):
    sim.set("target", target)
    sim.set("start", 1)
    sim.step()
    sim.set("start", 0)
    assert sim.run_until("done") == target
    assert sim.run_until("done") == 0
    assert sim.cycles == target + 1
    assert sim.get("count") == target


def test_run_until_a_value(sim):
    sim.set("target", 500)
    sim.set("start", 1)
    sim.step()
    sim.set("start", 0)
    assert sim.run_until("count", 77, limit=77) == 77
    assert sim.run_until("count", 78, limit=1) == 1


def test_run_until_times_out(sim):
    sim.set("start", 1)
    with pytest.raises(SimulationError) as caught:
        sim.run_until("done", limit=25)
    assert str(caught.value) == (
        "simulation: port 'done' is not 1 after 25 cycles; it is 0\n"
        f"  at: everything, cycle 25, engine {sim.engine}\n"
        "  hint: give a larger limit if the work takes longer, or look at a waveform (vcd=...)"
    )
    assert sim.cycles == 25


def test_inputs_start_with_their_initial_values(sim):
    assert sim.get("target") == 9
    assert sim.get("start") == 0


def test_memories_start_with_their_contents(sim):
    np.testing.assert_array_equal(sim.read_memory("deep", 0, 5), np.array([1, -2, 3, 0, 0], np.int8))
    assert sim.read_memory("deep").dtype == np.int8
    np.testing.assert_array_equal(sim.read_memory("rom"), np.array(ROM, np.int16))
    np.testing.assert_array_equal(sim.read_memory("wide", 0, 2), np.array([[0, 1 << 35], [0, 0]], np.uint64))


def test_rom_contents_reach_the_port(sim):
    read = sim.read_stream("rom_addr", "rom_data", range(20))
    np.testing.assert_array_equal(read, np.array(ROM, np.int16))


def test_back_door_and_ports_see_the_same_words(sim):
    rng = np.random.default_rng(0)
    words = rng.integers(-32, 32, 100)
    sim.write_memory("deep", words)
    np.testing.assert_array_equal(sim.read_stream("deep_r__addr", "deep_r__data", range(100)), words)
    np.testing.assert_array_equal(
        sim.read_stream("deep_q__addr", "deep_q__data", range(100), latency=0), words
    )
    assert sim.cycles == 200
    order = rng.permutation(100)
    used = sim.write_stream("deep_w__addr", "deep_w__data", "deep_w__en", order, words[:100])
    assert used == 100
    assert sim.get("deep_w__en") == 0
    assert sim.cycles == 300
    expected = np.empty_like(words)
    expected[order] = words
    np.testing.assert_array_equal(sim.read_memory("deep"), expected)
    np.testing.assert_array_equal(
        sim.read_memory("deep", 10, 5, signed=False), (expected[10:15] & 63).astype(np.uint8)
    )


def test_back_door_is_visible_to_an_asynchronous_port_at_once(sim):
    sim.set("deep_q__addr", 7)
    assert sim.get("deep_q__data") == 0
    sim.write_memory("deep", [-5], offset=7)
    assert sim.get("deep_q__data") == -5


def test_longer_latency_shifts_the_words(sim):
    words = np.arange(8) - 4
    sim.write_memory("deep", words, offset=20)
    read = sim.read_stream("deep_r__addr", "deep_r__data", range(20, 28), latency=3)
    # The port has a latency of 1, so that the word of the address two later is seen; the last address stays.
    np.testing.assert_array_equal(read, np.concatenate([words[2:], words[[-1, -1]]]))
    assert sim.cycles == 10


def test_wide_memories(sim):
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**63, (16, 2), dtype=np.uint64)
    words[:, 1] &= np.uint64(2**36 - 1)
    sim.write_memory("wide", words)
    sim.set("wide_r__en", 1)
    np.testing.assert_array_equal(sim.read_stream("wide_r__addr", "wide_r__data", range(16)), words)
    sim.write_stream("wide_w__addr", "wide_w__data", "wide_w__en", range(15, -1, -1), words)
    np.testing.assert_array_equal(sim.read_memory("wide"), words[::-1])
    assert sim.get("wide_w__data") == int(words[15, 0]) | int(words[15, 1]) << 64


def test_partial_and_transparent_writes(sim):
    sim.write_memory("wide", np.array([[0, 0]], np.uint64), offset=3)
    sim.set("wide_w__addr", 3)
    sim.set("wide_w__data", 2**100 - 1)
    sim.set("wide_w__en", 0b0110)
    sim.set("wide_r__addr", 3)
    sim.set("wide_r__en", 1)
    sim.step()
    assert sim.get("wide_r__data") == (2**50 - 1) << 25
    sim.set("wide_r__en", 0)
    sim.set("wide_r__addr", 0)
    sim.step(5)
    assert sim.get("wide_r__data") == (2**50 - 1) << 25


def test_accesses_beyond_the_depth(sim):
    sim.set("deep_w__en", 1)
    sim.set("deep_w__data", 9)
    sim.set("deep_w__addr", 100)
    sim.set("deep_r__addr", 100)
    sim.set("deep_q__addr", 127)
    before = sim.read_memory("deep")
    sim.step(3)
    assert sim.get("deep_r__data") == 0
    assert sim.get("deep_q__data") == 0
    np.testing.assert_array_equal(sim.read_memory("deep"), before)


def test_reset_is_power_on(sim):
    sim.write_memory("deep", [7] * 100)
    sim.set("target", 3)
    sim.set("start", 1)
    sim.step(10)
    sim.reset()
    assert sim.cycles == 0
    assert (sim.get("target"), sim.get("start"), sim.get("count")) == (9, 0, 0)
    np.testing.assert_array_equal(sim.read_memory("deep", 0, 4), [1, -2, 3, 0])
    np.testing.assert_array_equal(sim.read_memory("rom"), ROM)


def test_instances_have_their_own_state(engine, everything):
    with open_simulation(everything, engine) as one, open_simulation(everything, engine) as two:
        one.set("a", 5)
        one.step()
        two.write_memory("deep", [9])
        assert (one.get("b"), two.get("b")) == (6, 0)
        assert (one.read_memory("deep", 0, 1)[0], two.read_memory("deep", 0, 1)[0]) == (1, 9)
        assert (one.cycles, two.cycles) == (1, 0)


def test_closed_simulations_refuse(engine, everything):
    with open_simulation(everything, engine) as simulation:
        pass
    simulation.close()
    with pytest.raises(SimulationError) as caught:
        simulation.step()
    assert str(caught.value) == (
        "simulation: the simulation is closed\n  at: everything\n  hint: use it inside its with block"
    )


def test_empty_streams(sim):
    assert len(sim.read_stream("rom_addr", "rom_data", range(0))) == 0
    assert sim.write_stream("deep_w__addr", "deep_w__data", "deep_w__en", [], np.array([], np.int8)) == 0
    sim.write_memory("deep", np.array([], np.uint8))
    sim.step(0)
    assert sim.cycles == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s: s.get("nothing"),
            "bad input: no port is named 'nothing'\n  at: everything\n"
            "  hint: ports: start, target, count, done, a, b, s, t, deep_w__addr, deep_w__data, deep_w__en, "
            "deep_r__addr and 15 more",
        ),
        (
            lambda s: s.set("done", 1),
            "bad input: port 'done' is an output\n  at: everything\n  hint: inputs: start, target, a, s, "
            "deep_w__addr, deep_w__data, deep_w__en, deep_r__addr, deep_q__addr, wide_w__addr, wide_w__data, "
            "wide_w__en and 5 more",
        ),
        (
            lambda s: s.set("s", 32),
            "bad input: value 32 does not fit port 's' of 5 bits\n  at: everything\n"
            "  hint: allowed: -16 to 31",
        ),
        (
            lambda s: s.step(-1),
            "bad input: cannot step -1 cycles\n  at: everything\n  hint: time only advances",
        ),
        (
            lambda s: s.run_until("done", limit=-1),
            "bad input: the limit is -1 cycles\n  at: everything\n  hint: give 0 or more",
        ),
        (
            lambda s: s.read_memory("ram"),
            "bad input: no memory is named 'ram'\n  at: everything\n  hint: memories: deep, wide, rom",
        ),
        (
            lambda s: s.write_memory("deep", [0, 0], offset=99),
            "bad input: words 99 to 100 are outside memory 'deep' of depth 100\n  at: everything\n"
            "  hint: give an offset and a count within the depth",
        ),
        (
            lambda s: s.write_memory("deep", [64]),
            "bad input: word 64 does not fit memory 'deep' of 6 bits\n  hint: allowed: -32 to 63",
        ),
        (
            lambda s: s.write_memory("deep", [0.5]),
            "bad input: words for memory 'deep' have dtype float64, not integers\n"
            "  hint: view floats as integers of the same size, e.g. array.view(numpy.uint32)",
        ),
        (
            lambda s: s.write_memory("deep", [[1]]),
            "bad input: words for memory 'deep' have shape (1, 1), not one dimension\n"
            "  hint: flatten the array in the order of the addresses",
        ),
        (
            lambda s: s.write_memory("wide", np.array([1], np.uint64)),
            "bad input: words for memory 'wide' of 100 bits have dtype uint64 and shape (1,)\n"
            "  hint: give a uint64 array of shape (count, 2), least significant limb first",
        ),
        (
            lambda s: s.write_memory("wide", np.array([[0, 1 << 36]], np.uint64)),
            "bad input: a word does not fit memory 'wide' of 100 bits\n"
            "  hint: bits above 100 of the last limb must be 0",
        ),
        (
            lambda s: s.write_stream("deep_w__addr", "deep_w__data", "deep_w__en", [1], [1, 2]),
            "bad input: 1 addresses for 2 words on port 'deep_w__data'\n  at: everything\n"
            "  hint: give one address per word",
        ),
        (
            lambda s: s.read_stream("rom_addr", "rom_data", [32]),
            "bad input: addresses 32 to 32 do not fit port 'rom_addr' of 5 bits\n  at: everything\n"
            "  hint: allowed: 0 to 31",
        ),
        (
            lambda s: s.read_stream("rom_addr", "rom_data", [0.0]),
            "bad input: addresses for port 'rom_addr' have dtype float64 and shape (1,)\n  at: everything\n"
            "  hint: give a range or a one-dimensional array of integers",
        ),
        (
            lambda s: s.read_stream("rom_addr", "rom_data", [0], latency=-1),
            "bad input: the latency is -1 cycles\n  at: everything\n  hint: give 0 or more",
        ),
    ],
)
def test_refusals(everything, call, message):
    with open_simulation(everything, "amaranth") as sim:
        with pytest.raises(InputError) as caught:
            call(sim)
        assert str(caught.value) == message
        assert sim.cycles == 0
