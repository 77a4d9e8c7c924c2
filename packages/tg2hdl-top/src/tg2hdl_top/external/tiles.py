"""Cuts kernels over their outputs, so that each run reads only a tile of the weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.slice_axis import SliceableAxis, slice_axis, sliceable_axes
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR

__all__ = ["ROLE", "Tiling", "tilings", "with_tiles"]

ROLE = "external"
"""Role of a buffer that is a tile of weights in external memory."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """How a kernel call is cut: an axis, and how many of its iterations are a run."""

    axis: SliceableAxis
    count: int

    @property
    def runs(self) -> int:
        """Runs of the kernel."""
        return self.axis.bound // self.count


def tilings(program: ProgramIR, call: KernelCall, weights: Collection[int]) -> list[Tiling]:
    """Partitions of a call in which each run reads one tile of each of these buffers; those with the most runs last.

    Parameters
    ----------
    program : ProgramIR
    call : KernelCall
    weights : collection of int
        Numbers of buffers.
    """
    slots = [idx for idx, n in call.slots.items() if n in weights]
    if not slots or call.host_variables:
        return []
    found = [
        Tiling(axis, count)
        for axis in sliceable_axes(call.kernel, slots)
        for count in range(1, axis.bound)
        if axis.bound % count == 0
    ]
    return sorted(found, key=lambda t: (t.runs, t.axis.axis))


@ir_pass("slice-axis")
def with_tiles(program: ProgramIR, chosen: Mapping[int, tuple[Collection[int], Tiling]]) -> ProgramIR:
    """The program in which calls by number are cut; their weights become buffers of the role `ROLE`.

    Parameters
    ----------
    chosen : mapping of int to (collection of int, Tiling)
        Weights of the call that are external, and its tiling.
    """
    buffers, calls = list(program.buffers), []
    for number, call in enumerate(program.calls):
        if number not in chosen:
            calls.append(call)
            continue
        weights, tiling = chosen[number]
        for first in range(0, tiling.axis.bound, tiling.count):
            slots = dict(call.slots)
            for slot in tiling.axis.strides:
                whole = program.buffers[slots[slot]]
                assert slots[slot] in weights, "an axis was analyzed for these weights"
                assert whole.initial is not None, "weights have contents"
                elements = tiling.axis.elements(slot, whole.depth, first, tiling.count)
                name = f"{whole.name}.k{number}.{first // tiling.count}"
                contents = whole.initial.reshape(-1)[elements]
                slots[slot] = len(buffers)
                buffers.append(ProgramBuffer(name, whole.dtype, (len(elements),), ROLE, contents))
            kernel = canonicalize(slice_axis(call.kernel, tiling.axis, first, tiling.count))
            calls.append(KernelCall(kernel, tuple(slots[b.idx] for b in kernel.buffers), call.values))
    cut = replace(program, buffers=tuple(buffers), calls=tuple(calls))
    used = {n for call in cut.calls for n in call.buffers}
    kept = tuple(
        replace(b, initial=None) if b.role == "weight" and n not in used else b for n, b in enumerate(buffers)
    )
    return replace(cut, buffers=kept)
