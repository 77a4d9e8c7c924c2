"""RNN, GRU and LSTM, unrolled over the steps of the sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators import real_functions
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = ["gru", "lstm", "rnn"]

Activation = Callable[[Tensor], Tensor]


def _activations(node: OnnxNode, default: list[str], directions: int) -> list[Activation]:
    names = node.attribute("activations") or default * directions
    alphas, betas = list(node.attribute("activation_alpha", [])), list(node.attribute("activation_beta", []))
    found = []
    for name in names:
        defaults = _PARAMETERS.get(name.lower(), ())
        values = [
            source.pop(0) if source else d for source, d in zip((alphas, betas), defaults, strict=False)
        ]
        if name.lower() not in _FUNCTIONS:
            raise node.unsupported(f"activation {name}", "use one of " + ", ".join(sorted(_FUNCTIONS)))
        found.append(_FUNCTIONS[name.lower()](*values))
    return found


_PARAMETERS: dict[str, tuple[float, ...]] = {
    "leakyrelu": (0.01,),
    "thresholdedrelu": (1.0,),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "affine": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
}
_FUNCTIONS: dict[str, Callable[..., Activation]] = {
    "relu": lambda: Tensor.relu,
    "tanh": lambda: real_functions.tanh,
    "sigmoid": lambda: Tensor.sigmoid,
    "softsign": lambda: Tensor.softsign,
    "softplus": lambda: real_functions.softplus,
    "leakyrelu": lambda a: lambda x: (x < 0).where(x * a, x),
    "thresholdedrelu": lambda a: lambda x: (x > a).where(x, 0),
    "elu": lambda a: lambda x: real_functions.elu(x, a),
    "hardsigmoid": lambda a, b: lambda x: (x * a + b).clamp(0, 1),
    "affine": lambda a, b: lambda x: x * a + b,
    "scaledtanh": lambda a, b: lambda x: real_functions.tanh(x * b) * a,
}


class _Layer:
    """Common attributes of the three: layout, directions, lengths, initial states."""

    def __init__(self, node: OnnxNode, x: Tensor, r: Tensor, lengths: Tensor | None) -> None:
        self.node = node
        self.batch_first = bool(node.attribute("layout", 0))
        self.x = x.transpose(0, 1) if self.batch_first else x
        self.steps, self.batch = self.x.shape[0], self.x.shape[1]
        self.hidden, self.lengths = node.attribute("hidden_size", r.shape[2]), lengths
        self._same_size(r)
        kind = node.attribute("direction", "forward")
        self.directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[kind]
        self.clip = node.attribute("clip")

    def _same_size(self, given: Tensor) -> None:
        if sizes_of(given)[-1] != self.hidden:
            raise self.node.unsupported(
                f"a state of {sizes_of(given)[-1]} for hidden_size={self.hidden}: ONNX's operator has no projection",
                "write the steps of the layer with linear layers and export those",
            )

    def clipped(self, x: Tensor) -> Tensor:
        return x if self.clip is None else x.clamp(-self.clip, self.clip)

    def initial(self, state: Tensor | None, direction: int) -> Tensor:
        if state is None:
            return self.x.const_like(0)[0, :, :1].expand(self.batch, self.hidden)
        self._same_size(state)
        return state[:, direction] if self.batch_first else state[direction]

    def order(self, backward: bool) -> range:
        return range(self.steps - 1, -1, -1) if backward else range(self.steps)

    def kept(self, step: int, new: Tensor, old: Tensor) -> Tensor:
        """The new state where the sequence still lasts."""
        if self.lengths is None:
            return new
        return (self.lengths > step).reshape(-1, 1).where(new, old)

    def results(self, rows: list[list[Tensor]], last: list[list[Tensor]]) -> tuple[Tensor, ...]:
        """All hidden states, then the last of each state."""
        y = Tensor.stack(*(Tensor.stack(*row, dim=0) for row in rows), dim=1)
        states = [Tensor.stack(*each, dim=0) for each in last]
        if self.batch_first:
            y, states = y.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in states]
        return (y, *states)

    def masked(self, step: int, value: Tensor) -> Tensor:
        """Zero past the end of a sequence."""
        return value if self.lengths is None else (self.lengths > step).reshape(-1, 1).where(value, 0)


def _biases(b: Tensor | None, direction: int, count: int, like: Tensor) -> list[Any]:
    """Input biases, then recurrent biases, of each gate."""
    return [0.0] * (2 * count) if b is None else list(b[direction].chunk(2 * count))


def rnn(node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """``h = f(x W + h R + b)``.

    Parameters
    ----------
    node, x, w, r, *rest
        The node and its inputs, as ONNX defines `RNN`.
    """
    b, lengths, h0 = (*rest, None, None, None)[:3]
    layer = _Layer(node, x, r, lengths)
    functions = _activations(node, ["Tanh"], len(layer.directions))
    rows, last = [], []
    for d, backward in enumerate(layer.directions):
        wb, rb = _biases(b, d, 1, x)
        h, row = layer.initial(h0, d), {}
        for t in layer.order(backward):
            total = layer.x[t] @ w[d].transpose(0, 1) + h @ r[d].transpose(0, 1) + wb + rb
            h = layer.kept(t, functions[d](layer.clipped(total)), h).contiguous()
            row[t] = layer.masked(t, h)
        rows.append([row[t] for t in range(layer.steps)])
        last.append(h)
    return layer.results(rows, [last])


def gru(node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Gates z, r, h of ONNX; the reset gate is applied before or after the recurrent product.

    Parameters
    ----------
    node, x, w, r, *rest
        The node and its inputs, as ONNX defines `GRU`.
    """
    b, lengths, h0 = (*rest, None, None, None)[:3]
    layer = _Layer(node, x, r, lengths)
    functions = _activations(node, ["Sigmoid", "Tanh"], len(layer.directions))
    after = node.attribute("linear_before_reset", 0)
    rows, last = [], []
    for d, backward in enumerate(layer.directions):
        f, g = functions[2 * d : 2 * d + 2]
        wz, wr, wh, rz, rr, rh = _biases(b, d, 3, x)
        uz, ur, uh = r[d].chunk(3)
        h, row = layer.initial(h0, d), {}
        for t in layer.order(backward):
            xz, xr, xh = (layer.x[t] @ w[d].transpose(0, 1)).chunk(3, dim=1)
            z = f(layer.clipped(xz + h @ uz.transpose(0, 1) + wz + rz))
            reset = f(layer.clipped(xr + h @ ur.transpose(0, 1) + wr + rr)).contiguous()
            if after:
                inner = reset * (h @ uh.transpose(0, 1) + rh) + wh
            else:
                inner = (reset * h) @ uh.transpose(0, 1) + rh + wh
            candidate = g(layer.clipped(xh + inner))
            h = layer.kept(t, (1 - z) * candidate + z * h, h).contiguous()
            row[t] = layer.masked(t, h)
        rows.append([row[t] for t in range(layer.steps)])
        last.append(h)
    return layer.results(rows, [last])


