"""The folder of a device: the design, the files of its driver, and its documents."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.model_tensor import ModelTensor
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl.testbench.vectors import golden_runs
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import InputError
from tg2hdl_ir.files import npz_bytes, write_files
from tg2hdl_top.ports import register_map_of
from tg2hdl_top.register_map import RegisterMap

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["register_map", "write_device_folder"]


def register_map(accelerator: CompiledModel) -> RegisterMap:
    """Register map of the host port that controls the design.

    Raises
    ------
    InputError
        For a design without such a port.
    """
    for port in accelerator.design.ports:
        found = register_map_of(port)
        if found is not None:
            return found
    kinds = ", ".join(port.kind for port in accelerator.design.ports)
    raise InputError(
        f"a design with the host ports {kinds} has no register map",
        hint='compile with options=tg2hdl.CompileOptions(ports=("uart",))',
    )


def write_device_folder(accelerator: CompiledModel, folder: Path, *, vectors: int, **facts: Any) -> None:
    """Write the design, its description and register map, the C driver, vectors, weights where they are loadable, and
    the image of a memory outside the chip.

    Parameters
    ----------
    vectors : int
        Random inputs, with the results of the golden model one after the other from the power-on state.
    facts
        Further entries of ``device.json``, such as the baud rate.
    """
    found = register_map(accelerator)
    captured, program = accelerator.captured, accelerator.design.program
    entries = found.to_dict() | {
        "inputs": [program.buffers[spec.buffer].name for spec in captured.inputs],
        "structure": _structure(captured),
        "values": {v.name: captured.var_vals[v.name] for v in accelerator.design.variables},
        "shapes": {t.name: list(t.shape) for t in accelerator.state.tensors.values()},
        "types": {
            t.name: t.dtype.numpy().name
            for t in accelerator.state.tensors.values()
            if t.dtype.kind in ("int", "uint") and t.stored.numpy() != t.dtype.numpy()
        },
        **_borders(accelerator),
        **facts,
    }
    contents: dict[str, str | bytes] = {
        "design.json": accelerator.design.to_json(),
        "device.json": json.dumps(entries, indent=1) + "\n",
        "registers.md": found.page(),
        "registers.h": found.c_header(),
        **{name: (files("tg2hdl_host") / "c" / name).read_text() for name in ("tg2hdl.h", "tg2hdl.c")},
    }
    weights = {w.buffer.title: w for w in found.windows if w.buffer.role == "weight" and w.buffer.writes}
    if weights:
        initial = {b.name: b.initial for b in program.buffers if b.name in weights}
        contents["weights.npz"] = npz_bytes({n: a for n, a in initial.items() if a is not None})
    if accelerator.state:
        first = {t.name: _storable(t.initial) for t in accelerator.state.tensors.values()}
        contents["state.npz"] = npz_bytes(first)
    contents["vectors.npz"] = npz_bytes(_vectors(accelerator, vectors), compressed=True)
    write_files(folder, contents)
    if accelerator.design.streams_weights:
        accelerator.save_memory_image(folder / "memory.img")


def _vectors(accelerator: CompiledModel, vectors: int) -> dict[str, Any]:
    captured, program = accelerator.captured, accelerator.design.program
    arrays: dict[str, Any] = {}
    used = {v.name for v in accelerator.design.variables}
    for number, run in enumerate(golden_runs(accelerator, vectors)):
        found = run.results
        arrays |= {f"in{number}_{k}": _storable(x) for k, x in enumerate(run.inputs)}
        arrays |= {
            f"var{number}_{name}": np.array(value) for name, value in run.values.items() if name in used
        }
        for k, spec in enumerate(captured.outputs):
            result = found[program.buffers[program.outputs[k]].name]
            arrays[f"out{number}_{k}"] = _storable(result.reshape(spec.shape))
    return arrays


def _borders(accelerator: CompiledModel) -> dict[str, Any]:
    """Scales of a quantized model's inputs and outputs, for its driver, and whether it gives codes."""
    model = accelerator.captured.model
    if not isinstance(model, QuantizedModel):
        return {}

    def entry(value: Any, tensor: ModelTensor) -> dict[str, Any]:
        arrays = {"scale": np.asarray(value.scale).tolist(), "offset": np.asarray(value.offset).tolist()}
        bounds = {"zero": int(value.zero), "low": int(value.low), "high": int(value.high)}
        return arrays | bounds | {"dtype": str(tensor.dtype.numpy()), "shape": list(tensor.shape)}

    sides = {
        "inputs": zip(model.quantized.inputs, accelerator.inputs, strict=True),
        "outputs": zip(model.quantized.outputs, accelerator.outputs, strict=True),
    }
    borders = {name: [entry(*pair) for pair in pairs] for name, pairs in sides.items()}
    return {"borders": borders, "codes": accelerator.gives_codes}


def _storable(array: np.ndarray) -> np.ndarray:
    """The bytes of an array whose type numpy's files do not know, as integers of the same size."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


class _Output(dict[str, Any]):
    """Entry of an output, in place of its array."""


def _structure(captured: CapturedProgram) -> Any:
    """The structure of the model's result, as `tg2hdl_host` reads it."""
    slots = [_Output(output=n, shape=list(spec.shape)) for n, spec in enumerate(captured.outputs)]
    return _plain(captured.substituted(slots))


def _plain(item: Any) -> Any:
    if isinstance(item, _Output):
        return dict(item)
    if isinstance(item, dict):
        return {"dict": [[key, _plain(value)] for key, value in item.items()]}
    if isinstance(item, list | tuple):
        return {"list" if isinstance(item, list) else "tuple": [_plain(value) for value in item]}
    return {"constant": item}
