"""The page of a kernel, which its node in the graph opens: loops, decisions, datapath, memories and waveform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tg2hdl.explain import KernelExplanation, explain_design
from tg2hdl.html_templates import environment
from tg2hdl.report.charts import heat_map
from tg2hdl.report.datapath import draw_datapath
from tg2hdl.report.kernel_facts import result_names
from tg2hdl.report.utilization import Resource, heat, resources
from tg2hdl.report.waveform import draw_wave
from tg2hdl_lower import HardwarePlan

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["kernel_pages"]

DRAWN = 32
"""Kernels whose datapaths are drawn: those of most cycles, and equal ones."""

_KINDS = {
    "steps": "steps started",
    "multipliers": "multipliers",
    "unit": "{}",
    "read": "reads of {}",
    "write": "writes of {}",
}


def kernel_pages(
    accelerator: CompiledModel, facts: Mapping[str, Any], waves: Mapping[int, Any] = {}
) -> list[str]:
    """HTML of each kernel, in execution order.

    Parameters
    ----------
    accelerator : CompiledModel
    facts : mapping of str to object
        Figures of the report.
    waves : mapping of int to object, optional
        Of `recorded_waves`, by number of the kernel.
    """
    design, kernels = accelerator.design, facts["kernels"]
    explained = _by_call(explain_design(accelerator.captured, design, variants=False).kernels)
    labels = [k["label"] for k in kernels]
    used: list[list[Resource]] = [[] for _ in kernels]
    for r in resources(accelerator):
        for n in {number for number, _ in r.events}:
            used[n].append(Resource(r.name, r.kind, r.capacity, [e for e in r.events if e[0] == n]))
    template = environment().get_template("kernel.html.j2")
    longest = sorted(range(len(kernels)), key=lambda n: -kernels[n]["cycles"])[:DRAWN]
    memories = {m["name"]: m for m in facts["memories"]}
    timeline = design.timeline(accelerator.captured.var_vals)
    results, buffers = result_names(facts), design.program.buffers
    pages = []
    for n, (k, plan, call) in enumerate(zip(kernels, design.kernels, design.program.calls, strict=True)):
        named = {b.name: b.name if b.name in k["writes"] else results.get(b.name, b.name) for b in buffers}
        slots = {
            m.idx: named[buffers[n].name] for m, n in zip(call.kernel.buffers, call.buffers, strict=True)
        }
        rows = heat(accelerator, used[n], bins=80, window=(k["start"], k["end"]), timeline=timeline)
        shown = [
            {
                "name": _KINDS[r["kind"]].format(named.get(r["name"], r["name"])),
                "note": _note(r),
                "used": r["used"],
            }
            for r in rows
        ]
        caption = (
            f"Share of each resource that this kernel uses, in the cycles {k['start']:,} to {k['end']:,}."
        )
        pages.append(
            template.render(
                k=k,
                number=n,
                labels=labels,
                explained=explained[n],
                loops=_loops(plan),
                heat=heat_map(f"heat-{n}", shown, (k["start"], k["end"]), caption),
                datapath=draw_datapath(plan, slots) if n in longest else "",
                memories=[
                    (memories[name], verb)
                    for verb in ("reads", "writes")
                    for name in k[verb]
                    if name in memories
                ],
                wave=draw_wave(waves[n]) if n in waves else "",
            )
        )
    return pages


def _note(row: Mapping[str, Any]) -> str:
    return f"{row['events']:,}, at most {row['capacity']:,} a cycle"


def _by_call(groups: Sequence[KernelExplanation]) -> list[KernelExplanation]:
    return [group for group in groups for _ in range(group.count)]


def _loops(plan: HardwarePlan) -> list[list[str]]:
    """Loops of each leaf, the outermost first."""
    return [
        [
            f"i{loop.counter.axis} < {loop.bound if isinstance(loop.bound, int) else 'n'}"
            for loop in leaf.path
            if loop.counter
        ]
        for leaf in plan.leaves
    ]