def lstm(node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Gates i, o, f, c of ONNX, with peepholes.

    Parameters
    ----------
    node, x, w, r, *rest
        The node and its inputs, as ONNX defines `LSTM`.
    """
    b, lengths, h0, c0, p = (*rest, None, None, None, None, None)[:5]
    layer = _Layer(node, x, r, lengths)
    functions = _activations(node, ["Sigmoid", "Tanh", "Tanh"], len(layer.directions))
    rows: list[list[Tensor]] = []
    last: list[list[Tensor]] = [[], []]
    for d, backward in enumerate(layer.directions):
        f, g, k = functions[3 * d : 3 * d + 3]
        wi, wo, wf, wc, ri, ro, rf, rc = _biases(b, d, 4, x)
        pi, po, pf = (None, None, None) if p is None else p[d].chunk(3)
        h, c, row = layer.initial(h0, d), layer.initial(c0, d), {}
        for t in layer.order(backward):
            gates = layer.x[t] @ w[d].transpose(0, 1) + h @ r[d].transpose(0, 1)
            i, o, forget, cell = gates.chunk(4, dim=1)
            i = f(layer.clipped(i + wi + ri + (0 if pi is None else pi * c)))
            if node.attribute("input_forget", 0):
                forget = 1 - i
            else:
                forget = f(layer.clipped(forget + wf + rf + (0 if pf is None else pf * c)))
            new_c = (forget * c + i * g(layer.clipped(cell + wc + rc))).contiguous()
            o = f(layer.clipped(o + wo + ro + (0 if po is None else po * new_c)))
            h, c = layer.kept(t, o * k(new_c), h).contiguous(), layer.kept(t, new_c, c)
            row[t] = layer.masked(t, h)
        rows.append([row[t] for t in range(layer.steps)])
        last[0].append(h)
        last[1].append(c)
    return layer.results(rows, last)
