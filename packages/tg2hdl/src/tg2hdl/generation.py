"""Results that are fed back, by a compiled model: each run by the host, or in a loop on the chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_backend import CapturedProgram
from tg2hdl_host.generation import ChipLoop, Tensor, feedback_of
from tg2hdl_ir import InputError
from tg2hdl_ir.errors import model_place
from tg2hdl_top import Design

__all__ = ["check_same_codes", "generated"]

Run = Callable[[np.ndarray, Mapping[str, Any]], tuple[Any, Sequence[Any]]]
Loop = Callable[[np.ndarray, Mapping[str, int], int, int | None], list[tuple[Any, np.ndarray]]]


def generated(
    captured: CapturedProgram,
    design: Design,
    run: Run,
    loop: Loop | None,
    first: Any,
    *,
    stop: Any,
    limit: int | None,
    feedback: str | None,
    counter: str | None,
    start: int | None,
) -> Iterator[Any]:
    """The results; parameters and errors as of `Accelerator.generate`.

    Parameters
    ----------
    run : callable
        Takes an input and values of variables; returns the result and its outputs.
    loop : callable, optional
        Starts the design's loop, as `ChipLoop.run`; used where the design has one.
    """
    variables = {v.name: (v.low, v.high) for v in design.variables}
    sides = [
        [Tensor(s.name, s.shape, s.dtype.numpy()) for s in specs]
        for specs in (captured.inputs, captured.outputs)
    ]
    try:
        found = feedback_of(sides[0], sides[1], variables, feedback, counter, start)

        def run_once(value: np.ndarray, values: dict[str, int]) -> tuple[Any, np.ndarray]:
            output, arrays = run(value, values)
            return output, np.asarray(arrays[found.output])

        chip = None
        if loop is not None and design.loop is not None:
            chip = ChipLoop(design.loop.counter, design.loop.most, loop)
        return found.results(run_once, first, stop, limit, chip)
    except ValueError as error:
        raise InputError(
            str(error),
            where=model_place(design.program.name),
            hint="give feedback=, counter=, start= or limit=",
        ) from None


def check_same_codes(model: Any) -> None:
    """Raise unless the codes of a quantized model's output mean the same as those of its input.

    Raises
    ------
    InputError
        For a model whose loop on the chip would need another rounding.
    """
    if not isinstance(model, QuantizedModel):
        return
    graph = model.quantized
    facts = [
        (v.zero, np.asarray(v.scale).tolist(), np.asarray(v.offset).tolist())
        for v in (graph.inputs[0], graph.outputs[0])
    ]
    if facts[0] != facts[1]:
        raise InputError(
            f"input codes have the scale {facts[0][1]} and zero point {facts[0][0]}, output codes {facts[1][1]} and "
            f"{facts[1][0]}: a loop on the chip feeds codes back",
            hint="leave loop= out: `generate` then converts each result on the host",
        )
