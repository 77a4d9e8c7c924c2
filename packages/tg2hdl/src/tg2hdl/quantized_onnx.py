"""A float ONNX file to a quantized one: QuantizeLinear and DequantizeLinear with the scales of this project.

ONNX Runtime places the quantizers; calibration methods, scales and codes of weights are those of `tg2hdl_quant`.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.quantization import first_samples, samples_as_declared
from tg2hdl.quantized_model import QuantizedModel, integer_model
from tg2hdl_backend import TensorSpec
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.onnx_runtime import runtime_session
from tg2hdl_ir import InputError, ToolMissingError
from tg2hdl_ir.files import write_file
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed, calibration_method
from tg2hdl_quant.graph.report import sqnr
from tg2hdl_quant.graph.samples import checked_labels, checked_samples
from tg2hdl_quant.graph.scales import activation_scale, weight_scales

__all__ = ["QuantizedFile", "write_quantized_onnx"]

Array = npt.NDArray[Any]
_MEASURED = 512
_KEPT = 1 << 17
_WEIGHTED = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
"""Axis of the output channels in weights."""
_NOT_IN_FILES = (
    "float_layers",
    "allow_float",
    "bias_correction",
    "weight_rounding",
    "activations",
    "equalization",
    "internal_bits",
    "output_bits",
    "multiplier_bits",
    "input_scales",
)


@dataclass(frozen=True, eq=False)
class QuantizedFile:
    """A written file, and the error of the quantization.

    Parameters
    ----------
    model : QuantizedModel
        The file as an integer model.
    samples : int
        How many samples were measured.
    differs : float
        Share of output values that differ between ONNX Runtime and the integers.
    output_sqnr : float
        Of the first output against the float model (dB).
    agreement : float or None
        Share of samples with the same largest output; None where outputs are not scores.
    float_accuracy, accuracy : float or None
        Share of right classes, when labels were given.
    """

    model: QuantizedModel
    samples: int
    differs: float
    output_sqnr: float
    agreement: float | None
    float_accuracy: float | None
    accuracy: float | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        numbers = {k: v for k, v in vars(self).items() if k != "model"}
        return numbers | {"import": asdict(self.model.report)}

    def __str__(self) -> str:
        lines = [str(self.model.report)]
        lines.append(f"outputs: SQNR {self.output_sqnr:.1f} dB on {self.samples} samples")
        lines.append(f"outputs that differ from ONNX Runtime's: {self.differs:.4%}")
        if self.agreement is not None:
            lines.append(f"agreement with the float model: {self.agreement:.2%}")
        if self.accuracy is not None and self.float_accuracy is not None:
            lines.append(f"accuracy: {self.accuracy:.2%}, float {self.float_accuracy:.2%}")
        return "\n".join([*lines, *(f"warning: {w}" for w in self.warnings)])


def write_quantized_onnx(
    path: str | PathLike[str],
    samples: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike],
    target: str | PathLike[str],
    options: QuantizeOptions | None = None,
    labels: npt.ArrayLike | None = None,
    *,
    batched: bool = True,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> QuantizedFile:
    """Quantize an ONNX file to 8-bit activations, and compare ONNX Runtime with the integers of the result.

    Activations are unsigned: zero is code 0 where samples have no negative value, and code 128 elsewhere.

    Parameters
    ----------
    samples : sequence of arrays, or mapping of str to array
        One array per input, in their order or by name; its first axis counts samples.
    batched : bool
        As for `tg2hdl.quantize`.
    batch, dims
        As for `OnnxModel`, where the samples do not give the sizes.
    options : QuantizeOptions, optional
        Of these `weight_bits`, `layers` (by node), `per_channel`, `calibration`, `requantization` and `seed`; rounding
        is that of ONNX, half to even.

    Raises
    ------
    InputError
        For samples that do not fit, labels of another length, activations of other than 8 bits.
    ToolMissingError
        Without the packages onnx and onnxruntime.
    """
    for package in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ToolMissingError(
                f"writing {Path(target).name} needs the package {package}",
                hint='pip install "tg2hdl[quantize]"',
            )
    options = options or QuantizeOptions()
    if options.bits != 8:
        raise InputError(
            f"bits={options.bits}: codes of activations in ONNX files have 8 bits",
            hint="give weight_bits for narrower weights, or write a .npz file",
        )
    other = [n for n in _NOT_IN_FILES if getattr(options, n) != getattr(QuantizeOptions(), n)]
    if other:
        raise InputError(
            f"{other[0]} has no effect in an ONNX file", hint="leave it out, or write a .npz file"
        )
    wide = [b for b in (options.weights, *options.layers.values()) if b > 8]
    if wide:
        raise InputError(
            f"weights of {wide[0]} bits: codes of weights in ONNX files have up to 8",
            hint="write a .npz file",
        )
    from tg2hdl_backend import OnnxModel

    model = OnnxModel(path, batch=batch, dims=dims, examples=first_samples(samples, batched))
    if isinstance(samples, Mapping):
        samples = in_input_order(samples, model.input_names, "the dict of samples")
    arrays = samples_as_declared(model.inputs, [np.asarray(s) for s in samples], batched)
    with TemporaryDirectory() as folder:
        return _write(Path(path), model.inputs, arrays, Path(target), options, labels, Path(folder))


def _write(
    path: Path,
    specs: Sequence[TensorSpec],
    samples: Sequence[Array],
    target: Path,
    options: QuantizeOptions,
    labels: npt.ArrayLike | None,
    folder: Path,
) -> QuantizedFile:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    arrays = checked_samples(
        [s.name for s in specs], [s.shape for s in specs], [s.dtype.numpy() for s in specs], samples
    )
    right = checked_labels(labels, len(arrays[0]))
    names = [s.name for s in specs]
    feeds = [dict(zip(names, row, strict=True)) for row in zip(*arrays, strict=True)]
    prepared = folder / "prepared.onnx"
    logging.getLogger().addFilter(_no_advice)
    onnx.save(onnx.load(path), prepared)  # In one file, where the weights were in another.
    quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
    proto = onnx.load(prepared)
    observed = _observed(proto, feeds, options.seed, folder)
    overrides = _activations(observed, options) | _weights(proto, options)
    onnx.save(proto, prepared)
    quantization.quantize_static(
        str(prepared),
        str(folder / "quantized.onnx"),
        _SampleReader(feeds[:1]),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=options.per_channel,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        extra_options={"TensorQuantOverrides": overrides},
    )
    write_file(target, (folder / "quantized.onnx").read_bytes())
    warnings = [
        f"{n} is constant ({o.low:.4g}) on all samples" for n, o in observed.items() if o.low == o.high
    ]
    return _measured(path, target, arrays, feeds, right, tuple(warnings))


def _no_advice(record: logging.LogRecord) -> bool:
    """Leave out the advice to run the preparation, which has run."""
    return "pre-processing" not in record.getMessage()


class _SampleReader:
    """Samples as ONNX Runtime's quantizer asks for them; all ranges are given, so one is enough."""

    def __init__(self, feeds: Sequence[dict[str, Array]]) -> None:
        self._rest = iter(feeds)

    def get_next(self) -> dict[str, Array] | None:
        """The next sample."""
        return next(self._rest, None)


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return runtime_session(str(file), options)


