"""The conformance suite for engines.

In the tests of a plugin::

    @pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)
    def test_my_engine(check, tmp_path):
        check(my_plugin.tg2hdl_simulators()[0], tmp_path)

Every check compares with Amaranth's own simulator or with numbers that follow from the design.  An engine refuses
unsupported designs with a `Tg2hdlError`; a check whose design it may refuse says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tg2hdl_ir import InputError, SimulationError, SimulatorDef, Tg2hdlError, UnsupportedError, resolve
from tg2hdl_sim.amaranth_engine import open_amaranth
from tg2hdl_sim.model import SimulationModel
from tg2hdl_sim.simulation import Simulation
from tg2hdl_sim.testing.designs import (
    ROM,
    Combinational,
    Everything,
    Loopy,
    RandomDesign,
    Resettable,
    TwoClocks,
)

__all__ = ["Check", "engine_checks"]

Check: TypeAlias = Callable[[SimulatorDef, Path], None]
RANDOM_DESIGNS, STEPS = 4, 60


def engine_checks() -> tuple[Check, ...]:
    """Return the checks; each takes an engine and a directory that it may write to, and raises `AssertionError`."""
    return (
        check_descriptor,
        check_ports,
        check_run_until,
        check_initial_values,
        check_memories,
        check_streams,
        check_reset,
        check_instances,
        check_random_designs,
        check_loops_through_bits,
        check_no_registers,
        check_other_clocks,
        check_waveform,
    )


def _open(engine: SimulatorDef, model: SimulationModel, vcd: Path | None = None) -> Simulation:
    reason = resolve(engine.available)()
    assert reason is None, f"engine {engine.name} cannot run here: {reason}"
    found = resolve(engine.open)(model, vcd=vcd, cache=False, progress=lambda message: None)
    assert isinstance(found, Simulation), f"open returned {type(found).__name__}, not a Simulation"
    return found


def _everything() -> SimulationModel:
    top = Everything()
    return SimulationModel(top, {"deep": top.deep, "wide": top.wide.data, "rom": top.rom})


def check_descriptor(engine: SimulatorDef, directory: Path) -> None:
    """The costs are positive numbers that do not fall with the size; the name is that of its simulations."""
    for cells in (1, 100, 100_000):
        assert resolve(engine.build_seconds)(cells) >= 0
        assert resolve(engine.cycles_per_second)(cells) > 0
    assert resolve(engine.cycles_per_second)(100_000) <= resolve(engine.cycles_per_second)(1)
    with _open(engine, SimulationModel(Resettable())) as sim:
        assert sim.engine == engine.name
        assert sim.cycles == 0


def check_ports(engine: SimulatorDef, directory: Path) -> None:
    """Wide, signed and nested ports; `get` sees inputs at once through combinational logic."""
    with _open(engine, _everything()) as sim:
        for value in (0, 2**70 - 1, 2**64, 12345678901234567890):
            sim.set("a", value)
            sim.step()
            assert sim.get("b") == (value + 1) % 2**70
        cycles = sim.cycles
        for value in (-16, -1, 0, 15):
            sim.set("s", value)
            assert (sim.get("s"), sim.get("t")) == (value, 3 * value)
        assert sim.cycles == cycles
        sim.set("lanes__1__y", 0xFF)
        sim.step()
        assert [sim.get("lanes__0__x"), sim.get("lanes__1__x")] == [0x55, 0xAA]


def check_run_until(engine: SimulatorDef, directory: Path) -> None:
    """Edges are counted, at the limit too."""
    with _open(engine, _everything()) as sim:
        for target in (1, 9, 1000):
            sim.set("target", target)
            sim.set("start", 1)
            sim.step()
            sim.set("start", 0)
            before = sim.cycles
            assert sim.run_until("done") == target
            assert sim.run_until("done") == 0
            assert sim.cycles == before + target
        sim.set("start", 1)  # the count stays 0
        sim.step()
        try:
            sim.run_until("done", limit=25)
        except SimulationError:
            assert sim.cycles == before + target + 1 + 25
        else:
            raise AssertionError("run_until did not stop at its limit")


def check_initial_values(engine: SimulatorDef, directory: Path) -> None:
    """Inputs, registers and memories start with the values of the design."""
    with _open(engine, _everything()) as sim:
        assert sim.get("target") == 9
        np.testing.assert_array_equal(sim.read_memory("deep", 0, 4), [1, -2, 3, 0])
        np.testing.assert_array_equal(sim.read_memory("rom"), ROM)
    with _open(engine, SimulationModel(Resettable())) as sim:
        assert sim.get("y") == 3


def check_memories(engine: SimulatorDef, directory: Path) -> None:
    """The back door, partial and transparent writes, and accesses beyond the depth."""
    with _open(engine, _everything()) as sim:
        sim.set("deep_q__addr", 7)
        sim.write_memory("deep", [-5], offset=7)
        assert sim.get("deep_q__data") == -5
        sim.set("wide_w__addr", 3)
        sim.set("wide_w__data", 2**100 - 1)
        sim.set("wide_w__en", 0b0110)
        sim.set("wide_r__addr", 3)
        sim.set("wide_r__en", 1)
        sim.step()
        assert sim.get("wide_r__data") == (2**50 - 1) << 25
        np.testing.assert_array_equal(sim.read_memory("wide", 3, 1), [[0xFFFFFFFFFE000000, (1 << 11) - 1]])
        sim.set("deep_w__en", 1)
        sim.set("deep_w__data", 9)
        sim.set("deep_w__addr", 100)
        sim.set("deep_r__addr", 100)
        before = sim.read_memory("deep")
        sim.step(3)
        assert sim.get("deep_r__data") == 0
        np.testing.assert_array_equal(sim.read_memory("deep"), before)


def check_streams(engine: SimulatorDef, directory: Path) -> None:
    """Streams use one edge per word, and the enable is low afterwards."""
    words = np.random.default_rng(0).integers(-32, 32, 100)
    order = np.random.default_rng(1).permutation(100)
    with _open(engine, _everything()) as sim:
        assert sim.write_stream("deep_w__addr", "deep_w__data", "deep_w__en", order, words) == 100
        assert (sim.cycles, sim.get("deep_w__en")) == (100, 0)
        np.testing.assert_array_equal(sim.read_stream("deep_r__addr", "deep_r__data", order), words)
        assert sim.cycles == 200
        late = sim.read_stream("deep_r__addr", "deep_r__data", order[:8], latency=3)
        np.testing.assert_array_equal(late, np.concatenate([words[2:8], words[[7, 7]]]))
        assert sim.cycles == 210
        np.testing.assert_array_equal(
            sim.read_stream("deep_q__addr", "deep_q__data", order, latency=0), words
        )


def check_reset(engine: SimulatorDef, directory: Path) -> None:
    """`reset` is power on."""
    with _open(engine, _everything()) as sim:
        sim.write_memory("deep", [7] * 100)
        sim.set("target", 3)
        sim.set("start", 1)
        sim.step(10)
        sim.reset()
        assert sim.cycles == 0
        assert (sim.get("target"), sim.get("start"), sim.get("count")) == (9, 0, 0)
        np.testing.assert_array_equal(sim.read_memory("deep", 0, 4), [1, -2, 3, 0])


def check_instances(engine: SimulatorDef, directory: Path) -> None:
    """Two simulations of one model have their own state, and a closed one refuses."""
    model = _everything()
    with _open(engine, model) as one, _open(engine, model) as two:
        one.set("a", 5)
        one.step()
        two.write_memory("deep", [9])
        assert (one.get("b"), two.get("b"), one.cycles, two.cycles) == (6, 0, 1, 0)
        assert (one.read_memory("deep", 0, 1)[0], two.read_memory("deep", 0, 1)[0]) == (1, 9)
    one.close()
    try:
        one.step()
    except SimulationError:
        return
    raise AssertionError("a closed simulation ran on")


def _trace(sim: Simulation, seed: int) -> list[Any]:
    rng, seen = random.Random(seed), []
    with sim:
        inputs = [port for port in sim.ports.values() if port.direction == "in"]
        outputs = [port.name for port in sim.ports.values() if port.direction == "out"]
        for _ in range(STEPS):
            for port in inputs:
                sim.set(port.name, rng.getrandbits(port.width) if rng.random() < 0.8 else 0)
            seen.append([sim.get(name) for name in outputs])
            sim.step(rng.choice([1, 1, 1, 2, 5]))
            seen.append([sim.get(name) for name in outputs])
        seen += [sim.read_memory(name).tolist() for name in sim.memories]
    return seen


def _check_same(engine: SimulatorDef, design: Callable[[], Any], seed: int) -> None:
    reference = open_amaranth(SimulationModel(design()), progress=lambda message: None)
    expected = _trace(reference, seed)
    assert len(set(map(str, expected))) > 5, "the design does next to nothing"
    found = _trace(_open(engine, SimulationModel(design())), seed)
    assert found == expected, f"{engine.name} differs from Amaranth's simulator, seed {seed}"


def check_random_designs(engine: SimulatorDef, directory: Path) -> None:
    """Registers, operators and memories at random give the results of Amaranth's simulator."""
    for seed in range(RANDOM_DESIGNS):
        _check_same(engine, lambda seed=seed: RandomDesign(seed), seed)  # type: ignore[misc]


