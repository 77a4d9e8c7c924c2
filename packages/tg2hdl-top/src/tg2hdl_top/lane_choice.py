"""Lanes of one kernel, and the layouts of its buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from tg2hdl_ir import DType, KernelIR, LoopIR, RangeAnalysis
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.pack_products import packing_axes
from tg2hdl_lower import Alternative, Cost, Decision, Layout
from tg2hdl_lower.dataflow.binding import recurrence_latency
from tg2hdl_lower.decisions import Trials
from tg2hdl_lower.lanes.candidates import (
    candidate_lanes,
    explicit_lanes,
    leaf_multiplications,
    packed_layouts,
    split_for_layouts,
)
from tg2hdl_lower.lanes.demand import BufferAccesses, buffer_accesses
from tg2hdl_lower.memory.demand import port_interval
from tg2hdl_lower.memory.memories import Memories, element_ranges
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_top.options import CompileOptions

__all__ = [
    "BufferLayout",
    "BufferUser",
    "KernelLanes",
    "LaneChooser",
    "total_multiplications",
]

MAX_MULTIPLEXED = 128
"""Inputs (elements) of all lane multiplexers of a kernel's access, above which another layout is sought."""

MAX_CHOICE = 64
"""Maximum inputs (elements) of one lane multiplexer: a larger one would be larger than a multiplier."""

TURNS_OVERHEAD = 40
"""Extra cycles of a run with time-shared units: one more latency each, and a result may wait for its slot."""

PACKING_OVERHEAD = 4
"""Cycles that a run takes longer where two products share a multiplier."""

LONG_RUN = 50_000
"""Cycles from which on the few that a tree of adders takes more at the end of a run do not count."""

RESULT_DEMAND = 16
"""One accumulator with its post-processing costs as much area as this many multiplexer inputs (elements)."""

MAX_TURNS = 12
"""Candidates for lanes with time-shared multipliers that are evaluated."""

_Candidates = dict[tuple[frozenset[int], int], list[dict[int, int]]]

_candidates: MutableMapping[KernelIR, _Candidates] = WeakKeyDictionary()
"""Of the kernels that are alive, lanes by legal axes and their number: a kernel is placed several times."""


@dataclass
class BufferLayout:
    """The decision of earlier kernels about a buffer: its layout, and the kernels that rely on it."""

    layout: Layout
    users: list[BufferUser] = field(default_factory=list)


@dataclass(frozen=True)
class BufferUser:
    """A placed kernel as one of its buffers sees it."""

    accesses: BufferAccesses
    lanes: dict[int, int]
    interval: int

    def accepts(self, layout: Layout, ports: int) -> bool:
        """Whether another layout of the buffer would not slow the kernel down.

        Parameters
        ----------
        layout : Layout
        ports : int
            Read ports of its memory.
        """
        use = self.accesses.use(self.lanes, layout)
        return use.multiplexed <= max(MAX_MULTIPLEXED, layout.lanes) and use.interval(ports) <= self.interval


@dataclass(frozen=True)
class KernelLanes:
    """A kernel with its lanes per axis and its layouts per buffer.

    Parameters
    ----------
    accesses : dict of int to BufferAccesses
        By buffer.
    interval : int
        Cycles of a step, by the ports of its memories.
    cycles : int
        Cycles of all steps.
    fill : int
        Cycles that the last step of a float sum takes in adders, where the lanes decide how many there are.
    limit : str
        Which accesses make the interval longer than one cycle.
    results : int
        Results of a step that have adders of their own, where lanes could sum instead.
    why : str
        The choice and its reason, for a reader of the plan.
    least : int
        Cycles of all steps that some lanes would take with any layouts of the buffers.
    decisions : tuple of Decision
        The lanes that were compared, by their number, and by the sharing of multipliers.
    """

    kernel: KernelIR
    accesses: dict[int, BufferAccesses]
    lanes: dict[int, int]
    layouts: dict[int, Layout]
    interval: int
    cycles: int
    fill: int = 0
    limit: str = ""
    results: int = 0
    why: str = ""
    least: int = 0
    decisions: tuple[Decision, ...] = ()

    def demand(self, layouts: dict[int, Layout]) -> int:
        """Words that a step touches, inputs (elements) of lane multiplexers, and `RESULT_DEMAND` for each result."""
        words = sum(self.accesses[idx].use(self.lanes, layout).cost for idx, layout in layouts.items())
        return words + RESULT_DEMAND * self.results


