"""Compare the golden model of a whole program with tinygrad's own result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tg2hdl_backend.agreement import agreement
from tg2hdl_backend.tinygrad_adapter.capture import capture
from tg2hdl_backend.tinygrad_adapter.own_result import own_result
from tg2hdl_ir import evaluate_program

__all__ = ["compare_with_tinygrad"]


def compare_with_tinygrad(
    model: Callable[..., Any], *inputs: Any, tolerance: float | None = None
) -> list[str]:
    """A line for each output that differs from tinygrad's own: capture itself is under test.

    Parameters
    ----------
    tolerance : float, optional
        Error relative to the largest element of each output; see `tg2hdl_backend.agreement.tolerance_of`.
    """
    captured = capture(model, *inputs)
    program = captured.program
    arrays = [i for i in inputs if not hasattr(i, "unbind")]
    named = captured.bind(*arrays)
    results = evaluate_program(program, named, captured.var_vals or None)
    found = []
    for number, spec, reference in zip(
        program.outputs, captured.outputs, own_result(model, *inputs), strict=True
    ):
        golden = results[program.buffers[number].name].reshape(spec.shape)
        compared = agreement(golden, reference, spec.dtype, tolerance)
        if not compared.agrees:
            n = compared.first
            pair = f"golden {golden.reshape(-1)[n]!r}, tinygrad {reference.reshape(-1)[n]!r}"
            found.append(f"{spec.name}: {compared}, first at {n}: {pair}")
    return found
