"""Write ONNX files, and compute them with the golden model and with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tg2hdl_backend.onnx import OnnxModel
from tg2hdl_backend.onnx_runtime import runtime_session
from tg2hdl_backend.tinygrad_adapter.capture import capture
from tg2hdl_ir import evaluate_program

__all__ = ["golden", "runtime", "write"]

Array = npt.NDArray[Any]


def _value(name: str, dtype: Any, shape: Any) -> Any:
    return onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, Any, Any]],
    outputs: Sequence[tuple[str, Any, Any]],
    weights: Mapping[str, Array] | None = None,
    opsets: Mapping[str, int] | None = None,
    **options: Any,
) -> Path:
    """Save a graph; inputs and outputs are (name, dtype, shape), weights are arrays by name.

    Parameters
    ----------
    path : Path
    nodes : sequence of NodeProto
        Operands first.
    inputs, outputs : sequence of tuple
        Name, numpy type and shape.
    weights : mapping of str to ndarray, optional
        By name.
    opsets : mapping of str to int, optional
        Versions by domain.
    **options
        Of `onnx.save`.
    """
    initializers = [onnx.numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = onnx.helper.make_graph(
        nodes, "graph", [_value(*i) for i in inputs], [_value(*o) for o in outputs], initializers
    )
    imports = [onnx.helper.make_opsetid(d, v) for d, v in (opsets or {"": 17}).items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    onnx.save(model, str(path), **options)
    return path


def golden(model: OnnxModel, *inputs: Array) -> list[Array]:
    """Outputs of the golden model."""
    captured = capture(model, *inputs)
    program = captured.program
    found = evaluate_program(program, captured.bind(*inputs))
    assert tuple(s.name for s in captured.outputs) == model.output_names
    arrays = [found[program.buffers[s.buffer].name].reshape(s.shape) for s in captured.outputs]
    return [model.decoded(s.name, a) for s, a in zip(captured.outputs, arrays, strict=True)]


def runtime(path: Path, **inputs: Array) -> list[Any]:
    """Outputs of ONNX Runtime, without its optimizations, which change roundings."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = _with_unsigned_weights(onnx.load(str(path)))
    return list(runtime_session(model.SerializeToString(), options).run(None, inputs))


_WEIGHTS = {"MatMulInteger": (1, 3), "ConvInteger": (1, 3), "QLinearMatMul": (3, 5), "QLinearConv": (3, 5)}
"""Inputs of the weights and of their zero point."""


def _with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose constant int8 weights, and their zero points, are larger by 128: its sums are equal.

    Kernels for uint8 activations and int8 weights saturate, see `runtime_session`; without optimizations its option
    has no effect.
    """
    graph, typed = model.graph, onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*typed.input, *typed.value_info)}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        weight, zero = _WEIGHTS.get(node.op_type, (0, 0))
        names = [*node.input, *[""] * 6]
        values, point = constants.get(names[weight]), constants.get(names[zero], np.zeros((), np.int8))
        if not weight or types.get(names[0]) != onnx.TensorProto.UINT8:
            continue
        if values is None or values.dtype != np.int8 or (names[zero] and names[zero] not in constants):
            continue
        for place, array in ((weight, values), (zero, point)):
            name = f"{node.output[0]}.unsigned{place}"
            graph.initializer.append(
                onnx.numpy_helper.from_array((array.astype(np.int16) + 128).astype(np.uint8), name)
            )
            node.input.extend([""] * (place + 1 - len(node.input)))
            node.input[place] = name
    return model
