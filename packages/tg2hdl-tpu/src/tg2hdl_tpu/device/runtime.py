"""Runs compiled kernels on tensors in external memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tg2hdl_ir import CapacityError, KernelIR, SimulationError, parse_kernel
from tg2hdl_ir.turns import compiles
from tg2hdl_tpu.bundle import Bundle, Region
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.code import DeviceProgram
from tg2hdl_tpu.device.compile import compile_kernel
from tg2hdl_tpu.device.emitter import EXTERNAL
from tg2hdl_tpu.device.image import GUARD, LANES, ROW_BYTES, ROWS, image
from tg2hdl_tpu.device.options import TinytpuOptions
from tg2hdl_tpu.instruction_checks import is_illegal
from tg2hdl_tpu.isa import FIELDS, Instruction, Trap, encode, fields_of
from tg2hdl_tpu.machine import Machine, Result
from tg2hdl_tpu.vector_ops import PARTS

__all__ = ["CONFIG", "LoadedKernel", "compiled"]

#: The machine of the device.
CONFIG = Config(lanes=LANES, imem_depth=1 << 15, xmem_rows=ROWS, float=True, functions=True, divide=True)
#: Rows of external memory of simulated hardware, for the tensors of one kernel.
_HARDWARE_ROWS = 1 << 16
_LIMIT = 1 << 40
_HEADER = "; options "
#: An instruction in place of one that is not needed: a program sets this register before it reads it.
_NOTHING = encode(Instruction("set", dst_reg=EXTERNAL))


class LoadedKernel:
    """A kernel and its options, as printed by `source`; programs are made for each set of variables."""

    def __init__(self, text: str) -> None:
        header, _, self.text = text.partition("\n")
        self.options = TinytpuOptions.parse(header.removeprefix(_HEADER))
        self.kernel = parse_kernel(self.text)
        self.seen: dict[tuple[int, int], int] = {}

    @staticmethod
    def source(kernel: KernelIR, options: TinytpuOptions) -> str:
        """Printed kernel with its options.

        Parameters
        ----------
        kernel : KernelIR
        options : TinytpuOptions
            Of the device.
        """
        return f"{_HEADER}{options}\n{kernel.format()}"

    @compiles
    def check(self) -> None:
        """Compile for the largest values of the variables, so that a refusal comes early."""
        compiled(self.text, tuple(v.high for v in self.kernel.variables))

    @compiles
    def run(self, buffers: Sequence[memoryview], values: Sequence[int]) -> Result:
        """Run once on buffers in slot order; those outside of the rows of external memory are copied there.

        Parameters
        ----------
        buffers : sequence of memoryview
            One for each of the kernel, of its size in bytes.
        values : sequence of int
            Of the variables, in their order.

        Raises
        ------
        SimulationError
            When the machine traps.
        """
        memory = image()
        metas = self.kernel.buffers
        starts: dict[int, int] = {}
        shared: set[int] = set()
        copies: list[tuple[memoryview, memoryview, bool]] = []
        for meta, buffer in zip(metas, buffers, strict=True):
            row = memory.row_of(buffer)
            if row is None:
                copy = memory.take(max(1, len(buffer)))
                copy[: len(buffer)] = buffer
                copies.append((buffer, copy, meta.is_output))
                row = memory.row_of(copy)
                assert row is not None
            elif meta.is_output and not memory.is_whole(buffer):
                shared.add(meta.idx)
            starts[meta.idx] = row
        sizes = {meta.idx: -(-len(b) // ROW_BYTES) for meta, b in zip(metas, buffers, strict=True)}
        steady = self._steady(tuple(values), starts)
        words = compiled(self.text, tuple(values), frozenset(steady), frozenset(shared))

        def place(slot: int, space: memoryview) -> None:
            at = memory.row_of(space)
            assert at is not None
            starts[slot], sizes[slot] = at, -(-len(space) // ROW_BYTES)

        held: dict[Hashable, dict[int, memoryview]] = {}
        unfinished: Hashable = None
        try:
            for slot, size in words.program.scratch:
                space = memory.take(size)
                copies.append((space, space, False))
                place(slot, space)
            cycles = 0
            for before in words.before:
                read = {slot for _, slot in before.program.slots}
                states = sorted((s, starts[s], n) for s, n in steady.items() if s in read)
                key: Hashable = (self.text, tuple(values), frozenset(steady), before.program.scratch, *states)
                kept = memory.kept.pop(key, None)  # while it is in use, nothing drops it
                made = kept is not None
                if kept is None:
                    kept = {slot: memory.take(size) for slot, size in before.program.scratch}
                for slot, space in kept.items():
                    place(slot, space)
                held[key] = kept
                if not made:
                    unfinished = key
                    cycles += self._run(before, starts, sizes, list(kept)).cycles
                    unfinished = None
            written = [m.idx for m in metas if m.is_output]
            result = self._run(words, starts, sizes, written)
        finally:
            for buffer, copy, is_output in copies:
                if is_output:
                    buffer[:] = copy[: len(buffer)]
                memory.give_back(copy)
            for key, kept in held.items():
                memory.keep(key, kept)
            if unfinished is not None:
                memory.drop_one(unfinished)
            for meta, buffer in zip(metas, buffers, strict=True):
                if meta.is_output:
                    memory.wrote(buffer)
        return replace(result, cycles=result.cycles + cycles)

    def _steady(self, values: tuple[int, ...], starts: dict[int, int]) -> dict[int, int]:
        """Slots of tensors that have been here before with the same content, and the numbers of these contents."""
        memory, found = image(), {}
        for slot in compiled(self.text, values).program.factors:
            state, place = memory.state(starts[slot]), (slot, starts[slot])
            if state is not None:
                if self.seen.get(place) == state:
                    found[slot] = state
                self.seen[place] = state
        return found

    def _run(
        self, words: _Words, starts: dict[int, int], sizes: dict[int, int], written: list[int]
    ) -> Result:
        if self.options.engine == "isa":
            _machine().name = self.kernel.name
            result = words.run(starts)
        else:
            result = _on_hardware(self.options.engine, words.program, starts, sizes, written)
        if result.trap is not Trap.NONE:
            raise SimulationError(
                f"the tensor processor stopped with {result.trap.name} at instruction {result.pc}",
                where=self.kernel.where,
                hint="an index of data outside of its tensor does that; otherwise please report the kernel",
            )
        return result


@lru_cache(maxsize=4096)
def compiled(
    text: str,
    values: tuple[int, ...],
    steady: frozenset[int] = frozenset(),
    shared: frozenset[int] = frozenset(),
) -> _Words:
    """Program of a printed kernel for the values of its variables.

    Parameters
    ----------
    text : str
        A printed kernel.
    values : tuple of int
        Of its variables, in their order.
    steady : frozenset of int
        Slots of tensors that do not change.
    shared : frozenset of int
        Slots of views, whose last row has elements of others.
    """
    kernel = parse_kernel(text)
    variables = {v.name: x for v, x in zip(kernel.variables, values, strict=True)}
    return _Words(compile_kernel(kernel, CONFIG, variables, steady, shared))


#: Fields that make no word illegal.
_PLACES = sum(((1 << FIELDS[name].width) - 1) << FIELDS[name].low for name in ("dst", "a", "b"))


@lru_cache(maxsize=4096)
def _is_illegal(word: int) -> bool:
    return is_illegal(word, CONFIG)


class _Words:
    """A program in the machine's words, whose buffers are placed before each run."""

    def __init__(self, program: DeviceProgram) -> None:
        self.program = program
        self.words = [encode(i) for i in program.instructions]
        self.illegal = np.array([_is_illegal(word & ~_PLACES) for word in self.words], np.uint8)
        if self.illegal.any():
            bad = program.instructions[int(self.illegal.argmax())]
            raise AssertionError(f"the machine cannot execute {bad}")
        self.before = tuple(_Words(p) for p in program.before)

    def run(self, starts: dict[int, int]) -> Result:
        machine = _machine()
        machine.load_words(_placed(self.program, self.words, starts), self.illegal)
        machine.vmem[: len(self.program.constants)] = self.program.constants
        return machine.run(limit=_LIMIT)


