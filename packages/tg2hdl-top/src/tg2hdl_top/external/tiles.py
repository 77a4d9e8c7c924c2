"""Cuts kernels over their outputs, so that each run reads only a tile of the weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.passes.common_kernels import with_common_kernels
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.slice_axis import SliceableAxis, slice_axis, sliceable_axes
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats import Repeats, find_repeats

__all__ = ["ROLE", "Tiling", "find_tile_repeats", "tilings", "with_tiles"]

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


def find_tile_repeats(program: ProgramIR, options: CompileOptions) -> Repeats:
    """Decide which calls run on one core, such that all tiles of a kernel do.

    Layers that are equal share a core; where that cannot be, each has its own.

    Raises
    ------
    UnsupportedError
        When the tiles of a kernel cannot share a core.
    """
    found = find_repeats(with_common_kernels(program), options)
    if _split(found.program) is None:
        return found
    found = find_repeats(_by_kernel(program), options)
    name = _split(found.program)
    if name is not None:
        raise UnsupportedError(
            f"the tiles of {name} cannot be used by one core",
            where=f"program {program.name}",
            hint="choose a part that holds this weight, or compile another layer as a program of its own",
        )
    return found


def _weight(program: ProgramIR, call: KernelCall) -> str:
    """The weight and kernel whose tile a call reads; empty for others."""
    names = [program.buffers[n].name for n in call.buffers if program.buffers[n].role == ROLE]
    return names[0].rpartition(".")[0] if names else ""


def _split(program: ProgramIR) -> str | None:
    """A weight whose tiles are read by several cores."""
    cores: dict[str, set[object]] = {}
    for call in program.calls:
        cores.setdefault(_weight(program, call), set()).add(call.kernel)
    return next((name for name, kernels in cores.items() if name and len(kernels) > 1), None)


def _by_kernel(program: ProgramIR) -> ProgramIR:
    """The program in which only runs on tiles of one weight have a common kernel."""
    calls = list(program.calls)
    for name in dict.fromkeys(_weight(program, call) for call in calls):
        if name:
            places = [n for n, call in enumerate(calls) if _weight(program, call) == name]
            common = with_common_kernels(replace(program, calls=tuple(calls[n] for n in places)))
            for place, call in zip(places, common.calls, strict=True):
                calls[place] = call
    return replace(program, calls=tuple(calls))
