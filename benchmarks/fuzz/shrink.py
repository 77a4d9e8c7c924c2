"""Make a faulty ONNX file smaller while the fault stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from forms import inputs_of
from graphs import run
from onnx import numpy_helper
from qonnx import plain

__all__ = ["shrunk"]


def shrunk(
    model: onnx.ModelProto, is_faulty: Callable[[onnx.ModelProto], bool], attempts: int = 80
) -> onnx.ModelProto:
    """The smallest model found with the same fault.

    Parameters
    ----------
    is_faulty : callable
        Whether a smaller model has the fault too.
    attempts : int
        How often it is asked.
    """
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(model):
            if attempts == 0:
                return model
            attempts -= 1
            if is_faulty(smaller):
                model, progress = smaller, True
                break
    return model


def _smaller(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Models with fewer outputs, an earlier output, a later input, without a node, or with a constant for a node."""
    graph = model.graph
    if len(graph.output) > 1:
        for number in range(len(graph.output)):
            copy = _copy(model)
            del copy.graph.output[number]
            yield _pruned(copy)
    values = _values(model)
    for node in graph.node:
        for name in node.output:
            if name in values and [name] != [o.name for o in graph.output]:
                copy = _copy(model)
                del copy.graph.output[:]
                copy.graph.output.append(_info(name, values[name]))
                yield _pruned(copy)
    constant = {t.name for t in graph.initializer}
    for number, node in reversed(list(enumerate(graph.node))):
        name = node.output[0]
        if name in values and values[name].dtype == np.float32 and name not in {o.name for o in graph.output}:
            copy = _copy(model)
            del copy.graph.node[number]
            copy.graph.input.append(_info(name, values[name]))
            yield _pruned(copy)
    for number, node in enumerate(graph.node):
        if all(n in constant or not n for n in node.input) and all(n in values for n in node.output):
            copy = _copy(model)
            del copy.graph.node[number]
            copy.graph.initializer.extend(numpy_helper.from_array(values[n], n) for n in node.output)
            yield _pruned(copy)
    for number, node in enumerate(graph.node):
        if len(node.output) != 1 or node.output[0] not in values:
            continue
        made = values[node.output[0]]
        for source in node.input:
            known = values.get(source)
            if known is not None and known.shape == made.shape and known.dtype == made.dtype:
                copy = _copy(model)
                del copy.graph.node[number]
                _rename(copy, node.output[0], source)
                if node.output[0] not in {o.name for o in copy.graph.output}:
                    yield _pruned(copy)


def _values(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """All tensors for the first inputs."""
    tapped = plain(_copy(model))
    names = [n for node in model.graph.node for n in node.output if n]
    del tapped.graph.output[:]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    feeds = inputs_of(model, 0)
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer} | feeds
    try:
        return known | dict(zip(names, run(tapped, feeds, names), strict=True))
    except Exception:  # ONNX Runtime refuses some parts that it does not compute in the whole.
        return known


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def _rename(model: onnx.ModelProto, old: str, new: str) -> None:
    for node in model.graph.node:
        for n, name in enumerate(node.input):
            if name == old:
                node.input[n] = new


def _pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what no output needs."""
    needed, nodes = {o.name for o in model.graph.output}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.insert(0, node)
    inputs = [i for i in model.graph.input if i.name in needed]
    weights = [t for t in model.graph.initializer if t.name in needed]
    for field, kept in (
        (model.graph.node, nodes),
        (model.graph.input, inputs),
        (model.graph.initializer, weights),
    ):
        del field[:]
        field.extend(kept)
    return model
