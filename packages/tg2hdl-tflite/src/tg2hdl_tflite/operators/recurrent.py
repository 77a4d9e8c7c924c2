"""Operators with a state of their own: UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF.

The state is in tensors that the file marks as variable.  It begins at zero and stays from one run to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_ir.tensors.roundings import multipliers
from tg2hdl_tflite.arithmetic import multiplier
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.floats import activated
from tg2hdl_tflite.operators.tables16 import logistic16, tanh16
from tg2hdl_tflite.requantize import clipped, two_roundings, wide_codes
from tg2hdl_tflite.value import LIMITS, TfliteValue, dtype_of

__all__ = ["lstm", "svdf"]

Array = npt.NDArray[Any]
_INT32 = -(1 << 31), 1 << 31
_INT16 = LIMITS["INT16"]
_ARGUMENT = 2.0**-12
"""Scale of the sums of a gate; its results have the scale 2^-15."""
_MOST_STEPS = 256
# Places of the operands: those of the input gate, the forget gate, the cell and the output gate.
_FROM_INPUT, _FROM_OUTPUT, _BIAS = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
_OUTPUT_STATE, _CELL_STATE = 18, 19
_UNUSED = {
    9: "peephole weights",
    10: "peephole weights",
    11: "peephole weights",
    16: "a projection",
} | dict.fromkeys(range(20, 24), "layer normalization")


@dataclass(frozen=True, eq=False)
class _Cells:
    """Weights of all gates: (4 cells, inputs) and (4 cells, cells), and a bias."""

    from_input: Array
    from_output: Array
    bias: Array

    @property
    def count(self) -> int:
        return int(self.from_output.shape[1])


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", version=4)
def lstm(node: TfliteNode) -> Any:
    """One step after the other; all gates of a step are one product."""
    x = node.input(0)
    for place, what in _UNUSED.items():
        if node.has(place):
            raise node.refuse(what, "use an LSTM without it, as Keras makes it")
    if not node.has(_FROM_INPUT[0]) or not node.has(_FROM_OUTPUT[0]):
        raise node.refuse("a shared input and forget gate", "use an LSTM with four gates, as Keras makes it")
    if node.record.options["FusedActivationFunction"] != 4:  # TANH
        raise node.refuse("another activation than TANH", "use an LSTM with tanh")
    cells = _Cells(
        np.concatenate([node.constant(n) for n in _FROM_INPUT]),
        np.concatenate([node.constant(n) for n in _FROM_OUTPUT]),
        np.concatenate([node.constant(n).reshape(-1) for n in _BIAS]),
    )
    sequence = x.tensor
    if node.option("TimeMajor"):
        sequence = sequence.transpose(0, 1)
    if len(sequence.shape) != 3 or sequence.shape[2] != cells.from_input.shape[1]:
        raise node.refuse(
            f"a sequence of shape {x.record.shape} for weights of {cells.from_input.shape}",
            "export the model again",
        )
    if int(sequence.shape[1]) > _MOST_STEPS:
        raise node.refuse(
            f"a sequence of {sequence.shape[1]} steps, which are hardware of their own each (at most {_MOST_STEPS})",
            "export it for fewer steps: the state stays from one run to the next",
        )
    output, cell = node.state(_OUTPUT_STATE), node.state(_CELL_STATE)
    step = _integer_steps if node.is_codes(x, wide=True) else _float_steps
    results, cell_after = step(node, x, sequence, cells, output, cell)
    node.contents.assign_state(output.record, TfliteValue(output.record, results[-1]))
    node.contents.assign_state(cell.record, TfliteValue(cell.record, cell_after))
    found = results[0].stack(*results[1:], dim=1) if len(results) > 1 else results[0].unsqueeze(1)
    return found.transpose(0, 1) if node.option("TimeMajor") else found


def _float_steps(
    node: TfliteNode, x: TfliteValue, sequence: Tensor, cells: _Cells, output: TfliteValue, cell: TfliteValue
) -> tuple[list[Tensor], Tensor]:
    if {output.record.kind, cell.record.kind} != {"FLOAT32"} or cells.from_input.dtype != np.float32:
        raise node.wrong_types(
            {x.record.kind, output.record.kind, cell.record.kind, f"{cells.from_input.dtype}"}
        )
    weights = [
        node.keep(k, w.T, dtypes.float32) for k, w in (("w", cells.from_input), ("u", cells.from_output))
    ]
    sums = sequence.matmul(weights[0]) + node.keep("bias", cells.bias, dtypes.float32)
    h, c, clip = output.tensor, cell.tensor, float(node.option("CellClip"))
    results = []
    for time in range(int(sequence.shape[1])):
        i, f, g, o = (sums[:, time] + h.matmul(weights[1])).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        if clip > 0:
            c = c.maximum(-clip).minimum(clip)
        c = c.contiguous()
        h = (o.sigmoid() * c.tanh()).contiguous()
        results.append(h)
    return results, c


def _integer_steps(
    node: TfliteNode, x: TfliteValue, sequence: Tensor, cells: _Cells, output: TfliteValue, cell: TfliteValue
) -> tuple[list[Tensor], Tensor]:
    """TFLM's arithmetic: gates of int16 by tables, a cell of int16, an output of the type of the input."""
    node.micro_only()
    s_cell, s_out = node.scale_of(cell), node.scale_of(output)
    kind = x.record.kind
    fits = cells.from_input.dtype == cells.from_output.dtype == np.int8
    fits &= cells.bias.dtype == (np.int64 if kind == "INT16" else np.int32)
    if not fits or (output.record.kind, cell.record.kind) != (kind, "INT16"):
        raise node.wrong_types({kind, output.record.kind, cell.record.kind, f"{cells.bias.dtype} biases"})
    if np.frexp(s_cell)[0] != 0.5 or cell.zero:
        raise node.refuse(f"a cell of scale {float(s_cell)}, not a power of two", "quantize the model again")
    count = cells.count
    from_input = _Product(node, "input_", x, cells.from_input, cells.bias, _FROM_INPUT)
    from_output = _Product(
        node, "output_", output, cells.from_output, np.zeros(4 * count, np.int64), _FROM_OUTPUT
    )
    given = from_input(sequence)
    clip = round(max(min(float(node.option("CellClip")) / float(s_cell), 32767.0), 0.0)) or 32767
    kept_pair = multiplier(2.0**-15)
    added_pair = multiplier(2.0**-30 / float(s_cell))
    shown_pair = multiplier(2.0**-30 / float(s_out))
    h, c, results = output.tensor, cell.tensor.cast(dtypes.int32), []
    for time in range(int(sequence.shape[1])):
        total = _short(given[:, time] + from_output(h)).contiguous()
        i, f, g, o = (total[:, n * count : (n + 1) * count] for n in range(4))
        i, f, o = (logistic16(node, v, _ARGUMENT).cast(dtypes.int32) for v in (i, f, o))
        g = tanh16(node, g, _ARGUMENT, "cell_").cast(dtypes.int32)
        kept = _short(two_roundings(node, f * c, kept_pair, "kept_"))
        added = _short(two_roundings(node, i * g, added_pair, "added_"))
        c = clipped(kept + added, -clip, clip, (-65536, 65536)).contiguous()
        shown = tanh16(node, c, float(s_cell), "shown_").cast(dtypes.int32)
        h = two_roundings(node, o * shown, shown_pair, "hidden_") + output.zero
        h = clipped(h, *LIMITS[kind], _INT32).cast(dtype_of(kind)).contiguous()
        results.append(h)
    return results, c.cast(dtypes.int16)