def check_loops_through_bits(engine: SimulatorDef, directory: Path) -> None:
    """Vectors whose bits depend on each other without a loop settle."""
    _check_same(engine, Loopy, 1)


def check_no_registers(engine: SimulatorDef, directory: Path) -> None:
    """A design without a clock steps all the same."""
    with _open(engine, SimulationModel(Combinational())) as sim:
        sim.set("a", 255)
        sim.step(3)
        assert (sim.get("y"), sim.cycles) == (256, 3)


def check_other_clocks(engine: SimulatorDef, directory: Path) -> None:
    """A second clock domain is refused."""
    try:
        _open(engine, SimulationModel(TwoClocks()))
    except UnsupportedError:
        return
    raise AssertionError(f"{engine.name} opened a design with a clock that nothing drives")


def check_waveform(engine: SimulatorDef, directory: Path) -> None:
    """A waveform has the time and the ports of the run, or is refused; a path that cannot be written is refused."""
    path = directory / f"{engine.name}.vcd"
    try:
        with _open(engine, _everything(), path) as sim:
            sim.step(5)
    except UnsupportedError:
        return
    text = path.read_text()
    assert "$enddefinitions" in text
    assert " count " in text
    try:
        _open(engine, _everything(), directory / "none" / "run.vcd").close()
    except InputError:
        return
    except Tg2hdlError as error:
        raise AssertionError(f"expected InputError, not {type(error).__name__}") from error
    raise AssertionError("a waveform in a directory that is not there was not refused")
