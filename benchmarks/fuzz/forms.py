"""The forms of a random graph: float, with quantizers of ONNX Runtime or of one's own, and QONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import onnx
from graphs import Builder, Rejected, TimeLimit, Value, run, time_limit
from onnx import helper, numpy_helper
from operators import FAMILIES
from qonnx import DOMAIN

__all__ = ["FORMS", "file_of", "float_graph", "inputs_of"]

Array = npt.NDArray[Any]
FORMS = ("float", "qdq", "qonnx", "static")
_SHAPES = ((4,), (1, 5), (3, 4), (2, 7), (1, 4, 5), (1, 3, 4, 4), (1, 4, 3, 5), (1, 1, 7, 2), (1, 2, 1, 1))
_NO_WEIGHTS = ("Resize", "DequantizeLinear", "QuantizeLinear", "Dropout")
"""Operators whose float constants are not data."""
_KINDS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def float_graph(seed: int) -> onnx.ModelProto:
    """A graph of two to seven operators.

    Raises
    ------
    Rejected
        When no operator fits.
    """
    b = Builder(seed)
    b.values = [b.input(b.floats(*b.pick(_SHAPES)))]
    if b.chance(0.2):
        b.values.append(b.input(b.floats(*b.pick((b.values[0].shape, b.pick(_SHAPES))))))
    others: list[Value] = []
    wanted, found = b.integer(2, 7), 0
    for _ in range(60):
        x = b.values[-1] if b.chance(0.75) else b.pick(b.values)
        state = len(b.nodes)
        try:
            made = b.pick(list(FAMILIES.values()))(b, x)
        except Rejected:
            del b.nodes[state:]
            continue
        b.values += [v for v in made if v.array.dtype == np.float32]
        others += [v for v in made if v.array.dtype != np.float32 and not v.is_constant]
        found += 1
        if found == wanted:
            break
    computed = [v for v in b.values if not v.is_constant and v not in b.inputs]
    outputs = [*computed[-1:], *(others[-1:] if b.chance(0.3) or not computed else [])]
    if computed[:-1] and b.chance(0.2):
        outputs.append(b.pick(computed[:-1]))
    if not outputs:
        raise Rejected("nothing was computed")
    return b.model(outputs, seed=str(seed))


def inputs_of(model: onnx.ModelProto, number: int) -> dict[str, Array]:
    """Inputs by name: of number 2 corner values, of number 3 with NaN and infinities, of others normal numbers."""
    properties = {p.key: p.value for p in model.metadata_props}
    found = {}
    for value in model.graph.input:
        rng = np.random.default_rng([int(properties.get("seed", 0)), number, crc32(value.name.encode())])
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        limit = int(properties.get(f"limit:{value.name}", 0))
        if limit:
            indices = rng.integers(0, limit, shape)
            found[value.name] = np.asarray(indices - limit * (rng.random(shape) < 0.3), np.int64)
            continue
        array = rng.standard_normal(shape)
        corners = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 100.0, -100.0])[rng.integers(0, 8, shape)]
        special = np.array([np.nan, np.inf, -np.inf])[rng.integers(0, 3, shape)]
        array = np.where(rng.random(shape) < (0.9 if number == 2 else 0.1), corners, array)
        found[value.name] = np.where(rng.random(shape) < (number == 3) / 6, special, array).astype(np.float32)
    return found


def file_of(seed: int, form: str) -> onnx.ModelProto:
    """Graph `seed` in one of `FORMS`.

    Raises
    ------
    Rejected
        When ONNX Runtime takes none of it.
    """
    model = float_graph(seed)
    if form == "static":
        model = _static(model, np.random.default_rng([seed, 1]))
    elif form != "float":
        model = _Quantizing(model, np.random.default_rng([seed, 2 + (form == "qonnx")]), form).model()
    helper.set_model_props(model, {p.key: p.value for p in model.metadata_props} | {"form": form})
    return model


def _static(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """What `quantize_static` of ONNX Runtime makes of a model."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = [inputs_of(model, n) for n in (10, 11, 12)]

        def get_next(self) -> dict[str, Array] | None:
            return self.rest.pop() if self.rest else None

    types = (QuantType.QUInt8, QuantType.QInt8)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, str(source))
        logging.disable(logging.WARNING)
        try:
            with time_limit(20):  # It does not end for some graphs whose tensors share a scale.
                quantize_static(
                    source,
                    target,
                    Reader(),
                    quant_format=QuantFormat.QDQ if rng.random() < 0.8 else QuantFormat.QOperator,
                    activation_type=types[rng.integers(2)],
                    weight_type=types[rng.integers(2)],
                    per_channel=bool(rng.random() < 0.5),
                    extra_options={
                        "ActivationSymmetric": bool(rng.random() < 0.3),
                        "WeightSymmetric": bool(rng.random() < 0.7),
                    },
                )
        except (Exception, TimeLimit) as error:  # It is not ours, and fails on many graphs.
            raise Rejected(f"quantize_static: {type(error).__name__}") from error
        finally:
            logging.disable(logging.NOTSET)
        made = onnx.load(str(target))
    helper.set_model_props(made, {p.key: p.value for p in model.metadata_props})
    return made


