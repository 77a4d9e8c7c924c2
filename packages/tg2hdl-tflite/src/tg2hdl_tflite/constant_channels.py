"""Channels whose code never changes: their products become parts of biases, with the same bits.

Training for few parameters leaves channels without weights; bounds of the codes prove them constant. A channel goes
where every reader can do without it: a convolution takes its share into the biases, unless padding replaces it by
another code at the borders; a depthwise convolution and a pool lose the same channel of their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_tflite.file import Graph, OperatorRecord, TensorRecord
from tg2hdl_tflite.value import Value

__all__ = ["without_constant_channels"]

Array = npt.NDArray[Any]
_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
_INT32 = 1 << 31
_STEP = 8
"""As many channels stay as a multiple of this, so that lanes divide them; at least one."""


def without_constant_channels(graph: Graph, values: Mapping[int, Value]) -> Graph:
    """The graph with the same results and fewer channels; itself where all channels are needed.

    Parameters
    ----------
    values : mapping of int to Value
        Of all tensors, with bounds of their codes.
    """
    found = _Folding(graph, values)
    return found.graph() if found.removed else graph


class _Folding:
    """Decides which channels go, and writes the graph without them."""

    def __init__(self, graph: Graph, values: Mapping[int, Value]) -> None:
        self._graph, self._tensors = graph, list(graph.tensors)
        self._readers: dict[int, list[OperatorRecord]] = {}
        self._makers = {out: o for o in graph.operators for out in o.outputs}
        for operator in graph.operators:
            for number in operator.inputs:
                self._readers.setdefault(number, []).append(operator)
        self._codes: dict[int, Array] = {}
        self.removed: dict[int, Array] = {}
        for number, value in values.items():
            bounds, record = value.bounds, value.record
            if self._may_shrink(number, record) and bounds is not None:
                low, high = (np.broadcast_to(v, record.shape[-1:]) for v in (bounds.low, bounds.high))
                if np.any(low == high):
                    self._codes[number], self.removed[number] = low.astype(np.int64), low == high
        self._settle()

    def _may_shrink(self, number: int, record: TensorRecord) -> bool:
        maker = self._makers.get(number)
        if maker is None or number in self._graph.outputs or record.kind != "INT8" or not record.shape:
            return False
        if maker.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            return all(self._is_own(n) for n in maker.inputs[1:])
        return maker.name in _POOLS or maker.name == "RESHAPE"

    def _is_own(self, number: int) -> bool:
        """Whether only one operator reads a constant."""
        return number < 0 or (len(self._readers[number]) == 1 and self._tensors[number].data is not None)

    def _settle(self) -> None:
        """Keep each channel that a reader or the maker needs, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for number in list(self.removed):
                kept = self._allowed(number)
                if np.any(self.removed[number] & ~kept):
                    self.removed[number] = self.removed[number] & kept
                    changed = True
                if not np.any(self.removed[number]):
                    del self.removed[number]

    def _allowed(self, number: int) -> Array:
        """Channels of a tensor that its maker and its readers can do without."""
        count = self._tensors[number].shape[-1]
        allowed = np.ones(count, bool)
        maker = self._makers[number]
        if maker.name != "CONV_2D":
            allowed &= self._through(maker, count)
        for reader in self._readers.get(number, ()):
            allowed &= self._by_reader(reader, number, count)
        gone = np.flatnonzero(self.removed[number] & allowed)
        step = 1 if count % _STEP else _STEP
        wanted = max(-(-(count - len(gone)) // step), 1) * step
        allowed = allowed.copy()
        allowed[gone[: wanted - (count - len(gone))]] = False
        return allowed

    def _through(self, maker: OperatorRecord, count: int) -> Array:
        """Channels of a result that are channels of an operand which go too."""
        source = maker.inputs[0]
        channels = self._tensors[source].shape[-1]
        if source not in self.removed or count % channels or (maker.name == "RESHAPE" and count != channels):
            return np.zeros(count, bool)
        return np.repeat(self.removed[source], count // channels)

    def _by_reader(self, reader: OperatorRecord, number: int, count: int) -> Array:
        out = reader.outputs[0] if reader.outputs else -1
        if reader.name in (*_POOLS, "DEPTHWISE_CONV_2D", "RESHAPE") and reader.inputs[0] == number:
            if reader.inputs[1:2] == (number,) or out not in self.removed:
                return np.zeros(count, bool)
            gone = self.removed[out]
            if len(gone) % count or (reader.name == "RESHAPE" and len(gone) != count):
                return np.zeros(count, bool)
            return np.asarray(gone.reshape(count, -1).all(1))
        if reader.name not in ("CONV_2D", "FULLY_CONNECTED") or reader.inputs[0] != number:
            return np.zeros(count, bool)
        if not all(self._is_own(n) for n in reader.inputs[1:]) or len(reader.inputs) < 3:
            return np.zeros(count, bool)
        weights = self._tensors[reader.inputs[1]]
        if weights.shape[-1] != count or reader.inputs[2] < 0 or weights.data is None or np.any(weights.zero):
            return np.zeros(count, bool)
        if reader.name == "CONV_2D" and not reader.options["Padding"] and weights.shape[1:3] != (1, 1):
            zero = int(self._tensors[number].zero[0])
            return np.asarray(self._codes[number] == zero)
        largest = np.abs(weights.data.astype(np.int64)).reshape(weights.shape[0], -1, count).sum(1).max(0)
        bias = self._tensors[reader.inputs[2]].data
        assert bias is not None
        # A bias that has room for all shares.
        room = _INT32 - int(np.abs(bias.astype(np.int64)).max(initial=0)) - 1
        return np.asarray(largest * 255 * count < room)

    def graph(self) -> Graph:
        """The graph without the channels."""
        for operator in self._graph.operators:
            if operator.name in ("CONV_2D", "FULLY_CONNECTED") and operator.inputs[0] in self.removed:
                self._fold(operator)
        for operator in self._graph.operators:
            if not operator.outputs or operator.outputs[0] not in self.removed:
                continue
            keep = ~self.removed[operator.outputs[0]]
            if operator.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
                axis = 0 if operator.name == "CONV_2D" else 3
                self._take(operator.inputs[1], keep, axis)
                if len(operator.inputs) > 2 and operator.inputs[2] >= 0:
                    self._take(operator.inputs[2], keep, 0)
        for number, removed in self.removed.items():
            record = self._tensors[number]
            shape = (*record.shape[:-1], int(np.count_nonzero(~removed)))
            self._tensors[number] = replace(record, shape=shape)
        return replace(self._graph, tensors=tuple(self._tensors))

    def _fold(self, operator: OperatorRecord) -> None:
        """Shares of constant channels into the biases, and their weights away."""
        number, (weights, bias) = operator.inputs[0], (self._tensors[n] for n in operator.inputs[1:3])
        removed, zero = self.removed[number], int(self._tensors[number].zero[0])
        assert weights.data is not None
        assert bias.data is not None
        steps = np.where(removed, self._codes[number] - zero, 0)
        share = (weights.data.astype(np.int64) * steps).reshape(weights.shape[0], -1).sum(1)
        total = bias.data.astype(np.int64) + share
        self._tensors[operator.inputs[2]] = replace(bias, data=total.astype(np.int32))
        self._take(operator.inputs[1], ~removed, weights.data.ndim - 1)

    def _take(self, number: int, keep: Array, axis: int) -> None:
        """Slices of a constant, with their scales."""
        record = self._tensors[number]
        assert record.data is not None
        data = np.compress(keep, record.data, axis)
        scale, zero = record.scale, record.zero
        if record.scale.size == len(keep) and record.axis == axis and len(keep) > 1:
            scale, zero = scale[keep], zero[keep]
        self._tensors[number] = replace(record, data=data, shape=data.shape, scale=scale, zero=zero)
