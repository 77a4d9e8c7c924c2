"""Where the cells of ResNet-8 and ResNet-20 are, core by core, and what common cores for more kernels would give.

    python benchmarks/repeats/cores.py

Cells are those of the estimate before synthesis (`tg2hdl_synth.estimate`), LUTs and flip-flops. Writes cores.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

from run import resnet

HERE = Path(__file__).parent
MODELS = ("ResNet-8 int8", "ResNet-20 int8")
CONTROL = ("const", "counter", "address", "first", "last", "lane", "position", "index")

Row = tuple[str, int, int, Any]
"""Kernel, runs, cells and plan of a core."""


def cells(component: Any) -> int:
    """LUTs and flip-flops of a component, or of RTLIL."""
    from tg2hdl_synth.estimate import convert
    from tg2hdl_synth.families.ecp5.estimate import estimate_area

    area = estimate_area(component if isinstance(component, str) else convert(component), 156)
    return area.lut + area.ff


def shape(plan: Any) -> Hashable:
    """All of a plan but the constants of its loops, addresses and comparisons, and widths."""
    nodes = [
        (
            n.label,
            "" if n.label in ("const", "address") else n.detail,
            n.operands,
            plan.placement(n.number)[:2],
        )
        for n in plan.live()
    ]
    return plan.ii, plan.depth, tuple(nodes), len(plan.ports)


def operations(plan: Any) -> Hashable:
    """What a step computes, however it is scheduled and addressed."""
    nodes = (n for n in plan.live() if n.label not in CONTROL and n.detail != "and")
    return frozenset(Counter((n.label, n.detail.split(" ")[0]) for n in nodes).items())


def spared(rows: Iterable[Row], key: Callable[[Any], Hashable]) -> int:
    """Cells of all cores but the largest one of each key."""
    groups: dict[Hashable, list[int]] = {}
    for _, _, count, plan in rows:
        groups.setdefault(key(plan), []).append(count)
    return sum(sum(group) - max(group) for group in groups.values())


def measure(name: str) -> tuple[int, list[Row]]:
    """Cells of a model's design, and its cores."""
    import tg2hdl
    from tg2hdl_lower import KernelCore

    model, inputs = resnet(name)
    accelerator = tg2hdl.compile(model, *inputs, multipliers=16, name="model")
    design = accelerator.design
    rows = [
        (plan.kernel.name, design.cores.count(n), cells(KernelCore(plan)), plan)
        for n, plan in enumerate(design.core_plans)
    ]
    return cells(accelerator.rtlil()), rows


def main() -> None:
    """Estimate both models, and write cores.md."""
    os.environ.setdefault("DEV", "PYTHON")
    found = {name: measure(name) for name in MODELS}
    lines = [
        "# Where the cells of ResNet-8 and ResNet-20 are",
        "",
        "Written by `python benchmarks/repeats/cores.py`: LUTs and flip-flops of the estimate before synthesis.",
        "*shape*: the first core whose plan differs in constants and widths alone; *operations*: the first one whose",
        "steps compute the same with another schedule.",
    ]
    for name, (total, rows) in found.items():
        lines += [
            "",
            f"## {name}: {total:,}",
            "",
            "| core | kernel | runs | depth | cells | shape | operations |",
        ]
        lines += ["|---|---|---|---|---|---|---|"]
        plans = [plan for *_, plan in rows]
        for n, (kernel, runs, count, plan) in enumerate(rows):
            same = [
                next(m for m, other in enumerate(plans) if key(other) == key(plan))
                for key in (shape, operations)
            ]
            marks = " | ".join(str(m) if m < n else "" for m in same)
            lines.append(f"| {n} | {kernel} | {runs} | {plan.depth} | {count:,} | {marks} |")
        rest = total - sum(count for _, _, count, _ in rows)
        lines.append(
            f"| | memories, multipliers and their multiplexers, sequencer, tables | | | {rest:,} | | |"
        )
    lines += ["", "## What more common cores would give", ""]
    lines += ["| cores | " + " | ".join(MODELS) + " | ratio |", "|---|---|---|---|"]
    steps: list[tuple[str, Callable[[Any], Hashable]]] = [
        ("as they are", id),
        ("one for each shape", shape),
        ("one for the same operations", operations),
    ]
    for title, key in steps:
        less, more = (total - spared(rows, key) for total, rows in found.values())
        lines.append(f"| {title} | {less:,} | {more:,} | {more / less:.2f} |")
    lines += ["", *TEXT.strip().splitlines(), ""]
    (HERE / "cores.md").write_text("\n".join(lines))


TEXT = """
The last two rows leave out what the choice between constants would add, and what fewer users of the multipliers and
memories would spare. Cores of one shape (the same nodes in the same cycles) are common already, unless their weights
together would be a memory that takes a cycle more to read. Cores of the same operations have other depths: a sum of
24 bits takes a level more than one of 23, a kernel of 16 channels with 16 lanes
has no loop over them, and a bias that is constant during a run takes no level. On the deepest of them the other runs
take a cycle more each.
"""


if __name__ == "__main__":
    main()
