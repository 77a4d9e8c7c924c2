"""Quantized models on disk: an ``.npz`` file with the graph as JSON and its constants as arrays."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_host import HostError
from tg2hdl_host.arrays import read_arrays
from tg2hdl_ir import DType, InputError, Tg2hdlError, UnsupportedError
from tg2hdl_ir.files import npz_bytes, write_file
from tg2hdl_ir.tensors import TensorGraph, TensorNode
from tg2hdl_ir.tensors.check import check_graph
from tg2hdl_ir.typed import made_of
from tg2hdl_quant.graph import IntegerValue, QuantizationReport, QuantizedGraph

__all__ = ["is_quantized_file", "load_file", "load_quantized", "save_quantized"]

_FORMAT = 1


def save_quantized(model: QuantizedModel, path: str | PathLike[str]) -> None:
    """Write a quantized model; several outputs become a tuple.

    Parameters
    ----------
    model : QuantizedModel
    path : str or pathLike[str]
        Of the ``.npz`` file.

    Raises
    ------
    InputError
        For a model that was imported with its scales.
    """
    quantized = model.whole
    if not isinstance(model.report, QuantizationReport):
        raise InputError(
            f"model {quantized.graph.name} was imported with its scales",
            hint="keep the file that it was read from",
        )
    arrays: dict[str, np.ndarray] = {f"state{n}": a for n, a in enumerate(model.first_state.values())}
    nodes = []
    for number, node in enumerate(quantized.graph.nodes):
        if node.op == "const":
            arrays[f"node{number}"] = node.arg
        arg = None if node.op == "const" else node.arg
        nodes.append([node.op, node.sources, arg, node.shape, node.dtype.name, node.label])
    borders = {}
    for kind, values in (("inputs", quantized.inputs), ("outputs", quantized.outputs)):
        for n, value in enumerate(values):
            arrays[f"{kind}{n}_scale"], arrays[f"{kind}{n}_offset"] = value.scale, value.offset
        borders[kind] = [[v.node, v.low, v.high] for v in values]
    document = {
        "format": _FORMAT,
        "name": quantized.graph.name,
        "input_names": quantized.graph.input_names,
        "input_types": [t.name for t in quantized.input_types],
        "output_types": [t.name for t in quantized.output_types],
        "nodes": nodes,
        "states": list(model.first_state),
        "report": asdict(model.report),
        **borders,
    }
    write_file(path, npz_bytes({"document": np.array(json.dumps(document)), **arrays}, compressed=True))


def load_quantized(path: str | PathLike[str]) -> QuantizedModel:
    """Read a file that `save_quantized` wrote.

    Raises
    ------
    InputError
        For a file that is missing, or is not a quantized model.
    """
    try:
        arrays = read_arrays(Path(path))
        document = json.loads(str(arrays.pop("document")))
        version = document["format"]
    except (HostError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = error.message if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"{Path(path).name} is not a quantized model: {reason}",
            where=str(path),
            hint="write one with tg2hdl quantize MODEL --samples FILE -o NAME.q.npz",
        ) from error
    if version != _FORMAT:
        raise InputError(
            f"{Path(path).name} has format {version}, this version reads {_FORMAT}",
            where=str(path),
            hint="quantize the model again",
        )
    try:
        graph = _graph(document, arrays)
        states = {str(name): arrays[f"state{n}"] for n, name in enumerate(document.get("states", []))}
        _check_states(graph, list(states.values()))
        return QuantizedModel(graph, None, states)
    except (
        InputError,
        UnsupportedError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        RecursionError,
    ) as error:
        reason = error.message if isinstance(error, Tg2hdlError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"{Path(path).name} was changed or damaged: {reason}",
            where=str(path),
            hint="quantize the model again",
        ) from error


def load_file(path: Path, name: str, examples: object) -> tuple[QuantizedModel, None]:
    """`FrontEndDef.load` of quantized models.

    Parameters
    ----------
    path, name, examples
        As of `FrontEndDef.load`; the last two are not used.
    """
    return load_quantized(path), None


def is_quantized_file(head: bytes) -> bool:
    """Whether a file begins as `save_quantized` writes it."""
    return head.startswith(b"PK") and head[30:].startswith(b"document.npy")


def _graph(document: Any, arrays: dict[str, np.ndarray]) -> QuantizedGraph:
    nodes = tuple(
        TensorNode(
            op,
            tuple(sources),
            arrays[f"node{number}"] if op == "const" else _tuples(arg),
            tuple(shape),
            DType.from_name(dtype),
            label,
        )
        for number, (op, sources, arg, shape, dtype, label) in enumerate(document["nodes"])
    )
    inputs, outputs = (
        tuple(
            IntegerValue(node, arrays[f"{kind}{n}_scale"], low, high, arrays[f"{kind}{n}_offset"])
            for n, (node, low, high) in enumerate(document[kind])
        )
        for kind in ("inputs", "outputs")
    )
    graph = TensorGraph(
        document["name"],
        nodes,
        tuple(v.node for v in inputs),
        tuple(v.node for v in outputs),
        tuple(document["input_names"]),
    )
    check_graph(graph)
    for value in (*inputs, *outputs):
        _check_border(value, nodes[value.node])
    # Files of earlier versions do not say the types.
    types = [
        tuple(map(DType.from_name, document.get(f"{kind}_types", ["fp32"] * len(values))))
        for kind, values in (("input", inputs), ("output", outputs))
    ]
    if [len(types[0]), len(types[1])] != [len(inputs), len(outputs)]:
        raise ValueError("not as many types as inputs and outputs")
    return QuantizedGraph(graph, inputs, outputs, made_of(QuantizationReport, document["report"]), *types)


def _check_states(quantized: QuantizedGraph, first: list[np.ndarray]) -> None:
    """First contents of the last inputs, and as many last outputs of their shapes and types."""
    graph, count = quantized.graph, len(first)
    if count >= len(graph.outputs) or count > len(graph.inputs):
        raise ValueError(f"{count} states of {len(graph.inputs)} inputs and {len(graph.outputs)} outputs")
    last = len(graph.inputs) - count, len(graph.outputs) - count
    for n, array in enumerate(first):
        before, after = graph.nodes[graph.inputs[last[0] + n]], graph.nodes[graph.outputs[last[1] + n]]
        expected = before.shape, before.dtype
        if (after.shape, after.dtype) != expected or (array.shape, array.dtype) != (
            before.shape,
            before.dtype.numpy(),
        ):
            raise ValueError(f"state {n} does not fit its input")


def _check_border(value: IntegerValue, node: TensorNode) -> None:
    """Scale, offset and range of an input or output, which have no operand to fit to."""
    if type(value.low) is not int or type(value.high) is not int or value.low > value.high:
        raise ValueError(f"a range of {value.low!r} to {value.high!r}")
    if node.op == "input" and not (
        node.dtype.is_int and node.dtype.min_value <= value.low and value.high <= node.dtype.max_value
    ):
        raise ValueError(f"{value.low} to {value.high} do not fit {node.dtype}")
    for array, least in ((value.scale, 0.0), (value.offset, -np.inf)):
        if array.dtype.kind != "f" or not np.all(np.isfinite(array)) or not np.all(array > least):
            raise ValueError(f"a scale or offset of {array!r:.60}")
        if np.broadcast_shapes(array.shape, node.shape) != node.shape:
            raise ValueError(f"a scale or offset of shape {array.shape} for {node.shape}")


def _tuples(item: Any) -> Any:
    """JSON's lists as tuples."""
    return tuple(_tuples(i) for i in item) if isinstance(item, list) else item
