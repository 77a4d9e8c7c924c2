"""Figures of each kernel: time, causes of waiting, and bits moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.bounds import bound_value
from tg2hdl_lower.plan.graph import LeafPlan
from tg2hdl_lower.plan.operations import UnitOp

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["kernel_facts"]


def kernel_facts(accelerator: CompiledModel) -> list[dict[str, Any]]:
    """One entry per kernel call, in execution order; cycles count from ``start``."""
    design, variables = accelerator.design, accelerator.captured.var_vals
    names = {n: buffer.name for n, buffer in enumerate(design.program.buffers)}
    if design.external is not None:
        names |= {tile.buffer: tile.array for tile in design.external.tiles}
    timeline = design.timeline(variables)
    found = []
    for number, (summary, plan) in enumerate(zip(accelerator.kernels, design.kernels, strict=True)):
        call = design.program.calls[number]
        reads, writes = call.accesses()
        moved = _accesses(plan, variables)
        found.append(
            {
                "name": summary.name,
                "layer": summary.layer,
                "source": call.kernel.source,
                "start": timeline.starts[number],
                "end": timeline.ends[number],
                "steps": summary.steps,
                "ii": summary.ii,
                "cycles": summary.cycles,
                "fill_and_drain": summary.cycles - summary.steps * summary.ii,
                "multipliers": summary.multipliers,
                "macs": summary.macs,
                "ratio": summary.ratio,
                "units": _units(plan),
                "reads": [names[n] for n in sorted(reads)],
                "writes": [design.program.buffers[n].name for n in sorted(writes)],
                "waits_for": _producers(design.program, number),
                "bits_read": moved[0],
                "bits_written": moved[1],
                "bits_read_per_cycle": sum(
                    port.layout.lanes * port.dtype.bit_width for port in plan.ports if port.reads
                ),
                "notes": list(summary.notes),
            }
        )
    return found


def _producers(program: ProgramIR, number: int) -> list[dict[str, Any]]:
    """Each buffer that a kernel reads from an earlier one, with the number of that kernel."""
    found = []
    for buffer in sorted(program.calls[number].accesses()[0]):
        writers = [n for n in range(number) if buffer in program.calls[n].accesses()[1]]
        if writers:
            found.append({"buffer": program.buffers[buffer].name, "kernel": writers[-1]})
    return found


def _units(plan: HardwarePlan) -> dict[str, int]:
    """Pipelined units by name, and how many of each."""
    counts: dict[str, int] = {}
    for node in plan.all(UnitOp):
        counts[node.unit.name] = counts.get(node.unit.name, 0) + 1
    return counts


def _accesses(plan: HardwarePlan, variables: dict[str, int]) -> tuple[int, int]:
    """Bits that a run reads from memories and writes to them, in whole words."""
    read = written = 0
    for leaf in plan.leaves:
        steps = _steps(leaf, variables)
        for number in leaf.nodes:
            node = plan.nodes[number]
            if isinstance(node, Load | Store):
                bits = steps * plan.layouts[node.buffer].lanes * plan.storage[node.buffer].bit_width
                read, written = (read + bits, written) if isinstance(node, Load) else (read, written + bits)
    return read, written


def _steps(leaf: LeafPlan, variables: dict[str, int]) -> int:
    steps = 1
    for loop in leaf.path:
        steps *= bound_value(loop.bound, variables)
    return steps
