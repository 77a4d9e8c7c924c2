"""Compute an ONNX graph with tensors, node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from tinygrad import Tensor

from tg2hdl_backend.onnx.checks import ExpectedTypes, check_indices, check_opset
from tg2hdl_backend.onnx.control import CONTROL, SEQUENCES
from tg2hdl_backend.onnx.fold import fold_node, fold_tensors, has_reference
from tg2hdl_backend.onnx.limits import Limit
from tg2hdl_backend.onnx.node import DependsOnData, OnnxNode
from tg2hdl_backend.onnx.refusals import REFUSALS
from tg2hdl_backend.onnx.tensors import array_of, onnx_type, sizes_of
from tg2hdl_backend.onnx.text import COPIES, TextTable, is_text, text_results
from tg2hdl_backend.onnx.tinygrad_operators import as_tensor, constant_positions, tinygrad_operator
from tg2hdl_backend.onnx.value import OnnxValue
from tg2hdl_backend.tinygrad_adapter.origins import made_by
from tg2hdl_ir import DType, Tg2hdlError, UnsupportedError, registry, resolve

__all__ = ["OnnxGraph"]

Array = npt.NDArray[Any]
Build = Callable[..., Any]


class OnnxGraph:
    """Values by name, and the operator sets that the nodes belong to.

    Parameters
    ----------
    versions : mapping of str to int
        Version of each imported operator set by domain; ONNX's own is "".
    expected : ExpectedTypes, optional
        Types that ONNX infers, which every result must have.
    outer : OnnxGraph, optional
        The enclosing graph, whose values the nodes may use.
    text : TextTable, optional
        Numbers of the strings of the file.
    in_float : dict of str to str, optional
        Takes the quantizers that are computed in float, with the reasons.
    limit : Limit, optional
        On elements and trips.
    """

    def __init__(
        self,
        versions: Mapping[str, int],
        expected: ExpectedTypes | None = None,
        outer: OnnxGraph | None = None,
        text: TextTable | None = None,
        in_float: dict[str, str] | None = None,
        limit: Limit | None = None,
    ) -> None:
        self.limit = limit or Limit()
        self.versions = dict(versions)
        self.expected = expected
        self.outer = outer
        self.text = text or TextTable()
        self.in_float = {} if in_float is None else in_float
        self.values: dict[str, OnnxValue | None] = {}

    def value(self, name: str) -> OnnxValue | None:
        """Value of a name; None for an input that is left out."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if self.outer is None:
            raise UnsupportedError(
                f"no node computes {name!r}",
                where=f"value {name!r}",
                hint="check the file with onnx.checker.check_model",
            )
        return self.outer.value(name)

    def add(self, value: OnnxValue) -> None:
        """Make a value known under its name."""
        self.values[value.name] = value

    def initializer(self, proto: TensorProto, where: str) -> OnnxValue:
        """A tensor of the file as a known value; strings are numbers.

        Parameters
        ----------
        proto : TensorProto
        where : str
            Named in errors.
        """
        if not is_text(proto):
            return OnnxValue.of_array(proto.name, array_of(proto, where))
        codes = self.text.codes(numpy_helper.to_array(proto))
        return OnnxValue(proto.name, None, lambda: codes, is_text=True)

    def run(self, nodes: Iterable[NodeProto]) -> None:
        """Compute nodes, given in topological order."""
        for node in nodes:
            for name, value in zip(node.output, self.results(node), strict=False):
                if name in self.values:
                    raise UnsupportedError(
                        f"{name!r} is computed twice",
                        where=f"node {node.name or name!r}: {node.op_type}",
                        hint="check the file with onnx.checker.check_model",
                    )
                if name:
                    self.add(value.renamed(name))

    def run_graph(
        self, graph: GraphProto, arguments: Sequence[OnnxValue], limit: Limit | None = None
    ) -> list[OnnxValue]:
        """Results of a graph that a node contains, for values of its inputs.

        Parameters
        ----------
        graph : GraphProto
        arguments : sequence of OnnxValue
            Values of the graph's inputs, in order.
        limit : Limit, optional
            Inside a loop; that of this graph unless given.
        """
        inner = OnnxGraph(self.versions, None, self, self.text, self.in_float, limit or self.limit)
        for proto in graph.initializer:
            inner.add(self.initializer(proto, f"initializer {proto.name!r}"))
        for info, value in zip(graph.input, arguments, strict=True):
            inner.add(value.renamed(info.name))
        inner.run(graph.node)
        return [found for o in graph.output if (found := inner.value(o.name)) is not None]

    def results(self, node: NodeProto) -> Sequence[OnnxValue]:
        """Results of a node."""
        inputs = [self.value(name) for name in node.input]
        if node.op_type in CONTROL and node.domain in ("", "ai.onnx"):
            return CONTROL[node.op_type](self, node, inputs)
        if node.op_type in SEQUENCES and node.domain in ("", "ai.onnx"):
            return SEQUENCES[node.op_type](self, node, inputs)
        info = self.describe(node, inputs)
        check_opset(info)
        check_indices(info, inputs)
        text = self._text_results(node, info, inputs)
        found = self._results(node, info, inputs)
        if not text:
            return found
        return [replace(v, is_text=True) if n in text else v for n, v in enumerate(found)]

    def _text_results(
        self, node: NodeProto, info: OnnxNode, inputs: Sequence[OnnxValue | None]
    ) -> frozenset[int]:
        """Which results are text; text is refused where an operator would compute with it."""
        names = [v.name for v in inputs if v is not None and v.is_text]
        target = info.attribute("to") if node.op_type == "Cast" else None
        text_cast = target == TensorProto.STRING
        if (names and node.op_type not in COPIES | {"LabelEncoder"}) or (
            node.op_type == "Cast" and text_cast != bool(names)
        ):
            what = f"input {names[0]!r} is text" if names else "it makes text of numbers"
            raise info.unsupported(what, "take the numbers of the labels as output")
        return text_results(node, info.attributes, bool(names))

    def _results(
        self, node: NodeProto, info: OnnxNode, inputs: Sequence[OnnxValue | None]
    ) -> Sequence[OnnxValue]:
        for value in inputs:
            if value is not None and value.items is not None:
                raise info.unsupported(f"input {value.name!r} is a sequence", "use tensors")
        if node.op_type == "Cast" and inputs[0] is not None and inputs[0].is_text:
            return [inputs[0]]
        if node.op_type in ("Shape", "Size") and inputs[0] is not None:
            return [self._size(info, inputs[0])]
        if node.op_type == "Constant" and info.domain == "":
            return [OnnxValue(node.output[0], None, lambda: _constant(info))]
        if (
            node.op_type == "CastLike"
            and inputs[0] is not None
            and inputs[0].is_known
            and inputs[1] is not None
        ):
            # Only the type of the second input matters.
            inputs = [inputs[0], inputs[1] if inputs[1].is_known else _type_of(inputs[1])]
        if all(v is None or v.is_known for v in inputs) and not node.op_type.startswith("Random"):
            return self._known(node, info, inputs)
        depends = frozenset().union(*(v.inputs for v in inputs if v is not None))
        return [
            OnnxValue.of_tensor(name, tensor, depends)
            for name, tensor in zip(node.output, self.tensors(node, info, inputs), strict=False)
        ]

    def tensor_result(self, value: OnnxValue) -> Tensor:
        """A value as an output of the model."""
        if value.items is not None:
            raise UnsupportedError(
                f"output {value.name!r} is a sequence",
                where=f"output {value.name!r}",
                hint="make its elements outputs of the graph",
            )
        return value.tensor

    def describe(self, node: NodeProto, inputs: Sequence[OnnxValue | None]) -> OnnxNode:
        """The facts that an operator's definition may use.

        Parameters
        ----------
        node : NodeProto
        inputs : sequence of OnnxValue or None
            None for an absent one.

        Raises
        ------
        UnsupportedError
            For a node of an operator set that the file does not import.
        """
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in self.versions:
            raise UnsupportedError(
                f"the file imports no version of the operator set {domain or 'ai.onnx'!r}",
                where=f"node {node.name or (node.output[0] if node.output else '')!r}: {node.op_type}",
                hint="check the file with onnx.checker.check_model",
            )
        return OnnxNode(
            node.op_type,
            domain,
            self.versions[domain],
            node.name or next((o for o in node.output if o), ""),
            {a.name: _attribute(a) for a in node.attribute},
            tuple(node.output),
            [None if v is None or not v.is_known else v.known_array for v in inputs],
            lambda *tensors: self._expand(node, inputs, tensors),
            self.text,
            self.in_float,
        )

    def tensors(self, node: NodeProto, info: OnnxNode, inputs: Sequence[OnnxValue | None]) -> list[Tensor]:
        """Results of a node as tensors, by the definition of its operator.

        Parameters
        ----------
        node : NodeProto
        info : OnnxNode
            Of `describe`.
        inputs : sequence of OnnxValue or None
            None for an absent one.
        """
        build, constants = definition(info.op_type, info.domain, info.version)
        if build is None:
            build = _expansion(node, info)
        arguments = [
            None if v is None else self._constant_input(info, n, v) if n in constants else v.tensor
            for n, v in enumerate(inputs)
        ]
        self._check_size(
            node,
            info,
            [a if v is None or not v.is_known else v.array for a, v in zip(arguments, inputs, strict=True)],
        )
        try:
            with made_by(f"{info.name} ({info.op_type})"):
                found = build(info, *arguments)
            results = list(found if isinstance(found, tuple | list) else (found,))
            for result in results:
                # tinygrad finds unfit shapes only when they are asked for
                self.limit.size(math.prod(getattr(result, "shape", None) or ()), info.where)
        except Tg2hdlError:
            raise
        except MemoryError:
            raise
        except Exception as error:
            raise info.unsupported(
                f"these inputs and attributes are not supported ({type(error).__name__}: {error})"
            ) from error
        missing = [
            n for n, name in enumerate(node.output) if name and (n >= len(results) or results[n] is None)
        ]
        if missing:
            raise info.unsupported(f"its result {node.output[missing[0]]!r} is not computed")
        return [
            self._checked(info, name, as_tensor(t)) if name else Tensor.empty(1)
            for name, t in zip(node.output, results, strict=False)
        ]

    def _check_size(self, node: NodeProto, info: OnnxNode, given: Sequence[Any]) -> None:
        inputs = [
            None
            if v is None
            else (onnx_type(DType.from_tinygrad(v.dtype)), sizes_of(v), None)
            if isinstance(v, Tensor)
            else (helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v)
            for v in given
        ]
        self.limit.node(node, info.version, inputs, info.where)

    def _checked(self, info: OnnxNode, name: str, tensor: Tensor) -> Tensor:
        return tensor if self.expected is None else self.expected.check(info, name, tensor)

    def _constant_input(self, info: OnnxNode, position: int, value: OnnxValue) -> Array:
        if value.is_known:
            return value.array
        raise self.depends(info, position, value, f"{value.name!r}")

    def depends(self, info: OnnxNode, position: int, value: OnnxValue, what: str) -> DependsOnData:
        """Error about a value that must be known at compile time and is not.

        Parameters
        ----------
        info : OnnxNode
        position : int
            Of the input.
        value : OnnxValue
            That of the input.
        what : str
            Name of the value in the message.
        """
        names = tuple(sorted(value.inputs))
        error = DependsOnData(
            f"ONNX operator {info.op_type}: {what} decides shapes or what is computed, "
            f"but depends on the input{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}",
            where=info.where,
            hint="make it an initializer, or fix the input: OnnxModel(path, fixed={"
            + f"{names[0]!r}: value"
            + "}), or --fix NAME=VALUE",
        )
        error.inputs, error.operator, error.position = names, info.op_type, position
        return error

    def _size(self, info: OnnxNode, value: OnnxValue) -> OnnxValue:
        def compute() -> Array:
            shape = np.array(value.array.shape if value.is_known else value.tensor.shape, np.int64)
            if info.op_type == "Size":
                return np.array(shape.prod(), np.int64)
            return shape[info.attribute("start", 0) : info.attribute("end")]

        return OnnxValue(info.outputs[0], None, compute)

    def _known(self, node: NodeProto, info: OnnxNode, inputs: Sequence[OnnxValue | None]) -> list[OnnxValue]:
        @cache
        def arrays() -> list[Array]:
            given = [None if v is None else v.array for v in inputs]
            self._check_size(node, info, given)
            if not has_reference(info.domain):
                known = [None if v is None else OnnxValue.of_array(v.name, v.array) for v in inputs]
                return fold_tensors(self.tensors(node, info, known))
            # ONNX's reference implementation has no DequantizeLinear of the first versions, which are the same.
            version = max(info.version, 19) if info.op_type == "DequantizeLinear" else info.version
            return fold_node(node, version, given, info.where)

        @cache
        def tensors() -> list[Tensor]:
            return self.tensors(node, info, inputs)

        def result(number: int, name: str) -> OnnxValue:
            return OnnxValue(
                name,
                (lambda: tensors()[number]) if weight else None,
                lambda: arrays()[number],
                is_weight=weight,
            )

        # Weights stay tensors, so that the program has their names and can load them at run time.
        weight = any(v is not None and v.is_weight for v in inputs)
        weight &= (info.domain, info.op_type) not in REFUSALS
        return [result(number, name) for number, name in enumerate(node.output)]

    def _expand(
        self, node: NodeProto, inputs: Sequence[OnnxValue | None], tensors: Sequence[Tensor | None]
    ) -> list[Tensor]:
        types = [
            b""
            if t is None
            else helper.make_tensor_type_proto(onnx_type(DType.from_tinygrad(t.dtype)), sizes_of(t))
            for t in tensors
        ]
        function = _function(node, self.versions["" if node.domain == "ai.onnx" else node.domain], types)
        if function is None:
            info = self.describe(node, inputs)
            raise info.unsupported("there is no definition of it")
        versions = {"": onnx.defs.onnx_opset_version()}
        inner = OnnxGraph(
            {**versions, **{o.domain: o.version for o in function.opset_import}},
            in_float=self.in_float,
            limit=self.limit,
        )
        names = list(function.input)
        for n, name in enumerate(names):
            value = inputs[n] if n < len(inputs) else None
            if value is None:
                inner.values[name] = None
            else:
                inner.add(value.renamed(name))
        given = {a.name: a for a in node.attribute}
        defaults = {a.name: a for a in function.attribute_proto}
        inner.run(_with_attributes(function.node, {**defaults, **given}))
        found = [inner.values.get(name) for name in function.output]
        while found and found[-1] is None:
            found.pop()
        return [Tensor.empty(1) if v is None else v.tensor for v in found]


