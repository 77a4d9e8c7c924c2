"""Planning: lanes, interleaving, layouts and schedule of one kernel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.accumulators import accumulator_ranges
from tg2hdl_ir.analysis.axes import AxisInfo, analyze_axes
from tg2hdl_ir.analysis.ranges import Interval
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.clearing import clear_with_last
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.initial import choose_initial_late
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_lower.binding import Binder
from tg2hdl_lower.dataflow import Dataflow, build_dataflow
from tg2hdl_lower.delay_lines import turning_registers
from tg2hdl_lower.demands import ReadPorts, port_registers, reason_for
from tg2hdl_lower.dependences import recurrent_nodes, reuse_period
from tg2hdl_lower.layout import Layout
from tg2hdl_lower.memories import Memories, element_ranges, read_ports
from tg2hdl_lower.options import FAMILY_DEFAULTS, LowerOptions
from tg2hdl_lower.plan import HardwarePlan, MemoryPort, PlanNode
from tg2hdl_lower.products import bind_products, product_slots
from tg2hdl_lower.reuse import reuse_loads
from tg2hdl_lower.schedule import schedule
from tg2hdl_lower.shared_units import bind_shared_units, unit_slots
from tg2hdl_lower.windows import early_starts

__all__ = ["plan_kernel"]

MEMORY_CYCLES = 2

WORTH_A_SLOWER_UNIT = 0.8
"""Cycles that must be left where a shorter unit is taken, whose clock may be that much slower."""


def plan_kernel(
    kernel: KernelIR,
    options: LowerOptions | None = None,
    *,
    lanes: dict[int, int] | None = None,
    layouts: dict[int, Layout] | None = None,
    storage: dict[int, DType] | None = None,
    shared: Collection[str] = (),
) -> HardwarePlan:
    """Plan the hardware of a kernel.

    Parameters
    ----------
    lanes : dict of int to int, optional
        Lanes per axis.
    layouts : dict of int to Layout, optional
        Physical layout per buffer; one element a word when absent.
    storage : dict of int to DType, optional
        Narrower element type per buffer, for buffers whose values are known to fit.
    shared : collection of str, optional
        Names of the units that the kernel finds outside.

    Raises
    ------
    InputError
        When no part and no unit is of the family `options.target`.
    UnsupportedError
        When the hardware has no way to compute something.
    """
    options = options or LowerOptions()
    _check_family(options.target)
    kernel = canonicalize(kernel)
    relaxed = options.float_order == "relaxed"
    info = analyze_axes(kernel, regroup_floats=relaxed)
    memory = {b.idx: b.dtype for b in kernel.buffers} | (storage or {})
    registers = accumulator_ranges(kernel, element_ranges(memory))
    flat = unroll(flatten(kernel), info, lanes or {})
    complete = {b.idx: Layout.linear(b.depth) for b in kernel.buffers} | (layouts or {})
    setting = _Setting(info, registers, Memories(complete, memory), options, frozenset(shared))
    plan = _in_turns(flat, setting)
    if plan.ii > 1:
        flat, plan = _with_full_lines(flat, setting, plan)
    shorter = _shorter_units(plan, options)
    if shorter:
        trial = _in_turns(
            flat, replace(setting, options=replace(options, units={**options.units, **shorter}))
        )
        longest = {v.name: v.high for v in kernel.variables}
        if trial.cycles(longest) <= WORTH_A_SLOWER_UNIT * plan.cycles(longest):
            names = ", ".join(sorted(shorter.values()))
            plan = replace(trial, notes=(*trial.notes, f"sums wait less for shorter units: {names}"))
    types = [*(b.dtype for b in kernel.buffers), *(r.dtype for r in kernel.registers)]
    return replace(plan, regrouped=relaxed and any(t.is_float for t in types))


def _check_family(name: str) -> None:
    if name in FAMILY_DEFAULTS:
        return
    plugins = registry()
    known = {part.family for part in plugins.targets()} | {unit.target for unit in plugins.units()}
    if name not in known:
        raise InputError(
            f"target={name!r} is unknown",
            hint=f"choose a family: {', '.join(sorted(known | set(FAMILY_DEFAULTS)))}",
        )


@dataclass(frozen=True)
class _Setting:
    """What stays the same while ways to run a kernel are tried."""

    info: AxisInfo
    registers: dict[int, Interval]
    memories: Memories
    options: LowerOptions
    shared: frozenset[str]


def _finish(kernel: KernelIR, setting: _Setting) -> HardwarePlan:
    registers, memories, options = setting.registers, setting.memories, setting.options
    kernel = balance(forward_registers(kernel), regroup_floats=options.float_order == "relaxed")
    known = {
        r.idx: registers[origin]
        for r in kernel.registers
        if (origin := r.idx if r.origin is None else r.origin) in registers
    }
    kernel = clear_with_last(choose_initial_late(kernel))
    flow = build_dataflow(kernel, memories, known, Binder(options, kernel.where))
    reuse_loads(flow)
    bind_products(flow, options.timing.product_latency)
    bind_shared_units(flow, setting.shared)
    limits = {
        i: read_ports(layout.words * layout.lanes * memories.storage[i].bit_width)
        for i, layout in memories.layouts.items()
    }
    ports = ReadPorts(limits)
    delays = port_registers(flow, ports)
    turning = turning_registers(kernel, flow.nodes, lambda node: reuse_period(flow, node))
    ii = schedule(flow, options, ports, delays, turning)
    ends = (
        n.issue + (delays.delay(n) if n.kind == "store" else 0)
        for n in flow.nodes
        if n.kind in ("store", "regwrite")
    )
    depth = max(ends, default=0)
    products = product_slots(flow.nodes)
    return HardwarePlan(
        kernel,
        tuple(flow.leaves),
        tuple(flow.nodes),
        _ports(flow),
        ii,
        depth,
        options.timing.read_latency,
        memories.layouts,
        memories.storage,
        len(products)
        + sum(n.kind != "product" and n.op == "mul" and _both_vary(flow, n) for n in flow.nodes),
        products=products,
        product_latency=options.timing.product_latency,
        shared_units=unit_slots(flow.nodes),
        registers=delays,
        turning=turning,
        notes=(reason_for(flow, ports, ii),) if ii > 1 else (),
    )


def _both_vary(flow: Dataflow, node: PlanNode) -> bool:
    """Whether a product has no constant operand, which would make it a few additions."""
    return all(flow.nodes[n].kind != "const" for n in node.operands)


def _ports(flow: Dataflow) -> tuple[MemoryPort, ...]:
    found: dict[tuple[int, int, bool], MemoryPort] = {}
    for leaf in flow.leaves:
        for node in (flow.nodes[n] for n in leaf.nodes):
            if node.kind in ("load", "store"):
                key = (node.buffer, node.port, node.kind == "load")
                found[key] = MemoryPort(
                    *key, flow.memories.storage[node.buffer], flow.memories.layouts[node.buffer]
                )
    return tuple(found[k] for k in sorted(found))


def _in_turns(flat: KernelIR, setting: _Setting) -> HardwarePlan:
    plan = _finish(flat, setting)
    return _interleaved(flat, setting, plan) if plan.ii > 1 and setting.info.floats else plan


def _with_full_lines(flat: KernelIR, setting: _Setting, plan: HardwarePlan) -> tuple[KernelIR, HardwarePlan]:
    """Let loops begin early where the reads of a window take more cycles than that, and the kernel that does so."""
    longest = {v.name: v.high for v in flat.variables}
    best = flat, plan
    for early, kernel in early_starts(flat, setting.info):
        trial = _in_turns(kernel, setting)
        if trial.cycles(longest) < best[1].cycles(longest):
            what = " and ".join(f"{count} of i{axis}" for axis, count in early.items())
            note = (
                f"begins early by {what}, so that lines keep what a window reads again; "
                f"a step would take {plan.ii} cycles"
            )
            best = kernel, replace(trial, notes=(*trial.notes, note))
    return best


def _shorter_units(plan: HardwarePlan, options: LowerOptions) -> dict[str, str]:
    """Portable units by op, for ops of float sums that the family's deeper units keep waiting."""
    found: dict[str, str] = {}
    circular = recurrent_nodes(plan.nodes, ("op", "unit"))
    for node in (plan.nodes[n] for n in sorted(circular)):
        if node.unit is None or node.unit.golden is not None or node.op in options.units:
            continue
        unit = registry().select_unit(node.op, node.unit.operands, node.unit.result)
        if unit is not None and unit.golden is None and unit.latency < node.unit.latency:
            found[node.op] = unit.name
    return found


