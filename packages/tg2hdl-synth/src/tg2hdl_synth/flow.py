"""The whole flow: estimate, logic synthesis, place and route over seeds."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, Literal

from tg2hdl_ir import InputError, TargetDef
from tg2hdl_ir.workers import Workers
from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.estimate import convert, estimate_design
from tg2hdl_synth.families import Family, tools_of
from tg2hdl_synth.families.answers import Estimate
from tg2hdl_synth.floorplan import Floorplan, check_floorplan
from tg2hdl_synth.naming import describe, module_title
from tg2hdl_synth.netlist import Netlist
from tg2hdl_synth.parts import part_named
from tg2hdl_synth.place import FREQUENCY, PlaceAndRoute
from tg2hdl_synth.result import CriticalStep, SynthesisResult
from tg2hdl_synth.seeds import place_seeds
from tg2hdl_synth.tools import Progress

__all__ = ["synthesize"]


def synthesize(
    top: Any,
    part: str | TargetDef = "ecp5-45k",
    speed: int = 6,
    seeds: int = 3,
    *,
    name: str = "top",
    frequency: float = FREQUENCY,
    pack_registers: bool | Literal["wide"] = False,
    place: bool = True,
    floorplan: Floorplan | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
    target: str | TargetDef | None = None,
) -> SynthesisResult:
    """Synthesize, place and route a design, without pins.

    Every step is cached by its content, so that a second call answers at once.

    Parameters
    ----------
    top : Component or str
        An Amaranth Component, such as ``accelerator.top`` or a CompiledKernel; or RTLIL with a marked top.
    part : str or TargetDef
        A name from ``tg2hdl plugins list``, e.g. ``ecp5-25k``, ``ecp5-45k``, ``ecp5-85k``, ``ice40-up5k``.
    speed : int
        Speed grade, where the family has some: 6, 7 or 8 of an ECP5.
    seeds : int
        Runs of place and route.
    name : str
        Of the top module.
    frequency : float
        Target of place and route (MHz); missing it is not an error.  One that can be reached helps a design for which
        an ECP5's wires are scarce: those of nets that miss it are laid again, all others are left as they are.
    pack_registers : bool or "wide"
        Move registers into block RAMs and multipliers of an ECP5; ``"wide"`` also those of block RAMs read by 36 bits.
    place : bool
        Whether to place and route, or to stop at the netlist.
    floorplan : mapping of str to (float, float), optional
        Where on an ECP5 block RAMs and multipliers belong: x and y by glob patterns of cell names, from (0, 0) to
        (1, 1), opposite corners of the part: ``{"lane0.*": (0.1, 0.2)}``.  The rest is placed around them.
    progress : callable, optional
        Called with a message at each step.
    workers : Workers, optional
        Where seeds are placed and routed, several at once; the results are the same.
    target : str or TargetDef, optional
        Alias of `part`.

    Raises
    ------
    DesignTooLargeError
        When the part does not have enough cells; `partial` holds the utilization.
    SynthesisError
        When a tool fails; `partial` holds the results of the tools before it.
    ToolMissingError
        When a wheel is not installed.
    InputError
        For an unknown part, speed grade, number of seeds or target; for a floorplan of a family that takes none.
    """
    part = part if target is None else target
    part = part if isinstance(part, TargetDef) else part_named(part)
    tools = tools_of(part.family)
    _check(tools, part, speed, seeds if place else 1, frequency)
    more: dict[str, Any] = {"floorplan": floorplan} if floorplan else {}
    if floorplan:
        check_floorplan(floorplan)
        if not tools.takes_floorplan:
            raise InputError(f"{part.name} takes no floorplan", hint="leave floorplan out")
    report = progress or (lambda message: None)
    rtlil = top if isinstance(top, str) else convert(top, name)
    packing = pack_registers if tools.packs_registers else False
    netlist = tools.synthesize(rtlil, part, pack_registers=packing, progress=report)
    estimate = estimate_design(top, part, rtlil, pack_registers=bool(packing))
    result = _netlist_result(netlist, tools, part, speed, top, rtlil, estimate)
    _check_size(result, part)
    if not place:
        return result
    if workers is not None and not workers.is_here:
        place_seeds(netlist, part, seeds, workers, report, speed=speed, frequency=frequency, **more)
    for seed in range(1, seeds + 1):
        try:
            run = tools.place(
                netlist, part, speed=speed, seed=seed, frequency=frequency, progress=report, **more
            )
        except (SynthesisError, DesignTooLargeError) as error:
            error.partial = result
            raise
        result = _with_run(result, run, part, top)
    return result


def _check(tools: Family, part: TargetDef, speed: int, seeds: int, frequency: float) -> None:
    if tools.speeds and speed not in tools.speeds:
        grades = ", ".join(map(str, tools.speeds))
        raise InputError(f"speed grade {speed!r} is unknown", hint=f"{part.name} has {grades}")
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise InputError(f"seeds={seeds!r} is not a positive integer", hint="give seeds=1 or more")
    if isinstance(frequency, bool) or not isinstance(frequency, int | float) or not 0 < frequency < inf:
        raise InputError(f"frequency={frequency!r} is not a clock", hint="give MHz, or leave it out")


def _netlist_result(
    netlist: Netlist,
    tools: Family,
    part: TargetDef,
    speed: int,
    top: Any,
    rtlil: str,
    estimate: Estimate | None,
) -> SynthesisResult:
    kernels = {
        module_title(name, top): netlist.modules[name] for name in sorted(netlist.modules, key=_place) if name
    }
    return SynthesisResult(
        design=netlist.top,
        part=part.name,
        family=part.family,
        speed=speed if tools.speeds else None,
        cells=netlist.total,
        by_kernel=kernels | {"shared": netlist.modules[""]},
        by_memory={n.removeprefix("memory_"): count for n, count in sorted(netlist.memories.items())},
        runs=(),
        critical_path=(),
        versions=tools.versions(),
        folder=netlist.folder,
        estimate=estimate,
        notes=tools.notes(netlist, part, rtlil),
    )


def _place(module: str) -> tuple[str, int]:
    name = module.rstrip("0123456789")
    return name, int(module[len(name) :] or 0)


def _check_size(result: SynthesisResult, part: TargetDef) -> None:
    available = {"comb": part.lut, "ff": part.ff, "dsp": part.dsp, "bram": part.bram}
    beyond = [
        f"{kind}: {result.cells[kind]:,} of {count:,}"
        for kind, count in available.items()
        if result.cells[kind] > count
    ]
    if beyond:
        kernels = max(result.by_kernel, key=lambda k: sum(result.by_kernel[k].values()))
        error = DesignTooLargeError(
            f"the design does not fit {part.name}: {'; '.join(beyond)}",
            where=result.design,
            notes=(f"the largest part is {kernels}",),
            hint="take a larger part, compile with fewer multipliers, or load weights from outside",
        )
        error.partial = result
        raise error


def _with_run(result: SynthesisResult, run: PlaceAndRoute, part: TargetDef, top: Any) -> SynthesisResult:
    runs = (*result.runs, run)
    middle = sorted(runs, key=lambda r: r.fmax)[(len(runs) - 1) // 2]
    steps: list[CriticalStep] = []
    for step in middle.critical_path:
        what = describe(step.cell, top)
        if what.startswith("$"):  # a cell that a tool made; its net has the name
            what = describe(step.net, top)
        if steps and steps[-1].what == what:
            steps.pop()
        steps.append(CriticalStep(what, step.net, round(step.delay, 2)))
    return replace(result, runs=runs, critical_path=tuple(steps))
