"""Ranges of the values that a run computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_ir import evaluate_program

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["buffer_ranges"]


def buffer_ranges(accelerator: CompiledModel, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Ranges of each buffer that a kernel writes in a run of the golden model, and the agreement with tinygrad.

    Parameters
    ----------
    accelerator : CompiledModel
    inputs : sequence of ndarray
        Of one run.
    """
    program, captured = accelerator.design.program, accelerator.captured
    state: dict[str, np.ndarray] = {}
    results = evaluate_program(
        program,
        accelerator.bind(*inputs),
        accelerator.values(*inputs),
        target=accelerator.options.target,
        units=accelerator.options.units,
        state=state,
    )
    output = captured.restore([results[program.buffers[n].name] for n in program.outputs])
    agreements = accelerator.check(output, *inputs)
    return {
        "buffers": [
            {"name": b.name, "role": b.role, "dtype": str(b.dtype), **_range(state[b.name], b.dtype)}
            for b in program.buffers
            if b.name in state
        ],
        "agreement": [
            {"name": spec.name, "agrees": bool(found.agrees), "text": str(found)}
            for spec, found in zip(captured.outputs, agreements, strict=True)
        ],
        "quantization": str(captured.model.report)
        if isinstance(captured.model, QuantizedModel)
        else "\n".join(f"computed in float: {name}" for name in accelerator.in_float),
    }


def _range(values: np.ndarray, dtype: Any) -> dict[str, Any]:
    if dtype.is_bool:
        return {"low": 0.0, "high": 1.0, "zeros": float((~values.astype(bool)).mean()), "not_finite": 0}
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    limits = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return {
        "low": limits[0],
        "high": limits[1],
        "zeros": float((numbers == 0).mean()),
        "not_finite": int(numbers.size - finite.size),
    }
