"""Cuts kernels over their outputs, so that each run reads only a tile of the weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tg2hdl_ir import IRVariable, KernelCall, KernelIR, ProgramBuffer, ProgramIR, UnsupportedError
from tg2hdl_ir.passes.common_kernels import with_common_kernels
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.slice_axis import SliceableAxis, slice_axis, sliceable_axes
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats import Repeats, find_repeats

Values = tuple[tuple[str, int], ...]

__all__ = ["ROLE", "Tiling", "find_tile_repeats", "tilings", "with_tiles"]

ROLE = "external"
"""Role of a buffer that is a tile of weights in external memory."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """How a kernel call is cut: an axis, and how many of its iterations are a run; the last one may have fewer."""

    axis: SliceableAxis
    count: int

    @property
    def runs(self) -> int:
        """Runs of the kernel."""
        return -(-self.axis.bound // self.count)

    @property
    def ragged(self) -> bool:
        """Whether the last run has fewer iterations."""
        return self.axis.bound % self.count > 0

    def kernels(self, kernel: KernelIR) -> Iterator[tuple[KernelIR, Values]]:
        """The canonical kernel of each run, and the values of its variables."""
        if self.ragged:
            variable = IRVariable(_fresh_name(kernel), 0, self.runs - 1)
            sliced = canonicalize(slice_axis(kernel, self.axis, variable, self.count))
            yield from ((sliced, ((variable.name, run),)) for run in range(self.runs))
            return
        for first in range(0, self.axis.bound, self.count):
            yield canonicalize(slice_axis(kernel, self.axis, first, self.count)), ()


def tilings(program: ProgramIR, call: KernelCall, weights: Collection[int]) -> list[Tiling]:
    """Partitions of a call in which each run reads one tile of each of these buffers; those with the most runs last.

    Tiles that do not divide the loop are the smallest ones for their number of runs.

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
        for count in sorted({-(-axis.bound // runs) for runs in range(2, axis.bound + 1)})
    ]
    return sorted(found, key=lambda t: (t.runs, t.ragged, t.axis.axis))


def _fresh_name(kernel: KernelIR) -> str:
    """Name of a variable that the kernel does not have."""
    taken = {variable.name for variable in kernel.variables}
    return next(name for n in count() if (name := f"tile{n}") not in taken)


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
        for run, (kernel, values) in enumerate(tiling.kernels(call.kernel)):
            slots = dict(call.slots)
            for slot in tiling.axis.strides:
                whole = program.buffers[slots[slot]]
                assert slots[slot] in weights, "an axis was analyzed for these weights"
                assert whole.initial is not None, "weights have contents"
                elements = tiling.axis.elements(slot, whole.depth, run * tiling.count, tiling.count)
                name = f"{whole.name}.k{number}.{run}"
                contents = np.where(elements < 0, 0, whole.initial.reshape(-1)[elements])
                contents = contents.astype(whole.initial.dtype)
                slots[slot] = len(buffers)
                buffers.append(ProgramBuffer(name, whole.dtype, (len(elements),), ROLE, contents))
            buffers_of = tuple(slots[b.idx] for b in kernel.buffers)
            calls.append(KernelCall(kernel, buffers_of, (*call.values, *values)))
    cut = replace(program, buffers=tuple(buffers), calls=tuple(calls))
    used = {n for call in cut.calls for n in call.buffers}
    kept = tuple(
        replace(b, initial=None) if b.role == "weight" and n not in used else b for n, b in enumerate(buffers)
    )
    return replace(cut, buffers=kept)


def find_tile_repeats(program: ProgramIR, options: CompileOptions) -> Repeats:
    """Decide which calls run on one core, such that all tiles of a kernel do.

    Layers that are equal share a core; where that cannot be, each has its own.

    Parameters
    ----------
    program : ProgramIR
        Cut into tiles.
    options : CompileOptions

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
