"""The ways by which users compile an ONNX file, as the backend tests take them: Python's and the command's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from click.testing import CliRunner

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl.cli import cli
from tg2hdl.model_file import load_model_file
from tg2hdl_backend.testing.onnx_cases import Opened
from tg2hdl_ir import Tg2hdlError

__all__ = ["DOORS"]


def by_path(path: Path, fixed: Mapping[str, Any]) -> Opened:
    """``tg2hdl.compile(path)``."""
    accelerator = tg2hdl.compile(path, fixed=fixed)

    def golden(arrays: Mapping[str, Any]) -> list[Any]:
        return accelerator.captured.flat(accelerator.golden(arrays))

    def simulate(arrays: Mapping[str, Any]) -> str:
        try:
            result = accelerator.simulate(arrays)
        except Tg2hdlError as error:
            return f"refused: {error.message}"
        same = same_bits(result.codes, accelerator.golden(arrays, codes=True))
        return "bits of the golden model" if same else "differs: other bits than the golden model"

    return Opened(_names(accelerator.inputs), _names(accelerator.outputs), golden, simulate)


def by_command(path: Path, fixed: Mapping[str, Any]) -> Opened:
    """``tg2hdl simulate FILE --data IN.npz -o OUT.npz``: the results are those of simulated hardware."""
    given = []
    for number, (name, value) in enumerate(fixed.items()):
        file = path.with_name(f"fixed{number}.npy")
        np.save(file, np.asarray(value))
        given += ["--fix", f"{name}={file}"]
    inputs = load_model_file(str(path), fixed=fixed).model.input_names  # type: ignore[attr-defined]
    outputs: list[str] = []
    types = {o.name: o.type.tensor_type.elem_type for o in onnx.load(path).graph.output}

    def simulate(arrays: Mapping[str, Any]) -> list[Any]:
        source, target = path.with_name("inputs.npz"), path.with_name("outputs.npz")
        values = {name: np.asarray(arrays[name]) for name in inputs}
        np.savez(
            source,
            **{n: a if a.dtype.isbuiltin == 1 else a.view(f"V{a.dtype.itemsize}") for n, a in values.items()},
        )
        data = ["--data", str(source)] if inputs else []
        result = CliRunner().invoke(cli, ["simulate", str(path), *given, *data, "-o", str(target)])
        if result.exception is not None:
            raise result.exception
        with np.load(target) as found:
            outputs[:] = list(found)
            return [_typed(found[name], types[name]) for name in outputs]

    return Opened(inputs, outputs, simulate, lambda arrays: "bits of the golden model")


def _typed(array: np.ndarray[Any, Any], element: int) -> np.ndarray[Any, Any]:
    """Bytes in the type that the file declares for the output."""
    return array.view(onnx.helper.tensor_dtype_to_np_dtype(element)) if array.dtype.kind == "V" else array


def _names(tensors: Any) -> list[str]:
    return [t.name for t in tensors]


DOORS = {"python": by_path, "command": by_command}
