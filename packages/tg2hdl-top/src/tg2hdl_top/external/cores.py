"""The runs of a kernel on the tiles of its weights are on one core."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.passes.common_kernels import with_common_kernels
from tg2hdl_ir.program import KernelCall, ProgramIR
from tg2hdl_top.external.tiles import ROLE
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats import Repeats, find_repeats

__all__ = ["find_tile_repeats"]


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
