"""Comparison of a synthesized netlist with the golden model, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tg2hdl.accelerator import Accelerator
from tg2hdl.bits import same_bits
from tg2hdl_backend import Runner
from tg2hdl_ir import SimulationError
from tg2hdl_synth import SynthesisResult
from tg2hdl_synth.netlist_simulation import open_netlist

__all__ = ["check_netlist"]


def check_netlist(
    accelerator: Accelerator,
    result: SynthesisResult,
    vectors: Sequence[Sequence[Any]],
    progress: Callable[[str], None] = lambda message: None,
) -> int:
    """Simulate the netlist of an accelerator on input vectors; returns the cycles of one run.

    Parameters
    ----------
    accelerator : Accelerator
    result : SynthesisResult
        With the netlist.
    vectors : sequence of sequence of object
        Number of inputs.
    progress : callable, optional
        Called after each input.

    Raises
    ------
    SimulationError
        When a bit or the number of cycles differs from the golden model or the plan.
    """
    cycles = 0
    with open_netlist(result, progress) as simulation:
        run = Runner(accelerator.design, simulation=simulation)
        for number, inputs in enumerate(vectors):
            progress(f"vector {number + 1} of {len(vectors)}")
            found = run.run(accelerator.bind(*inputs), accelerator.values(*inputs))
            cycles = found.compute
            output = accelerator.captured.restore(list(found.outputs))
            if not same_bits(output, accelerator.golden(*inputs, codes=True)):
                raise _differs(accelerator, f"vector {number} gives other bits than the golden model")
            predicted = accelerator.design.predicted_cycles(accelerator.values(*inputs))
            if cycles != predicted:
                raise _differs(accelerator, f"{cycles} cycles, predicted {predicted}")
    return cycles


def _differs(accelerator: Accelerator, what: str) -> SimulationError:
    return SimulationError(
        f"the netlist of {accelerator.name} is wrong: {what}",
        hint="please report this with the model file and the versions of the tools",
    )
