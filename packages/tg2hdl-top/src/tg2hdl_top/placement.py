"""Placement: lanes of each kernel, layout and element type of each shared buffer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRBufStore, KernelIR
from tg2hdl_ir.passes.accumulators import accumulator_ranges
from tg2hdl_ir.passes.axes import analyze_axes
from tg2hdl_ir.passes.ranges import Interval, RangeAnalysis, bits_for
from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import HardwarePlan, Layout, plan_kernel
from tg2hdl_lower.binding import recurrence_latency
from tg2hdl_lower.lanes import (
    Access,
    accesses,
    candidate_lanes,
    explicit_lanes,
    moving_lanes,
    multiplications,
    packed_layouts,
    split_for_layouts,
    words_per_step,
)
from tg2hdl_lower.memories import element_ranges, read_ports
from tg2hdl_top.options import CompileOptions

__all__ = ["place_program"]

MAX_MULTIPLEXED = 128
"""Elements in front of all lane multiplexers of a kernel's access, above which another layout is sought."""


@dataclass
class _Buffer:
    """What earlier kernels decided about a buffer: its layout, and who relies on it."""

    layout: Layout
    users: list[_User] = field(default_factory=list)


@dataclass(frozen=True)
class _User:
    """A placed kernel as one of its buffers sees it."""

    found: tuple[Access, ...]
    slot: int
    lanes: dict[int, int]
    interval: int

    def accepts(self, layout: Layout, ports: int) -> bool:
        """Whether another layout of the buffer would not slow the kernel down."""
        moving = moving_lanes(self.found, self.lanes, layout)
        if moving > 1 and moving * layout.lanes > MAX_MULTIPLEXED:
            return False
        words = words_per_step(self.found, self.lanes, {self.slot: layout})
        return all(-(-n // (1 if store else ports)) <= self.interval for (_, store), n in words.items())


@dataclass(frozen=True)
class _Choice:
    kernel: KernelIR
    lanes: dict[int, int]
    layouts: dict[int, Layout]
    interval: int


def place_program(program: ProgramIR, options: CompileOptions) -> list[HardwarePlan]:
    """Plan every kernel call.

    A buffer gets its layout from the kernel that needs several lanes of it; kernels that touch it one element at a
    time follow.  Kernels with more multiplications choose first.
    """
    storage = _storage(program)
    buffers: dict[int, _Buffer] = {}
    choices: dict[int, _Choice] = {}
    for number in sorted(range(len(program.calls)), key=lambda n: -_work(program.calls[n].kernel)):
        call = program.calls[number]
        slots = {meta.idx: n for meta, n in zip(call.kernel.buffers, call.buffers, strict=True)}
        narrow = {idx: storage[n] for idx, n in slots.items()}
        known = {idx: buffers[n] for idx, n in slots.items() if n in buffers}
        choice = _Placement(call.kernel, known, narrow, options).choose()
        choices[number] = choice
        found = accesses(choice.kernel)
        for idx, n in slots.items():
            mine = tuple(a for a in found if a.buffer == idx)
            entry = buffers.setdefault(n, _Buffer(choice.layouts[idx]))
            entry.layout = choice.layouts[idx]
            entry.users.append(_User(mine, idx, choice.lanes, choice.interval))

    def plan(number: int, shared: Collection[str] = ()) -> HardwarePlan:
        call, choice = program.calls[number], choices[number]
        slots = {meta.idx: n for meta, n in zip(call.kernel.buffers, call.buffers, strict=True)}
        layouts = {idx: buffers[n].layout for idx, n in slots.items()}
        narrow = {idx: storage[n] for idx, n in slots.items()}
        return plan_kernel(
            choice.kernel, options, lanes=choice.lanes, layouts=layouts, storage=narrow, shared=shared
        )

    plans = [plan(number) for number in range(len(program.calls))]
    if not options.share_units:
        return plans
    users = Counter(name for p in plans for name in {n.unit.name for n in p.nodes if n.unit is not None})
    shared = {name for name, kernels in users.items() if kernels > 1}
    needed = [any(n.unit is not None and n.unit.name in shared for n in p.nodes) for p in plans]
    return [plan(number, shared) if needed[number] else p for number, p in enumerate(plans)]


def _work(kernel: KernelIR) -> int:
    return multiplications(kernel) * _steps(kernel, {})


class _Placement:
    """Chooses lanes and layouts of one kernel."""

    def __init__(
        self,
        kernel: KernelIR,
        known: dict[int, _Buffer],
        storage: dict[int, DType],
        options: CompileOptions,
    ) -> None:
        self.known = known
        self.storage = storage
        self.options = options
        fixed = {idx: entry.layout for idx, entry in known.items() if entry.layout.lanes > 1}
        self.kernel = split_for_layouts(kernel, fixed) if _chooses_lanes(options) else kernel
        self.info = analyze_axes(self.kernel, regroup_floats=options.float_order == "relaxed")
        self.recurrence = recurrence_latency(self.kernel, options) if self.info.floats else 1
        self.found = accesses(self.kernel)

    def choose(self) -> _Choice:
        """Lanes with the fewest cycles within the budget."""
        options, kernel = self.options, self.kernel
        if not _chooses_lanes(options):
            lanes = explicit_lanes(kernel, self.info, options.unroll_factor, options.reduce_unroll_factor)
            return self._evaluate(lanes)
        budget = max(1, (options.multipliers or 1) // max(1, multiplications(kernel)))
        best = self._evaluate({})
        best_cost = self._cost(best)
        for lanes in candidate_lanes(kernel, self.info, budget):
            if _steps(kernel, lanes) >= best_cost:
                break
            choice = self._evaluate(lanes)
            cost = self._cost(choice)
            if cost < best_cost:
                best, best_cost = choice, cost
        return best

    def _cost(self, choice: _Choice) -> int:
        """Cycles of the steps, with those that wait for a float sum whose outputs are too few to take turns."""
        turns = math.prod(
            -(-loop.bound // choice.lanes.get(loop.counter.axis, 1))
            for loop in self.kernel.loop_tree.walk()
            if loop.counter is not None and isinstance(loop.bound, int) and loop.loops
            if loop.counter.axis in self.info.independent
        )
        return max(choice.interval, -(-self.recurrence // turns)) * _steps(self.kernel, choice.lanes)

    def _evaluate(self, lanes: dict[int, int]) -> _Choice:
        layouts = {b.idx: self._layout(b.idx, b.depth, lanes) for b in self.kernel.buffers}
        words = words_per_step(self.found, lanes, layouts)
        interval = max(
            (-(-n // (1 if store else self._ports(idx))) for (idx, store), n in words.items()), default=1
        )
        return _Choice(self.kernel, lanes, layouts, interval)

    def _ports(self, idx: int) -> int:
        return read_ports(self.kernel.buffer(idx).depth * self.storage[idx].bit_width)

    def _layout(self, idx: int, depth: int, lanes: dict[int, int]) -> Layout:
        entry = self.known.get(idx)
        if entry is not None and entry.layout.lanes > 1:
            return entry.layout
        preferred = self._preferred(idx, depth, lanes)
        if entry is None or all(user.accepts(preferred, self._ports(idx)) for user in entry.users):
            return preferred
        return entry.layout

    def _preferred(self, idx: int, depth: int, lanes: dict[int, int]) -> Layout:
        """The packed layout with the fewest accesses; a window that moves by single elements gains nothing from one."""
        mine = [a for a in self.found if a.buffer == idx]
        layouts = [Layout.linear(depth), *packed_layouts(mine, idx, lanes, depth)]
        if len(layouts) == 1:
            return layouts[0]
        return min(layouts, key=lambda x: (sum(words_per_step(mine, lanes, {idx: x}).values()), x.lanes))


def _chooses_lanes(options: CompileOptions) -> bool:
    return options.unroll_factor == 1 and options.reduce_unroll_factor == 1


def _steps(kernel: KernelIR, lanes: dict[int, int]) -> int:
    total = 0
    for leaf_path in _paths(kernel):
        steps = 1
        for axis, bound in leaf_path:
            steps *= -(-bound // lanes.get(axis, 1))
        total += steps
    return total


def _paths(kernel: KernelIR) -> list[list[tuple[int, int]]]:
    ranges = RangeAnalysis()
    paths: list[list[tuple[int, int]]] = []

    def walk(loop, path):  # type: ignore[no-untyped-def]
        if loop.counter is not None:
            path = [*path, (loop.counter.axis, ranges.of(loop.counter)[1] + 1)]
        if not loop.loops:
            paths.append(path)
        for inner in loop.loops:
            walk(inner, path)

    walk(kernel.loop_tree, [])
    return paths


def _storage(program: ProgramIR) -> dict[int, DType]:
    """Element type of each buffer; temporaries get no more bits than their values need."""
    storage = {n: buffer.dtype for n, buffer in enumerate(program.buffers)}
    written = Counter(
        buffer
        for call in program.calls
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)
        if meta.is_output
    )
    for call in program.calls:
        slots = {meta.idx: buffer for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)}
        inputs = element_ranges({idx: storage[buffer] for idx, buffer in slots.items()})
        for idx, interval in _stored(call.kernel, inputs).items():
            buffer = slots[idx]
            meta = program.buffers[buffer]
            private = meta.role == "temporary" and meta.initial is None and written[buffer] == 1
            if private and meta.dtype.is_int:
                storage[buffer] = _narrowest(interval, meta.dtype)
    return storage


def _stored(kernel: KernelIR, inputs: dict[int, Interval]) -> dict[int, Interval]:
    ranges = RangeAnalysis(accumulator_ranges(kernel, inputs), inputs)
    result: dict[int, Interval] = {}
    for statement in kernel.loop_tree.statements():
        if isinstance(statement, IRBufStore) and not statement.dtype.is_float:
            low, high = ranges.of(statement.value)
            before = result.get(statement.buf_idx, (low, high))
            result[statement.buf_idx] = (min(before[0], low), max(before[1], high))
    return result


def _narrowest(interval: Interval, dtype: DType) -> DType:
    width, is_signed = bits_for(interval)
    return DType.from_width(width, is_signed) if width < dtype.bit_width else dtype
