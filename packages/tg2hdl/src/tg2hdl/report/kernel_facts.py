"""Figures of each kernel: time, causes of waiting, and bits moved."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tg2hdl.layers import sources_of
from tg2hdl.macs import issued_products
from tg2hdl.results import KernelSummary
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.graph import leaf_steps
from tg2hdl_lower.plan.operations import UnitOp

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["kernel_facts", "result_names"]

_PLACE = re.compile(r"\(([^()]*:\d+)\)")
"""File and line in a layer's name, such as ``conv2d (cnn.py:8)``."""


def kernel_facts(accelerator: CompiledModel) -> list[dict[str, Any]]:
    """One entry per kernel call, in execution order; cycles count from ``start``."""
    design, variables = accelerator.design, accelerator.captured.var_vals
    names = {n: buffer.name for n, buffer in enumerate(design.program.buffers)}
    if design.external is not None:
        names |= {tile.buffer: tile.array for tile in design.external.tiles}
    timeline = design.timeline(variables)
    sources = sources_of(design.program)
    places = [_place(source) for source in sources]
    labels = _labels([(k.layer, k.name, p) for k, p in zip(accelerator.kernels, places, strict=True)])
    found: list[dict[str, Any]] = []
    writers: dict[int, int] = {}
    for number, (summary, plan) in enumerate(zip(accelerator.kernels, design.kernels, strict=True)):
        call = design.program.calls[number]
        reads, writes = call.accesses()
        moved = _accesses(plan, variables)
        found.append(
            {
                "name": summary.name,
                "label": labels[number],
                "layer": summary.layer,
                "place": places[number],
                "source": sources[number],
                "start": timeline.starts[number],
                "end": timeline.ends[number],
                "steps": summary.steps,
                "ii": summary.ii,
                "cycles": summary.cycles,
                "fill_and_drain": summary.cycles - summary.steps * summary.ii,
                "multipliers": summary.multipliers,
                "macs": summary.macs,
                "ratio": summary.ratio,
                "slots": _slots(plan, summary, variables),
                "units": _units(plan),
                "reads": [names[n] for n in sorted(reads)],
                "writes": [design.program.buffers[n].name for n in sorted(writes)],
                "waits_for": [
                    {"buffer": design.program.buffers[n].name, "kernel": writers[n]}
                    for n in sorted(reads)
                    if n in writers
                ],
                "bits_read": moved[0],
                "bits_written": moved[1],
                "bits_read_per_cycle": sum(
                    port.layout.lanes * port.dtype.bit_width for port in plan.ports if port.reads
                ),
                "notes": list(summary.notes),
            }
        )
        writers |= dict.fromkeys(writes, number)
    return found


def result_names(facts: Mapping[str, Any]) -> dict[str, str]:
    """Names of buffers between kernels, with the kernel that writes them, such as ``temp2 of fc1``."""
    writers: dict[str, list[str]] = {}
    for kernel in facts["kernels"]:
        for name in kernel["writes"]:
            writers.setdefault(name, []).append(kernel["label"])
    temporary = {name for name, tensor in facts["tensors"].items() if tensor["role"] == "temporary"}
    return {n: f"{n} of {labels[0]}" for n, labels in writers.items() if n in temporary and len(labels) == 1}


def _place(source: str) -> str:
    """Files and lines of an origin."""
    return ", ".join(dict.fromkeys(_PLACE.findall(source)))


def _labels(kernels: Sequence[tuple[str, str, str]]) -> list[str]:
    """A name that no other kernel has: of its layer, with its part of it or its line, else with a number."""
    names = [re.sub(r" *\(([^()]*:\d+|\w+)\)", "", layer) or name for layer, name, _ in kernels]
    parts = [" ".join(re.findall(r"_(sums|rest)\b", name)) for _, name, _ in kernels]
    for more in (parts, [place for _, _, place in kernels]):
        counts = Counter(names)
        longer = [f"{n} {m}".strip() if counts[n] > 1 else n for n, m in zip(names, more, strict=True)]
        distinct = Counter(longer)
        names = [m if more is parts or distinct[m] == 1 else n for n, m in zip(names, longer, strict=True)]
    counts, seen = Counter(names), Counter[str]()
    for number, name in enumerate(names):
        seen[name] += 1
        if counts[name] > 1:
            names[number] = f"{name} #{seen[name]}"
    return names


def _slots(plan: HardwarePlan, summary: KernelSummary, variables: dict[str, int]) -> dict[str, int]:
    """Where the cycles of a kernel's multipliers go; the sum is cycles x multipliers."""
    many, steps = summary.multipliers, max(1, summary.steps)
    if not many or not summary.macs:
        return {}
    issued = issued_products(plan, variables)
    if not issued:
        return {}
    useful = summary.products
    needed = math.ceil(issued / steps / many)
    return {
        "useful": min(useful, issued),
        "repeated or not used": max(0, issued - useful),
        "without a product": steps * needed * many - issued,
        "waiting for the next step": steps * (summary.ii - needed) * many,
        "fill and drain": (summary.cycles - steps * summary.ii) * many,
    }


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
        steps = leaf_steps(leaf, variables)
        for number in leaf.nodes:
            node = plan.nodes[number]
            if isinstance(node, Load | Store):
                bits = steps * plan.layouts[node.buffer].lanes * plan.storage[node.buffer].bit_width
                read, written = (read + bits, written) if isinstance(node, Load) else (read, written + bits)
    return read, written
