"""One line about a run of a kernel on simulated hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tg2hdl_ir.nodes import IRBufStore, IROp, IRRegStore, IRValue, KernelIR, LoopIR

if TYPE_CHECKING:
    from tg2hdl_backend.kernel_runner import KernelRun

__all__ = ["count_multiplications", "describe_run"]


def describe_run(kernel: KernelIR, run: KernelRun, variables: Mapping[str, int], multipliers: int) -> str:
    """Cycles of a run, and cycles x multipliers / multiplications: 1.0 when all are always busy."""
    work = count_multiplications(kernel, variables)
    ratio = f", ratio {run.cycles * multipliers / work:.2f}" if work else ""
    return f"    hdl {kernel.name}: {run.cycles:,} cycles{ratio} ({run.engine})"


def count_multiplications(kernel: KernelIR, variables: Mapping[str, int]) -> int:
    """Multiplications of data that one run of a kernel does; those of addresses do not count."""
    from tg2hdl_ir.golden.kernel import scalar

    def count(loop: LoopIR) -> int:
        seen: set[int] = set()
        here = sum(
            _multiplications(s.value, seen) for s in loop.items if isinstance(s, IRBufStore | IRRegStore)
        )
        inner = sum(count(item) for item in loop.items if isinstance(item, LoopIR))
        return max(0, scalar(loop.bound, variables)) * (here + inner)

    return count(kernel.loop_tree)


def _multiplications(value: IRValue, seen: set[int]) -> int:
    stack, found = [value], 0
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, IROp):
            continue
        seen.add(id(node))
        found += node.op in ("mul", "mulacc")
        stack.extend(node.srcs)
    return found