def _observed(proto: Any, feeds: Sequence[dict[str, Array]], seed: int, folder: Path) -> dict[str, Observed]:
    """Values of all float tensors on the samples."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(proto)
    known = [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
    floats = {v.name for v in known if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
    outputs = [o.name for o in proto.graph.output]
    inner = [n for n in (o for node in proto.graph.node for o in node.output) if n in floats]
    for name in inner:
        if name not in outputs:
            inferred.graph.output.append(
                onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
            )
    onnx.save(inferred, folder / "observed.onnx")
    session = _session(folder / "observed.onnx")
    rng = np.random.default_rng(seed)
    kept: dict[str, list[Array]] = {}
    share = max(1, _KEPT // len(feeds))
    for feed in feeds:
        values = dict(zip(inner, session.run(inner, feed), strict=True))
        for name, value in (values | {n: a for n, a in feed.items() if a.dtype.kind == "f"}).items():
            flat = value.reshape(-1).astype(np.float64)
            bounds = [flat.min(), flat.max()]
            some = flat if flat.size <= share else rng.choice(flat, share, replace=False)
            kept.setdefault(name, []).append(np.append(some, bounds))
    joined = {name: np.concatenate(parts) for name, parts in kept.items()}
    return {name: Observed(v, float(v.min()), float(v.max())) for name, v in joined.items()}


def _activations(observed: dict[str, Observed], options: QuantizeOptions) -> dict[str, list[dict[str, Any]]]:
    from onnxruntime.quantization import QuantType

    method = calibration_method(options.calibration)
    found = {}
    for name, values in observed.items():
        low, high = method(values, 8)
        zero, limit = (0, 255) if values.low >= 0 else (128, 127)
        bound = max(high, 0.0 if zero == 0 else -low)
        scale = activation_scale(values.values, bound, limit, -zero, options.is_shift)
        found[name] = [
            {
                "quant_type": QuantType.QUInt8,
                "scale": np.array(scale, np.float32),
                "zero_point": np.array(zero, np.uint8),
            }
        ]
    return found


def _weights(proto: Any, options: QuantizeOptions) -> dict[str, list[dict[str, Any]]]:
    """Scales of the weights, which are clipped in the file to the codes of their width."""
    import onnx
    from onnxruntime.quantization import QuantType

    arrays = {i.name: i for i in proto.graph.initializer}
    found: dict[str, list[dict[str, Any]]] = {}
    quantized = []
    for node in proto.graph.node:
        if node.op_type not in _WEIGHTED or len(node.input) < 2 or node.input[1] not in arrays:
            continue
        weights = onnx.numpy_helper.to_array(arrays[node.input[1]]).astype(np.float64)
        axis = _WEIGHTED[node.op_type]
        if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute):
            axis = 0
        if weights.ndim < 2 or (node.op_type == "MatMul" and weights.ndim != 2):
            continue
        quantized.append(node.name)
        bits = options.layers.get(node.name, options.weights)
        limit = (1 << (bits - 1)) - 1
        axes = tuple(n for n in range(weights.ndim) if n != axis or not options.per_channel)
        scales = weight_scales(weights, axes, limit, options.is_shift, search=bits < 6)
        clipped = np.clip(weights, -limit * scales, limit * scales).astype(np.float32)
        arrays[node.input[1]].CopyFrom(onnx.numpy_helper.from_array(clipped, node.input[1]))
        zero = np.array(0, np.int8)
        one = {"quant_type": QuantType.QInt8, "zero_point": zero} | (
            {"axis": axis} if scales.size > 1 else {}
        )
        found[node.input[1]] = [one | {"scale": np.array(v, np.float32)} for v in scales.reshape(-1)]
    unknown = sorted(set(options.layers) - set(quantized))
    if unknown:
        raise InputError(
            f"the file has no node {unknown[0]!r} with weights to quantize",
            hint="one of: " + ", ".join(filter(None, quantized)),
        )
    return found


def _measured(
    path: Path,
    target: Path,
    arrays: Sequence[Array],
    feeds: Sequence[dict[str, Array]],
    labels: Array | None,
    warnings: tuple[str, ...],
) -> QuantizedFile:
    from tg2hdl_backend import OnnxModel

    model = integer_model(OnnxModel(target, examples=[a[0] for a in arrays]))
    chosen = np.linspace(0, len(feeds) - 1, min(_MEASURED, len(feeds))).astype(int)
    before, after = _session(path), _session(target)
    expected = np.array([before.run(None, feeds[n])[0] for n in chosen])
    runtime = np.array([after.run(None, feeds[n])[0] for n in chosen])
    found = model.evaluate(*(a[chosen] for a in arrays))
    found = (found[0] if isinstance(found, tuple) else found).reshape(runtime.shape)
    scores, results = expected.reshape(len(chosen), -1), found.reshape(len(chosen), -1)
    several = scores.shape[1] > 1
    right = None if labels is None or not several else labels[chosen]
    return QuantizedFile(
        model,
        len(chosen),
        float((found != runtime).mean()),
        sqnr(expected, found),
        float((scores.argmax(1) == results.argmax(1)).mean()) if several else None,
        None if right is None else float((scores.argmax(1) == right).mean()),
        None if right is None else float((results.argmax(1) == right).mean()),
        warnings,
    )