def _placed(program: DeviceProgram, words: Iterable[int], starts: dict[int, int]) -> list[int]:
    found, field = list(words), FIELDS["b"]
    mask = (1 << field.width) - 1
    for at, slot in program.slots:
        row = (found[at] >> field.low) + starts[
            slot
        ] & mask  # of a negative place, the carry belongs to no field
        found[at] = found[at] & ~(mask << field.low) | row << field.low
    for at in reversed(program.pairs):
        first, second = fields_of(found[at - 1]), fields_of(found[at])
        count = first["count"] + second["count"]
        if second["b"] == first["b"] + first["count"] and count < 1 << FIELDS["count"].width:
            found[at - 1] += second["count"] << FIELDS["count"].low
            found[at] = _NOTHING
    return found


@cache
def _machine() -> Machine:
    machine = Machine(CONFIG)
    machine.xmem = image().rows
    return machine


@cache
def _hardware(engine: str, parts: frozenset[str]) -> Any:
    """Machine with the optional parts that a program uses."""
    from tg2hdl_tpu.hardware.simulate import Hardware

    has: dict[str, Any] = {part: part in parts for part in PARTS}
    return Hardware(replace(CONFIG, xmem_rows=_HARDWARE_ROWS, **has), engine=engine)


def _on_hardware(
    engine: str, program: DeviceProgram, starts: dict[int, int], sizes: dict[int, int], written: list[int]
) -> Result:
    """Run on simulated hardware, into whose memory the rows of the buffers are copied."""
    total = sum(sizes.values())
    if total + 2 * GUARD > _HARDWARE_ROWS:
        raise CapacityError(
            f"{total} rows of tensors; the simulated hardware has {_HARDWARE_ROWS}", hint="use engine=isa"
        )
    memory = image().rows
    places, at = {}, GUARD
    for slot, size in sizes.items():
        places[slot] = at
        at += size
    regions = [Region("vmem", 0, program.constants)] if len(program.constants) else []
    regions += [Region("xmem", places[s], memory[starts[s] : starts[s] + n]) for s, n in sizes.items()]
    words = _placed(program, [encode(i) for i in program.instructions], places)
    hardware = _hardware(engine, program.parts)
    bundle = Bundle(hardware.config, tuple(words), tuple(regions))
    result: Result = hardware.run_bundle(bundle, limit=1 << 40)
    for slot in written:
        count = sizes[slot]
        rows = hardware.simulation.read_memory("xmem", places[slot], count)
        memory[starts[slot] : starts[slot] + count] = (
            np.ascontiguousarray(rows).view(np.int32).reshape(count, LANES)
        )
    return result
