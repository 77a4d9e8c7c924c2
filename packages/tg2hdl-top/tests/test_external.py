"""Weights in memory outside the chip: numpy's bits under any stall of the memory, in the predicted cycles."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tg2hdl_ir import CapacityError, InputError, KernelCall, ProgramIR, evaluate_program, hookimpl, registry
from tg2hdl_top import CompileOptions, Design, MemoryModel, SdramModel, TopModule, compile_program
from tg2hdl_top.external.budget import larger_part, too_large
from tg2hdl_top.external.image import describe_image, memory_image
from tg2hdl_top.external.memory_model import ExternalMemory
from tg2hdl_top.external.sdram.rules import SdramRules
from tg2hdl_top.streaming import packed_words
from tg2hdl_top.testing import I8, I32, buffer, elementwise, gemv, simulate

SIZES = (18, 16, 18)
MODELS = (
    MemoryModel(latency=5, refresh_every=60, refresh_cycles=7, burst=8, outstanding=2),
    MemoryModel(bits=64, latency=1, refresh_cycles=0, burst=1, outstanding=3),
    MemoryModel(bits=16, latency=9, cycles_per_beat=2, refresh_every=9, refresh_cycles=4, outstanding=1),
)


class Abacus(ExternalMemory):
    bits, alignment, beats_per_cycle = 8, 1, 1


def network(sizes: tuple[int, ...] = SIZES) -> tuple[ProgramIR, list[Any]]:
    """Products with matrices of bytes, one after the other; the sums are not narrowed."""
    rng = np.random.default_rng(1)
    matrices = [rng.integers(-128, 128, (b, a)).astype(np.int8) for a, b in pairwise(sizes)]
    buffers = [buffer("x", "input", size=sizes[0], dtype=I8)]
    buffers += [buffer(f"w{n}", "weight", w.reshape(-1), w.size, I8) for n, w in enumerate(matrices)]
    first = len(buffers)
    roles = ["temporary"] * (len(matrices) - 1) + ["output"]
    buffers += [
        buffer(f"y{n}", role, size=len(w)) for n, (w, role) in enumerate(zip(matrices, roles, strict=True))
    ]
    calls = []
    for n, w in enumerate(matrices):
        kernel = gemv(*w.shape, vector=I8 if n == 0 else I32)
        calls.append(KernelCall(kernel, (first + n, 1 + n, 0 if n == 0 else first + n - 1)))
    return ProgramIR("network", tuple(buffers), tuple(calls), (first + len(matrices) - 1,)), matrices


def expected(matrices: list[Any], x: Any) -> Any:
    """By numpy alone."""
    for w in matrices:
        x = (w.astype(np.int64) @ x).astype(np.int32)
    return x


def options(bits: int = 2100, **further: Any) -> CompileOptions:
    return CompileOptions(**({"multipliers": 4, "weights": "external", "on_chip_bits": bits} | further))


PIPELINED = "wishbone-pipelined"
X = np.random.default_rng(2).integers(-128, 128, SIZES[0]).astype(np.int8)


@pytest.mark.parametrize(
    ("port", "number"),
    [("axi4", 0), ("axi4", 1), ("axi4", 2), ("wishbone", 0), *((PIPELINED, n) for n in range(3))],
)
def test_bits_and_cycles(port: str, number: int):
    program, matrices = network()
    model = MODELS[number]
    design = compile_program(program, options(memory_port=port, memory=model))
    assert design.external is not None
    assert len(design.external.tiles) > 6
    assert len(design.core_plans) == 2
    np.testing.assert_array_equal(evaluate_program(design.program, {"x": X})["y1"], expected(matrices, X))
    (found,), cycles = simulate(design, {"x": X})
    np.testing.assert_array_equal(found, expected(matrices, X))
    assert cycles == design.predicted_cycles()


@pytest.mark.parametrize("port", ["axi4", PIPELINED])
def test_tiles_that_do_not_divide_the_outputs(port: str):
    program, matrices = network((18, 29, 23))
    design = compile_program(program, options(6000, memory_port=port))
    assert design.external is not None
    assert len({t.array for t in design.external.tiles}) == len(design.core_plans) == 2
    # 29 and 23 are prime: with equal tiles alone each would have one output.
    assert len(design.external.tiles) < 29
    (found,), cycles = simulate(design, {"x": X})
    np.testing.assert_array_equal(found, expected(matrices, X))
    assert cycles == design.predicted_cycles()


def test_one_weight_goes_out_and_two_stay():
    program, matrices = network((18, 60, 20, 4))
    design = compile_program(program, options(17_000, multipliers=1, target="ice40"))
    assert design.external is not None
    assert {t.array for t in design.external.tiles} == {a.memory.name for a in design.arrays}
    text = design.format()
    assert "w0: on the chip, 8,640 bits: the external part is larger" in text
    assert "w1: external, 9,600 bits in 5 tiles of 1,920 bits, 2 of them on the chip" in text
    (found,), cycles = simulate(design, {"x": X})
    np.testing.assert_array_equal(found, expected(matrices, X))
    assert cycles == design.predicted_cycles()


def test_all_stay_where_all_fit():
    program, _ = network()
    design = compile_program(program, options(100_000))
    assert not design.streams_weights
    assert (
        design.predicted_cycles()
        == compile_program(program, CompileOptions(multipliers=4)).predicted_cycles()
    )
    assert "w0: on the chip, 2,304 bits: all fits" in design.format()
    with pytest.raises(InputError, match="the design has no weights in external memory"):
        memory_image(design)


def test_equal_layers_share_a_core_and_its_tiles():
    program, matrices = network((18, 18, 18, 18))
    program = ProgramIR(
        program.name,
        program.buffers,
        tuple(KernelCall(gemv(18, 18, vector=I32), call.buffers) for call in program.calls),
        program.outputs,
    )
    x = X[:18].astype(np.int32)
    buffers = (buffer("x", "input", size=18), *program.buffers[1:])
    program = ProgramIR(program.name, buffers, program.calls, program.outputs)
    design = compile_program(program, options(20_000))
    # The third weight is on the chip, so that its kernel is another one.
    assert design.cores == (0,) * (len(design.cores) - 1) + (1,)
    assert design.external is not None
    assert len({t.array for t in design.external.tiles}) == 1
    (found,), cycles = simulate(design, {"x": x})
    np.testing.assert_array_equal(found, expected(matrices, x))
    assert cycles == design.predicted_cycles()


def test_saved_and_loaded():
    program, matrices = network()
    design = Design.from_json(compile_program(program, options(memory=MODELS[0])).to_json())
    (found,), cycles = simulate(design, {"x": X})
    np.testing.assert_array_equal(found, expected(matrices, X))
    assert cycles == design.predicted_cycles()


def test_image_as_described():
    """The weights, taken out of the image by what the description says alone."""
    program, matrices = network()
    design = compile_program(program, options(memory=MODELS[0]))
    assert design.external is not None
    described, image = describe_image(design), memory_image(design).tobytes()
    assert described["bytes"] == len(image)
    found: dict[str, list[Any]] = {}
    for tile in described["tiles"]:
        dims, split, bits = tile["dims"], tile["split"], tile["element_bits"]
        rows = [-(-d // s) for d, s in zip(dims, split, strict=True)]
        elements = []
        for index in np.ndindex(*dims):
            word = np.ravel_multi_index([i // s for i, s in zip(index, split, strict=True)], rows)
            lane = np.ravel_multi_index([i % s for i, s in zip(index, split, strict=True)], split)
            start = tile["offset"] + int(word) * tile["word_bytes"]
            value = int.from_bytes(image[start : start + tile["word_bytes"]], "little") >> (int(lane) * bits)
            value &= (1 << bits) - 1
            elements.append(value - (value >> (bits - 1) << bits))
        found.setdefault(tile["tile"].split(".")[0], []).extend(elements)
    # The tiles are rows of the matrices, in order.
    for n, w in enumerate(matrices):
        np.testing.assert_array_equal(found[f"w{n}"], w.reshape(-1))


class Slave:
    """An AXI memory by the rules of the bus, with random pauses of every signal."""

    def __init__(self, ctx: Any, bus: Any, image: bytes, seed: int, refused: int | None = None) -> None:
        self.ctx, self.bus, self.image, self.random = ctx, bus, image, random.Random(seed)
        self.queue: list[tuple[int, bool]] = []
        self.refused = refused
        self.beats = 0
        self.held = False

    def settle(self) -> None:
        """Drive the signals of a cycle."""
        bus, ctx = self.bus, self.ctx
        ctx.set(bus.arready, self.random.random() < 0.5)
        if self.queue and (self.held or self.random.random() < 0.6):
            address, last = self.queue[0]
            ctx.set(bus.rdata, int.from_bytes(self.image[address : address + 4], "little"))
            ctx.set(bus.rlast, last)
            ctx.set(bus.rresp, 2 if self.beats == self.refused else 0)
            ctx.set(bus.rvalid, 1)
        else:
            ctx.set(bus.rvalid, 0)

    def sample(self) -> None:
        """What the edge at the end of the cycle transfers."""
        bus, ctx = self.bus, self.ctx
        if ctx.get(bus.arvalid) and ctx.get(bus.arready):
            first, beats = ctx.get(bus.araddr) - 4096, ctx.get(bus.arlen) + 1
            assert first // 4096 == (first + 4 * beats - 1) // 4096, "a burst crosses 4 kB"
            self.queue += [(first + 4 * n, n == beats - 1) for n in range(beats)]
        self.held = bool(ctx.get(bus.rvalid))
        if self.held and ctx.get(bus.rready):
            self.queue.pop(0)
            self.beats += 1
            self.held = False


class PipelinedSlave:
    """A Wishbone memory by the rules of pipelined cycles: random stalls, and answers after random times, in order."""

    def __init__(self, ctx: Any, bus: Any, image: bytes, seed: int, refused: int | None = None) -> None:
        self.ctx, self.bus, self.image, self.random = ctx, bus, image, random.Random(seed)
        self.queue: list[int] = []
        self.refused = refused
        self.beats = 0

    def settle(self) -> None:
        """Drive the signals of a cycle."""
        bus, ctx = self.bus, self.ctx
        ctx.set(bus.stall, self.random.random() < 0.3)
        answers = bool(self.queue) and self.random.random() < 0.6
        ctx.set(bus.ack, answers and self.beats != self.refused)
        ctx.set(bus.err, answers and self.beats == self.refused)
        if answers:
            start = self.queue.pop(0)
            ctx.set(bus.dat_r, int.from_bytes(self.image[start : start + 4], "little"))
            self.beats += 1

    def sample(self) -> None:
        """What the edge at the end of the cycle transfers."""
        bus, ctx = self.bus, self.ctx
        if ctx.get(bus.cyc) and ctx.get(bus.stb) and not ctx.get(bus.stall):
            assert not ctx.get(bus.we)
            assert ctx.get(bus.sel) == 15
            self.queue.append(4 * ctx.get(bus.adr) - 4096)


class Chip:
    """An SDRAM that checks its rules."""

    def __init__(self, ctx: Any, bus: Any, image: bytes, seed: int, refused: int | None = None) -> None:
        model = SdramModel(columns=64, initialized=True)
        words = np.frombuffer(image, "<u2").tolist()
        self.ctx, self.bus, self.rules = ctx, bus, SdramRules(model, dict(enumerate(words, 4096 // 2)))

    def settle(self) -> None:
        """Drive the data pins."""
        self.ctx.set(self.bus.dq_i, self.rules.data())

    def sample(self) -> None:
        """Take the command."""
        get, bus = self.ctx.get, self.bus
        assert not get(bus.dq_oe)
        code = get(bus.ras_n) << 2 | get(bus.cas_n) << 1 | get(bus.we_n)
        self.rules.step(code, get(bus.ba), get(bus.a))


def run_beside(
    design: Design, x: Any, seeds: list[int], refused: int | None = None, base: int = 4096, slave: Any = Slave
) -> list[Any]:
    """Results of a run for each seed; None where it does not end."""
    top, found = TopModule(design), []
    image = memory_image(design).tobytes()

    async def bench(ctx: Any) -> None:
        ctx.set(top.memory_base, base)
        memory = next(m for m in design.buffers if m.name == "x")
        write = top.ext_write_ports[memory.slots[0]]
        packed = memory.layout.pack(x, memory.dtype)
        for address, word in enumerate(packed_words(packed, memory.dtype.bit_width)):
            ctx.set(write["wen"], 1)
            ctx.set(write["waddr"], address)
            ctx.set(write["wdata"], word)
            await ctx.tick()
        ctx.set(write["wen"], 0)
        for seed in seeds:
            assert top.memory_port is not None
            beside = slave(ctx, getattr(top, top.memory_port.name), image, seed, refused)
            ctx.set(top.start, 1)
            for _ in range(2000):
                beside.settle()
                done = ctx.get(top.done)
                beside.sample()
                await ctx.tick()
                ctx.set(top.start, 0)
                if done:
                    break
            if not done:
                assert ctx.get(top.memory_failed)
                found.append(None)
                continue
            number = design.program.outputs[0]
            read, result = top.output_rports[design.memory(number).slots[0]], design.memory(number)
            packed = np.zeros((result.layout.words, result.layout.lanes), np.uint64)
            for address in range(result.layout.words):
                ctx.set(read["raddr"], address)
                await ctx.tick().repeat(result.read_latency)
                bits = result.dtype.bit_width
                word = ctx.get(read["rdata"])
                packed[address] = [
                    (word >> (n * bits)) & ((1 << bits) - 1) for n in range(result.layout.lanes)
                ]
            found.append(result.layout.unpack(packed, result.dtype))

    simulator = Simulator(top)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def test_any_stall_gives_the_same_bits():
    program, matrices = network()
    design = compile_program(program, options(memory=MemoryModel(burst=8, outstanding=3)))
    for found in run_beside(design, X, [1, 2, 3]):
        np.testing.assert_array_equal(found, expected(matrices, X))


def test_any_stall_of_pipelined_cycles_gives_the_same_bits():
    program, matrices = network()
    design = compile_program(program, options(memory_port=PIPELINED, memory=MemoryModel(burst=8)))
    for found in run_beside(design, X, [1, 2, 3], slave=PipelinedSlave):
        np.testing.assert_array_equal(found, expected(matrices, X))
    assert run_beside(design, X, [1], refused=50, slave=PipelinedSlave) == [None]


def test_a_chip_that_checks_its_rules():
    program, matrices = network()
    model = SdramModel(columns=64, initialized=True)
    design = compile_program(program, options(memory_port="sdram", memory=model))
    for found in run_beside(design, X, [1], slave=Chip):
        np.testing.assert_array_equal(found, expected(matrices, X))
    with pytest.raises(
        CapacityError,
        match="the weights take 576 bytes outside the chip, and the memory has 512\n"
        "  hint: choose a larger memory, or make the model smaller",
    ):
        compile_program(program, options(memory_port="sdram", memory=replace(model, rows=1)))


def test_a_refused_read_never_becomes_a_result():
    program, _ = network((18, 40))
    design = compile_program(program, options(memory=MemoryModel(burst=8)))
    assert run_beside(design, X, [1], refused=50) == [None]
    # Bursts of 32 bytes begin at multiples of 32.
    assert run_beside(design, X, [1], base=4096 + 16) == [None]


def test_refusals():
    program, _ = network()
    with pytest.raises(InputError, match="needs to know the memory on the chip"):
        compile_program(program, CompileOptions(weights="external"))
    with pytest.raises(InputError, match="starts kernels at fixed times"):
        compile_program(program, options(schedule="overlap"))
    with pytest.raises(InputError, match="no memory port is named 'abacus'"):
        compile_program(program, options(memory_port="abacus"))
    with pytest.raises(
        InputError, match="is not a memory behind the port 'axi4'\n  hint: give a MemoryModel"
    ):
        compile_program(program, options(memory=Abacus()))
    with pytest.raises(InputError, match="bursts of 3 beats"):
        MemoryModel(burst=3)
    with pytest.raises(CapacityError) as caught:
        compile_program(network((2000, 4))[0], options(10_000))
    text = str(caught.value)
    assert "55,296 bits are needed on the chip even with the smallest tiles, and there are 10,000" in text
    assert "w0 (weight): 64,000 bits" in text
    assert "inputs, outputs and activations stay on the chip: 18,432 bits in whole blocks" in text
    assert "choose a part with at least 55,296 bits" in text
    # The figure is exact: so much suffices, and nothing less.
    assert compile_program(network((2000, 4))[0], options(55_296)).streams_weights
    with pytest.raises(CapacityError, match="55,296 bits are needed"):
        compile_program(network((2000, 4))[0], options(55_295))


@dataclass(frozen=True)
class Slow(MemoryModel):
    """A memory of a plugin."""

    latency: int = 40


def test_a_design_with_the_memory_of_a_plugin_is_read_back():
    definition = replace(registry().memory_port("axi4"), name="slow", model=Slow)

    class Plugin:
        tg2hdl_memory_ports = staticmethod(hookimpl(lambda: [definition]))

    with registry().extended(Plugin):
        design = compile_program(network()[0], options(memory_port="slow", memory=Slow(latency=50)))
        text = design.to_json()
        found = Design.from_json(text)
        assert found.external is not None
        assert found.external.model == Slow(latency=50)
        assert found.to_json() == text
    with pytest.raises(
        InputError, match=r"test_external:Slow' is not of tg2hdl_ir, tg2hdl_lower, tg2hdl_top"
    ):
        Design.from_json(text)


def test_activations_that_do_not_fit_are_refused_with_figures():
    """They are never outside: the error says what they take, what there is, and a part that has it."""
    size = 40_000
    buffers = (
        buffer("x", "input", size=size, dtype=I8),
        buffer("t", "temporary", size=size),
        buffer("y", "output", size=size, dtype=I32),
    )
    calls = (
        KernelCall(elementwise("mul", 1, size), (1, 0)),
        KernelCall(elementwise("add", 1, size), (2, 1)),
    )
    buffers = (replace(buffers[0], dtype=I32), *buffers[1:])
    program = ProgramIR("wide", buffers, calls, (2,))
    with pytest.raises(CapacityError) as caught:
        compile_program(program, options(500_000, target="ecp5"))
    needed = 3 * -(-size * 32 // 18432) * 18432
    text = str(caught.value)
    assert (
        f"{needed:,} bits are needed on the chip even with the smallest tiles, and there are 500,000" in text
    )
    assert f"inputs, outputs and activations stay on the chip: {needed:,} bits in whole blocks" in text
    assert "t (temporary): 1,280,000 bits" in text
    parts = {t.name: t.bram * t.bram_bits for t in registry().targets() if t.family == "ecp5"}
    assert max(parts.values()) < needed
    assert "(ecp5-85k, the largest known one of ecp5, has 3,833,856)" in text
    small, _ = network((18, 70))
    for multipliers, fewer in ((1, False), (4, True)):
        design = compile_program(small, CompileOptions(multipliers=multipliers))
        text = str(too_large(design, 40_000, 30_000))
        assert "the memories take 40,000 bits in whole blocks, and there are 30,000" in text
        assert ("compile with fewer multipliers" in text) == fewer
        assert "choose a part with at least 40,000 bits of memory" in text
    assert "such as ecp5-45k (1,990,656)" in larger_part(options(target="ecp5"), 1_900_000)