class _Product:
    """Weights of all gates times codes, plus a bias, as arguments of the gates."""

    def __init__(
        self, node: TfliteNode, key: str, x: TfliteValue, weights: Array, bias: Array, places: tuple[int, ...]
    ) -> None:
        self._node, self._key, self._zero = node, key, x.zero
        self._is_wide = x.record.kind == "INT16"
        self._sums = dtypes.int64 if self._is_wide else dtypes.int32
        self._weights = node.keep(f"{key}weights", weights.T, dtypes.int8).cast(dtypes.int32)
        self._bias = node.keep(f"{key}bias", bias, self._sums) if np.any(bias) else None
        scales = [float(x.scale) * _scale_of_weights(node, n) / _ARGUMENT for n in places]
        self._reals = np.repeat(np.array(scales), len(weights) // len(places))
        reach = np.abs(weights.astype(np.int64)).sum(1) * max(abs(v - x.zero) for v in LIMITS[x.record.kind])
        self._bounds = bias.astype(np.int64) - reach, bias.astype(np.int64) + reach

    def __call__(self, codes: Tensor) -> Tensor:
        sums = (codes.cast(dtypes.int32) - self._zero).matmul(self._weights, dtype=self._sums)
        if self._bias is not None:
            sums = sums + self._bias
        if not self._is_wide:
            return _short(two_roundings(self._node, sums, multipliers(self._reals), self._key))
        found, _ = wide_codes(self._node, sums, self._reals, *self._bounds, _INT16, dtypes.int16, self._key)
        return found.cast(dtypes.int32)


def _scale_of_weights(node: TfliteNode, place: int) -> float:
    value = node.input(place)
    scale = float(node.scale_of(value))
    if value.zero:
        raise node.refuse(f"weights with the zero point {value.zero}", "quantize them symmetrically")
    return scale


def _short(number: Tensor) -> Tensor:
    """Saturated to 16 bits."""
    return clipped(number, *_INT16, _INT32).cast(dtypes.int32)


@operator("SVDF", version=4)
def svdf(node: TfliteNode) -> Any:
    """A product with features, whose last results are kept and summed by weights over time."""
    x, feature, time = node.input(0), node.constant(1), node.constant(2)
    rank = int(node.option("Rank"))
    rows, filters = x.record.shape[0], feature.shape[0]
    state = node.state(4)
    if (
        rank < 1
        or filters % rank
        or time.shape[0] != filters
        or math.prod(state.record.shape) != rows * time.size
    ):
        raise node.refuse(
            f"features of {feature.shape}, time of {time.shape}, state of {state.record.shape} and rank {rank}",
            "export the model again",
        )
    units = filters // rank
    bias = node.constant(3) if node.has(3) else np.zeros(units, np.int32)
    past = state.tensor.reshape(rows, filters, time.shape[1])
    if not node.is_codes(x):
        matrix = node.keep("features", feature.T, dtypes.float32)
        past = past[:, :, 1:].cat(x.tensor.matmul(matrix).unsqueeze(-1), dim=2).contiguous()
        number = (past * node.keep("times", time, dtypes.float32)).sum(-1).reshape(rows, units, rank).sum(-1)
        if np.any(bias):
            number = number + node.keep("bias", bias, dtypes.float32)
        node.contents.assign_state(state.record, TfliteValue(state.record, past.reshape(state.record.shape)))
        return activated(node, number)
    s_out, zero = node.out_quantization()
    kinds = {state.record.kind, node.input(2).record.kind}
    if feature.dtype != np.int8 or bias.dtype != np.int32 or len(kinds) > 1 or not kinds <= {"INT8", "INT16"}:
        raise node.wrong_types({x.record.kind, f"{feature.dtype}", f"{bias.dtype}", *kinds})
    s_state, s_time = node.scale_of(state), _scale_of_weights(node, 2)
    before = multiplier(float(x.scale) * _scale_of_weights(node, 1) / float(s_state))
    after = multiplier(float(s_state) * s_time / float(s_out))
    steps = x.tensor.cast(dtypes.int32) - x.zero
    sums = steps.matmul(node.keep("features", feature.T, dtypes.int8).cast(dtypes.int32))
    kind = dtype_of(state.record.kind)
    limits = LIMITS[state.record.kind]
    new = clipped(two_roundings(node, sums, before, "features_") + state.zero, *limits, _INT32).cast(kind)
    past = past[:, :, 1:].cat(new.unsqueeze(-1), dim=2).contiguous()
    node.contents.assign_state(state.record, TfliteValue(state.record, past.reshape(state.record.shape)))
    weights = node.keep("times", time, kind).cast(dtypes.int32)
    total = ((past.cast(dtypes.int32) - state.zero) * weights).sum(-1).reshape(rows, units, rank).sum(-1)
    if np.any(bias):
        total = total + node.keep("bias", bias, dtypes.int32)
    # TFLM does not apply the fused activation to codes.
    number = two_roundings(node, total, after, "times_") + zero
    return clipped(number, *LIMITS["INT8"], _INT32).cast(dtypes.int8)
