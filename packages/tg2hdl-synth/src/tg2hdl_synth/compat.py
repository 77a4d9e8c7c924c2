"""The functions of the reference: size and speed of one kernel as a dictionary, and its schematic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amaranth.hdl import Elaboratable

from tg2hdl_ir import InputError, KernelIR, TargetDef, ToolMissingError
from tg2hdl_lower.plan.operations import SharedUnitOp, UnitOp
from tg2hdl_synth.flow import synthesize
from tg2hdl_synth.parts import part_named
from tg2hdl_synth.schematic import show_hardware

__all__ = ["show_hardware", "synthesis_stats"]


def synthesis_stats(kernel: Any, device: str = "45k", package: str = "CABGA381") -> dict[str, Any]:
    """Size and speed of a kernel on an ECP5 of speed grade 6.

    Parameters
    ----------
    kernel : CompiledKernel, TopModule or KernelIR
        A KernelIR is compiled with default options.
    device : {"25k", "45k", "85k"}
    package : str
        As nextpnr-ecp5 names it.

    Returns
    -------
    dict
        ``mem_bits`` (bits of the buffers), ``fp32_units`` (units by op), ``fmax_mhz``, ``comb``, ``ff``, ``dp16kd``,
        ``mult18``; `from_synth` is False when the tools are missing, and the counts are then those of the estimate
        of the plan, with the reason under ``note``.

    Raises
    ------
    InputError
        For anything else than a kernel or a design.
    """
    from tg2hdl_lower import CompiledKernel

    if not isinstance(kernel, (KernelIR, Elaboratable)):
        raise InputError(
            f"{kernel!r:.60} is not a kernel", hint="give a CompiledKernel, a TopModule or a KernelIR"
        )
    design = CompiledKernel(kernel) if isinstance(kernel, KernelIR) else kernel
    part = _packaged(part_named(f"ecp5-{device}"), package)
    stats: dict[str, Any] = {"mem_bits": _memory_bits(design), "fp32_units": _units(design)}
    try:
        result = synthesize(design, part, seeds=1)
    except ToolMissingError as error:
        from tg2hdl_synth.estimate import estimate_design

        estimate = estimate_design(design, part)
        assert estimate is not None, "kernels have plans"
        counts = (estimate.fmax, estimate.comb, estimate.ff, estimate.bram, estimate.dsp)
        return stats | _counts(*counts, from_synth=False) | {"note": str(error)}
    used = [result.used(kind) for kind in ("comb", "ff", "bram", "dsp")]
    return stats | _counts(round(result.fmax, 2), *used, from_synth=True)


def _counts(fmax: float, comb: int, ff: int, bram: int, dsp: int, *, from_synth: bool) -> dict[str, Any]:
    return {
        "fmax_mhz": fmax,
        "comb": comb,
        "ff": ff,
        "dp16kd": bram,
        "mult18": dsp,
        "from_synth": from_synth,
    }


def _packaged(part: TargetDef, package: str) -> TargetDef:
    options = tuple((k, package if k == "package" else v) for k, v in part.options)
    return replace(part, options=options)


def _plans(design: Any) -> list[Any]:
    return list(design.plans) if hasattr(design, "plans") else [design.plan]


def _memory_bits(design: Any) -> int:
    return sum(m.depth * m.word_width for m in design.memories)


def _units(design: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for plan in _plans(design):
        for node in plan.live():
            if (
                isinstance(node, UnitOp)
                and not isinstance(node, SharedUnitOp)
                and node.dtype.bit_width == 32
                and node.dtype.is_float
            ):
                found[node.op] = found.get(node.op, 0) + 1
    return found
