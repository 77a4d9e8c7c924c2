"""The dimensions of this package; each function gives the values to try for a program on a part."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir import ProgramIR, TargetDef
from tg2hdl_lower import family_named
from tg2hdl_top import CompileOptions

__all__ = [
    "float_orders",
    "folds",
    "multipliers",
    "schedules",
    "shared_units",
    "targets",
    "weights",
    "with_weights",
]

_MOST_SOFT = 16
"""Multipliers that are tried on a part without any."""


def multipliers(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[int | None]:
    """One lane, then budgets of 1, 2, 3, 4, 6, 8, 12, ... up to the multipliers of the part.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    most = part.dsp or _MOST_SOFT
    powers = [1 << n for n in range(most.bit_length())]
    steps = {n for p in powers for n in (p, p + p // 2)}
    return [None, *sorted(n for n in {*steps, most} if n <= most)]


def schedules(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[str]:
    """Kernels one after the other or overlapped, and runs that overlap, where there are several kernels.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return ["auto", "overlap", "dataflow"] if len(program.calls) > 1 else ["auto"]


def float_orders(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[str]:
    """Both orders for a program of floats.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return ["strict", "relaxed"] if _has_floats(program) else ["strict"]


def folds(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[bool]:
    """Scales that stay or become part of the weights, for a program of floats.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return [False, True] if _has_floats(program) else [False]


def shared_units(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[bool]:
    """Float units of each kernel, or shared by several.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return [False, True] if _has_floats(program) and len(program.calls) > 1 else [False]


def targets(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[str]:
    """The family of the options, and that of the part where the planner knows it.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return list(dict.fromkeys([options.target, family_named(part.family).name]))


def weights(program: ProgramIR, options: CompileOptions, part: TargetDef) -> list[str]:
    """Weights on the chip; those outside it take another port, and are tried where asked for.

    Parameters
    ----------
    program, options, part
        As of `DimensionDef.values`.
    """
    return [options.weights]


def with_weights(options: CompileOptions, value: str, part: TargetDef) -> CompileOptions:
    """Weights in a place; outside the chip as far as they do not fit the block RAMs of the part.

    Parameters
    ----------
    options : CompileOptions
    value : str
        ``"rom"``, ``"loadable"`` or ``"external"``.
    part : TargetDef
    """
    bits = options.on_chip_bits or (part.bram * part.bram_bits if value == "external" else None)
    return replace(options, weights=value, on_chip_bits=bits)


def _has_floats(program: ProgramIR) -> bool:
    return any(b.dtype.is_float for call in program.calls for b in call.kernel.buffers)
