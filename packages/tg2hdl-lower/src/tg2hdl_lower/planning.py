"""All trials of a kernel: lanes, interleaving, warm-up, forwarding and schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tg2hdl_ir import DType, Interval, IRBufLoad, KernelIR
from tg2hdl_ir.analysis.accumulators import accumulator_ranges
from tg2hdl_ir.analysis.axes import AxisInfo, analyze_axes
from tg2hdl_ir.passes.forward_stores import changed_in_place, forward_stores
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.sum_turns import sum_in_turns, sum_steps, summed_at_the_end
from tg2hdl_ir.pipeline import canonicalize, run_stage
from tg2hdl_lower.dataflow.binding import Binder
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.dataflow.leaf_builder import build_dataflow
from tg2hdl_lower.dataflow.replay import replay_loads
from tg2hdl_lower.dataflow.warm_up import with_warm_up
from tg2hdl_lower.decisions import Alternative, Cost, Decision, Trials, decide, most_cycles
from tg2hdl_lower.lanes.interleavings import Tiles, best_tile, interleavings
from tg2hdl_lower.lower_latency import lower_latency_units
from tg2hdl_lower.memory.demand import PortInterval
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.memories import Memories, element_ranges
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.accesses import Store
from tg2hdl_lower.plan.hardware_plan import HardwarePlan, PortRegisters
from tg2hdl_lower.plan.operations import DesignProduct, UnitOp
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.registers import RegisterWrite
from tg2hdl_lower.refusals import check_family, check_stores, too_few_multipliers
from tg2hdl_lower.schedule.accumulators import accumulators, with_delay_lines
from tg2hdl_lower.schedule.control_registers import control_registers
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes
from tg2hdl_lower.schedule.limits import recurrence_limit
from tg2hdl_lower.schedule.modulo import schedule
from tg2hdl_lower.schedule.outcome import delay_lines, memory_ports, run_constant
from tg2hdl_lower.schedule.ports import least_ii, port_registers
from tg2hdl_lower.sharing.budget import MultiplierBudget
from tg2hdl_lower.sharing.multipliers import (
    bind_constant_products,
    bind_products,
    bind_shared_units,
    bind_unit_products,
    bind_wide_products,
    product_slots,
    unit_slots,
)

__all__ = ["Planning", "PreparedKernel"]

MEMORY_CYCLES = 2
_CHAINED = "a sum returns to its unit without a register, as that takes fewer cycles"

MAX_ROUNDS = 4
"""Largest II that is sought by interleaving fewer outputs than an II of 1 takes."""

FEW_TILES = 2
"""Ways to interleave them that are tried for each such II."""

MOST_FORWARDED = 8
"""Steps from which elements are forwarded at most."""

LONG = 3
"""Latency from which on a unit is time-shared where products are, in cycles."""


def _longest(plan: HardwarePlan) -> int:
    """Cycles with the largest run-time bounds."""
    return plan.cycles({v.name: v.high for v in plan.kernel.variables})


def _alternative(name: str, plan: HardwarePlan) -> Alternative:
    """A plan that was tried."""
    return Alternative(name, Cost(_longest(plan), plan.multipliers, len(plan.all(UnitOp))))


def _decided(plan: HardwarePlan, decision: Decision) -> HardwarePlan:
    return replace(plan, decisions=(*plan.decisions, decision))


_FlowKey: TypeAlias = tuple[KernelIR, bool, str]
"""Kernel with its loops chosen, whether a sum is chained, and units by op."""


@dataclass(frozen=True)
class Planning:
    """Common data of all trials of a kernel.

    Attributes
    ----------
    info : AxisInfo
    registers : dict of int to Interval
        Known ranges of registers.
    chained : bool
        Whether a sum of floats starts at zero by an AND straight before its unit and returns without a register:
        the shortest recurrence, with more logic between two registers.
    flows : dict
        Nodes of the kernels that were planned, by the fields on which they depend and that trials change.
    tiled : dict
        Kernels with interleaved outputs, by the kernel without them.
    in_order : bool
        Whether sums of floats take turns on partial sums, not with other outputs, where they may be regrouped.
    regroups : bool
        Whether relaxed sums are regrouped; sums that take turns are trees already, which golden results follow.
    """

    info: AxisInfo
    registers: dict[int, Interval]
    memories: Memories
    options: LowerOptions
    shared: frozenset[str]
    chained: bool = False
    flows: dict[_FlowKey, tuple[KernelIR, Dataflow]] = field(default_factory=dict, compare=False, repr=False)
    tiled: dict[tuple[KernelIR, Tiles], KernelIR] = field(default_factory=dict, compare=False, repr=False)
    in_order: bool = False
    regroups: bool = True

    @classmethod
    def of(
        cls,
        kernel: KernelIR,
        options: LowerOptions,
        lanes: dict[int, int] | None = None,
        layouts: dict[int, Layout] | None = None,
        storage: dict[int, DType] | None = None,
        shared: Collection[str] = (),
        roles: Mapping[int, MemoryRole] | None = None,
    ) -> tuple[Planning, KernelIR]:
        """Prepare a kernel, with the parameters of `plan_kernel`; also returns it with its lanes.

        Parameters
        ----------
        kernel : KernelIR
        options : LowerOptions
        lanes, layouts, storage, shared, roles
            As of `plan_kernel`.
        """
        check_family(options.target)
        kernel = canonicalize(kernel)
        info = analyze_axes(kernel, regroup_floats=options.float_order == "relaxed")
        memory = {b.idx: b.dtype for b in kernel.buffers} | (storage or {})
        ranges = element_ranges(memory)
        registers = accumulator_ranges(kernel, ranges)
        flat = run_stage(
            "lanes", kernel, info=info, factors=lanes or {}, limit=options.budget, buffers=ranges
        )
        check_stores(kernel, flat)
        complete = {b.idx: Layout.linear(b.depth) for b in kernel.buffers} | (layouts or {})
        memories = Memories(complete, memory, roles or {}, options.family, options.timing.read_latency)
        return cls(info, registers, memories, options, frozenset(shared)), flat

    def marked(self, plan: HardwarePlan) -> HardwarePlan:
        """The plan, which says whether sums of floats may have been regrouped."""
        kernel = plan.kernel
        types = [*(b.dtype for b in kernel.buffers), *(r.dtype for r in kernel.registers)]
        relaxed = self.options.float_order == "relaxed"
        return replace(plan, regrouped=relaxed and any(t.is_float for t in types))

    def finished(self, kernel: KernelIR, interval: int = 1) -> HardwarePlan:
        """Plan of a kernel whose loops are chosen, with at least this initiation interval.

        Parameters
        ----------
        kernel : KernelIR
            Flat, with its lanes.
        interval : int, default 1
            In cycles.
        """
        memories, options = self.memories, self.options
        key = kernel, self.chained, str(options.units)
        if key not in self.flows:
            self.flows[key] = self._dataflow(kernel)
        kernel, flow = self.flows[key]
        flow = bind_shared_units(flow, self.shared)
        ports = {i: memories.read_ports(i) for i in memories.layouts}
        delays = port_registers(flow, ports)
        flow, lines, found, least = self._scheduled(flow, ports, delays, interval)
        products = product_slots(flow, found, options.timing.product_latency)
        ends = [
            found.placements[n.number].issue + (delays.delay(n) if isinstance(n, Store) else 0)
            for n in flow.all(Store, RegisterWrite)
        ]
        return HardwarePlan(
            kernel,
            flow.leaves,
            flow.nodes,
            found,
            memory_ports(flow, found),
            max(ends, default=0),
            options.timing.read_latency,
            memories.layouts,
            memories.storage,
            len(products) + MultiplierBudget.of(flow, 0).private,
            products=products,
            shared_units=unit_slots(flow, found),
            port_registers=delays,
            control_registers=control_registers(flow, found),
            accumulators=accumulators(flow, found, lines),
            delay_lines=delay_lines(flow, found),
            run_constant=run_constant(flow),
            family=options.family.name,
            latencies={i: memories.read_latency(i) for i in memories.layouts},
            notes=(self._reason(flow, found, least, lines, delays),) if found.ii > interval else (),
        )

    def _reason(
        self,
        flow: Dataflow,
        found: Schedule,
        least: PortInterval,
        lines: Mapping[int, int],
        delays: PortRegisters,
    ) -> str:
        """Why a schedule has its II."""
        if least.cycles == found.ii:
            return f"a step every {found.ii} cycles: {least.limit}"
        strict = self.options.float_order == "strict"
        return (
            f"a step every {found.ii} cycles: {recurrence_limit(flow, found, lines, delays, strict=strict)}"
        )

    def _dataflow(self, kernel: KernelIR) -> tuple[KernelIR, Dataflow]:
        """The kernel as it is scheduled, and its nodes with units of their own."""
        registers, options = self.registers, self.options
        relaxed = options.float_order == "relaxed" and self.regroups
        kernel = run_stage("registers", kernel, regroup_floats=relaxed, floats=not self.chained)
        known = {
            r.idx: registers[origin]
            for r in kernel.registers
            if (origin := r.idx if r.origin is None else r.origin) in registers
        }
        flow = build_dataflow(kernel, self.memories, known, Binder(options, kernel.where))
        flow = bind_products(replay_loads(flow), options.timing.product_latency)
        flow = bind_constant_products(flow)
        flow = flow if "mul" in options.units else bind_wide_products(flow)
        return kernel, flow if options.multipliers is None else bind_unit_products(flow)

    def _scheduled(
        self, flow: Dataflow, ports: Mapping[int, int], delays: PortRegisters, interval: int
    ) -> tuple[Dataflow, dict[int, int], Schedule, PortInterval]:
        """Nodes, delay lines, schedule, and the bound of its II; products take turns where they exceed the budget."""
        options, limit = self.options, self.options.budget
        lined, lines = with_delay_lines(flow, single=self.chained)
        found = schedule(lined, options, ports, delays, lines, interval, chained=self.chained)
        least = least_ii(lined, ports)
        slots = {found.placements[n.number].port for n in lined.all(DesignProduct)}
        if limit is None or len(slots) + MultiplierBudget.of(lined, limit).private <= limit:
            return lined, lines, found, least
        flow = bind_shared_units(flow, {n.unit.name for n in flow.all(UnitOp) if n.unit.latency >= LONG})
        budget = MultiplierBudget.of(flow, limit)
        if budget.least > limit:
            flow = bind_unit_products(flow, recurrent=True)
            budget = MultiplierBudget.of(flow, limit)
        if budget.least > limit:
            raise too_few_multipliers(budget, flow.kernel.where)
        lined, lines = with_delay_lines(flow, single=self.chained)
        found = schedule(lined, options, ports, delays, lines, interval, budget, chained=self.chained)
        return lined, lines, found, max(least, budget.interval)

    def waits_for_multipliers(self, plan: HardwarePlan) -> bool:
        """Whether the II of a plan is limited only by the budget of multipliers."""
        limit = self.options.budget
        return limit is not None and plan.ii == MultiplierBudget.of(plan, limit).interval.cycles

    def interleaved(self, flat: KernelIR) -> HardwarePlan:
        """Plan with independent outputs interleaved under a reduction until the II is 1, if that takes fewer cycles."""
        plan = self.finished(flat)
        if plan.ii == 1 or not self.info.floats or self.waits_for_multipliers(plan):
            return plan
        # Registers of forwarded elements start once in a run, not once for each output.
        if any(isinstance(s, IRBufLoad) and s.forwarded for s in flat.loop_tree.statements()):
            return plan
        if self.in_order and (found := self._one_by_one(flat, plan)).ii == 1:
            return found
        trials = self._trials("interleave", "interleaved outputs", "one output at a time", flat, plan)
        self._interleave(flat, plan, trials)
        return _decided(
            trials.best,
            trials.decision("it hides the latency of the sums", "no interleaving takes fewer cycles"),
        )

    def _trials(
        self, rewrite: str, change: str, name: str, flat: KernelIR, plan: HardwarePlan
    ) -> Trials[HardwarePlan]:
        before = _alternative(name, plan)
        return Trials(rewrite, flat.name, change, before, plan, prefer=self.options.prefer)

    def _interleave(self, flat: KernelIR, plan: HardwarePlan, trials: Trials[HardwarePlan]) -> None:
        """Offer plans with interleaved outputs, until one has an II of 1."""
        # The accumulators are then a memory, whose reading may take a cycle that a register does not.
        candidates = dict.fromkeys(
            tiles
            for more in range(MEMORY_CYCLES + 1)
            for tiles in interleavings(flat, self.info, plan.ii + more)
        )
        for tiles in candidates:
            self._offer(flat, tiles, trials)
            if trials.best.ii == 1 or self.waits_for_multipliers(trials.best):
                return
        # With too few outputs for an II of 1, as many as there are make it shorter.
        ports = {i: self.memories.read_ports(i) for i in self.memories.layouts}
        for rounds in range(max(2, least_ii(plan, ports).cycles), MAX_ROUNDS + 1):
            before = trials.best
            for tiles in interleavings(flat, self.info, -(-(plan.ii + 1) // rounds))[:FEW_TILES]:
                self._offer(flat, tiles, trials)
            if trials.best is not before:
                break

    def _one_by_one(self, flat: KernelIR, plan: HardwarePlan) -> HardwarePlan:
        """Plan with an II of 1 whose results are done one after the other; the given one where there is none."""
        trials = self._trials("sum-in-turns", "interleaved outputs", "one sum at a time", flat, plan)

        def offer(name: str, trial: HardwarePlan) -> bool:
            trial = replace(trial, notes=(*trial.notes, name))
            trials.offer(_alternative(name, trial), trial)
            return trial.ii == 1

        if not offer(_CHAINED, replace(self, chained=True).finished(flat)) and (steps := sum_steps(flat)):
            counts = (min(steps, best_tile(steps, plan.ii + more)[0]) for more in range(MEMORY_CYCLES + 1))
            for count in dict.fromkeys(counts):
                trial = replace(self, regroups=False).finished(sum_in_turns(flat, count))
                source = summed_at_the_end(flat, count)
                if offer(f"{count} partial sums in turn", replace(trial, source=source)):
                    break
        return _decided(trials.best, trials.decision("a result is done before the next one begins"))

    def _offer(self, flat: KernelIR, tiles: Tiles, trials: Trials[HardwarePlan]) -> None:
        """Offer the plan with these outputs interleaved."""
        if (flat, tiles) not in self.tiled:
            kernel = flat
            for axis, tile in tiles:
                kernel = interleave(kernel, self.info, axis, tile)
            self.tiled[flat, tiles] = kernel
        trial = self.finished(self.tiled[flat, tiles])
        described = "interleaved outputs: " + " x ".join(f"{tile} of i{axis}" for axis, tile in tiles)
        trial = replace(trial, notes=(*trial.notes, described))
        trials.offer(_alternative(described, trial), trial)

    def chaining(self, flat: KernelIR, plan: HardwarePlan) -> HardwarePlan:
        """A plan with a shorter recurrence of float sums, if it takes much fewer cycles; the given one otherwise.

        Parameters
        ----------
        flat : KernelIR
            The kernel with its lanes, before interleaving.
        plan : HardwarePlan
            Its plan.
        """
        limited = plan.ii > 1 and self.waits_for_multipliers(plan)
        if not self.info.floats or len(plan.leaves) > 1 or limited:
            return plan
        change = "chained accumulator"
        least = most_cycles(change, _longest(plan), self.options.prefer)
        circular = recurrent_nodes(plan.nodes.values(), LOGIC_AND_UNITS)
        waits = any(isinstance(plan.nodes[n], UnitOp) for n in circular)
        if not waits or least < replace(plan, kernel=flat).steps({v.name: v.high for v in flat.variables}):
            return plan
        trial = replace(self, chained=True).interleaved(flat)
        before = _alternative("a register follows the unit of a sum", plan)
        after = _alternative("the sum returns to its unit without a register", trial)
        made, decision = decide(
            "chain", flat.name, change, before, [(after, trial)], prefer=self.options.prefer
        )
        if made is None:
            return _decided(plan, decision)
        return _decided(replace(trial, notes=(*trial.notes, _CHAINED)), decision)

    def warmed_up(self, flat: KernelIR, plan: HardwarePlan) -> tuple[KernelIR, HardwarePlan]:
        """Add warm-up iterations where the reads of a window take more cycles than these; the kernel and its plan.

        Parameters
        ----------
        flat : KernelIR
            The kernel with its lanes, before interleaving.
        plan : HardwarePlan
            Its plan.
        """
        before = _alternative("no warm-up iterations", plan)
        trials = Trials(
            "lead-in", flat.name, "warm-up iterations", before, (flat, plan), prefer=self.options.prefer
        )
        offers = list(with_warm_up(flat, self.info))
        for early, kernel in offers:
            trial = self.interleaved(kernel)
            counts = " and ".join(f"{count} of i{axis}" for axis, count in early.items())
            note = (
                f"warm-up iterations whose results are discarded fill the line buffers: {counts}; "
                f"a step would take {plan.ii} cycles without them"
            )
            after = _alternative(f"warm-up iterations: {counts}", trial)
            trials.offer(after, (kernel, replace(trial, notes=(*trial.notes, note))))
        if not offers:
            return flat, plan
        best, made = trials.best
        decision = trials.decision(
            "line buffers replace reads", "the further rows take more cycles than the reads"
        )
        return best, _decided(made, decision)

    def forwarding(self, flat: KernelIR, plan: HardwarePlan) -> tuple[KernelIR, HardwarePlan]:
        """Forward elements that are changed in place, from as many steps as it takes; the kernel and its plan.

        Parameters
        ----------
        flat : KernelIR
            Prepared kernel, whose steps may read elements that the steps before have written.
        plan : HardwarePlan
            Its plan without forwarding.
        """
        changes = changed_in_place(flat)
        if not changes:
            return flat, plan
        before = _alternative("a step reads data that the one before has written", plan)
        change, prefer = "forwarded elements", self.options.prefer
        trials = Trials("forward-stores", flat.name, change, before, (flat, plan), prefer=prefer)
        for steps in range(1, MOST_FORWARDED + 1):
            kernel = forward_stores(flat, steps)
            trial = self.finished(kernel)
            name = f"elements of the last {steps} steps come from registers"
            note = f"{name}; a step would take {plan.ii} cycles without them"
            trials.offer(_alternative(name, trial), (kernel, replace(trial, notes=(*trial.notes, note))))
            if trial.ii == 1:
                break
        decision = trials.decision(
            "the next step need not wait for the memory", "the registers save too few cycles"
        )
        kernel, made = trials.best
        return kernel, _decided(made, decision)


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel that is planned more than once, as others decide which of its units are shared.

    Everything that does not depend on the shared units is computed once.

    Parameters
    ----------
    planning : Planning
        Its parameters, as `plan_kernel` takes them.
    flat : KernelIR
        The kernel with its lanes, as it is scheduled.
    """

    planning: Planning
    flat: KernelIR

    @classmethod
    def of(
        cls,
        kernel: KernelIR,
        options: LowerOptions | None = None,
        lanes: dict[int, int] | None = None,
        layouts: dict[int, Layout] | None = None,
        storage: dict[int, DType] | None = None,
        roles: Mapping[int, MemoryRole] | None = None,
        *,
        in_order: bool = False,
    ) -> PreparedKernel:
        """Prepare a kernel; parameters and errors are those of `plan_kernel`.

        Parameters
        ----------
        kernel : KernelIR
        options : LowerOptions, optional
        lanes, layouts, storage, roles
            As of `plan_kernel`.
        in_order : bool
            As of `Planning`.
        """
        planning, flat = Planning.of(kernel, options or LowerOptions(), lanes, layouts, storage, (), roles)
        return cls(replace(planning, in_order=in_order), flat)

    def plan(self, shared: Collection[str] = ()) -> HardwarePlan:
        """Plan it with these units outside; errors as of `plan_kernel`."""
        planning, flat = replace(self.planning, shared=frozenset(shared)), self.flat
        options = planning.options
        plan = planning.interleaved(flat)
        if plan.ii > 1 and not planning.waits_for_multipliers(plan):
            flat, plan = planning.warmed_up(flat, plan)
            flat, plan = planning.forwarding(flat, plan)
        shorter = lower_latency_units(plan, options)
        first = _alternative("units of the options", plan)
        plan = planning.chaining(flat, plan)
        if shorter:
            units = replace(options, units={**options.units, **shorter})
            trial = replace(planning, options=units).interleaved(flat)
            names = ", ".join(sorted(shorter.values()))
            fewer = trial if _longest(trial) < _longest(plan) else None
            tried, change = [(_alternative(names, trial), fewer)], "lower-latency unit"
            made, decision = decide("units", flat.name, change, first, tried, prefer=options.prefer)
            if made is not None:
                note = f"lower-latency units shorten accumulator stalls: {names}"
                plan = replace(made, notes=(*made.notes, note))
            plan = _decided(plan, decision)
        return planning.marked(plan)
