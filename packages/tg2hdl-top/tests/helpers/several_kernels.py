"""Programs of several kernels that read and write buffers in any order, for tests of sequencers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from amaranth.sim import Simulator

from tg2hdl_ir import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRValue,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramIR,
)
from tg2hdl_top import Design, TopModule
from tg2hdl_top.testing import I8, I32, buffer, gemv

Place = tuple[int, int, int]
"""Elements of a buffer, and the factor and offset of the steps that give an element."""


def moving(
    size: int, sources: Sequence[Place], target: Place, op: str = "add", name: str = "moving"
) -> KernelIR:
    """``out[a * i + b] = op(in1[a1 * i + b1], in2[...])`` over `size` steps; places are (depth, a, b)."""
    i = IRCounter(size, 0, 0)

    def at(place: Place) -> IRValue:
        _, factor, offset = place
        scaled = IROp("mul", I32, (i, IRConst(factor, I32)))
        return IROp("add", I32, (scaled, IRConst(offset, I32)))

    loads = [IRBufLoad(n, at(place), I32) for n, place in enumerate(sources, 1)]
    operands: tuple[IRValue, ...] = (*loads, IRConst(3, I32)) if len(loads) == 1 else tuple(loads)
    store = IRBufStore(0, at(target), IROp(op, I32, operands), I32)
    root = LoopIR.from_items((LoopIR.from_items((*loads, store), counter=i),))
    depths = [target[0], *(place[0] for place in sources)]
    return KernelIR(tuple(BufferMeta(n, d, I32, n == 0) for n, d in enumerate(depths)), root, name=name)


def chain(*kernels: KernelIR, size: int) -> ProgramIR:
    """Program in which each kernel reads what the one before has written."""
    buffers = [buffer("x", "input", size=size)]
    buffers += [buffer(f"t{n}", "temporary", size=size) for n in range(len(kernels) - 1)]
    buffers.append(buffer("y", "output", size=size))
    calls = tuple(KernelCall(kernel, (n + 1, n)) for n, kernel in enumerate(kernels))
    return ProgramIR("chain", tuple(buffers), calls, (len(kernels),))


STEPS = 24
FORWARD, BACKWARD = (STEPS, 1, 0), (STEPS, -1, STEPS - 1)
EVEN, ODD = (2 * STEPS, 2, 0), (2 * STEPS, 2, 1)


def stream() -> ProgramIR:
    """Three kernels that go through a buffer in the same order."""
    return chain(*(moving(STEPS, [FORWARD], FORWARD, op) for op in ("mul", "add", "max")), size=STEPS)


def reversed_stream() -> ProgramIR:
    """The second kernel needs last what the first makes first."""
    return chain(moving(STEPS, [FORWARD], FORWARD), moving(STEPS, [BACKWARD], FORWARD), size=STEPS)


def fan_out() -> ProgramIR:
    """Two kernels read a buffer at the same time, and a third one what they make."""
    names = [("x", "input"), ("t", "temporary"), ("u", "temporary"), ("v", "temporary"), ("y", "output")]
    buffers = tuple(buffer(name, role, size=STEPS) for name, role in names)
    calls = (
        KernelCall(moving(STEPS, [FORWARD], FORWARD, "mul"), (1, 0)),
        KernelCall(moving(STEPS, [FORWARD], FORWARD, "add"), (2, 1)),
        KernelCall(moving(STEPS, [FORWARD], BACKWARD, "max"), (3, 1)),
        KernelCall(moving(STEPS, [FORWARD, BACKWARD], FORWARD), (4, 2, 3)),
    )
    return ProgramIR("fan_out", buffers, calls, (4,))


def two_writers() -> ProgramIR:
    """Two kernels write one buffer, and the first of their inputs is written again after it was read."""
    buffers = (
        buffer("x", "input", size=STEPS),
        buffer("y", "output", size=2 * STEPS),
        buffer("t", "temporary", size=STEPS),
    )
    calls = (
        KernelCall(moving(STEPS, [FORWARD], FORWARD, "mul"), (2, 0)),
        KernelCall(moving(STEPS, [FORWARD], EVEN), (1, 2)),
        KernelCall(moving(STEPS, [FORWARD], BACKWARD, "max"), (2, 0)),
        KernelCall(moving(STEPS, [BACKWARD], ODD), (1, 2)),
    )
    return ProgramIR("two_writers", buffers, calls, (1,))


def layers() -> ProgramIR:
    """Two products of a matrix and a vector over the same multiplier, and a kernel without products."""
    rng = np.random.default_rng(3)
    weights = [rng.integers(-128, 128, rows * depth).astype(np.int8) for rows, depth in ((12, 10), (5, 12))]
    narrow = moving(12, [(12, 1, 0)], (12, 1, 0), "and")
    i = IRCounter(12, 0, 0)
    load = IRBufLoad(1, i, I32)
    clipped = IROp("cast", I8, (IROp("and", I32, (load, IRConst(127, I32))),))
    store = IRBufStore(0, i, clipped, I8)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    narrow = KernelIR((BufferMeta(0, 12, I8, True), BufferMeta(1, 12, I32, False)), root, name="narrow")
    buffers = (
        buffer("x", "input", size=10, dtype=I8),
        buffer("w1", "weight", weights[0], 120, I8),
        buffer("s", "temporary", size=12),
        buffer("h", "temporary", size=12, dtype=I8),
        buffer("w2", "weight", weights[1], 60, I8),
        buffer("y", "output", size=5),
    )
    calls = (
        KernelCall(gemv(12, 10), (2, 1, 0)),
        KernelCall(narrow, (3, 2)),
        KernelCall(gemv(5, 12), (5, 4, 3)),
    )
    return ProgramIR("layers", buffers, calls, (5,))


PROGRAMS = {f.__name__: f for f in (stream, reversed_stream, fan_out, two_writers, layers)}


def inputs_of(program: ProgramIR, seed: int = 0) -> dict[str, Any]:
    """Random values of all inputs."""
    rng = np.random.default_rng(seed)
    return {
        b.name: rng.integers(-100, 100, b.depth).astype(b.dtype.numpy())
        for b in program.buffers
        if b.role == "input"
    }


def two_products() -> ProgramIR:
    """Two products of a matrix and a vector that do not wait for each other."""
    rng = np.random.default_rng(3)
    weights = [rng.integers(-128, 128, 60).astype(np.int8) for _ in range(2)]
    buffers = (
        buffer("x", "input", size=10, dtype=I8),
        *(buffer(f"w{n}", "weight", w, 60, I8) for n, w in enumerate(weights)),
        buffer("y", "output", size=6),
        buffer("z", "output", size=6),
    )
    calls = (KernelCall(gemv(6, 10), (3, 1, 0)), KernelCall(gemv(6, 10), (4, 2, 0)))
    return ProgramIR("two_products", buffers, calls, (3, 4))


class Move(NamedTuple):
    """``target[±i] = op(first[±i], second[±i])``, or with the constant 3; `backward` has the target first."""

    target: int
    reads: tuple[int, ...]
    backward: tuple[bool, ...]
    op: str


class RandomMoves(NamedTuple):
    """Moves between buffers of one size; the first is the input."""

    size: int
    buffers: int
    moves: tuple[Move, ...]

    def program(self) -> ProgramIR:
        """A kernel for each move."""
        places = [(self.size, 1, 0), (self.size, -1, self.size - 1)]
        buffers = [buffer("x", "input", size=self.size)]
        buffers += [buffer(f"t{n}", "temporary", size=self.size) for n in range(self.buffers - 1)]
        calls = []
        for n, move in enumerate(self.moves):
            target, *reads = (places[backward] for backward in move.backward)
            kernel = moving(self.size, reads, target, move.op, f"k{n}")
            calls.append(KernelCall(kernel, (move.target, *move.reads)))
        outputs = tuple(dict.fromkeys(move.target for move in self.moves))
        return ProgramIR("random", tuple(buffers), tuple(calls), outputs)

    def in_numpy(self, x: Any) -> list[Any]:
        """The outputs by numpy alone."""
        found = {0: x}
        for move in self.moves:
            target, *reads = (slice(None, None, -1 if backward else 1) for backward in move.backward)
            operands = [found[n][order] for n, order in zip(move.reads, reads, strict=True)]
            operands += [np.full(self.size, 3, np.int32)] * (len(operands) == 1)
            found[move.target] = _NUMPY[move.op](*operands)[target]
        return [found[n] for n in dict.fromkeys(move.target for move in self.moves)]


_NUMPY = {"add": np.add, "max": np.maximum, "sub": np.subtract, "mul": np.multiply}


def random_moves(rng: np.random.Generator, *, writes_input: bool = True) -> RandomMoves:
    """Kernels that read and write buffers in any direction, each buffer any number of times."""
    size = int(rng.integers(5, 20))
    count = int(rng.integers(2, 6))
    buffers = 1 + int(rng.integers(1, 4))
    written, moves = [0], []
    for n in range(count):
        target = int(rng.integers(0 if writes_input else 1, buffers)) if n else 1
        reads = [int(rng.choice(written)) for _ in range(int(rng.integers(1, 3)))]
        if len(set(reads)) < len(reads) or target in reads:
            reads = [r for r in dict.fromkeys(reads) if r != target] or [n for n in written if n != target][
                :1
            ]
        backward = tuple(bool(rng.integers(2)) for _ in range(len(reads) + 1))
        op = str(rng.choice(["add", "max", "sub", "mul"]))
        if not reads:
            continue
        moves.append(Move(target, tuple(reads), backward, op))
        written = sorted({*written, target})
    return RandomMoves(size, buffers, tuple(moves))


def random_program(rng: np.random.Generator, *, writes_input: bool = True) -> ProgramIR:
    """The program of random moves."""
    return random_moves(rng, writes_input=writes_input).program()


def check_restart(design: Design) -> None:
    """A start in the cycle of done begins the next run."""
    top, dones, interval = TopModule(design), [], design.timeline().interval

    async def bench(ctx: Any) -> None:
        for cycle in range(3 * interval + 2):
            ctx.set(top.start, cycle in (0, interval))
            if ctx.get(top.done):
                dones.append(cycle)
            await ctx.tick()

    sim = Simulator(top)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    assert dones == [interval, 2 * interval]
