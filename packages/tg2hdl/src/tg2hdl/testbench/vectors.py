"""Random inputs of a design and the results of its golden model, as its host port sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.hdl_files import module_name
from tg2hdl.random_inputs import random_inputs, random_values
from tg2hdl_ir import evaluate_program
from tg2hdl_lower import HostBuffer, from_words, to_words
from tg2hdl_top.ports import PortPlan
from tg2hdl_top.register_map import element_bytes, padded_bits

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["PORTS", "GoldenRun", "golden_runs", "port_vectors"]

PORTS = ("native", "axi-stream")
"""Host ports for which there are testbenches."""


@dataclass(frozen=True)
class GoldenRun:
    """A run of the golden model.

    Parameters
    ----------
    inputs : tuple of ndarray
    values : mapping of str to int
        Of the run-time variables.
    bound : dict of str to ndarray
        Buffers of the inputs by name.
    results : dict of str to ndarray
        Buffers after the run by name.
    """

    inputs: tuple[np.ndarray, ...]
    values: Mapping[str, int]
    bound: dict[str, np.ndarray]
    results: dict[str, np.ndarray]


def golden_runs(accelerator: CompiledModel, runs: int, *, one_value: bool = False) -> Iterator[GoldenRun]:
    """Runs with random inputs and values of variables, one after the other from the power-on state.

    Parameters
    ----------
    one_value : bool
        Whether variables keep the values of the example.
    """
    captured, program = accelerator.captured, accelerator.design.program
    state: dict[str, np.ndarray] = {}
    for number in range(runs):
        inputs = random_inputs(captured.inputs, number)
        values = random_values(captured, 0 if one_value else number)
        bound = captured.bind(*inputs)
        found = evaluate_program(
            program,
            bound,
            values,
            target=accelerator.options.target,
            units=accelerator.options.units,
            state=state,
        )
        yield GoldenRun(inputs, values, bound, found)


def port_vectors(accelerator: CompiledModel, runs: int) -> dict[str, Any]:
    """The words that a host writes and reads in some runs, as plain data; values are digits in base 16.

    The keys of ``writes`` and ``reads`` are names of buffers: words for each run, for a weight only those of
    the first one.  ``cycles`` and ``variables`` are those of each run.  ``packets_in`` and ``packets_out`` have the
    elements of the same runs in the order of a stream.  ``idle`` are the inputs of a loop, which are 0 in single runs.

    Parameters
    ----------
    accelerator : CompiledModel
        With one host port.
    runs : int
    """
    design = accelerator.design
    (port,) = design.ports
    writes: dict[str, list[list[str]]] = {}
    reads: dict[str, list[list[str]]] = {}
    packets_in, packets_out, variables, cycles = [], [], [], []
    hosts = {buffer.name: buffer for buffer in port.serves.buffers}
    # The packets of a stream follow each other while its variables are constant.
    one_value = port.kind == "axi-stream"
    for run, each in enumerate(golden_runs(accelerator, runs, one_value=one_value)):
        bound, found = each.bound, each.results
        variables.append({v.name: each.values[v.name] for v in design.variables})
        cycles.append(design.predicted_cycles(each.values))
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
        packets_out.append([e for n, a in outputs for e in _results(hosts[design.memory(n).name], a)])
    return {
        "top": module_name(accelerator.name),
        "port": port.kind,
        "cycles": cycles,
        # Rows and packets overlap too.
        "overlap": 2 if any(b.is_paced for b in port.serves.buffers) else port.serves.overlap,
        "cores": port.serves.kernels,
        "variables": variables,
        "latency": {b.name: b.latency for b in port.serves.buffers},
        "width": {b.name: b.width for b in port.serves.buffers},
        "writes": writes,
        "reads": reads,
        "packets_in": packets_in,
        "packets_out": packets_out,
        "idle": _idle(port),
        **port.describe(),
    }


def _idle(port: PortPlan) -> list[str]:
    """Inputs that start no loop."""
    if port.serves.loop is None:
        return []
    ready = ["results__ready"] if port.kind == "native" else []
    return [f"loop__{name}" for name in ("limit", "stops", "stop", *ready)]


def _words(packed: np.ndarray, width: int) -> list[str]:
    """Words of bit patterns of shape (words, lanes)."""
    words = to_words(packed, width)
    limbs = words.reshape(len(words), -1).astype(object)
    return [f"{sum(int(v) << (64 * n) for n, v in enumerate(row)):x}" for row in limbs]


def _elements(memory: Any, packed: np.ndarray) -> list[str]:
    words = to_words(packed, memory.dtype.bit_width)
    return _hex(memory.dtype.array_to_bits(from_words(words, memory.layout, memory.dtype)))


def _results(buffer: HostBuffer, array: np.ndarray) -> list[str]:
    return _hex(padded_bits(buffer.dtype, element_bytes(buffer), array.astype(buffer.dtype.numpy())))


def _hex(bits: np.ndarray) -> list[str]:
    return [f"{int(value):x}" for value in bits]
