"""Random inputs of a design and the results of its golden model, as its host port sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.hdl_files import module_name
from tg2hdl.random_inputs import random_inputs
from tg2hdl_ir.golden import evaluate_program
from tg2hdl_lower.memory.words import from_words, to_words

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["PORTS", "golden_runs", "port_vectors"]

PORTS = ("native", "axi-stream")
"""Host ports for which there are testbenches."""


def golden_runs(
    accelerator: CompiledModel, runs: int
) -> Iterator[tuple[tuple[np.ndarray, ...], dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Random inputs; their buffers by name; all buffers after the golden model: runs that follow the power-on."""
    captured, program = accelerator.captured, accelerator.design.program
    state: dict[str, np.ndarray] = {}
    for number in range(runs):
        inputs = random_inputs(captured.inputs, number)
        bound = captured.bind(*inputs)
        found = evaluate_program(
            program,
            bound,
            captured.var_vals or None,
            target=accelerator.options.target,
            units=accelerator.options.units,
            state=state,
        )
        yield inputs, bound, found


def port_vectors(accelerator: CompiledModel, runs: int) -> dict[str, Any]:
    """What a host writes and reads in some runs, as plain data; values are digits in base 16.

    The keys of ``writes`` and ``reads`` are names of buffers: words for each run, for a weight those of the first one
    alone.  ``packets_in`` and ``packets_out`` have the elements of the same runs in the order of a stream.
    """
    design = accelerator.design
    (port,) = design.ports
    writes: dict[str, list[list[str]]] = {}
    reads: dict[str, list[list[str]]] = {}
    packets_in, packets_out = [], []
    for run, (_, bound, found) in enumerate(golden_runs(accelerator, runs)):
        for number, packed in design.loads(bound).items():
            memory = design.memory(number)
            if run == 0 or not memory.role.is_weight:
                words = _words(packed, memory.dtype.bit_width)
                writes.setdefault(memory.name, []).append(words)
        for number in dict.fromkeys(design.program.outputs):
            memory = design.memory(number)
            result = found[design.program.buffers[number].name].reshape(-1)
            packed = memory.layout.pack(result, memory.dtype)
            reads.setdefault(memory.name, []).append(_words(packed, memory.dtype.bit_width))
        by_name = {design.memory(n).name: (n, packed) for n, packed in design.loads(bound).items()}
        inputs = [by_name[name] for name in port.serves.inputs]
        packets_in.append([e for number, packed in inputs for e in _elements(design.memory(number), packed)])
        outputs = [(n, found[design.program.buffers[n].name].reshape(-1)) for n in design.program.outputs]
        packets_out.append(
            [
                e
                for n, a in outputs
                for e in _hex(design.memory(n).dtype.array_to_bits(a.astype(design.memory(n).dtype.numpy())))
            ]
        )
    return {
        "top": module_name(accelerator.name),
        "port": port.kind,
        "cycles": accelerator.predicted_cycles,
        "overlap": port.serves.overlap,
        "cores": port.serves.kernels,
        "variables": dict(accelerator.captured.var_vals),
        "latency": {b.name: b.latency for b in port.serves.buffers},
        "width": {b.name: b.width for b in port.serves.buffers},
        "writes": writes,
        "reads": reads,
        "packets_in": packets_in,
        "packets_out": packets_out,
        **port.describe(),
    }


def _words(packed: np.ndarray, width: int) -> list[str]:
    """Words of bit patterns of shape (words, lanes)."""
    words = to_words(packed, width)
    limbs = words.reshape(len(words), -1).astype(object)
    return [f"{sum(int(v) << (64 * n) for n, v in enumerate(row)):x}" for row in limbs]


def _elements(memory: Any, packed: np.ndarray) -> list[str]:
    words = to_words(packed, memory.dtype.bit_width)
    return _hex(memory.dtype.array_to_bits(from_words(words, memory.layout, memory.dtype)))


def _hex(bits: np.ndarray) -> list[str]:
    return [f"{int(value):x}" for value in bits]