def _interleaved(flat: KernelIR, setting: _Setting, plan: HardwarePlan) -> HardwarePlan:
    """Let independent outputs take turns under a reduction until the II is 1, if that takes fewer cycles."""
    longest = {v.name: v.high for v in flat.variables}
    # The accumulators are then a memory, whose reading may take a cycle that a register does not.
    choices = dict.fromkeys(
        turns
        for more in range(MEMORY_CYCLES + 1)
        for turns in _turn_choices(flat, setting.info, plan.ii + more)
    )
    best = plan
    for turns in choices:
        kernel = flat
        for axis, tile in turns:
            kernel = interleave(kernel, setting.info, axis, tile)
        trial = _finish(kernel, setting)
        if trial.cycles(longest) < best.cycles(longest):
            described = " x ".join(f"{tile} of i{axis}" for axis, tile in turns)
            best = replace(trial, notes=(*trial.notes, f"outputs take turns: {described}"))
        if best.ii == 1:
            break
    return best


def _turn_choices(flat: KernelIR, info: AxisInfo, distance: int) -> list[tuple[tuple[int, int], ...]]:
    """Tiles of one axis or of two nested ones that give `distance` turns, those with the fewest idle turns first."""
    axes = _candidates(flat, info)
    choices: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
    for n, (axis, bound) in enumerate(axes):
        tile, waste = _best_tile(bound, distance)
        choices.append((waste, tile, ((axis, tile),)))
        if bound < distance:
            for outer, outer_bound in axes[n + 1 :]:
                tile, waste = _best_tile(outer_bound, -(-distance // bound))
                choices.append((waste, tile * bound, ((axis, bound), (outer, tile))))
    return [turns for _, _, turns in sorted(choices)]


def _best_tile(bound: int, least: int) -> tuple[int, float]:
    """Tile of at least `least` turns with the fewest idle ones, and turns per useful turn."""
    tiles = range(least, max(least, min(bound, 4 * least)) + 1)
    tile = min(tiles, key=lambda t: (-(-bound // t) * t, t))
    return tile, -(-bound // tile) * tile / bound


def _candidates(flat: KernelIR, info: AxisInfo) -> list[tuple[int, int]]:
    """Independent axes above other loops, with their bounds, innermost first."""
    axes = []
    for loop in flat.loop_tree.walk():
        counter = loop.counter
        if counter is None or not isinstance(loop.bound, int) or loop.bound < 2 or not loop.loops:
            continue
        if counter.axis in info.independent:
            axes.append((counter.axis, loop.bound))
    return axes[::-1]