def _type_of(value: OnnxValue) -> OnnxValue:
    """Known value without elements, of the type of another value."""
    return OnnxValue(value.name, None, lambda: np.zeros(0, DType.from_tinygrad(value.tensor.dtype).numpy()))


def definition(op_type: str, domain: str, version: int) -> tuple[Build | None, tuple[int, ...]]:
    """How an operator is computed and which of its inputs must be known; None without a definition."""
    found = registry().onnx_operator(op_type, domain, version)
    if found is not None:
        return resolve(found.build), found.constants
    if (domain, op_type) in REFUSALS:
        return None, ()
    return tinygrad_operator(op_type, domain, version), constant_positions(op_type)


def _expansion(node: NodeProto, info: OnnxNode) -> Build:
    if (info.domain, info.op_type) in REFUSALS:
        raise info.unsupported(*REFUSALS[info.domain, info.op_type])
    # ONNX's type stubs lack the functions of a schema.
    schema: Any = None
    with suppress(onnx.defs.SchemaError):
        schema = onnx.defs.get_schema(node.op_type, info.version, node.domain)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        raise info.unsupported("there is no definition of it")
    return lambda node, *inputs: node.expand(*inputs)


def _function(node: NodeProto, version: int, types: Sequence[Any]) -> FunctionProto | None:
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    function = FunctionProto()
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        encoded = [t if isinstance(t, bytes) else t.SerializeToString() for t in types]
        encoded = [e or TypeProto().SerializeToString() for e in encoded]
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions), node.SerializeToString(), encoded
        )
    elif schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        text = schema.get_function_with_opset_version(max(versions or schema.function_opset_versions))
    else:
        return None
    function.ParseFromString(text)
    return function


def _with_attributes(nodes: Iterable[NodeProto], given: Mapping[str, Any]) -> Iterable[NodeProto]:
    """Nodes of a function with the attributes of the call in place of references to them."""
    for original in nodes:
        node = NodeProto()
        node.CopyFrom(original)
        kept = []
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                kept.append(attribute)
            elif attribute.ref_attr_name in given:
                new = onnx.AttributeProto()
                new.CopyFrom(given[attribute.ref_attr_name])
                new.name = attribute.name
                kept.append(new)
        del node.attribute[:]
        node.attribute.extend(kept)
        yield node


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value) if is_text(value) else array_of(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple) or hasattr(value, "extend"):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value


def _constant(info: OnnxNode) -> Array:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in info.attributes.items():
        if name == "value":
            return np.asarray(value)
        if name in kinds:
            return np.array(value, kinds[name])
    raise info.unsupported("constants of this kind are not supported: " + ", ".join(info.attributes))
