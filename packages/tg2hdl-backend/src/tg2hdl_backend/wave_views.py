"""A design's waveform in the user's terms: values as numbers, and the kernels that run by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tg2hdl_ir import DType
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.operations import Operation
from tg2hdl_lower.plan.registers import RegisterRead
from tg2hdl_sim import View
from tg2hdl_top import Design

__all__ = ["design_views"]

MEMORY_WORDS, EXACT_BITS = 64, 53
"""Larger memories are not in a waveform, and longer integers are not exact real numbers."""


def design_views(design: Design) -> list[View]:
    """Kernels that run, values of their datapaths, and elements of small memories.

    Integers are signed as their dtypes are, floats are real numbers.
    """
    names = [_names(design, core) for core in range(len(design.core_plans))]
    busy = tuple((f"kernel{core}.busy", 1) for core in range(len(names)))
    views = [View(("running",), busy, partial(_running, names), is_text=True)]
    for core, plan in enumerate(design.core_plans):
        views += _datapath(plan, core, f"kernel{core}_{names[core]}")
    return [*views, *_elements(design)]


def _names(design: Design, core: int) -> str:
    calls = zip(design.cores or range(len(design.kernels)), design.program.calls, strict=True)
    return "/".join(dict.fromkeys(call.kernel.name for number, call in calls if number == core))


def _running(names: list[str], *busy: int) -> str:
    return "+".join(name for name, bit in zip(names, busy, strict=True) if bit) or "idle"


def _datapath(plan: HardwarePlan, core: int, scope: str) -> Iterator[View]:
    """Registers, and results under the names that the printed plan has."""
    registers = {f"acc{node.register}": node for node in plan.all(RegisterRead)}
    computed = {
        f"v{node.number}_{node.op}": node for node in plan.nodes.values() if isinstance(node, Operation)
    }
    for name, node in {**registers, **computed}.items():
        if node.dtype.is_float or node.width <= EXACT_BITS:
            decode = partial(_decoded, node.dtype, node.width, node.signed)
            yield View((scope, name), ((f"kernel{core}.{name}", node.width),), decode)


def _elements(design: Design) -> Iterator[View]:
    """Elements of small memories, in the order of the flat buffer."""
    regions = {name for array in design.arrays for name in array.members}
    for memory in design.memories.values():
        layout, dtype = memory.layout, memory.dtype
        is_large = layout.words > MEMORY_WORDS or memory.banks > 1 or dtype.bit_width > 64
        if is_large or memory.ring or memory.name in regions:
            continue
        elements = np.arange(layout.depth, dtype=np.int64)
        for element, word, lane in zip(elements, *layout.place(elements), strict=True):
            source = f"memory_{memory.name}.word{word}", layout.lanes * dtype.bit_width
            decode = partial(_lane, dtype, int(lane) * dtype.bit_width)
            yield View((memory.name, f"{memory.name}_{element}"), (source,), decode)


def _lane(dtype: DType, low: int, word: int) -> float:
    bits = word >> low & ((1 << dtype.bit_width) - 1)
    return _decoded(dtype, dtype.bit_width, dtype.is_signed, bits)


def _decoded(dtype: DType, width: int, signed: bool, bits: int) -> float:
    if dtype.is_float:
        return float(dtype.bits_to_const(bits))
    return bits - (1 << width) if signed and bits >> (width - 1) else bits