class _Quantizing:
    """Quantizers at random places of a float graph, by the ranges of some inputs."""

    def __init__(self, model: onnx.ModelProto, rng: np.random.Generator, form: str) -> None:
        self.source, self.rng, self.form = model, rng, form
        self.opset = model.opset_import[0].version
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.count = 0
        wide = self.opset >= 21 and rng.random() < 0.25
        self.kind = str(rng.choice(["uint16", "int16"] if wide else ["uint8", "int8"]))
        self.share = float(rng.choice([0.5, 0.8, 1.0]))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _weight(self, array: Array) -> str:
        self.count += 1
        self.weights.append(numpy_helper.from_array(array, f"quantizer{self.count}"))
        return f"quantizer{self.count}"

    def model(self) -> onnx.ModelProto:
        graph = self.source.graph
        ranges = self._ranges()
        taken = {name for node in graph.node if node.op_type in _NO_WEIGHTS for name in node.input}
        renamed: dict[str, str] = {}
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            is_data = array.dtype == np.float32 and tensor.name not in taken
            if is_data and self.chance(self.share * 0.8):
                renamed[tensor.name] = self._constant(tensor.name, array)
            else:
                self.weights.append(tensor)
        outputs = {o.name: o for o in graph.output}
        for value in graph.input:
            if value.name in ranges and self.chance(self.share):
                renamed[value.name] = self._activation(value.name, ranges[value.name])
        for node in graph.node:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            del copy.input[:]
            copy.input.extend(renamed.get(n, n) for n in node.input)
            self.nodes.append(copy)
            for name in node.output:
                if name in ranges and self.chance(max(self.share, 0.85) if name in outputs else self.share):
                    renamed[name] = self._activation(name, ranges[name])
        made = []
        for name, info in outputs.items():
            if name in renamed and self.form == "qdq" and self.chance(0.4):
                source = next(n for n in self.nodes if n.output[0] == renamed[name]).input[0]
                info = helper.make_tensor_value_info(source, self._code_type(source), None)
            elif name in renamed:
                info = helper.make_tensor_value_info(renamed[name], onnx.TensorProto.FLOAT, None)
            made.append(info)
        quantized = helper.make_graph(self.nodes, "fuzz", graph.input, made, self.weights)
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(DOMAIN, 1)] if self.form == "qonnx" else []
        model = helper.make_model(quantized, opset_imports=imports, ir_version=10)
        helper.set_model_props(model, {p.key: p.value for p in self.source.metadata_props})
        return model

    def _code_type(self, codes: str) -> int:
        producer = next(n for n in self.nodes if codes in n.output)
        zero = next(w for w in self.weights if w.name == producer.input[2])
        return int(zero.data_type)

    def _ranges(self) -> dict[str, tuple[float, float]]:
        """Least and largest element of each float tensor that depends on an input."""
        graph = self.source.graph
        varying = {i.name for i in graph.input}
        for node in graph.node:
            if varying.intersection(node.input):
                varying.update(node.output)
        tapped = onnx.ModelProto.FromString(self.source.SerializeToString())
        names = [n for node in graph.node for n in node.output if n and n in varying]
        del tapped.graph.output[:]
        tapped.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
        found: dict[str, tuple[float, float]] = {}
        for number in (10, 11, 12):
            feeds = inputs_of(self.source, number)
            try:
                computed = dict(zip(names, run(tapped, feeds, names), strict=True)) | feeds
            except Exception as error:
                raise Rejected(f"calibration: {error}") from error
            for name, array in computed.items():
                if array.dtype != np.float32:
                    continue
                if not np.isfinite(array).all():
                    raise Rejected("calibration gives infinities")
                low, high = found.get(name, (0.0, 0.0))
                found[name] = (min(low, float(array.min())), max(high, float(array.max())))
        return found

    def _scale(self, low: float, high: float, least: int, largest: int) -> tuple[np.float32, int]:
        """Scale and zero point of a range; symmetric, or a power of two, at random."""
        low, high = min(low, 0.0), max(high, 0.0)
        if high - low < 1e-3:
            high = low + 1.0
        if least < 0 and self.chance(0.4):
            scale, zero = max(-low, high) / largest, 0
        else:
            scale = (high - low) / (largest - least)
            zero = int(np.clip(round(least - low / scale), least, largest))
        if self.chance(0.15):
            scale = 2.0 ** np.ceil(np.log2(scale))
        return np.float32(scale), zero

    def _activation(self, name: str, span: tuple[float, float]) -> str:
        if self.form == "qonnx":
            return self._quant(name, span, None, int(self.rng.integers(2, 9)))
        scale, zero = self._scale(*span, *_KINDS[self.kind])
        return self._pair(name, np.array(scale), np.array(zero, self.kind))

    def _pair(self, name: str, scale: Array, zero: Array, **axis: int) -> str:
        steps = [self._weight(scale), self._weight(zero)]
        codes, values = f"{name}/codes{self.count}", f"{name}/values{self.count}"
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *steps], [codes], **axis))
        self.nodes.append(helper.make_node("DequantizeLinear", [codes, *steps], [values], **axis))
        return values

    def _constant(self, name: str, array: Array) -> str:
        """A weight as codes, or behind a quantizer."""
        axis = int(self.rng.integers(array.ndim)) if array.ndim > 1 and self.chance(0.5) else None
        others = tuple(n for n in range(array.ndim) if n != axis)
        low, high = (
            (array.min(), array.max()) if axis is None else (array.min(axis=others), array.max(axis=others))
        )
        if self.form == "qonnx":
            self.weights.append(numpy_helper.from_array(array, name))
            return self._quant(
                name, (float(np.min(low)), float(np.max(high))), axis, int(self.rng.integers(2, 9)), array
            )
        kind = str(self.rng.choice(["int8", "uint8"]))
        least, largest = _KINDS[kind]
        pairs = [
            self._scale(float(a), float(b), least, largest)
            for a, b in zip(np.atleast_1d(low), np.atleast_1d(high), strict=True)
        ]
        scale, zero = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs], kind)
        if axis is None:
            scale, zero = scale[0], zero[0]
        more = {} if axis is None else {"axis": axis}
        if self.chance(0.3):
            self.weights.append(numpy_helper.from_array(array, name))
            return self._pair(name, np.asarray(scale), np.asarray(zero), **more)
        spread = [-1 if n == axis else 1 for n in range(array.ndim)]
        steps = np.asarray(scale).reshape(spread if axis is not None else ())
        offset = np.asarray(zero).astype(int).reshape(spread if axis is not None else ())
        codes = np.clip(np.rint(array / steps) + offset, least, largest).astype(kind)
        names = [self._weight(codes), self._weight(np.asarray(scale)), self._weight(np.asarray(zero))]
        if self.chance(0.15) and not np.any(zero):
            names.pop()
        made = f"{name}/values{self.count}"
        self.nodes.append(helper.make_node("DequantizeLinear", names, [made], **more))
        return made

    def _quant(
        self, name: str, span: tuple[float, float], axis: int | None, bits: int, array: Array | None = None
    ) -> str:
        signed = span[0] < 0 or self.chance(0.3)
        narrow = int(bits > 2 and self.chance(0.3))
        largest = (1 << bits - 1) - 1 if signed else (1 << bits) - 1 - narrow
        bound = max(-span[0], span[1], 1e-3)
        scale = np.array(np.float32(bound / max(largest, 1)))
        if axis is not None and array is not None:
            others = tuple(n for n in range(array.ndim) if n != axis)
            scale = np.maximum(np.abs(array).max(axis=others, keepdims=True), 1e-3) / np.float32(
                max(largest, 1)
            )
        if self.chance(0.2):
            scale = np.exp2(np.ceil(np.log2(scale)))
        zero = float(self.rng.integers(0, largest + 1)) if self.chance(0.3) else 0.0
        modes = ["ROUND"] * 6 + ["FLOOR", "CEIL", "ROUND_TO_ZERO"]
        names = [
            name,
            self._weight(scale.astype(np.float32)),
            self._weight(np.array(zero, np.float32)),
            self._weight(np.array(bits, np.float32)),
        ]
        made = f"{name}/quant{self.count}"
        node = helper.make_node(
            "Quant",
            names,
            [made],
            domain=DOMAIN,
            signed=int(signed),
            narrow=narrow,
            rounding_mode=str(self.rng.choice(modes)),
        )
        self.nodes.append(node)
        return made