class LaneChooser:
    """Chooses lanes and layouts of one kernel.

    Parameters
    ----------
    known : dict of int to BufferLayout
        Layouts of buffers that earlier kernels use.
    storage : dict of int to DType
        Element type of each buffer.
    roles : mapping of int to MemoryRole
        Who else uses each buffer, from which the kind of its memory and its ports follow.
    sparing : bool
        Among lanes of equal cycles, take those with the lowest memory demand instead of the first ones.
    in_order : bool
        Only sums have lanes, so that each result is done before the next one begins; see `Planning`.
    """

    def __init__(
        self,
        kernel: KernelIR,
        known: dict[int, BufferLayout],
        storage: dict[int, DType],
        roles: Mapping[int, MemoryRole],
        options: CompileOptions,
        *,
        sparing: bool,
        in_order: bool = False,
    ) -> None:
        self.known = known
        self.storage = storage
        self.roles = roles
        self._ports_of: dict[tuple[int, Layout], int] = {}
        self.options = options
        self.sparing = sparing
        fixed = {idx: entry.layout for idx, entry in known.items() if entry.layout.lanes > 1}
        self.kernel = split_for_layouts(kernel, fixed) if options.chooses_lanes else kernel
        self.info = analyze_axes(self.kernel, regroup_floats=options.float_order == "relaxed")
        self.legal = self.info.reducible | self.info.scanned | (set() if in_order else self.info.independent)
        self.in_order = in_order
        self.recurrence = recurrence_latency(self.kernel, options) if self.info.floats else 1
        self.products = leaf_multiplications(self.kernel)
        self.packing = packing_axes(self.kernel, element_ranges(storage)) & self.info.independent
        self.accesses = buffer_accesses(self.kernel)
        self._known_candidates = _candidates.setdefault(self.kernel, {})
        self._paths = _paths(self.kernel)
        self._layouts: dict[tuple[int, tuple[tuple[int, int], ...]], Layout] = {}

    def choose(self) -> KernelLanes:
        """Lanes with the fewest cycles within the budget."""
        best = self._chosen()
        gated = any(use.gated for use in self.accesses.values())
        if not gated or not (best.results > 1 or best.least < best.cycles):
            return best
        self.accesses = buffer_accesses(self.kernel, partly=True)
        self._layouts.clear()
        tight = self._chosen()
        whole, parts = (replace(_cost(choice), tie=choice.results) for choice in (best, tight))
        before = Alternative("gated accesses in all their iterations", whole)
        trials = Trials("gated-accesses", self.kernel.name, "lanes", before, best)
        trials.offer(Alternative("in those in which they are executed", parts), tight)
        return _decided(trials.best, trials, "results of equal cycles share adders")

    def with_lanes(self, lanes: dict[int, int]) -> KernelLanes:
        """The choice of these lanes."""
        return self._evaluate(lanes)

    def _chosen(self) -> KernelLanes:
        options, kernel = self.options, self.kernel
        if not options.chooses_lanes:
            lanes = explicit_lanes(kernel, self.info, options.unroll_factor, options.reduce_unroll_factor)
            return self._evaluate(lanes)
        busiest = max(1, *(leaf.products for leaf in self.products))
        budget = max(1, (options.multipliers or 1) // busiest)
        fewest = one = self._evaluate({})
        least = self._cycles(self._turns({}), {})
        trials = self._trials("lanes", "lanes", one)
        for number, lanes in enumerate(self._candidates(budget)):
            if self._steps(lanes) > trials.most:
                break
            least = min(least, self._cycles(self._turns(lanes), lanes))
            choice = self._within(lanes, trials.most if number else math.inf)
            if choice is None:
                continue
            fewest = choice if number == 0 else fewest
            if lanes:
                trials.offer(self._alternative(choice), choice)
        best = self._in_turns(self._packed(_decided(trials.best, trials)), busiest)
        why = self._why(best, fewest) if budget > 1 or best.lanes else ""
        return replace(best, why=why, least=least)

    def _trials(
        self, rewrite: str, change: str, before: KernelLanes, tie: int | None = None
    ) -> Trials[KernelLanes]:
        return Trials(rewrite, self.kernel.name, change, self._alternative(before, tie=tie), before)

    def _alternative(self, choice: KernelLanes, more: int = 0, tie: int | None = None) -> Alternative:
        """A choice, with cycles that it takes beyond those of its steps."""
        if tie is None and self.sparing:
            tie = choice.demand(choice.layouts)
        return Alternative(_described(choice.lanes), replace(_cost(choice, more), tie=tie), choice.limit)

    def _packed(self, best: KernelLanes) -> KernelLanes:
        """Twice as many lanes, whose products share multipliers in pairs, where that takes fewer cycles."""
        limit = self.options.budget
        if limit is None or not self.packing:
            return best
        # Of equal cycles those with the fewest lanes that share a factor: words of the other buffer stay wide.
        trials = self._trials("pack-products", "packed products", best, 2 * limit + 1)
        for lanes in self._candidates(2 * limit):
            most = trials.most - PACKING_OVERHEAD
            if self._steps(lanes) > most:
                break
            if self._is_packed(lanes) and (choice := self._within(lanes, most)) is not None:
                count = math.prod(lanes.get(axis, 1) for axis in self.packing)
                trials.offer(self._alternative(choice, PACKING_OVERHEAD, count), choice)
        return _decided(trials.best, trials, "two products share a multiplier")

    def _is_packed(self, lanes: dict[int, int]) -> bool:
        """Whether all products of these lanes are packed in pairs; none is left over past a bound."""
        bounds = {loop.counter.axis: loop.bound for loop in self.kernel.loop_tree.walk() if loop.counter}
        return any(
            lanes.get(axis, 1) % 2 == 0
            and isinstance(bound := bounds[axis], int)
            and bound % lanes[axis] == 0
            for axis in self.packing
        )

    def _in_turns(self, best: KernelLanes, busiest: int) -> KernelLanes:
        """More lanes on time-shared multipliers, where that takes much fewer cycles."""
        limit = self.options.budget
        if limit is None or busiest < 2 or limit < 2:
            return best
        trials = self._trials("take-turns", "time-shared multipliers", best)
        found = [
            (self._steps(lanes) * self._turns(lanes), number, lanes)
            for number, lanes in enumerate(self._candidates(limit))
        ]
        for cycles, _, lanes in sorted(found)[:MAX_TURNS]:
            most = trials.most - TURNS_OVERHEAD
            if cycles > most:
                break
            if (choice := self._within(lanes, most)) is not None:
                trials.offer(self._alternative(choice, TURNS_OVERHEAD), choice)
        return _decided(trials.best, trials, "more lanes on time-shared multipliers")

    def _turns(self, lanes: dict[int, int]) -> int:
        """Cycles of a step, as its products share the multipliers in time."""
        limit = self.options.budget
        if limit is None:
            return 1
        each = 2 if self._is_packed(lanes) else 1
        return max(
            (
                -(-leaf.products * math.prod(lanes.get(axis, 1) for axis in leaf.axes) // (each * limit))
                for leaf in self.products
            ),
            default=1,
        )

    def _why(self, best: KernelLanes, fewest: KernelLanes) -> str:
        """Why `best` was selected, compared with the lanes with the fewest steps."""
        steps, least = self._steps(best.lanes), self._steps(fewest.lanes)
        text = f"{_described(best.lanes)}: {steps} steps"
        if steps == least:
            return f"{text}, the fewest with multipliers={self.options.multipliers}"
        return (
            f"{text}; {least} steps with {_described(fewest.lanes)} would take {fewest.cycles + fewest.fill} cycles"
            + (f", by {fewest.limit}" if fewest.limit else "")
        )

    def _cycles(self, interval: int, lanes: dict[int, int]) -> int:
        """Cycles of the steps, with the stalls of a float sum that has too few outputs to interleave."""
        turns = math.prod(
            -(-loop.bound // lanes.get(loop.counter.axis, 1))
            for loop in self.kernel.loop_tree.walk()
            if loop.counter is not None and isinstance(loop.bound, int) and loop.loops
            if loop.counter.axis in self.info.independent
        )
        stalls = 1 if self.in_order else -(-self.recurrence // turns)
        return max(interval, stalls) * self._steps(lanes)

    def _fill(self, lanes: dict[int, int]) -> int:
        """Cycles of the adders that one step of a float sum passes through; a register follows each of them."""
        if self.options.float_order == "strict" or not self.info.floats:
            return 0
        levels = 0
        for path in self._paths:
            added = [(bound, lanes.get(axis, 1)) for axis, bound in path if axis in self.info.reducible]
            tree = (math.prod(count for _, count in added) - 1).bit_length()
            levels = max(levels, tree + any(count < bound for bound, count in added))
        return levels * (self.recurrence + 1)

    def _candidates(self, lanes: int) -> list[dict[int, int]]:
        key = frozenset(self.legal), lanes
        if key not in self._known_candidates:
            self._known_candidates[key] = candidate_lanes(self.kernel, self.legal, lanes)
        return self._known_candidates[key]

    def _steps(self, lanes: dict[int, int]) -> int:
        return sum(math.prod(-(-bound // lanes.get(axis, 1)) for axis, bound in path) for path in self._paths)

    def _within(self, lanes: dict[int, int], most: float) -> KernelLanes | None:
        """The choice of these lanes; None as soon as one buffer makes it take more than `most` cycles."""
        steps = self._steps(lanes)
        for b in self.kernel.buffers:
            layout = self._layout(b.idx, b.depth, lanes)
            use = self.accesses[b.idx].use(lanes, layout)
            if use.interval(self._ports(b.idx, layout)) * steps > most:
                return None
        return self._evaluate(lanes)

    def _evaluate(self, lanes: dict[int, int]) -> KernelLanes:
        layouts = {b.idx: self._layout(b.idx, b.depth, lanes) for b in self.kernel.buffers}
        uses = ((idx, self.accesses[idx].use(lanes, layout)) for idx, layout in layouts.items())
        interval, limit = port_interval(uses, {idx: self._ports(idx, lay) for idx, lay in layouts.items()})
        turns = self._turns(lanes)
        if turns > interval:
            interval, limit = turns, f"products that take turns on {self.options.budget} multipliers"
        cycles, results = self._cycles(interval, lanes), 0
        if cycles >= LONG_RUN and self.info.reducible:
            results = math.prod(n for axis, n in lanes.items() if axis in self.info.independent)
        fill = self._fill(lanes)
        return KernelLanes(self.kernel, self.accesses, lanes, layouts, interval, cycles, fill, limit, results)

    def _ports(self, idx: int, layout: Layout) -> int:
        """Read ports of the memory that a layout would make."""
        if (idx, layout) not in self._ports_of:
            options = self.options
            memories = Memories(
                {idx: layout}, self.storage, self.roles, options.family, options.timing.read_latency
            )
            self._ports_of[idx, layout] = memories.read_ports(idx)
        return self._ports_of[idx, layout]

    def _layout(self, idx: int, depth: int, lanes: dict[int, int]) -> Layout:
        key = idx, self.accesses[idx].factors(lanes)
        if key not in self._layouts:
            self._layouts[key] = self._chosen_layout(idx, depth, lanes)
        return self._layouts[key]

    def _chosen_layout(self, idx: int, depth: int, lanes: dict[int, int]) -> Layout:
        entry = self.known.get(idx)
        if entry is not None and entry.layout.lanes > 1:
            return self._seen(idx, entry.layout, lanes)
        preferred = self._preferred(idx, depth, lanes)
        if entry is None or all(user.accepts(preferred, self._ports(idx, preferred)) for user in entry.users):
            return preferred
        return entry.layout

    def _seen(self, idx: int, layout: Layout, lanes: dict[int, int]) -> Layout:
        """A given layout with the dimensions along which the kernel goes, where that saves cycles."""
        accesses = self.accesses[idx]
        strides = {abs(c) for a in accesses.found if a.form is not None for _, c in a.form.terms}
        ports = self._ports(idx, layout)
        return min(
            (layout, layout.divided(strides)), key=lambda each: accesses.use(lanes, each).interval(ports)
        )

    def _preferred(self, idx: int, depth: int, lanes: dict[int, int]) -> Layout:
        """The layout with the fewest port stalls, and of these the one with the lowest demand."""
        accesses = self.accesses[idx]

        def cost(layout: Layout) -> tuple[bool, int, int, int]:
            use = accesses.use(lanes, layout)
            return use.widest > MAX_CHOICE, use.interval(self._ports(idx, layout)), use.cost, layout.lanes

        return min([Layout.linear(depth), *packed_layouts(accesses.found, lanes, depth)], key=cost)


def _cost(choice: KernelLanes, more: int = 0) -> Cost:
    return Cost(choice.cycles + choice.fill + more)


def _decided(choice: KernelLanes, trials: Trials[KernelLanes], why: str = "") -> KernelLanes:
    """A choice with its decision and its reason; as it is where nothing else was compared."""
    decision = trials.decision(why)
    several = len(decision.alternatives) > 1
    return replace(choice, decisions=(*choice.decisions, decision)) if several else choice


def _described(lanes: dict[int, int]) -> str:
    """Lanes per axis, with the numbers that the axes have in the plan."""
    return (
        " x ".join(f"{n} of i{axis}" for axis, n in lanes.items()) + " at once" if lanes else "one at a time"
    )


def _paths(kernel: KernelIR) -> list[list[tuple[int, int]]]:
    ranges = RangeAnalysis()
    paths: list[list[tuple[int, int]]] = []

    def walk(loop: LoopIR, path: list[tuple[int, int]]) -> None:
        if loop.counter is not None:
            path = [*path, (loop.counter.axis, ranges.of(loop.counter)[1] + 1)]
        if not loop.loops:
            paths.append(path)
        for inner in loop.loops:
            walk(inner, path)

    walk(kernel.loop_tree, [])
    return paths


def total_multiplications(kernel: KernelIR) -> int:
    """Multiplications of all steps."""
    return sum(leaf.products * leaf.steps for leaf in leaf_multiplications(kernel))
