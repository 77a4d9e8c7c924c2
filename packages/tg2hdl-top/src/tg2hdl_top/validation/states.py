"""Runs of programs and kernels whose results are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import IRConst, IROp, KernelIR, LoopIR, RangeAnalysis, operands, values_below
from tg2hdl_ir.golden.kernel import KernelTrace, evaluate_within, parallel_axes
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import Rule
from tg2hdl_top.validation.inputs import whole_numbers

__all__ = ["KernelInputs", "rule_for", "steps"]

Array = npt.NDArray[Any]

EXACT = frozenset({"add", "sub", "mul", "neg", "max", "min", "where", "mulacc", "lt", "eq", "ne", "cast"})
"""Ops that make whole numbers of whole numbers, in any order."""

EXACT_FRACTION = 23
"""Bits of the fraction from which on sums of small whole numbers are exact."""


@dataclass(frozen=True)
class KernelInputs:
    """The inputs of a kernel.

    Parameters
    ----------
    inputs : str
        Kind of inputs of the program, in words.
    contents : dict of int to ndarray
        By slot.
    variables : dict of str to int
    """

    inputs: str
    contents: Mapping[int, Array]
    variables: Mapping[str, int]

    def with_whole_numbers(self) -> KernelInputs:
        """The same with small whole numbers in all arrays of floats."""
        contents = {
            slot: whole_numbers(array, slot) if array.dtype.kind not in "biu" else array
            for slot, array in self.contents.items()
        }
        return KernelInputs(self.inputs, contents, self.variables)

    def fits(self, kernel: KernelIR) -> bool:
        """Whether it has a value for each variable of a kernel."""
        return all(v.name in self.variables for v in kernel.variables)

    def run(
        self,
        kernel: KernelIR,
        options: CompileOptions,
        work: float = math.inf,
        iterations: Mapping[int, Array] | None = None,
        registers: Mapping[int, Array] | None = None,
    ) -> KernelTrace:
        """Evaluate a kernel, or some of its iterations.

        Parameters
        ----------
        kernel : KernelIR
        options : CompileOptions
            Choose the units whose bits are computed.
        work : float, optional
            Most steps of the golden model.
        iterations : mapping of int to ndarray, optional
            Those to evaluate, by axis; all unless given.
        registers : mapping of int to ndarray, optional
            What registers hold before; zero unless given.
        """
        buffers = {m.idx: self.contents[m.idx] for m in kernel.buffers if m.idx in self.contents}
        values = {v.name: self.variables[v.name] for v in kernel.variables}
        return evaluate_within(
            work,
            kernel,
            buffers,
            values,
            target=options.target,
            units=options.units,
            iterations=iterations,
            registers=registers,
        )

    def separate(self, kernel: KernelIR, options: CompileOptions, axes: Mapping[int, Array]) -> bool:
        """Whether the iterations of some axes of a kernel surely do not depend on each other.

        Parameters
        ----------
        kernel : KernelIR
        options : CompileOptions
            Choose the units whose bits are computed.
        axes : mapping of int to ndarray
            Iterations by axis.
        """
        values = {v.name: self.variables[v.name] for v in kernel.variables}
        return axes.keys() <= parallel_axes(kernel, values, target=options.target, units=options.units)


def rule_for(options: CompileOptions, kernel: KernelIR) -> Rule:
    """How a kernel is compared with its rewritten forms, on small whole numbers where they may regroup sums.

    Parameters
    ----------
    options : CompileOptions
        Whose `float_order` decides.
    kernel : KernelIR
        Before its rewrites.
    """
    types = [*(r.dtype for r in kernel.registers), *(b.dtype for b in kernel.buffers)]
    if options.float_order != "relaxed" or not any(t.is_float for t in types):
        return Rule.BITS
    return Rule.VALUES if _is_exact(kernel) else Rule.BOUND


def _is_exact(kernel: KernelIR) -> bool:
    """Whether a kernel makes whole numbers of small whole numbers, whatever the order of its sums."""
    statements = list(kernel.loop_tree.statements())
    for value in values_below([v for s in statements for v in operands(s)]):
        if not value.dtype.is_float:
            continue
        if value.dtype.fraction_bits < EXACT_FRACTION:
            return False
        if isinstance(value, IRConst) and not float(value.value).is_integer():
            return False
        if isinstance(value, IROp) and value.op not in EXACT:
            return False
    return True


def steps(kernel: KernelIR) -> int:
    """Statements that a kernel executes, with the largest values of its variables."""
    ranges = RangeAnalysis()

    def inside(loop: LoopIR) -> int:
        bound = loop.bound if isinstance(loop.bound, int) else ranges.of(loop.bound)[1]
        return bound * sum(inside(item) if isinstance(item, LoopIR) else 1 for item in loop.items)

    return inside(kernel.loop_tree)
